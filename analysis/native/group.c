/* SPDX-License-Identifier: BSD-3-Clause */
#include "group.h"

#include <errno.h>
#include <stdlib.h>

/* Keys by number in a table with open addressing; 0 is free, else number + 1. */
struct key_table {
    uint32_t *slots;
    uint64_t mask;
};

static inline uint64_t scatter(uint64_t key)
{
    key *= UINT64_C(0x9E3779B185EBCA87);
    return key ^ (key >> 32);
}

/* The slot of a key, or the free one where it belongs. */
static inline uint64_t slot_of(const struct key_table *table, const uint64_t *keys, uint64_t key)
{
    uint64_t at = scatter(key) & table->mask;

    while (table->slots[at] != 0 && keys[table->slots[at] - 1] != key)
        at = (at + 1) & table->mask;
    return at;
}

static int key_table_make(struct key_table *table, const uint64_t *keys, uint32_t known,
                          uint32_t capacity)
{
    uint64_t size = 16;

    while (size < UINT64_C(2) * capacity)
        size *= 2;
    *table = (struct key_table){calloc(size, sizeof(*table->slots)), size - 1};
    if (table->slots == NULL)
        return -ENOMEM;
    for (uint32_t i = 0; i < known; i++)
        table->slots[slot_of(table, keys, keys[i])] = i + 1;
    return 0;
}

int64_t group_number(const uint32_t *high, unsigned shift, const uint32_t *low, uint64_t rows,
                     int32_t *numbers, uint64_t *keys, uint32_t known, uint32_t capacity)
{
    struct key_table table;
    const int rc = key_table_make(&table, keys, known, capacity);
    uint64_t last_key = 0;
    int32_t last = -1; /* as a rule several rows in a row have the same key */

    if (rc != 0)
        return rc;
    for (uint64_t i = 0; i < rows; i++) {
        const uint64_t key = (uint64_t)(high[i] >> shift) << 32 | (low == NULL ? 0 : low[i]);

        if (key != last_key || last < 0) {
            uint32_t *slot = &table.slots[slot_of(&table, keys, key)];

            if (*slot == 0) {
                if (known == capacity) {
                    free(table.slots);
                    return -ENOSPC;
                }
                keys[known] = key;
                *slot = ++known;
            }
            last_key = key;
            last = (int32_t)(*slot - 1);
        }
        numbers[i] = last;
    }
    free(table.slots);
    return known;
}

int group_bounds(const int32_t *numbers, uint64_t rows, uint64_t groups, int64_t *first,
                 int64_t *last, int64_t *counts)
{
    for (uint64_t group = 0; group < groups; group++) {
        first[group] = last[group] = -1;
        counts[group] = 0;
    }
    for (uint64_t i = 0; i < rows; i++) {
        const uint64_t group = (uint64_t)numbers[i];

        if (group >= groups)
            return -ERANGE;
        if (counts[group]++ == 0)
            first[group] = (int64_t)i;
        last[group] = (int64_t)i;
    }
    return 0;
}

int group_order(const int32_t *numbers, uint64_t rows, uint64_t groups, int32_t *order,
                int64_t *starts)
{
    for (uint64_t group = 0; group <= groups; group++)
        starts[group] = 0;
    for (uint64_t i = 0; i < rows; i++) {
        if ((uint64_t)numbers[i] >= groups)
            return -ERANGE;
        starts[numbers[i] + 1]++;
    }
    for (uint64_t group = 0; group < groups; group++)
        starts[group + 1] += starts[group];
    /* Each row moves its group's start on; then they are moved back by one group. */
    for (uint64_t i = 0; i < rows; i++)
        order[starts[numbers[i]]++] = (int32_t)i;
    for (uint64_t group = groups; group > 0; group--)
        starts[group] = starts[group - 1];
    starts[0] = 0;
    return 0;
}

#define FREE (-1)
#define TAKEN (-2)

/* The place of a row, or a negative number if it has none. */
static inline int64_t place_of(const struct group_side *side, uint64_t row, const int64_t *starts,
                               uint64_t owners)
{
    const uint64_t owner = (uint64_t)side->owners[row];

    if (owner >= owners || side->ops[row] >= (uint64_t)(starts[owner + 1] - starts[owner]))
        return -1;
    return starts[owner] + (int64_t)side->ops[row];
}

int64_t group_join(const int64_t *starts, uint64_t owners, const struct group_side *posts,
                   const struct group_side *ends, int32_t *table, int32_t *partners, int32_t *alone)
{
    int64_t left = 0;

    for (int64_t place = 0; place < starts[owners]; place++)
        table[place] = FREE;
    for (uint64_t i = 0; i < ends->rows; i++) {
        const int64_t place = place_of(ends, i, starts, owners);

        if (place < 0)
            return -ERANGE;
        if (table[place] != FREE)
            return -EEXIST;
        table[place] = (int32_t)i;
    }
    for (uint64_t i = 0; i < posts->rows; i++) {
        const int64_t place = place_of(posts, i, starts, owners);

        if (place < 0)
            return -ERANGE;
        if (table[place] == TAKEN)
            return -EEXIST;
        partners[i] = table[place];
        table[place] = TAKEN;
    }
    /* What no post took out of the table. */
    for (uint64_t i = 0; i < ends->rows; i++)
        if (table[place_of(ends, i, starts, owners)] != TAKEN)
            alone[left++] = (int32_t)i;
    return left;
}
