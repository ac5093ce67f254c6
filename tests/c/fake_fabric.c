/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The fake provider's objects: what is opened, registered, bound and closed. */
#include "harness.h"

#include "fake_fabric.h"

/* ---- rules and lists ---- */

void fake_violation(struct fake_net *net, const char *format, ...)
{
    va_list args;

    if (net->violations++ > 0)
        return;
    va_start(args, format);
    vsnprintf(net->violation, sizeof(net->violation), format, args);
    va_end(args);
}

void fake_list_add(struct fake_list *list, struct fake_post *post)
{
    if (list->count == list->room) {
        list->room = list->room == 0 ? 64 : 2 * list->room;
        list->items = realloc(list->items, list->room * sizeof(list->items[0]));
        assert_non_null(list->items);
    }
    list->items[list->count++] = post;
}

struct fake_post *fake_list_remove(struct fake_list *list, size_t index)
{
    struct fake_post *post = list->items[index];

    assert_true(index < list->count);
    list->count--;
    memmove(&list->items[index], &list->items[index + 1],
            (list->count - index) * sizeof(list->items[0]));
    return post;
}

void fake_post_free(struct fake_post *post)
{
    free(post->bytes);
    free(post);
}

static void free_list(struct fake_list *list)
{
    while (list->count > 0)
        fake_post_free(fake_list_remove(list, list->count - 1));
    free(list->items);
}

struct fake_net *fake_net_new(void)
{
    struct fake_net *net = calloc(1, sizeof(*net));

    assert_non_null(net);
    net->next_id = 1;
    net->next_key = 1000;
    return net;
}

void fake_net_free(struct fake_net *net)
{
    const unsigned violations = net->violations, open = net->open_objects;
    char text[sizeof(net->violation)];

    memcpy(text, net->violation, sizeof(text));
    free_list(&net->receives);
    free_list(&net->flying);
    free_list(&net->arrived);
    free_list(&net->finished);
    free_list(&net->letters);
    free(net->registrations);
    free(net->endpoints);
    free(net);
    if (violations > 0)
        fail_msg("%u violations, the first: %s", violations, text);
    if (open > 0)
        fail_msg("%u objects were never closed", open);
}

static int not_supported(struct fid *fid, int command, void *argument)
{
    (void)fid;
    (void)command;
    (void)argument;
    return -FI_ENOSYS;
}

/* ---- addresses ---- */

struct address fake_address(uint32_t id)
{
    struct address address = {.len = 16};

    memcpy(address.raw, "FAKE", 4);
    memcpy(address.raw + 4, &id, 4);
    memset(address.raw + 8, 0x5a, 8);
    return address;
}

uint32_t fake_id(const struct address *address)
{
    uint32_t id;

    memcpy(&id, address->raw + 4, 4);
    return id;
}

static int av_insert(struct fid_av *av, const void *raw, size_t count, fi_addr_t *peer,
                     uint64_t flags, void *context)
{
    const struct fake_domain *domain = av->fid.context;
    struct address address = {.len = 16};

    (void)flags;
    (void)context;
    assert_int_equal(count, 1);
    if (domain->net->refuse_insert != 0)
        return domain->net->refuse_insert;
    memcpy(address.raw, raw, 16);
    if (memcmp(address.raw, "FAKE", 4) != 0 || fake_id(&address) >= domain->net->next_id)
        return 0;
    *peer = fake_id(&address);
    return 1;
}

static const char *av_straddr(struct fid_av *av, const void *raw, char *text, size_t *len)
{
    struct address address;

    (void)av;
    memcpy(address.raw, raw, 16);
    *len = (size_t)snprintf(text, *len, "fake://%u", fake_id(&address)) + 1;
    return text;
}

static int close_av(struct fid *fid)
{
    struct fake_domain *domain = fid->context;

    domain->net->open_objects--;
    free(fid);
    return 0;
}

