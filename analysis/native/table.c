/* SPDX-License-Identifier: BSD-3-Clause */
#include "table.h"

#include <errno.h>
#include <stdlib.h>

#define FIRST_ROWS 512 /* most events are rare */

static const struct schema_field own_columns[TABLE_OWN_COLUMNS] = {
    [TABLE_TIMESTAMP] = {"timestamp_ns", "i64", SCHEMA_I64},
    [TABLE_STREAM] = {"stream", "u16", SCHEMA_U16},
};

static void column_init(struct column *column, const struct schema_field *field)
{
    column->name = field->name;
    column->type = field->type;
    column->kind = field->kind;
    column->width = schema_width(field->kind);
}

int table_init(struct table *table, const struct schema_event *event)
{
    *table = (struct table){.event = event, .column_count = TABLE_OWN_COLUMNS + event->count};
    table->columns = calloc(table->column_count, sizeof(*table->columns));
    if (table->columns == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < table->column_count; i++) {
        const int own = i < TABLE_OWN_COLUMNS;

        column_init(&table->columns[i],
                    own ? &own_columns[i] : &event->fields[i - TABLE_OWN_COLUMNS]);
        table->columns[i].present = own;
    }
    return 0;
}

void table_free(struct table *table)
{
    for (size_t i = 0; table->columns != NULL && i < table->column_count; i++) {
        region_free(&table->columns[i].values);
        region_free(&table->columns[i].lengths);
    }
    free(table->columns);
    table->columns = NULL;
}

static int table_reserve(struct table *table, uint64_t rows)
{
    for (size_t i = 0; i < table->column_count; i++) {
        struct column *column = &table->columns[i];
        const int ragged = schema_is_ragged(column->kind);
        const size_t width = ragged ? sizeof(uint32_t) : column->width;
        int rc;

        if (rows > SIZE_MAX / width)
            return -ENOMEM;
        rc = region_reserve(ragged ? &column->lengths : &column->values, (size_t)rows * width);
        if (rc != 0)
            return rc;
    }
    table->capacity = rows;
    return 0;
}

int table_flush(struct table *table, const struct outlet *outlet)
{
    int rc;

    if (table->rows == 0)
        return 0;
    rc = outlet->write(outlet->context, table);
    if (rc != 0)
        return rc;
    table->flushed += table->rows;
    table->rows = 0;
    for (size_t i = 0; i < table->column_count; i++)
        table->columns[i].elements = 0;
    return 0;
}

static int has_too_many_values(const struct table *table)
{
    for (size_t i = 0; i < table->column_count; i++) {
        const struct column *column = &table->columns[i];

        if (schema_is_ragged(column->kind) &&
            column->elements * column->width >= TABLE_CHUNK_VALUES)
            return 1;
    }
    return 0;
}

int table_make_room(struct table *table, uint64_t chunk_rows, const struct outlet *outlet)
{
    uint64_t wanted = table->capacity == 0 ? FIRST_ROWS : 2 * table->capacity;
    int rc = 0;

    if (outlet != NULL && (table->rows >= chunk_rows || has_too_many_values(table)))
        rc = table_flush(table, outlet);
    if (outlet != NULL && wanted > chunk_rows)
        wanted = chunk_rows;
    if (rc == 0 && table->rows >= table->capacity)
        rc = table_reserve(table, wanted);
    table->limit = table->capacity;
    return rc;
}

int column_make_room(struct column *column, uint64_t count)
{
    const uint64_t most = SIZE_MAX / column->width - 1;

    if (count > UINT32_MAX)
        return -EOVERFLOW;
    if (column->elements > most - count)
        return -ENOMEM;
    /* One more than needed, so that there is an address even if all rows are empty. */
    return region_reserve(&column->values, (size_t)(column->elements + count + 1) * column->width);
}
