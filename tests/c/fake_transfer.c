/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The fake provider's transfers: posts, their arrival, and completions. */
#include "harness.h"

#include "fake_fabric.h"

/* ---- what a post may be ---- */

static bool is_receive(const struct fake_post *post)
{
    return post->kind == FAKE_RECEIVE || post->kind == FAKE_TAGGED_RECEIVE;
}

static uint64_t access_of(const struct fake_post *post)
{
    return post->kind == FAKE_WRITE ? FI_WRITE : is_receive(post) ? FI_RECV : FI_SEND;
}

static bool same_bytes(const struct fake_post *post)
{
    size_t done = 0;

    for (size_t i = 0; i < post->iov_count; i++) {
        if (memcmp(post->iov[i].iov_base, post->bytes + done, post->iov[i].iov_len) != 0)
            return false;
        done += post->iov[i].iov_len;
    }
    return true;
}

/* A transmit's memory belongs to the provider until its completion is read. */
static void check_untouched(struct fake_net *net, const struct fake_post *post)
{
    if (post->owner != NULL && !is_receive(post) && !same_bytes(post))
        fake_violation(net, "memory of a transmit of %zu bytes changed before its completion",
                       post->len);
}

static bool covers(const struct fake_mr *mr, const struct iovec *iov)
{
    const uint8_t *start = iov->iov_base;

    return start >= mr->start && start + iov->iov_len <= mr->start + mr->len;
}

static void check_descriptor(struct fake_net *net, const struct fake_post *post, size_t i,
                             const struct fake_mr *mr)
{
    const struct fake_domain *domain = post->owner->domain;

    if (mr == NULL) {
        if ((domain->limits->mr_mode & FI_MR_LOCAL) != 0)
            fake_violation(net, "segment %zu is not registered", i);
        return;
    }
    for (size_t k = 0; k < net->registrations_count; k++) {
        if (net->registrations[k] != &mr->fid)
            continue;
        if (mr->domain != domain || !mr->enabled || (mr->access & access_of(post)) == 0 ||
            !covers(mr, &post->iov[i]))
            fake_violation(net, "segment %zu has a registration that does not fit", i);
        return;
    }
    fake_violation(net, "segment %zu has a registration that is closed", i);
}

static void check_post(struct fake_net *net, const struct fake_post *post, void **desc)
{
    const struct fake_limits *limits = post->owner->domain->limits;
    const size_t most = is_receive(post) ? limits->rx_iov : limits->tx_iov;

    if (!post->owner->enabled || post->owner->cq == NULL || post->context == NULL)
        fake_violation(net, "a post to an endpoint that is not ready, or without context");
    if (post->iov_count == 0 || post->iov_count > most || post->rma_count > limits->rma_iov)
        fake_violation(net, "a post of %zu local and %zu remote segments", post->iov_count,
                       post->rma_count);
    for (size_t i = 0; i < post->iov_count; i++) {
        if (post->iov[i].iov_len == 0)
            fake_violation(net, "segment %zu is empty", i);
        check_descriptor(net, post, i, desc == NULL ? NULL : desc[i]);
    }
}

static uint32_t own(const struct fake_list *list, const struct fake_post *post)
{
    uint32_t count = 0;

    for (size_t i = 0; i < list->count; i++)
        count +=
            list->items[i]->owner == post->owner && is_receive(list->items[i]) == is_receive(post);
    return count;
}

/* A real provider defers what its queue has no place for; the engine is to know better. */
static void check_queue(struct fake_net *net, const struct fake_post *post)
{
    const uint32_t queue = post->owner->domain->limits->queue;
    const uint32_t posted =
        own(&net->finished, post) + own(is_receive(post) ? &net->receives : &net->flying, post);

    if (queue != 0 && posted >= queue)
        fake_violation(net, "more %s than the queue of %u has places",
                       is_receive(post) ? "receives" : "transmits", queue);
}

static bool listed(const struct fake_list *list, const void *context)
{
    for (size_t i = 0; i < list->count; i++) {
        if (list->items[i]->context == context)
            return true;
    }
    return false;
}

