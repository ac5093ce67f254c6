/* SPDX-License-Identifier: BSD-3-Clause
 * Memory that grows in place: what a column's values lie in.
 *
 * Filling big arrays costs more in page faults than in stores, so a region asks for huge pages, and
 * growing moves page tables (mremap) and not bytes. What is written again and again (chunks that
 * are spilled) keeps its pages. */
#ifndef FABT_REGION_H
#define FABT_REGION_H

#include <stddef.h>

struct region {
    char *base;
    size_t size; /* bytes that may be used */
};

/* Makes at least `size` bytes usable; what was written stays, its address may change. 0 or -ENOMEM.
 */
int region_reserve(struct region *region, size_t size);
void region_free(struct region *region);

#endif
