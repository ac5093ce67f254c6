/* SPDX-License-Identifier: BSD-3-Clause */
#include "session.h"

#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>

#include "clock.h"

/* How long a provider may take to report what was cancelled. At a session's regular end only
 * receives are left and nothing of value is at stake. */
#define DRAIN_AFTER_CANCEL_NS (2 * NS_PER_S)
#define DRAIN_AT_END_NS (500 * NS_PER_MS)

/* Sessions' times are looked at now and then only: less without progress is not noticed. */
#define STALL_MIN_NS (50 * NS_PER_MS)

void session_init(struct session *session, const struct session_class *class,
                  const struct options *options, const struct fabric *fabric, uint32_t number,
                  const struct workload *workload)
{
    memset(session, 0, sizeof(*session));
    session->class = class;
    session->options = options;
    session->fabric = fabric;
    session->number = number;
    session->peer = FI_ADDR_UNSPEC;
    session->workload = *workload;
    session->total_bytes = workload_open_ended(workload) ? UINT64_MAX : workload->total_bytes;
}

static void trace_address(int32_t session, uint8_t cause, uint8_t kind,
                          const struct address *address)
{
    char text[ADDRESS_TEXT_SIZE];

    if (!FABT_TRACE_ENABLED(session_address) || address->len == 0)
        return;
    address_format(address, text);
    FABT_TRACE(session_address, .cause = cause, .session = session, .address_kind = kind,
               .address = text);
}

static void trace_open(const struct session *session, uint8_t cause, uint64_t now)
{
    FABT_TRACE(session_open, .cause = cause, .session = session->number, .worker = session->worker,
               .wire_id = session->wire_id, .peer_pid = session->peer_pid,
               .run_id = session->run_id, .workload = session->workload.kind,
               .total_bytes = session->workload.total_bytes, .phase = session->phase,
               .state = session->state, .age_ns = now - session->given_ns);
}

void session_trace_state_dump(const struct session *session, uint64_t now)
{
    const uint8_t cause = FABT_CAUSE_STATE_DUMP;

    trace_open(session, cause, now);
    trace_address((int32_t)session->number, cause, FABT_ADDRESS_KIND_LOCAL,
                  &session->endpoint.address);
    if (session->phase >= FABT_PHASE_TRANSFER)
        trace_address((int32_t)session->number, cause, FABT_ADDRESS_KIND_PEER,
                      &session->peer_address);
}

static void trace_counts(const struct session *session)
{
    const struct session_counts *counts = &session->counts;
    const struct op_counts *ops = &session->endpoint.counts;

    FABT_TRACE(session_count, .session = session->number, .payload_bytes = counts->payload_bytes,
               .reported_bytes = counts->reported_bytes, .credit_bytes = counts->credit_bytes,
               .ops_posted = ops->posted, .ops_completed = ops->completed, .writes = counts->writes,
               .fragments = counts->fragments, .deferred = ops->deferred,
               .out_of_order = ops->out_of_order, .vectors = counts->vectors,
               .progresses = counts->progresses, .registrations = counts->registrations.count,
               .registration_ns = counts->registrations.ns);
}

void session_enter(struct session *session, uint8_t phase)
{
    session->phase = phase;
    FABT_TRACE(session_phase, .session = session->number, .phase = phase);
}

/* What has been done for it so far; of registrations also those within the making of payload. */
static struct account_work work_done(const struct session *session)
{
    return (struct account_work){
        .payload_ns = session->payload_ns,
        .registration_ns = session->counts.registrations.ns,
        .post_ns = session->endpoint.counts.call_ns,
    };
}

/* Charge the time until now to the session's account. Handshake and end are not split further. */
static void charge(struct session *session)
{
    struct account *account = &session->account;
    uint8_t state = FABT_STATE_SERVICE;
    struct account_work work;

    if (!account_on(account))
        return;
    if (session->phase < FABT_PHASE_TRANSFER)
        state = FABT_STATE_SETUP; /* a post may well be deferred until there is a connection */
    else if (!account->serving)
        state = session->state;
    if (!account->serving) {
        account_wait(account, state, clock_now());
        return;
    }
    work = work_done(session);
    if (session->phase >= FABT_PHASE_LINGER)
        state = FABT_STATE_DRAIN;
    account_serve(account, state, &work, session->retry, clock_now());
}

static void begin_service(struct session *session)
{
    if (!FABT_TRACE_ENABLED(session_time))
        return;
    if (account_on(&session->account)) {
        charge(session);
    } else {
        account_start(&session->account, session->activity, clock_now());
        session->account.work = work_done(session);
    }
    session->account.serving = true;
}

static void end_service(struct session *session)
{
    if (!session->account.serving)
        return;
    if (!session_closed(session))
        charge(session);
    session->account.serving = false;
}

void session_window_end(struct session *session)
{
    trace_counts(session);
    charge(session);
    account_trace(&session->account, session->number);
}

static void set_state(struct session *session, uint8_t state)
{
    if (session->state == state)
        return;
    session->state = state;
    FABT_TRACE(session_state, .session = session->number, .state = state);
}

