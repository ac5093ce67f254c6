/* SPDX-License-Identifier: BSD-3-Clause */
/* libfabric, reduced to what one polling thread needs: ports (an endpoint with its own completion
 * queue), and transfers whose state is looked at, not called back.
 */
#ifndef PEER_NET_H
#define PEER_NET_H

#include "text.h"

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_rma.h>

enum transfer_state { TRANSFER_IDLE, TRANSFER_POSTED, TRANSFER_DONE };

struct transfer {
    struct fi_context2 context; /* first: the provider hands this address back, and uses it */
    enum transfer_state state;
    size_t len; /* bytes that a completed receive brought */
    const void *buf;
    const char *what; /* for dumps and failures */
    uint64_t tag;
    bool tagged;
};

struct net_choice {
    const char *provider; /* NULL: the first that libfabric lists */
    const char *bind;     /* local address, or NULL */
    bool virt_addr;       /* offer FI_MR_VIRT_ADDR to the provider */
};

struct net {
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_av *av;
    uint64_t next_key;
    bool dump;
};

enum { PORT_REGIONS_MAX = 4 };

struct port {
    struct net *net;
    struct fid_mr *regions[PORT_REGIONS_MAX];
    unsigned nregions;
    struct fid_ep *ep;
    struct fid_cq *cq;
    fi_addr_t peer;
    int number; /* session, or -1 for the listening endpoint: for dumps */
};

int net_open(struct net *net, const struct net_choice *choice, struct failure *f);
void net_close(struct net *net);

int port_open(struct port *port, struct net *net, int number, struct failure *f);
void port_close(struct port *port);

/* The raw name; *len is the room on entry and the bytes in use on return. */
int port_name(const struct port *port, uint8_t *addr, size_t *len, struct failure *f);

/* From now on the port sends to the endpoint of that raw name. */
int port_connect(struct port *port, const uint8_t *addr, size_t len, struct failure *f);

/* Reads what has completed. Returns how many transfers did, or -1. */
int port_poll(struct port *port, struct failure *f);

/* The region belongs to the port and lasts until it is closed. */
int port_register(struct port *port, void *buf, size_t len, uint64_t access, struct fid_mr **mr,
                  struct failure *f);

/* Sends once more and more until the provider takes it: for messages that a quirk has spoiled. */
int port_send_insist(struct port *port, struct transfer *t, const void *buf, size_t len,
                     struct failure *f);

/* Each returns 1 when posted, 0 when the provider said "again", -1 on failure. */
int port_recv(struct port *port, struct transfer *t, void *buf, size_t len, struct failure *f);
int port_send(struct port *port, struct transfer *t, const void *buf, size_t len,
              struct failure *f);
int port_recv_tagged(struct port *port, struct transfer *t, void *buf, size_t len, uint64_t tag,
                     struct failure *f);
int port_send_tagged(struct port *port, struct transfer *t, const void *buf, size_t len,
                     uint64_t tag, struct failure *f);
int port_write(struct port *port, struct transfer *t, struct fi_msg_rma *msg, struct failure *f);

#endif
