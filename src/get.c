/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The way of a payload byte here:
 *
 *     spare buffer -> offered (vector message) -> filled by the peer's writes (progress message)
 *           ^                                              |
 *           '------- verify (sink), when full or last <----'
 */
#include "get.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "pattern.h"

enum {
    SPLIT_PERIOD = 16, /* vectors between two that offer half of what is at hand */
};

/* After put's end of stream an older put may report the rest in one more message. */
#define REST_AFTER_EOF_NS (2 * NS_PER_S)

/* put may be gone by right when our end of stream is still under way. */
#define LAST_SEND_NS (2 * NS_PER_S)

struct get {
    struct session base; /* first */

    struct op ack;
    uint8_t ack_bytes[WIRE_ACK_SIZE];
    struct fid_mr *ack_mr;
    bool extended; /* put understands the extension block */

    struct control_tx vectors;
    struct control_rx progress;

    struct buffer **buffers; /* targets of them */
    uint32_t targets;
    uint32_t buffers_count;
    struct ring spare;   /* not offered */
    struct ring offered; /* in the order offered */
    uint32_t split_in;   /* vectors until one is to offer half */

    uint64_t offered_bytes;  /* since the start */
    uint64_t unplaced_bytes; /* reported, and not yet assigned to offered buffers */
    bool eof_received;
    bool eof_sent;
    uint64_t eof_ns;
};

static struct get *get_of(struct session *session)
{
    return (struct get *)session;
}

/* ---- handshake ---- */

/* Cut memory into segments of Fibonacci lengths (1, 1, 2, 3, 5, ...), the last one taking the rest:
 * providers must cope with any split. Returns the segments. */
static uint32_t fibonacci_segments(uint8_t *data, size_t len, uint32_t limit, struct iovec *iov)
{
    size_t a = 1, b = 1, done = 0;
    uint32_t count = 0;

    while (done < len) {
        const size_t n = count + 1 == limit || a > len - done ? len - done : a;
        const size_t next = a + b;

        iov[count++] = (struct iovec){data + done, n};
        done += n;
        a = b;
        b = next;
    }
    return count;
}

static int post_ack(struct get *get)
{
    struct session *session = &get->base;
    struct iovec iov[FABRIC_SEGMENTS_MAX];
    void *desc[FABRIC_SEGMENTS_MAX];
    const uint32_t count = fibonacci_segments(get->ack_bytes, sizeof(get->ack_bytes),
                                              session->fabric->tx_iov_limit, iov);
    const struct op_memory memory = {iov, desc, count};
    int rc;

    for (uint32_t i = 0; i < count; i++)
        desc[i] = get->ack_mr == NULL ? NULL : fi_mr_desc(get->ack_mr);
    rc = op_post_send(&get->ack, &memory, session->peer);
    if (rc != 0 && rc != -FI_EAGAIN)
        return failure_set_peer_lost(&session->failure, rc, "cannot send the acknowledgement: %s",
                                     fi_strerror(-rc));
    return rc;
}

/* The receives come first: put's first progress message must find one. */
static int advance_hello(struct get *get)
{
    int rc = control_rx_service(&get->progress, &get->base.failure);

    if (rc == 0 && get->ack.state == OP_WAITING)
        rc = post_ack(get);
    return rc;
}

static int take_buffers(struct get *get)
{
    struct session *session = &get->base;

    while (get->buffers_count < get->targets) {
        struct buffer *buffer = reserve_take(session->reserve);

        if (buffer == NULL)
            return failure_set(&session->failure, -ENOMEM, "no memory for payload buffers");
        buffer->index = get->buffers_count;
        buffer->filled = 0;
        get->buffers[get->buffers_count++] = buffer;
        ring_push(&get->spare, buffer);
    }
    return 0;
}

static int get_begin(struct session *session)
{
    struct get *get = get_of(session);
    struct wire_ack ack = {
        .address = session->endpoint.address,
        .extended = get->extended,
        .extension =
            {
                .status = WIRE_ACCEPTED,
                .run_id = session->run_id,
                .session = session->wire_id,
                .pid = (uint32_t)getpid(),
            },
    };
    int rc = control_rx_open(&get->progress, &session->endpoint, FABT_KIND_PROGRESS_RX,
                             &session->failure);

    if (rc == 0)
        rc = control_tx_open(&get->vectors, &session->endpoint, session_disorderly(session),
                             &session->failure);
    if (rc == 0 && fabric_needs_local(session->fabric))
        rc = domain_register(session->domain, session->endpoint.ep, get->ack_bytes,
                             sizeof(get->ack_bytes), FI_SEND, &get->ack_mr, &session->failure);
    if (rc == 0)
        rc = take_buffers(get);
    if (rc == 0)
        rc = domain_insert(session->domain, &session->peer_address, &session->peer,
                           &session->failure);
    if (rc != 0)
        return rc;
    workload_to_extension(&session->workload, &ack.extension);
    wire_encode_ack(&ack, get->ack_bytes);
    op_renew(&get->ack, &session->endpoint, FABT_KIND_ACK_TX);
    get->ack.len = sizeof(get->ack_bytes);
    return advance_hello(get);
}

