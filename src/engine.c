/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine.h"

#include <errno.h>
#include <glob.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "capacity.h"
#include "clock.h"
#include "engine_trace.h"
#include "get.h"
#include "put.h"
#include "signals.h"
#include "topology.h"

/* A peer that disappears shortly before our signal was cancelled by the same hand. */
#define EXCUSE_NS (2 * NS_PER_S)

/* Refusals may need a moment to be sent. */
#define REFUSAL_NS (NS_PER_S)

enum {
    HANG_S = 10,           /* without a round, beyond all time-outs: the provider hangs */
    HANG_CANCEL_S = 8,     /* the same once cancelled: a drain takes 2 s at most */
    WAIT_LISTENING_MS = 2, /* without a reliable wake-up for initial messages */
    WAIT_MS = 100,
    VERDICTS_A_ROUND = 64,
};

/* ---- set-up ---- */

/* The recorder gives all processes of a run the same id; else put makes one up. */
static uint64_t choose_run_id(enum role role)
{
    const char *text = getenv("FABT_RUN_ID");
    uint64_t id = 0;
    char *end;

    if (text != NULL && *text != '\0') {
        errno = 0;
        id = strtoull(text, &end, 16);
        if (*end == '\0' && errno == 0 && id != 0)
            return id;
        id = 0;
    }
    if (role == ROLE_PUT && getrandom(&id, sizeof(id), GRND_NONBLOCK) != (ssize_t)sizeof(id))
        id = clock_now();
    return id;
}

static int watch(struct engine *engine, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};

    return epoll_ctl(engine->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0 ? 0 : -errno;
}

static int open_descriptors(struct engine *engine, struct failure *failure)
{
    const sigset_t set = signals_cancelling();
    int rc = 0;

    engine->signal_fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    engine->done_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    engine->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (engine->signal_fd < 0 || engine->done_fd < 0 || engine->epoll_fd < 0)
        rc = -errno;
    if (rc == 0)
        rc = watch(engine, engine->signal_fd);
    if (rc == 0)
        rc = watch(engine, engine->done_fd);
    if (rc != 0)
        return failure_set(failure, rc, "cannot open descriptors: %s", strerror(-rc));
    return 0;
}

static uint32_t sessions_a_worker(const struct engine *engine)
{
    const struct options *options = engine->options;

    if (options->placement == PLACEMENT_PACK)
        return options->sessions_per_worker < options->local_sessions ? options->sessions_per_worker
                                                                      : options->local_sessions;
    return (options->local_sessions + engine->workers_count - 1) / engine->workers_count;
}

static int choose_cpus(struct engine *engine, struct failure *failure)
{
    cpu_set_t allowed;

    if (!engine->options->pin_auto) {
        if (engine->options->pinned)
            engine->cpus = engine->options->cpus;
        return 0;
    }
    if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0)
        return failure_set(failure, -errno, "-p auto: cannot read the allowed processors: %s",
                           strerror(errno));
    return topology_order(&allowed, engine->fabric.info->domain_attr->name, &engine->cpus, failure);
}

/* Processors that this process may run on. */
static uint32_t processors(void)
{
    cpu_set_t allowed;

    if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0 || CPU_COUNT(&allowed) < 1)
        return 1;
    return (uint32_t)CPU_COUNT(&allowed);
}

static int start_workers(struct engine *engine, struct failure *failure)
{
    const struct options *options = engine->options;
    const uint32_t crowd = engine->workers_count / processors();

    for (uint32_t i = 0; i < engine->workers_count; i++) {
        const struct worker_config config = {
            .options = options,
            .fabric = &engine->fabric,
            .instance = engine->instance,
            .index = i,

            .pinned_cpu =
                engine->cpus.count > 0 ? (int)engine->cpus.cpu[i % engine->cpus.count] : -1,
            .sessions_max = sessions_a_worker(engine),
            .crowd = crowd,
            .done_fd = engine->done_fd,
            .cancel = &engine->cancel,
        };
        const int rc = worker_start(&engine->workers[i], &config, failure);

        if (rc != 0) {
            engine->workers_count = i;
            return rc;
        }
    }
    if (engine->workers[0].wait_mode == FABT_WAIT_MODE_POLL_FALLBACK) {
        char text[160];

        snprintf(text, sizeof(text),
                 "-w: provider %.40s has no wait descriptor; workers poll and back off instead",
                 engine->fabric.info->fabric_attr->prov_name);
        engine->note(text);
    }
    return 0;
}

