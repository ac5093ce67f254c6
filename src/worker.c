/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "clock.h"

enum {
    BATCH = 64,             /* completions read at once */
    QUEUE_PER_SESSION = 96, /* 64 receives, 16 sends, the handshake; put's writes come on top */
    SLEEP_MAX_MS = 100,
    FUTILE_WAITS = 1000, /* in a row: a long message may wake us many times before it is complete */
};

/* A loop that finds nothing yields; after YIELD_NS of that it sleeps, ever longer. The more workers
 * share a processor, the longer: a hundred that look a thousand times a second leave nothing for
 * the few that have work, or for the main thread, which all the others wait for at the start. */
#define YIELD_NS (2 * NS_PER_MS)

/* Writes leave no completion where they arrive, and yet only polling brings them in: with large or
 * many of them between two messages, a get that slept would be what holds them up. So while payload
 * flows it yields for longer. */
#define YIELD_TRANSFER_NS (50 * NS_PER_MS)
#define BACKOFF_MIN_NS (20 * NS_PER_US)
#define BACKOFF_MAX_NS NS_PER_MS
#define BACKOFF_CROWD_MAX 16
#define CHECK_NS (10 * NS_PER_MS)

/* ---- start ---- */

static int open_queue(struct worker *worker, struct failure *failure)
{
    struct fid_domain *domain = worker->domain.domain;
    struct fi_cq_attr attr = {
        .size = (size_t)worker->config.sessions_max *
                (QUEUE_PER_SESSION + worker->config.options->workload.depth),
        .format = FI_CQ_FORMAT_TAGGED,
        .wait_obj = worker->config.options->wait ? FI_WAIT_FD : FI_WAIT_NONE,
    };
    int rc = fi_cq_open(domain, &attr, &worker->cq, NULL);

    worker->wait_mode = worker->config.options->wait ? FABT_WAIT_MODE_EPOLL : FABT_WAIT_MODE_POLL;
    if (rc != 0 && attr.wait_obj == FI_WAIT_FD) {
        attr.wait_obj = FI_WAIT_NONE;
        worker->wait_mode = FABT_WAIT_MODE_POLL_FALLBACK;
        rc = fi_cq_open(domain, &attr, &worker->cq, NULL);
    }
    if (rc != 0)
        return failure_set(failure, rc, "cannot open a completion queue of %zu entries: %s",
                           attr.size, fi_strerror(-rc));
    worker->cq_size = attr.size;
    if (worker->wait_mode == FABT_WAIT_MODE_EPOLL &&
        fi_control(&worker->cq->fid, FI_GETWAIT, &worker->cq_fd) != 0) {
        worker->cq_fd = -1;
        worker->wait_mode = FABT_WAIT_MODE_POLL_FALLBACK;
    }
    return 0;
}

static int add_to_epoll(int epoll_fd, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};

    return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0 ? 0 : -errno;
}

static int open_wakeup(struct worker *worker, struct failure *failure)
{
    int rc = 0;

    worker->event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (worker->event_fd >= 0)
        worker->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (worker->event_fd < 0 || worker->epoll_fd < 0)
        rc = -errno;
    if (rc == 0)
        rc = add_to_epoll(worker->epoll_fd, worker->event_fd);
    if (rc == 0 && worker->cq_fd >= 0)
        rc = add_to_epoll(worker->epoll_fd, worker->cq_fd);
    if (rc != 0)
        return failure_set(failure, rc, "cannot set up a worker's wake-up: %s", strerror(-rc));
    return 0;
}

static void *worker_main(void *argument);

static int start_thread(struct worker *worker, struct failure *failure)
{
    pthread_attr_t attr;
    int rc;

    pthread_attr_init(&attr);
    if (worker->config.pinned_cpu >= 0) {
        cpu_set_t set;

        CPU_ZERO(&set);
        CPU_SET((unsigned)worker->config.pinned_cpu, &set);
        pthread_attr_setaffinity_np(&attr, sizeof(set), &set);
    }
    rc = pthread_create(&worker->thread, &attr, worker_main, worker);
    pthread_attr_destroy(&attr);
    if (rc != 0)
        return failure_set(failure, -rc, "cannot start a worker%s: %s",
                           worker->config.pinned_cpu >= 0 ? " on its processor" : "", strerror(rc));
    worker->running = true;
    return 0;
}

