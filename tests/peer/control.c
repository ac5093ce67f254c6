/* SPDX-License-Identifier: BSD-3-Clause */
#include "control.h"

#include <string.h>

enum { ROTATION_PERIOD = 3 };

int control_rx_service(struct control_rx *rx, struct port *port, struct failure *f)
{
    int n = 0;

    while (rx->posted - rx->taken < WIRE_TAGS) {
        const uint64_t tag = rx->posted % WIRE_TAGS;
        struct transfer *t = &rx->slots[tag].transfer;

        t->what = rx->what;
        int rc = port_recv_tagged(port, t, rx->slots[tag].bytes, rx->size, tag, f);
        if (rc < 0)
            return -1;
        if (rc == 0)
            break;
        rx->posted++;
        n++;
    }
    return n;
}

const void *control_rx_next(const struct control_rx *rx, size_t *len)
{
    const uint64_t slot = rx->taken % WIRE_TAGS;

    if (rx->posted == rx->taken || rx->slots[slot].transfer.state != TRANSFER_DONE)
        return NULL;
    *len = rx->slots[slot].transfer.len;
    return rx->slots[slot].bytes;
}

void control_rx_take(struct control_rx *rx)
{
    rx->slots[rx->taken % WIRE_TAGS].transfer.state = TRANSFER_IDLE;
    rx->taken++;
}

static unsigned count_used(const struct control_tx *tx)
{
    unsigned n = 0;

    for (unsigned i = 0; i < WIRE_CONTROL_MAX; i++)
        n += tx->slots[i].used;
    return n;
}

unsigned control_tx_room(const struct control_tx *tx)
{
    return WIRE_CONTROL_MAX - count_used(tx);
}

bool control_tx_idle(const struct control_tx *tx)
{
    return count_used(tx) == 0;
}

void control_tx_add(struct control_tx *tx, const void *bytes, size_t len)
{
    unsigned i = 0;

    while (tx->slots[i].used)
        i++;
    tx->slots[i].used = true;
    tx->slots[i].transfer.state = TRANSFER_IDLE;
    tx->slots[i].tag = tx->added++ % WIRE_TAGS;
    tx->slots[i].len = len;
    memcpy(tx->slots[i].bytes, bytes, len);
    tx->ready[tx->nready++] = i;
}

static void rotate(struct control_tx *tx)
{
    const unsigned free_places = WIRE_CONTROL_MAX - (count_used(tx) - tx->nready);

    if (tx->countdown > 0) {
        tx->countdown--;
        return;
    }
    if (tx->nready < 2 || free_places < 2)
        return;
    const unsigned first = tx->ready[0];
    memmove(&tx->ready[0], &tx->ready[1], (tx->nready - 1) * sizeof(tx->ready[0]));
    tx->ready[tx->nready - 1] = first;
    tx->countdown = ROTATION_PERIOD;
}

int control_tx_service(struct control_tx *tx, struct port *port, struct failure *f)
{
    unsigned n = 0;

    for (unsigned i = 0; i < WIRE_CONTROL_MAX; i++)
        if (tx->slots[i].transfer.state == TRANSFER_DONE) {
            tx->slots[i].used = false;
            tx->slots[i].transfer.state = TRANSFER_IDLE;
        }
    rotate(tx);
    while (n < tx->nready) {
        const unsigned i = tx->ready[n];

        tx->slots[i].transfer.what = tx->what;
        int rc = port_send_tagged(port, &tx->slots[i].transfer, tx->slots[i].bytes,
                                  tx->slots[i].len, tx->slots[i].tag, f);
        if (rc < 0)
            return -1;
        if (rc == 0)
            break;
        n++;
    }
    tx->nready -= n;
    memmove(&tx->ready[0], &tx->ready[n], tx->nready * sizeof(tx->ready[0]));
    return (int)n;
}
