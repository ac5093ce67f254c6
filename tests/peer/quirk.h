/* SPDX-License-Identifier: BSD-3-Clause */
/* Quirks: what an older peer may do, and what a broken or hostile one does. All data: a hostile
 * quirk is a moment, a message to spoil and a way to spoil it. Once it has struck, its session goes
 * silent (it polls, so that the provider makes progress, and says nothing more).
 */
#ifndef PEER_QUIRK_H
#define PEER_QUIRK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum quirk_role { QUIRK_GET, QUIRK_PUT };

enum quirk_moment {
    QUIRK_ODD, /* legal: asked for with quirks_have() */
    QUIRK_INITIAL,
    QUIRK_GREETED, /* the initial message has been sent */
    QUIRK_ACK,
    QUIRK_CONNECTED, /* the acknowledgement is sent or received, nothing else yet */
    QUIRK_VECTOR,
    QUIRK_PROGRESS,
};

enum quirk_act { QUIRK_SPOIL, QUIRK_SILENCE, QUIRK_VANISH, QUIRK_OWN };

struct quirk {
    const char *name;
    enum quirk_role role;
    enum quirk_moment moment;
    enum quirk_act act;
    uint64_t nth;                /* strikes at the nth message of its kind in a session, from 0 */
    size_t len;                  /* the length to send, 0: as it is */
    void (*spoil)(uint8_t *msg); /* NULL: the content stays */
    const char *help;
};

enum { QUIRKS_MAX = 8 };

/* The quirks of one session. */
struct quirks {
    const struct quirk *list[QUIRKS_MAX];
    unsigned n;
    bool silent;
};

/* NULL if that role has no such quirk. */
const struct quirk *quirk_find(enum quirk_role role, const char *name);
bool quirk_is_hostile(const struct quirk *quirk);
void quirk_print_all(FILE *file);

bool quirks_have(const struct quirks *quirks, const char *name);
bool quirks_are_hostile(const struct quirks *quirks);

/* Lets the quirks have their way with the nth message of a kind, which they may spoil, lengthen up
 * to room or shorten. Returns false if it must not be sent. */
bool quirks_strike(struct quirks *quirks, enum quirk_moment moment, uint64_t nth, void *msg,
                   size_t *len, size_t room);

#endif