int worker_start(struct worker *worker, const struct worker_config *config, struct failure *failure)
{
    int rc;

    memset(worker, 0, sizeof(*worker));
    worker->config = *config;
    worker->cq_fd = worker->epoll_fd = worker->event_fd = -1;
    pthread_mutex_init(&worker->mutex, NULL);
    reserve_init(&worker->reserve, buffer_stress_lengths, BUFFER_STRESS_CYCLE, config->index);
    worker->inbox_end = &worker->inbox;
    worker->sessions_end = &worker->sessions;
    rc = domain_open(&worker->domain, config->fabric, 2 * config->sessions_max, failure);
    if (rc == 0)
        rc = open_queue(worker, failure);
    if (rc == 0)
        rc = open_wakeup(worker, failure);
    if (rc == 0)
        rc = start_thread(worker, failure);
    if (rc != 0)
        worker_close(worker);
    return rc;
}

void worker_kick(struct worker *worker)
{
    const uint64_t one = 1;

    /* It can only fail when the counter is full, and then the worker is being woken anyway. */
    if (write(worker->event_fd, &one, sizeof(one)) < 0)
        return;
}

void worker_give(struct worker *worker, struct session *session)
{
    pthread_mutex_lock(&worker->mutex);
    session->next = NULL;
    *worker->inbox_end = session;
    worker->inbox_end = &session->next;
    pthread_mutex_unlock(&worker->mutex);
    atomic_store_explicit(&worker->inbox_filled, true, memory_order_release);
    worker_kick(worker);
}

void worker_join(struct worker *worker)
{
    if (!worker->running)
        return;
    atomic_store_explicit(&worker->stop, true, memory_order_release);
    worker_kick(worker);
    pthread_join(worker->thread, NULL);
    worker->running = false;
}

unsigned worker_close(struct worker *worker)
{
    unsigned leaks = 0;

    leaks += fabric_close_object(worker->cq ? &worker->cq->fid : NULL, "completion queue", -1);
    worker->cq = NULL;
    leaks += domain_close(&worker->domain);
    if (worker->epoll_fd >= 0)
        close(worker->epoll_fd);
    if (worker->event_fd >= 0)
        close(worker->event_fd);
    worker->epoll_fd = worker->event_fd = -1;
    reserve_free(&worker->reserve);
    pthread_mutex_destroy(&worker->mutex);
    return leaks;
}

/* ---- the loop ---- */

static void complete(void *context, uint64_t now, size_t len, uint64_t flags, uint64_t tag,
                     int status)
{
    struct op *op = context;
    struct session *session;

    if (op == NULL || op->state != OP_POSTED || op->endpoint->closed) {
        FABT_TRACE(stray_completion, .session = op == NULL ? -1 : (int32_t)op->endpoint->session,
                   .op = op == NULL ? 0 : op->number);
        return;
    }
    /* The endpoint is a member of its session. */
    session = (struct session *)((char *)op->endpoint - offsetof(struct session, endpoint));
    FABT_TRACE(completion, .session = session->number, .op = op->number, .kind = op->kind,
               .flags = flags, .tag = tag);
    session_completed(session, op, now, len, status);
}

/* An entry of the error queue. Its context may be missing: then it is nobody's in particular. */
static bool read_error(struct worker *worker, uint64_t now)
{
    struct fi_cq_err_entry entry;
    ssize_t n;

    memset(&entry, 0, sizeof(entry));
    n = fi_cq_readerr(worker->cq, &entry, 0);
    if (n < 1)
        return false;
    if (entry.err != FI_ECANCELED && FABT_TRACE_ENABLED(error)) {
        const struct op *op = entry.op_context;
        char text[128] = "";

        fi_cq_strerror(worker->cq, entry.prov_errno, entry.err_data, text, sizeof(text));
        FABT_TRACE(error, .session = op == NULL ? -1 : (int32_t)op->endpoint->session,
                   .op = op == NULL ? 0 : op->number, .kind = op == NULL ? 0 : op->kind,
                   .code = entry.err, .provider_code = entry.prov_errno, .flags = entry.flags,
                   .text = text);
    }
    complete(entry.op_context, now, entry.len, entry.flags, entry.tag,
             entry.err == 0 ? -FI_EIO : -entry.err);
    return true;
}

