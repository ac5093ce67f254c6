/* SPDX-License-Identifier: BSD-3-Clause */
/* The initiator as an older program plays it. A payload buffer is one slot of a ring, cut from the
 * pattern in the lengths 37, 31, 29, 23; a write takes buffers, and pieces of them, in order.
 */
#include "session.h"

#include <stdlib.h>
#include <string.h>

enum {
    PAYLOAD_DEPTH = 64,
    WRITES_MAX = 64,
    IOV_MAX_SEGMENTS = 8,
    PROGRESS_SPLIT_PERIOD = 2048,
    MAX_SESSIONS = 16,
};

static const double LINGER = 0.3; /* seconds that put goes on polling after its end */

enum put_stage { PUT_HELLO, PUT_WAIT_ACK, PUT_RUN, PUT_LINGER };

struct payload {
    size_t len;
    size_t posted; /* bytes in writes so far */
    uint8_t data[WIRE_BUFFER_MAX];
};

struct write {
    struct transfer transfer;
    unsigned nfinished; /* buffers whose last piece is in this write */
    size_t credit;      /* and all their bytes: a fragment counts when its buffer is complete */
};

struct put_session {
    struct session base; /* first: steps get a pointer to it */
    enum put_stage stage;
    struct transfer ack_received;
    struct transfer initial_sent;
    struct wire_ack ack;
    _Alignas(8) uint8_t initial[sizeof(struct wire_initial) + 64];

    struct payload payload[PAYLOAD_DEPTH];
    struct fid_mr *payload_mr;
    uint64_t made;      /* payload buffers filled, */
    uint64_t written;   /* wholly handed to writes, */
    uint64_t recycled;  /* and free again, each since the beginning */
    uint64_t generated; /* bytes */

    struct write writes[WRITES_MAX];
    uint64_t posted; /* writes posted */
    uint64_t done;   /* and completed in order, since the beginning */

    struct wire_segment segments[WIRE_SEGMENTS_MAX]; /* at hand, in order */
    unsigned nsegments;
    uint32_t vector_taken; /* segments taken of the next vector */

    uint64_t unreported; /* bytes */
    uint64_t reported;
    unsigned split_countdown; /* progress messages until one is split */
    bool eof_sent;
    bool eof_received;
    double end;

    /* The judge: get must circulate three buffers. */
    uint64_t offers;       /* segments received */
    uint64_t offered_full; /* of which this many are reported to be full */
    uint64_t reported_in;  /* bytes reported in the first of the others */
    uint64_t lengths[4];   /* of segment i at i mod 4 */
};

static bool ack_fits(const struct put_session *s, struct failure *f)
{
    const struct wire_ack *ack = &s->ack;
    const size_t extension = WIRE_ADDR_MAX - WIRE_EXTENSION_LEN;

    if (s->ack_received.len != sizeof(*ack))
        failure_set(f, "acknowledgement of %zu bytes", s->ack_received.len);
    else if (ack->addrlen == 0 || ack->addrlen > WIRE_ADDR_MAX)
        failure_set(f, "acknowledgement: addrlen %u", ack->addrlen);
    else if (s->base.options->strict) {
        const bool extended = ack->addrlen <= WIRE_EXTENSION_ADDR_MAX &&
                              memcmp(ack->addr + extension, WIRE_EXTENSION_MAGIC, 8) == 0;
        const size_t end = extended ? extension : WIRE_ADDR_MAX;
        if (!text_is_zero(ack->addr + ack->addrlen, end - ack->addrlen))
            failure_set(f, "acknowledgement: addr is not zero-filled from %u to %zu", ack->addrlen,
                        end);
    }
    return f->text[0] == '\0';
}

/* Returns 1 when the initial message is on its way. The receive for the answer comes first. */
static int hello(struct put_session *s)
{
    struct session *base = &s->base;
    size_t len = sizeof(struct wire_initial);
    int rc;

    base->waiting_for = "the provider to take the initial message";
    if (s->ack_received.state == TRANSFER_IDLE) {
        rc = port_recv(&base->port, &s->ack_received, &s->ack, sizeof(s->ack), &base->failure);
        if (rc <= 0)
            return rc;
    }
    if (quirks_are_hostile(&base->quirks)) {
        quirks_strike(&base->quirks, QUIRK_INITIAL, 0, s->initial, &len, sizeof(s->initial));
        rc = port_send_insist(&base->port, &s->initial_sent, s->initial, len, &base->failure);
    } else {
        rc = port_send(&base->port, &s->initial_sent, s->initial, len, &base->failure);
    }
    if (rc == 1)
        s->stage = PUT_WAIT_ACK;
    return rc;
}

