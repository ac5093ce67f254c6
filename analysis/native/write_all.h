/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef FABT_WRITE_ALL_H
#define FABT_WRITE_ALL_H

#include <errno.h>
#include <stddef.h>
#include <unistd.h>

/* Writes all of it, whatever interrupts; 0 or a negative errno. */
static inline int write_all(int fd, const void *data, size_t size)
{
    const char *rest = data;

    while (size > 0) {
        const ssize_t done = write(fd, rest, size);

        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return -errno;
        if (done == 0)
            return -ENOSPC;
        rest += done;
        size -= (size_t)done;
    }
    return 0;
}

#endif
