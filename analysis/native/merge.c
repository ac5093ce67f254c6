/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A binary heap of the inputs, by the time of their next row and then their number. Streams of one
 * machine alternate every few rows, so after each run only the top sinks. */
#include "merge.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct head {
    int64_t time; /* of the next row */
    uint32_t source;
};

static inline int before(const struct head *a, const struct head *b)
{
    return a->time < b->time || (a->time == b->time && a->source < b->source);
}

static void sink_down(struct head *heap, uint32_t size, uint32_t place)
{
    for (;;) {
        uint32_t child = 2 * place + 1;
        struct head moved;

        if (child >= size)
            return;
        if (child + 1 < size && before(&heap[child + 1], &heap[child]))
            child++;
        if (!before(&heap[child], &heap[place]))
            return;
        moved = heap[place];
        heap[place] = heap[child];
        heap[child] = moved;
        place = child;
    }
}

/* The input that comes after the top one; with one input left there is none. */
static const struct head *second(const struct head *heap, uint32_t size)
{
    if (size < 2)
        return NULL;
    return size > 2 && before(&heap[2], &heap[1]) ? &heap[2] : &heap[1];
}

static int is_sorted(const int64_t *times, uint64_t count)
{
    for (uint64_t i = 1; i < count; i++) {
        if (times[i] < times[i - 1])
            return 0;
    }
    return 1;
}

/* Takes rows of the top input as long as they come before the second's next. */
static uint64_t run_end(const int64_t *times, uint64_t at, uint64_t count, uint32_t source,
                        const struct head *rival)
{
    int64_t until;

    if (rival == NULL)
        return count;
    until = rival->time;
    while (at < count && (times[at] < until || (times[at] == until && source < rival->source)))
        at++;
    return at;
}

int64_t merge_order(const int64_t *const *times, const uint64_t *counts, uint32_t sources,
                    struct merge_run *runs)
{
    struct head *heap = calloc(sources + 1, sizeof(*heap));
    uint64_t *next = calloc((size_t)sources + 1, sizeof(*next));
    uint32_t size = 0;
    int64_t made = heap == NULL || next == NULL ? -ENOMEM : 0;

    for (uint32_t i = 0; made == 0 && i < sources; i++) {
        if (!is_sorted(times[i], counts[i]))
            made = -EDOM;
        else if (counts[i] > 0)
            heap[size++] = (struct head){times[i][0], i};
    }
    for (uint32_t i = size / 2; made == 0 && i-- > 0;)
        sink_down(heap, size, i);
    while (made >= 0 && size > 0) {
        const uint32_t source = heap[0].source;
        const uint64_t first = next[source];

        next[source] = run_end(times[source], first, counts[source], source, second(heap, size));
        runs[made++] = (struct merge_run){source, (uint32_t)(next[source] - first), first};
        if (next[source] < counts[source])
            heap[0].time = times[source][next[source]];
        else
            heap[0] = heap[--size];
        sink_down(heap, size, 0);
    }
    free(heap);
    free(next);
    return made;
}

/* Short runs are the rule, and a call of memcpy costs more than they do. */
#define GATHER(type)                                                             \
    for (uint64_t i = 0; i < run_count; i++) {                                   \
        const type *from = (const type *)inputs[runs[i].source] + runs[i].first; \
        type *to = (type *)output + done;                                        \
                                                                                 \
        for (uint32_t j = 0; j < runs[i].count; j++)                             \
            to[j] = from[j];                                                     \
        done += runs[i].count;                                                   \
    }

void merge_gather(const void *const *inputs, size_t width, const struct merge_run *runs,
                  uint64_t run_count, void *output)
{
    uint64_t done = 0;

    switch (width) {
    case 1:
        GATHER(uint8_t)
        break;
    case 2:
        GATHER(uint16_t)
        break;
    case 4:
        GATHER(uint32_t)
        break;
    default:
        GATHER(uint64_t)
        break;
    }
}
