/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Payload buffers.
 *
 * A worker keeps a reserve of buffers whose lengths follow a cycle; they are made in the cycle's
 * order and taken last in, first out. A session takes what it needs when it starts, registers the
 * buffers with its endpoint's domain, uses them in its own order and gives them back at its end.
 */
#ifndef FABT_BUFFER_H
#define FABT_BUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "op.h"

struct buffer {
    struct buffer *next; /* in the reserve */
    uint8_t *data;
    uint32_t capacity; /* bytes */
    uint32_t index;    /* in its session */
    struct fid_mr *mr;
    void *desc;

    /* put: what it holds of the stream, and how far it is written */
    uint64_t number;       /* 0, 1, ... in the stream */
    uint64_t offset;       /* of its first byte in the stream */
    uint32_t used;         /* bytes that it holds */
    uint32_t cut;          /* bytes that writes have taken */
    uint32_t children;     /* pieces cut so far, when it does not go out whole */
    uint32_t children_out; /* pieces whose write has not completed */

    /* get: how far the peer has filled it */
    uint32_t filled;
};

struct reserve {
    struct buffer *free;
    uint8_t *block; /* the memory of all buffers, where they share it */
    bool shared;
    const uint32_t *lengths; /* the cycle, in the order in which buffers are made */
    uint32_t cycle;
    uint32_t worker;
};

struct registration_counts {
    uint64_t count;
    uint64_t ns;
};

/* The cycle that makes boundaries of source and target never agree. */
#define BUFFER_STRESS_CYCLE 4
extern const uint32_t buffer_stress_lengths[BUFFER_STRESS_CYCLE];

void reserve_init(struct reserve *reserve, const uint32_t *lengths, uint32_t cycle,
                  uint32_t worker);

/* Let all buffers be the same memory: for payload that nobody looks at, of one length, so that a
 * transfer is measured and not how fast memory is (as bandwidth tests in the field do). Before the
 * first buffer is taken. */
void reserve_share(struct reserve *reserve);

/* Free all; what sessions took must be back. */
void reserve_free(struct reserve *reserve);

/* A buffer, or NULL when there is no memory. */
struct buffer *reserve_take(struct reserve *reserve);
void reserve_return(struct reserve *reserve, struct buffer *buffer);

/* Register a buffer for FI_WRITE (a source) or FI_REMOTE_WRITE (a target). */
int buffer_register(struct buffer *buffer, struct endpoint *endpoint, uint64_t access,
                    struct registration_counts *counts, struct failure *failure);
/* Returns what leaked: 0 or 1. */
unsigned buffer_deregister(struct buffer *buffer, struct endpoint *endpoint,
                           struct registration_counts *counts);

/* What a peer must use to address the buffer's first byte. */
uint64_t buffer_remote_address(const struct buffer *buffer, const struct fabric *fabric);

#endif
