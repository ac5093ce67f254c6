/* SPDX-License-Identifier: BSD-3-Clause */
/* The target as an older program plays it: all initial messages first, then all acknowledgements,
 * then three buffers a session that go round.
 */
#include "session.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VECTOR_SPLIT_PERIOD = 16, MAX_SOURCES = 16 };

static const double SEND_WAIT = 5.0; /* seconds that get waits for its own last send */

struct target {
    struct wire_segment segment;
    size_t len;
    size_t filled;
    uint8_t data[WIRE_BUFFER_MAX];
};

struct get_session {
    struct session base; /* first: steps get a pointer to it */
    struct transfer ack_sent;
    bool ack_posted;
    struct wire_ack ack;
    uint8_t spoiled_ack[WIRE_ADDR_MAX * 2];
    struct target targets[WIRE_TARGETS];
    uint64_t offered;         /* buffers offered since the beginning; buffer i is i mod 3 */
    uint64_t filled;          /* buffers filled since the beginning */
    unsigned split_countdown; /* vectors until one is made of half the buffers */
    uint64_t received;        /* bytes */
    bool eof_received;
    bool eof_sent;
    double eof_time;
};

struct listener {
    struct port port;
    struct transfer transfers[MAX_SOURCES];
    _Alignas(8) uint8_t initials[MAX_SOURCES][sizeof(struct wire_initial)];
};

static int check_tail(const struct wire_initial *initial, struct failure *f)
{
    const size_t extension = WIRE_ADDR_MAX - WIRE_EXTENSION_LEN;
    const bool extended = initial->addrlen <= WIRE_EXTENSION_ADDR_MAX &&
                          memcmp(initial->addr + extension, WIRE_EXTENSION_MAGIC, 8) == 0;
    const size_t end = extended ? extension : WIRE_ADDR_MAX;

    if (!text_is_zero(initial->addr + initial->addrlen, end - initial->addrlen))
        return failure_set(f, "initial: addr is not zero-filled from %u to %zu", initial->addrlen,
                           end);
    if (initial->pad != 0 || initial->nonce[0] != 0 || initial->nonce[1] != 0)
        return failure_set(f, "initial: padding or nonce is not zero");
    return 0;
}

static int check_initial(const struct options *options, const struct wire_initial *initial,
                         size_t len, struct failure *f)
{
    if (len != sizeof(*initial))
        return failure_set(f, "initial: %zu bytes instead of %zu", len, sizeof(*initial));
    if (initial->nsources != options->nsources)
        return failure_set(f, "initial: nsources %u instead of %u", initial->nsources,
                           options->nsources);
    if (initial->id > options->nsources)
        return failure_set(f, "initial: id %u of %u", initial->id, options->nsources);
    if (initial->addrlen == 0 || initial->addrlen > WIRE_ADDR_MAX)
        return failure_set(f, "initial: addrlen %u", initial->addrlen);
    return options->strict ? check_tail(initial, f) : 0;
}

static int listener_open(struct listener *listener, struct net *net, const struct options *options,
                         struct failure *f)
{
    uint8_t addr[WIRE_ADDR_MAX];
    size_t len = sizeof(addr);
    char text[3 * WIRE_ADDR_MAX];

    if (port_open(&listener->port, net, -1, f) < 0)
        return -1;
    for (unsigned i = 0; i < options->nsources; i++) {
        listener->transfers[i].what = "initial";
        int rc;
        while ((rc = port_recv(&listener->port, &listener->transfers[i], listener->initials[i],
                               sizeof(listener->initials[i]), f)) == 0)
            if (port_poll(&listener->port, f) < 0)
                return -1;
        if (rc < 0)
            return -1;
    }
    if (port_name(&listener->port, addr, &len, f) < 0)
        return -1;
    text_from_address(addr, len, text);
    return text_publish(options->address_file, text, f);
}

/* Older programs start no session before all have said hello. */
static int listener_wait(struct listener *listener, const struct options *options,
                         struct failure *f)
{
    const double deadline = session_now() + options->timeout;
    unsigned n = 0;

    while (n < options->nsources) {
        int rc = port_poll(&listener->port, f);
        if (rc < 0)
            return -1;
        n += (unsigned)rc;
        if (session_interrupted())
            return failure_set(f, "interrupted by a signal while waiting for initial messages");
        if (session_now() > deadline)
            return failure_set(f, "%u of %u initial messages within %g s", n, options->nsources,
                               options->timeout);
        if (rc == 0)
            sched_yield();
    }
    return 0;
}

static int targets_open(struct get_session *s)
{
    static const size_t lengths[WIRE_TARGETS] = {37, 31, 29};
    const bool virt_addr = s->base.port.net->info->domain_attr->mr_mode & FI_MR_VIRT_ADDR;

    for (unsigned i = 0; i < WIRE_TARGETS; i++) {
        struct target *t = &s->targets[i];
        struct fid_mr *mr;
        t->len = lengths[i];
        if (port_register(&s->base.port, t->data, t->len, FI_REMOTE_WRITE, &mr, &s->base.failure) <
            0)
            return -1;
        t->segment.addr = virt_addr ? (uint64_t)(uintptr_t)t->data : 0;
        t->segment.len = t->len;
        t->segment.key = fi_mr_key(mr);
    }
    return 0;
}

