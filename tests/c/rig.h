/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A put session and a get session in one process, on the fake provider, served as a worker serves
 * them: a completion goes to the session whose operation it names, a session is serviced only when
 * it is due, time limits are looked at now and then. Either side may be a script instead: then it
 * is an address, and the test sends and reads its messages.
 *
 * rig_run takes one small step after the other, chosen by dice or by a fixed rule, until both sides
 * are closed. If nothing is left to happen before that, the test fails: somebody waits for ever. */
#ifndef FABT_TEST_RIG_H
#define FABT_TEST_RIG_H

#include "fake_fabric.h"
#include "harness.h"
#include "session.h"
#include "watch.h"

/* In which order things arrive and are reported. */
enum rig_order {
    RIG_FIRST,  /* in the order in which they were posted */
    RIG_LAST,   /* the newest first */
    RIG_RANDOM, /* any */
    RIG_BATCH,  /* nothing is reported while anything can still be delivered */
    RIG_ORDERS,
};

struct rig_setup {
    uint64_t seed;
    enum rig_order order;
    uint32_t eagain_percent; /* of posts, receives too */
    uint64_t total_bytes;
    bool contiguous;    /* put's -g */
    bool reregister;    /* -r, both sides */
    bool keep_endpoint; /* as with -w */
    struct fake_limits put, get;
};

struct rig_side {
    struct rig *rig;
    struct options options;
    struct fabric fabric;
    struct domain domain;
    struct fid_cq *cq;
    struct reserve reserve;
    struct session *session; /* NULL: not started, or a script */
    bool begun;
};

struct rig {
    struct rig_setup setup;
    struct dice dice;
    struct fake_net *net;
    struct rig_side put, get;
    struct watch watch;
    uint32_t listener; /* id of get's listening address */
    uint32_t script;   /* id of a scripted peer's session endpoint */
    uint64_t steps;
    uint64_t
        waits; /* times that nothing was left to happen, payload was under way, and time went on */
    unsigned strays;
    int refuse;         /* every post gets this, if not 0 */
    bool only_receives; /* ... every receive */
};

void rig_open(struct rig *rig, const struct rig_setup *setup);

/* Give everything back, and fail the test if the provider saw a rule broken or a leak. */
void rig_close(struct rig *rig);

/* Start put's session; its initial message goes to the listening address. */
void rig_start_put(struct rig *rig);

/* Start get's session with a put that sent `initial`. */
void rig_start_get(struct rig *rig, const struct wire_initial *initial);

/* Deliver put's initial message to the listening address and read it. */
void rig_read_initial(struct rig *rig, struct wire_initial *initial);

/* One step: something arrives, or is reported, or a session is serviced. */
void rig_step(struct rig *rig);

/* A whole run: both sessions, until both are closed. */
void rig_run(struct rig *rig);

/* Single acts, for tests that need to be precise: report completion `index`, service put (or get)
 * if it is due, deliver all that a scripted get sent to put. */
void rig_report(struct rig *rig, size_t index);
void rig_service_put(struct rig *rig);
void rig_service_get(struct rig *rig);
void rig_deliver_vectors(struct rig *rig);

/* Deliver, report and service in order until nothing is left to do now. Time stands still. */
void rig_settle(struct rig *rig);

/* Let time pass, looking at time limits every 10 ms, and settle in between. */
void rig_pass(struct rig *rig, uint64_t ms);

#endif
