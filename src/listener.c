/* SPDX-License-Identifier: BSD-3-Clause */
#include "listener.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "capacity.h"
#include "clock.h"
#include "control.h"

/* Room to see that a message is too long. */
enum { RECEIVE_ROOM = WIRE_INITIAL_SIZE + 64 };

struct listener_receive {
    struct op op; /* first: completions lead to it */
    uint8_t bytes[RECEIVE_ROOM];
};

/* An acknowledgement that says no. Kept until the end: providers flush late. */
struct listener_refusal {
    struct op op; /* first */
    struct listener_refusal *next;
    fi_addr_t peer;
    struct fid_mr *mr;
    uint8_t bytes[WIRE_ACK_SIZE];
};

static int post_receive(struct listener *listener, struct listener_receive *receive)
{
    const struct iovec iov = {receive->bytes, sizeof(receive->bytes)};
    void *desc = listener->mr == NULL ? NULL : fi_mr_desc(listener->mr);
    const struct op_memory memory = {&iov, &desc, 1};

    if (receive->op.state != OP_WAITING) {
        op_renew(&receive->op, &listener->endpoint, FABT_KIND_INITIAL_RX);
        receive->op.len = sizeof(receive->bytes);
    }
    return op_post_receive(&receive->op, &memory);
}

/* Post what is not posted. A deferral is retried with the next poll. */
static int post_receives(struct listener *listener)
{
    for (uint32_t i = 0; i < listener->receives_count; i++) {
        struct listener_receive *receive = &listener->receives[i];
        int rc;

        if (receive->op.state == OP_POSTED || receive->op.state == OP_DONE)
            continue;
        rc = post_receive(listener, receive);
        if (rc == -FI_EAGAIN)
            return 0;
        if (rc != 0)
            return rc;
    }
    return 0;
}

static int open_queue(struct listener *listener, struct failure *failure)
{
    struct fi_cq_attr attr = {
        .size = 2 * ((size_t)listener->receives_count + listener->options->sessions),
        .format = FI_CQ_FORMAT_TAGGED,
        .wait_obj = FI_WAIT_FD,
    };
    int rc = fi_cq_open(listener->domain.domain, &attr, &listener->cq, NULL);

    if (rc != 0) {
        attr.wait_obj = FI_WAIT_NONE;
        rc = fi_cq_open(listener->domain.domain, &attr, &listener->cq, NULL);
    } else if (fi_control(&listener->cq->fid, FI_GETWAIT, &listener->cq_fd) != 0) {
        listener->cq_fd = -1;
    }
    if (rc != 0)
        return failure_set(failure, rc, "cannot open a completion queue of %zu entries: %s",
                           attr.size, fi_strerror(-rc));
    return 0;
}

int listener_open(struct listener *listener, const struct fabric *fabric,
                  const struct options *options, struct failure *failure)
{
    const size_t room = fabric->info->rx_attr->size / 2;
    int rc;

    memset(listener, 0, sizeof(*listener));
    listener->options = options;
    listener->cq_fd = -1;
    listener->receives_count =
        room > 0 && room < options->sessions ? (uint32_t)room : options->sessions;
    listener->receives = calloc(listener->receives_count, sizeof(*listener->receives));
    if (listener->receives == NULL)
        return failure_set(failure, -ENOMEM, "no memory for initial messages");
    rc = domain_open(&listener->domain, fabric, 2 * options->sessions, failure);
    if (rc == 0)
        rc = open_queue(listener, failure);
    if (rc == 0)
        rc = endpoint_open(&listener->endpoint, &listener->domain, listener->cq, ENDPOINT_LISTENING,
                           failure);
    if (rc == 0 && fabric_needs_local(fabric))
        rc = domain_register(&listener->domain, listener->endpoint.ep, listener->receives,
                             listener->receives_count * sizeof(*listener->receives), FI_RECV,
                             &listener->mr, failure);
    if (rc == 0) {
        rc = post_receives(listener);
        if (rc != 0)
            failure_set(failure, rc, "cannot post a receive: %s", fi_strerror(-rc));
    }
    if (rc != 0)
        listener_close(listener);
    return rc;
}