static void keep_bytes(struct fake_post *post)
{
    size_t done = 0;

    for (size_t i = 0; i < post->iov_count; i++)
        post->len += post->iov[i].iov_len;
    post->bytes = malloc(post->len == 0 ? 1 : post->len);
    assert_non_null(post->bytes);
    for (size_t i = 0; i < post->iov_count && !is_receive(post); i++) {
        memcpy(post->bytes + done, post->iov[i].iov_base, post->iov[i].iov_len);
        done += post->iov[i].iov_len;
    }
}

/* ---- arrival ---- */

static void finish(struct fake_net *net, struct fake_post *post, int status)
{
    post->status = status;
    if (post->owner == NULL)
        fake_post_free(post);
    else
        fake_list_add(&net->finished, post);
}

static bool matches(const struct fake_post *receive, const struct fake_post *message)
{
    if (receive->owner->id != message->to)
        return false;
    if (message->kind == FAKE_SEND)
        return receive->kind == FAKE_RECEIVE;
    return receive->kind == FAKE_TAGGED_RECEIVE && receive->tag == message->tag;
}

static void fill(struct fake_net *net, struct fake_post *receive, const struct fake_post *message)
{
    size_t done = 0;

    for (size_t i = 0; i < receive->iov_count && done < message->len; i++) {
        const size_t left = message->len - done;
        const size_t n = receive->iov[i].iov_len < left ? receive->iov[i].iov_len : left;

        memcpy(receive->iov[i].iov_base, message->bytes + done, n);
        done += n;
    }
    receive->got = done;
    finish(net, receive, done < message->len ? -FI_ETRUNC : 0);
}

/* A copy of a message that has left its sender. */
static struct fake_post *detach(const struct fake_post *message)
{
    struct fake_post *copy = calloc(1, sizeof(*copy));

    assert_non_null(copy);
    copy->kind = message->kind;
    copy->tag = message->tag;
    copy->to = message->to;
    copy->len = message->len;
    copy->bytes = exact_copy(message->bytes, message->len);
    return copy;
}

static void arrive(struct fake_net *net, const struct fake_post *message)
{
    if (fake_find_endpoint(net, message->to) == NULL) {
        fake_list_add(&net->letters, detach(message));
        return;
    }
    for (size_t i = 0; i < net->receives.count; i++) {
        if (matches(net->receives.items[i], message)) {
            fill(net, fake_list_remove(&net->receives, i), message);
            return;
        }
    }
    fake_list_add(&net->arrived, detach(message));
}

static uint8_t *target_memory(const struct fake_net *net, const struct fake_post *write,
                              const struct fi_rma_iov *rma)
{
    const struct fake_endpoint *target = fake_find_endpoint(net, write->to);
    const struct fake_mr *mr;
    uint64_t offset;

    if (target == NULL) {
        if (rma->key != net->exposed_key || rma->addr < net->exposed_base ||
            rma->addr - net->exposed_base > net->exposed_len ||
            rma->len > net->exposed_len - (rma->addr - net->exposed_base))
            return NULL;
        return net->exposed + (rma->addr - net->exposed_base);
    }
    mr = fake_find_mr(net, target->domain, rma->key);
    if (mr == NULL || !mr->enabled || (mr->access & FI_REMOTE_WRITE) == 0)
        return NULL;
    offset = (target->domain->limits->mr_mode & FI_MR_VIRT_ADDR) != 0
                 ? rma->addr - (uint64_t)(uintptr_t)mr->start
                 : rma->addr;
    if (offset > mr->len || rma->len > mr->len - offset)
        return NULL;
    return (uint8_t *)(uintptr_t)mr->start + offset;
}

/* All of it or nothing. */
static int write_to_target(struct fake_net *net, const struct fake_post *write)
{
    size_t done = 0;

    if (fake_find_endpoint(net, write->to) == NULL && net->exposed == NULL)
        return -FI_ENOTCONN;
    for (size_t i = 0; i < write->rma_count; i++) {
        if (target_memory(net, write, &write->rma[i]) == NULL)
            return -FI_EACCES;
    }
    for (size_t i = 0; i < write->rma_count; i++) {
        memcpy(target_memory(net, write, &write->rma[i]), write->bytes + done, write->rma[i].len);
        done += write->rma[i].len;
    }
    return 0;
}

void fake_deliver(struct fake_net *net, size_t index, int status)
{
    struct fake_post *post = fake_list_remove(&net->flying, index);

    check_untouched(net, post);
    if (status == 0) {
        if (post->kind == FAKE_WRITE)
            status = write_to_target(net, post);
        else
            arrive(net, post);
    }
    finish(net, post, status);
}

