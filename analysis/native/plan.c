/* SPDX-License-Identifier: BSD-3-Clause */
#include "plan.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const bt_field_class *member_class(const bt_field_class *payload, uint64_t index)
{
    return bt_field_class_structure_member_borrow_field_class_const(
        bt_field_class_structure_borrow_member_by_index_const(payload, index));
}

static int is_unsigned(const bt_field_class *class, size_t width)
{
    return bt_field_class_type_is(bt_field_class_get_type(class),
                                  BT_FIELD_CLASS_TYPE_UNSIGNED_INTEGER) &&
           bt_field_class_integer_get_field_value_range(class) <= 8 * width;
}

static int is_signed(const bt_field_class *class, size_t width)
{
    return bt_field_class_type_is(bt_field_class_get_type(class),
                                  BT_FIELD_CLASS_TYPE_SIGNED_INTEGER) &&
           bt_field_class_integer_get_field_value_range(class) <= 8 * width;
}

static int is_sequence(const bt_field_class *class, size_t width)
{
    return bt_field_class_type_is(bt_field_class_get_type(class),
                                  BT_FIELD_CLASS_TYPE_DYNAMIC_ARRAY) &&
           is_unsigned(bt_field_class_array_borrow_element_field_class_const(class), width);
}

/* Whether a column can hold all that a field can. */
static int fits(const bt_field_class *class, const struct column *column)
{
    switch (column->kind) {
    case SCHEMA_I32:
    case SCHEMA_I64:
        return is_signed(class, column->width);
    case SCHEMA_TEXT:
        return bt_field_class_get_type(class) == BT_FIELD_CLASS_TYPE_STRING;
    case SCHEMA_BYTES:
    case SCHEMA_LIST64:
        return is_sequence(class, column->width);
    case SCHEMA_U8:
    case SCHEMA_U16:
    case SCHEMA_U32:
    case SCHEMA_U64:
    case SCHEMA_HEX64:
    case SCHEMA_ENUM:
        break;
    }
    return is_unsigned(class, column->width);
}

/* The index of the payload's member with a name, or -1. */
static int64_t find_member(const bt_field_class *payload, const char *name)
{
    const uint64_t count = payload == NULL ? 0 : bt_field_class_structure_get_member_count(payload);

    for (uint64_t i = 0; i < count; i++) {
        if (strcmp(bt_field_class_structure_member_get_name(
                       bt_field_class_structure_borrow_member_by_index_const(payload, i)),
                   name) == 0)
            return (int64_t)i;
    }
    return -1;
}

static int fill_plan(struct plan *plan, struct collector *collector, const bt_field_class *payload)
{
    struct table *table = plan->table;

    for (size_t i = TABLE_OWN_COLUMNS; i < table->column_count; i++) {
        struct column *column = &table->columns[i];
        const int64_t member = find_member(payload, column->name);

        if (member < 0) {
            collector_note_missing(collector, table->event->name, column->name);
            plan->absent[plan->absent_count++] = i;
            continue;
        }
        if (!fits(member_class(payload, (uint64_t)member), column)) {
            (void)snprintf(collector->error, sizeof(collector->error),
                           SCHEMA_PREFIX "%s: field %s is not of type %s", table->event->name,
                           column->name, column->type);
            return -EPROTO;
        }
        column->present = 1;
        plan->steps[plan->count++] = (struct plan_step){(uint64_t)member, i};
    }
    return 0;
}

int plan_make(struct collector *collector, const bt_event_class *class, struct plan **made)
{
    const struct schema_event *event = schema_find(bt_event_class_get_name(class));
    struct plan *plan = calloc(1, sizeof(*plan));
    int rc = 0;

    if (plan == NULL)
        return -ENOMEM;
    if (event != NULL) {
        plan->table = collector_table(collector, event);
        plan->steps = calloc(event->count, sizeof(*plan->steps));
        plan->absent = calloc(event->count, sizeof(*plan->absent));
        if (plan->table == NULL || plan->steps == NULL || plan->absent == NULL)
            rc = -ENOMEM;
        else
            rc = fill_plan(plan, collector, bt_event_class_borrow_payload_field_class_const(class));
    }
    if (rc != 0) {
        plan_free(plan);
        return rc;
    }
    *made = plan;
    return 0;
}

