/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The messages between get and put, byte for byte. This is the only module that reads or writes
 * message bytes. Encoders fill a buffer of the message's size; decoders check every length, count
 * and sum before use and set their output only on success.
 *
 * Integers are in host order, which both ends are assumed to share.
 */
#ifndef FABT_WIRE_H
#define FABT_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "address.h"
#include "failure.h"

enum {
    WIRE_INITIAL_SIZE = 544,
    WIRE_ACK_SIZE = 516,
    WIRE_PROGRESS_SIZE = 16,
    WIRE_VECTOR_HEAD = 8,
    WIRE_SEGMENT_SIZE = 24,
    WIRE_SEGMENTS_MAX = 12,
    WIRE_VECTOR_MAX = WIRE_VECTOR_HEAD + WIRE_SEGMENTS_MAX * WIRE_SEGMENT_SIZE,
    WIRE_TAGS = 64,          /* tags run modulo this; also the receives that are kept posted */
    WIRE_CONTROL_QUEUE = 16, /* control messages queued or uncompleted in a direction */
    WIRE_EXTENSION_SIZE = 64,
    WIRE_EXTENSION_ADDRESS_MAX = ADDRESS_MAX - WIRE_EXTENSION_SIZE,
};

/* Why get refuses a session; travels in the extension block of the acknowledgement. */
enum wire_status {
    WIRE_ACCEPTED = 0,
    WIRE_REFUSED_SESSIONS = 1,  /* put's -n is not get's */
    WIRE_REFUSED_ID = 2,        /* session number beyond n */
    WIRE_REFUSED_WORKLOAD = 3,  /* a workload or payload get does not do */
    WIRE_REFUSED_SIZE = 4,      /* a total, size or depth beyond get's limits */
    WIRE_REFUSED_VERSION = 5,   /* an extension block get does not know */
    WIRE_REFUSED_RESOURCES = 6, /* get could not set the session up */
    WIRE_REFUSED_ROUNDS = 7     /* more rounds than get allows, or not the rounds of other puts */
};

/* The extension block: 64 packed bytes at the end of the address field.
 *
 *    0  "FABTEXT1"          24  total bytes (u64)
 *    8  version (u8), 1     32  buffer size (u64), 0: the workload's own
 *    9  workload (u8)       40  run id (u64)
 *   10  payload pattern (u8) 48 put's session number (u32)
 *   11  status (u8)         52  process id (u32)
 *   12  depth (u32)         56  round (u16), from 0
 *   16  duration ns (u64)   58  rounds (u16): put makes n sessions so many times; 0 is 1
 *                           60  zero (4 bytes)
 */
struct wire_extension {
    uint8_t version;
    uint8_t workload; /* enum fabt_workload */
    uint8_t pattern;  /* 1: the 76-byte pattern, 0: none */
    uint8_t status;   /* enum wire_status */
    uint32_t depth;
    uint64_t duration_ns;
    uint64_t total_bytes;
    uint64_t size_bytes;
    uint64_t run_id;
    uint32_t session;
    uint32_t pid;
    uint16_t round;
    uint16_t rounds;
};

#define WIRE_EXTENSION_VERSION 1

struct wire_initial {
    uint64_t nonce[2];
    uint32_t nsources;
    uint32_t id;
    struct address address;
    bool extended;
    struct wire_extension extension;
};

struct wire_ack {
    struct address address;
    bool extended;
    struct wire_extension extension;
};

struct wire_segment {
    uint64_t addr;
    uint64_t len;
    uint64_t key;
};

struct wire_vector {
    uint32_t count; /* 0: get is done */
    uint64_t total; /* sum of the lengths */
    struct wire_segment segments[WIRE_SEGMENTS_MAX];
};

struct wire_progress {
    uint64_t filled;
    uint64_t leftover; /* 0: put is done */
};

/* The extension block is left out when the address is too long for it. */
void wire_encode_initial(const struct wire_initial *message, uint8_t *bytes);
void wire_encode_ack(const struct wire_ack *message, uint8_t *bytes);
void wire_encode_progress(const struct wire_progress *message, uint8_t *bytes);

/* Returns the message's length; `bytes` holds WIRE_VECTOR_MAX. */
size_t wire_encode_vector(const struct wire_vector *message, uint8_t *bytes);

/* 0, or -EPROTO with a failure that says what was expected and what came. */
int wire_decode_initial(const uint8_t *bytes, size_t len, struct wire_initial *message,
                        struct failure *failure);
int wire_decode_ack(const uint8_t *bytes, size_t len, struct wire_ack *message,
                    struct failure *failure);
int wire_decode_vector(const uint8_t *bytes, size_t len, struct wire_vector *message,
                       struct failure *failure);
int wire_decode_progress(const uint8_t *bytes, size_t len, struct wire_progress *message,
                         struct failure *failure);

/* What a refusal means, for people. */
const char *wire_status_text(uint8_t status);

#endif