static int wait_ack(struct put_session *s)
{
    struct session *base = &s->base;
    size_t nothing = 0;

    base->waiting_for = "the acknowledgement";
    if (s->initial_sent.state == TRANSFER_DONE)
        quirks_strike(&base->quirks, QUIRK_GREETED, 0, NULL, &nothing, 0);
    if (s->ack_received.state != TRANSFER_DONE)
        return 0;
    if (!ack_fits(s, &base->failure) ||
        port_connect(&base->port, s->ack.addr, s->ack.addrlen, &base->failure) < 0)
        return -1;
    quirks_strike(&base->quirks, QUIRK_CONNECTED, 0, NULL, &nothing, 0);
    s->stage = PUT_RUN;
    return 1;
}

static void fill_payload(struct put_session *s)
{
    static const size_t lengths[] = {37, 31, 29, 23};

    while (s->made - s->recycled < PAYLOAD_DEPTH && s->generated < WIRE_TOTAL) {
        struct payload *p = &s->payload[s->made % PAYLOAD_DEPTH];
        const uint64_t left = WIRE_TOTAL - s->generated;
        p->len = lengths[s->made % 4] < left ? lengths[s->made % 4] : (size_t)left;
        p->posted = 0;
        for (size_t i = 0; i < p->len; i++)
            p->data[i] = wire_pattern[(s->generated + i) % WIRE_PATTERN_LEN];
        s->generated += p->len;
        s->made++;
    }
}

static bool all_written(const struct put_session *s)
{
    return s->generated == WIRE_TOTAL && s->written == s->made;
}

/* A worker's reserve of buffers is made in the order 23, 29, 31, 37 and taken last in, first out,
 * so that only the first session of a worker is sure to have these three. */
static bool is_target_length(const struct put_session *s, uint64_t len)
{
    static const uint64_t alone[WIRE_TARGETS] = {37, 31, 29};

    if (s->base.options->nsources == 1)
        return len == alone[s->offers % WIRE_TARGETS];
    return len == 23 || len == 29 || len == 31 || len == 37;
}

static int judge_segment(struct put_session *s, const struct wire_segment *segment)
{
    struct failure *f = &s->base.failure;

    if (segment->len == 0)
        return failure_set(f, "vector: an empty segment");
    if (!s->base.options->strict)
        return 0;
    if (!is_target_length(s, segment->len))
        return failure_set(f, "vector: buffer %llu has %llu bytes", (unsigned long long)s->offers,
                           (unsigned long long)segment->len);
    s->lengths[s->offers++ % 4] = segment->len;
    if (s->offers - s->offered_full > WIRE_TARGETS)
        return failure_set(f, "vector: get circulates %llu buffers",
                           (unsigned long long)(s->offers - s->offered_full));
    return 0;
}

/* Moves the judge's view of what get has in hand again on by the bytes that are reported. */
static void judge_progress(struct put_session *s, uint64_t nfilled)
{
    s->reported_in += nfilled;
    while (s->offered_full < s->offers && s->reported_in >= s->lengths[s->offered_full % 4])
        s->reported_in -= s->lengths[s->offered_full++ % 4];
}

static int judge_vector(struct put_session *s, const struct wire_vector *vector, size_t len)
{
    struct failure *f = &s->base.failure;

    if (len < 8 || (len - 8) % 24 != 0)
        return failure_set(f, "vector of %zu bytes", len);
    if (vector->niovs > WIRE_SEGMENTS_MAX || 8 + 24 * (size_t)vector->niovs > len)
        return failure_set(f, "vector: niovs %u in %zu bytes", vector->niovs, len);
    if (vector->pad != 0 && s->base.options->strict)
        return failure_set(f, "vector: pad %u", vector->pad);
    if (s->eof_received)
        return failure_set(f, "vector after get's EOF");
    if (vector->niovs == 0 && !s->eof_sent && s->base.options->strict)
        return failure_set(f, "get's EOF before put's");
    for (unsigned i = 0; i < vector->niovs; i++)
        if (judge_segment(s, &vector->iov[i]) < 0)
            return -1;
    return 0;
}

