/* SPDX-License-Identifier: BSD-3-Clause */
#include "watch.h"

#include "harness.h"
#include "stream.h"

enum { HELD_MAX = 12, UNDER_WAY_MAX = 16 };

void watch_open(struct watch *watch)
{
    memset(watch, 0, sizeof(*watch));
}

void watch_close(struct watch *watch)
{
    free(watch->vectors.messages);
    free(watch->progress.messages);
    free(watch->segments);
    memset(watch, 0, sizeof(*watch));
}

void watch_put(struct watch *watch, const struct session *put, uint32_t limit, uint32_t local_limit)
{
    watch->put = watch->progress.sender = put;
    watch->limit = limit;
    watch->local_limit = local_limit;
}

void watch_get(struct watch *watch, const struct session *get)
{
    watch->vectors.sender = get;
}

/* Sums of 37, 31, 29, 23: buffers are made in the order 23, 29, 31, 37 and taken last in, first
 * out; each is free again in stream order, so the cycle goes on. */
bool watch_boundary(uint64_t position)
{
    const uint64_t at = position % 120;

    return at == 0 || at == 37 || at == 68 || at == 97;
}

/* ---- control messages ---- */

static struct watch_message *message_at(struct watch_direction *direction, uint64_t number)
{
    if (number >= direction->room) {
        const size_t room = (size_t)number * 2 + 256;

        direction->messages = realloc(direction->messages, room * sizeof(*direction->messages));
        assert_non_null(direction->messages);
        memset(direction->messages + direction->room, 0,
               (room - direction->room) * sizeof(*direction->messages));
        direction->room = room;
    }
    return &direction->messages[number];
}

/* The message's number: the one with its tag among the next 64 from the first unseen one. */
static struct watch_message *record(struct watch_direction *direction, const struct fake_post *post)
{
    const uint64_t ahead = (post->tag - direction->first_unseen) % 64;
    const uint64_t number = direction->first_unseen + ahead;
    struct watch_message *message = message_at(direction, number);

    assert_true(post->tag < 64);
    if (ahead >= UNDER_WAY_MAX || message->seen)
        fail_msg("tag %llu when %llu is the first that is missing", (unsigned long long)post->tag,
                 (unsigned long long)direction->first_unseen);
    message->seen = true;
    direction->disorder += ahead > 0;
    while (message_at(direction, direction->first_unseen)->seen)
        direction->first_unseen++;
    direction->sent++;
    direction->under_way++;
    if (direction->under_way > direction->most_under_way)
        direction->most_under_way = direction->under_way;
    assert_true(direction->under_way <= UNDER_WAY_MAX);
    return &direction->messages[number];
}

static void record_progress(struct watch *watch, const struct fake_post *post)
{
    struct watch_message *message = record(&watch->progress, post);

    assert_int_equal(post->len, 16);
    memcpy(&message->a, post->bytes, 8);
    memcpy(&message->b, post->bytes + 8, 8);
}

static void record_vector(struct watch *watch, const struct fake_post *post)
{
    struct watch_message *message = record(&watch->vectors, post);
    uint32_t count;

    memcpy(&count, post->bytes, 4);
    assert_true(count <= HELD_MAX);
    assert_int_equal(post->len, 8 + 24 * count);
    message->a = count;
}

void watch_sent(struct watch *watch, const struct session *session)
{
    if (session == watch->put)
        watch->progress.under_way--;
    else
        watch->vectors.under_way--;
}

/* ---- target memory as put learns of it ---- */

static void add_segment(struct watch *watch, const uint8_t *at)
{
    struct watch_segment *segment;

    if (watch->segments_count == watch->segments_room) {
        watch->segments_room = watch->segments_room * 2 + 64;
        watch->segments =
            realloc(watch->segments, watch->segments_room * sizeof(watch->segments[0]));
        assert_non_null(watch->segments);
    }
    segment = &watch->segments[watch->segments_count++];
    memcpy(&segment->addr, at, 8);
    memcpy(&segment->len, at + 8, 8);
    memcpy(&segment->key, at + 16, 8);
}

/* Vectors may be reported in any order; their segments count in tag order. The bytes of those that
 * wait are still in the receive's buffer: put may not touch it before it takes them. */
void watch_arrived(struct watch *watch, const struct session *session, const struct op *op,
                   size_t len)
{
    const struct control_message *message = (const struct control_message *)op;
    struct watch_direction *vectors = &watch->vectors;

    if (session != watch->put || op->kind != FABT_KIND_VECTOR_RX)
        return;
    assert_int_equal(op->tag_or_key, op->position % 64);
    message_at(vectors, op->position)->here = true;
    /* The address of the bytes fits where a vector needs nothing else. */
    vectors->messages[op->position].b = (uint64_t)(uintptr_t)message->bytes;
    (void)len;
    while (message_at(vectors, watch->next_here)->here) {
        const uint8_t *bytes = (const uint8_t *)(uintptr_t)vectors->messages[watch->next_here].b;
        uint32_t count;

        memcpy(&count, bytes, 4);
        for (uint32_t i = 0; i < count && i < HELD_MAX; i++)
            add_segment(watch, bytes + 8 + 24 * i);
        watch->next_here++;
    }
}

void watch_service(struct watch *watch, const struct session *session)
{
    if (session != watch->put)
        return;
    while (watch->taken < watch->segments_count && watch->taken - watch->first < HELD_MAX)
        watch->taken++;
}

/* ---- writes ---- */

