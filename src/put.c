/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The way of a payload byte here:
 *
 *     free buffer -> fill (source) -> ready -> write: gathered, maybe in pieces -> writes in flight
 *                 ^                                                                    |
 *                 '---- reap, in posting order; bytes are `unreported` <---------------'
 *                                              progress message reports them
 */
#include "put.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "pattern.h"
#include "target.h"

enum {
    SPLIT_PERIOD = 2048, /* progress messages between two that report half */
};

/* Memory that is surely to come is worth waiting for rather than to split a buffer. */
#define PATIENCE_NS (20 * NS_PER_MS)

/* How long the last messages of a finished session may need. Reliable-datagram emulation
 * retransmits; connected transports have delivered already. */
#define LINGER_NS (5 * NS_PER_MS)
#define LINGER_DATAGRAM_NS (300 * NS_PER_MS)

/* A stretch of a payload buffer within a write. */
struct piece {
    struct buffer *buffer;
    uint32_t offset; /* in the buffer */
    uint32_t len;
};

struct write {
    struct op op; /* first: queues hold operations */
    struct put *put;
    uint32_t pieces_count;
    uint32_t rma_count;
    struct piece pieces[FABRIC_SEGMENTS_MAX];
    struct fi_rma_iov rma[FABRIC_SEGMENTS_MAX];
};

struct put {
    struct session base; /* first */

    struct op hello; /* the initial message's send */
    struct op reply; /* the acknowledgement's receive */
    uint8_t hello_bytes[WIRE_INITIAL_SIZE];
    uint8_t reply_bytes[WIRE_ACK_SIZE + 64]; /* room to see that it is too long */
    struct fid_mr *hello_mr, *reply_mr;
    bool reply_read;

    struct control_rx vectors;
    struct control_tx progress;

    struct target target;
    uint32_t taken; /* segments of the vector at the head of its queue that are in `target` */

    struct buffer **buffers; /* workload.depth of them */
    uint32_t buffers_count;
    struct ring free_buffers;
    struct ring ready;
    uint64_t next_buffer;  /* number of the next buffer in the stream */
    uint64_t filled_bytes; /* of the stream, generated */

    struct write *writes; /* workload.depth of them, or as many as the provider queues */
    struct ring free_writes;
    struct ring in_flight;
    struct write *deferred; /* built, and the provider did not take it yet */
    uint64_t written_bytes; /* given to writes */
    uint64_t write_post_ns; /* of the last write whose memory has not come back; 0: none */

    uint64_t unreported_bytes;
    uint32_t split_in; /* progress messages until one is to report half */
    bool eof_sent;
    bool eof_received;
};

static struct put *put_of(struct session *session)
{
    return (struct put *)session;
}

static const struct put *put_of_const(const struct session *session)
{
    return (const struct put *)session;
}

/* Only the stress workload makes life hard on purpose. */
static bool disorderly(const struct session *session)
{
    return session->workload.kind == FABT_WORKLOAD_STRESS;
}

/* ---- handshake ---- */

static int post_hello(struct put *put)
{
    struct session *session = &put->base;
    const struct iovec iov = {put->hello_bytes, sizeof(put->hello_bytes)};
    void *desc = put->hello_mr == NULL ? NULL : fi_mr_desc(put->hello_mr);
    const struct op_memory memory = {&iov, &desc, 1};
    const int rc = op_post_send(&put->hello, &memory, session->peer);

    if (rc != 0 && rc != -FI_EAGAIN)
        return failure_set_peer_lost(&session->failure, rc, "cannot send the initial message: %s",
                                     fi_strerror(-rc));
    return rc;
}

static int post_reply(struct put *put)
{
    const struct iovec iov = {put->reply_bytes, sizeof(put->reply_bytes)};
    void *desc = put->reply_mr == NULL ? NULL : fi_mr_desc(put->reply_mr);
    const struct op_memory memory = {&iov, &desc, 1};
    const int rc = op_post_receive(&put->reply, &memory);

    if (rc != 0 && rc != -FI_EAGAIN)
        return failure_set(&put->base.failure, rc, "cannot post a receive: %s", fi_strerror(-rc));
    return rc;
}

