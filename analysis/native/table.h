/* SPDX-License-Identifier: BSD-3-Clause
 * A table: all events of one name, a column a field.
 *
 * Two ways to keep it: whole in memory, so that its columns can be viewed as arrays; or in chunks
 * of so many rows, each handed to an outlet when it is full and then written over. */
#ifndef FABT_TABLE_H
#define FABT_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "region.h"
#include "schema.h"

/* Every table's first two columns, which are no fields of the event. */
enum { TABLE_TIMESTAMP, TABLE_STREAM, TABLE_OWN_COLUMNS };

/* A chunk is also full when a sequence's or text's values take so much. */
#define TABLE_CHUNK_VALUES ((size_t)8 << 20)

struct column {
    const char *name;
    const char *type; /* of the catalogue */
    enum schema_kind kind;
    size_t width;          /* bytes an element */
    struct region values;  /* a row's value; ragged: the elements of all rows, one after another */
    struct region lengths; /* ragged only: uint32_t, elements of each row */
    uint64_t elements;     /* ragged only: used in `values` */
    int present;           /* whether any trace that was read has the field */
};

struct table;

/* Takes a full chunk (the table's first `rows` rows). 0 or a negative errno. */
struct outlet {
    int (*write)(void *context, struct table *table);
    void *context;
};

struct table {
    const struct schema_event *event;
    struct column *columns;
    size_t column_count;
    uint64_t rows;     /* in memory */
    uint64_t capacity; /* rows that fit */
    uint64_t limit;    /* table_make_room must be asked when there are so many rows */
    uint64_t flushed;  /* rows that the outlet took before these */
};

/* Sets up an empty table. 0 or -ENOMEM. */
int table_init(struct table *table, const struct schema_event *event);
void table_free(struct table *table);

/* Makes room for one more row, when there are `limit` of them. With an outlet and `chunk_rows` rows
 * in memory, or too many elements, these are handed over first. 0, -ENOMEM, or what the outlet
 * says. */
int table_make_room(struct table *table, uint64_t chunk_rows, const struct outlet *outlet);

/* Hands over what is left. */
int table_flush(struct table *table, const struct outlet *outlet);

/* Room for `count` more elements of a ragged column. 0, -ENOMEM or -EOVERFLOW. */
int column_make_room(struct column *column, uint64_t count);

/* Gives the row that is being filled a length; its elements are already in place. */
static inline void table_set_length(struct table *table, struct column *column, uint32_t count)
{
    ((uint32_t *)(void *)column->lengths.base)[table->rows] = count;
    column->elements += count;
    if (column->elements * column->width >= TABLE_CHUNK_VALUES)
        table->limit = 0;
}

/* Bytes of a column's elements in memory. */
static inline size_t column_bytes(const struct column *column, uint64_t rows)
{
    return (size_t)(schema_is_ragged(column->kind) ? column->elements : rows) * column->width;
}

#endif
