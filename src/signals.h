/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The signals that cancel a run: SIGHUP, SIGINT, SIGQUIT and SIGTERM.
 *
 * They are blocked in every thread from before main on, so that one that arrives at any moment
 * waits until the main thread reads it from a signalfd. */
#ifndef FABT_SIGNALS_H
#define FABT_SIGNALS_H

#include <signal.h>

/* The set of them. */
sigset_t signals_cancelling(void);

/* Make sure that they reach the signalfd, whatever we inherited and libraries set up. */
void signals_prepare(void);

#endif
