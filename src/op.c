/* SPDX-License-Identifier: BSD-3-Clause */
#include "op.h"

#include <errno.h>
#include <string.h>

#include "clock.h"
#include "shm_spare.h"

static void list_append(struct endpoint *endpoint, struct op *op)
{
    struct op *head = &endpoint->posted;

    op->previous = head->previous;
    op->next = head;
    head->previous->next = op;
    head->previous = op;
    endpoint->outstanding++;
}

static void list_remove(struct endpoint *endpoint, struct op *op)
{
    op->previous->next = op->next;
    op->next->previous = op->previous;
    op->next = op->previous = NULL;
    endpoint->outstanding--;
}

static int open_failed(struct endpoint *endpoint, const char *call, int rc, struct failure *failure)
{
    fabric_close_object(endpoint->ep ? &endpoint->ep->fid : NULL, "endpoint",
                        (int32_t)endpoint->session);
    endpoint->ep = NULL;
    endpoint->closed = true;
    if (rc == -EMFILE || rc == -FI_ENOSPC || rc == -FI_EMFILE)
        return failure_set(failure, rc,
                           "%s: %s: raise the limit on open files (ulimit -n) or free /dev/shm, or "
                           "run fewer sessions",
                           call, fi_strerror(-rc));
    return failure_set(failure, rc, "%s: %s", call, fi_strerror(-rc));
}

int endpoint_open(struct endpoint *endpoint, struct domain *domain, struct fid_cq *cq,
                  uint32_t session, struct failure *failure)
{
    size_t len = ADDRESS_MAX;
    int rc;

    memset(endpoint, 0, sizeof(*endpoint));
    endpoint->domain = domain;
    endpoint->session = session;
    endpoint->next_number = 1;
    endpoint->outlier_ns = UINT64_MAX;
    endpoint->posted.next = endpoint->posted.previous = &endpoint->posted;
    rc = fi_endpoint(domain->domain, domain->fabric->info, &endpoint->ep, NULL);
    if (rc != 0)
        return open_failed(endpoint, "fi_endpoint", rc, failure);
    rc = fi_ep_bind(endpoint->ep, &cq->fid, FI_TRANSMIT | FI_RECV);
    if (rc == 0)
        rc = fi_ep_bind(endpoint->ep, &domain->av->fid, 0);
    if (rc != 0)
        return open_failed(endpoint, "fi_ep_bind", rc, failure);
    rc = fi_enable(endpoint->ep);
    if (rc != 0)
        return open_failed(endpoint, "fi_enable", rc, failure);
    rc = fi_getname(&endpoint->ep->fid, endpoint->address.raw, &len);
    if (rc == 0 && len > ADDRESS_MAX)
        rc = -FI_ETOOSMALL;
    if (rc != 0)
        return open_failed(endpoint, "fi_getname", rc, failure);
    endpoint->address.len = len;
    if (domain->fabric->shm)
        shm_spare_prepare(&endpoint->address);
    return 0;
}

void endpoint_cancel(struct endpoint *endpoint)
{
    for (struct op *op = endpoint->posted.next; op != &endpoint->posted; op = op->next) {
        /* Best effort: sockets says -FI_ENOENT of what is no waiting receive, and providers may
         * ignore it for transmits. What matters is whether a completion comes. */
        fi_cancel(&endpoint->ep->fid, &op->context);
        op->cancelled = true;
    }
}

void endpoint_abandon(struct endpoint *endpoint)
{
    endpoint->closed = true;
    while (endpoint->outstanding > 0) {
        struct op *op = endpoint->posted.next;

        list_remove(endpoint, op);
        op->state = OP_DONE;
        op->status = -FI_ECANCELED;
        FABT_TRACE(op_abandon, .session = endpoint->session, .op = op->number, .kind = op->kind);
    }
}

unsigned endpoint_close(struct endpoint *endpoint)
{
    unsigned leaks;

    if (endpoint->ep == NULL)
        return 0;
    endpoint_abandon(endpoint);
    leaks = fabric_close_object(&endpoint->ep->fid, "endpoint", (int32_t)endpoint->session);
    endpoint->ep = NULL;
    return leaks;
}

void op_renew(struct op *op, struct endpoint *endpoint, uint8_t kind)
{
    op->endpoint = endpoint;
    op->number = endpoint->next_number++;
    op->kind = kind;
    op->state = OP_WAITING;
    op->payload = op->position = op->tag_or_key = 0;
    op->got = 0;
    op->nsegs = 1;
    op->status = 0;
    op->deferred = op->cancelled = false;
}

