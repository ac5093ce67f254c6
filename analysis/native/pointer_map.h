/* SPDX-License-Identifier: BSD-3-Clause
 * From objects of Babeltrace, known by their address, to what we know of them. Once an event, so it
 * is a hash table with open addressing; nothing is ever removed. */
#ifndef FABT_POINTER_MAP_H
#define FABT_POINTER_MAP_H

#include <stddef.h>
#include <stdint.h>

struct pointer_map {
    struct pointer_pair {
        const void *key;
        void *value;
    } * pairs;
    size_t count;
    unsigned bits; /* 2^bits pairs, at most half of them in use */
};

/* Adds a key that is not there yet. 0 or -ENOMEM. */
int pointer_map_add(struct pointer_map *map, const void *key, void *value);
void pointer_map_free(struct pointer_map *map);

static inline size_t pointer_map_place(const struct pointer_map *map, const void *key)
{
    /* The golden ratio spreads addresses, which are multiples of 8 or more, over the high bits. */
    return (size_t)(((uint64_t)(uintptr_t)key * UINT64_C(0x9E3779B97F4A7C15)) >> (64 - map->bits));
}

/* The key's value, or NULL. */
static inline void *pointer_map_find(const struct pointer_map *map, const void *key)
{
    if (map->pairs == NULL)
        return NULL;
    for (size_t i = pointer_map_place(map, key);; i = (i + 1) & (((size_t)1 << map->bits) - 1)) {
        if (map->pairs[i].key == key)
            return map->pairs[i].value;
        if (map->pairs[i].key == NULL)
            return NULL;
    }
}

#endif
