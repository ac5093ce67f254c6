/* SPDX-License-Identifier: BSD-3-Clause */
#include "spill.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "write_all.h"

int spill_open(struct spill *spill, const char *path)
{
    *spill = (struct spill){.fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600)};
    return spill->fd < 0 ? -errno : 0;
}

void spill_close(struct spill *spill)
{
    if (spill->fd >= 0)
        close(spill->fd);
    spill->fd = -1;
    free(spill->segments);
    spill->segments = NULL;
}

static int add_segment(struct spill *spill, const struct segment *segment)
{
    if (spill->count == spill->capacity) {
        const size_t capacity = spill->capacity == 0 ? 64 : 2 * spill->capacity;
        struct segment *grown = realloc(spill->segments, capacity * sizeof(*grown));

        if (grown == NULL)
            return -ENOMEM;
        spill->segments = grown;
        spill->capacity = capacity;
    }
    spill->segments[spill->count++] = *segment;
    spill->size += segment->bytes;
    return 0;
}

/* Writes an array and pads it. */
static int write_array(struct spill *spill, const void *data, size_t bytes, uint64_t *written)
{
    static const char padding[SPILL_ALIGNMENT];
    const size_t rest = -bytes % SPILL_ALIGNMENT;
    int rc = write_all(spill->fd, data, bytes);

    if (rc == 0)
        rc = write_all(spill->fd, padding, rest);
    *written += bytes + rest;
    return rc;
}

int spill_write(void *context, struct table *table)
{
    struct spill *spill = context;
    struct segment segment = {
        .table = table, .source = spill->source, .offset = spill->size, .rows = table->rows};

    for (size_t i = 0; i < table->column_count; i++) {
        const struct column *column = &table->columns[i];
        int rc = 0;

        if (schema_is_ragged(column->kind))
            rc = write_array(spill, column->lengths.base, (size_t)table->rows * sizeof(uint32_t),
                             &segment.bytes);
        if (rc == 0)
            rc = write_array(spill, column->values.base, column_bytes(column, table->rows),
                             &segment.bytes);
        if (rc != 0)
            return rc;
    }
    return add_segment(spill, &segment);
}
