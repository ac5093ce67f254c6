/* SPDX-License-Identifier: BSD-3-Clause */
#include "progress.h"

#include <stdio.h>
#include <unistd.h>

#include "clock.h"

#define PERIOD_NS (200 * NS_PER_MS)

enum { BAR = 30 };

void progress_show(struct progress *progress, uint64_t now, uint64_t bytes, double share)
{
    static const char full[BAR + 1] = "##############################";
    static const char empty[BAR + 1] = "..............................";
    double rate = 0;
    int done;

    if (now < progress->next_ns || !isatty(STDERR_FILENO))
        return;
    if (progress->last_ns != 0 && now > progress->last_ns && bytes >= progress->last_bytes)
        rate = (double)(bytes - progress->last_bytes) / (1024.0 * 1024.0) * (double)NS_PER_S /
               (double)(now - progress->last_ns);
    progress->next_ns = now + PERIOD_NS;
    progress->last_ns = now;
    progress->last_bytes = bytes;
    if (share < 0) {
        fprintf(stderr, "\r%.1f MiB, %.1f MiB/s \033[K", (double)bytes / (1024.0 * 1024.0), rate);
    } else {
        done = share >= 1 ? BAR : (int)(share * BAR);
        fprintf(stderr, "\r[%.*s%.*s] %3.0f %%, %.1f MiB/s \033[K", done, full, BAR - done, empty,
                (share > 1 ? 1 : share) * 100, rate);
    }
    fflush(stderr);
    progress->shown = true;
}

void progress_wipe(struct progress *progress)
{
    if (!progress->shown)
        return;
    fputs("\r\033[K", stderr);
    fflush(stderr);
    progress->shown = false;
}
