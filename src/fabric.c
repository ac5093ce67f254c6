/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "mr_mode.h"
#include "trace.h"

#define API_VERSION FI_VERSION(1, 13)

/* A shm endpoint has room for so many peers, those that sent to it included, and so has an address
 * vector (SMR_MAX_PEERS in libfabric's sources, 1.17 to 2.1). */
#define SHM_PEERS_MAX 256

#define CAPABILITIES                                                                         \
    (FI_MSG | FI_TAGGED | FI_RMA | FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | \
     FI_REMOTE_WRITE)

/* Hints that both ends, and peers in the field, use to arrive at the same provider. */
static struct fi_info *selection_hints(const char *provider, struct failure *failure)
{
    struct fi_info *hints = fi_allocinfo();

    if (hints != NULL && provider != NULL) {
        hints->fabric_attr->prov_name = strdup(provider);
        if (hints->fabric_attr->prov_name == NULL) {
            fi_freeinfo(hints);
            hints = NULL;
        }
    }
    if (hints == NULL) {
        failure_set(failure, -ENOMEM, "no memory for fi_info");
        return NULL;
    }
    hints->ep_attr->type = FI_EP_RDM;
    hints->caps = CAPABILITIES;
    hints->mode = FI_CONTEXT;
    hints->domain_attr->mr_mode = FI_MR_ENDPOINT | FI_MR_PROV_KEY;
    return hints;
}

/* Is a name or address one of this host's? fi_getinfo would quietly take another one. */
static int check_bind(const char *bind_name, struct failure *failure)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_DGRAM};
    struct addrinfo *results = NULL;
    bool local = false;
    const int rc = getaddrinfo(bind_name, NULL, &hints, &results);

    if (rc != 0)
        return failure_set_usage(failure, "--bind: '%.60s' is no address or host name: %s",
                                 bind_name, gai_strerror(rc));
    for (const struct addrinfo *i = results; i != NULL && !local; i = i->ai_next) {
        const int fd = socket(i->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

        local = fd >= 0 && bind(fd, i->ai_addr, i->ai_addrlen) == 0;
        if (fd >= 0)
            close(fd);
    }
    freeaddrinfo(results);
    if (!local)
        return failure_set_usage(
            failure, "--bind: '%.60s' is not an address of this host (see 'ip address')",
            bind_name);
    return 0;
}

/* Is it text, up to its first NUL? */
static bool printable(const uint8_t *text, size_t len)
{
    for (size_t i = 0; i < len && text[i] != '\0'; i++) {
        if (text[i] < ' ' || text[i] > '~')
            return false;
    }
    return true;
}

/* Are a peer's addresses and this provider's of one kind? */
static int check_peer(const struct fi_info *info, const struct address *peer,
                      struct failure *failure)
{
    sa_family_t family = AF_UNSPEC;
    size_t len;

    switch (info->addr_format) {
    case FI_ADDR_STR:
        if (strnlen((const char *)peer->raw, peer->len) > 0 && printable(peer->raw, peer->len))
            return 0;
        len = 0;
        break;
    case FI_SOCKADDR_IN:
        len = sizeof(struct sockaddr_in);
        break;
    case FI_SOCKADDR_IN6:
        len = sizeof(struct sockaddr_in6);
        break;
    default:
        return 0;
    }
    if (peer->len >= sizeof(family))
        memcpy(&family, peer->raw, sizeof(family));
    if (peer->len == len && (family == AF_INET || family == AF_INET6))
        return 0;
    return failure_set(failure, -FI_EADDRNOTAVAIL,
                       "the address is none of provider %.40s: give the line that fabtget printed, "
                       "and the same --provider on both sides",
                       info->fabric_attr->prov_name);
}

/* fi_getinfo takes a local address as node and FI_SOURCE. */
static int get_info(const struct fabric_request *request, struct fi_info *hints,
                    struct fi_info **info)
{
    const uint64_t flags = request->bind != NULL ? FI_SOURCE : 0;
    int rc = fi_getinfo(API_VERSION, request->bind, NULL, flags, hints, info);

    /* Where addresses are strings (shm), a local address would become the name of every endpoint.
     */
    if (rc == 0 && request->bind != NULL && (*info)->addr_format == FI_ADDR_STR) {
        fi_freeinfo(*info);
        rc = fi_getinfo(API_VERSION, NULL, NULL, 0, hints, info);
    }
    return rc;
}

