/* SPDX-License-Identifier: BSD-3-Clause
 * What programs that load this library besides Babeltrace call: Python through ctypes.
 *
 *     id = fabt_collector_new(NULL, 0, NULL);
 *     … run a graph whose sink.fabt.columns has the parameter collector=id …
 *     fabt_collector_view(id, "op_post", "len_bytes", &view);   // no copy
 *     fabt_collector_delete(id);
 */
#ifndef FABT_API_H
#define FABT_API_H

#include <stddef.h>
#include <stdint.h>

#define FABT_API __attribute__((visibility("default")))

/* Where a column lies; valid until the collector is deleted or filled further. */
struct fabt_view {
    const void *values;      /* elements */
    const uint32_t *lengths; /* elements of each row, NULL unless the column is ragged */
    uint64_t rows;
    uint64_t elements; /* in `values` */
    uint64_t width;    /* bytes of an element */
};

/* The id (> 0) of a new collector, or a negative errno. With `spill` (a file's path) tables are
 * kept in memory only up to `chunk_rows` rows each, then they go to that file. `progress`, if not
 * NULL, is told how many events there are; it may be shared with another process. */
FABT_API int64_t fabt_collector_new(const char *spill, uint64_t chunk_rows, uint64_t *progress);
FABT_API void fabt_collector_delete(int64_t id);

/* Writes what is left to the spill file, also after a graph has failed. 0 or a negative errno. */
FABT_API int fabt_collector_flush(int64_t id);

/* What comes now is from another input: its rows get segments of their own. 0 or a negative errno.
 */
FABT_API int fabt_collector_next_source(int64_t id);

/* JSON text (see collector.h) to be given to fabt_free, or NULL. */
FABT_API char *fabt_collector_describe(int64_t id);
FABT_API void fabt_free(void *memory);

/* The column of a table that is in memory. 0 or -ENOENT. */
FABT_API int fabt_collector_view(int64_t id, const char *event, const char *column,
                                 struct fabt_view *view);

/* Merges columns by time; see merge.h, whose functions these are. */
struct merge_run;
FABT_API int64_t fabt_merge_order(const int64_t *const *times, const uint64_t *counts,
                                  uint32_t sources, struct merge_run *runs);
FABT_API void fabt_merge_gather(const void *const *inputs, size_t width,
                                const struct merge_run *runs, uint64_t run_count, void *output);

/* Rows that belong together; see group.h, whose functions these are. */
struct group_side;
FABT_API int64_t fabt_group_number(const uint32_t *high, unsigned shift, const uint32_t *low,
                                   uint64_t rows, int32_t *numbers, uint64_t *keys, uint32_t known,
                                   uint32_t capacity);
FABT_API int fabt_group_bounds(const int32_t *numbers, uint64_t rows, uint64_t groups,
                               int64_t *first, int64_t *last, int64_t *counts);
FABT_API int fabt_group_order(const int32_t *numbers, uint64_t rows, uint64_t groups,
                              int32_t *order, int64_t *starts);
FABT_API int64_t fabt_group_join(const int64_t *starts, uint64_t owners,
                                 const struct group_side *posts, const struct group_side *ends,
                                 int32_t *table, int32_t *partners, int32_t *alone);

/* A 64-bit digest of a block of memory: finds damage, not malice. */
FABT_API uint64_t fabt_digest(const void *data, size_t size, uint64_t seed);

#endif
