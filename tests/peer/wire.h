/* SPDX-License-Identifier: BSD-3-Clause */
/* The messages of the get/put protocol as older peers lay them out: plain C structures in host
 * order. The assertions are the document's offsets; a compiler that disagrees must not build this.
 */
#ifndef PEER_WIRE_H
#define PEER_WIRE_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

enum {
    WIRE_ADDR_MAX = 512,     /* bytes of a raw address */
    WIRE_SEGMENTS_MAX = 12,  /* segments in a vector */
    WIRE_TAGS = 64,          /* tags, and receives posted, in each direction */
    WIRE_CONTROL_MAX = 16,   /* control messages queued or uncompleted in each direction */
    WIRE_TARGETS = 3,        /* buffers that get circulates */
    WIRE_BUFFER_MAX = 37,    /* longest payload buffer */
    WIRE_ADDRESS_TEXT = 255, /* characters of an address that an older put takes */
    WIRE_PATTERN_LEN = 76,
    WIRE_TOTAL = 7600000, /* bytes of a session: the pattern 100,000 times */
};

struct wire_initial {
    uint64_t nonce[2];
    uint32_t nsources;
    uint32_t id;
    uint32_t addrlen;
    uint8_t addr[WIRE_ADDR_MAX];
    uint32_t pad;
};

struct wire_ack {
    uint32_t addrlen;
    uint8_t addr[WIRE_ADDR_MAX];
};

struct wire_segment {
    uint64_t addr;
    uint64_t len;
    uint64_t key;
};

struct wire_vector {
    uint32_t niovs;
    uint32_t pad;
    struct wire_segment iov[WIRE_SEGMENTS_MAX];
};

struct wire_progress {
    uint64_t nfilled;
    uint64_t nleftover;
};

static_assert(sizeof(struct wire_initial) == 544, "initial is 544 bytes");
static_assert(offsetof(struct wire_initial, nsources) == 16, "initial.nsources");
static_assert(offsetof(struct wire_initial, id) == 20, "initial.id");
static_assert(offsetof(struct wire_initial, addrlen) == 24, "initial.addrlen");
static_assert(offsetof(struct wire_initial, addr) == 28, "initial.addr");
static_assert(offsetof(struct wire_initial, pad) == 540, "initial.pad");
static_assert(sizeof(struct wire_ack) == 516, "acknowledgement is 516 bytes");
static_assert(offsetof(struct wire_ack, addr) == 4, "acknowledgement.addr");
static_assert(sizeof(struct wire_segment) == 24, "a segment is 24 bytes");
static_assert(offsetof(struct wire_segment, len) == 8, "segment.len");
static_assert(offsetof(struct wire_segment, key) == 16, "segment.key");
static_assert(offsetof(struct wire_vector, iov) == 8, "vector.iov");
static_assert(sizeof(struct wire_vector) == 8 + 24 * WIRE_SEGMENTS_MAX, "vector is 296 bytes");
static_assert(sizeof(struct wire_progress) == 16, "progress is 16 bytes");
static_assert(offsetof(struct wire_progress, nleftover) == 8, "progress.nleftover");

extern const uint8_t wire_pattern[WIRE_PATTERN_LEN];

/* The tail of addr[] that newer programs use for their extension block, and how it begins. */
enum { WIRE_EXTENSION_LEN = 64, WIRE_EXTENSION_ADDR_MAX = 448 };
#define WIRE_EXTENSION_MAGIC "FABTEXT1"

#endif