/* The names of the providers that would do, with commas: "" if there are none. */
static void offered_names(const struct fabric_request *request, char *names, size_t size)
{
    const struct fabric_request any = {.bind = request->bind};
    struct failure ignored = {0};
    struct fi_info *hints = selection_hints(NULL, &ignored), *offered = NULL;
    size_t used = 0;

    names[0] = '\0';
    if (hints != NULL && get_info(&any, hints, &offered) != 0)
        offered = NULL;
    for (const struct fi_info *i = offered, *last = NULL; i != NULL; last = i, i = i->next) {
        const char *name = i->fabric_attr->prov_name;

        /* The interfaces of a provider follow each other. */
        if (last != NULL && strcmp(last->fabric_attr->prov_name, name) == 0)
            continue;
        if (used + strlen(name) + 3 > size)
            break;
        used += (size_t)snprintf(names + used, size - used, "%s%s", used == 0 ? "" : ", ", name);
    }
    fi_freeinfo(offered);
    fi_freeinfo(hints);
}

static int no_provider(const struct fabric_request *request, int rc, struct failure *failure)
{
    const char *environment = getenv("FI_PROVIDER");
    const char *name = request->provider != NULL ? request->provider : environment;
    char offered[96];

    if (rc != -FI_ENODATA)
        return failure_set(failure, rc, "fi_getinfo: %s", fi_strerror(-rc));
    offered_names(request, offered, sizeof(offered));
    return failure_set(
        failure, rc,
        "no libfabric provider%s%.40s has reliable datagrams with messages, tags and RDMA "
        "writes%s%.60s; offered: %s (see fi_info -l): choose with --provider%s%s",
        name == NULL ? "" : " called ", name == NULL ? "" : name,
        request->bind == NULL ? "" : " at ", request->bind == NULL ? "" : request->bind,
        offered[0] == '\0' ? "none" : offered, request->bind == NULL ? "" : " and --bind",
        name != NULL && strcmp(name, "shm") == 0 ? ". shm needs room in /dev/shm" : "");
}

/* Do two socket addresses name the same host, whatever the port? */
static bool same_host(const struct sockaddr *a, const struct sockaddr *b)
{
    if (a->sa_family != b->sa_family)
        return false;
    if (a->sa_family == AF_INET)
        return ((const struct sockaddr_in *)a)->sin_addr.s_addr ==
               ((const struct sockaddr_in *)b)->sin_addr.s_addr;
    return a->sa_family == AF_INET6 &&
           memcmp(&((const struct sockaddr_in6 *)a)->sin6_addr,
                  &((const struct sockaddr_in6 *)b)->sin6_addr, sizeof(struct in6_addr)) == 0;
}

/* The local address that the kernel routes from towards a peer; connecting a datagram socket sends
 * nothing. False: the peer's raw address is no socket address, or there is no route. */
