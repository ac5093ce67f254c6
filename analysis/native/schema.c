/* SPDX-License-Identifier: BSD-3-Clause */
#include "schema.h"

#include <string.h>

#include "fabt_schema.h"

const struct schema_event *schema_find(const char *name)
{
    const size_t prefix = strlen(SCHEMA_PREFIX);

    if (name == NULL || strncmp(name, SCHEMA_PREFIX, prefix) != 0)
        return NULL;
    for (size_t i = 0; i < sizeof(schema_events) / sizeof(schema_events[0]); i++) {
        if (strcmp(schema_events[i].name, name + prefix) == 0)
            return &schema_events[i];
    }
    return NULL;
}

size_t schema_width(enum schema_kind kind)
{
    switch (kind) {
    case SCHEMA_U8:
    case SCHEMA_ENUM:
    case SCHEMA_TEXT:
    case SCHEMA_BYTES:
        return 1;
    case SCHEMA_U16:
        return 2;
    case SCHEMA_U32:
    case SCHEMA_I32:
        return 4;
    case SCHEMA_U64:
    case SCHEMA_HEX64:
    case SCHEMA_I64:
    case SCHEMA_LIST64:
        break;
    }
    return 8;
}
