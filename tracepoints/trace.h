/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The engine's only view of tracing.
 *
 *     FABT_TRACE(op_complete, .session = 3, .op = 17, .kind = FABT_KIND_WRITE);
 *
 * writes event fabt:op_complete with the fields of struct fabt_ev_op_complete. Fields that are not
 * named are zero. Nothing to the right of the event's name is computed unless somebody records that
 * event; without tracing (-Dtracing=none) the arguments are type-checked and no instruction is
 * left.
 *
 * Each thread that traces has a writer: an identity and a counter an event name. The counter makes
 * loss visible: LTTng drops events when its buffers are full, and its own loss counters are not
 * exact.
 */
#ifndef FABT_TRACE_H
#define FABT_TRACE_H

#include <stdbool.h>
#include <stdint.h>

#include "fabt_events.h"

#define FABT_WRITER_THREADS \
    1024u /* threads a process can tell apart: `writer` = instance x this + thread */

struct fabt_writer {
    uint32_t id;
    uint64_t seq[FABT_EVENT_COUNT];
};

/* The calling thread's writer. Thread-local because an event needs it wherever it is written. */
extern _Thread_local struct fabt_writer fabt_writer;

/* Give the calling thread its identity; `thread` is 0 for the main thread, 1 + index for a worker.
 */
void fabt_trace_writer_start(uint32_t instance, uint32_t thread);

/* Write the `emitted` events: what a complete trace of this thread holds. `ended` gets the writer
 * as it then is. */
void fabt_trace_writer_end(struct fabt_writer *ended);

/* Write them again, for a thread that has ended: where its last events were lost, these were lost
 * too, and without them a loss has no number. */
void fabt_trace_writer_repeat_end(struct fabt_writer *ended);

/* An instance number for this process: random, 22 bits, never 0. */
uint32_t fabt_trace_make_instance(void);

#ifdef FABT_TRACING

#include <lttng/tracepoint.h>

#include "fabt_tp.h"

#define FABT_TRACE_ENABLED(event) ((bool)lttng_ust_tracepoint_enabled(fabt, event))

#define FABT_TRACE(event, ...)                                                     \
    do {                                                                           \
        if (lttng_ust_tracepoint_enabled(fabt, event)) {                           \
            lttng_ust_do_tracepoint(fabt, event, fabt_writer.id,                   \
                                    fabt_writer.seq[FABT_EVENT_##event]++,         \
                                    &(const struct fabt_ev_##event){__VA_ARGS__}); \
        }                                                                          \
    } while (0)

#else

#define FABT_TRACE_ENABLED(event) false

#define FABT_TRACE(event, ...)                                 \
    do {                                                       \
        if (0)                                                 \
            (void)(const struct fabt_ev_##event){__VA_ARGS__}; \
    } while (0)

#endif
#endif
