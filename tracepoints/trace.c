/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Writers: who an event comes from, and how many it should be.
 */
#include "trace.h"

#include <stddef.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

_Thread_local struct fabt_writer fabt_writer;

void fabt_trace_writer_start(uint32_t instance, uint32_t thread)
{
    memset(&fabt_writer, 0, sizeof(fabt_writer));
    fabt_writer.id = instance * FABT_WRITER_THREADS + thread % FABT_WRITER_THREADS;
}

static void write_emitted(void)
{
    /* `emitted` itself comes last and counts one less than it will have been: it can't count
     * itself. */
    for (unsigned event = 0; event < FABT_EVENT_COUNT; event++) {
        if (fabt_writer.seq[event] == 0 || event == FABT_EVENT_emitted)
            continue;
        FABT_TRACE(emitted, .event = (uint8_t)event, .count = fabt_writer.seq[event]);
    }
}

void fabt_trace_writer_end(struct fabt_writer *ended)
{
    write_emitted();
    *ended = fabt_writer;
}

void fabt_trace_writer_repeat_end(struct fabt_writer *ended)
{
    const struct fabt_writer own = fabt_writer;

    fabt_writer = *ended;
    fabt_trace_writer_end(ended);
    fabt_writer = own;
}

uint32_t fabt_trace_make_instance(void)
{
    const uint32_t mask = (UINT32_MAX / FABT_WRITER_THREADS);
    uint32_t instance = 0;

    if (getrandom(&instance, sizeof(instance), GRND_NONBLOCK) != (ssize_t)sizeof(instance)) {
        /* No entropy this early after boot: process id and time are unique enough on a host. */
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        instance = (uint32_t)getpid() * 2654435761u ^ (uint32_t)now.tv_nsec;
    }
    instance &= mask;
    return instance == 0 ? 1 : instance;
}
