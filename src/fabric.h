/* SPDX-License-Identifier: BSD-3-Clause
 *
 * libfabric's objects above endpoints.
 *
 * A process has one `struct fabric`: the chosen provider and its limits; nothing in it changes
 * after fabric_open. Each thread that owns endpoints has a `struct domain` of its own: libfabric's
 * fabric object, domain and address vector, so that threads share no libfabric object that is ever
 * written to. (Providers promise FI_THREAD_SAFE and do not all keep it: shm 1.17 does not when
 * endpoints come and go. And net 1.17 keeps its sockets in the fabric object, under a lock: a
 * thread that polls moves all threads' payload, while they wait.) */
#ifndef FABT_FABRIC_H
#define FABT_FABRIC_H

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "address.h"
#include "failure.h"
#include "wire.h"

enum { FABRIC_SEGMENTS_MAX = 12 }; /* most segments the engine ever gives to one operation */

struct fabric_request {
    const char *provider;       /* or NULL: FI_PROVIDER, else the first that fits */
    const char *bind;           /* local address, or NULL */
    const struct address *peer; /* put: lets the provider choose the interface; or NULL */
    bool wait;                  /* completion queues should have a wait descriptor */
};

struct fabric {
    struct fi_info *hints;
    struct fi_info *info;
    uint32_t infos;        /* entries that fi_getinfo returned */
    uint32_t tx_iov_limit; /* each at least 1, at most FABRIC_SEGMENTS_MAX */
    uint32_t rx_iov_limit;
    uint32_t rma_iov_limit;
    uint32_t tx_size; /* transmits and receives that an endpoint queues; 0: not known */
    uint32_t rx_size;
    uint32_t
        peers_max; /* that an endpoint, or an address vector, has room for; 0: no limit known */
    uint64_t mr_mode;
    uint64_t hello_flags; /* of the handshake's sends */
    bool shm;             /* the provider is shm */
};

struct domain {
    const struct fabric *fabric;
    struct fid_fabric *root;
    struct fid_domain *domain;
    struct fid_av *av;
    uint64_t next_key; /* where the application chooses the keys of registrations */
};

/* Choose the provider. On failure nothing is left. */
int fabric_open(struct fabric *fabric, const struct fabric_request *request,
                struct failure *failure);

/* Forget it; all domains must be closed already. */
void fabric_close(struct fabric *fabric);

/* Open a fabric object, a domain and an address vector for about `peers` addresses. On failure
 * nothing is left. */
int domain_open(struct domain *domain, const struct fabric *fabric, uint32_t peers,
                struct failure *failure);

/* Close it; endpoints, registrations and queues must be closed already. Returns what leaked. */
unsigned domain_close(struct domain *domain);

/* Insert a peer's raw address. 0 or a negative fi_errno with a failure. */
int domain_insert(struct domain *domain, const struct address *address, fi_addr_t *peer,
                  struct failure *failure);

/* A peer's address as the provider writes it ("fi_sockaddr_in://127.0.0.1:4711"). */
void domain_format(const struct domain *domain, const struct address *address, char *text,
                   size_t size);

/* Register memory for an endpoint; `access` is FI_SEND, FI_RECV, FI_WRITE or FI_REMOTE_WRITE. */
int domain_register(struct domain *domain, struct fid_ep *ep, void *data, size_t len,
                    uint64_t access, struct fid_mr **mr, struct failure *failure);

/* Must local buffers be registered? */
static inline bool fabric_needs_local(const struct fabric *fabric)
{
    return (fabric->mr_mode & FI_MR_LOCAL) != 0;
}

/* How many writes to have posted at most, of `depth`: sends must find a place besides them. */
static inline uint32_t fabric_writes_limit(const struct fabric *fabric, uint32_t depth)
{
    const uint32_t sends = WIRE_CONTROL_QUEUE + 1;
    const uint32_t room = fabric->tx_size > sends ? fabric->tx_size - sends : 1;

    return fabric->tx_size == 0 || depth < room ? depth : room;
}

/* How many of the receives for control messages to have posted at most: one more is for the
 * acknowledgement. */
static inline uint32_t fabric_receives_limit(const struct fabric *fabric)
{
    const uint32_t room = fabric->rx_size > 1 ? fabric->rx_size - 1 : 1;

    return fabric->rx_size == 0 || room > WIRE_TAGS ? WIRE_TAGS : room;
}

/* Report a libfabric object that could not be closed, as event and as return value (0 or 1). */
unsigned fabric_close_object(struct fid *fid, const char *what, int32_t session);

#endif
