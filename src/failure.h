/* SPDX-License-Identifier: BSD-3-Clause
 *
 * An error on its way up: a negative errno (or libfabric's extension of it) and a line of text.
 *
 * The function that decides that something is an error describes it; callers pass the code on.
 * The first description stays: what follows from an error is rarely news.
 */
#ifndef FABT_FAILURE_H
#define FABT_FAILURE_H

#include <stdbool.h>

struct failure {
    int code;       /* 0: no failure; else negative */
    bool usage;     /* the command line is to blame: exit code 2 */
    bool peer_lost; /* the peer disappeared or fell silent */
    char text[320];
};

/* Describe a failure unless one is described already. Returns the (negative) code. */
int failure_set(struct failure *failure, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The same for a failure whose cause is a peer that disappeared. */
int failure_set_peer_lost(struct failure *failure, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The same for a wrong command line. */
int failure_set_usage(struct failure *failure, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