/* shm names its regions after the process; no one else would remove them. */
static void remove_shm_regions(void)
{
    char pattern[64];
    glob_t found = {0};

    snprintf(pattern, sizeof(pattern), "/dev/shm/%d:*", (int)getpid());
    if (glob(pattern, GLOB_NOSORT, NULL, &found) == 0) {
        for (size_t i = 0; i < found.gl_pathc; i++)
            unlink(found.gl_pathv[i]);
    }
    globfree(&found);
}

/* Nothing can be closed any more: what is traced so far is safe, the rest the system takes back. */
static void provider_hangs(void *argument, const char *name, uint32_t seconds)
{
    const struct engine *engine = argument;
    char text[256];

    snprintf(text, sizeof(text),
             "%s hangs inside provider %.60s for %" PRIu32
             " s: the process ends (a peer that was killed can leave shared memory locked)",
             name, engine->fabric.info->fabric_attr->prov_name, seconds);
    fabt_trace_writer_start(engine->instance, FABT_WRITER_THREADS - 1);
    FABT_TRACE(error, .session = -1, .code = -FI_ETIMEDOUT, .text = text);
    engine->note(text);
    remove_shm_regions();
    _exit(1);
}

/* Watch the main thread, and the workers if there are any, for `limit_s` seconds without a round.
 */
static int start_watchdog(struct engine *engine, uint32_t workers, uint64_t limit_s,
                          struct failure *failure)
{
    bool added = watchdog_add(&engine->watchdog, &engine->heartbeat, "the main thread");

    engine->watchdog.hangs = provider_hangs;
    engine->watchdog.argument = engine;
    for (uint32_t i = 0; i < workers && added; i++) {
        char name[24];

        snprintf(name, sizeof(name), "worker %" PRIu32, i);
        added = watchdog_add(&engine->watchdog, &engine->workers[i].heartbeat, name);
    }
    if (!added)
        return failure_set(failure, -ENOMEM, "no memory for the watchdog");
    return watchdog_start(&engine->watchdog, (uint32_t)limit_s, failure);
}

static int set_up(struct engine *engine, struct failure *failure)
{
    const struct options *options = engine->options;
    const struct fabric_request request = {
        .provider = options->provider,
        .bind = options->bind,
        .peer = options->role == ROLE_PUT ? &options->peer : NULL,
        .wait = options->wait,
    };
    const uint32_t workers = options_worker_count(options);
    int rc;

    capacity_raise_descriptors();
    rc = open_descriptors(engine, failure);
    if (rc == 0)
        rc = fabric_open(&engine->fabric, &request, failure);
    if (rc == 0)
        rc = capacity_check(&engine->fabric, options, workers, failure);
    if (rc != 0)
        return rc;
    engine->workers = calloc(workers, sizeof(*engine->workers));
    engine->workers_load = calloc(workers, sizeof(*engine->workers_load));
    engine->open = calloc(options->local_sessions, sizeof(struct session *));
    if (engine->workers == NULL || engine->workers_load == NULL || engine->open == NULL)
        return failure_set(failure, -ENOMEM, "no memory for %u sessions", options->local_sessions);
    engine->workers_count = workers;
    engine_trace_process(engine, FABT_CAUSE_START);
    state_dump_start(&engine->dump, clock_now(), FABT_TRACE_ENABLED(process));
    engine_trace_infos(engine);
    rc = choose_cpus(engine, failure);
    if (rc == 0)
        rc = start_workers(engine, failure);
    if (rc == 0)
        rc = start_watchdog(engine, workers, options->timeout_ns / NS_PER_S + HANG_S, failure);
    if (rc == 0)
        engine_trace_params(engine, FABT_CAUSE_START);
    return rc;
}

/* ---- sessions ---- */

/* Pack fills one worker after the other; spread takes the one with the fewest sessions. */
static uint32_t choose_worker(const struct engine *engine)
{
    const uint32_t room = sessions_a_worker(engine);
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
static int start_put_round(struct engine *engine, struct failure *failure)
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

static int start_listening(struct engine *engine, struct failure *failure)
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
    if (rc == 0 && engine->listener.cq_fd >= 0 && watch(engine, engine->listener.cq_fd) != 0)
        engine->listener.cq_fd = -1;
    return rc;
}

/* ---- the main loop ---- */

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

static void take_closed(struct engine *engine)
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
static uint32_t expected_sessions(const struct engine *engine)
{
    if (engine->options->role == ROLE_PUT)
        return engine->options->local_sessions * engine->options->rounds;
    return engine->options->sessions * (engine->listener.rounds == 0 ? 1 : engine->listener.rounds);
}

