/* SPDX-License-Identifier: BSD-3-Clause */
#include "net.h"

#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* 64 receives, 64 writes, 16 control sends and the hello; sockets' queues are 256 deep. */
enum { CQ_SIZE = 256 };

static int net_failure(struct failure *f, const char *call, long error)
{
    return failure_set(f, "%s: %s (%ld)", call, fi_strerror((int)-error), error);
}

static struct fi_info *hints_new(const struct net_choice *choice)
{
    struct fi_info *hints = fi_allocinfo();

    if (hints == NULL)
        return NULL;
    hints->caps = FI_MSG | FI_TAGGED | FI_RMA | FI_READ | FI_WRITE | FI_REMOTE_READ |
                  FI_REMOTE_WRITE | FI_SEND | FI_RECV;
    hints->mode = FI_CONTEXT;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->mr_mode = FI_MR_ENDPOINT | FI_MR_PROV_KEY;
    if (choice->virt_addr)
        hints->domain_attr->mr_mode |= FI_MR_VIRT_ADDR;
    if (choice->provider != NULL)
        hints->fabric_attr->prov_name = strdup(choice->provider);
    return hints;
}

/* The provider is the first that libfabric lists; only then is it bound to the local address, since
 * an address that one provider can't have would make another one come first. */
static int choose_info(struct net *net, const struct net_choice *choice, struct failure *f)
{
    const uint32_t version = FI_VERSION(1, 13);
    struct fi_info *hints = hints_new(choice);

    if (hints == NULL)
        return failure_set(f, "out of memory");
    int rc = fi_getinfo(version, NULL, NULL, 0, hints, &net->info);
    if (rc == 0 && choice->bind != NULL && net->info->addr_format != FI_ADDR_STR) {
        if (hints->fabric_attr->prov_name == NULL)
            hints->fabric_attr->prov_name = strdup(net->info->fabric_attr->prov_name);
        hints->addr_format = FI_SOCKADDR_IN;
        fi_freeinfo(net->info);
        net->info = NULL;
        rc = fi_getinfo(version, choice->bind, NULL, FI_SOURCE, hints, &net->info);
    }
    fi_freeinfo(hints);
    return rc == 0 ? 0 : net_failure(f, "fi_getinfo", rc);
}

int net_open(struct net *net, const struct net_choice *choice, struct failure *f)
{
    if (choose_info(net, choice, f) < 0)
        return -1;
    /* Manual progress also where automatic is on offer: nothing here sleeps. */
    net->info->domain_attr->data_progress = FI_PROGRESS_MANUAL;
    int rc = fi_fabric(net->info->fabric_attr, &net->fabric, NULL);
    if (rc != 0)
        return net_failure(f, "fi_fabric", rc);
    rc = fi_domain(net->fabric, net->info, &net->domain, NULL);
    if (rc != 0)
        return net_failure(f, "fi_domain", rc);
    struct fi_av_attr attr = {.type = FI_AV_TABLE};
    rc = fi_av_open(net->domain, &attr, &net->av, NULL);
    net->next_key = 1;
    return rc == 0 ? 0 : net_failure(f, "fi_av_open", rc);
}

void net_close(struct net *net)
{
    if (net->av != NULL)
        fi_close(&net->av->fid);
    if (net->domain != NULL)
        fi_close(&net->domain->fid);
    if (net->fabric != NULL)
        fi_close(&net->fabric->fid);
    if (net->info != NULL)
        fi_freeinfo(net->info);
    memset(net, 0, sizeof(*net));
}

int port_open(struct port *port, struct net *net, int number, struct failure *f)
{
    struct fi_cq_attr attr = {.size = CQ_SIZE, .format = FI_CQ_FORMAT_TAGGED};

    *port = (struct port){.net = net, .peer = FI_ADDR_UNSPEC, .number = number};
    int rc = fi_cq_open(net->domain, &attr, &port->cq, NULL);
    if (rc != 0)
        return net_failure(f, "fi_cq_open", rc);
    rc = fi_endpoint(net->domain, net->info, &port->ep, NULL);
    if (rc != 0)
        return net_failure(f, "fi_endpoint", rc);
    rc = fi_ep_bind(port->ep, &port->cq->fid, FI_TRANSMIT | FI_RECV);
    if (rc != 0)
        return net_failure(f, "fi_ep_bind(cq)", rc);
    rc = fi_ep_bind(port->ep, &net->av->fid, 0);
    if (rc != 0)
        return net_failure(f, "fi_ep_bind(av)", rc);
    rc = fi_enable(port->ep);
    return rc == 0 ? 0 : net_failure(f, "fi_enable", rc);
}

/* In this order: a queue closed before its endpoint is busy, and leaks. */
void port_close(struct port *port)
{
    if (port->ep != NULL)
        fi_close(&port->ep->fid);
    while (port->nregions > 0)
        fi_close(&port->regions[--port->nregions]->fid);
    if (port->cq != NULL)
        fi_close(&port->cq->fid);
    port->ep = NULL;
    port->cq = NULL;
}

int port_name(const struct port *port, uint8_t *addr, size_t *len, struct failure *f)
{
    int rc = fi_getname(&port->ep->fid, addr, len);
    return rc == 0 ? 0 : net_failure(f, "fi_getname", rc);
}