/* Takes segments until twelve are at hand; a vector's receive is given back with its last one. When
 * there is nothing left to write, segments are only in the way of get's EOF. */
static int take_vectors(struct put_session *s)
{
    const struct wire_vector *vector;
    size_t len;
    int n = 0;

    while ((vector = control_rx_next(&s->base.rx, &len)) != NULL) {
        if (all_written(s))
            s->nsegments = 0;
        if (s->vector_taken == 0 && s->nsegments < WIRE_SEGMENTS_MAX &&
            judge_vector(s, vector, len) < 0)
            return -1;
        if (s->nsegments == WIRE_SEGMENTS_MAX)
            break;
        if (vector->niovs == 0)
            s->eof_received = true;
        while (s->vector_taken < vector->niovs && s->nsegments < WIRE_SEGMENTS_MAX)
            s->segments[s->nsegments++] = vector->iov[s->vector_taken++];
        if (s->vector_taken < vector->niovs)
            break;
        s->vector_taken = 0;
        control_rx_take(&s->base.rx);
        n++;
    }
    return n;
}

static size_t min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* A write in the making. */
struct plan {
    struct iovec local[IOV_MAX_SEGMENTS];
    void *desc[IOV_MAX_SEGMENTS];
    size_t nlocal;
    struct fi_rma_iov remote[IOV_MAX_SEGMENTS];
    size_t nremote;
    size_t len;
    unsigned nfinished;
    size_t credit;
};

static void plan_add(const struct put_session *s, struct plan *plan, struct payload *p, size_t len)
{
    plan->local[plan->nlocal].iov_base = p->data + p->posted;
    plan->local[plan->nlocal].iov_len = len;
    plan->desc[plan->nlocal] = fi_mr_desc(s->payload_mr);
    plan->nlocal++;
    plan->len += len;
    if (p->posted + len == p->len) {
        plan->nfinished++;
        plan->credit += p->len;
    }
}

static size_t write_limit(const struct put_session *s)
{
    const size_t limit = s->base.port.net->info->tx_attr->rma_iov_limit;

    return s->base.options->contiguous ? 1 : min_size(limit, IOV_MAX_SEGMENTS);
}

/* Whole buffers as long as they fit. The first that doesn't is cut if no write could take more
 * segments, or if nothing else can happen, since get hands back only full buffers. */
static void plan_local(struct put_session *s, struct plan *plan)
{
    const size_t limit = write_limit(s);
    const size_t nremote = min_size(limit, s->nsegments);
    const size_t max = min_size(nremote, s->base.port.net->info->tx_attr->iov_limit);
    size_t room = 0;

    for (size_t i = 0; i < nremote; i++)
        room += s->segments[i].len;
    for (uint64_t i = s->written; i < s->made && plan->nlocal < max && room > 0; i++) {
        struct payload *p = &s->payload[i % PAYLOAD_DEPTH];
        const size_t left = p->len - p->posted;
        const bool idle = s->posted == s->done && s->unreported == 0 && plan->nlocal == 0;
        if (left > room && nremote < limit && !idle)
            break;
        plan_add(s, plan, p, min_size(left, room));
        room -= min_size(left, room);
    }
}

static void plan_remote(const struct put_session *s, struct plan *plan)
{
    size_t left = plan->len;

    for (unsigned i = 0; left > 0; i++) {
        const size_t n = min_size(left, s->segments[i].len);
        plan->remote[i].addr = s->segments[i].addr;
        plan->remote[i].len = n;
        plan->remote[i].key = s->segments[i].key;
        plan->nremote = i + 1;
        left -= n;
    }
}