/* The queue itself is broken: no session can go on. */
static void queue_failed(struct worker *worker, int code)
{
    for (struct session *session = worker->sessions; session != NULL; session = session->next) {
        if (session->phase >= FABT_PHASE_LINGER || session->failure.code != 0)
            continue;
        failure_set(&session->failure, code, "cannot read the completion queue: %s",
                    fi_strerror(-code));
        session->retry = true;
    }
}

/* Read completions. Returns how many; with any, `*now` is when. */
static uint32_t poll_queue(struct worker *worker, uint64_t *now)
{
    struct fi_cq_tagged_entry entries[BATCH];
    const ssize_t n = fi_cq_read(worker->cq, entries, BATCH);
    uint32_t count = 0;

    if (n > 0) {
        *now = clock_now();
        for (ssize_t i = 0; i < n; i++)
            complete(entries[i].op_context, *now, entries[i].len, entries[i].flags, entries[i].tag,
                     0);
        count = (uint32_t)n;
    } else if (n == -FI_EAVAIL) {
        *now = clock_now();
        while (read_error(worker, *now))
            count++;
    }
    if (n < 0 && n != -FI_EAVAIL && n != -FI_EAGAIN && n != -FI_EINTR)
        queue_failed(worker, (int)n);
    if (count > 0)
        worker->load.polls_busy++;
    else
        worker->load.polls_idle++;
    return count;
}

static void take_inbox(struct worker *worker, uint64_t now)
{
    struct session *session;
    const struct session_host host = {
        .domain = &worker->domain,
        .cq = worker->cq,
        .reserve = &worker->reserve,
        .activity = &worker->load.activity,
        .worker = worker->config.index,
        /* fi_trywait looks at every endpoint that a queue with a wait descriptor ever had, closed
         * ones too (libfabric 1.17, ofi_rxm): such endpoints stay until the worker's end. */
        .keep_endpoint = worker->wait_mode == FABT_WAIT_MODE_EPOLL,
    };

    if (!atomic_load_explicit(&worker->inbox_filled, memory_order_acquire))
        return;
    pthread_mutex_lock(&worker->mutex);
    session = worker->inbox;
    worker->inbox = NULL;
    worker->inbox_end = &worker->inbox;
    atomic_store_explicit(&worker->inbox_filled, false, memory_order_relaxed);
    pthread_mutex_unlock(&worker->mutex);
    *worker->sessions_end = session;
    for (; session != NULL; session = session->next) {
        worker->sessions_end = &session->next;
        session_begin(session, &host, now);
        worker->open_count++;
        worker->served++;
        if (worker->cancelled)
            session_cancel(session, now);
    }
}

/* A session is closed: take it out of the list at `*link`, and tell the main thread. */
static void settle(struct worker *worker, struct session **link)
{
    struct session *session = *link;
    const uint64_t one = 1;

    *link = session->next;
    if (worker->sessions_end == &session->next)
        worker->sessions_end = link;
    session->next = NULL;
    if (session->keep_endpoint) {
        session->next = worker->kept;
        worker->kept = session;
    }
    worker->open_count--;
    atomic_store_explicit(&session->settled, true, memory_order_release);
    if (write(worker->config.done_fd, &one, sizeof(one)) < 0)
        return; /* the counter is full: the reader will look anyway */
}

static uint32_t service_sessions(struct worker *worker, uint64_t now)
{
    const bool check = now >= worker->next_check_ns;
    struct session **link = &worker->sessions;
    uint32_t serviced = 0;

    if (check)
        worker->next_check_ns = now + CHECK_NS;
    while (*link != NULL) {
        struct session *session = *link;

        /* One that could not open is closed without ever having been serviced. */
        if (!session_closed(session) && session_due(session)) {
            serviced += session->contexts > 0;
            session_service(session, now);
        }
        if (check)
            session_check_time(session, now);
        if (session_closed(session))
            settle(worker, link);
        else
            link = &session->next;
    }
    return serviced;
}

static void cancel_sessions(struct worker *worker, uint64_t now)
{
    if (worker->cancelled || !atomic_load_explicit(worker->config.cancel, memory_order_acquire))
        return;
    worker->cancelled = true;
    for (struct session *session = worker->sessions; session != NULL; session = session->next)
        session_cancel(session, now);
}

static void trace_worker(const struct worker *worker, uint8_t cause)
{
    FABT_TRACE(worker, .cause = cause, .worker = worker->config.index, .tid = (uint32_t)gettid(),
               .pinned_cpu = worker->config.pinned_cpu, .wait_mode = worker->wait_mode);
}