/* ---- vectors: memory to be written to ---- */

/* The deliberate disorder: the first vector, then every 16th, offers half of what is at hand. */
static uint32_t split(struct get *get, uint32_t at_hand)
{
    const uint32_t count = at_hand < WIRE_SEGMENTS_MAX ? at_hand : WIRE_SEGMENTS_MAX;

    if (!session_disorderly(&get->base))
        return count;
    if (get->split_in > 0) {
        get->split_in--;
        return count;
    }
    if (count < 2)
        return count;
    get->split_in = SPLIT_PERIOD - 1;
    return count / 2;
}

/* Describe one spare buffer in a vector and remember it in the order offered. */
static int offer_buffer(struct get *get, struct wire_segment *segment)
{
    struct session *session = &get->base;
    struct buffer *buffer = ring_peek(&get->spare);

    if (buffer->mr == NULL) {
        const int rc = buffer_register(buffer, &session->endpoint, FI_REMOTE_WRITE,
                                       &session->counts.registrations, &session->failure);
        if (rc != 0)
            return rc;
    }
    *segment = (struct wire_segment){
        .addr = buffer_remote_address(buffer, session->fabric),
        .len = buffer->capacity,
        .key = fi_mr_key(buffer->mr),
    };
    ring_pop(&get->spare);
    ring_push(&get->offered, buffer);
    get->offered_bytes += buffer->capacity;
    FABT_TRACE(buffer_take, .session = session->number, .buffer = buffer->index,
               .len_bytes = buffer->capacity);
    return 0;
}

static void enqueue_vector(struct get *get, struct control_message *message)
{
    const struct wire_vector *vector = &message->vector;
    const size_t len = wire_encode_vector(vector, message->bytes);

    control_tx_enqueue(&get->vectors, message, FABT_KIND_VECTOR_TX, len, vector->total,
                       (uint8_t)vector->count);
    get->base.counts.vectors++;
    control_trace_vector(message, FABT_DIRECTION_TX);
}

/* Is it time to offer? A bandwidth run saves messages: a full vector, or a quarter of what
 * circulates; put still has more than that to write to. */
static bool offer_due(const struct get *get)
{
    const uint32_t at_hand = ring_count(&get->spare);

    if (get->base.workload.kind != FABT_WORKLOAD_STREAM || ring_empty(&get->offered))
        return at_hand > 0;
    return at_hand >= WIRE_SEGMENTS_MAX || at_hand >= (get->targets + 3) / 4;
}

static int offer(struct get *get)
{
    while (!get->eof_received && offer_due(get)) {
        struct control_message *message = control_tx_take(&get->vectors);
        uint32_t count;

        if (message == NULL)
            return 0;
        count = split(get, ring_count(&get->spare));
        message->vector = (struct wire_vector){.count = count};
        for (uint32_t i = 0; i < count; i++) {
            const int rc = offer_buffer(get, &message->vector.segments[i]);

            if (rc != 0)
                return rc;
            message->vector.total += message->vector.segments[i].len;
        }
        enqueue_vector(get, message);
    }
    return 0;
}

static void answer_eof(struct get *get)
{
    struct control_message *message;

    if (!get->eof_received || get->eof_sent)
        return;
    message = control_tx_take(&get->vectors);
    if (message == NULL)
        return;
    message->vector = (struct wire_vector){.count = 0};
    enqueue_vector(get, message);
    get->eof_sent = true;
    FABT_TRACE(eof, .session = get->base.number, .kind = FABT_KIND_VECTOR_TX,
               .op = message->op.number);
}

/* ---- progress and sink ---- */

