/* SPDX-License-Identifier: BSD-3-Clause */
#include "api.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "collector.h"
#include "group.h"
#include "merge.h"

int64_t fabt_collector_new(const char *spill, uint64_t chunk_rows, uint64_t *progress)
{
    struct collector *collector;
    const int rc = collector_new(spill == NULL ? COLLECTOR_IN_MEMORY : COLLECTOR_SPILL, spill,
                                 chunk_rows, &collector);

    if (rc != 0)
        return rc;
    collector->progress = progress;
    return collector->id;
}

void fabt_collector_delete(int64_t id)
{
    struct collector *collector = collector_find(id);

    if (collector != NULL)
        collector_delete(collector);
}

int fabt_collector_flush(int64_t id)
{
    struct collector *collector = collector_find(id);

    return collector == NULL ? -ENOENT : collector_flush(collector);
}

int fabt_collector_next_source(int64_t id)
{
    struct collector *collector = collector_find(id);

    return collector == NULL ? -ENOENT : collector_next_source(collector);
}

char *fabt_collector_describe(int64_t id)
{
    const struct collector *collector = collector_find(id);

    return collector == NULL ? NULL : collector_describe(collector);
}

void fabt_free(void *memory)
{
    free(memory);
}

int fabt_collector_view(int64_t id, const char *event, const char *name, struct fabt_view *view)
{
    const struct collector *collector = collector_find(id);
    const struct table *table = collector == NULL ? NULL : collector_table_named(collector, event);

    for (size_t i = 0; table != NULL && i < table->column_count; i++) {
        const struct column *column = &table->columns[i];
        const int ragged = schema_is_ragged(column->kind);

        if (strcmp(column->name, name) != 0)
            continue;
        *view = (struct fabt_view){
            .values = column->values.base,
            .lengths = ragged ? (const uint32_t *)(const void *)column->lengths.base : NULL,
            .rows = table->rows,
            .elements = ragged ? column->elements : table->rows,
            .width = column->width,
        };
        return 0;
    }
    return -ENOENT;
}

int64_t fabt_merge_order(const int64_t *const *times, const uint64_t *counts, uint32_t sources,
                         struct merge_run *runs)
{
    return merge_order(times, counts, sources, runs);
}

void fabt_merge_gather(const void *const *inputs, size_t width, const struct merge_run *runs,
                       uint64_t run_count, void *output)
{
    merge_gather(inputs, width, runs, run_count, output);
}

int64_t fabt_group_number(const uint32_t *high, unsigned shift, const uint32_t *low, uint64_t rows,
                          int32_t *numbers, uint64_t *keys, uint32_t known, uint32_t capacity)
{
    return group_number(high, shift, low, rows, numbers, keys, known, capacity);
}

int fabt_group_bounds(const int32_t *numbers, uint64_t rows, uint64_t groups, int64_t *first,
                      int64_t *last, int64_t *counts)
{
    return group_bounds(numbers, rows, groups, first, last, counts);
}

int fabt_group_order(const int32_t *numbers, uint64_t rows, uint64_t groups, int32_t *order,
                     int64_t *starts)
{
    return group_order(numbers, rows, groups, order, starts);
}

int64_t fabt_group_join(const int64_t *starts, uint64_t owners, const struct group_side *posts,
                        const struct group_side *ends, int32_t *table, int32_t *partners,
                        int32_t *alone)
{
    return group_join(starts, owners, posts, ends, table, partners, alone);
}

/* Four independent lanes of multiply and rotate, so that the multiplier's latency does not count.
 */
#define PRIME UINT64_C(0x9E3779B185EBCA87)

static inline uint64_t mix(uint64_t state, uint64_t word)
{
    state = (state ^ word) * PRIME;
    return state ^ (state >> 29);
}

uint64_t fabt_digest(const void *data, size_t size, uint64_t seed)
{
    const unsigned char *at = data;
    uint64_t lanes[4] = {seed, seed + 1, seed + 2, seed + 3}, word[4];
    uint64_t digest = mix(seed, size);

    for (; size >= sizeof(word); at += sizeof(word), size -= sizeof(word)) {
        memcpy(word, at, sizeof(word));
        for (unsigned i = 0; i < 4; i++)
            lanes[i] = mix(lanes[i], word[i]);
    }
    for (unsigned i = 0; i < 4; i++)
        digest = mix(digest, lanes[i]);
    for (; size > 0; at++, size--)
        digest = mix(digest, *at + UINT64_C(1));
    return digest;
}
