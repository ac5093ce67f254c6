/* SPDX-License-Identifier: BSD-3-Clause
 *
 * When to tell again who is who: as soon as a thread notices that somebody began to record, and
 * once a second. The first serves a recording that starts late, the second all others: one more
 * recording of the same events can't be noticed, and what was told first may be overwritten or
 * lost. */
#ifndef FABT_STATE_DUMP_H
#define FABT_STATE_DUMP_H

#include <stdbool.h>
#include <stdint.h>

#include "clock.h"

#define STATE_DUMP_NS NS_PER_S

struct state_dump {
    uint64_t next_ns;
    bool recorded; /* when last looked at */
};

/* All has just been told. `recorded`: somebody records descriptive events. */
static inline void state_dump_start(struct state_dump *dump, uint64_t now, bool recorded)
{
    dump->next_ns = now + STATE_DUMP_NS;
    dump->recorded = recorded;
}

/* Is it time? The caller then tells. */
static inline bool state_dump_due(struct state_dump *dump, uint64_t now, bool recorded)
{
    const bool began = recorded && !dump->recorded;

    if (!began && now < dump->next_ns) {
        dump->recorded = recorded;
        return false;
    }
    state_dump_start(dump, now, recorded);
    return true;
}

#endif
