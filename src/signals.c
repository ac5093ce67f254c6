/* SPDX-License-Identifier: BSD-3-Clause */
#include "signals.h"

#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

static const int cancelling[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM};

sigset_t signals_cancelling(void)
{
    sigset_t set;

    sigemptyset(&set);
    for (size_t i = 0; i < sizeof(cancelling) / sizeof(cancelling[0]); i++)
        sigaddset(&set, cancelling[i]);
    return set;
}

/* libfabric brings a library whose initialiser takes SIGINT and SIGTERM over with handlers that
 * silently exit with code 1, and start-up is not short. The functions in .preinit_array run before
 * the initialisers of shared libraries. A system call of its own, and no instrumentation: the
 * sanitizers' libraries are not initialised either. */
__attribute__((no_sanitize("address", "thread", "undefined"))) static void block_early(void)
{
    const unsigned long mask =
        1ul << (SIGHUP - 1) | 1ul << (SIGINT - 1) | 1ul << (SIGQUIT - 1) | 1ul << (SIGTERM - 1);

    syscall(SYS_rt_sigprocmask, SIG_BLOCK, &mask, NULL, sizeof(mask));
}

__attribute__((section(".preinit_array"), used)) static void (*const preinit)(void) = block_early;

void signals_prepare(void)
{
    const sigset_t set = signals_cancelling();

    /* A shell starts background jobs with SIGINT and SIGQUIT ignored, and an ignored signal never
     * reaches a signalfd; scripts cancel background runs by SIGINT all the same. SIGHUP stays
     * ignored if it is: nohup means it. */
    signal(SIGINT, SIG_DFL);
    signal(SIGQUIT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    /* A reader of our output that goes away is an error of a write, not our death. */
    signal(SIGPIPE, SIG_IGN);
    sigprocmask(SIG_BLOCK, &set, NULL);
}
