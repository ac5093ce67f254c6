/* SPDX-License-Identifier: BSD-3-Clause
 * What was read of one or more streams: their tables, and what is known of the streams.
 *
 * A collector outlives the graph that fills it, so that a program which ran the graph can look at
 * the columns afterwards, and may be filled by several graphs, one after the other. */
#ifndef FABT_COLLECTOR_H
#define FABT_COLLECTOR_H

#include <jansson.h>
#include <stdint.h>

#include "npy.h"
#include "spill.h"
#include "table.h"

#define COLLECTOR_TEXT 256
#define COLLECTOR_STREAMS 65535 /* their numbers are a uint16_t column */

enum collector_mode { COLLECTOR_IN_MEMORY, COLLECTOR_SPILL, COLLECTOR_NPY };

struct collector {
    int64_t id;
    uint64_t chunk_rows;
    enum collector_mode mode;
    struct spill spill;
    struct npy npy;
    struct outlet outlet;
    struct table **tables;
    size_t table_count;
    uint64_t events;    /* of all names, in all */
    uint64_t *progress; /* see fabt_collector_new; or NULL */
    json_t *environments, *streams, *declared, *discarded, *missing;
    int write_error;            /* errno of what could not be written, 0 if nothing failed */
    char error[COLLECTOR_TEXT]; /* why the trace can't be ours; empty if it can */
};

/* Makes a collector. `path`: the spill file or the folder of NumPy files, according to the mode.
 * 0 or a negative errno; on success *made is to be given to collector_delete. */
int collector_new(enum collector_mode mode, const char *path, uint64_t chunk_rows,
                  struct collector **made);
void collector_delete(struct collector *collector);

/* The collector with an id, or NULL. */
struct collector *collector_find(int64_t id);

/* The event's table, made if it is not there. NULL: no memory. */
struct table *collector_table(struct collector *collector, const struct schema_event *event);

/* The table of an event by its name without prefix, or NULL. */
struct table *collector_table_named(const struct collector *collector, const char *name);

/* Hands what is in memory to the outlet, if there is one. 0 or a negative errno. */
int collector_flush(struct collector *collector);

/* What comes now is from another input: its rows get segments of their own. 0 or a negative errno.
 */
int collector_next_source(struct collector *collector);

/* Another packet of the input begins. */
void collector_note_packet(struct collector *collector);

/* Makes room for a row of a table. 0 or a negative errno. */
int collector_make_room(struct collector *collector, struct table *table);

/* Registers a stream; returns its number or a negative errno. `environment` is taken over. */
int collector_add_stream(struct collector *collector, const char *name, json_t *environment);

/* The number for events that the stream with number `like` has from `cpu`. */
int collector_stream_of_cpu(struct collector *collector, int like, int64_t cpu);

/* Notes that a trace lacks a field of the catalogue. */
void collector_note_missing(struct collector *collector, const char *event, const char *field);

/* A JSON string of a text from a trace, which may be no UTF-8. */
json_t *collector_text(const char *text);

/* Everything but the columns' content, as JSON text to be freed. NULL: no memory.
 *
 *   environments, streams [[name, environment, cpu]], declared [name], missing {event: [field]},
 *   discarded [[stream name, count, begin_ns, end_ns]], error (text), write_error (errno), events,
 *   tables [{event, rows, columns: [[name, type]]}],
 *   segments [[event, source, offset, rows, bytes]] of the spill file, in the order of rows */
char *collector_describe(const struct collector *collector);

#endif
