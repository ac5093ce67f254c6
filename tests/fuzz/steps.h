/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A session on the fake provider that the input drives step by step: what is delivered, reported,
 * deferred or refused, in which order, when time passes, and what the scripted peer sends.
 * fuzz_put.c and fuzz_get.c add the peer.
 *
 * What must hold whatever the input is:
 *   - no step takes unbounded work: settling ends, and a session without news does not spin;
 *   - the provider sees no rule broken and nothing left open (fake_fabric.h);
 *   - after the script, when the peer is silent for longer than the time-outs, the session is
 * closed;
 *   - its outcome, failure and text fit together;
 *   - once all is said and done, what the provider reports as failed is no failure of the session.
 * And while the input does nothing that a sound provider and an honest peer don't do (`honest`),
 * the session must end well. */
#ifndef FABT_FUZZ_STEPS_H
#define FABT_FUZZ_STEPS_H

#include "fuzz.h"
#include "rig.h"

enum {
    STEPS_MEMORY = 16384, /* of a scripted get */
    STEPS_KEY = 77,
};

#define STEPS_BASE UINT64_C(0x10000)

struct steps {
    struct rig rig;
    struct rig_side *side; /* the one that has a session */
    struct fuzz_input input;

    unsigned deferrals; /* posts that the provider is still to defer */
    unsigned refusals;  /* ... to refuse, with `refusal` */
    int refusal;
    bool watching;   /* watch.h knows the rules of the stress workload only */
    bool permissive; /* writes succeed wherever they go */
    bool mute;       /* after the script the provider delivers and reports nothing more */

    bool honest;
    bool spoiled;             /* the peer is honest, but a byte of its payload is wrong */
    bool cancelled;           /* by the input */
    uint64_t passed_ns;       /* time that the input let pass */
    uint64_t written_bytes;   /* that writes brought to the peer */
    bool heard_since_through; /* a message arrived, or a post was refused, since session->through */

    /* Reads what the session has sent to the scripted peer. */
    void (*read_letters)(struct steps *steps);
};

/* The first bytes of the input: provider, options, workload. The session is not started. */
void steps_open(struct steps *steps, enum role role, const uint8_t *data, size_t size);

/* Everything to the session's end: silence, time-outs, checks. */
void steps_end(struct steps *steps);

/* Give everything back; the provider's last checks. */
void steps_close(struct steps *steps);

static inline struct session *steps_session(const struct steps *steps)
{
    return steps->side->session;
}

/* One step that is not the peer's; `kind` is below STEPS_KINDS. */
enum { STEPS_KINDS = 16 };
void steps_take(struct steps *steps, uint32_t kind);

/* Deliver, report and service until nothing is left to do now. */
void steps_settle(struct steps *steps);

/* Let time pass. */
void steps_pass(struct steps *steps, uint64_t ns);

/* Is there room for one more message of the scripted peer? Its 16 may be under way. */
bool steps_room(const struct steps *steps);

#endif
