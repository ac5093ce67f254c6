/* SPDX-License-Identifier: BSD-3-Clause
 *
 * get's listening endpoint: initial messages in, verdicts out. One bad message, or one peer's
 * error, never ends it. */
#ifndef FABT_LISTENER_H
#define FABT_LISTENER_H

#include "op.h"
#include "options.h"
#include "wire.h"
#include "workload.h"

enum listener_verdict {
    LISTENER_NOTHING, /* nothing has arrived */
    LISTENER_ACCEPT,  /* a session may start */
    LISTENER_REFUSE,  /* a session is refused; it counts as one of the n */
    LISTENER_DROP,    /* a message is dropped; it does not count */
};

struct listener_receive;
struct listener_refusal;

struct listener {
    struct domain domain;
    struct endpoint endpoint;
    const struct options *options;
    struct fid_cq *cq;
    int cq_fd; /* wait descriptor, or -1 */
    struct listener_receive *receives;
    uint32_t receives_count;
    struct fid_mr *mr;
    struct listener_refusal *refusals;
    uint32_t refusals_count; /* at most n: more are refused in silence */
    uint32_t arrived;        /* receives that completed and were not looked at */
    uint64_t dropped;
    uint32_t rounds; /* of n sessions each, as the first put said; 0: none came yet */
    bool closing;    /* post nothing more */
    bool deaf;       /* no receive is posted and none can be */
};

/* Open it with a receive for each expected session (as far as the provider's queue reaches). */
int listener_open(struct listener *listener, const struct fabric *fabric,
                  const struct options *options, struct failure *failure);

/* Read the completion queue, repost, and give a verdict on one message. With LISTENER_REFUSE and
 * LISTENER_DROP `reason` says why. Call again until it says LISTENER_NOTHING. */
enum listener_verdict listener_poll(struct listener *listener, struct wire_initial *initial,
                                    struct workload *workload, struct failure *reason);

/* Refusals are still on their way. */
bool listener_busy(const struct listener *listener);

/* Returns what leaked. */
unsigned listener_close(struct listener *listener);

#endif