unsigned listener_close(struct listener *listener)
{
    struct listener_refusal *refusal;
    unsigned leaks = 0;

    if (listener->endpoint.ep != NULL) {
        listener->closing = true;
        endpoint_cancel(&listener->endpoint);
        /* One look for what is cancelled at once; the rest is abandoned. */
        for (unsigned i = 0; i < 64 && listener->endpoint.outstanding > 0; i++) {
            struct wire_initial ignored;
            struct workload none;
            struct failure reason = {0};

            listener_poll(listener, &ignored, &none, &reason);
        }
    }
    leaks += endpoint_close(&listener->endpoint);
    for (refusal = listener->refusals; refusal != NULL; refusal = refusal->next)
        leaks += fabric_close_object(refusal->mr ? &refusal->mr->fid : NULL, "registration", -1);
    leaks += fabric_close_object(listener->mr ? &listener->mr->fid : NULL, "registration", -1);
    leaks += fabric_close_object(listener->cq ? &listener->cq->fid : NULL, "completion queue", -1);
    leaks += domain_close(&listener->domain);
    while ((refusal = listener->refusals) != NULL) {
        listener->refusals = refusal->next;
        free(refusal);
    }
    free(listener->receives);
    listener->receives = NULL;
    listener->mr = NULL;
    listener->cq = NULL;
    return leaks;
}

static void complete(struct listener *listener, struct op *op, size_t len, int status)
{
    if (op == NULL || op->state != OP_POSTED) {
        FABT_TRACE(stray_completion, .session = -1, .op = op == NULL ? 0 : op->number);
        return;
    }
    op_complete(op, clock_now(), len, status);
    op_traced_complete(op, 0);
    if (op->kind == FABT_KIND_INITIAL_RX)
        listener->arrived++;
}

static void read_queue(struct listener *listener)
{
    struct fi_cq_tagged_entry entries[16];
    const ssize_t n = fi_cq_read(listener->cq, entries, 16);

    for (ssize_t i = 0; i < n; i++)
        complete(listener, entries[i].op_context, entries[i].len, 0);
    if (n == -FI_EAVAIL) {
        struct fi_cq_err_entry entry;

        memset(&entry, 0, sizeof(entry));
        if (fi_cq_readerr(listener->cq, &entry, 0) >= 1)
            complete(listener, entry.op_context, entry.len, entry.err == 0 ? -FI_EIO : -entry.err);
    }
}

/* Constant time: how long it takes says nothing about where the first difference is. */
static bool same_token(const uint64_t a[2], const uint64_t b[2])
{
    const volatile uint64_t difference = (a[0] ^ b[0]) | (a[1] ^ b[1]);

    return difference == 0;
}

static enum wire_status judge(struct listener *listener, const struct wire_initial *initial,
                              struct workload *workload, struct failure *reason)
{
    const struct options *options = listener->options;
    const uint32_t rounds =
        initial->extended && initial->extension.rounds > 1 ? initial->extension.rounds : 1;
    const uint32_t most = capacity_sessions(listener->domain.fabric);
    enum wire_status status = WIRE_ACCEPTED;

    *workload = workload_default();
    if (initial->nsources != options->sessions) {
        failure_set(reason, -EPROTO, "put's -n is %" PRIu32 ", expected %" PRIu32,
                    initial->nsources, options->sessions);
        return WIRE_REFUSED_SESSIONS;
    }
    if (initial->id > options->sessions) {
        failure_set(reason, -EPROTO, "session number %" PRIu32 " is beyond -n %" PRIu32,
                    initial->id, options->sessions);
        return WIRE_REFUSED_ID;
    }
    if (initial->extended)
        status = workload_from_extension(workload, &initial->extension, reason);
    if (status != WIRE_ACCEPTED)
        return status;
    if (rounds > OPTIONS_SIZES_MAX || (listener->rounds != 0 && listener->rounds != rounds)) {
        failure_set(reason, -EPROTO,
                    "put makes %" PRIu32 " rounds; at most %u, and the same as other puts", rounds,
                    OPTIONS_SIZES_MAX);
        return WIRE_REFUSED_ROUNDS;
    }
    if (most != 0 && rounds > most / options->sessions) {
        failure_set(reason, -ENOSPC,
                    "put makes %" PRIu32 " rounds of %" PRIu32
                    " sessions, and an endpoint of this provider has room for %" PRIu32 " peers",
                    rounds, options->sessions, most);
        return WIRE_REFUSED_ROUNDS;
    }
    status = workload_within(workload, &options->limits, reason);
    if (status == WIRE_ACCEPTED)
        listener->rounds = rounds;
    return status;
}

