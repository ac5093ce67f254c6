/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Can this process hold what it is asked to? Found out before anything starts: half a run that dies
 * of the 900th endpoint helps nobody, and its peers wait for the rest. doc/limits.md has the
 * figures and how they were measured. */
#ifndef FABT_CAPACITY_H
#define FABT_CAPACITY_H

#include "fabric.h"
#include "options.h"

/* Allow this process as many open files as it may have. */
void capacity_raise_descriptors(void);

/* Compare what the sessions of a process need, on `workers` workers, with what the provider and the
 * system have. 0, or a negative code with a failure that says what is short and the remedy. Errs on
 * the side of trying: of a provider that is not known here nothing is refused. */
int capacity_check(const struct fabric *fabric, const struct options *options, uint32_t workers,
                   struct failure *failure);

/* The most sessions, all rounds together, that one get can have; 0: no limit known. */
static inline uint32_t capacity_sessions(const struct fabric *fabric)
{
    return fabric->peers_max;
}

#endif
