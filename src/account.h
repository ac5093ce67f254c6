/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What a session's time goes to, every nanosecond of it.
 *
 * A session either is served by its worker (its own time, split by what was done for it) or waits
 * in some state. While it waits, its worker polls, serves other sessions, sleeps, or was off its
 * processor; a counter a worker for each of the last three tells which, so that a wait costs three
 * subtractions:
 *
 *     session  |served|        waits in state `provider`        |served|
 *     worker   |  me  | poll | another session | asleep | poll  |  me  |
 *
 * Time is charged when a service begins and ends, and when a window of the worker's load ends. All
 * counters run from the account's begin and never restart: a lost event loses no time.
 *
 * The account begins with the session, or, if nobody recorded event session_time then, when
 * somebody does; without a recording it costs nothing. */
#ifndef FABT_ACCOUNT_H
#define FABT_ACCOUNT_H

#include <stdbool.h>
#include <stdint.h>

#include "trace.h"

/* What a worker did, since its start. */
struct activity {
    uint64_t serving_ns; /* any session */
    uint64_t asleep_ns;
    uint64_t off_cpu_ns; /* it gave its processor away, and others had it for long */
};

/* A state's time, by what the worker did. */
struct account_row {
    uint64_t own_ns; /* it served this session */
    uint64_t polling_ns;
    uint64_t others_ns;
    uint64_t asleep_ns;
    uint64_t off_cpu_ns;
    bool changed; /* since the last event */
};

/* What was done for the session in a service; totals since its start. */
struct account_work {
    uint64_t payload_ns; /* payload made or verified */
    uint64_t registration_ns;
    uint64_t post_ns; /* posting calls */
};

struct account {
    struct activity *activity; /* its worker's */
    uint64_t since_ns;         /* up to here time is charged; 0: no account */
    struct activity seen;      /* then */
    struct account_work work;  /* then */
    bool serving;
    struct account_row rows[FABT_STATE_COUNT];
};

static inline bool account_on(const struct account *account)
{
    return account->since_ns != 0;
}

/* Begin, unless it has begun or nobody records it. */
void account_start(struct account *account, struct activity *activity, uint64_t now);

/* Time until now was spent waiting in `state`. */
void account_wait(struct account *account, uint8_t state, uint64_t now);

/* Time until now was spent serving the session. `state`: what all of it counts as, or
 * FABT_STATE_SERVICE to split it by `work`. `deferred`: posting calls were in vain. */
void account_serve(struct account *account, uint8_t state, const struct account_work *work,
                   bool deferred, uint64_t now);

/* Write the states whose time has grown. */
void account_trace(struct account *account, uint32_t session);

#endif