/* The handshake's posts, each when the one before it has been taken. The receives for vectors come
 * first: get's first vector must find one. All sessions use the same tags, and providers may give
 * what arrives unexpected to another endpoint of the domain (net 1.17 does) or crash on it (ofi_rxm
 * 2.1). */
static int advance_hello(struct put *put)
{
    int rc = control_rx_service(&put->vectors, &put->base.failure);

    if (rc == 0 && put->reply.state == OP_WAITING)
        rc = post_reply(put);
    if (rc == 0 && put->hello.state == OP_WAITING)
        rc = post_hello(put);
    return rc;
}

static int take_buffers(struct put *put)
{
    struct session *session = &put->base;

    while (put->buffers_count < session->workload.depth) {
        struct buffer *buffer = reserve_take(session->reserve);

        if (buffer == NULL)
            return failure_set(&session->failure, -ENOMEM, "no memory for payload buffers");
        buffer->index = put->buffers_count;
        put->buffers[put->buffers_count++] = buffer;
        ring_push(&put->free_buffers, buffer);
        if (!session->options->reregister) {
            const int rc = buffer_register(buffer, &session->endpoint, FI_WRITE,
                                           &session->counts.registrations, &session->failure);
            if (rc != 0)
                return rc;
        }
    }
    return 0;
}

static int register_handshake(struct put *put)
{
    struct session *session = &put->base;
    int rc;

    if (!fabric_needs_local(session->fabric))
        return 0;
    rc = domain_register(session->domain, session->endpoint.ep, put->hello_bytes,
                         sizeof(put->hello_bytes), FI_SEND, &put->hello_mr, &session->failure);
    if (rc == 0)
        rc = domain_register(session->domain, session->endpoint.ep, put->reply_bytes,
                             sizeof(put->reply_bytes), FI_RECV, &put->reply_mr, &session->failure);
    return rc;
}

static int put_begin(struct session *session)
{
    struct put *put = put_of(session);
    const struct options *options = session->options;
    struct wire_initial initial = {
        .nsources = options->sessions,
        .id = session->wire_id,
        .address = session->endpoint.address,
        .extended = true,
        .extension =
            {
                .round = session->round,
                .rounds = (uint16_t)options->rounds,
                .run_id = session->run_id,
                .session = session->wire_id,
                .pid = (uint32_t)getpid(),
            },
    };
    int rc =
        control_rx_open(&put->vectors, &session->endpoint, FABT_KIND_VECTOR_RX, &session->failure);

    if (rc == 0)
        rc = control_tx_open(&put->progress, &session->endpoint, disorderly(session),
                             &session->failure);
    if (rc == 0)
        rc = register_handshake(put);
    if (rc == 0)
        rc = take_buffers(put);
    if (rc == 0)
        rc = domain_insert(session->domain, &options->peer, &session->peer, &session->failure);
    if (rc != 0)
        return rc;
    if (options->has_token)
        memcpy(initial.nonce, options->token, sizeof(initial.nonce));
    workload_to_extension(&session->workload, &initial.extension);
    wire_encode_initial(&initial, put->hello_bytes);
    op_renew(&put->reply, &session->endpoint, FABT_KIND_ACK_RX);
    put->reply.len = sizeof(put->reply_bytes);
    op_renew(&put->hello, &session->endpoint, FABT_KIND_INITIAL_TX);
    put->hello.len = sizeof(put->hello_bytes);
    return advance_hello(put);
}

/* An older get does only what it always did. */
static int check_older_get(struct session *session)
{
    const struct workload *asked = &session->workload;
    const struct workload usual = workload_default();

    if (asked->kind == usual.kind && asked->pattern && asked->total_bytes == usual.total_bytes)
        return 0;
    return failure_set(&session->failure, -EPROTO,
                       "this fabtget is older and does the stress workload of %" PRIu64
                       " verified bytes only: leave --workload, --total, --duration and "
                       "--no-verify out",
                       usual.total_bytes);
}

