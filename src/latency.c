/* SPDX-License-Identifier: BSD-3-Clause */
#include "latency.h"

/* The largest sample that falls into a bucket: latency_bucket's inverse. */
static uint64_t upper_edge(unsigned bucket)
{
    unsigned shift;

    if (bucket < 2u << LATENCY_SUB_BITS)
        return bucket;
    shift = (bucket >> LATENCY_SUB_BITS) - 1;
    return (((uint64_t)bucket - ((uint64_t)shift << LATENCY_SUB_BITS) + 1) << shift) - 1;
}

void latency_merge(struct latency *into, const struct latency *from)
{
    into->count += from->count;
    if (from->max > into->max)
        into->max = from->max;
    for (unsigned i = 0; i < LATENCY_BUCKETS; i++)
        into->buckets[i] += from->buckets[i];
}

uint64_t latency_percentile(const struct latency *latency, double percent)
{
    /* Rounding must not lift a whole rank: 99.9 / 100 * 1000 is a hair above 999. */
    const double exact = percent / 100.0 * (double)latency->count * (1 - 1e-12);
    uint64_t rank = (uint64_t)exact;
    uint64_t seen = 0;

    if (latency->count == 0)
        return 0;
    if ((double)rank < exact || rank == 0)
        rank++;
    for (unsigned i = 0; i < LATENCY_BUCKETS; i++) {
        seen += latency->buckets[i];
        if (seen >= rank) {
            const uint64_t edge = upper_edge(i);
            return edge < latency->max ? edge : latency->max;
        }
    }
    return latency->max;
}
