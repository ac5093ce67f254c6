/* SPDX-License-Identifier: BSD-3-Clause
 *
 * put's view of the memory that get offers: the segments at hand, in the order offered, and what
 * get can still be expected to offer again. */
#ifndef FABT_TARGET_H
#define FABT_TARGET_H

#include <rdma/fi_rma.h>
#include <stdbool.h>
#include <stdint.h>

#include "wire.h"

enum {
    TARGET_RETURNS = 64
}; /* offered segments that are followed until get can offer them again */

struct target {
    struct wire_segment segments[WIRE_SEGMENTS_MAX];
    uint32_t count; /* segments at hand */
    uint64_t offered_bytes;

    /* Where offered segments end in the payload stream, oldest first, until they are reported full.
     * get's circulation is taken to be the most segments that were ever out at a time. */
    uint64_t ends[TARGET_RETURNS];
    uint32_t ends_head, ends_tail;
    uint32_t circulating;
};

static inline bool target_full(const struct target *target)
{
    return target->count == WIRE_SEGMENTS_MAX;
}

/* Take in an offered segment; the target is not full. */
void target_add(struct target *target, const struct wire_segment *segment);

/* Bytes in the first `count` segments at hand, at most UINT64_MAX. */
uint64_t target_room(const struct target *target, uint32_t count);

/* Use up `bytes` of the segments at hand, which have them. Returns how many segments that touches,
 * and describes them in `rma`. */
uint32_t target_use(struct target *target, uint64_t bytes, struct fi_rma_iov *rma);

/* `bytes` of the stream have been reported to get since the start. */
void target_reported(struct target *target, uint64_t bytes);

/* Will get surely offer more without another report? It may hold a single buffer back, to offer two
 * at a time; with two or more at hand it does not. */
static inline bool target_more_to_come(const struct target *target)
{
    return target->circulating - (target->ends_tail - target->ends_head) >= 2;
}

#endif
