/* SPDX-License-Identifier: BSD-3-Clause
 * Several runs of rows, each in time order, into one: first where each row comes from, then column
 * by column. Rows of one time keep the order of their runs. */
#ifndef FABT_MERGE_H
#define FABT_MERGE_H

#include <stddef.h>
#include <stdint.h>

/* `count` rows of input `source` from row `first` on. */
struct merge_run {
    uint32_t source;
    uint32_t count;
    uint64_t first;
};

/* Merges by `times`: `counts[i]` rows of each of `sources` inputs, at most 2^31 in all. `runs` has
 * room for as many runs as rows. Returns how many runs there are, or a negative errno; -EDOM if an
 * input is not in time order. */
int64_t merge_order(const int64_t *const *times, const uint64_t *counts, uint32_t sources,
                    struct merge_run *runs);

/* Copies elements of `width` bytes in the order of the runs. Each run must lie within its input. */
void merge_gather(const void *const *inputs, size_t width, const struct merge_run *runs,
                  uint64_t run_count, void *output);

#endif
