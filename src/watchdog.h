/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A provider may hang inside a call: shm takes locks that processes share, and a peer that is
 * killed while it holds one leaves us spinning for ever, beyond the reach of any time-out of ours.
 * So each thread that calls the provider counts its rounds, and one thread that never does looks at
 * the counters; when one stands still for too long it tells so and ends the process.
 *
 * Standing still is measured in ticks of the watching thread, not by the clock: a process that was
 * stopped and goes on has not hung. */
#ifndef FABT_WATCHDOG_H
#define FABT_WATCHDOG_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "failure.h"

/* A thread's counter of rounds. */
struct heartbeat {
    _Atomic uint64_t beats;
};

/* For the thread that owns it: no other one writes. */
static inline void heartbeat_beat(struct heartbeat *heartbeat)
{
    atomic_store_explicit(&heartbeat->beats,
                          atomic_load_explicit(&heartbeat->beats, memory_order_relaxed) + 1,
                          memory_order_relaxed);
}

struct watched {
    const struct heartbeat *heartbeat;
    char name[24];
    uint64_t last_beats;
    uint32_t still; /* ticks without a beat */
};

struct watchdog {
    pthread_t thread;
    bool running;
    int stop_fd;
    struct watched *watched;
    uint32_t count;
    uint32_t room;
    _Atomic uint32_t limit; /* ticks (seconds) */
    /* Called from the watchdog's thread with what hangs and for how many seconds; should not
     * return. */
    void (*hangs)(void *argument, const char *name, uint32_t seconds);
    void *argument;
};

/* Start watching; more can't be added later. `limit` in seconds. */
int watchdog_start(struct watchdog *watchdog, uint32_t limit, struct failure *failure);

/* Before watchdog_start. False: no memory. */
bool watchdog_add(struct watchdog *watchdog, const struct heartbeat *heartbeat, const char *name);

/* From now on this many seconds. Any thread may call it. */
void watchdog_limit(struct watchdog *watchdog, uint32_t limit);

/* One tick: look at all counters. The index of one that stood still for too long, or -1. */
int watchdog_tick(struct watchdog *watchdog);

void watchdog_stop(struct watchdog *watchdog);

#endif
