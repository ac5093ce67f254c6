/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Endpoints and operations.
 *
 * An operation is something posted to an endpoint: it gets a number (1, 2, ... an endpoint), is
 * posted (or deferred by the provider and posted later), and completes, is cancelled, or is
 * abandoned when the endpoint closes. Its first member is the context that libfabric hands back, so
 * a completion leads straight to its operation. All that an operation points to must live until
 * its endpoint's completion queue is closed: providers flush late.
 *
 * The events op_post, op_defer, op_complete and op_abandon are written here and nowhere else.
 */
#ifndef FABT_OP_H
#define FABT_OP_H

#include <stddef.h>

#include "fabric.h"
#include "trace.h"

enum op_state { OP_IDLE, OP_WAITING, OP_POSTED, OP_DONE };

struct endpoint;

struct op {
    struct fi_context2 context; /* first, see above */
    struct endpoint *endpoint;
    struct op *next, *previous; /* posted operations of the endpoint */
    uint64_t number;
    uint64_t post_ns; /* when the posting call began */
    uint64_t complete_ns;
    uint64_t payload;  /* bytes of payload it accounts for */
    uint64_t position; /* see event op_post */
    uint64_t tag_or_key;
    uint32_t len; /* bytes to transfer; of a receive: room */
    uint32_t got; /* bytes transferred */
    uint8_t kind; /* enum fabt_kind */
    uint8_t nsegs;
    uint8_t state; /* enum op_state */
    bool deferred;
    bool cancelled;
    int status; /* 0 or a negative fi_errno */
};

/* An operation's fate, for counting. */
struct op_counts {
    uint64_t posted;
    uint64_t completed;
    uint64_t deferred; /* operations that the provider deferred at least once */
    uint64_t out_of_order;
    uint64_t call_ns; /* in posting calls, also those in vain, while somebody records it */
};

struct endpoint {
    struct fid_ep *ep;
    struct domain *domain;
    struct address address;
    uint32_t session; /* number in traces; ENDPOINT_LISTENING for the listening endpoint */
    uint64_t next_number;
    uint64_t outlier_ns; /* sends and writes that take longer are told of; UINT64_MAX: none */
    struct op posted;    /* head of the circular list of posted operations, oldest first */
    uint32_t outstanding;
    struct op_counts counts;
    bool closed;
};

#define ENDPOINT_LISTENING UINT32_MAX

/* Open and enable an endpoint of the calling thread's domain whose completions go to `cq`. */
int endpoint_open(struct endpoint *endpoint, struct domain *domain, struct fid_cq *cq,
                  uint32_t session, struct failure *failure);

/* Ask the provider to cancel all that is posted. */
void endpoint_cancel(struct endpoint *endpoint);

/* Forget what is still posted, with an event each; completions that still come are strays. */
void endpoint_abandon(struct endpoint *endpoint);

/* Abandon what is posted, and close. Returns what leaked. */
unsigned endpoint_close(struct endpoint *endpoint);

/* Where a payload or message lies, for the posting calls. */
struct op_memory {
    const struct iovec *iov;
    void **desc; /* an array, or NULL where none are needed */
    size_t count;
};

/* The posting calls: 0 when the provider took the operation, -FI_EAGAIN when it is deferred (call
 * again after reading the completion queue), another negative fi_errno when it failed. */
int op_post_receive(struct op *op, const struct op_memory *memory);
int op_post_tagged_receive(struct op *op, const struct op_memory *memory, uint64_t tag);
int op_post_send(struct op *op, const struct op_memory *memory, fi_addr_t peer);
int op_post_tagged_send(struct op *op, const struct op_memory *memory, fi_addr_t peer,
                        uint64_t tag);
int op_post_write(struct op *op, const struct op_memory *memory, fi_addr_t peer,
                  const struct fi_rma_iov *rma, size_t rma_count);

/* Prepare an operation for its next use: a new number, nothing known of its fate. */
void op_renew(struct op *op, struct endpoint *endpoint, uint8_t kind);

/* Mark a posted operation complete. `status`: 0 or a negative fi_errno. The owner may then look
 * into what arrived, and must call op_traced_complete. */
void op_complete(struct op *op, uint64_t now, size_t got, int status);

/* Write op_complete's event; `earlier_pending` as there. */
void op_traced_complete(struct op *op, uint32_t earlier_pending);

static inline bool op_done(const struct op *op)
{
    return op->state == OP_DONE;
}

#endif
