/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What both roles share of a session: its endpoint, its phases, its end.
 *
 *     setup ──▶ hello ──▶ transfer ──▶ finish ──▶ linger ──▶ drain ──▶ closed
 *       │         │           │           │          │          ▲
 *       └─────────┴───────────┴───────────┴──────────┴──────────┘  failure, cancellation
 *
 *   setup     the endpoint is opened, receives are posted
 *   hello     put waits for the acknowledgement, get for the acknowledgement's send
 *   transfer  payload flows
 *   finish    all payload is through; ends of stream and last sends are under way
 *   linger    put keeps reading its queue for a bounded time, so that the peer's last messages
 * arrive drain     what is still posted is cancelled; the provider reports each (bounded) closed
 * the endpoint is closed
 *
 * A session is served by one worker thread only. put.c and get.c fill in `struct session_class`.
 */
#ifndef FABT_SESSION_H
#define FABT_SESSION_H

#include <stdatomic.h>

#include "account.h"
#include "buffer.h"
#include "clock.h"
#include "control.h"
#include "latency.h"
#include "op.h"
#include "options.h"
#include "ring.h"
#include "wire.h"
#include "workload.h"

struct session;

struct session_class {
    /* The endpoint is open: post what the handshake needs. */
    int (*begin)(struct session *session);
    /* `op` has completed well: look into what arrived. `*earlier` as in event op_complete. */
    int (*completed)(struct session *session, struct op *op, uint32_t *earlier);
    /* Do all that can be done now. */
    int (*advance)(struct session *session);
    /* What it waits for: enum fabt_state. */
    uint8_t (*waits_for)(const struct session *session);
    /* The endpoint is closed: give registrations and buffers back. Returns what leaked. */
    unsigned (*release)(struct session *session);
    /* Free the session; its completion queue is closed. */
    void (*destroy)(struct session *session);
};

/* What a session has done. */
struct session_counts {
    uint64_t payload_bytes;  /* put: completed; get: verified */
    uint64_t reported_bytes; /* in progress messages */
    uint64_t credit_bytes;   /* offered and not yet written (put), not yet reported (get) */
    uint64_t writes;
    uint64_t fragments; /* pieces split off payload buffers: a buffer in k pieces counts k - 1 */
    uint64_t vectors;
    uint64_t progresses;
    struct registration_counts registrations;
};

struct session {
    const struct session_class *class;
    struct session *next; /* in its worker's inbox, then among its worker's sessions */
    const struct options *options;
    const struct fabric *fabric;
    struct domain *domain;   /* its worker's */
    struct reserve *reserve; /* its worker's, or its own when the workload has its own size */
    struct reserve own_reserve;
    uint32_t own_size;
    struct endpoint endpoint;
    uint32_t number;
    uint32_t worker;

    /* Agreed in the handshake. */
    struct address peer_address;
    fi_addr_t peer;
    struct workload workload;
    uint64_t total_bytes; /* UINT64_MAX while put has not said where it ends */
    uint64_t run_id;
    uint16_t round; /* of put's sizes */
    uint32_t wire_id;
    uint32_t peer_pid;

    uint8_t phase;   /* enum fabt_phase */
    uint8_t state;   /* enum fabt_state */
    uint8_t outcome; /* enum fabt_outcome, once closed */
    bool stopping;   /* failed or cancelled: no new posts */
    bool cancelled;
    bool refused;
    bool retry;        /* a post was deferred: service again without waiting */
    uint32_t contexts; /* completions since the last service */
    bool keep_endpoint;
    bool stall_told; /* event `stall` is written for the present lack of progress */
    bool released;   /* endpoint, registrations and buffers are gone */
    bool through; /* all is said and done but for the provider's last word: no error counts now */
    atomic_bool settled; /* closed, and its worker is done with it; the main thread looks */

    uint64_t given_ns;    /* when its worker got it */
    uint64_t start_ns;    /* when payload could flow */
    uint64_t end_ns;      /* when the last byte was reported (put) or verified (get) */
    uint64_t activity_ns; /* when it last got further */
    uint64_t mark;        /* how far it was then */
    uint64_t deadline_ns; /* of linger and drain */
    uint64_t failed_ns;

    struct account account;    /* what its time goes to */
    struct activity *activity; /* its worker's */
    uint64_t payload_ns;       /* in making or verifying payload, while the account is kept */
    struct session_counts counts;
    struct latency latency;    /* of writes, from post to delivery-complete */
    struct latency round_trip; /* put, pingpong: from a write's post to the memory's next offer */
    uint64_t warm_ns;          /* when the warm-up was over; figures count from here; 0: not yet */
    struct session_counts warm_counts; /* counts at that time */
    struct op_counts warm_ops;
    _Atomic uint64_t shown_bytes; /* payload_bytes, for the main thread */
    struct failure failure;
    unsigned leaks; /* libfabric objects that could not be closed */
};

/* Set up what the class does not: called before a session is handed over. */
void session_init(struct session *session, const struct session_class *class,
                  const struct options *options, const struct fabric *fabric, uint32_t number,
                  const struct workload *workload);

/* What a worker lends to its sessions. With `keep_endpoint` a closed session's endpoint stays open,
 * and the worker closes it at its own end. */
struct session_host {
    struct domain *domain;
    struct fid_cq *cq;
    struct reserve *reserve;
    struct activity *activity;
    uint32_t worker;
    bool keep_endpoint;
};

/* The worker's calls. */
void session_begin(struct session *session, const struct session_host *host, uint64_t now);
void session_completed(struct session *session, struct op *op, uint64_t now, size_t len,
                       int status);
void session_service(struct session *session, uint64_t now);
void session_check_time(struct session *session, uint64_t now);
void session_cancel(struct session *session, uint64_t now);
void session_window_end(struct session *session); /* of the worker's load */
void session_trace_state_dump(const struct session *session, uint64_t now);

/* Close its endpoint, if it was kept, and give everything back. Returns what leaked. */
unsigned session_release(struct session *session);

/* Must it be serviced now? */
static inline bool session_due(const struct session *session)
{
    return session->contexts > 0 || session->retry;
}

static inline bool session_closed(const struct session *session)
{
    return session->phase == FABT_PHASE_CLOSED;
}

/* The roles' calls. */
void session_enter(struct session *session, uint8_t phase);
void session_started(struct session *session, uint64_t now);

/* Around the making or verifying of payload: a clock that stands still during registrations. */
static inline uint64_t session_payload_begin(const struct session *session)
{
    return account_on(&session->account) ? clock_now() - session->counts.registrations.ns : 0;
}

static inline void session_payload_end(struct session *session, uint64_t begin)
{
    if (begin != 0)
        session->payload_ns += clock_now() - session->counts.registrations.ns - begin;
}

/* All is done well: linger for so long, then drain and close. */
void session_finished(struct session *session, uint64_t now, uint64_t linger_ns);

/* Only the stress workload makes life hard on purpose. */
static inline bool session_disorderly(const struct session *session)
{
    return session->workload.kind == FABT_WORKLOAD_STRESS;
}

/* The more urgent of two results: an error, then a deferral (-FI_EAGAIN), then 0. */
static inline int session_worse(int a, int b)
{
    if (a == 0 || a == -FI_EAGAIN)
        return b == 0 ? a : b;
    return a;
}

/* put may have to wait for other puts: an older get acknowledges only when all have come. */
static inline uint64_t session_timeout(const struct session *session)
{
    return session->phase <= FABT_PHASE_HELLO && session->options->role == ROLE_PUT
               ? session->options->hello_timeout_ns
               : session->options->timeout_ns;
}

#endif