/* What a posted write has used up. */
static void plan_commit(struct put_session *s, const struct plan *plan)
{
    struct write *w = &s->writes[s->posted++ % WRITES_MAX];

    w->nfinished = plan->nfinished;
    w->credit = plan->credit;
    for (size_t i = 0; i < plan->nlocal; i++) {
        struct payload *p = &s->payload[s->written % PAYLOAD_DEPTH];
        p->posted += plan->local[i].iov_len;
        if (p->posted == p->len)
            s->written++;
    }
    unsigned used = 0;
    for (size_t i = 0; i < plan->nremote; i++) {
        struct wire_segment *segment = &s->segments[i];
        segment->addr += plan->remote[i].len;
        segment->len -= plan->remote[i].len;
        used += segment->len == 0;
    }
    s->nsegments -= used;
    memmove(&s->segments[0], &s->segments[used], s->nsegments * sizeof(s->segments[0]));
}

/* Returns 1 when it posted a write, 0 when it can't now. */
static int write_some(struct put_session *s)
{
    struct plan plan = {.nlocal = 0};
    struct write *w = &s->writes[s->posted % WRITES_MAX];

    if (s->posted - s->done == WRITES_MAX)
        return 0;
    plan_local(s, &plan);
    if (plan.nlocal == 0)
        return 0;
    plan_remote(s, &plan);
    struct fi_msg_rma msg = {
        .msg_iov = plan.local,
        .desc = plan.desc, /* an array, one a segment */
        .iov_count = plan.nlocal,
        .rma_iov = plan.remote,
        .rma_iov_count = plan.nremote,
    };
    w->transfer.what = "payload write";
    int rc = port_write(&s->base.port, &w->transfer, &msg, &s->base.failure);
    if (rc == 1)
        plan_commit(s, &plan);
    return rc;
}

static void take_writes(struct put_session *s)
{
    while (s->done < s->posted) {
        struct write *w = &s->writes[s->done % WRITES_MAX];
        if (w->transfer.state != TRANSFER_DONE)
            break;
        w->transfer.state = TRANSFER_IDLE;
        s->recycled += w->nfinished;
        s->unreported += w->credit;
        s->done++;
    }
}

static void send_progress(struct put_session *s, uint64_t nfilled, uint64_t nleftover)
{
    const struct wire_progress progress = {.nfilled = nfilled, .nleftover = nleftover};

    session_send(&s->base, QUIRK_PROGRESS, &progress, sizeof(progress));
    s->unreported -= nfilled;
    s->reported += nfilled;
    s->eof_sent = s->eof_sent || nleftover == 0;
    judge_progress(s, nfilled);
}

/* The end is when all is written and complete. A split leaves a message without the end and the
 * rest with it; the quirk has it the other way round, as an older put does now and then. */
static int send_progresses(struct put_session *s)
{
    const bool end = all_written(s) && s->posted == s->done && !s->eof_sent;
    const bool late = end && quirks_have(&s->base.quirks, "late-progress");
    const bool alone = end && quirks_have(&s->base.quirks, "eof-alone");

    if ((s->unreported == 0 && !end) || control_tx_room(&s->base.tx) < 3 || s->base.quirks.silent)
        return 0;
    if (s->reported == 0 && quirks_have(&s->base.quirks, "zero-progress"))
        send_progress(s, 0, 1);
    if (late && s->unreported >= 2) {
        send_progress(s, s->unreported / 2, 0);
        send_progress(s, s->unreported, 1);
        return 1;
    }
    if (s->split_countdown > 0)
        s->split_countdown--;
    else if (s->unreported >= 2) {
        send_progress(s, s->unreported / 2, 1);
        s->split_countdown = PROGRESS_SPLIT_PERIOD - 1;
    }
    if (alone)
        send_progress(s, s->unreported, 1);
    send_progress(s, s->unreported, end ? 0 : 1);
    return 1;
}

static int transfer_payload(struct put_session *s)
{
    int n = 0;
    int rc;

    take_writes(s);
    fill_payload(s);
    while ((rc = take_vectors(s)) > 0)
        n += rc;
    if (rc < 0)
        return -1;
    while ((rc = write_some(s)) > 0)
        n += rc;
    if (rc < 0)
        return -1;
    return n + send_progresses(s);
}

static bool is_complete(const struct put_session *s)
{
    return s->eof_sent && s->reported == WIRE_TOTAL && s->eof_received &&
           control_tx_idle(&s->base.tx);
}