unsigned session_release(struct session *session)
{
    unsigned leaks = 0;

    if (session->released)
        return 0;
    session->released = true;
    leaks = endpoint_close(&session->endpoint);
    /* Buffers that an endpoint may still write to or read from are lost with it. */
    if (leaks == 0)
        leaks += session->class->release(session);
    reserve_free(&session->own_reserve);
    session->leaks += leaks;
    return leaks;
}

static void close_session(struct session *session, uint64_t now)
{
    if (session_closed(session))
        return;
    trace_counts(session);
    if (session->keep_endpoint)
        endpoint_abandon(&session->endpoint);
    else
        session_release(session);
    if (session->end_ns == 0)
        session->end_ns = now;
    session->retry = false;
    session_enter(session, FABT_PHASE_CLOSED);
    set_state(session, FABT_STATE_DONE);
    if (session->failure.code != 0)
        session->outcome = session->refused ? FABT_OUTCOME_REFUSED : FABT_OUTCOME_FAILED;
    else
        session->outcome = session->cancelled ? FABT_OUTCOME_CANCELLED : FABT_OUTCOME_OK;
    charge(session);
    account_trace(&session->account, session->number);
    FABT_TRACE(session_close, .session = session->number, .outcome = session->outcome,
               .payload_bytes = session->counts.payload_bytes,
               .elapsed_ns = session->start_ns == 0 ? 0 : session->end_ns - session->start_ns,
               .reason = session->failure.text);
}

static void start_drain(struct session *session, uint64_t now, uint64_t limit_ns)
{
    session->stopping = true;
    session->retry = true; /* an endpoint with nothing posted is closed at once */
    session->deadline_ns = now + limit_ns;
    charge(session);
    session_enter(session, FABT_PHASE_DRAIN);
    set_state(session, FABT_STATE_DRAIN);
    endpoint_cancel(&session->endpoint);
}

static void fail(struct session *session, uint64_t now)
{
    session->failed_ns = now;
    FABT_TRACE(error, .session = (int32_t)session->number, .code = session->failure.code,
               .text = session->failure.text);
    if (session->phase < FABT_PHASE_DRAIN)
        start_drain(session, now, DRAIN_AFTER_CANCEL_NS);
}

void session_begin(struct session *session, const struct session_host *host, uint64_t now)
{
    int rc;

    session->domain = host->domain;
    session->reserve = host->reserve;
    if (session->workload.kind != FABT_WORKLOAD_STRESS) {
        session->own_size = (uint32_t)session->workload.size_bytes;
        reserve_init(&session->own_reserve, &session->own_size, 1, host->worker);
        if (!session->workload.pattern)
            reserve_share(&session->own_reserve);
        session->reserve = &session->own_reserve;
    }
    session->worker = host->worker;
    session->keep_endpoint = host->keep_endpoint;
    session->given_ns = session->activity_ns = now;
    session->activity = host->activity;
    begin_service(session);
    session->retry = true;
    trace_open(session, FABT_CAUSE_START, now);
    session_enter(session, FABT_PHASE_SETUP);
    FABT_TRACE(session_state, .session = session->number, .state = FABT_STATE_SETUP);
    session->state = FABT_STATE_SETUP;
    rc = endpoint_open(&session->endpoint, host->domain, host->cq, session->number,
                       &session->failure);
    if (rc == 0) {
        if (session->options->outlier_ns != 0)
            session->endpoint.outlier_ns = session->options->outlier_ns;
        trace_address((int32_t)session->number, FABT_CAUSE_START, FABT_ADDRESS_KIND_LOCAL,
                      &session->endpoint.address);
        rc = session->class->begin(session);
    }
    if (rc != 0 && rc != -FI_EAGAIN) {
        session->failed_ns = now;
        FABT_TRACE(error, .session = (int32_t)session->number, .code = session->failure.code,
                   .text = session->failure.text);
        if (session->endpoint.ep == NULL)
            close_session(session, now);
        else
            start_drain(session, now, DRAIN_AFTER_CANCEL_NS);
    } else {
        session_enter(session, FABT_PHASE_HELLO);
    }
    end_service(session);
}

void session_completed(struct session *session, struct op *op, uint64_t now, size_t len, int status)
{
    uint32_t earlier = 0;

    op_complete(op, now, len, status);
    session->contexts++;
    if (status == 0) {
        /* What it says of a message that makes no sense is kept; the session then fails. */
        session->class->completed(session, op, &earlier);
    } else if (!op->cancelled && !session->through) {
        control_failed(op, &session->failure);
    }
    op_traced_complete(op, earlier);
}

static const uint8_t state_of_phase[] = {
    [FABT_PHASE_FINISH] = FABT_STATE_EOF,
    [FABT_PHASE_LINGER] = FABT_STATE_DRAIN,
    [FABT_PHASE_DRAIN] = FABT_STATE_DRAIN,
    [FABT_PHASE_CLOSED] = FABT_STATE_DONE,
};

/* A measure that grows when the session gets further: messages that say nothing don't count, so a
 * peer can't keep a session alive with them. */
