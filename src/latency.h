/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A histogram of durations.
 *
 * In short: every sample is counted, none is dropped; a percentile is never below the true sample
 * and at most 1/64 (1.6 %) above it; range 0 to 2^64 ns; about 30 KB, no allocation while counting.
 *
 * A sample below 128 ns has a bucket of its own. Above, each power of two [2^k, 2^(k+1)) is cut
 * into 64 buckets of 2^(k-6) ns each:
 *
 *     samples (ns)     buckets   width (ns)   bucket of a sample
 *        0 ..   127    128         1          s
 *      128 ..   255     64         2          128 + (s - 128) / 2
 *      256 ..   511     64         4          192 + (s - 256) / 4
 *      ...                                    (k - 6) * 64 + s / 2^(k-6), k = floor(log2 s)
 *
 * A percentile is the upper edge of the bucket that holds the sample of that rank (nearest-rank:
 * the ceil(p/100 x n)-th smallest), but never above the largest sample, which is kept exactly.
 */
#ifndef FABT_LATENCY_H
#define FABT_LATENCY_H

#include <stdint.h>

enum {
    LATENCY_SUB_BITS = 6,
    LATENCY_BUCKETS = (64 - LATENCY_SUB_BITS + 1) << LATENCY_SUB_BITS,
};

struct latency {
    uint64_t count;
    uint64_t max;
    uint64_t buckets[LATENCY_BUCKETS];
};

static inline unsigned latency_bucket(uint64_t ns)
{
    const unsigned top = 63u - (unsigned)__builtin_clzll(ns | 1);

    if (top <= LATENCY_SUB_BITS)
        return (unsigned)ns;
    return ((top - LATENCY_SUB_BITS) << LATENCY_SUB_BITS) +
           (unsigned)(ns >> (top - LATENCY_SUB_BITS));
}

static inline void latency_add(struct latency *latency, uint64_t ns)
{
    latency->count++;
    latency->buckets[latency_bucket(ns)]++;
    if (ns > latency->max)
        latency->max = ns;
}

/* Add all samples of one histogram to another. */
void latency_merge(struct latency *into, const struct latency *from);

/* The percentile, in ns; `percent` from 0 to 100. 0 when there is no sample. */
uint64_t latency_percentile(const struct latency *latency, double percent);

#endif
