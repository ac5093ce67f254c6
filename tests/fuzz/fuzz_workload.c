/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Description: workload_from_extension takes what lies within the limits and nothing else, says
 * why, and what it took goes into an extension block and back unchanged. Memory that get has to
 * provide for it stays within the limit. */
#include <errno.h>

#include "fabt_events.h"
#include "fuzz.h"
#include "workload.h"

__extension__ typedef unsigned __int128 wide;

static struct wire_extension take_extension(struct fuzz_input *input)
{
    return (struct wire_extension){
        .version = fuzz_take8(input),
        .workload = fuzz_take8(input),
        .pattern = fuzz_take8(input),
        .status = fuzz_take8(input),
        .depth = (uint32_t)fuzz_take_number(input),
        .duration_ns = fuzz_take_number(input),
        .total_bytes = fuzz_take_number(input),
        .size_bytes = fuzz_take_number(input),
        .round = fuzz_take16(input),
        .rounds = fuzz_take16(input),
    };
}

static enum wire_status expected(const struct wire_extension *e)
{
    /* stream: two buffers for each in flight; pingpong: one */
    const wide targets = e->workload == FABT_WORKLOAD_STREAM ? 2 * (wide)e->depth : 1;

    if (e->version != 1)
        return WIRE_REFUSED_VERSION;
    if (e->workload >= FABT_WORKLOAD_COUNT || e->pattern > 1)
        return WIRE_REFUSED_WORKLOAD;
    if (e->workload == FABT_WORKLOAD_STRESS)
        return e->size_bytes == 0 ? WIRE_ACCEPTED : WIRE_REFUSED_SIZE;
    if (e->size_bytes == 0 || e->size_bytes > WORKLOAD_SIZE_MAX)
        return WIRE_REFUSED_SIZE;
    if (e->depth == 0 || e->depth > WORKLOAD_DEPTH_MAX)
        return WIRE_REFUSED_SIZE;
    return targets * e->size_bytes > WORKLOAD_MEMORY_MAX ? WIRE_REFUSED_SIZE : WIRE_ACCEPTED;
}

static bool same(const struct workload *a, const struct workload *b)
{
    return a->kind == b->kind && a->pattern == b->pattern && a->depth == b->depth &&
           a->size_bytes == b->size_bytes && a->total_bytes == b->total_bytes &&
           a->duration_ns == b->duration_ns;
}

static void check_accepted(const struct workload *w, const struct wire_extension *e)
{
    struct wire_extension back = {.status = WIRE_ACCEPTED};
    struct failure failure = {0};
    struct workload again;

    FUZZ_CHECK(w->kind == e->workload && w->pattern == (e->pattern == 1) && w->depth == e->depth);
    FUZZ_CHECK(w->size_bytes == e->size_bytes && w->total_bytes == e->total_bytes &&
               w->duration_ns == e->duration_ns);
    FUZZ_CHECK(workload_targets(w) >= 1 && workload_targets(w) <= 2 * WORKLOAD_DEPTH_MAX);
    FUZZ_CHECK(w->size_bytes * workload_targets(w) <= WORKLOAD_MEMORY_MAX);
    workload_to_extension(w, &back);
    FUZZ_CHECK(workload_from_extension(&again, &back, &failure) == WIRE_ACCEPTED);
    FUZZ_CHECK(same(w, &again));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {data, size};
    const struct wire_extension extension = take_extension(&input);
    struct failure reason = {0};
    struct workload workload;
    enum wire_status status;

    memset(&workload, FUZZ_UNTOUCHED, sizeof(workload));
    status = workload_from_extension(&workload, &extension, &reason);
    FUZZ_CHECK(status == expected(&extension));
    fuzz_check_failure(status == WIRE_ACCEPTED ? 0 : -EPROTO, &reason);
    FUZZ_CHECK(strlen(wire_status_text((uint8_t)status)) > 0);
    if (status == WIRE_ACCEPTED)
        check_accepted(&workload, &extension);
    else
        FUZZ_CHECK(fuzz_untouched(&workload, sizeof(workload)));
    return 0;
}