int port_connect(struct port *port, const uint8_t *addr, size_t len, struct failure *f)
{
    uint8_t copy[1024] = {0}; /* providers read a whole address of theirs, however short it came */

    if (len > sizeof(copy) / 2)
        return failure_set(f, "a peer's address of %zu bytes", len);
    memcpy(copy, addr, len);
    int rc = fi_av_insert(port->net->av, copy, 1, &port->peer, 0, NULL);
    return rc == 1 ? 0 : failure_set(f, "fi_av_insert refused the peer's address (%d)", rc);
}

static void dump_transfer(const struct port *port, const struct transfer *t, char direction,
                          size_t len)
{
    char title[96];
    char tag[24] = "untagged";

    if (t->tagged)
        snprintf(tag, sizeof(tag), "tag %llu", (unsigned long long)t->tag);
    snprintf(title, sizeof(title), "session %d %c %s, %s", port->number, direction, t->what, tag);
    text_dump(title, t->buf, len);
}

static int read_error(struct port *port, struct failure *f)
{
    struct fi_cq_err_entry error;
    char text[128] = "";

    memset(&error, 0, sizeof(error)); /* err_data_size is an input */
    ssize_t rc = fi_cq_readerr(port->cq, &error, 0);
    if (rc == -FI_EAGAIN)
        return 0;
    if (rc < 0)
        return net_failure(f, "fi_cq_readerr", rc);
    const struct transfer *t = error.op_context;
    return failure_set(
        f, "%s%s%s failed: %s; provider error %d, %s", t == NULL ? "" : t->what,
        t != NULL && t->tagged ? " (tagged)" : "", t == NULL ? "something" : "",
        fi_strerror(error.err), error.prov_errno,
        fi_cq_strerror(port->cq, error.prov_errno, error.err_data, text, sizeof(text)));
}

int port_poll(struct port *port, struct failure *f)
{
    struct fi_cq_tagged_entry entries[32];
    ssize_t n = fi_cq_read(port->cq, entries, sizeof(entries) / sizeof(entries[0]));

    if (n == -FI_EAGAIN)
        return 0;
    if (n == -FI_EAVAIL)
        return read_error(port, f);
    if (n < 0)
        return net_failure(f, "fi_cq_read", n);
    for (ssize_t i = 0; i < n; i++) {
        struct transfer *t = entries[i].op_context;
        if (t == NULL)
            continue;
        t->state = TRANSFER_DONE;
        t->len = entries[i].len;
        if (port->net->dump && (entries[i].flags & FI_RECV))
            dump_transfer(port, t, '<', t->len);
    }
    return (int)n;
}

int port_register(struct port *port, void *buf, size_t len, uint64_t access, struct fid_mr **mr,
                  struct failure *f)
{
    struct net *net = port->net;
    const int mode = net->info->domain_attr->mr_mode;
    uint64_t key = mode & FI_MR_PROV_KEY ? 0 : net->next_key++;

    int rc = fi_mr_reg(net->domain, buf, len, access, 0, key, 0, mr, NULL);
    if (rc != 0)
        return net_failure(f, "fi_mr_reg", rc);
    port->regions[port->nregions++] = *mr;
    if (!(mode & FI_MR_ENDPOINT))
        return 0;
    rc = fi_mr_bind(*mr, &port->ep->fid, 0);
    if (rc == 0)
        rc = fi_mr_enable(*mr);
    return rc == 0 ? 0 : net_failure(f, "fi_mr_enable", rc);
}

static int posted(struct port *port, struct transfer *t, long rc, const char *call, size_t sent,
                  struct failure *f)
{
    if (rc == -FI_EAGAIN)
        return 0;
    if (rc != 0)
        return net_failure(f, call, rc);
    t->state = TRANSFER_POSTED;
    if (sent > 0 && port->net->dump)
        dump_transfer(port, t, '>', sent);
    return 1;
}

int port_recv(struct port *port, struct transfer *t, void *buf, size_t len, struct failure *f)
{
    t->buf = buf;
    return posted(port, t, fi_recv(port->ep, buf, len, NULL, FI_ADDR_UNSPEC, t), "fi_recv", 0, f);
}

int port_send(struct port *port, struct transfer *t, const void *buf, size_t len, struct failure *f)
{
    t->buf = buf;
    return posted(port, t, fi_send(port->ep, buf, len, NULL, port->peer, t), "fi_send", len, f);
}

int port_send_insist(struct port *port, struct transfer *t, const void *buf, size_t len,
                     struct failure *f)
{
    int rc;

    while ((rc = port_send(port, t, buf, len, f)) == 0)
        if (port_poll(port, f) < 0)
            return -1;
    return rc;
}

int port_recv_tagged(struct port *port, struct transfer *t, void *buf, size_t len, uint64_t tag,
                     struct failure *f)
{
    t->buf = buf;
    t->tag = tag;
    t->tagged = true;
    return posted(port, t, fi_trecv(port->ep, buf, len, NULL, FI_ADDR_UNSPEC, tag, 0, t),
                  "fi_trecv", 0, f);
}

int port_send_tagged(struct port *port, struct transfer *t, const void *buf, size_t len,
                     uint64_t tag, struct failure *f)
{
    t->buf = buf;
    t->tag = tag;
    t->tagged = true;
    return posted(port, t, fi_tsend(port->ep, buf, len, NULL, port->peer, tag, t), "fi_tsend", len,
                  f);
}

int port_write(struct port *port, struct transfer *t, struct fi_msg_rma *msg, struct failure *f)
{
    msg->addr = port->peer;
    msg->context = t;
    return posted(port, t, fi_writemsg(port->ep, msg, FI_COMPLETION | FI_DELIVERY_COMPLETE),
                  "fi_writemsg", 0, f);
}