static int open_av(struct fid_domain *fid, struct fi_av_attr *attr, struct fid_av **av,
                   void *context)
{
    static struct fi_ops_av av_ops = {
        .size = sizeof(av_ops), .insert = av_insert, .straddr = av_straddr};
    static struct fi_ops fid_ops = {.size = sizeof(fid_ops), .close = close_av};
    struct fake_domain *domain = (struct fake_domain *)fid;

    (void)attr;
    (void)context;
    *av = calloc(1, sizeof(**av));
    assert_non_null(*av);
    (*av)->fid = (struct fid){.fclass = FI_CLASS_AV, .context = domain, .ops = &fid_ops};
    (*av)->ops = &av_ops;
    domain->net->open_objects++;
    return 0;
}

/* ---- registrations ---- */

struct fake_mr *fake_find_mr(const struct fake_net *net, const struct fake_domain *domain,
                             uint64_t key)
{
    for (size_t i = 0; i < net->registrations_count; i++) {
        struct fake_mr *mr = (struct fake_mr *)net->registrations[i];

        if (mr->domain == domain && mr->fid.key == key)
            return mr;
    }
    return NULL;
}

static int close_mr(struct fid *fid)
{
    struct fake_mr *mr = (struct fake_mr *)fid;
    struct fake_net *net = mr->domain->net;
    size_t i = 0;

    if (fake_in_use(net, mr))
        fake_violation(net, "a registration of %zu bytes is closed while in use", mr->len);
    while (net->registrations[i] != &mr->fid)
        i++;
    net->registrations[i] = net->registrations[--net->registrations_count];
    net->open_objects--;
    free(mr);
    return 0;
}

static int bind_mr(struct fid *fid, struct fid *other, uint64_t flags)
{
    (void)fid;
    (void)flags;
    return other->fclass == FI_CLASS_EP ? 0 : -FI_EINVAL;
}

static int control_mr(struct fid *fid, int command, void *argument)
{
    (void)argument;
    if (command != FI_ENABLE)
        return -FI_ENOSYS;
    ((struct fake_mr *)fid)->enabled = true;
    return 0;
}

static int register_mr(struct fid *fid, const void *start, size_t len, uint64_t access,
                       uint64_t offset, uint64_t key, uint64_t flags, struct fid_mr **registered,
                       void *context)
{
    static struct fi_ops mr_ops = {
        .size = sizeof(mr_ops), .close = close_mr, .bind = bind_mr, .control = control_mr};
    struct fake_domain *domain = (struct fake_domain *)fid;
    struct fake_net *net = domain->net;
    const bool chooses = (domain->limits->mr_mode & FI_MR_PROV_KEY) != 0;
    struct fake_mr *mr;

    (void)flags;
    (void)context;
    if (net->refuse_register != 0)
        return net->refuse_register;
    if (offset != 0 || (!chooses && fake_find_mr(net, domain, key) != NULL))
        return -FI_ENOKEY;
    mr = calloc(1, sizeof(*mr));
    assert_non_null(mr);
    mr->fid.fid = (struct fid){.fclass = FI_CLASS_MR, .context = mr, .ops = &mr_ops};
    mr->fid.mem_desc = mr;
    mr->fid.key = chooses ? net->next_key++ : key;
    mr->domain = domain;
    mr->start = start;
    mr->len = len;
    mr->access = access;
    mr->enabled = (domain->limits->mr_mode & FI_MR_ENDPOINT) == 0;
    net->registrations =
        realloc(net->registrations, (net->registrations_count + 1) * sizeof(net->registrations[0]));
    assert_non_null(net->registrations);
    net->registrations[net->registrations_count++] = &mr->fid;
    net->open_objects++;
    *registered = &mr->fid;
    return 0;
}

/* ---- endpoints and queues ---- */

struct fake_endpoint *fake_find_endpoint(const struct fake_net *net, uint32_t id)
{
    for (size_t i = 0; i < net->endpoints_count; i++) {
        if (net->endpoints[i]->id == id)
            return net->endpoints[i];
    }
    return NULL;
}