static int session_accept(struct get_session *s, struct net *net, unsigned number,
                          const struct wire_initial *initial)
{
    struct session *base = &s->base;
    size_t len = sizeof(s->ack.addr);

    base->rx.what = "progress";
    base->rx.size = sizeof(struct wire_progress);
    base->tx.what = "vector";
    s->ack_sent.what = "acknowledgement";
    if (port_open(&base->port, net, (int)number, &base->failure) < 0 ||
        port_name(&base->port, s->ack.addr, &len, &base->failure) < 0 ||
        port_connect(&base->port, initial->addr, initial->addrlen, &base->failure) < 0 ||
        targets_open(s) < 0)
        return -1;
    s->ack.addrlen = (uint32_t)len;
    return 0;
}

/* Returns 1 when the acknowledgement is on its way, 0 when not yet, -1 on failure. */
static int acknowledge(struct get_session *s)
{
    struct session *base = &s->base;
    size_t len = sizeof(s->ack);
    int rc;

    if (s->ack_posted)
        return 1;
    base->waiting_for = "the provider to take the acknowledgement";
    if (quirks_are_hostile(&base->quirks)) {
        memcpy(s->spoiled_ack, &s->ack, len);
        if (!quirks_strike(&base->quirks, QUIRK_ACK, 0, s->spoiled_ack, &len,
                           sizeof(s->spoiled_ack)))
            return 0;
        rc = port_send_insist(&base->port, &s->ack_sent, s->spoiled_ack, len, &base->failure);
        quirks_strike(&base->quirks, QUIRK_CONNECTED, 0, NULL, &len, 0);
    } else {
        rc = port_send(&base->port, &s->ack_sent, &s->ack, len, &base->failure);
    }
    s->ack_posted = rc == 1;
    return rc;
}

static int verify(struct get_session *s, const uint8_t *data, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        const uint8_t expected = wire_pattern[(s->received + i) % WIRE_PATTERN_LEN];
        if (data[i] != expected)
            return failure_set(&s->base.failure, "byte %llu is 0x%02x instead of 0x%02x",
                               (unsigned long long)(s->received + i), data[i], expected);
    }
    s->received += len;
    return s->received <= WIRE_TOTAL
               ? 0
               : failure_set(&s->base.failure, "more than %d bytes came", WIRE_TOTAL);
}

static int advance(struct get_session *s, uint64_t nfilled)
{
    uint64_t room = 0;

    for (uint64_t i = s->filled; i < s->offered; i++)
        room += s->targets[i % WIRE_TARGETS].len - s->targets[i % WIRE_TARGETS].filled;
    if (nfilled > room)
        return failure_set(&s->base.failure, "progress of %llu bytes where %llu are offered",
                           (unsigned long long)nfilled, (unsigned long long)room);
    while (nfilled > 0) {
        struct target *t = &s->targets[s->filled % WIRE_TARGETS];
        const size_t n = nfilled < t->len - t->filled ? (size_t)nfilled : t->len - t->filled;
        if (verify(s, t->data + t->filled, n) < 0)
            return -1;
        t->filled += n;
        nfilled -= n;
        if (t->filled == t->len) {
            t->filled = 0;
            s->filled++;
            /* A byte that put reports and never wrote must not pass as the last round's. */
            memset(t->data, 0, t->len);
        }
    }
    return 0;
}

/* More progress may follow EOF: an older put's late message. Ours promise that none does. */
static int take_progress(struct get_session *s)
{
    struct session *base = &s->base;
    const struct wire_progress *progress;
    size_t len;
    int n = 0;

    while ((progress = control_rx_next(&base->rx, &len)) != NULL) {
        if (len != sizeof(*progress))
            return failure_set(&base->failure, "progress of %zu bytes", len);
        if (s->eof_received && base->options->strict)
            return failure_set(&base->failure, "progress after EOF");
        if (advance(s, progress->nfilled) < 0)
            return -1;
        if (progress->nleftover == 0 && !s->eof_received) {
            s->eof_received = true;
            s->eof_time = session_now();
            if (base->options->strict && s->received != WIRE_TOTAL)
                return failure_set(&base->failure, "EOF after %llu bytes",
                                   (unsigned long long)s->received);
        }
        control_rx_take(&base->rx);
        n++;
    }
    return n;
}

/* The first vector and then every 16th is made of half the buffers at hand, which takes two. */
static unsigned vector_length(struct get_session *s)
{
    const uint64_t at_hand = s->filled + WIRE_TARGETS - s->offered;

    if (s->split_countdown > 0) {
        s->split_countdown--;
        return (unsigned)at_hand;
    }
    if (at_hand < 2)
        return (unsigned)at_hand;
    s->split_countdown = VECTOR_SPLIT_PERIOD - 1;
    return (unsigned)at_hand / 2;
}

