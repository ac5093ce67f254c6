/* SPDX-License-Identifier: BSD-3-Clause */
#include "target.h"

#include <string.h>

void target_add(struct target *target, const struct wire_segment *segment)
{
    uint32_t out = target->ends_tail - target->ends_head;

    target->segments[target->count++] = *segment;
    /* Each length is checked, their sum is not: it may wrap, and then a return is only missed. */
    target->offered_bytes += segment->len;
    if (out < TARGET_RETURNS) {
        target->ends[target->ends_tail++ % TARGET_RETURNS] = target->offered_bytes;
        out++;
    }
    if (out > target->circulating)
        target->circulating = out;
}

uint64_t target_room(const struct target *target, uint32_t count)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < count; i++) {
        if (__builtin_add_overflow(bytes, target->segments[i].len, &bytes))
            return UINT64_MAX;
    }
    return bytes;
}

uint32_t target_use(struct target *target, uint64_t bytes, struct fi_rma_iov *rma)
{
    uint32_t touched = 0, used_up = 0;

    while (bytes > 0) {
        struct wire_segment *segment = &target->segments[used_up];
        const uint64_t len = bytes < segment->len ? bytes : segment->len;

        rma[touched++] =
            (struct fi_rma_iov){.addr = segment->addr, .len = len, .key = segment->key};
        segment->addr += len;
        segment->len -= len;
        bytes -= len;
        if (segment->len == 0)
            used_up++;
    }
    target->count -= used_up;
    memmove(target->segments, target->segments + used_up,
            target->count * sizeof(target->segments[0]));
    return touched;
}

void target_reported(struct target *target, uint64_t bytes)
{
    while (target->ends_head != target->ends_tail &&
           target->ends[target->ends_head % TARGET_RETURNS] <= bytes)
        target->ends_head++;
}
