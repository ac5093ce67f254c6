/* SPDX-License-Identifier: BSD-3-Clause
 * An outlet that appends chunks of all tables to one file.
 *
 * A segment is a chunk of one table: its columns one after the other, each the bytes of its values;
 * before those of a ragged column the uint32_t lengths of its rows. Each begins at a multiple of
 * SPILL_ALIGNMENT, so that it can be viewed in place. */
#ifndef FABT_SPILL_H
#define FABT_SPILL_H

#include <stdint.h>

#include "table.h"

#define SPILL_ALIGNMENT ((size_t)8)

struct segment {
    const struct table *table;
    uint64_t source; /* number of the input that the rows are from */
    uint64_t offset; /* in the file */
    uint64_t rows;
    uint64_t bytes;
};

struct spill {
    int fd;
    uint64_t size;
    uint64_t source; /* of what comes now */
    struct segment *segments;
    size_t count, capacity;
};

/* Opens (creates, empties) the file. 0 or a negative errno. */
int spill_open(struct spill *spill, const char *path);
void spill_close(struct spill *spill);

/* An outlet's `write`; the context is a struct spill. */
int spill_write(void *context, struct table *table);

#endif
