/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What a worker's time goes to.
 *
 * In short: a loop is busy when it read a completion or served a session, else idle; time asleep is
 * and time in which the worker gave its processor away (idle) are taken out of either. busy + idle
 * + asleep is the worker's wall time, to the nanosecond; all three run from its start and never
 * restart, so a report between any two events is a subtraction.
 *
 * The load average is in fixed point with 8 fraction bits (256 is 1.0 contexts a loop). A window
 * ends after 100 ms or 65,536 loops; then
 *
 *     average = (average + 256 x contexts / loops) / 2
 *
 * in integers, so a load that stops is halved with each window:
 *
 *     contexts a loop in the window    2     2     2     0     0
 *     average (start 0)              256   384   448   224   112      (1.0, 1.5, 1.75, 0.87, 0.44)
 */
#ifndef FABT_LOAD_H
#define FABT_LOAD_H

#include <stdbool.h>
#include <stdint.h>

#include "account.h"

enum { LOAD_WINDOW_LOOPS = 65536 };

#define LOAD_WINDOW_NS UINT64_C(100000000)

struct load {
    uint64_t last_ns; /* up to here time is accounted for */
    uint64_t busy_ns;
    uint64_t idle_ns;
    uint64_t asleep_ns;
    uint64_t polls_busy;
    uint64_t polls_idle;
    uint64_t loops;
    uint64_t loops_no_completion;
    uint64_t loops_no_session;
    uint64_t contexts;
    uint64_t sleeps;
    uint64_t migrations;
    struct activity activity; /* what its sessions' accounts need to know */
    uint32_t average_fp8;
    int cpu; /* -1 until known */

    uint64_t window_ns; /* when the window began */
    uint32_t window_loops;
    uint64_t window_contexts;
    uint32_t window_min;
    uint32_t window_max;
};

struct load_loop {
    uint32_t contexts; /* completions read */
    uint32_t sessions; /* sessions serviced */
};

void load_start(struct load *load, uint64_t now);

/* A loop ended. True: the window is full, call load_window_end. */
bool load_loop_end(struct load *load, uint64_t now, const struct load_loop *loop);

/* The worker slept from load->last_ns until now. */
void load_slept(struct load *load, uint64_t now);

/* The worker gave its processor to whoever wants it, from load->last_ns until now. */
void load_yielded(struct load *load, uint64_t now);

/* Fold the window into the average, write the load event, begin the next window. */
void load_window_end(struct load *load, uint64_t now, uint32_t worker, uint32_t sessions);

/* Notice a change of processor. */
void load_check_cpu(struct load *load, uint32_t worker);

/* The average's next value. */
static inline uint32_t load_fold(uint32_t average_fp8, uint64_t contexts, uint64_t loops)
{
    return (uint32_t)((average_fp8 + (loops == 0 ? 0 : 256 * contexts / loops)) / 2);
}

#endif