static const char *waits_for(const struct put_session *s)
{
    if (s->eof_sent)
        return s->eof_received ? "progress sends to complete" : "get's EOF";
    return s->posted == s->done ? "vectors" : "writes to complete";
}

static int run(struct put_session *s)
{
    struct session *base = &s->base;
    int rc = control_rx_service(&base->rx, &base->port, &base->failure);

    if (rc < 0)
        return -1;
    int n = transfer_payload(s);
    if (n < 0)
        return -1;
    int sent = control_tx_service(&base->tx, &base->port, &base->failure);
    if (sent < 0)
        return -1;
    base->waiting_for = waits_for(s);
    if (is_complete(s)) {
        s->end = session_now() + LINGER;
        s->stage = PUT_LINGER;
    }
    return n + rc + sent;
}

static int put_step(struct session *base)
{
    struct put_session *s = (struct put_session *)base;
    int n = session_service(base);
    int rc = 0;

    if (s->stage == PUT_LINGER) {
        /* The peer may be gone already, and that is no failure any more. */
        base->finished = n < 0 || session_now() > s->end;
        return 0;
    }
    if (n < 0)
        return -1;
    switch (s->stage) {
    case PUT_HELLO:
        rc = hello(s);
        break;
    case PUT_WAIT_ACK:
        rc = wait_ack(s);
        break;
    case PUT_RUN:
        rc = run(s);
        break;
    case PUT_LINGER:
        break;
    }
    return rc < 0 ? -1 : n + rc;
}

static int session_start(struct put_session *s, struct net *net, unsigned number,
                         const uint8_t *addr, size_t len)
{
    struct session *base = &s->base;
    struct wire_initial initial = {.nsources = base->options->nsources, .id = 0};
    size_t own_len = sizeof(initial.addr);

    base->rx.what = "vector";
    base->rx.size = sizeof(struct wire_vector);
    base->tx.what = "progress";
    s->ack_received.what = "acknowledgement";
    s->initial_sent.what = "initial";
    if (port_open(&base->port, net, (int)number, &base->failure) < 0 ||
        port_name(&base->port, initial.addr, &own_len, &base->failure) < 0 ||
        port_connect(&base->port, addr, len, &base->failure) < 0 ||
        port_register(&base->port, s->payload, sizeof(s->payload), FI_WRITE, &s->payload_mr,
                      &base->failure) < 0)
        return -1;
    initial.addrlen = (uint32_t)own_len;
    memcpy(s->initial, &initial, sizeof(initial));
    return 0;
}

static int start_all(struct session **sessions, struct net *net, const struct options *options,
                     struct failure *f)
{
    uint8_t addr[WIRE_ADDR_MAX];
    int len = -1;

    if (strlen(options->address) <= WIRE_ADDRESS_TEXT)
        len = text_to_address(options->address, addr, sizeof(addr));
    if (len < 0)
        return failure_set(f, "'%s' is not an address: expected 02:00:... of at most %d characters",
                           options->address, WIRE_ADDRESS_TEXT);
    if (net_open(net, &options->net, f) < 0)
        return -1;
    for (unsigned i = 0; i < options->nlocal; i++) {
        sessions[i] = calloc(1, sizeof(struct put_session));
        if (sessions[i] == NULL)
            return failure_set(f, "out of memory");
        session_init(sessions[i], options, i);
        if (session_start((struct put_session *)sessions[i], net, i, addr, (size_t)len) < 0)
            return failure_set(f, "session %u: %s", i, sessions[i]->failure.text);
    }
    return 0;
}

int put_run(const struct options *options, struct failure *f)
{
    struct net net = {.dump = options->dump};
    struct session *sessions[MAX_SESSIONS] = {NULL};
    int rc = -1;

    if (start_all(sessions, &net, options, f) == 0)
        rc = session_run_all(sessions, options->nlocal, put_step, NULL, f);
    for (unsigned i = 0; i < MAX_SESSIONS && sessions[i] != NULL; i++) {
        port_close(&sessions[i]->port);
        free(sessions[i]);
    }
    net_close(&net);
    return rc;
}
