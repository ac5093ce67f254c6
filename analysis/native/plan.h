/* SPDX-License-Identifier: BSD-3-Clause
 * How the events of one class become rows: decided once a class, from the trace's own field
 * classes.
 *
 * Fields are found by name and must have the catalogue's type, or a narrower one. Fields that the
 * catalogue doesn't know are ignored; what it knows and the trace lacks is zero or empty. */
#ifndef FABT_PLAN_H
#define FABT_PLAN_H

#include <babeltrace2/babeltrace.h>

#include "collector.h"

struct plan_step {
    uint64_t member; /* index in the event's payload */
    size_t column;
};

struct plan {
    struct table *table; /* NULL: events of this class are not for us */
    struct plan_step *steps;
    size_t count;
    size_t *absent; /* columns that this class has no field for */
    size_t absent_count;
};

/* Makes the plan of an event class. 0 or a negative errno; -EPROTO with collector->error set if the
 * trace can't be from an engine of this catalogue. */
int plan_make(struct collector *collector, const bt_event_class *class, struct plan **made);
void plan_free(struct plan *plan);

/* Appends an event; its table must be there. 0 or a negative errno. */
int plan_append(const struct plan *plan, struct collector *collector, const bt_event *event,
                int64_t time_ns, uint16_t stream);

#endif