/* ---- the posting calls ---- */

static ssize_t post(struct fid_ep *ep, struct fake_post *draft, void **desc)
{
    struct fake_endpoint *endpoint = (struct fake_endpoint *)ep;
    struct fake_net *net = endpoint->domain->net;
    int rc;

    draft->owner = endpoint;
    draft->cq = endpoint->cq;
    for (size_t i = 0; desc != NULL && i < draft->iov_count && i < FAKE_SEGMENTS_MAX; i++)
        draft->desc[i] = desc[i];
    keep_bytes(draft);
    check_post(net, draft, desc);
    check_queue(net, draft);
    if (listed(&net->receives, draft->context) || listed(&net->flying, draft->context) ||
        listed(&net->finished, draft->context))
        fake_violation(net, "an operation is posted that has not completed");
    rc = net->attempt == NULL ? 0 : net->attempt(net->argument, draft);
    if (rc != 0) {
        fake_post_free(draft);
        return rc;
    }
    if (!is_receive(draft)) {
        fake_list_add(&net->flying, draft);
        return 0;
    }
    for (size_t i = 0; i < net->arrived.count; i++) {
        if (matches(draft, net->arrived.items[i])) {
            struct fake_post *message = fake_list_remove(&net->arrived, i);

            fill(net, draft, message);
            fake_post_free(message);
            return 0;
        }
    }
    fake_list_add(&net->receives, draft);
    return 0;
}

static struct fake_post *draft_of(enum fake_kind kind, const struct iovec *iov, size_t count,
                                  void *context)
{
    struct fake_post *draft = calloc(1, sizeof(*draft));

    assert_non_null(draft);
    assert_true(count <= FAKE_SEGMENTS_MAX);
    draft->kind = kind;
    draft->context = context;
    draft->iov_count = count;
    memcpy(draft->iov, iov, count * sizeof(iov[0]));
    return draft;
}

static ssize_t receive_message(struct fid_ep *ep, const struct fi_msg *message, uint64_t flags)
{
    (void)flags;
    return post(ep, draft_of(FAKE_RECEIVE, message->msg_iov, message->iov_count, message->context),
                message->desc);
}

static ssize_t send_message(struct fid_ep *ep, const struct fi_msg *message, uint64_t flags)
{
    struct fake_post *draft =
        draft_of(FAKE_SEND, message->msg_iov, message->iov_count, message->context);

    (void)flags;
    draft->to = (uint32_t)message->addr;
    return post(ep, draft, message->desc);
}

static ssize_t receive_tagged(struct fid_ep *ep, const struct fi_msg_tagged *message,
                              uint64_t flags)
{
    struct fake_post *draft =
        draft_of(FAKE_TAGGED_RECEIVE, message->msg_iov, message->iov_count, message->context);

    (void)flags;
    assert_int_equal(message->ignore, 0);
    draft->tag = message->tag;
    return post(ep, draft, message->desc);
}

static ssize_t send_tagged(struct fid_ep *ep, const struct fi_msg_tagged *message, uint64_t flags)
{
    struct fake_post *draft =
        draft_of(FAKE_TAGGED_SEND, message->msg_iov, message->iov_count, message->context);

    (void)flags;
    draft->tag = message->tag;
    draft->to = (uint32_t)message->addr;
    return post(ep, draft, message->desc);
}

static ssize_t write_message(struct fid_ep *ep, const struct fi_msg_rma *message, uint64_t flags)
{
    struct fake_post *draft =
        draft_of(FAKE_WRITE, message->msg_iov, message->iov_count, message->context);
    struct fake_net *net = ((struct fake_endpoint *)ep)->domain->net;
    uint64_t local = 0, remote = 0;

    assert_true(message->rma_iov_count <= FAKE_SEGMENTS_MAX);
    draft->to = (uint32_t)message->addr;
    draft->rma_count = message->rma_iov_count;
    memcpy(draft->rma, message->rma_iov, draft->rma_count * sizeof(draft->rma[0]));
    for (size_t i = 0; i < draft->iov_count; i++)
        local += draft->iov[i].iov_len;
    for (size_t i = 0; i < draft->rma_count; i++)
        remote += draft->rma[i].len;
    if (local != remote)
        fake_violation(net, "a write of %llu bytes to %llu", (unsigned long long)local,
                       (unsigned long long)remote);
    if ((flags & (FI_COMPLETION | FI_DELIVERY_COMPLETE)) != (FI_COMPLETION | FI_DELIVERY_COMPLETE))
        fake_violation(net, "a write that is not delivery-complete");
    return post(ep, draft, message->desc);
}

