/* SPDX-License-Identifier: BSD-3-Clause */
#include "control.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

static const char *const kind_labels[] = FABT_KIND_LABELS;

/* Services between two rotations. */
enum { ROTATION_PERIOD = 3 };

/* One registration covers all messages of a queue; only some providers need it. */
static int register_messages(struct endpoint *endpoint, void *messages, size_t size,
                             uint64_t access, struct fid_mr **mr, struct failure *failure)
{
    if (!fabric_needs_local(endpoint->domain->fabric))
        return 0;
    return domain_register(endpoint->domain, endpoint->ep, messages, size, access, mr, failure);
}

int control_tx_open(struct control_tx *queue, struct endpoint *endpoint, bool disorder,
                    struct failure *failure)
{
    memset(queue, 0, sizeof(*queue));
    queue->endpoint = endpoint;
    queue->disorder = disorder;
    for (uint32_t i = 0; i < WIRE_CONTROL_QUEUE; i++)
        queue->free[queue->free_count++] = &queue->messages[i];
    if (!ring_init(&queue->ready, WIRE_CONTROL_QUEUE) ||
        !ring_init(&queue->posted, WIRE_CONTROL_QUEUE))
        return failure_set(failure, -ENOMEM, "no memory for control messages");
    return register_messages(endpoint, queue->messages, sizeof(queue->messages), FI_SEND,
                             &queue->mr, failure);
}

unsigned control_tx_close(struct control_tx *queue)
{
    struct fid_mr *mr = queue->mr;

    ring_free(&queue->ready);
    ring_free(&queue->posted);
    queue->mr = NULL;
    return fabric_close_object(mr ? &mr->fid : NULL, "message registration",
                               (int32_t)queue->endpoint->session);
}

struct control_message *control_tx_take(struct control_tx *queue)
{
    return queue->free_count == 0 ? NULL : queue->free[--queue->free_count];
}

void control_tx_enqueue(struct control_tx *queue, struct control_message *message, uint8_t kind,
                        size_t len, uint64_t payload, uint8_t nsegs)
{
    op_renew(&message->op, queue->endpoint, kind);
    message->number = queue->next_number++;
    message->op.len = (uint32_t)len;
    message->op.payload = payload;
    message->op.position = message->number;
    message->op.nsegs = nsegs;
    ring_push(&queue->ready, message);
}

static void reap(struct control_tx *queue)
{
    struct control_message *message;

    while ((message = ring_peek(&queue->posted)) != NULL && op_done(&message->op)) {
        ring_pop(&queue->posted);
        queue->free[queue->free_count++] = message;
    }
}

/* The deliberate disorder: now and then the first ready message goes behind the others. */
static bool rotate(struct control_tx *queue)
{
    const uint32_t free_places = queue->posted.mask + 1 - ring_count(&queue->posted);

    if (!queue->disorder)
        return false;
    if (queue->rotation_in > 0) {
        queue->rotation_in--;
        return false;
    }
    if (ring_count(&queue->ready) < 2 || free_places < 2)
        return false;
    ring_push(&queue->ready, ring_pop(&queue->ready));
    queue->rotation_in = ROTATION_PERIOD;
    return true;
}

int control_tx_service(struct control_tx *queue, fi_addr_t peer, struct failure *failure)
{
    const uint32_t ready_before = ring_count(&queue->ready);
    struct control_message *message;
    bool rotated;
    uint32_t count = 0;
    int rc = 0;

    reap(queue);
    rotated = rotate(queue);
    while ((message = ring_peek(&queue->ready)) != NULL) {
        const struct iovec iov = {message->bytes, message->op.len};
        void *desc = queue->mr == NULL ? NULL : fi_mr_desc(queue->mr);
        const struct op_memory memory = {&iov, &desc, 1};

        rc = op_post_tagged_send(&message->op, &memory, peer, message->number % WIRE_TAGS);
        if (rc != 0)
            break;
        ring_push(&queue->posted, ring_pop(&queue->ready));
        count++;
    }
    if (count > 1)
        FABT_TRACE(multi_post, .session = queue->endpoint->session, .count = count);
    if (ready_before > 0)
        FABT_TRACE(control_queue, .session = queue->endpoint->session,
                   .direction = FABT_DIRECTION_TX, .ready = ring_count(&queue->ready),
                   .posted = ring_count(&queue->posted), .rotated = rotated);
    if (rc != 0 && rc != -FI_EAGAIN)
        failure_set_peer_lost(failure, rc, "cannot post %s: %s", kind_labels[message->op.kind],
                              fi_strerror(-rc));
    return rc;
}

int control_rx_open(struct control_rx *queue, struct endpoint *endpoint, uint8_t kind,
                    struct failure *failure)
{
    memset(queue, 0, sizeof(*queue));
    queue->endpoint = endpoint;
    queue->kind = kind;
    if (!ring_init(&queue->idle, WIRE_TAGS) || !ring_init(&queue->posted, WIRE_TAGS))
        return failure_set(failure, -ENOMEM, "no memory for control messages");
    for (uint32_t i = 0; i < WIRE_TAGS; i++)
        ring_push(&queue->idle, &queue->messages[i]);
    return register_messages(endpoint, queue->messages, sizeof(queue->messages), FI_RECV,
                             &queue->mr, failure);
}

