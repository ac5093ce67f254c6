/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A process: fabric, workers, sessions, signals, from start to result. */
#ifndef FABT_ENGINE_H
#define FABT_ENGINE_H

#include <stdatomic.h>

#include "listener.h"
#include "options.h"
#include "progress.h"
#include "session.h"
#include "state_dump.h"
#include "watchdog.h"
#include "worker.h"

struct engine {
    const struct options *options;
    const char *command_line;
    uint32_t instance;
    uint64_t run_id;
    uint64_t start_ns;

    struct fabric fabric;
    struct listener listener; /* get */
    struct cpu_list cpus;     /* to pin workers to, round robin; empty: not pinned */
    struct worker *workers;
    uint32_t workers_count;
    uint32_t *workers_load;    /* open sessions of each */
    struct session **sessions; /* all that were started, by number */
    uint32_t sessions_count;
    uint32_t sessions_room;
    struct session **open; /* those whose worker is not done with them */
    uint32_t open_count;
    uint64_t round_ns; /* when sessions were last opened after none was open */
    uint32_t round;    /* put: rounds started */
    uint32_t refused;  /* get: refused before they started, or never seen (--accept-timeout) */

    int signal_fd;
    int done_fd;
    int epoll_fd;
    uint64_t alone_ns;    /* get: since when no session is under way although some are to come */
    uint32_t short_waits; /* in a row, of the main thread */
    atomic_bool cancel;
    int signal; /* that cancelled the run, or 0 */
    uint64_t cancel_ns;
    struct state_dump dump;
    struct progress progress;
    struct watchdog watchdog;
    struct heartbeat heartbeat; /* the main thread's */

    /* Lines for people while it runs: what was dropped or refused, what the provider can't do. */
    void (*note)(const char *text);

    unsigned leaks;
};

/* How it ended, for the exit code. */
struct engine_verdict {
    uint32_t ok;
    uint32_t failed; /* refused ones included */
    uint32_t cancelled;
    uint64_t dropped; /* initial messages */
    bool success;
};

/* Run all sessions to their end. 0, or a negative code with a failure when the run could not be
 * set up; sessions' own failures are in engine->sessions. Call engine_close in any case. */
int engine_run(struct engine *engine, struct failure *failure);

/* Judge the run, after engine_run returned 0. */
struct engine_verdict engine_judge(const struct engine *engine);

/* Is a session's failure no failure, since it ended by an expected cancellation? */
bool engine_excused(const struct engine *engine, const struct session *session);

/* Free everything. Returns how many libfabric objects could not be closed. */
unsigned engine_close(struct engine *engine);

#endif