/* Tell a put that understands it. Best effort: an older put gets silence and its own time-out. */
static void refuse(struct listener *listener, const struct wire_initial *initial, uint8_t status)
{
    struct listener_refusal *refusal;
    struct failure ignored = {0};
    struct wire_ack ack = {
        .address = listener->endpoint.address,
        .extended = true,
        .extension = {.status = status, .session = initial->id},
    };

    if (!initial->extended || listener->refusals_count == listener->options->sessions)
        return;
    refusal = calloc(1, sizeof(*refusal));
    if (refusal == NULL)
        return;
    wire_encode_ack(&ack, refusal->bytes);
    if (domain_insert(&listener->domain, &initial->address, &refusal->peer, &ignored) != 0 ||
        (fabric_needs_local(listener->domain.fabric) &&
         domain_register(&listener->domain, listener->endpoint.ep, refusal->bytes,
                         sizeof(refusal->bytes), FI_SEND, &refusal->mr, &ignored) != 0)) {
        free(refusal);
        return;
    }
    op_renew(&refusal->op, &listener->endpoint, FABT_KIND_ACK_TX);
    refusal->op.len = WIRE_ACK_SIZE;
    refusal->next = listener->refusals;
    listener->refusals = refusal;
    listener->refusals_count++;
}

static void post_refusals(struct listener *listener)
{
    for (struct listener_refusal *r = listener->refusals; r != NULL; r = r->next) {
        const struct iovec iov = {r->bytes, sizeof(r->bytes)};
        void *desc = r->mr == NULL ? NULL : fi_mr_desc(r->mr);
        const struct op_memory memory = {&iov, &desc, 1};
        int rc;

        if (r->op.state != OP_WAITING)
            continue;
        rc = op_post_send(&r->op, &memory, r->peer);
        if (rc != 0 && rc != -FI_EAGAIN)
            r->op.state = OP_DONE; /* the peer is out of reach */
    }
}

bool listener_busy(const struct listener *listener)
{
    for (const struct listener_refusal *r = listener->refusals; r != NULL; r = r->next) {
        if (!op_done(&r->op))
            return true;
    }
    return false;
}

static enum listener_verdict drop(struct listener *listener, const struct op *op, uint8_t reason)
{
    listener->dropped++;
    FABT_TRACE(initial_dropped, .reason = reason, .len_bytes = op->got);
    return LISTENER_DROP;
}

static enum listener_verdict look_into(struct listener *listener,
                                       const struct listener_receive *receive,
                                       struct wire_initial *initial, struct workload *workload,
                                       struct failure *reason)
{
    const struct op *op = &receive->op;
    struct failure why = {0};
    enum wire_status status;
    char from[80];

    if (op->status == -FI_ECANCELED)
        return LISTENER_NOTHING;
    if (op->status != 0) {
        failure_set(reason, op->status, "an initial message failed: %s", fi_strerror(-op->status));
        return drop(listener, op,
                    op->status == -FI_ETRUNC ? (uint8_t)FABT_DROP_REASON_SIZE
                                             : (uint8_t)FABT_DROP_REASON_ERROR);
    }
    if (wire_decode_initial(receive->bytes, op->got, initial, reason) != 0)
        return drop(listener, op,
                    op->got == WIRE_INITIAL_SIZE ? (uint8_t)FABT_DROP_REASON_ADDRESS
                                                 : (uint8_t)FABT_DROP_REASON_SIZE);
    domain_format(&listener->domain, &initial->address, from, sizeof(from));
    if (listener->options->has_token && !same_token(initial->nonce, listener->options->token)) {
        failure_set(reason, -EACCES, "an initial message of %s has the wrong access token", from);
        return drop(listener, op, FABT_DROP_REASON_TOKEN);
    }
    status = judge(listener, initial, workload, &why);
    if (status == WIRE_ACCEPTED)
        return LISTENER_ACCEPT;
    failure_set(reason, why.code, "%s (put is %s)", why.text, from);
    refuse(listener, initial, (uint8_t)status);
    return LISTENER_REFUSE;
}

enum listener_verdict listener_poll(struct listener *listener, struct wire_initial *initial,
                                    struct workload *workload, struct failure *reason)
{
    enum listener_verdict verdict = LISTENER_NOTHING;

    read_queue(listener);
    post_refusals(listener);
    for (uint32_t i = 0; i < listener->receives_count && listener->arrived > 0; i++) {
        struct listener_receive *receive = &listener->receives[i];

        if (receive->op.state != OP_DONE)
            continue;
        listener->arrived--;
        verdict = look_into(listener, receive, initial, workload, reason);
        receive->op.state = OP_IDLE;
        if (verdict != LISTENER_NOTHING)
            break;
    }
    if (!listener->closing && post_receives(listener) != 0 && listener->endpoint.outstanding == 0)
        listener->deaf = true;
    return verdict;
}
