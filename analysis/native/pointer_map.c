/* SPDX-License-Identifier: BSD-3-Clause */
#include "pointer_map.h"

#include <errno.h>
#include <stdlib.h>

#define FIRST_BITS 6

static void insert(struct pointer_map *map, const void *key, void *value)
{
    size_t i = pointer_map_place(map, key);

    while (map->pairs[i].key != NULL)
        i = (i + 1) & (((size_t)1 << map->bits) - 1);
    map->pairs[i] = (struct pointer_pair){key, value};
}

static int grow(struct pointer_map *map)
{
    struct pointer_map grown = {.bits = map->pairs == NULL ? FIRST_BITS : map->bits + 1};

    grown.pairs = calloc((size_t)1 << grown.bits, sizeof(*grown.pairs));
    if (grown.pairs == NULL)
        return -ENOMEM;
    for (size_t i = 0; map->pairs != NULL && i < (size_t)1 << map->bits; i++) {
        if (map->pairs[i].key != NULL)
            insert(&grown, map->pairs[i].key, map->pairs[i].value);
    }
    grown.count = map->count;
    free(map->pairs);
    *map = grown;
    return 0;
}

int pointer_map_add(struct pointer_map *map, const void *key, void *value)
{
    if (map->pairs == NULL || 2 * (map->count + 1) > (size_t)1 << map->bits) {
        const int rc = grow(map);

        if (rc != 0)
            return rc;
    }
    insert(map, key, value);
    map->count++;
    return 0;
}

void pointer_map_free(struct pointer_map *map)
{
    free(map->pairs);
    *map = (struct pointer_map){0};
}
