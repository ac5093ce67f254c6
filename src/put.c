/* SPDX-License-Identifier: BSD-3-Clause
 *
 * put's session: takes in vectors, lets put_write.c write, reports progress, and ends. */
#include "put_parts.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"

enum {
    SPLIT_PERIOD = 2048, /* progress messages between two that report half */
};

/* How long the last messages of a finished session may need. Reliable-datagram emulation
 * retransmits; connected transports have delivered already. */
#define LINGER_NS (5 * NS_PER_MS)
#define LINGER_DATAGRAM_NS (300 * NS_PER_MS)

/* ---- vectors: memory to write to ---- */

/* Take segments of arrived vectors while there is room. A receive is posted again only when all of
 * its segments are taken. */
static int take_vectors(struct put *put)
{
    struct session *session = &put->base;
    struct control_message *message;

    while ((message = control_rx_head(&put->vectors)) != NULL) {
        const struct wire_vector *vector = &message->vector;

        if (put->eof_received)
            return failure_set(&session->failure, -EPROTO,
                               "a vector of %" PRIu32 " segments came after get's end of stream",
                               vector->count);
        if (session->workload.kind == FABT_WORKLOAD_PINGPONG && put->write_post_ns != 0) {
            latency_add(&session->round_trip, message->op.complete_ns - put->write_post_ns);
            put->write_post_ns = 0;
        }
        if (vector->count == 0) {
            put->eof_received = true;
            FABT_TRACE(eof, .session = session->number, .kind = FABT_KIND_VECTOR_RX,
                       .op = message->op.number);
        }
        while (!put->eof_sent && put->taken < vector->count) {
            if (target_full(&put->target))
                return 0;
            target_add(&put->target, &vector->segments[put->taken++]);
        }
        put->taken = 0;
        session->counts.vectors++;
        control_trace_vector(message, FABT_DIRECTION_RX);
        control_rx_release(&put->vectors);
    }
    return 0;
}

/* ---- progress ---- */

/* All bytes of the stream are written and their completions are in. */
static bool all_written(const struct put *put)
{
    return put->base.counts.payload_bytes == put->base.total_bytes;
}

/* The deliberate disorder: the first message, then every 2048th, reports half. */
static uint64_t split(struct put *put, uint64_t bytes)
{
    if (!session_disorderly(&put->base))
        return bytes;
    if (put->split_in > 0) {
        put->split_in--;
        return bytes;
    }
    if (bytes < 2)
        return bytes;
    put->split_in = SPLIT_PERIOD - 1;
    return bytes / 2;
}

/* Is it time to report? A bandwidth run saves messages: half of its depth at once, as get then
 * still has as many buffers to be written to. */
static bool report_due(const struct put *put)
{
    const struct workload *workload = &put->base.workload;

    if (all_written(put))
        return true;
    if (workload->kind != FABT_WORKLOAD_STREAM || ring_empty(&put->in_flight))
        return put->unreported_bytes > 0;
    return put->unreported_bytes >= workload->size_bytes * ((workload->depth + 1) / 2);
}

static void report(struct put *put)
{
    struct session *session = &put->base;

    while (!put->eof_sent && report_due(put)) {
        struct control_message *message = control_tx_take(&put->progress);
        uint64_t bytes;

        if (message == NULL)
            return;
        bytes = split(put, put->unreported_bytes);
        put->unreported_bytes -= bytes;
        put->eof_sent = all_written(put) && put->unreported_bytes == 0;
        message->progress = (struct wire_progress){bytes, put->eof_sent ? 0 : 1};
        wire_encode_progress(&message->progress, message->bytes);
        control_tx_enqueue(&put->progress, message, FABT_KIND_PROGRESS_TX, WIRE_PROGRESS_SIZE,
                           bytes, 1);
        session->counts.progresses++;
        session->counts.reported_bytes += bytes;
        target_reported(&put->target, session->counts.reported_bytes);
        FABT_TRACE(progress, .session = session->number, .op = message->op.number,
                   .direction = FABT_DIRECTION_TX, .number = message->number, .filled_bytes = bytes,
                   .leftover = message->progress.leftover);
        if (put->eof_sent) {
            FABT_TRACE(eof, .session = session->number, .kind = FABT_KIND_PROGRESS_TX,
                       .op = message->op.number);
            session->end_ns = clock_now();
            session_enter(session, FABT_PHASE_FINISH);
        }
    }
}

/* ---- the session's calls ---- */

static int put_completed(struct session *session, struct op *op, uint32_t *earlier)
{
    struct put *put = put_of(session);
    struct control_message *message;

    switch (op->kind) {
    case FABT_KIND_WRITE:
    case FABT_KIND_FRAGMENT:
        *earlier = control_earlier_pending(&put->in_flight, op);
        op->got = op->len; /* providers need not say it for transmits */
        latency_add(&session->latency, op->complete_ns - op->post_ns);
        return 0;
    case FABT_KIND_VECTOR_RX:
        *earlier = control_earlier_pending(&put->vectors.posted, op);
        message = (struct control_message *)op;
        message->vector.count = 0;
        if (wire_decode_vector(message->bytes, op->got, &message->vector, &session->failure) != 0)
            return session->failure.code;
        op->payload = message->vector.total;
        return 0;
    case FABT_KIND_PROGRESS_TX:
        *earlier = control_earlier_pending(&put->progress.posted, op);
        op->got = op->len;
        return 0;
    case FABT_KIND_INITIAL_TX:
        op->got = op->len;
        return 0;
    default:
        return 0;
    }
}

