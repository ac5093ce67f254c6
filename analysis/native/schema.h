/* SPDX-License-Identifier: BSD-3-Clause
 * The events of provider `fabt` and their fields, as tracepoints/catalogue.toml has them. */
#ifndef FABT_SCHEMA_H
#define FABT_SCHEMA_H

#include <stddef.h>
#include <stdint.h>

#define SCHEMA_PREFIX "fabt:" /* of event names in a trace */

/* Types of fields, and so of columns. From SCHEMA_TEXT on each row has a length of its own. */
enum schema_kind {
    SCHEMA_U8,
    SCHEMA_U16,
    SCHEMA_U32,
    SCHEMA_U64,
    SCHEMA_HEX64,
    SCHEMA_I32,
    SCHEMA_I64,
    SCHEMA_ENUM,
    SCHEMA_TEXT,
    SCHEMA_BYTES,
    SCHEMA_LIST64,
};

struct schema_field {
    const char *name;
    const char *type; /* as the catalogue spells it */
    enum schema_kind kind;
};

struct schema_event {
    const char *name; /* without prefix */
    const struct schema_field *fields;
    size_t count;
};

/* The event that a trace calls `name`, or NULL: another provider's, or of a newer catalogue. */
const struct schema_event *schema_find(const char *name);

/* Bytes that an element of a column takes: a row's value, or one of a sequence's. */
size_t schema_width(enum schema_kind kind);

static inline int schema_is_ragged(enum schema_kind kind)
{
    return kind >= SCHEMA_TEXT;
}

#endif