static int close_endpoint(struct fid *fid)
{
    struct fake_endpoint *endpoint = (struct fake_endpoint *)fid;
    struct fake_net *net = endpoint->domain->net;
    size_t i = 0;

    fake_forget(net, endpoint);
    while (net->endpoints[i] != endpoint)
        i++;
    net->endpoints[i] = net->endpoints[--net->endpoints_count];
    net->open_objects--;
    free(endpoint);
    return 0;
}

static int bind_endpoint(struct fid *fid, struct fid *other, uint64_t flags)
{
    struct fake_endpoint *endpoint = (struct fake_endpoint *)fid;

    (void)flags;
    if (other->fclass == FI_CLASS_CQ)
        endpoint->cq = (struct fake_cq *)other;
    return 0;
}

static int control_endpoint(struct fid *fid, int command, void *argument)
{
    (void)argument;
    if (command != FI_ENABLE)
        return -FI_ENOSYS;
    ((struct fake_endpoint *)fid)->enabled = true;
    return 0;
}

static int get_name(fid_t fid, void *raw, size_t *len)
{
    const struct address address = fake_address(((struct fake_endpoint *)fid)->id);

    if (*len < address.len)
        return -FI_ETOOSMALL;
    memcpy(raw, address.raw, address.len);
    *len = address.len;
    return 0;
}

static int open_endpoint(struct fid_domain *fid, struct fi_info *info, struct fid_ep **ep,
                         void *context)
{
    static struct fi_ops fid_ops = {.size = sizeof(fid_ops),
                                    .close = close_endpoint,
                                    .bind = bind_endpoint,
                                    .control = control_endpoint};
    static struct fi_ops_cm cm_ops = {.size = sizeof(cm_ops), .getname = get_name};
    struct fake_domain *domain = (struct fake_domain *)fid;
    struct fake_net *net = domain->net;
    struct fake_endpoint *endpoint = calloc(1, sizeof(*endpoint));

    (void)info;
    (void)context;
    assert_non_null(endpoint);
    endpoint->fid = (struct fid_ep){
        .fid = {.fclass = FI_CLASS_EP, .context = endpoint, .ops = &fid_ops},
        .ops = &fake_ep_ops,
        .cm = &cm_ops,
        .msg = &fake_msg_ops,
        .rma = &fake_rma_ops,
        .tagged = &fake_tagged_ops,
    };
    endpoint->domain = domain;
    endpoint->id = net->next_id++;
    net->endpoints =
        realloc(net->endpoints, (net->endpoints_count + 1) * sizeof(net->endpoints[0]));
    assert_non_null(net->endpoints);
    net->endpoints[net->endpoints_count++] = endpoint;
    net->open_objects++;
    *ep = &endpoint->fid;
    return 0;
}

static int close_cq(struct fid *fid)
{
    struct fake_cq *cq = (struct fake_cq *)fid;

    for (size_t i = 0; i < cq->net->endpoints_count; i++) {
        if (cq->net->endpoints[i]->cq == cq) {
            fake_violation(cq->net, "a completion queue is closed before its endpoint");
            return -FI_EBUSY;
        }
    }
    cq->net->open_objects--;
    free(cq);
    return 0;
}

/* Without wait descriptor, as with shm. */
static int open_cq(struct fid_domain *fid, struct fi_cq_attr *attr, struct fid_cq **opened,
                   void *context)
{
    static struct fi_ops fid_ops = {
        .size = sizeof(fid_ops), .close = close_cq, .control = not_supported};
    struct fake_domain *domain = (struct fake_domain *)fid;
    struct fake_cq *cq;

    (void)context;
    if (attr->wait_obj == FI_WAIT_FD)
        return -FI_ENOSYS;
    cq = calloc(1, sizeof(*cq));
    assert_non_null(cq);
    cq->fid.fid = (struct fid){.fclass = FI_CLASS_CQ, .context = cq, .ops = &fid_ops};
    cq->fid.ops = &fake_cq_ops;
    cq->net = domain->net;
    domain->net->open_objects++;
    *opened = &cq->fid;
    return 0;
}

