/* SPDX-License-Identifier: BSD-3-Clause */
/* What both roles share: a session has a port, control messages either way, and one step function
 * that the only thread calls in turn until the session is finished or has failed.
 */
#ifndef PEER_SESSION_H
#define PEER_SESSION_H

#include "control.h"
#include "quirk.h"

struct options {
    enum quirk_role role;
    unsigned nsources; /* -n */
    unsigned nlocal;   /* -k */
    bool contiguous;   /* -g */
    bool strict;
    double timeout;           /* seconds without any event that a session survives */
    const char *address_file; /* -a */
    const char *address;
    struct net_choice net;
    bool dump;
    struct {
        const struct quirk *quirk;
        int session; /* -1: every session */
    } quirks[QUIRKS_MAX];
    unsigned nquirks;
};

struct session {
    const struct options *options;
    struct port port;
    struct control_rx rx;
    struct control_tx tx;
    struct quirks quirks;
    struct failure failure;
    const char *waiting_for; /* what a time-out message names */
    double last_event;
    bool finished;
};

/* Does whatever can be done now; returns the number of things done or -1. */
typedef int session_step(struct session *session);

int get_run(const struct options *options, struct failure *f);
int put_run(const struct options *options, struct failure *f);

/* Seconds of the monotonic clock. */
double session_now(void);

/* Set by a signal: everything ends as soon as it can. */
bool session_interrupted(void);
void session_catch_signals(void);

void session_init(struct session *session, const struct options *options, unsigned number);

/* Steps all sessions in turn until each has finished or failed; each closes its port at its end.
 * After a signal the hostile ones end at once and the others in a moment.
 * background, if not NULL, is a port that is kept progressing. Returns 0 if every session without
 * hostile quirks has finished, else -1 and the first failure. */
int session_run_all(struct session **sessions, unsigned n, session_step *step,
                    struct port *background, struct failure *f);

/* Reads completions, posts what waits. First and last thing of a step; in a silent session all. */
int session_service(struct session *session);

/* Queues a control message after the session's quirks have seen it. */
void session_send(struct session *session, enum quirk_moment kind, const void *msg, size_t len);

#endif
