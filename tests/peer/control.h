/* SPDX-License-Identifier: BSD-3-Clause */
/* Control messages, one direction each: tags count modulo 64 from 0; the receiver keeps 64 receives
 * posted and takes messages in tag order; the sender has at most 16 and reorders some on purpose.
 */
#ifndef PEER_CONTROL_H
#define PEER_CONTROL_H

#include "net.h"
#include "wire.h"

enum { CONTROL_BYTES_MAX = 512 }; /* longer than any legal message, for the quirks */

struct control_rx {
    const char *what;
    size_t size;     /* of each receive */
    uint64_t posted; /* receives posted since the beginning */
    uint64_t taken;  /* messages taken since the beginning */
    struct {
        struct transfer transfer;
        _Alignas(8) uint8_t bytes[sizeof(struct wire_vector)];
    } slots[WIRE_TAGS];
};

/* Posts what may be posted. Returns how many receives it posted, or -1. */
int control_rx_service(struct control_rx *rx, struct port *port, struct failure *f);

/* The next message in tag order and its length, or NULL if it is not here. */
const void *control_rx_next(const struct control_rx *rx, size_t *len);

/* Gives the next message's buffer back, to be posted again under the same tag. */
void control_rx_take(struct control_rx *rx);

struct control_tx {
    const char *what;
    uint64_t added;
    unsigned countdown; /* services until a message is put behind the others */
    unsigned nready;
    unsigned ready[WIRE_CONTROL_MAX]; /* slots to post, in posting order */
    struct {
        struct transfer transfer;
        bool used;
        uint64_t tag;
        size_t len;
        _Alignas(8) uint8_t bytes[CONTROL_BYTES_MAX];
    } slots[WIRE_CONTROL_MAX];
};

/* How many messages may be added. */
unsigned control_tx_room(const struct control_tx *tx);

/* Queues a message under the next tag; there must be room. */
void control_tx_add(struct control_tx *tx, const void *bytes, size_t len);

/* Frees what has completed, rotates, posts. Returns how many messages it posted, or -1. */
int control_tx_service(struct control_tx *tx, struct port *port, struct failure *f);

bool control_tx_idle(const struct control_tx *tx);

#endif
