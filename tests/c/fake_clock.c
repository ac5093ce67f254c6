/* SPDX-License-Identifier: BSD-3-Clause */
#include "fake_clock.h"

#include <time.h>

uint64_t fake_now = UINT64_C(1000000000000);
uint64_t fake_tick = 100;

/* The linker calls this instead of clock_gettime; the name is its rule. */
int __wrap_clock_gettime(clockid_t clock, struct timespec *time);

int __wrap_clock_gettime(clockid_t clock, struct timespec *time)
{
    (void)clock;
    time->tv_sec = (time_t)(fake_now / 1000000000);
    time->tv_nsec = (long)(fake_now % 1000000000);
    fake_now += fake_tick;
    return 0;
}