/* Who is who, for traces that started late. */
static void state_dump(struct worker *worker, uint64_t now)
{
    if (!state_dump_due(&worker->dump, now, FABT_TRACE_ENABLED(worker)))
        return;
    trace_worker(worker, FABT_CAUSE_STATE_DUMP);
    for (struct session *session = worker->sessions; session != NULL; session = session->next)
        session_trace_state_dump(session, now);
}

static void window_end(struct worker *worker, uint64_t now)
{
    load_window_end(&worker->load, now, worker->config.index, worker->open_count);
    for (struct session *session = worker->sessions; session != NULL; session = session->next)
        session_window_end(session);
    state_dump(worker, now);
}

/* ---- waiting ---- */

static bool any_due(const struct worker *worker)
{
    for (const struct session *session = worker->sessions; session != NULL;
         session = session->next) {
        if (session_closed(session) || session_due(session))
            return true;
    }
    return atomic_load_explicit(&worker->inbox_filled, memory_order_acquire);
}

static void drain_event(struct worker *worker)
{
    uint64_t count;

    if (read(worker->event_fd, &count, sizeof(count)) < 0)
        return; /* nothing to drain */
}

static void slept(struct worker *worker, uint8_t kind, uint8_t cause)
{
    const uint64_t before = worker->load.last_ns;
    const uint64_t now = clock_now();

    load_slept(&worker->load, now);
    FABT_TRACE(worker_sleep, .worker = worker->config.index, .sleep_kind = kind,
               .wake_cause = cause, .asleep_ns = now - before);
}

/* Milliseconds until a session's linger or drain ends, at most SLEEP_MAX_MS. */
static int sleep_limit(const struct worker *worker, uint64_t now)
{
    uint64_t limit = SLEEP_MAX_MS * NS_PER_MS;

    for (const struct session *session = worker->sessions; session != NULL;
         session = session->next) {
        if (session->phase != FABT_PHASE_LINGER && session->phase != FABT_PHASE_DRAIN)
            continue;
        if (session->deadline_ns <= now)
            return 0;
        if (session->deadline_ns - now < limit)
            limit = session->deadline_ns - now;
    }
    return (int)((limit + NS_PER_MS - 1) / NS_PER_MS);
}

/* Sleep, longer each time, up to a millisecond and so much more as there are workers. */
static void nap(struct worker *worker)
{
    struct pollfd event = {.fd = worker->event_fd, .events = POLLIN};
    const struct timespec pause = {.tv_nsec = (long)worker->backoff_ns};
    const int n = ppoll(&event, 1, &pause, NULL);

    if (n > 0)
        drain_event(worker);
    if (worker->backoff_ns < worker->backoff_max_ns)
        worker->backoff_ns *= 2;
    slept(worker, FABT_SLEEP_KIND_BACKOFF,
          n > 0 ? (uint8_t)FABT_WAKE_CAUSE_KICK : (uint8_t)FABT_WAKE_CAUSE_TIMEOUT);
}

/* A provider may wake us for ever and for nothing, or never let us wait (net with libfabric 1.17):
 * then there is a nap between one try and the next. */
static void wait_epoll(struct worker *worker, uint64_t now)
{
    struct fid *fids[] = {&worker->cq->fid};
    struct epoll_event events[2];
    uint8_t cause = FABT_WAKE_CAUSE_TIMEOUT;
    int n;

    if (worker->futile_waits >= FUTILE_WAITS) {
        worker->futile_waits--;
        nap(worker);
        return;
    }
    worker->futile_waits++;
    if (fi_trywait(worker->domain.root, fids, 1) != 0) {
        worker->waits_refused++;
        return;
    }
    worker->waits++;
    n = epoll_pwait(worker->epoll_fd, events, 2, sleep_limit(worker, now), NULL);
    if (n < 0 && errno == EINTR) {
        cause = FABT_WAKE_CAUSE_SIGNAL;
        FABT_TRACE(signal, .signo = 0, .interrupted = 1);
    }
    if (n == 0)
        worker->futile_waits = 0;
    for (int i = 0; i < n; i++) {
        cause = FABT_WAKE_CAUSE_PROVIDER;
        if (events[i].data.fd == worker->event_fd) {
            cause = FABT_WAKE_CAUSE_KICK;
            drain_event(worker);
        }
    }
    slept(worker, FABT_SLEEP_KIND_EPOLL, cause);
}

