/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A worker: a thread with one completion queue that serves the sessions given to it.
 *
 * Sessions are handed over through an inbox under a mutex; the eventfd is written after the
 * hand-over, so a worker that goes to sleep can't miss it. From then on the session is the worker's
 * alone until it is closed. */
#ifndef FABT_WORKER_H
#define FABT_WORKER_H

#include <pthread.h>
#include <stdatomic.h>

#include "buffer.h"
#include "load.h"
#include "session.h"
#include "state_dump.h"
#include "watchdog.h"

struct worker_config {
    const struct options *options;
    const struct fabric *fabric;
    uint32_t instance; /* of the process, for traces */
    uint32_t index;
    int pinned_cpu;            /* -1: not pinned */
    uint32_t sessions_max;     /* open at a time at most */
    uint32_t crowd;            /* workers for each processor, rounded down */
    int done_fd;               /* eventfd: 1 is added for each session that closes */
    const atomic_bool *cancel; /* set once: cancel all sessions */
};

struct worker {
    struct worker_config config;
    pthread_t thread;
    struct heartbeat heartbeat;
    bool running;
    uint8_t wait_mode; /* enum fabt_wait_mode */
    struct domain domain;
    struct fid_cq *cq;
    size_t cq_size;
    int cq_fd; /* wait descriptor, or -1 */
    int epoll_fd;
    int event_fd; /* inbox, cancellation, stop */

    pthread_mutex_t mutex;
    struct session *inbox; /* oldest first */
    struct session **inbox_end;
    atomic_bool inbox_filled;
    atomic_bool stop;

    /* The thread's own. */
    struct session *sessions; /* open ones */
    struct session **sessions_end;
    struct session *kept; /* closed ones whose endpoint is kept */
    uint32_t open_count;
    uint32_t served; /* sessions it was given in all */
    bool cancelled;
    struct reserve reserve;
    struct load load;
    uint64_t waits;
    uint64_t waits_refused;
    uint32_t futile_waits;  /* in a row, that were refused or ended at once with nothing found */
    uint64_t idle_since_ns; /* 0: not idle */
    uint64_t backoff_ns;
    uint64_t backoff_max_ns;
    uint64_t next_check_ns; /* of sessions' time limits */
    struct state_dump dump;
    struct fabt_writer ended; /* what the thread has written, once it has ended */
};

/* Open the queue and start the thread. On failure nothing is left behind. */
int worker_start(struct worker *worker, const struct worker_config *config,
                 struct failure *failure);

/* Hand a session over. */
void worker_give(struct worker *worker, struct session *session);

/* Wake it up, to see a cancellation. Any thread may call it. */
void worker_kick(struct worker *worker);

/* Wait until the thread has ended; all its sessions are closed then. */
void worker_join(struct worker *worker);

/* Close what worker_start opened; the thread has ended. Returns what leaked. */
unsigned worker_close(struct worker *worker);

#endif
