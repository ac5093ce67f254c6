/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A put session from inside, for the files that make it up: put_hello.c (handshake), put_write.c
 * (source and writes) and put.c (all else). */
#ifndef FABT_PUT_PARTS_H
#define FABT_PUT_PARTS_H

#include "put.h"
#include "target.h"

/* A stretch of a payload buffer within a write. */
struct piece {
    struct buffer *buffer;
    uint32_t offset; /* in the buffer */
    uint32_t len;
};

struct write {
    struct op op; /* first: queues hold operations */
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

static inline struct put *put_of(struct session *session)
{
    return (struct put *)session;
}

static inline const struct put *put_of_const(const struct session *session)
{
    return (const struct put *)session;
}

/* ---- put_hello.c ---- */

/* What a session class's `begin` does: registers, takes buffers, says hello. */
int put_hello_begin(struct session *session);

/* The handshake's posts, each when the one before it has been taken. */
int put_hello_post(struct put *put);

/* The acknowledgement has come: check it, and be ready for payload. */
int put_hello_read_reply(struct put *put);

/* ---- put_write.c ---- */

/* Fill free payload buffers with the next bytes of the stream. */
void put_write_fill(struct put *put);

/* Write what is ready into the memory at hand. */
int put_write_post(struct put *put);

/* Take completed writes, in posting order, so that a report never covers a byte that is not there.
 */
void put_write_reap(struct put *put);

/* Target memory at hand, in bytes. */
static inline uint64_t put_credit(const struct put *put)
{
    return target_room(&put->target, put->target.count);
}

#endif