/* Is a session in the middle of its payload? Then it may get further without any completion. */
static bool any_transfer(const struct worker *worker)
{
    for (const struct session *session = worker->sessions; session != NULL;
         session = session->next) {
        if (session->phase == FABT_PHASE_TRANSFER)
            return true;
    }
    return false;
}

/* For how long to yield before the first sleep. */
static uint64_t yield_limit(const struct worker *worker, uint64_t now)
{
    if (now - worker->idle_since_ns < YIELD_NS || worker->config.crowd > 1)
        return YIELD_NS;
    return any_transfer(worker) ? YIELD_TRANSFER_NS : YIELD_NS;
}

/* Nothing found: let others run, and after a while nap. */
static void wait_backoff(struct worker *worker, uint64_t now)
{
    if (worker->idle_since_ns == 0)
        worker->idle_since_ns = now;
    if (now - worker->idle_since_ns < yield_limit(worker, now)) {
        sched_yield();
        load_yielded(&worker->load, clock_now());
        return;
    }
    nap(worker);
}

static void wait_for_work(struct worker *worker, uint64_t now)
{
    if (worker->wait_mode == FABT_WAIT_MODE_EPOLL)
        wait_epoll(worker, now);
    else
        wait_backoff(worker, now);
}

/* ---- thread ---- */

static bool may_stop(struct worker *worker)
{
    return worker->open_count == 0 && atomic_load_explicit(&worker->stop, memory_order_acquire) &&
           !atomic_load_explicit(&worker->inbox_filled, memory_order_acquire);
}

static uint64_t backoff_max(uint32_t crowd)
{
    return BACKOFF_MAX_NS * (crowd > BACKOFF_CROWD_MAX ? BACKOFF_CROWD_MAX : crowd > 0 ? crowd : 1);
}

static void run(struct worker *worker)
{
    uint64_t now = clock_now();

    worker->backoff_ns = BACKOFF_MIN_NS;
    worker->backoff_max_ns = backoff_max(worker->config.crowd);
    state_dump_start(&worker->dump, now, FABT_TRACE_ENABLED(worker));
    load_start(&worker->load, now);
    load_check_cpu(&worker->load, worker->config.index);
    while (!may_stop(worker)) {
        struct load_loop loop = {0};

        heartbeat_beat(&worker->heartbeat);
        loop.contexts = poll_queue(worker, &now);
        take_inbox(worker, now);
        cancel_sessions(worker, now);
        loop.sessions = service_sessions(worker, now);
        now = clock_now();
        if (load_loop_end(&worker->load, now, &loop))
            window_end(worker, now);
        if (loop.contexts > 0 || loop.sessions > 0) {
            worker->idle_since_ns = 0;
            worker->backoff_ns = BACKOFF_MIN_NS;
            worker->futile_waits = 0;
        } else {
            if (any_due(worker))
                wait_backoff(worker,
                             now); /* a deferred post: no event may tell when to try again */
            else
                wait_for_work(worker, now);
            now = clock_now();
        }
    }
    window_end(worker, clock_now());
    while (worker->kept != NULL) {
        struct session *session = worker->kept;

        worker->kept = session->next;
        session_release(session);
    }
}

static void trace_stats(const struct worker *worker)
{
    const struct load *load = &worker->load;

    FABT_TRACE(worker_stats, .worker = worker->config.index, .loops = load->loops,
               .loops_no_completion = load->loops_no_completion,
               .loops_no_session = load->loops_no_session, .waits = worker->waits,
               .waits_refused = worker->waits_refused, .sleeps = load->sleeps,
               .migrations = load->migrations, .sessions = worker->served);
}

static void *worker_main(void *argument)
{
    struct worker *worker = argument;

    fabt_trace_writer_start(worker->config.instance, worker->config.index + 1);
    trace_worker(worker, FABT_CAUSE_START);
    FABT_TRACE(queue_watch, .worker = worker->config.index, .watch = FABT_WATCH_JOINED,
               .fd = worker->cq_fd);
    run(worker);
    FABT_TRACE(queue_watch, .worker = worker->config.index, .watch = FABT_WATCH_LEFT,
               .fd = worker->cq_fd);
    trace_stats(worker);
    fabt_trace_writer_end(&worker->ended);
    return NULL;
}