void plan_free(struct plan *plan)
{
    free(plan->steps);
    free(plan->absent);
    free(plan);
}

static int append_text(struct table *table, struct column *column, const bt_field *field)
{
    const uint64_t length = bt_field_string_get_length(field);
    const int rc = column_make_room(column, length);

    if (rc != 0)
        return rc;
    if (length > 0)
        memcpy(column->values.base + column->elements, bt_field_string_get_value(field),
               (size_t)length);
    table_set_length(table, column, (uint32_t)length);
    return 0;
}

static int append_sequence(struct table *table, struct column *column, const bt_field *field)
{
    const uint64_t length = bt_field_array_get_length(field);
    const int rc = column_make_room(column, length);
    char *at;

    if (rc != 0)
        return rc;
    at = column->values.base + column->elements * column->width;
    for (uint64_t i = 0; i < length; i++) {
        const uint64_t value = bt_field_integer_unsigned_get_value(
            bt_field_array_borrow_element_field_by_index_const(field, i));

        if (column->width == 1)
            at[i] = (char)value;
        else
            memcpy(at + 8 * i, &value, 8);
    }
    table_set_length(table, column, (uint32_t)length);
    return 0;
}

/* Columns lie in mmapped memory, aligned for any type. */
#define AT(column, type, row) (((type *)(void *)(column)->values.base)[row])

/* Stores a field in the table's row that is being filled. */
static inline int append_field(struct table *table, struct column *column, const bt_field *field)
{
    const uint64_t row = table->rows;

    switch (column->kind) {
    case SCHEMA_U8:
    case SCHEMA_ENUM:
        AT(column, uint8_t, row) = (uint8_t)bt_field_integer_unsigned_get_value(field);
        return 0;
    case SCHEMA_U16:
        AT(column, uint16_t, row) = (uint16_t)bt_field_integer_unsigned_get_value(field);
        return 0;
    case SCHEMA_U32:
        AT(column, uint32_t, row) = (uint32_t)bt_field_integer_unsigned_get_value(field);
        return 0;
    case SCHEMA_U64:
    case SCHEMA_HEX64:
        AT(column, uint64_t, row) = bt_field_integer_unsigned_get_value(field);
        return 0;
    case SCHEMA_I32:
        AT(column, int32_t, row) = (int32_t)bt_field_integer_signed_get_value(field);
        return 0;
    case SCHEMA_I64:
        AT(column, int64_t, row) = bt_field_integer_signed_get_value(field);
        return 0;
    case SCHEMA_TEXT:
        return append_text(table, column, field);
    case SCHEMA_BYTES:
    case SCHEMA_LIST64:
        break;
    }
    return append_sequence(table, column, field);
}

static void clear_absent(const struct plan *plan)
{
    struct table *table = plan->table;

    for (size_t i = 0; i < plan->absent_count; i++) {
        struct column *column = &table->columns[plan->absent[i]];

        if (schema_is_ragged(column->kind))
            table_set_length(table, column, 0);
        else
            memset(column->values.base + table->rows * column->width, 0, column->width);
    }
}

int plan_append(const struct plan *plan, struct collector *collector, const bt_event *event,
                int64_t time_ns, uint16_t stream)
{
    struct table *table = plan->table;
    const bt_field *payload = bt_event_borrow_payload_field_const(event);

    if (table->rows >= table->limit) {
        const int rc = collector_make_room(collector, table);

        if (rc != 0)
            return rc;
    }
    AT(&table->columns[TABLE_TIMESTAMP], int64_t, table->rows) = time_ns;
    AT(&table->columns[TABLE_STREAM], uint16_t, table->rows) = stream;
    for (size_t i = 0; i < plan->count; i++) {
        const struct plan_step *step = &plan->steps[i];
        const int rc = append_field(
            table, &table->columns[step->column],
            bt_field_structure_borrow_member_field_by_index_const(payload, step->member));

        if (rc != 0)
            return rc;
    }
    clear_absent(plan);
    table->rows++;
    collector->events++;
    return 0;
}