static int take_progress(struct get *get)
{
    struct session *session = &get->base;
    struct session_counts *counts = &session->counts;
    struct control_message *message;

    while ((message = control_rx_head(&get->progress)) != NULL) {
        const struct wire_progress progress = message->progress;
        const uint64_t room = get->offered_bytes - counts->reported_bytes;

        FABT_TRACE(progress, .session = session->number, .op = message->op.number,
                   .direction = FABT_DIRECTION_RX, .number = message->number,
                   .filled_bytes = progress.filled, .leftover = progress.leftover);
        if (progress.filled > room)
            return failure_set(&session->failure, -EPROTO,
                               "put reports %" PRIu64 " bytes written into %" PRIu64 " offered",
                               progress.filled, room);
        if (progress.filled > session->total_bytes - counts->reported_bytes)
            return failure_set(&session->failure, -EPROTO,
                               "put reports %" PRIu64 " bytes more than the session's %" PRIu64,
                               progress.filled - (session->total_bytes - counts->reported_bytes),
                               session->total_bytes);
        if (get->eof_received && progress.leftover == 0)
            return failure_set(&session->failure, -EPROTO, "put ended its stream twice");
        counts->reported_bytes += progress.filled;
        counts->progresses++;
        get->unplaced_bytes += progress.filled;
        if (progress.leftover == 0) {
            if (session->total_bytes == UINT64_MAX)
                session->total_bytes = counts->reported_bytes;
            get->eof_received = true;
            get->eof_ns = message->op.complete_ns;
            FABT_TRACE(eof, .session = session->number, .kind = FABT_KIND_PROGRESS_RX,
                       .op = message->op.number);
        }
        control_rx_release(&get->progress);
    }
    return 0;
}

/* The sink: verify what a buffer holds and make it spare again. */
static int verify_buffer(struct get *get, struct buffer *buffer)
{
    struct session *session = &get->base;
    uint64_t *verified = &session->counts.payload_bytes;
    uint8_t expected;
    size_t at;

    FABT_TRACE(payload, .session = session->number, .direction = FABT_DIRECTION_RX,
               .offset_bytes = *verified, .len_bytes = buffer->filled, .data = buffer->data,
               .data_count = buffer->filled < 64 ? buffer->filled : 64);
    if (session->workload.pattern && !session->options->no_verify &&
        !pattern_verify(buffer->data, buffer->filled, *verified, &at, &expected)) {
        FABT_TRACE(payload_mismatch, .session = session->number, .offset_bytes = *verified + at,
                   .expected = expected, .found = buffer->data[at]);
        return failure_set(&session->failure, -EBADMSG,
                           "payload byte %" PRIu64 " is 0x%02x, expected 0x%02x", *verified + at,
                           buffer->data[at], expected);
    }
    *verified += buffer->filled;
    buffer->filled = 0;
    if (session->options->reregister)
        buffer_deregister(buffer, &session->endpoint, &session->counts.registrations);
    ring_push(&get->spare, buffer);
    return 0;
}

/* Advance over the offered buffers by what was reported. Full buffers, and the last one when the
 * total has arrived, go to the sink. */
static int consume(struct get *get)
{
    struct session *session = &get->base;
    struct buffer *buffer;
    const uint64_t begin = session_payload_begin(session);
    int rc = 0;

    while (rc == 0 && (buffer = ring_peek(&get->offered)) != NULL &&
           get->unplaced_bytes + buffer->filled > 0) {
        const uint32_t room = buffer->capacity - buffer->filled;
        const uint32_t n = get->unplaced_bytes < room ? (uint32_t)get->unplaced_bytes : room;

        buffer->filled += n;
        get->unplaced_bytes -= n;
        if (buffer->filled < buffer->capacity &&
            session->counts.payload_bytes + buffer->filled < session->total_bytes)
            break;
        ring_pop(&get->offered);
        rc = verify_buffer(get, buffer);
    }
    session_payload_end(session, begin);
    session->counts.credit_bytes = get->offered_bytes - session->counts.reported_bytes;
    return rc;
}

/* ---- the session's calls ---- */

static int get_completed(struct session *session, struct op *op, uint32_t *earlier)
{
    struct get *get = get_of(session);
    struct control_message *message;

    switch (op->kind) {
    case FABT_KIND_PROGRESS_RX:
        *earlier = control_earlier_pending(&get->progress.posted, op);
        message = (struct control_message *)op;
        if (wire_decode_progress(message->bytes, op->got, &message->progress, &session->failure) !=
            0)
            return session->failure.code;
        op->payload = message->progress.filled;
        return 0;
    case FABT_KIND_VECTOR_TX:
        *earlier = control_earlier_pending(&get->vectors.posted, op);
        op->got = op->len; /* providers need not say it for transmits */
        return 0;
    case FABT_KIND_ACK_TX:
        op->got = op->len;
        return 0;
    default:
        return 0;
    }
}

