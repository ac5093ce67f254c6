/* SPDX-License-Identifier: BSD-3-Clause */
#include "workload.h"

#include <errno.h>
#include <inttypes.h>

#include "fabt_events.h"

struct workload workload_default(void)
{
    return (struct workload){
        .kind = FABT_WORKLOAD_STRESS,
        .pattern = true,
        .depth = WORKLOAD_STRESS_DEPTH,
        .total_bytes = WORKLOAD_STRESS_BYTES,
    };
}

uint32_t workload_targets(const struct workload *workload)
{
    switch (workload->kind) {
    case FABT_WORKLOAD_STREAM:
        return 2 * workload->depth;
    case FABT_WORKLOAD_PINGPONG:
        return 1;
    default:
        return WORKLOAD_STRESS_TARGETS;
    }
}

void workload_to_extension(const struct workload *workload, struct wire_extension *extension)
{
    extension->version = WIRE_EXTENSION_VERSION;
    extension->workload = workload->kind;
    extension->pattern = workload->pattern;
    extension->depth = workload->depth;
    extension->size_bytes = workload->size_bytes;
    extension->total_bytes = workload->total_bytes;
    extension->duration_ns = workload->duration_ns;
}

static enum wire_status refuse_size(struct failure *reason, const struct workload *workload)
{
    failure_set(reason, -EPROTO,
                "put asks for %" PRIu32 " buffers of %" PRIu64
                " bytes; at most %u of at most %" PRIu64 " bytes, and 1 GiB of memory a session",
                workload->depth, workload->size_bytes, WORKLOAD_DEPTH_MAX, WORKLOAD_SIZE_MAX);
    return WIRE_REFUSED_SIZE;
}

enum wire_status workload_from_extension(struct workload *workload,
                                         const struct wire_extension *extension,
                                         struct failure *reason)
{
    const struct workload asked = {
        .kind = extension->workload,
        .pattern = extension->pattern != 0,
        .depth = extension->depth,
        .size_bytes = extension->size_bytes,
        .total_bytes = extension->total_bytes,
        .duration_ns = extension->duration_ns,
    };

    if (extension->version != WIRE_EXTENSION_VERSION) {
        failure_set(reason, -EPROTO, "extension block of version %u, expected %u",
                    extension->version, WIRE_EXTENSION_VERSION);
        return WIRE_REFUSED_VERSION;
    }
    if (asked.kind >= FABT_WORKLOAD_COUNT || extension->pattern > 1) {
        failure_set(reason, -EPROTO, "workload %u with payload %u is not known here",
                    extension->workload, extension->pattern);
        return WIRE_REFUSED_WORKLOAD;
    }
    /* The stress workload's buffers are fixed; older versions send no depth for it. */
    if (asked.kind != FABT_WORKLOAD_STRESS &&
        (asked.size_bytes == 0 || asked.size_bytes > WORKLOAD_SIZE_MAX || asked.depth == 0 ||
         asked.depth > WORKLOAD_DEPTH_MAX ||
         asked.size_bytes * workload_targets(&asked) > WORKLOAD_MEMORY_MAX))
        return refuse_size(reason, &asked);
    if (asked.kind == FABT_WORKLOAD_STRESS && asked.size_bytes != 0)
        return refuse_size(reason, &asked);
    *workload = asked;
    return WIRE_ACCEPTED;
}

enum wire_status workload_within(const struct workload *workload,
                                 const struct workload_limits *limits, struct failure *reason)
{
    static const char *const labels[] = FABT_WORKLOAD_LABELS;

    if (limits->one_kind && workload->kind != limits->kind) {
        failure_set(reason, -EPROTO, "put's workload is %s, --workload allows %s",
                    labels[workload->kind], labels[limits->kind]);
        return WIRE_REFUSED_WORKLOAD;
    }
    if (workload_open_ended(workload) && limits->total_bytes != UINT64_MAX) {
        failure_set(reason, -EPROTO,
                    "put sends until its --duration is over, --total allows %" PRIu64
                    " bytes: limit it by --duration, or give put --total",
                    limits->total_bytes);
        return WIRE_REFUSED_SIZE;
    }
    if (workload->total_bytes > limits->total_bytes) {
        failure_set(reason, -EPROTO, "put wants to send %" PRIu64 " bytes, --total allows %" PRIu64,
                    workload->total_bytes, limits->total_bytes);
        return WIRE_REFUSED_SIZE;
    }
    if (workload->size_bytes > limits->size_bytes) {
        failure_set(reason, -EPROTO, "put's buffers have %" PRIu64 " bytes, --size allows %" PRIu64,
                    workload->size_bytes, limits->size_bytes);
        return WIRE_REFUSED_SIZE;
    }
    /* The stress workload's depth is not put's to choose. */
    if (workload->kind != FABT_WORKLOAD_STRESS && workload->depth > limits->depth) {
        failure_set(reason, -EPROTO,
                    "put wants %" PRIu32 " buffers in flight, --depth allows %" PRIu32,
                    workload->depth, limits->depth);
        return WIRE_REFUSED_SIZE;
    }
    if (workload->duration_ns > limits->duration_ns) {
        failure_set(reason, -EPROTO, "put wants to send for %.3f s, --duration allows %.3f s",
                    (double)workload->duration_ns / 1e9, (double)limits->duration_ns / 1e9);
        return WIRE_REFUSED_SIZE;
    }
    return WIRE_ACCEPTED;
}