static uint32_t smallest(uint32_t a, size_t b)
{
    return a < b ? a : (uint32_t)b;
}

static void check_local(const struct watch *watch, const struct fake_post *post, uint64_t *end)
{
    uint64_t position = watch->position, done = 0;

    for (size_t i = 0; i < post->iov_count; i++) {
        const size_t len = post->iov[i].iov_len;

        for (size_t k = 0; k < len; k++) {
            if (post->bytes[done + k] != stream_byte(position + k))
                fail_msg("byte %llu of the stream is wrong", (unsigned long long)(position + k));
            if (k > 0 && watch_boundary(position + k))
                fail_msg("a segment crosses a buffer boundary at %llu",
                         (unsigned long long)(position + k));
        }
        /* Between pieces of one write there is always a boundary. */
        if (i > 0)
            assert_true(watch_boundary(position));
        position += len;
        done += len;
    }
    *end = position;
}

static void use_remote(struct watch *watch, const struct fake_post *post)
{
    for (size_t i = 0; i < post->rma_count; i++) {
        const struct fi_rma_iov *rma = &post->rma[i];
        const struct watch_segment *segment = &watch->segments[watch->first];

        assert_true(watch->first < watch->taken);
        assert_int_equal(rma->key, segment->key);
        assert_int_equal(rma->addr, segment->addr + watch->used);
        assert_true(rma->len > 0 && rma->len <= segment->len - watch->used);
        watch->used += rma->len;
        if (watch->used < segment->len) {
            assert_int_equal(i, post->rma_count - 1); /* only the last one is used in part */
            continue;
        }
        watch->first++;
        watch->used = 0;
    }
}

static void check_split(struct watch *watch, const struct fake_post *post, uint64_t end)
{
    const struct session_counts *counts = &watch->put->counts;
    const bool under_way =
        watch->position > counts->payload_bytes || counts->payload_bytes > counts->reported_bytes;

    if (watch_boundary(end) || end == watch->put->total_bytes)
        return;
    watch->splits++;
    if (post->rma_count == watch->limit)
        return;
    if (under_way || post->iov_count != 1)
        fail_msg("a buffer is split at %llu with %zu of %u segments, %s under way",
                 (unsigned long long)end, post->rma_count, watch->limit,
                 under_way ? "others" : "nothing");
}

static void check_write(struct watch *watch, const struct fake_post *post)
{
    const uint32_t most = smallest(watch->limit, watch->taken - watch->first);
    uint64_t end;

    if (post->rma_count > most || post->iov_count > most || post->iov_count > watch->local_limit)
        fail_msg("a write of %zu local and %zu remote segments; %u at hand, limits %u and %u",
                 post->iov_count, post->rma_count, (unsigned)(watch->taken - watch->first),
                 watch->limit, watch->local_limit);
    check_local(watch, post, &end);
    check_split(watch, post, end);
    use_remote(watch, post);
    watch->position = end;
    watch->writes++;
    if (post->iov_count > watch->most_local)
        watch->most_local = post->iov_count;
    if (post->rma_count > watch->most_remote)
        watch->most_remote = post->rma_count;
}

static void check_retry(const struct watch *watch, const struct fake_post *post)
{
    const struct fake_post *before = &watch->deferred_post;

    assert_ptr_equal(post->context, watch->deferred);
    assert_int_equal(post->iov_count, before->iov_count);
    assert_int_equal(post->rma_count, before->rma_count);
    assert_memory_equal(post->iov, before->iov, post->iov_count * sizeof(post->iov[0]));
    assert_memory_equal(post->rma, before->rma, post->rma_count * sizeof(post->rma[0]));
}

static void attempt_write(struct watch *watch, const struct fake_post *post, bool accepted)
{
    if (watch->deferred != NULL)
        check_retry(watch, post);
    else
        check_write(watch, post);
    watch->deferred = accepted ? NULL : post->context;
    watch->deferred_post = *post;
}

void watch_attempt(struct watch *watch, const struct fake_post *post, bool accepted)
{
    const struct fid_ep *ep = &post->owner->fid;

    if (watch->put != NULL && ep == watch->put->endpoint.ep) {
        if (post->kind == FAKE_WRITE)
            attempt_write(watch, post, accepted);
        else if (post->kind == FAKE_TAGGED_SEND && accepted)
            record_progress(watch, post);
    } else if (post->kind == FAKE_TAGGED_SEND && accepted) {
        record_vector(watch, post);
    }
}

/* ---- the end ---- */

static void check_direction(const struct watch_direction *direction)
{
    assert_true(direction->sent > 0);
    assert_int_equal(direction->first_unseen, direction->sent);
    assert_int_equal(direction->under_way, 0);
}

void watch_check_end(const struct watch *watch, uint64_t total_bytes)
{
    uint64_t filled = 0;

    check_direction(&watch->progress);
    for (uint64_t i = 0; i < watch->progress.sent; i++) {
        const struct watch_message *message = &watch->progress.messages[i];

        filled += message->a;
        assert_int_equal(message->b == 0, i == watch->progress.sent - 1);
    }
    assert_int_equal(filled, total_bytes);
    assert_int_equal(watch->position, total_bytes);
    if (watch->vectors.sender == NULL)
        return;
    check_direction(&watch->vectors);
    for (uint64_t i = 0; i < watch->vectors.sent; i++)
        assert_int_equal(watch->vectors.messages[i].a == 0, i == watch->vectors.sent - 1);
}
