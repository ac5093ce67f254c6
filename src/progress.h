/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A line on the terminal that tells how far a run is. Nothing is shown where standard error is not
 * a terminal. */
#ifndef FABT_PROGRESS_H
#define FABT_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress {
    bool shown; /* a line is on the terminal now */
    uint64_t next_ns;
    uint64_t last_ns;
    uint64_t last_bytes;
};

/* Show it, at most five times a second. `share`: of the run, 0 to 1, or negative when unknown. */
void progress_show(struct progress *progress, uint64_t now, uint64_t bytes, double share);

/* Wipe the line, before something else is printed. */
void progress_wipe(struct progress *progress);

#endif
