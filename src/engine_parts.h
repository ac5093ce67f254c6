/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A process from inside, for the files that make it up: engine_setup.c (what is opened first),
 * engine_sessions.c (sessions come and go), engine_verdict.c (how it ended) and engine.c (the main
 * loop, and all else). */
#ifndef FABT_ENGINE_PARTS_H
#define FABT_ENGINE_PARTS_H

#include "engine.h"

enum {
    HANG_CANCEL_S = 8, /* without a round, once cancelled, the provider hangs: a drain takes 2 s */
};

/* ---- engine_setup.c ---- */

/* The recorder gives all processes of a run the same id; else put makes one up, and 0 is none. */
uint64_t engine_choose_run_id(enum role role);

/* Wake the main loop when there is something to read. 0 or a negative errno. */
int engine_watch(struct engine *engine, int fd);

/* How many sessions each worker has room for. */
uint32_t engine_sessions_a_worker(const struct engine *engine);

/* Watch the main thread, and the workers if there are any, for `limit_s` seconds without a round.
 */
int engine_start_watchdog(struct engine *engine, uint32_t workers, uint64_t limit_s,
                          struct failure *failure);

/* Open all that sessions need: descriptors, provider, workers, watchdog. */
int engine_set_up(struct engine *engine, struct failure *failure);

/* ---- engine_sessions.c ---- */

/* put: start the next round, if the last one is over. */
int engine_start_put_round(struct engine *engine, struct failure *failure);

/* get: open the listening endpoint and tell its address. */
int engine_start_listening(struct engine *engine, struct failure *failure);

/* get: look at initial messages. */
int engine_listen(struct engine *engine, struct failure *failure);

/* Forget open sessions that their workers are done with. */
void engine_take_closed(struct engine *engine);

/* Sessions that this process runs in all, as far as is known. */
uint32_t engine_expected_sessions(const struct engine *engine);

/* Has every expected session been started or refused? */
bool engine_all_started(const struct engine *engine);

/* ---- engine_verdict.c ---- */

/* With -c: sessions that ended before the signal may be forgiven if the signal follows. Returns
 * until when to wait for it (CLOCK_MONOTONIC ns), 0: no longer. */
uint64_t engine_forgiven_until(const struct engine *engine);

#endif
