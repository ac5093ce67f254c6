/* SPDX-License-Identifier: BSD-3-Clause */
#include "region.h"

#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>

#define PAGE ((size_t)4096)
#define HUGE_PAGE ((size_t)2 << 20)

/* The next size that a region grows to: doubling keeps the number of calls small. */
static size_t grown(size_t have, size_t want)
{
    size_t size = have == 0 ? PAGE : have;

    while (size < want && size <= SIZE_MAX / 2)
        size *= 2;
    return size;
}

int region_reserve(struct region *region, size_t size)
{
    const size_t wanted = grown(region->size, size);
    void *base;

    if (size <= region->size)
        return 0;
    if (wanted < size)
        return -ENOMEM;
    if (region->base == NULL)
        base = mmap(NULL, wanted, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    else
        base = mremap(region->base, region->size, wanted, MREMAP_MAYMOVE);
    if (base == MAP_FAILED)
        return -ENOMEM;
    if (wanted >= HUGE_PAGE)
        (void)madvise(base, wanted, MADV_HUGEPAGE); /* advice: without it things are only slower */
    region->base = base;
    region->size = wanted;
    return 0;
}

void region_free(struct region *region)
{
    if (region->base != NULL)
        munmap(region->base, region->size);
    region->base = NULL;
    region->size = 0;
}
