/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Time in nanoseconds. CLOCK_MONOTONIC, the clock that LTTng stamps events with. */
#ifndef FABT_CLOCK_H
#define FABT_CLOCK_H

#include <stdint.h>
#include <time.h>

#define NS_PER_S UINT64_C(1000000000)
#define NS_PER_MS UINT64_C(1000000)
#define NS_PER_US UINT64_C(1000)

static inline uint64_t clock_read(clockid_t clock)
{
    struct timespec t;

    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

static inline uint64_t clock_now(void)
{
    return clock_read(CLOCK_MONOTONIC);
}

#endif