unsigned control_rx_close(struct control_rx *queue)
{
    struct fid_mr *mr = queue->mr;

    ring_free(&queue->idle);
    ring_free(&queue->posted);
    queue->mr = NULL;
    return fabric_close_object(mr ? &mr->fid : NULL, "message registration",
                               (int32_t)queue->endpoint->session);
}

/* Received messages that are not taken in yet. */
static uint32_t arrived(const struct control_rx *queue)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < ring_count(&queue->posted); i++) {
        const struct control_message *message = ring_at(&queue->posted, i);

        count += op_done(&message->op);
    }
    return count;
}

int control_rx_service(struct control_rx *queue, struct failure *failure)
{
    const uint32_t limit = fabric_receives_limit(queue->endpoint->domain->fabric);
    const bool any_idle = !ring_empty(&queue->idle) && ring_count(&queue->posted) < limit;
    struct control_message *message;

    while (ring_count(&queue->posted) < limit && (message = ring_peek(&queue->idle)) != NULL) {
        const struct iovec iov = {message->bytes, sizeof(message->bytes)};
        void *desc = queue->mr == NULL ? NULL : fi_mr_desc(queue->mr);
        const struct op_memory memory = {&iov, &desc, 1};
        int rc;

        if (message->op.state != OP_WAITING) {
            op_renew(&message->op, queue->endpoint, queue->kind);
            message->number = queue->next_number++;
            message->op.len = sizeof(message->bytes);
            message->op.position = message->number;
        }
        rc = op_post_tagged_receive(&message->op, &memory, message->number % WIRE_TAGS);
        if (rc == -FI_EAGAIN)
            return rc;
        if (rc != 0)
            return failure_set(failure, rc, "cannot post %s: %s", kind_labels[queue->kind],
                               fi_strerror(-rc));
        ring_push(&queue->posted, ring_pop(&queue->idle));
    }
    if (any_idle && FABT_TRACE_ENABLED(control_queue)) {
        const uint32_t ready = arrived(queue);

        FABT_TRACE(control_queue, .session = queue->endpoint->session,
                   .direction = FABT_DIRECTION_RX, .ready = ready,
                   .posted = ring_count(&queue->posted) - ready);
    }
    return 0;
}

struct control_message *control_rx_head(const struct control_rx *queue)
{
    struct control_message *message = ring_peek(&queue->posted);

    return message != NULL && op_done(&message->op) && message->op.status == 0 ? message : NULL;
}

void control_rx_release(struct control_rx *queue)
{
    struct control_message *message = ring_pop(&queue->posted);

    message->op.state = OP_IDLE;
    ring_push(&queue->idle, message);
}

void control_trace_vector(const struct control_message *message, uint8_t direction)
{
    const struct wire_vector *vector = &message->vector;
    uint64_t addr[WIRE_SEGMENTS_MAX], len[WIRE_SEGMENTS_MAX], key[WIRE_SEGMENTS_MAX];

    if (!FABT_TRACE_ENABLED(vector))
        return;
    for (uint32_t i = 0; i < vector->count; i++) {
        addr[i] = vector->segments[i].addr;
        len[i] = vector->segments[i].len;
        key[i] = vector->segments[i].key;
    }
    FABT_TRACE(vector, .session = message->op.endpoint->session, .op = message->op.number,
               .direction = direction, .number = message->number, .addr = addr,
               .addr_count = vector->count, .len_bytes = len, .len_bytes_count = vector->count,
               .key = key, .key_count = vector->count);
}

uint32_t control_earlier_pending(const struct ring *posted, const struct op *op)
{
    uint32_t pending = 0;

    for (uint32_t i = 0; i < ring_count(posted); i++) {
        /* An operation is the first member of whatever a queue holds. */
        const struct op *other = ring_at(posted, i);

        if (other == op)
            break;
        if (!op_done(other))
            pending++;
    }
    return pending;
}

/* Providers tell in many words that the peer is gone; a cancellation that we didn't ask for is what
 * a closed connection does to what was queued for it. */
static bool means_peer_lost(int status)
{
    switch (-status) {
    case FI_ECANCELED:
    case FI_EIO:
    case FI_ENOENT:
    case FI_ENOTCONN:
    case FI_ECONNABORTED:
    case FI_ECONNREFUSED:
    case FI_ECONNRESET:
    case FI_ESHUTDOWN:
    case FI_ETIMEDOUT:
    case FI_EHOSTUNREACH:
    case FI_EHOSTDOWN:
    case EPIPE:
        return true;
    default:
        return false;
    }
}

int control_failed(const struct op *op, struct failure *failure)
{
    if (means_peer_lost(op->status))
        return failure_set_peer_lost(failure, op->status,
                                     "the connection to the peer is lost (%s %" PRIu64 ": %s)",
                                     kind_labels[op->kind], op->number, fi_strerror(-op->status));
    return failure_set(failure, op->status, "%s %" PRIu64 " failed: %s", kind_labels[op->kind],
                       op->number, fi_strerror(-op->status));
}
