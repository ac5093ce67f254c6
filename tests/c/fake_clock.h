/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A clock that only the test moves. Programs linked with --wrap=clock_gettime see it; so a time-out
 * takes no time and no test depends on how fast the machine is. */
#ifndef FABT_TEST_FAKE_CLOCK_H
#define FABT_TEST_FAKE_CLOCK_H

#include <stdint.h>

/* The time that the code under test reads, in ns. */
extern uint64_t fake_now;

/* How much it advances by itself with each reading: 0 or more ns. */
extern uint64_t fake_tick;

#endif
