/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Queues of control messages: vectors from get to put, progress from put to get.
 *
 * A direction numbers its messages 0, 1, 2, ...; message i has tag i modulo 64. The sender keeps at
 * most 16 messages queued or uncompleted. The receiver keeps 64 receives posted (fewer if the
 * provider's queue is shorter), in tag order with exact match, and takes messages in tag order
 * whatever the order of their arrival.
 *
 *     sender     take -> (encode) -> enqueue -> service posts -> completion -> reaped by service
 *     receiver   service posts -> completion -> head -> (use) -> release -> service posts again
 */
#ifndef FABT_CONTROL_H
#define FABT_CONTROL_H

#include "op.h"
#include "ring.h"
#include "wire.h"

/* Room to see that a message is longer than any may be. */
enum { CONTROL_ROOM = WIRE_VECTOR_MAX + WIRE_SEGMENT_SIZE };

struct control_message {
    struct op op; /* first: queues hold operations */
    uint64_t number;
    uint8_t bytes[CONTROL_ROOM];
    union {
        struct wire_vector vector;
        struct wire_progress progress;
    };
};

struct control_tx {
    struct control_message messages[WIRE_CONTROL_QUEUE];
    struct control_message *free[WIRE_CONTROL_QUEUE];
    uint32_t free_count;
    struct ring ready;
    struct ring posted;
    struct endpoint *endpoint;
    struct fid_mr *mr;
    uint64_t next_number;
    bool disorder;        /* send some messages out of order on purpose */
    uint32_t rotation_in; /* services until a rotation is due */
};

struct control_rx {
    struct control_message messages[WIRE_TAGS];
    struct ring idle; /* to be posted, in tag order */
    struct ring posted;
    struct endpoint *endpoint;
    struct fid_mr *mr;
    uint64_t next_number;
    uint8_t kind;
};

int control_tx_open(struct control_tx *queue, struct endpoint *endpoint, bool disorder,
                    struct failure *failure);
/* Returns what leaked. */
unsigned control_tx_close(struct control_tx *queue);

/* A message to fill in, or NULL when 16 are under way. It must be enqueued. */
struct control_message *control_tx_take(struct control_tx *queue);

/* Queue a message of `len` bytes that accounts for `payload` bytes. `nsegs`: of a vector. */
void control_tx_enqueue(struct control_tx *queue, struct control_message *message, uint8_t kind,
                        size_t len, uint64_t payload, uint8_t nsegs);

/* Reap what completed and post what is ready. 0, -FI_EAGAIN if the provider deferred a post, or
 * another negative fi_errno. */
int control_tx_service(struct control_tx *queue, fi_addr_t peer, struct failure *failure);

static inline bool control_tx_idle(const struct control_tx *queue)
{
    return queue->free_count == WIRE_CONTROL_QUEUE;
}

/* `kind`: FABT_KIND_VECTOR_RX or FABT_KIND_PROGRESS_RX. */
int control_rx_open(struct control_rx *queue, struct endpoint *endpoint, uint8_t kind,
                    struct failure *failure);
unsigned control_rx_close(struct control_rx *queue);

/* Post idle receives. 0, -FI_EAGAIN if one was deferred, or another negative fi_errno. */
int control_rx_service(struct control_rx *queue, struct failure *failure);

/* The next message in tag order if it has arrived, else NULL. A receive that failed ends the queue:
 * there is no message in it. */
struct control_message *control_rx_head(const struct control_rx *queue);

/* The head has been used: its receive is to be posted again. */
void control_rx_release(struct control_rx *queue);

/* Write the content of a vector message, enqueued or taken in (enum fabt_direction). */
void control_trace_vector(const struct control_message *message, uint8_t direction);

/* Operations of a queue that were posted before `op` and have not completed. */
uint32_t control_earlier_pending(const struct ring *posted, const struct op *op);

/* Describe the failure of an operation with a peer. */
int control_failed(const struct op *op, struct failure *failure);

#endif