static void send_vector(struct get_session *s, unsigned niovs)
{
    struct wire_vector vector = {.niovs = niovs};
    size_t len = 8 + 24 * (size_t)niovs;

    for (unsigned i = 0; i < niovs; i++)
        vector.iov[i] = s->targets[s->offered++ % WIRE_TARGETS].segment;
    if (quirks_have(&s->base.quirks, "long-vectors"))
        len = sizeof(vector);
    session_send(&s->base, QUIRK_VECTOR, &vector, len);
}

/* The quirk: EOF has the lower tag, and the vector after it is posted, and so arrives, first. */
static void send_vector_after_eof(struct get_session *s)
{
    struct control_tx *tx = &s->base.tx;
    struct wire_vector vector = {.niovs = 0};

    control_tx_add(tx, &vector, 8);
    vector.niovs = 1;
    vector.iov[0] = s->targets[0].segment;
    control_tx_add(tx, &vector, 8 + 24);
    const unsigned last = tx->ready[tx->nready - 1];
    tx->ready[tx->nready - 1] = tx->ready[tx->nready - 2];
    tx->ready[tx->nready - 2] = last;
    tx->countdown = 3; /* no rotation undoes this */
    s->base.quirks.silent = true;
}

static int answer_eof(struct get_session *s)
{
    if (control_tx_room(&s->base.tx) < 3)
        return 0;
    if (quirks_have(&s->base.quirks, "vector-after-eof")) {
        send_vector_after_eof(s);
        return 1;
    }
    if (quirks_have(&s->base.quirks, "between-eofs") && s->offered < s->filled + WIRE_TARGETS)
        send_vector(s, 1);
    send_vector(s, 0);
    s->eof_sent = true;
    return 1;
}

static int send_vectors(struct get_session *s)
{
    int n = 0;

    if (s->eof_received)
        return s->eof_sent ? 0 : answer_eof(s);
    while (s->offered < s->filled + WIRE_TARGETS && control_tx_room(&s->base.tx) > 0 &&
           !s->base.quirks.silent) {
        send_vector(s, vector_length(s));
        n++;
    }
    return n;
}

static const char *waits_for(const struct get_session *s)
{
    if (!s->eof_received)
        return "progress messages";
    return s->received < WIRE_TOTAL ? "the rest after put's EOF" : "get's own sends to complete";
}

static int get_step(struct session *base)
{
    struct get_session *s = (struct get_session *)base;
    int n = session_service(base);
    int rc = control_rx_service(&base->rx, &base->port, &base->failure);

    if (n < 0 || rc < 0)
        return -1;
    n += rc;
    rc = acknowledge(s);
    if (rc <= 0)
        return rc < 0 ? -1 : n;
    rc = take_progress(s);
    if (rc < 0)
        return -1;
    n += rc + send_vectors(s);
    rc = control_tx_service(&base->tx, &base->port, &base->failure);
    if (rc < 0)
        return -1;
    if (s->eof_sent && s->received == WIRE_TOTAL)
        base->finished = control_tx_idle(&base->tx) || session_now() - s->eof_time > SEND_WAIT;
    base->waiting_for = waits_for(s);
    return n + rc;
}

static int accept_all(struct listener *listener, struct net *net, const struct options *options,
                      struct session **sessions, struct failure *f)
{
    for (unsigned i = 0; i < options->nsources; i++) {
        const void *initial = listener->initials[i];
        sessions[i] = calloc(1, sizeof(struct get_session));
        if (sessions[i] == NULL)
            return failure_set(f, "out of memory");
        session_init(sessions[i], options, i);
        if (check_initial(options, initial, listener->transfers[i].len, f) < 0)
            return -1;
        if (session_accept((struct get_session *)sessions[i], net, i, initial) < 0)
            return failure_set(f, "session %u: %s", i, sessions[i]->failure.text);
    }
    return 0;
}

static void close_all(struct session **sessions, unsigned n)
{
    for (unsigned i = 0; i < n && sessions[i] != NULL; i++) {
        struct get_session *s = (struct get_session *)sessions[i];
        port_close(&s->base.port);
        free(s);
    }
}

int get_run(const struct options *options, struct failure *f)
{
    struct net net = {.dump = options->dump};
    struct session *sessions[MAX_SOURCES] = {NULL};
    struct listener *listener = calloc(1, sizeof(*listener));
    int rc = -1;

    if (listener == NULL)
        return failure_set(f, "out of memory");
    if (net_open(&net, &options->net, f) == 0 && listener_open(listener, &net, options, f) == 0 &&
        listener_wait(listener, options, f) == 0 &&
        accept_all(listener, &net, options, sessions, f) == 0)
        rc = session_run_all(sessions, options->nsources, get_step, &listener->port, f);
    close_all(sessions, MAX_SOURCES);
    port_close(&listener->port);
    net_close(&net);
    free(listener);
    return rc;
}
