/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Sessions of a process: where they come from, and which worker gets them. */
#include "engine_parts.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "engine_trace.h"
#include "get.h"
#include "put.h"

enum {
    VERDICTS_A_ROUND = 64,
};

/* Pack fills one worker after the other; spread takes the one with the fewest sessions. */
static uint32_t choose_worker(const struct engine *engine)
{
    const uint32_t room = engine_sessions_a_worker(engine);
    uint32_t best = 0;

    for (uint32_t i = 0; i < engine->workers_count; i++) {
        if (engine->options->placement == PLACEMENT_PACK && engine->workers_load[i] < room)
            return i;
        if (engine->workers_load[i] < engine->workers_load[best])
            best = i;
    }
    return best;
}

static bool grow_sessions(struct engine *engine)
{
    const uint32_t room = engine->sessions_room == 0 ? 64 : 2 * engine->sessions_room;
    struct session **sessions;

    if (engine->sessions_count < engine->sessions_room)
        return true;
    sessions = realloc(engine->sessions, room * sizeof(struct session *));
    if (sessions == NULL)
        return false;
    engine->sessions = sessions;
    engine->sessions_room = room;
    return true;
}

/* Give a session (NULL: there was no memory for it) to a worker. Fewer than the workers can hold
 * are open. */
static int start_session(struct engine *engine, struct session *session, struct failure *failure)
{
    const uint32_t worker = choose_worker(engine);

    if (session == NULL || !grow_sessions(engine)) {
        if (session != NULL)
            session->class->destroy(session);
        return failure_set(failure, -ENOMEM, "no memory for session %" PRIu32,
                           engine->sessions_count);
    }
    engine->sessions[engine->sessions_count++] = session;
    if (engine->open_count == 0)
        engine->round_ns = clock_now();
    engine->open[engine->open_count++] = session;
    engine->workers_load[worker]++;
    session->worker = worker;
    worker_give(&engine->workers[worker], session);
    return 0;
}

/* A round is over when all its sessions are; the next one has the next size. */
int engine_start_put_round(struct engine *engine, struct failure *failure)
{
    const uint32_t round = engine->round;

    if (engine->open_count > 0 || round == engine->options->rounds || engine->signal != 0)
        return 0;
    engine->round++;
    for (uint32_t i = 0; i < engine->options->local_sessions; i++) {
        const int rc = start_session(engine,
                                     put_create(engine->options, &engine->fabric,
                                                engine->sessions_count, round, engine->run_id),
                                     failure);

        if (rc != 0)
            return rc;
    }
    return 0;
}

int engine_start_listening(struct engine *engine, struct failure *failure)
{
    char text[ADDRESS_TEXT_SIZE];
    int rc = listener_open(&engine->listener, &engine->fabric, engine->options, failure);

    if (rc != 0)
        return rc;
    engine_trace_listening(engine, FABT_CAUSE_START);
    address_format(&engine->listener.endpoint.address, text);
    if (engine->options->address_file != NULL) {
        rc = address_publish(engine->options->address_file, text, failure);
    } else if (printf("%s\n", text) < 0 || fflush(stdout) != 0) {
        rc = failure_set(failure, -errno, "cannot write the address to standard output: %s",
                         strerror(errno));
    }
    /* Without it the queue is looked at every now and then. */
    if (rc == 0 && engine->listener.cq_fd >= 0 && engine_watch(engine, engine->listener.cq_fd) != 0)
        engine->listener.cq_fd = -1;
    return rc;
}

void engine_take_closed(struct engine *engine)
{
    uint64_t count;

    if (read(engine->done_fd, &count, sizeof(count)) != (ssize_t)sizeof(count))
        return;
    for (uint32_t i = 0; i < engine->open_count;) {
        struct session *session = engine->open[i];

        if (!atomic_load_explicit(&session->settled, memory_order_acquire)) {
            i++;
            continue;
        }
        engine->workers_load[session->worker]--;
        engine->open[i] = engine->open[--engine->open_count];
    }
}

/* Sessions that this process runs in all, as far as is known. */
uint32_t engine_expected_sessions(const struct engine *engine)
{
    if (engine->options->role == ROLE_PUT)
        return engine->options->local_sessions * engine->options->rounds;
    return engine->options->sessions * (engine->listener.rounds == 0 ? 1 : engine->listener.rounds);
}

/* Has get dealt with all that it expects? */
bool engine_all_started(const struct engine *engine)
{
    return engine->sessions_count + engine->refused >= engine_expected_sessions(engine);
}

static void note_verdict(struct engine *engine, const char *what, const struct failure *reason)
{
    char text[400];

    progress_wipe(&engine->progress);
    snprintf(text, sizeof(text), "%s: %s", what, reason->text);
    engine->note(text);
}

/* The first few, then fewer and fewer: 1 to 10, 16, 32, 64, ... */
static bool worth_a_note(uint64_t count)
{
    return count <= 10 || (count & (count - 1)) == 0;
}

/* Look at initial messages. Once n sessions have been dealt with, or the run is cancelled, the
 * listening endpoint only keeps its provider going. */
int engine_listen(struct engine *engine, struct failure *failure)
{
    /* Not without limit: a flood of bad messages must not keep signals waiting. */
    for (unsigned round = 0; round < VERDICTS_A_ROUND; round++) {
        const bool full =
            engine_all_started(engine) || engine->open_count == engine->options->sessions;
        struct wire_initial initial;
        struct workload workload;
        struct failure reason = {0};

        switch (listener_poll(&engine->listener, &initial, &workload, &reason)) {
        case LISTENER_NOTHING:
            if (engine->listener.deaf && !full)
                return failure_set(failure, -FI_EOTHER,
                                   "the provider takes no more receives on the listening endpoint");
            return 0;
        case LISTENER_DROP:
            if (worth_a_note(engine->listener.dropped))
                note_verdict(engine, "dropped", &reason);
            break;
        case LISTENER_REFUSE:
            if (full || engine->signal != 0)
                break;
            engine->refused++;
            FABT_TRACE(error, .session = -1, .code = reason.code, .text = reason.text);
            note_verdict(engine, "refused a session", &reason);
            break;
        case LISTENER_ACCEPT: {
            int rc;

            if (full || engine->signal != 0)
                break;
            if (engine->run_id == 0 && initial.extended)
                engine->run_id = initial.extension.run_id;
            rc = start_session(engine,
                               get_create(engine->options, &engine->fabric, engine->sessions_count,
                                          &initial, &workload),
                               failure);
            if (rc != 0)
                return rc;
            break;
        }
        }
    }
    return 0;
}