/* Has get dealt with all that it expects? */
static bool all_started(const struct engine *engine)
{
    return engine->sessions_count + engine->refused >= expected_sessions(engine);
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
static int listen_for_sessions(struct engine *engine, struct failure *failure)
{
    /* Not without limit: a flood of bad messages must not keep signals waiting. */
    for (unsigned round = 0; round < VERDICTS_A_ROUND; round++) {
        const bool full = all_started(engine) || engine->open_count == engine->options->sessions;
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

static bool all_ended(const struct engine *engine)
{
    return engine->open_count == 0 && (engine->signal != 0 || all_started(engine));
}

/* Sleep until a signal, a closed session or an initial message, but not for long: the provider of
 * the listening endpoint may need to be kept going by us, and the state dump is due now and then.
 */
static void wait_for_events(struct engine *engine)
{
    const bool listening = engine->options->role == ROLE_GET;
    struct epoll_event events[3];
    int limit = WAIT_MS;

    if (listening) {
        struct fid *fids[] = {&engine->listener.cq->fid};

        if (engine->listener.cq_fd < 0 || !engine->options->wait)
            limit = WAIT_LISTENING_MS;
        if (engine->listener.cq_fd >= 0 && fi_trywait(engine->listener.domain.root, fids, 1) != 0)
            limit = 0;
    }
    epoll_wait(engine->epoll_fd, events, 3, limit);
}

/* With -c: sessions that ended before the signal may be forgiven if the signal follows. Returns
 * until when to wait for it (CLOCK_MONOTONIC ns), 0: no longer. */
static uint64_t forgiven_until(const struct engine *engine)
{
    uint64_t until = 0, last_end = 0;

    if (!engine->options->expect_cancel || engine->signal != 0 || engine->refused > 0)
        return 0;
    for (uint32_t i = 0; i < engine->sessions_count; i++) {
        const struct session *session = engine->sessions[i];

        if (session->outcome == FABT_OUTCOME_REFUSED ||
            (session->outcome == FABT_OUTCOME_FAILED && !session->failure.peer_lost))
            return 0;
        if (session->outcome == FABT_OUTCOME_FAILED &&
            (until == 0 || session->failed_ns + EXCUSE_NS < until))
            until = session->failed_ns + EXCUSE_NS;
        if (session->end_ns > last_end)
            last_end = session->end_ns;
    }
    return until != 0 ? until : last_end + engine->options->timeout_ns;
}

/* How far the run is: by bytes where their number is known, else by time. */
static double share_done(const struct engine *engine, uint64_t now, uint64_t bytes)
{
    const uint64_t expected = expected_sessions(engine);
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

static int serve(struct engine *engine, struct failure *failure)
{
    for (;;) {
        uint64_t now;
        int rc;

        heartbeat_beat(&engine->heartbeat);
        take_signals(engine);
        take_closed(engine);
        rc = engine->options->role == ROLE_GET ? listen_for_sessions(engine, failure)
                                               : start_put_round(engine, failure);
        if (rc != 0)
            return rc;
        now = clock_now();
        if (all_ended(engine) && now >= forgiven_until(engine))
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
           clock_now() < until && listen_for_sessions(engine, &ignored) == 0)
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

    engine->start_ns = clock_now();
    engine->instance = fabt_trace_make_instance();
    engine->signal_fd = engine->done_fd = engine->epoll_fd = -1;
    fabt_trace_writer_start(engine->instance, 0);
    engine->run_id = choose_run_id(engine->options->role);
    rc = set_up(engine, failure);
    if (rc == 0 && engine->options->role == ROLE_GET)
        rc = start_listening(engine, failure);
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

bool engine_excused(const struct engine *engine, const struct session *session)
{
    return engine->options->expect_cancel && engine->signal != 0 && session->failure.peer_lost &&
           session->failed_ns + EXCUSE_NS >= engine->cancel_ns;
}

struct engine_verdict engine_judge(const struct engine *engine)
{
    struct engine_verdict verdict = {
        .failed = engine->refused,
        .dropped = engine->listener.dropped,
    };

    for (uint32_t i = 0; i < engine->sessions_count; i++) {
        const struct session *session = engine->sessions[i];

        if (session->outcome == FABT_OUTCOME_OK)
            verdict.ok++;
        else if (session->outcome == FABT_OUTCOME_CANCELLED || engine_excused(engine, session))
            verdict.cancelled++;
        else
            verdict.failed++;
    }
    verdict.success =
        verdict.failed == 0 && (engine->signal != 0) == engine->options->expect_cancel;
    return verdict;
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
        start_watchdog(engine, 0, HANG_CANCEL_S, &ignored);
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
