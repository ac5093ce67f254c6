/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A libfabric provider without network, thread or time: the operation tables that the engine calls,
 * over lists in memory. The test decides everything else, step by step:
 *
 *     the engine posts ──▶ `flying` ── fake_deliver(i) ──▶ `finished` ── fake_take(i) ──▶
 * completion `receives` ◀─ matched here ─┘ (a message without receive waits in `arrived`)
 *
 * so that messages can arrive, and completions be reported, in any order; any post can be deferred
 * or refused (`attempt`). A scripted peer (fake_peer_open) is an address without endpoint: the test
 * sends in its name and reads what the engine sent to it.
 *
 * The provider is strict where real ones crash or corrupt: it notes a violation when a limit is
 * exceeded, a registration is missing or closed while in use, memory changes between post and
 * completion, or something is closed too early or never. fake_net_free fails the test then. */
#ifndef FABT_TEST_FAKE_FABRIC_H
#define FABT_TEST_FAKE_FABRIC_H

#include "fabric.h"

enum { FAKE_SEGMENTS_MAX = 16 };

enum fake_kind { FAKE_RECEIVE, FAKE_TAGGED_RECEIVE, FAKE_SEND, FAKE_TAGGED_SEND, FAKE_WRITE };

struct fake_endpoint;
struct fake_cq;

/* Something that was posted, by an endpoint or in a scripted peer's name. */
struct fake_post {
    enum fake_kind kind;
    struct fake_endpoint *owner; /* NULL: a scripted peer */
    struct fake_cq *cq;          /* where its completion goes */
    void *context;
    uint64_t tag;
    uint32_t to; /* id of the destination */
    struct iovec iov[FAKE_SEGMENTS_MAX];
    const void *desc[FAKE_SEGMENTS_MAX]; /* the registration of each; NULL: not told */
    size_t iov_count;
    struct fi_rma_iov rma[FAKE_SEGMENTS_MAX];
    size_t rma_count;
    uint8_t *bytes; /* of a transmit: what it carried when it was posted */
    size_t len;
    size_t got;
    int status;
};

struct fake_list {
    struct fake_post **items;
    size_t count;
    size_t room;
};

struct fake_net {
    struct fake_list receives; /* posted, waiting for a message */
    struct fake_list flying;   /* transmits that have not arrived */
    struct fake_list arrived;  /* messages without a receive */
    struct fake_list finished; /* completions that nobody has read */
    struct fake_list letters;  /* messages that scripted peers received */
    uint32_t next_id;
    uint64_t next_key;
    struct fid_mr **registrations;
    size_t registrations_count;
    struct fake_endpoint **endpoints;
    size_t endpoints_count;
    unsigned open_objects;

    /* Called for each posting call before it is decided: 0 to take it, else what it returns. The
     * post is the provider's and gone afterwards if it is not taken. */
    int (*attempt)(void *argument, const struct fake_post *post);
    void *argument;
    bool cancel_ignores_transmits; /* else fi_cancel ends those that are still flying, too */
    int refuse_insert;             /* what fi_av_insert returns, if not 0 */
    int refuse_register;           /* what fi_mr_reg returns, if not 0 */

    /* Memory of a scripted peer that writes may go to. */
    uint8_t *exposed;
    uint64_t exposed_base;
    uint64_t exposed_len;
    uint64_t exposed_key;

    unsigned violations;
    char violation[160]; /* the first one */
};

struct fake_limits {
    uint32_t tx_iov;
    uint32_t rx_iov;
    uint32_t rma_iov;
    uint64_t mr_mode; /* FI_MR_* */
    const char *provider;
    uint32_t queue; /* transmits, and receives, of an endpoint */
};

/* What tcp;ofi_rxm has. */
#define FAKE_LIMITS              \
    {                            \
        4, 4, 4, 0, "fake", 2048 \
    }

struct fake_completion {
    void *context;
    size_t len;
    uint64_t tag;
    int status; /* 0 or a negative fi_errno */
};

struct fake_net *fake_net_new(void);

/* Fails the test if a rule was broken or something is still open. */
void fake_net_free(struct fake_net *net);

/* What fabric_open would give, and its end. */
void fake_fabric_open(struct fabric *fabric, struct fake_net *net,
                      const struct fake_limits *limits);
void fake_fabric_close(struct fabric *fabric);

/* Let transmit `index` of net->flying arrive; with a status other than 0 it is lost. */
void fake_deliver(struct fake_net *net, size_t index, int status);

/* Read completion `index` of net->finished. */
struct fake_completion fake_take(struct fake_net *net, size_t index);

/* Queue an error entry that belongs to no operation. */
void fake_inject_error(struct fake_net *net, struct fid_cq *cq, int status);

/* Finish a posted receive with an error. False: none is posted by that endpoint. */
bool fake_fail_receive(struct fake_net *net, struct fid_ep *ep, int status);

/* ---- scripted peers ---- */

/* A new peer's id, and the raw address that leads to it. */
uint32_t fake_peer_open(struct fake_net *net);
struct address fake_address(uint32_t id);
uint32_t fake_id(const struct address *address);

/* Send in a peer's name; untagged or tagged. It is `flying` then. */
void fake_peer_send(struct fake_net *net, uint32_t to, const void *bytes, size_t len);
void fake_peer_send_tagged(struct fake_net *net, uint32_t to, uint64_t tag, const void *bytes,
                           size_t len);

/* The oldest message that the peer has received and not read; its length, or -1 if there is none.
 * `*tag` is UINT64_MAX for an untagged one. */
ssize_t fake_peer_receive(struct fake_net *net, uint32_t id, void *bytes, size_t size,
                          uint64_t *tag);

/* Memory that writes with `key` to addresses from `base` on go to. */
void fake_peer_expose(struct fake_net *net, uint64_t key, uint64_t base, uint8_t *memory,
                      uint64_t len);

/* ---- for the provider's own parts ---- */

struct fake_domain {
    struct fid_domain fid;
    struct fake_net *net;
    const struct fake_limits *limits;
};

struct fake_mr {
    struct fid_mr fid;
    struct fake_domain *domain;
    const uint8_t *start;
    size_t len;
    uint64_t access;
    bool enabled;
};

struct fake_cq {
    struct fid_cq fid;
    struct fake_net *net;
};

struct fake_endpoint {
    struct fid_ep fid;
    struct fake_domain *domain;
    struct fake_cq *cq;
    uint32_t id;
    bool enabled;
};

void fake_violation(struct fake_net *net, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void fake_list_add(struct fake_list *list, struct fake_post *post);
struct fake_post *fake_list_remove(struct fake_list *list, size_t index);
void fake_post_free(struct fake_post *post);
struct fake_endpoint *fake_find_endpoint(const struct fake_net *net, uint32_t id);
struct fake_mr *fake_find_mr(const struct fake_net *net, const struct fake_domain *domain,
                             uint64_t key);

/* Is memory of a registration in use by a transmit or a receive? */
bool fake_in_use(const struct fake_net *net, const struct fake_mr *mr);

/* An endpoint closes: what it posted is gone. */
void fake_forget(struct fake_net *net, const struct fake_endpoint *endpoint);

extern struct fi_ops_ep fake_ep_ops;
extern struct fi_ops_msg fake_msg_ops;
extern struct fi_ops_tagged fake_tagged_ops;
extern struct fi_ops_rma fake_rma_ops;
extern struct fi_ops_cq fake_cq_ops;

#endif
