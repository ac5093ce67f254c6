/* SPDX-License-Identifier: BSD-3-Clause
 *
 * From the source to the provider:
 *
 *     free buffer -> fill (source) -> ready -> write: gathered, maybe in pieces -> writes in flight
 *                 ^                                                                    |
 *                 '---- reap, in posting order; bytes are `unreported` <---------------'
 *                                              progress message reports them
 */
#include "put_parts.h"

#include <errno.h>

#include "clock.h"
#include "pattern.h"

/* Memory that is surely to come is worth waiting for rather than to split a buffer. */
#define PATIENCE_NS (20 * NS_PER_MS)

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

void put_write_fill(struct put *put)
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
    return put->base.options->contiguous || !session_disorderly(&put->base)
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
               .credit_bytes = put_credit(put), .in_flight = ring_count(&put->in_flight));
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

int put_write_post(struct put *put)
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

void put_write_reap(struct put *put)
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