static uint64_t mark(const struct session *session)
{
    return session->counts.payload_bytes + session->counts.reported_bytes + session->phase;
}

static void note_activity(struct session *session, uint64_t now)
{
    const uint64_t reached = mark(session);

    if (reached == session->mark)
        return;
    session->mark = reached;
    session->activity_ns = now;
    session->stall_told = false;
}

/* The warm-up is over: what was before does not count. */
static void start_figures(struct session *session, uint64_t now)
{
    session->warm_ns = now;
    session->warm_counts = session->counts;
    session->warm_ops = session->endpoint.counts;
    memset(&session->latency, 0, sizeof(session->latency));
    memset(&session->round_trip, 0, sizeof(session->round_trip));
}

void session_service(struct session *session, uint64_t now)
{
    FABT_TRACE(session_service, .session = session->number, .contexts = session->contexts);
    begin_service(session);
    session->contexts = 0;
    session->retry = false;
    if (session->failure.code != 0 && session->phase < FABT_PHASE_DRAIN) {
        fail(session, now);
    } else if (session->phase < FABT_PHASE_LINGER) {
        const int rc = session->class->advance(session);

        if (rc == -FI_EAGAIN)
            session->retry = true;
        else if (rc != 0)
            fail(session, now);
    }
    if (session->phase == FABT_PHASE_LINGER && now >= session->deadline_ns)
        start_drain(session, now, DRAIN_AT_END_NS);
    if (session->phase == FABT_PHASE_DRAIN && session->endpoint.outstanding == 0)
        close_session(session, now);
    note_activity(session, now);
    atomic_store_explicit(&session->shown_bytes, session->counts.payload_bytes,
                          memory_order_relaxed);
    if (session->warm_ns == 0 && session->start_ns != 0 &&
        now >= session->start_ns + session->options->warmup_ns)
        start_figures(session, now);
    end_service(session);
    if (session->phase < FABT_PHASE_FINISH)
        set_state(session, session->retry ? (uint8_t)FABT_STATE_DEFERRED
                                          : session->class->waits_for(session));
    else
        set_state(session, state_of_phase[session->phase]);
}

/* A quarter of the way to the time-out, or --outlier's limit. */
static uint64_t stall_limit(const struct session *session)
{
    const uint64_t outlier = session->options->outlier_ns, limit = session_timeout(session) / 4;

    if (outlier == 0 || outlier > limit)
        return limit;
    return outlier < STALL_MIN_NS ? STALL_MIN_NS : outlier;
}

/* Once a stall, while it lasts: a flight recorder then still has what led to it. */
static void check_stall(struct session *session, uint64_t now)
{
    const uint64_t idle = now - session->activity_ns;

    if (session->stall_told || idle < stall_limit(session))
        return;
    session->stall_told = true;
    FABT_TRACE(stall, .session = session->number, .idle_ns = idle, .state = session->state);
}

void session_check_time(struct session *session, uint64_t now)
{
    const uint64_t limit = session_timeout(session);

    switch (session->phase) {
    case FABT_PHASE_LINGER:
    case FABT_PHASE_DRAIN:
        if (now < session->deadline_ns)
            return;
        if (session->phase == FABT_PHASE_LINGER)
            start_drain(session, now, DRAIN_AT_END_NS);
        else
            close_session(session, now);
        return;
    case FABT_PHASE_CLOSED:
        return;
    default:
        check_stall(session, now);
        session->retry = true; /* the roles bound some of their waits by time */
        if (now < session->activity_ns + limit)
            return;
        failure_set_peer_lost(&session->failure, -FI_ETIMEDOUT,
                              "no progress for %.1f s (--timeout): the peer is gone, stopped or "
                              "waits for something else%s",
                              (double)limit / (double)NS_PER_S,
                              session->phase <= FABT_PHASE_HELLO &&
                                      session->options->role == ROLE_PUT
                                  ? "; no acknowledgement came: are its address, its -n and its "
                                    "--token-file right?"
                                  : "");
        fail(session, now);
    }
}

void session_cancel(struct session *session, uint64_t now)
{
    if (session->phase >= FABT_PHASE_DRAIN)
        return;
    if (session->failure.code != 0) {
        fail(session, now); /* a completion just said so, and there was no service in between */
        return;
    }
    session->cancelled = true;
    start_drain(session, now, DRAIN_AFTER_CANCEL_NS);
}

void session_started(struct session *session, uint64_t now)
{
    session->start_ns = now;
    if (session->options->warmup_ns == 0)
        session->warm_ns = now;
    trace_address((int32_t)session->number, FABT_CAUSE_START, FABT_ADDRESS_KIND_PEER,
                  &session->peer_address);
    session_enter(session, FABT_PHASE_TRANSFER);
    FABT_TRACE(session_start, .session = session->number, .handshake_ns = now - session->given_ns);
}

void session_finished(struct session *session, uint64_t now, uint64_t linger_ns)
{
    session->deadline_ns = now + linger_ns;
    if (linger_ns > 0)
        session_enter(session, FABT_PHASE_LINGER);
    else
        start_drain(session, now, DRAIN_AT_END_NS);
}