static ssize_t cancel(fid_t fid, void *context)
{
    struct fake_net *net = ((struct fake_endpoint *)fid)->domain->net;
    struct fake_list *lists[] = {&net->receives, &net->flying};

    for (size_t k = 0; k < (net->cancel_ignores_transmits ? 1 : 2); k++) {
        for (size_t i = 0; i < lists[k]->count; i++) {
            if (lists[k]->items[i]->context == context) {
                finish(net, fake_list_remove(lists[k], i), -FI_ECANCELED);
                return 0;
            }
        }
    }
    return 0;
}

struct fi_ops_ep fake_ep_ops = {.size = sizeof(fake_ep_ops), .cancel = cancel};
struct fi_ops_msg fake_msg_ops = {
    .size = sizeof(fake_msg_ops), .recvmsg = receive_message, .sendmsg = send_message};
struct fi_ops_tagged fake_tagged_ops = {
    .size = sizeof(fake_tagged_ops), .recvmsg = receive_tagged, .sendmsg = send_tagged};
struct fi_ops_rma fake_rma_ops = {.size = sizeof(fake_rma_ops), .writemsg = write_message};

/* ---- completions ---- */

struct fake_completion fake_take(struct fake_net *net, size_t index)
{
    struct fake_post *post_ = fake_list_remove(&net->finished, index);
    const struct fake_completion completion = {
        .context = post_->context,
        .len = is_receive(post_) ? post_->got : 0, /* providers need not say it for transmits */
        .tag = post_->tag,
        .status = post_->status,
    };

    if (post_->status == 0)
        check_untouched(net, post_);
    fake_post_free(post_);
    return completion;
}

void fake_inject_error(struct fake_net *net, struct fid_cq *cq, int status)
{
    struct fake_post *entry = calloc(1, sizeof(*entry));

    assert_non_null(entry);
    entry->kind = FAKE_RECEIVE;
    entry->cq = (struct fake_cq *)cq;
    entry->status = status;
    fake_list_add(&net->finished, entry);
}

bool fake_fail_receive(struct fake_net *net, struct fid_ep *ep, int status)
{
    for (size_t i = 0; i < net->receives.count; i++) {
        if (&net->receives.items[i]->owner->fid == ep) {
            finish(net, fake_list_remove(&net->receives, i), status);
            return true;
        }
    }
    return false;
}

static ssize_t first_of(const struct fake_cq *cq)
{
    for (size_t i = 0; i < cq->net->finished.count; i++) {
        if (cq->net->finished.items[i]->cq == cq)
            return (ssize_t)i;
    }
    return -1;
}

static ssize_t read_cq(struct fid_cq *fid, void *buffer, size_t count)
{
    struct fake_cq *cq = (struct fake_cq *)fid;
    struct fi_cq_tagged_entry *entries = buffer;
    size_t n = 0;

    while (n < count) {
        const ssize_t i = first_of(cq);
        struct fake_completion completion;

        if (i < 0)
            break;
        if (cq->net->finished.items[i]->status != 0)
            return n > 0 ? (ssize_t)n : -FI_EAVAIL;
        completion = fake_take(cq->net, (size_t)i);
        entries[n++] = (struct fi_cq_tagged_entry){
            .op_context = completion.context, .len = completion.len, .tag = completion.tag};
    }
    return n > 0 ? (ssize_t)n : -FI_EAGAIN;
}

static ssize_t read_error(struct fid_cq *fid, struct fi_cq_err_entry *entry, uint64_t flags)
{
    struct fake_cq *cq = (struct fake_cq *)fid;
    const ssize_t i = first_of(cq);
    struct fake_completion completion;

    (void)flags;
    if (entry->err_data_size != 0 || entry->err_data != NULL)
        fake_violation(cq->net, "fi_cq_readerr with an entry that was not zeroed");
    if (i < 0 || cq->net->finished.items[i]->status == 0)
        return -FI_EAGAIN;
    completion = fake_take(cq->net, (size_t)i);
    entry->op_context = completion.context;
    entry->len = completion.len;
    entry->err = -completion.status;
    return 1;
}

