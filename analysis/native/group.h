/* SPDX-License-Identifier: BSD-3-Clause
 * Loops over rows that numpy has no function for: which rows belong together, and which find their
 * partner. A few ns a row. */
#ifndef FABT_GROUP_H
#define FABT_GROUP_H

#include <stdint.h>

/* Gives each row the number of its key, ((high >> shift) << 32) | low (low may be NULL: 0). Keys
 * are numbered in order of their first appearance; `known` of them are in `keys` already, which has
 * room for `capacity`. Returns how many there are then, -ENOSPC if there are more, or -ENOMEM. */
int64_t group_number(const uint32_t *high, unsigned shift, const uint32_t *low, uint64_t rows,
                     int32_t *numbers, uint64_t *keys, uint32_t known, uint32_t capacity);

/* The first and the last row of each group, -1 for a group without rows, and how many it has. 0 or
 * -ERANGE if a row is of no group. */
int group_bounds(const int32_t *numbers, uint64_t rows, uint64_t groups, int64_t *first,
                 int64_t *last, int64_t *counts);

/* The rows by group, within a group ascending; `starts` (one more than groups) says where each
 * group's begin. 0 or -ERANGE if a row is of no group. */
int group_order(const int32_t *numbers, uint64_t rows, uint64_t groups, int32_t *order,
                int64_t *starts);

/* Joins posts and ends by place: `starts` of the owner plus the number of the operation; there are
 * `places`, and as many elements in `table`, which is changed. `partners`: for each post the row of
 * its end or -1; `alone`: the ends that no post has, ascending. Returns how many those are, -EEXIST
 * if a place is taken twice on a side, or -ERANGE if a row has no place. */
struct group_side {
    const int32_t *owners;
    const uint64_t *ops;
    uint64_t rows;
};
int64_t group_join(const int64_t *starts, uint64_t owners, const struct group_side *posts,
                   const struct group_side *ends, int32_t *table, int32_t *partners,
                   int32_t *alone);

#endif