/* A get of our kind says what it agreed to. */
static int check_terms(struct session *session, const struct wire_extension *terms)
{
    const struct workload *asked = &session->workload;

    if (terms->version != WIRE_EXTENSION_VERSION)
        return failure_set(&session->failure, -EPROTO,
                           "fabtget answers with an extension block of version %u, expected %u",
                           terms->version, WIRE_EXTENSION_VERSION);
    if (terms->workload != asked->kind || terms->total_bytes != asked->total_bytes ||
        terms->size_bytes != asked->size_bytes)
        return failure_set(&session->failure, -EPROTO,
                           "fabtget agreed to workload %u, %" PRIu64 " bytes in buffers of %" PRIu64
                           ", expected %u, %" PRIu64 " and %" PRIu64,
                           terms->workload, terms->total_bytes, terms->size_bytes, asked->kind,
                           asked->total_bytes, asked->size_bytes);
    return 0;
}

static int read_reply(struct put *put)
{
    struct session *session = &put->base;
    struct wire_ack ack;
    int rc = wire_decode_ack(put->reply_bytes, put->reply.got, &ack, &session->failure);

    if (rc != 0)
        return rc;
    if (ack.extended && ack.extension.status != WIRE_ACCEPTED) {
        session->refused = true;
        return failure_set(&session->failure, -FI_ECONNREFUSED, "fabtget refused the session: %s",
                           wire_status_text(ack.extension.status));
    }
    rc = ack.extended ? check_terms(session, &ack.extension) : check_older_get(session);
    if (rc != 0)
        return rc;
    if (ack.extended)
        session->peer_pid = ack.extension.pid;
    session->peer_address = ack.address;
    rc = domain_insert(session->domain, &ack.address, &session->peer, &session->failure);
    session->failure.peer_lost = rc != 0; /* shm can't map a peer that is gone */
    if (rc == 0)
        session_started(session, put->reply.complete_ns);
    put->reply_read = true;
    return rc;
}

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

static uint64_t credit(const struct put *put)
{
    return target_room(&put->target, put->target.count);
}

/* ---- source ---- */

static bool source_empty(const struct put *put)
{
    return put->filled_bytes == put->base.total_bytes;
}

/* A run by time ends where the stream is when the time is over; with -c only a signal ends it. */
static void check_duration(struct put *put)
{
    struct session *session = &put->base;

    if (session->total_bytes == UINT64_MAX && !session->options->expect_cancel &&
        clock_now() >=
            session->start_ns + session->options->warmup_ns + session->workload.duration_ns)
        session->total_bytes = put->filled_bytes;
}

static void fill_buffers(struct put *put)
{
    struct session *session = &put->base;
    uint64_t begin;

    check_duration(put);
    if (source_empty(put) || ring_empty(&put->free_buffers))
        return;
    begin = session_payload_begin(session);
    while (!source_empty(put) && !ring_empty(&put->free_buffers)) {
        struct buffer *buffer = ring_pop(&put->free_buffers);
        const uint64_t left = session->total_bytes - put->filled_bytes;

        buffer->number = put->next_buffer++;
        buffer->offset = put->filled_bytes;
        buffer->used = left < buffer->capacity ? (uint32_t)left : buffer->capacity;
        buffer->cut = buffer->children = buffer->children_out = 0;
        if (session->workload.pattern)
            pattern_fill(buffer->data, buffer->used, buffer->offset);
        put->filled_bytes += buffer->used;
        ring_push(&put->ready, buffer);
        FABT_TRACE(buffer_take, .session = session->number, .buffer = buffer->index,
                   .len_bytes = buffer->used);
        FABT_TRACE(payload, .session = session->number, .direction = FABT_DIRECTION_TX,
                   .offset_bytes = buffer->offset, .len_bytes = buffer->used, .data = buffer->data,
                   .data_count = buffer->used < 64 ? buffer->used : 64);
    }
    session_payload_end(session, begin);
}

/* ---- writes ---- */

static uint32_t segment_limit(const struct put *put)
{
    /* Elsewhere than in the stress workload a write is one buffer into one of the same size. */
    return put->base.options->contiguous || !disorderly(&put->base)
               ? 1
               : put->base.fabric->rma_iov_limit;
}

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* Nothing is under way that could bring more memory: get gives back only full buffers, so both ends
 * would wait for ever. What get is expected to offer is not waited for longer than PATIENCE_NS. */
