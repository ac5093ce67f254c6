/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The handshake: the initial message to get's listening endpoint, the acknowledgement from the
 * session's own. */
#include "put_parts.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

static int post_hello(struct put *put)
{
    struct session *session = &put->base;
    const struct iovec iov = {put->hello_bytes, sizeof(put->hello_bytes)};
    void *desc = put->hello_mr == NULL ? NULL : fi_mr_desc(put->hello_mr);
    const struct op_memory memory = {&iov, &desc, 1};
    const int rc = op_post_send(&put->hello, &memory, session->peer);

    if (rc != 0 && rc != -FI_EAGAIN)
        return failure_set_peer_lost(&session->failure, rc, "cannot send the initial message: %s",
                                     fi_strerror(-rc));
    return rc;
}

static int post_reply(struct put *put)
{
    const struct iovec iov = {put->reply_bytes, sizeof(put->reply_bytes)};
    void *desc = put->reply_mr == NULL ? NULL : fi_mr_desc(put->reply_mr);
    const struct op_memory memory = {&iov, &desc, 1};
    const int rc = op_post_receive(&put->reply, &memory);

    if (rc != 0 && rc != -FI_EAGAIN)
        return failure_set(&put->base.failure, rc, "cannot post a receive: %s", fi_strerror(-rc));
    return rc;
}

/* The handshake's posts, each when the one before it has been taken. The receives for vectors come
 * first: get's first vector must find one. All sessions use the same tags, and providers may give
 * what arrives unexpected to another endpoint of the domain (net 1.17 does) or crash on it (ofi_rxm
 * 2.1). */
int put_hello_post(struct put *put)
{
    int rc = control_rx_service(&put->vectors, &put->base.failure);

    if (rc == 0 && put->reply.state == OP_WAITING)
        rc = post_reply(put);
    if (rc == 0 && put->hello.state == OP_WAITING)
        rc = post_hello(put);
    return rc;
}

static int take_buffers(struct put *put)
{
    struct session *session = &put->base;

    while (put->buffers_count < session->workload.depth) {
        struct buffer *buffer = reserve_take(session->reserve);

        if (buffer == NULL)
            return failure_set(&session->failure, -ENOMEM, "no memory for payload buffers");
        buffer->index = put->buffers_count;
        put->buffers[put->buffers_count++] = buffer;
        ring_push(&put->free_buffers, buffer);
        if (!session->options->reregister) {
            const int rc = buffer_register(buffer, &session->endpoint, FI_WRITE,
                                           &session->counts.registrations, &session->failure);
            if (rc != 0)
                return rc;
        }
    }
    return 0;
}

static int register_handshake(struct put *put)
{
    struct session *session = &put->base;
    int rc;

    if (!fabric_needs_local(session->fabric))
        return 0;
    rc = domain_register(session->domain, session->endpoint.ep, put->hello_bytes,
                         sizeof(put->hello_bytes), FI_SEND, &put->hello_mr, &session->failure);
    if (rc == 0)
        rc = domain_register(session->domain, session->endpoint.ep, put->reply_bytes,
                             sizeof(put->reply_bytes), FI_RECV, &put->reply_mr, &session->failure);
    return rc;
}

int put_hello_begin(struct session *session)
{
    struct put *put = put_of(session);
    const struct options *options = session->options;
    struct wire_initial initial = {
        .nsources = options->sessions,
        .id = session->wire_id,
        .address = session->endpoint.address,
        .extended = true,
        .extension =
            {
                .round = session->round,
                .rounds = (uint16_t)options->rounds,
                .run_id = session->run_id,
                .session = session->wire_id,
                .pid = (uint32_t)getpid(),
            },
    };
    int rc =
        control_rx_open(&put->vectors, &session->endpoint, FABT_KIND_VECTOR_RX, &session->failure);

    if (rc == 0)
        rc = control_tx_open(&put->progress, &session->endpoint, session_disorderly(session),
                             &session->failure);
    if (rc == 0)
        rc = register_handshake(put);
    if (rc == 0)
        rc = take_buffers(put);
    if (rc == 0)
        rc = domain_insert(session->domain, &options->peer, &session->peer, &session->failure);
    if (rc != 0)
        return rc;
    if (options->has_token)
        memcpy(initial.nonce, options->token, sizeof(initial.nonce));
    workload_to_extension(&session->workload, &initial.extension);
    wire_encode_initial(&initial, put->hello_bytes);
    op_renew(&put->reply, &session->endpoint, FABT_KIND_ACK_RX);
    put->reply.len = sizeof(put->reply_bytes);
    op_renew(&put->hello, &session->endpoint, FABT_KIND_INITIAL_TX);
    put->hello.len = sizeof(put->hello_bytes);
    return put_hello_post(put);
}

/* An older get does only what it always did. */
static int check_older_get(struct session *session)
{
    const struct workload *asked = &session->workload;
    const struct workload usual = workload_default();

    if (asked->kind == usual.kind && asked->pattern && asked->total_bytes == usual.total_bytes)
        return 0;
    return failure_set(&session->failure, -EPROTO,
                       "this fabtget is older and does the stress workload of %" PRIu64
                       " verified bytes only: leave --workload, --total, --duration and "
                       "--no-verify out",
                       usual.total_bytes);
}

/* A get of our kind says what it agreed to. */
static int check_terms(struct session *session, const struct wire_extension *terms)
{
    const struct workload *asked = &session->workload;

    if (terms->version != WIRE_EXTENSION_VERSION)
        return failure_set(&session->failure, -EPROTO,
                           "fabtget answers with an extension block of version %u, expected %u",
                           terms->version, WIRE_EXTENSION_VERSION);
    if (terms->workload != asked->kind || terms->total_bytes != asked->total_bytes ||
        terms->size_bytes != asked->size_bytes)
        return failure_set(&session->failure, -EPROTO,
                           "fabtget agreed to workload %u, %" PRIu64 " bytes in buffers of %" PRIu64
                           ", expected %u, %" PRIu64 " and %" PRIu64,
                           terms->workload, terms->total_bytes, terms->size_bytes, asked->kind,
                           asked->total_bytes, asked->size_bytes);
    return 0;
}

int put_hello_read_reply(struct put *put)
{
    struct session *session = &put->base;
    struct wire_ack ack;
    int rc = wire_decode_ack(put->reply_bytes, put->reply.got, &ack, &session->failure);

    if (rc != 0)
        return rc;
    if (ack.extended && ack.extension.status != WIRE_ACCEPTED) {
        session->refused = true;
        return failure_set(&session->failure, -FI_ECONNREFUSED, "fabtget refused the session: %s",
                           wire_status_text(ack.extension.status));
    }
    rc = ack.extended ? check_terms(session, &ack.extension) : check_older_get(session);
    if (rc != 0)
        return rc;
    if (ack.extended)
        session->peer_pid = ack.extension.pid;
    session->peer_address = ack.address;
    rc = domain_insert(session->domain, &ack.address, &session->peer, &session->failure);
    session->failure.peer_lost = rc != 0; /* shm can't map a peer that is gone */
    if (rc == 0)
        session_started(session, put->reply.complete_ns);
    put->reply_read = true;
    return rc;
}