static const char *error_text(struct fid_cq *fid, int code, const void *data, char *text,
                              size_t len)
{
    (void)fid;
    (void)code;
    (void)data;
    snprintf(text, len, "fake");
    return text;
}

struct fi_ops_cq fake_cq_ops = {
    .size = sizeof(fake_cq_ops), .read = read_cq, .readerr = read_error, .strerror = error_text};

/* ---- ends ---- */

/* Does the segment lie in another registration, too? Buffers may share memory. */
static bool covered_elsewhere(const struct fake_net *net, const struct fake_mr *mr,
                              const struct iovec *iov)
{
    for (size_t i = 0; i < net->registrations_count; i++) {
        const struct fake_mr *other = (const struct fake_mr *)net->registrations[i];

        if (other != mr && other->domain == mr->domain &&
            (other->access & mr->access) == mr->access && covers(other, iov))
            return true;
    }
    return false;
}

bool fake_in_use(const struct fake_net *net, const struct fake_mr *mr)
{
    const struct fake_list *lists[] = {&net->receives, &net->flying};

    for (size_t k = 0; k < COUNT_OF(lists); k++) {
        for (size_t i = 0; i < lists[k]->count; i++) {
            const struct fake_post *other = lists[k]->items[i];

            if (other->owner == NULL || other->owner->domain != mr->domain ||
                (mr->access & access_of(other)) == 0)
                continue;
            for (size_t s = 0; s < other->iov_count; s++) {
                const bool used =
                    other->desc[s] != NULL
                        ? other->desc[s] == mr
                        : covers(mr, &other->iov[s]) && !covered_elsewhere(net, mr, &other->iov[s]);

                if (used)
                    return true;
            }
        }
    }
    return false;
}

void fake_forget(struct fake_net *net, const struct fake_endpoint *endpoint)
{
    struct fake_list *lists[] = {&net->receives, &net->flying, &net->finished};

    for (size_t k = 0; k < COUNT_OF(lists); k++) {
        for (size_t i = lists[k]->count; i-- > 0;) {
            if (lists[k]->items[i]->owner == endpoint)
                fake_post_free(fake_list_remove(lists[k], i));
        }
    }
}

/* ---- scripted peers ---- */

uint32_t fake_peer_open(struct fake_net *net)
{
    return net->next_id++;
}

static void peer_send(struct fake_net *net, enum fake_kind kind, uint32_t to, uint64_t tag,
                      const void *bytes, size_t len)
{
    struct fake_post *message = calloc(1, sizeof(*message));

    assert_non_null(message);
    message->kind = kind;
    message->to = to;
    message->tag = tag;
    message->len = len;
    message->bytes = exact_copy(bytes, len);
    fake_list_add(&net->flying, message);
}

void fake_peer_send(struct fake_net *net, uint32_t to, const void *bytes, size_t len)
{
    peer_send(net, FAKE_SEND, to, 0, bytes, len);
}

void fake_peer_send_tagged(struct fake_net *net, uint32_t to, uint64_t tag, const void *bytes,
                           size_t len)
{
    peer_send(net, FAKE_TAGGED_SEND, to, tag, bytes, len);
}

ssize_t fake_peer_receive(struct fake_net *net, uint32_t id, void *bytes, size_t size,
                          uint64_t *tag)
{
    for (size_t i = 0; i < net->letters.count; i++) {
        struct fake_post *letter = net->letters.items[i];
        ssize_t len;

        if (letter->to != id)
            continue;
        fake_list_remove(&net->letters, i);
        assert_true(letter->len <= size);
        memcpy(bytes, letter->bytes, letter->len);
        len = (ssize_t)letter->len;
        *tag = letter->kind == FAKE_SEND ? UINT64_MAX : letter->tag;
        fake_post_free(letter);
        return len;
    }
    return -1;
}

void fake_peer_expose(struct fake_net *net, uint64_t key, uint64_t base, uint8_t *memory,
                      uint64_t len)
{
    net->exposed = memory;
    net->exposed_base = base;
    net->exposed_len = len;
    net->exposed_key = key;
}