static bool stuck(const struct put *put)
{
    if (!ring_empty(&put->in_flight) || put->unreported_bytes > 0)
        return false;
    return !target_more_to_come(&put->target) || clock_now() >= put->base.activity_ns + PATIENCE_NS;
}

/* Gather whole buffers, and a piece of one more where splitting is called for: when the segments at
 * hand are as many as one write can take, or when waiting would be for ever. Returns the bytes. */
static uint64_t gather(struct put *put, struct write *write)
{
    const uint32_t limit = segment_limit(put);
    const uint32_t remote = smaller(limit, put->target.count);
    const uint32_t local = smaller(remote, put->base.fabric->tx_iov_limit);
    const uint64_t room = target_room(&put->target, remote);
    uint64_t bytes = 0;

    write->pieces_count = 0;
    for (uint32_t i = 0; write->pieces_count < local; i++) {
        struct buffer *buffer = ring_at(&put->ready, i);
        uint32_t len;

        if (buffer == NULL || bytes == room)
            break;
        len = buffer->used - buffer->cut;
        if (len > room - bytes) {
            if (remote < limit && !(bytes == 0 && stuck(put)))
                break;
            len = (uint32_t)(room - bytes);
        }
        write->pieces[write->pieces_count++] = (struct piece){buffer, buffer->cut, len};
        bytes += len;
    }
    return bytes;
}

static int register_piece(struct put *put, struct buffer *buffer)
{
    struct session *session = &put->base;

    if (buffer->mr != NULL)
        return 0;
    return buffer_register(buffer, &session->endpoint, FI_WRITE, &session->counts.registrations,
                           &session->failure);
}

/* Account for the pieces of a write: buffers that go out whole, and pieces of split ones. */
static int commit_pieces(struct put *put, struct write *write)
{
    struct session *session = &put->base;

    for (uint32_t i = 0; i < write->pieces_count; i++) {
        const struct piece *piece = &write->pieces[i];
        struct buffer *buffer = piece->buffer;
        const int rc = register_piece(put, buffer);

        if (rc != 0)
            return rc;
        buffer->cut += piece->len;
        buffer->children_out++;
        if (piece->len < buffer->used) {
            const bool last = buffer->cut == buffer->used;

            write->op.kind = FABT_KIND_FRAGMENT;
            if (!last)
                session->counts.fragments++;
            FABT_TRACE(fragment, .session = session->number, .parent = buffer->number,
                       .child = buffer->children, .op = write->op.number,
                       .offset_bytes = piece->offset, .len_bytes = piece->len,
                       .children_out = buffer->children_out, .last = last);
            buffer->children++;
        }
        if (buffer->cut == buffer->used)
            ring_pop(&put->ready);
    }
    return 0;
}

static void trace_decision(const struct put *put, const struct write *write, uint64_t bytes,
                           uint8_t decision)
{
    const struct buffer *head;

    if (!FABT_TRACE_ENABLED(write_decision))
        return;
    head = ring_peek(&put->ready);
    FABT_TRACE(write_decision, .session = put->base.number, .decision = decision,
               .head = head == NULL ? 0 : head->number,
               .head_offset_bytes = head == NULL ? 0 : head->cut,
               .head_len_bytes = head == NULL ? 0 : head->used,
               .children_out = head == NULL ? 0 : head->children_out, .len_bytes = (uint32_t)bytes,
               .local_segs = write == NULL ? 0 : write->pieces_count,
               .remote_segs = smaller(segment_limit(put), put->target.count),
               .segs_at_hand = put->target.count, .seg_limit = segment_limit(put),
               .credit_bytes = credit(put), .in_flight = ring_count(&put->in_flight));
}