static int finish_if_done(struct put *put)
{
    struct session *session = &put->base;
    const char *provider = session->fabric->info->fabric_attr->prov_name;

    if (put->eof_received && !put->eof_sent)
        return failure_set(&session->failure, -EPROTO,
                           "get ended the stream after %" PRIu64 " of %" PRIu64 " bytes",
                           session->counts.reported_bytes, session->total_bytes);
    session->through = put->eof_sent && put->eof_received;
    if (session->through && control_tx_idle(&put->progress))
        session_finished(session, clock_now(),
                         strstr(provider, "rxd") != NULL ? LINGER_DATAGRAM_NS : LINGER_NS);
    return 0;
}

/* Use what get offers: posting makes room for more segments of vectors that are in. */
static int write_all(struct put *put)
{
    uint64_t before;
    int rc;

    do {
        before = put->written_bytes;
        rc = take_vectors(put);
        if (rc == 0)
            rc = put_write_post(put);
    } while (rc == 0 && put->written_bytes != before && !session_disorderly(&put->base));
    return rc;
}

static int put_advance(struct session *session)
{
    struct put *put = put_of(session);
    int rc;

    if (!put->reply_read) {
        rc = put_hello_post(put);
        if (rc != 0 || !op_done(&put->reply))
            return rc;
        rc = put_hello_read_reply(put);
        if (rc != 0)
            return rc;
    }
    put_write_reap(put);
    put_write_fill(put);
    rc = write_all(put);
    if (rc != 0 && rc != -FI_EAGAIN)
        return rc;
    report(put);
    rc = session_worse(rc, control_tx_service(&put->progress, session->peer, &session->failure));
    rc = session_worse(rc, control_rx_service(&put->vectors, &session->failure));
    session->counts.credit_bytes = put_credit(put);
    return session_worse(rc, finish_if_done(put));
}

static uint8_t put_waits_for(const struct session *session)
{
    const struct put *put = put_of_const(session);

    if (!put->reply_read)
        return FABT_STATE_PEER;
    if (!ring_empty(&put->in_flight))
        return FABT_STATE_PROVIDER;
    if (put->unreported_bytes > 0)
        return FABT_STATE_REPORT;
    return FABT_STATE_MEMORY;
}

static unsigned put_release(struct session *session)
{
    struct put *put = put_of(session);
    unsigned leaks = 0;

    /* Back in the order that makes the next session find them as this one did. */
    while (put->buffers_count > 0) {
        struct buffer *buffer = put->buffers[--put->buffers_count];

        leaks += buffer_deregister(buffer, &session->endpoint, &session->counts.registrations);
        reserve_return(session->reserve, buffer);
    }
    leaks += fabric_close_object(put->hello_mr ? &put->hello_mr->fid : NULL, "message registration",
                                 (int32_t)session->number);
    leaks += fabric_close_object(put->reply_mr ? &put->reply_mr->fid : NULL, "message registration",
                                 (int32_t)session->number);
    put->hello_mr = put->reply_mr = NULL;
    if (put->vectors.endpoint != NULL)
        leaks += control_rx_close(&put->vectors);
    if (put->progress.endpoint != NULL)
        leaks += control_tx_close(&put->progress);
    return leaks;
}

static void put_destroy(struct session *session)
{
    struct put *put = put_of(session);

    ring_free(&put->free_buffers);
    ring_free(&put->ready);
    ring_free(&put->free_writes);
    ring_free(&put->in_flight);
    free(put->buffers);
    free(put->writes);
    free(put);
}

static const struct session_class put_class = {
    .begin = put_hello_begin,
    .completed = put_completed,
    .advance = put_advance,
    .waits_for = put_waits_for,
    .release = put_release,
    .destroy = put_destroy,
};

struct session *put_create(const struct options *options, const struct fabric *fabric,
                           uint32_t number, uint32_t round, uint64_t run_id)
{
    struct put *put = calloc(1, sizeof(*put));
    struct workload workload = options->workload;
    const uint32_t depth = workload.depth;
    const uint32_t writes = fabric_writes_limit(fabric, depth);

    if (put == NULL)
        return NULL;
    workload.size_bytes = options->sizes[round];
    session_init(&put->base, &put_class, options, fabric, number, &workload);
    put->base.wire_id = number % options->local_sessions;
    put->base.round = (uint16_t)round;
    put->base.run_id = run_id;
    put->base.peer_address = options->peer;
    put->buffers = calloc(depth, sizeof(*put->buffers));
    put->writes = calloc(writes, sizeof(*put->writes));
    if (put->buffers == NULL || put->writes == NULL || !ring_init(&put->free_buffers, depth) ||
        !ring_init(&put->ready, depth) || !ring_init(&put->free_writes, writes) ||
        !ring_init(&put->in_flight, writes)) {
        put_destroy(&put->base);
        return NULL;
    }
    for (uint32_t i = 0; i < writes; i++)
        ring_push(&put->free_writes, &put->writes[i]);
    return &put->base;
}
