/* SPDX-License-Identifier: BSD-3-Clause
 * An outlet that writes each column as a NumPy file: FOLDER/EVENT/COLUMN.npy, of a ragged column
 * COLUMN.lengths.npy (uint32, elements of each row) and COLUMN.values.npy. */
#ifndef FABT_NPY_H
#define FABT_NPY_H

#include "table.h"

struct npy {
    char *folder;
};

/* Makes the folder, which must not exist or be empty. 0 or a negative errno. */
int npy_open(struct npy *npy, const char *folder);
void npy_close(struct npy *npy);

/* An outlet's `write`; the context is a struct npy. */
int npy_write(void *context, struct table *table);

#endif
