/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What a session transfers. put decides, get obeys within its limits; both hold the same terms once
 * the handshake is over.
 *
 *   stress    small buffers whose boundaries never agree, messages out of order on purpose
 *   stream    a bandwidth run: equal buffers, `depth` of them in flight, no disorder
 *   pingpong  one buffer, one write at a time: round trips
 */
#ifndef FABT_WORKLOAD_H
#define FABT_WORKLOAD_H

#include <stdbool.h>
#include <stdint.h>

#include "failure.h"
#include "wire.h"

enum {
    WORKLOAD_DEPTH_MAX = 512,
    WORKLOAD_STRESS_DEPTH = 64,  /* put's queue of payload buffers */
    WORKLOAD_STRESS_TARGETS = 3, /* get's buffers: an older put hangs with fewer, dies with more */
};

#define WORKLOAD_SIZE_MAX (UINT64_C(1) << 30)
#define WORKLOAD_MEMORY_MAX (UINT64_C(1) << 30) /* of target memory a session */
#define WORKLOAD_STRESS_BYTES UINT64_C(7600000)

struct workload {
    uint8_t kind;         /* enum fabt_workload */
    bool pattern;         /* the payload is the pattern and can be verified */
    uint32_t depth;       /* put: payload buffers, and writes in flight at most */
    uint64_t size_bytes;  /* of a buffer; 0 for stress */
    uint64_t total_bytes; /* 0: until duration_ns is over */
    uint64_t duration_ns; /* 0: until total_bytes are through */
};

/* What get accepts of a put at most. */
struct workload_limits {
    bool one_kind; /* only `kind`, else any */
    uint8_t kind;
    uint32_t depth;
    uint64_t size_bytes;
    uint64_t total_bytes; /* if not UINT64_MAX, runs by time are refused: they have no total */
    uint64_t duration_ns;
};

#define WORKLOAD_NO_LIMITS                               \
    ((struct workload_limits){.depth = UINT32_MAX,       \
                              .size_bytes = UINT64_MAX,  \
                              .total_bytes = UINT64_MAX, \
                              .duration_ns = UINT64_MAX})

/* What peers without an extension block do. */
struct workload workload_default(void);

/* Buffers that get circulates: enough that put's writes never wait for their return. */
uint32_t workload_targets(const struct workload *workload);

/* Does it have no end but time? */
static inline bool workload_open_ended(const struct workload *workload)
{
    return workload->total_bytes == 0 && workload->duration_ns != 0;
}

void workload_to_extension(const struct workload *workload, struct wire_extension *extension);

/* Check what a peer asks for. WIRE_ACCEPTED, or why not, with a reason in words. */
enum wire_status workload_from_extension(struct workload *workload,
                                         const struct wire_extension *extension,
                                         struct failure *reason);

/* Is it within get's limits? WIRE_ACCEPTED, or why not, with the option that says so. */
enum wire_status workload_within(const struct workload *workload,
                                 const struct workload_limits *limits, struct failure *reason);

#endif