/* After a posting call: account for what the provider said. */
static int posted(struct op *op, ssize_t rc)
{
    struct endpoint *endpoint = op->endpoint;
    uint64_t call_ns = 0;

    if (FABT_TRACE_ENABLED(op_post) || FABT_TRACE_ENABLED(session_time)) {
        call_ns = clock_now() - op->post_ns;
        endpoint->counts.call_ns += call_ns;
    }
    if (rc == 0) {
        op->state = OP_POSTED;
        list_append(endpoint, op);
        endpoint->counts.posted++;
        FABT_TRACE(op_post, .session = endpoint->session, .op = op->number, .kind = op->kind,
                   .nsegs = op->nsegs, .len_bytes = op->len, .payload_bytes = op->payload,
                   .position = op->position, .tag_or_key = op->tag_or_key,
                   .call_ns = (uint32_t)call_ns);
        return 0;
    }
    if (rc == -FI_EAGAIN && !op->deferred) {
        op->deferred = true;
        endpoint->counts.deferred++;
        FABT_TRACE(op_defer, .session = endpoint->session, .op = op->number, .kind = op->kind,
                   .len_bytes = op->len);
    }
    return (int)rc;
}

int op_post_receive(struct op *op, const struct op_memory *memory)
{
    const struct fi_msg message = {
        .msg_iov = memory->iov,
        .desc = memory->desc,
        .iov_count = memory->count,
        .addr = FI_ADDR_UNSPEC,
        .context = &op->context,
    };

    op->post_ns = clock_now();
    return posted(op, fi_recvmsg(op->endpoint->ep, &message, FI_COMPLETION));
}

int op_post_tagged_receive(struct op *op, const struct op_memory *memory, uint64_t tag)
{
    const struct fi_msg_tagged message = {
        .msg_iov = memory->iov,
        .desc = memory->desc,
        .iov_count = memory->count,
        .addr = FI_ADDR_UNSPEC,
        .tag = tag,
        .ignore = 0,
        .context = &op->context,
    };

    op->tag_or_key = tag;
    op->post_ns = clock_now();
    return posted(op, fi_trecvmsg(op->endpoint->ep, &message, FI_COMPLETION));
}

int op_post_send(struct op *op, const struct op_memory *memory, fi_addr_t peer)
{
    const struct fi_msg message = {
        .msg_iov = memory->iov,
        .desc = memory->desc,
        .iov_count = memory->count,
        .addr = peer,
        .context = &op->context,
    };

    op->post_ns = clock_now();
    return posted(
        op, fi_sendmsg(op->endpoint->ep, &message, op->endpoint->domain->fabric->hello_flags));
}

int op_post_tagged_send(struct op *op, const struct op_memory *memory, fi_addr_t peer, uint64_t tag)
{
    const struct fi_msg_tagged message = {
        .msg_iov = memory->iov,
        .desc = memory->desc,
        .iov_count = memory->count,
        .addr = peer,
        .tag = tag,
        .context = &op->context,
    };

    op->tag_or_key = tag;
    op->post_ns = clock_now();
    return posted(op, fi_tsendmsg(op->endpoint->ep, &message, FI_COMPLETION));
}

int op_post_write(struct op *op, const struct op_memory *memory, fi_addr_t peer,
                  const struct fi_rma_iov *rma, size_t rma_count)
{
    const struct fi_msg_rma message = {
        .msg_iov = memory->iov,
        .desc = memory->desc,
        .iov_count = memory->count,
        .addr = peer,
        .rma_iov = rma,
        .rma_iov_count = rma_count,
        .context = &op->context,
    };

    op->tag_or_key = rma[0].key;
    op->nsegs = (uint8_t)rma_count;
    op->post_ns = clock_now();
    return posted(op,
                  fi_writemsg(op->endpoint->ep, &message, FI_COMPLETION | FI_DELIVERY_COMPLETE));
}

void op_complete(struct op *op, uint64_t now, size_t got, int status)
{
    list_remove(op->endpoint, op);
    op->endpoint->counts.completed++;
    op->complete_ns = now;
    op->got = (uint32_t)got;
    op->status = status;
    op->state = OP_DONE;
}

/* A receive is posted ahead of need: how long it waits says when the peer sent, not how long the
 * provider took. */
static bool is_receive(uint8_t kind)
{
    return kind == FABT_KIND_INITIAL_RX || kind == FABT_KIND_ACK_RX ||
           kind == FABT_KIND_VECTOR_RX || kind == FABT_KIND_PROGRESS_RX;
}

static void trace_outlier(const struct op *op)
{
    if (is_receive(op->kind) || op->cancelled)
        return;
    FABT_TRACE(outlier, .session = op->endpoint->session, .op = op->number, .kind = op->kind,
               .duration_ns = op->complete_ns - op->post_ns, .limit_ns = op->endpoint->outlier_ns);
}

void op_traced_complete(struct op *op, uint32_t earlier_pending)
{
    if (earlier_pending > 0)
        op->endpoint->counts.out_of_order++;
    FABT_TRACE(op_complete, .session = op->endpoint->session, .op = op->number, .kind = op->kind,
               .status = (uint8_t)(op->status == 0               ? FABT_STATUS_OK
                                   : op->status == -FI_ECANCELED ? FABT_STATUS_CANCELLED
                                                                 : FABT_STATUS_ERROR),
               .len_bytes = op->got, .payload_bytes = op->payload,
               .earlier_pending =
                   (uint16_t)(earlier_pending > UINT16_MAX ? UINT16_MAX : earlier_pending));
    if (op->complete_ns - op->post_ns > op->endpoint->outlier_ns)
        trace_outlier(op);
}