static bool all_verified(const struct get *get)
{
    return get->base.counts.payload_bytes == get->base.total_bytes;
}

static int finish_if_done(struct get *get)
{
    struct session *session = &get->base;
    const uint64_t now = clock_now();

    if (all_verified(get) && session->end_ns == 0)
        session->end_ns = now;
    if (!get->eof_received)
        return 0;
    if (session->phase == FABT_PHASE_TRANSFER)
        session_enter(session, FABT_PHASE_FINISH);
    if (all_verified(get)) {
        session->through = get->eof_sent;
        if (get->eof_sent && (control_tx_idle(&get->vectors) || now >= get->eof_ns + LAST_SEND_NS))
            session_finished(session, now, 0);
        return 0;
    }
    if (now < get->eof_ns + REST_AFTER_EOF_NS)
        return 0;
    return failure_set(&session->failure, -EPROTO,
                       "put ended the stream after %" PRIu64 " of %" PRIu64 " bytes",
                       session->counts.reported_bytes, session->total_bytes);
}

static int get_advance(struct session *session)
{
    struct get *get = get_of(session);
    int rc;

    if (session->phase == FABT_PHASE_HELLO) {
        rc = advance_hello(get);
        if (rc != 0 || !op_done(&get->ack))
            return rc;
        session_started(session, get->ack.complete_ns);
    }
    rc = take_progress(get);
    if (rc == 0)
        rc = consume(get);
    if (rc == 0)
        rc = offer(get);
    if (rc != 0)
        return rc;
    answer_eof(get);
    rc = control_tx_service(&get->vectors, session->peer, &session->failure);
    rc = session_worse(rc, control_rx_service(&get->progress, &session->failure));
    session->counts.credit_bytes = get->offered_bytes - session->counts.reported_bytes;
    return session_worse(rc, finish_if_done(get));
}

/* Whatever is offered or under way, only the peer's writes bring a get further: telling its own
 * sends apart would double the events and explain nothing. */
static uint8_t get_waits_for(const struct session *session)
{
    return session->phase < FABT_PHASE_TRANSFER ? FABT_STATE_SETUP : FABT_STATE_PEER;
}

static unsigned get_release(struct session *session)
{
    struct get *get = get_of(session);
    unsigned leaks = 0;

    while (get->buffers_count > 0) {
        struct buffer *buffer = get->buffers[--get->buffers_count];

        leaks += buffer_deregister(buffer, &session->endpoint, &session->counts.registrations);
        reserve_return(session->reserve, buffer);
    }
    leaks += fabric_close_object(get->ack_mr ? &get->ack_mr->fid : NULL, "message registration",
                                 (int32_t)session->number);
    get->ack_mr = NULL;
    if (get->progress.endpoint != NULL)
        leaks += control_rx_close(&get->progress);
    if (get->vectors.endpoint != NULL)
        leaks += control_tx_close(&get->vectors);
    return leaks;
}

static void get_destroy(struct session *session)
{
    struct get *get = get_of(session);

    ring_free(&get->spare);
    ring_free(&get->offered);
    free(get->buffers);
    free(get);
}

static const struct session_class get_class = {
    .begin = get_begin,
    .completed = get_completed,
    .advance = get_advance,
    .waits_for = get_waits_for,
    .release = get_release,
    .destroy = get_destroy,
};

struct session *get_create(const struct options *options, const struct fabric *fabric,
                           uint32_t number, const struct wire_initial *initial,
                           const struct workload *workload)
{
    struct get *get = calloc(1, sizeof(*get));

    if (get == NULL)
        return NULL;
    session_init(&get->base, &get_class, options, fabric, number, workload);
    get->base.peer_address = initial->address;
    get->base.wire_id = initial->id;
    get->extended = initial->extended;
    if (initial->extended) {
        get->base.run_id = initial->extension.run_id;
        get->base.peer_pid = initial->extension.pid;
        get->base.round = initial->extension.round;
    }
    get->targets = workload_targets(workload);
    get->buffers = calloc(get->targets, sizeof(*get->buffers));
    if (get->buffers == NULL || !ring_init(&get->spare, get->targets) ||
        !ring_init(&get->offered, get->targets)) {
        get_destroy(&get->base);
        return NULL;
    }
    return &get->base;
}