/* The next write, ready to be posted, or NULL when there is none now. */
static int build_write(struct put *put, struct write **built)
{
    struct write *write = ring_peek(&put->free_writes);
    uint64_t bytes;
    int rc;

    *built = NULL;
    if (ring_empty(&put->ready))
        return 0;
    if (write == NULL) {
        trace_decision(put, NULL, 0, FABT_DECISION_QUEUE_FULL);
        return 0;
    }
    bytes = put->target.count == 0 ? 0 : gather(put, write);
    if (bytes == 0) {
        trace_decision(put, NULL, 0, FABT_DECISION_NEED_MEMORY);
        return 0;
    }
    if (FABT_TRACE_ENABLED(write_decision)) {
        const struct piece *last = &write->pieces[write->pieces_count - 1];
        const bool split = last->offset + last->len < last->buffer->used;

        trace_decision(put, write, bytes,
                       split ? (uint8_t)FABT_DECISION_FRAGMENT : (uint8_t)FABT_DECISION_WRITE);
    }
    ring_pop(&put->free_writes);
    op_renew(&write->op, &put->base.endpoint, FABT_KIND_WRITE);
    write->op.len = (uint32_t)bytes;
    write->op.payload = bytes;
    write->op.position = put->written_bytes;
    put->written_bytes += bytes;
    write->rma_count = target_use(&put->target, bytes, write->rma);
    rc = commit_pieces(put, write);
    if (rc == 0)
        *built = write;
    return rc;
}

static int post_write(struct put *put, struct write *write)
{
    struct session *session = &put->base;
    struct iovec iov[FABRIC_SEGMENTS_MAX];
    void *desc[FABRIC_SEGMENTS_MAX];
    const struct op_memory memory = {iov, desc, write->pieces_count};
    int rc;

    for (uint32_t i = 0; i < write->pieces_count; i++) {
        const struct piece *piece = &write->pieces[i];

        iov[i] = (struct iovec){piece->buffer->data + piece->offset, piece->len};
        desc[i] = piece->buffer->desc;
    }
    rc = op_post_write(&write->op, &memory, session->peer, write->rma, write->rma_count);
    if (rc == -FI_EAGAIN) {
        put->deferred = write;
        return rc;
    }
    if (rc != 0)
        return failure_set_peer_lost(&session->failure, rc, "cannot post an RDMA write: %s",
                                     fi_strerror(-rc));
    put->deferred = NULL;
    put->write_post_ns = write->op.post_ns;
    session->counts.writes++;
    ring_push(&put->in_flight, write);
    return 0;
}

static int post_writes(struct put *put)
{
    struct write *write = put->deferred;
    int rc = 0;

    while (rc == 0) {
        if (write == NULL)
            rc = build_write(put, &write);
        if (rc != 0 || write == NULL)
            break;
        rc = post_write(put, write);
        write = NULL;
    }
    return rc;
}

/* A write is through: its bytes count, and buffers without further pieces are free again. */
static void reap_pieces(struct put *put, const struct write *write)
{
    struct session *session = &put->base;

    for (uint32_t i = 0; i < write->pieces_count; i++) {
        struct buffer *buffer = write->pieces[i].buffer;

        buffer->children_out--;
        if (buffer->cut < buffer->used || buffer->children_out > 0)
            continue;
        if (session->options->reregister)
            buffer_deregister(buffer, &session->endpoint, &session->counts.registrations);
        ring_push(&put->free_buffers, buffer);
    }
}

/* Completed writes leave in posting order, so that a report never covers a byte that is not there.
 */
static void reap_writes(struct put *put)
{
    struct write *write;

    while ((write = ring_peek(&put->in_flight)) != NULL && op_done(&write->op)) {
        ring_pop(&put->in_flight);
        reap_pieces(put, write);
        put->unreported_bytes += write->op.payload;
        put->base.counts.payload_bytes += write->op.payload;
        ring_push(&put->free_writes, write);
    }
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
    if (!disorderly(&put->base))
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
            rc = post_writes(put);
    } while (rc == 0 && put->written_bytes != before && !disorderly(&put->base));
    return rc;
}

static int put_advance(struct session *session)
{
    struct put *put = put_of(session);
    int rc;

    if (!put->reply_read) {
        rc = advance_hello(put);
        if (rc != 0 || !op_done(&put->reply))
            return rc;
        rc = read_reply(put);
        if (rc != 0)
            return rc;
    }
    reap_writes(put);
    fill_buffers(put);
    rc = write_all(put);
    if (rc != 0 && rc != -FI_EAGAIN)
        return rc;
    report(put);
    rc = session_worse(rc, control_tx_service(&put->progress, session->peer, &session->failure));
    rc = session_worse(rc, control_rx_service(&put->vectors, &session->failure));
    session->counts.credit_bytes = credit(put);
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
    .begin = put_begin,
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