/* ---- domain and fabric ---- */

static int close_domain(struct fid *fid)
{
    struct fake_domain *domain = (struct fake_domain *)fid;
    struct fake_net *net = domain->net;

    for (size_t i = 0; i < net->endpoints_count; i++) {
        if (net->endpoints[i]->domain == domain)
            fake_violation(net, "a domain is closed before its endpoint");
    }
    for (size_t i = 0; i < net->registrations_count; i++) {
        if (((struct fake_mr *)net->registrations[i])->domain == domain)
            fake_violation(net, "a domain is closed before its registrations");
    }
    net->open_objects--;
    free(domain);
    return 0;
}

struct fake_provider {
    struct fid_fabric fid;
    struct fake_net *net;
    struct fake_limits limits;
};

static int open_domain(struct fid_fabric *fid, struct fi_info *info, struct fid_domain **opened,
                       void *context)
{
    static struct fi_ops fid_ops = {.size = sizeof(fid_ops), .close = close_domain};
    static struct fi_ops_domain domain_ops = {.size = sizeof(domain_ops),
                                              .av_open = open_av,
                                              .cq_open = open_cq,
                                              .endpoint = open_endpoint};
    static struct fi_ops_mr mr_ops = {.size = sizeof(mr_ops), .reg = register_mr};
    struct fake_provider *provider = (struct fake_provider *)fid;
    struct fake_domain *domain = calloc(1, sizeof(*domain));

    (void)info;
    (void)context;
    assert_non_null(domain);
    domain->fid.fid = (struct fid){.fclass = FI_CLASS_DOMAIN, .context = domain, .ops = &fid_ops};
    domain->fid.ops = &domain_ops;
    domain->fid.mr = &mr_ops;
    domain->net = provider->net;
    domain->limits = &provider->limits;
    provider->net->open_objects++;
    *opened = &domain->fid;
    return 0;
}

static int close_fabric(struct fid *fid)
{
    ((struct fake_provider *)fid)->net->open_objects--;
    return 0;
}

/* In the place of libfabric's own, which the engine calls in domain_open. */
int fi_fabric(struct fi_fabric_attr *attr, struct fid_fabric **opened, void *context)
{
    (void)context;
    *opened = attr->fabric;
    ((struct fake_provider *)attr->fabric)->net->open_objects++;
    return 0;
}

void fake_fabric_open(struct fabric *fabric, struct fake_net *net, const struct fake_limits *limits)
{
    static struct fi_ops fid_ops = {.size = sizeof(fid_ops), .close = close_fabric};
    static struct fi_ops_fabric fabric_ops = {.size = sizeof(fabric_ops), .domain = open_domain};
    struct fake_provider *provider = calloc(1, sizeof(*provider));

    assert_non_null(provider);
    provider->fid.fid =
        (struct fid){.fclass = FI_CLASS_FABRIC, .context = provider, .ops = &fid_ops};
    provider->fid.ops = &fabric_ops;
    provider->net = net;
    provider->limits = *limits;
    *fabric = (struct fabric){
        .info = fi_allocinfo(),
        .infos = 1,
        .tx_iov_limit = limits->tx_iov,
        .rx_iov_limit = limits->rx_iov,
        .rma_iov_limit = limits->rma_iov,
        .tx_size = limits->queue,
        .rx_size = limits->queue,
        .mr_mode = limits->mr_mode,
    };
    assert_non_null(fabric->info);
    fabric->info->fabric_attr->fabric = &provider->fid;
    fabric->info->fabric_attr->prov_name = strdup(limits->provider);
    fabric->info->domain_attr->name = strdup("fake");
    fabric->info->rx_attr->size = 256;
    fabric->info->tx_attr->size = 256;
}

void fake_fabric_close(struct fabric *fabric)
{
    free(fabric->info->fabric_attr->fabric);
    fi_freeinfo(fabric->info);
    memset(fabric, 0, sizeof(*fabric));
}
