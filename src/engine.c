/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine_parts.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "clock.h"
#include "engine_trace.h"

/* Refusals may need a moment to be sent. */
#define REFUSAL_NS (NS_PER_S)

enum {
    WAIT_LISTENING_MS = 2, /* without a reliable wake-up for initial messages */
    WAIT_MS = 100,
    SHORT_WAITS = 100, /* in a row */
};

#define SHORT_WAIT_NS (NS_PER_MS / 10)

static void take_signals(struct engine *engine)
{
    struct signalfd_siginfo info;

    while (read(engine->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        FABT_TRACE(signal, .signo = (int32_t)info.ssi_signo, .interrupted = 0);
        if (engine->signal != 0)
            continue;
        engine->signal = (int)info.ssi_signo;
        engine->cancel_ns = clock_now();
        watchdog_limit(&engine->watchdog, HANG_CANCEL_S);
        atomic_store_explicit(&engine->cancel, true, memory_order_release);
        for (uint32_t i = 0; i < engine->workers_count; i++)
            worker_kick(&engine->workers[i]);
    }
}

static bool all_ended(const struct engine *engine)
{
    return engine->open_count == 0 && (engine->signal != 0 || engine_all_started(engine));
}

/* Sleep until a signal, a closed session or an initial message, but not for long: the provider of
 * the listening endpoint may need to be kept going by us, and the state dump is due now and then.
 * A provider may also wake us for ever and for nothing: then there are naps in between. */
static void wait_for_events(struct engine *engine)
{
    const bool listening = engine->options->role == ROLE_GET;
    struct epoll_event events[3];
    int limit = WAIT_MS;
    uint64_t begin;

    if (listening) {
        struct fid *fids[] = {&engine->listener.cq->fid};

        if (engine->listener.cq_fd < 0 || !engine->options->wait)
            limit = WAIT_LISTENING_MS;
        if (engine->listener.cq_fd >= 0 && fi_trywait(engine->listener.domain.root, fids, 1) != 0)
            limit = 0;
    }
    if (engine->short_waits >= SHORT_WAITS) {
        engine->short_waits--;
        poll(NULL, 0, 1);
    }
    begin = clock_now();
    epoll_wait(engine->epoll_fd, events, 3, limit);
    if (clock_now() - begin < SHORT_WAIT_NS)
        engine->short_waits++;
    else
        engine->short_waits = 0;
}

/* How far the run is: by bytes where their number is known, else by time. */
static double share_done(const struct engine *engine, uint64_t now, uint64_t bytes)
{
    const uint64_t expected = engine_expected_sessions(engine);
    const struct session *first = engine->sessions_count == 0 ? NULL : engine->sessions[0];
    const struct workload *workload;
    double rounds_before;

    if (first == NULL)
        return 0;
    workload = &first->workload;
    if (!workload_open_ended(workload))
        return workload->total_bytes == 0
                   ? -1
                   : (double)bytes / (double)workload->total_bytes / (double)expected;
    if (engine->options->expect_cancel)
        return -1;
    rounds_before = (double)(engine->sessions_count - engine->open_count) / (double)expected;
    return rounds_before + (double)(now - engine->round_ns) / (double)workload->duration_ns *
                               (double)engine->open_count / (double)expected;
}

static void show_progress(struct engine *engine, uint64_t now)
{
    uint64_t bytes = 0;

    if (!engine->options->progress)
        return;
    for (uint32_t i = 0; i < engine->sessions_count; i++)
        bytes += atomic_load_explicit(&engine->sessions[i]->shown_bytes, memory_order_relaxed);
    progress_show(&engine->progress, now, bytes, share_done(engine, now, bytes));
}

/* --accept-timeout: whoever has not come by now never will. */
static void check_missing(struct engine *engine, uint64_t now)
{
    const uint64_t limit = engine->options->accept_timeout_ns;
    uint32_t missing;
    char text[160];

    if (limit == 0 || engine->signal != 0 || engine->open_count > 0 || engine_all_started(engine)) {
        engine->alone_ns = now;
        return;
    }
    if (now - engine->alone_ns < limit)
        return;
    missing = engine_expected_sessions(engine) - engine->sessions_count - engine->refused;
    engine->refused += missing;
    snprintf(text, sizeof(text), "%u of %u sessions did not come: waited %.1f s (--accept-timeout)",
             missing, engine_expected_sessions(engine), (double)limit / (double)NS_PER_S);
    FABT_TRACE(error, .session = -1, .code = -FI_ETIMEDOUT, .text = text);
    progress_wipe(&engine->progress);
    engine->note(text);
}

static int serve(struct engine *engine, struct failure *failure)
{
    for (;;) {
        uint64_t now;
        int rc;

        heartbeat_beat(&engine->heartbeat);
        take_signals(engine);
        engine_take_closed(engine);
        rc = engine->options->role == ROLE_GET ? engine_listen(engine, failure)
                                               : engine_start_put_round(engine, failure);
        if (rc != 0)
            return rc;
        now = clock_now();
        check_missing(engine, now);
        if (all_ended(engine) && now >= engine_forgiven_until(engine))
            return 0;
        engine_trace_state_dump(engine, now);
        show_progress(engine, now);
        wait_for_events(engine);
    }
}

static void finish_refusals(struct engine *engine)
{
    const uint64_t until = clock_now() + REFUSAL_NS;
    struct failure ignored = {0};

    while (engine->options->role == ROLE_GET && listener_busy(&engine->listener) &&
           clock_now() < until && engine_listen(engine, &ignored) == 0)
        wait_for_events(engine);
}

/* The watchdog ends with what it watches: printing may take as long as the reader likes. */
static void join_workers(struct engine *engine)
{
    for (uint32_t i = 0; i < engine->workers_count; i++)
        worker_join(&engine->workers[i]);
    watchdog_stop(&engine->watchdog);
}

int engine_run(struct engine *engine, struct failure *failure)
{
    int rc;

    engine->start_ns = engine->alone_ns = clock_now();
    engine->instance = fabt_trace_make_instance();
    engine->signal_fd = engine->done_fd = engine->epoll_fd = -1;
    fabt_trace_writer_start(engine->instance, 0);
    engine->run_id = engine_choose_run_id(engine->options->role);
    rc = engine_set_up(engine, failure);
    if (rc == 0 && engine->options->role == ROLE_GET)
        rc = engine_start_listening(engine, failure);
    if (rc == 0)
        rc = serve(engine, failure);
    progress_wipe(&engine->progress);
    if (rc == 0) {
        finish_refusals(engine);
        join_workers(engine);
        engine_trace_end(engine);
    } else {
        FABT_TRACE(error, .session = -1, .code = failure->code, .text = failure->text);
        atomic_store_explicit(&engine->cancel, true, memory_order_release);
        join_workers(engine);
        FABT_TRACE(process_end, .exit_code = 1);
    }
    return rc;
}

static void close_fd(int fd)
{
    if (fd >= 0)
        close(fd);
}

unsigned engine_close(struct engine *engine)
{
    struct failure ignored = {0};

    /* Closing takes no time, unless the provider hangs in it. Without a watchdog it works as well.
     */
    if (engine->fabric.info != NULL)
        engine_start_watchdog(engine, 0, HANG_CANCEL_S, &ignored);
    if (engine->options->role == ROLE_GET)
        engine->leaks += listener_close(&engine->listener);
    for (uint32_t i = 0; i < engine->workers_count; i++)
        engine->leaks += worker_close(&engine->workers[i]);
    for (uint32_t i = 0; i < engine->sessions_count; i++)
        engine->leaks += engine->sessions[i]->leaks;
    /* Operations live in sessions: they go only after the queues that may still name them. */
    for (uint32_t i = 0; i < engine->sessions_count; i++)
        engine->sessions[i]->class->destroy(engine->sessions[i]);
    fabric_close(&engine->fabric);
    watchdog_stop(&engine->watchdog);
    engine_trace_ends(engine);
    close_fd(engine->epoll_fd);
    close_fd(engine->done_fd);
    close_fd(engine->signal_fd);
    free(engine->sessions);
    free(engine->open);
    free(engine->workers_load);
    free(engine->workers);
    return engine->leaks;
}