static bool route_source(const struct address *peer, struct sockaddr_storage *source)
{
    struct sockaddr_storage target = {0};
    socklen_t len = sizeof(*source);
    bool found;
    int fd;

    if (peer->len < sizeof(struct sockaddr_in) || peer->len > sizeof(target))
        return false;
    memcpy(&target, peer->raw, peer->len);
    if (target.ss_family != AF_INET && target.ss_family != AF_INET6)
        return false;
    fd = socket(target.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return false;
    found = connect(fd, (const struct sockaddr *)&target, (socklen_t)peer->len) == 0 &&
            getsockname(fd, (struct sockaddr *)source, &len) == 0;
    close(fd);
    return found;
}

/* The provider lists an fi_info an interface; put the one that leads to the peer first. */
static void prefer_route(struct fabric *fabric, const struct address *peer)
{
    struct sockaddr_storage source = {0};
    struct fi_info *best;

    if (!route_source(peer, &source))
        return;
    for (const struct fi_info *i = fabric->info; i != NULL; i = i->next) {
        if (i->src_addr == NULL || i->addr_format == FI_ADDR_STR ||
            !same_host(i->src_addr, (const struct sockaddr *)&source))
            continue;
        best = fi_dupinfo(i);
        if (best == NULL)
            return;
        fi_freeinfo(fabric->info);
        fabric->info = best;
        return;
    }
}

/* What is to be asked for beyond CAPABILITIES. At each address that is inserted, ofi_rxm (seen in
 * libfabric 2.1) looks into the connections of all messages that wait, unexpected, at any endpoint
 * of the address vector; but it only knows them if sources or directed receives are asked for, and
 * crashes otherwise. Several sessions on a worker are enough for that. */
static uint64_t more_capabilities(const char *provider)
{
    const bool affected = FI_VERSION_GE(fi_version(), FI_VERSION(1, 18));

    return affected && strstr(provider, "ofi_rxm") != NULL ? FI_SOURCE : 0;
}

/* Choose a provider by the rule that all peers share, then ask for whatever more it offers. */
static int choose(struct fabric *fabric, const struct fabric_request *request,
                  struct failure *failure)
{
    struct fi_info *hints = selection_hints(request->provider, failure);
    struct fi_info *first = NULL;
    uint64_t modes;
    bool modes_given;
    int rc;

    if (hints == NULL)
        return failure->code;
    if (mr_mode_offered(&modes, &modes_given, failure) != 0) {
        fi_freeinfo(hints);
        return failure->code;
    }
    if (request->bind != NULL && check_bind(request->bind, failure) != 0) {
        fi_freeinfo(hints);
        return failure->code;
    }
    rc = get_info(request, hints, &first);
    if (rc == -FI_ENODATA && (request->provider != NULL || getenv("FI_PROVIDER") != NULL)) {
        /* A provider chosen by name may need modes that the common rule leaves out. */
        hints->mode = FI_CONTEXT | FI_CONTEXT2;
        hints->domain_attr->mr_mode = MR_MODES;
        rc = get_info(request, hints, &first);
    }
    if (rc != 0) {
        fi_freeinfo(hints);
        return no_provider(request, rc, failure);
    }
    free(hints->fabric_attr->prov_name);
    hints->fabric_attr->prov_name = strdup(first->fabric_attr->prov_name);
    hints->caps |= more_capabilities(first->fabric_attr->prov_name);
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->domain_attr->mr_mode = (int)modes;
    /* Each thread has a domain of its own. */
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    /* The engine reads its queues all the time unless it sleeps: an automatic-progress thread would
     * only compete with it. Sleepers need one where the provider has no other way to be woken. */
    hints->domain_attr->data_progress = request->wait ? FI_PROGRESS_UNSPEC : FI_PROGRESS_MANUAL;
    rc = get_info(request, hints, &fabric->info);
    fabric->hints = hints;
    if (rc == 0) {
        fi_freeinfo(first);
    } else if (modes_given) {
        fi_freeinfo(first);
        return failure_set(failure, rc,
                           "FABT_MR_MODE: provider %.40s needs other registration modes: see "
                           "'mr_mode' of 'fi_info -v'",
                           hints->fabric_attr->prov_name);
    } else {
        fabric->info = first;
    }
    for (const struct fi_info *i = fabric->info; i != NULL; i = i->next)
        fabric->infos++;
    if (request->peer != NULL && request->bind == NULL)
        prefer_route(fabric, request->peer);
    return request->peer == NULL ? 0 : check_peer(fabric->info, request->peer, failure);
}

static uint32_t clamp_limit(size_t limit)
{
    if (limit == 0)
        return 1;
    return limit < FABRIC_SEGMENTS_MAX ? (uint32_t)limit : FABRIC_SEGMENTS_MAX;
}

int fabric_open(struct fabric *fabric, const struct fabric_request *request,
                struct failure *failure)
{
    int rc;

    memset(fabric, 0, sizeof(*fabric));
    rc = choose(fabric, request, failure);
    if (rc != 0) {
        fabric_close(fabric);
        return rc;
    }
    fabric->tx_iov_limit = clamp_limit(fabric->info->tx_attr->iov_limit);
    fabric->rx_iov_limit = clamp_limit(fabric->info->rx_attr->iov_limit);
    fabric->rma_iov_limit = clamp_limit(fabric->info->tx_attr->rma_iov_limit);
    fabric->tx_size = (uint32_t)(fabric->info->tx_attr->size & UINT32_MAX);
    fabric->rx_size = (uint32_t)(fabric->info->rx_attr->size & UINT32_MAX);
    fabric->mr_mode = (uint64_t)(unsigned)fabric->info->domain_attr->mr_mode;
    fabric->shm = strcmp(fabric->info->fabric_attr->prov_name, "shm") == 0;
    fabric->peers_max = fabric->shm ? SHM_PEERS_MAX : 0;
    /* The first message makes a shm peer map our region by its name, and an older peer crashes if
     * the region is gone by then (shm_spare.h). So the send must not complete before the peer has
     * read it: an endpoint waits for its sends before it closes. */
    fabric->hello_flags = FI_COMPLETION | (fabric->shm ? FI_DELIVERY_COMPLETE : 0);
    return 0;
}

unsigned fabric_close_object(struct fid *fid, const char *what, int32_t session)
{
    const int rc = fid == NULL ? 0 : fi_close(fid);

    if (rc == 0)
        return 0;
    FABT_TRACE(leak, .session = session, .code = rc, .what = what);
    return 1;
}

void fabric_close(struct fabric *fabric)
{
    fi_freeinfo(fabric->info);
    fi_freeinfo(fabric->hints);
    memset(fabric, 0, sizeof(*fabric));
}

static int open_failed(struct domain *domain, const char *call, int rc, struct failure *failure)
{
    domain_close(domain);
    return failure_set(failure, rc, "%s (%s): %s", call,
                       domain->fabric->info->fabric_attr->prov_name, fi_strerror(-rc));
}

int domain_open(struct domain *domain, const struct fabric *fabric, uint32_t peers,
                struct failure *failure)
{
    const uint32_t most = fabric->peers_max;
    struct fi_av_attr av_attr = {.type = FI_AV_UNSPEC,
                                 .count = most != 0 && peers > most ? most : peers};
    int rc;

    *domain = (struct domain){.fabric = fabric, .next_key = 1};
    rc = fi_fabric(fabric->info->fabric_attr, &domain->root, NULL);
    if (rc != 0)
        return open_failed(domain, "fi_fabric", rc, failure);
    rc = fi_domain(domain->root, fabric->info, &domain->domain, NULL);
    if (rc != 0)
        return open_failed(domain, "fi_domain", rc, failure);
    rc = fi_av_open(domain->domain, &av_attr, &domain->av, NULL);
    if (rc != 0)
        return open_failed(domain, "fi_av_open", rc, failure);
    return 0;
}

unsigned domain_close(struct domain *domain)
{
    unsigned leaks = 0;

    leaks += fabric_close_object(domain->av ? &domain->av->fid : NULL, "address vector", -1);
    leaks += fabric_close_object(domain->domain ? &domain->domain->fid : NULL, "domain", -1);
    leaks += fabric_close_object(domain->root ? &domain->root->fid : NULL, "fabric", -1);
    domain->av = NULL;
    domain->domain = NULL;
    domain->root = NULL;
    return leaks;
}

int domain_insert(struct domain *domain, const struct address *address, fi_addr_t *peer,
                  struct failure *failure)
{
    uint8_t raw[ADDRESS_MAX + 1] = {0}; /* string addresses end with a NUL: make sure of it */
    fi_addr_t inserted = FI_ADDR_UNSPEC;
    int rc;

    memcpy(raw, address->raw, address->len);
    rc = fi_av_insert(domain->av, raw, 1, &inserted, 0, NULL);
    if (rc != 1)
        return failure_set(failure, rc < 0 ? rc : -FI_EADDRNOTAVAIL,
                           "the provider (%s) does not take the peer's address of %zu bytes",
                           domain->fabric->info->fabric_attr->prov_name, address->len);
    *peer = inserted;
    return 0;
}

void domain_format(const struct domain *domain, const struct address *address, char *text,
                   size_t size)
{
    uint8_t raw[ADDRESS_MAX + 1] = {0};
    size_t len = size;

    memcpy(raw, address->raw, address->len);
    text[0] = '\0';
    if (domain->av == NULL || fi_av_straddr(domain->av, raw, text, &len) == NULL)
        text[0] = '\0';
    text[size - 1] = '\0';
}

int domain_register(struct domain *domain, struct fid_ep *ep, void *data, size_t len,
                    uint64_t access, struct fid_mr **mr, struct failure *failure)
{
    const uint64_t modes = domain->fabric->mr_mode;
    const uint64_t key = (modes & FI_MR_PROV_KEY) != 0 ? 0 : domain->next_key++;
    struct fid_mr *registered = NULL;
    int rc = fi_mr_reg(domain->domain, data, len, access, 0, key, 0, &registered, NULL);

    if (rc == 0 && (modes & FI_MR_ENDPOINT) != 0) {
        rc = fi_mr_bind(registered, &ep->fid, 0);
        if (rc == 0)
            rc = fi_mr_enable(registered);
        if (rc != 0)
            fabric_close_object(&registered->fid, "memory region", -1);
    }
    if (rc != 0)
        return failure_set(failure, rc, "cannot register %zu bytes: %s", len, fi_strerror(-rc));
    *mr = registered;
    return 0;
}
