/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Description: queues of control messages. Tags count modulo 64 from 0; a sender has at most 16
 * messages queued or uncompleted and takes them back in posting order only; the deliberate rotation
 * follows the protocol's rule; a receiver keeps 64 receives posted with exact tags and takes
 * messages in tag order, in whatever order they arrive; a deferred post is tried again as it was.
 */
#include "harness.h"

#include "control.h"
#include "fake_fabric.h"

struct fixture {
    struct fake_net *net;
    struct fabric fabric;
    struct domain domain;
    struct fid_cq *cq;
    struct endpoint endpoint;
    struct control_tx tx;
    struct control_rx rx;
    struct failure failure;
    uint32_t peer;
    fi_addr_t to;

    uint64_t sent[4096]; /* tags of tagged sends, in posting order */
    size_t sent_count;
    int refuse; /* what the next attempts get */
    unsigned attempts;
};

static int attempt(void *argument, const struct fake_post *post)
{
    struct fixture *f = argument;

    f->attempts++;
    if (f->refuse != 0)
        return f->refuse;
    if (post->kind == FAKE_TAGGED_SEND)
        f->sent[f->sent_count++] = post->tag;
    return 0;
}

static void open_fixture(struct fixture *f, uint64_t mr_mode, bool disorder)
{
    struct fake_limits limits = FAKE_LIMITS;
    struct fi_cq_attr attr = {.wait_obj = FI_WAIT_NONE};
    struct address address;

    memset(f, 0, sizeof(*f));
    limits.mr_mode = mr_mode;
    f->net = fake_net_new();
    f->net->attempt = attempt;
    f->net->argument = f;
    fake_fabric_open(&f->fabric, f->net, &limits);
    assert_int_equal(domain_open(&f->domain, &f->fabric, 1, &f->failure), 0);
    assert_int_equal(fi_cq_open(f->domain.domain, &attr, &f->cq, NULL), 0);
    assert_int_equal(endpoint_open(&f->endpoint, &f->domain, f->cq, 0, &f->failure), 0);
    f->peer = fake_peer_open(f->net);
    address = fake_address(f->peer);
    assert_int_equal(domain_insert(&f->domain, &address, &f->to, &f->failure), 0);
    assert_int_equal(control_tx_open(&f->tx, &f->endpoint, disorder, &f->failure), 0);
    assert_int_equal(control_rx_open(&f->rx, &f->endpoint, FABT_KIND_VECTOR_RX, &f->failure), 0);
}

static void close_fixture(struct fixture *f)
{
    endpoint_close(&f->endpoint);
    control_tx_close(&f->tx);
    control_rx_close(&f->rx);
    fi_close(&f->cq->fid);
    domain_close(&f->domain);
    fake_fabric_close(&f->fabric);
    fake_net_free(f->net);
}

/* Queue a message whose bytes are its number. False: 16 are under way. */
static bool enqueue(struct fixture *f)
{
    struct control_message *message = control_tx_take(&f->tx);

    if (message == NULL)
        return false;
    memset(message->bytes, 0, 16);
    memcpy(message->bytes, &f->tx.next_number, 8);
    control_tx_enqueue(&f->tx, message, FABT_KIND_PROGRESS_TX, 16, 7, 1);
    return true;
}

static void service_tx(struct fixture *f)
{
    assert_int_equal(control_tx_service(&f->tx, f->to, &f->failure), 0);
}

/* Report completion `index` to its operation, as a worker does. */
static struct op *complete(struct fixture *f, size_t index)
{
    const struct fake_completion completion = fake_take(f->net, index);
    struct op *op = completion.context;

    op_complete(op, 1, completion.len, completion.status);
    return op;
}

static void complete_all(struct fixture *f)
{
    while (f->net->flying.count > 0)
        fake_deliver(f->net, 0, 0);
    for (size_t i = 0; i < f->net->finished.count;) {
        if (f->net->finished.items[i]->kind == FAKE_TAGGED_SEND)
            complete(f, i);
        else
            i++;
    }
}

/* ---- sender ---- */

static void tags_count_modulo_64(void **state)
{
    struct fixture f;

    (void)state;
    open_fixture(&f, 0, false);
    for (unsigned i = 0; i < 200; i++) {
        assert_true(enqueue(&f));
        service_tx(&f);
        complete_all(&f);
    }
    assert_int_equal(f.sent_count, 200);
    for (unsigned i = 0; i < 200; i++)
        assert_int_equal(f.sent[i], i % 64);
    close_fixture(&f);
}

static void what_is_sent_is_what_was_queued(void **state)
{
    struct fixture f;

    (void)state;
    open_fixture(&f, FI_MR_LOCAL, true);
    for (unsigned i = 0; i < 500; i++) {
        uint8_t bytes[64];
        uint64_t number, tag;

        enqueue(&f);
        if (i % 3 == 0)
            enqueue(&f);
        service_tx(&f);
        complete_all(&f);
        while (fake_peer_receive(f.net, f.peer, bytes, sizeof(bytes), &tag) == 16) {
            memcpy(&number, bytes, 8);
            assert_int_equal(number % 64, tag);
        }
    }
    close_fixture(&f);
}

static void at_most_16_are_under_way(void **state)
{
    struct fixture f;

    (void)state;
    open_fixture(&f, 0, false);
    for (unsigned i = 0; i < 16; i++)
        assert_true(enqueue(&f));
    assert_false(enqueue(&f)); /* queued ones count */
    service_tx(&f);
    assert_int_equal(f.sent_count, 16);
    assert_false(enqueue(&f)); /* and posted ones */
    assert_false(control_tx_idle(&f.tx));
    complete_all(&f);
    service_tx(&f);
    assert_true(control_tx_idle(&f.tx));
    assert_true(enqueue(&f));
    service_tx(&f);
    close_fixture(&f);
}

/* A completed message stays until those before it have completed. */
static void messages_come_back_in_posting_order(void **state)
{
    struct fixture f;

    (void)state;
    open_fixture(&f, 0, false);
    for (unsigned i = 0; i < 16; i++)
        enqueue(&f);
    service_tx(&f);
    while (f.net->flying.count > 0)
        fake_deliver(f.net, 0, 0);
    for (unsigned left = 15; left >= 1; left--) {
        struct op *op = complete(&f, left);

        assert_int_equal(control_earlier_pending(&f.tx.posted, op), left);
        service_tx(&f);
        assert_false(enqueue(&f));
    }
    assert_int_equal(control_earlier_pending(&f.tx.posted, complete(&f, 0)), 0);
    service_tx(&f);
    assert_true(control_tx_idle(&f.tx));
    close_fixture(&f);
}

/* The rule in the protocol's words: a countdown from 0, decremented at every service; when due, it
 * waits for more than one ready message and more than one free place, puts the first ready message
 * behind the others, and starts again from 3. */
static void rotation_follows_the_rule(void **state)
{
    struct dice dice = {10};
    uint64_t expected[4096];
    size_t expected_count = 0;
    unsigned countdown = 0, rotations = 0;
    struct fixture f;

    (void)state;
    open_fixture(&f, 0, true);
    for (unsigned round = 0; round < 1000; round++) {
        uint64_t ready[16];
        unsigned count = 0, n = 1 + dice_below(&dice, 3);

        for (; n > 0 && f.tx.next_number < 4000; n--) {
            ready[count++] = f.tx.next_number % 64;
            assert_true(enqueue(&f));
        }
        if (countdown > 0) {
            countdown--;
        } else if (count > 1) { /* all 16 places are free here */
            const uint64_t first = ready[0];

            memmove(ready, ready + 1, (count - 1) * sizeof(ready[0]));
            ready[count - 1] = first;
            countdown = 3;
            rotations++;
        }
        for (unsigned i = 0; i < count; i++)
            expected[expected_count++] = ready[i];
        service_tx(&f);
        complete_all(&f);
        assert_int_equal(f.sent_count, expected_count);
        assert_memory_equal(f.sent, expected, expected_count * sizeof(expected[0]));
    }
    assert_true(rotations > 100);
    close_fixture(&f);
}

static void tag_1_may_precede_tag_0(void **state)
{
    struct fixture f;

    (void)state;
    open_fixture(&f, 0, true);
    enqueue(&f);
    enqueue(&f);
    service_tx(&f);
    assert_int_equal(f.sent[0], 1);
    assert_int_equal(f.sent[1], 0);
    close_fixture(&f);
}

/* With 16 messages in all, as many places are free as messages can be ready: it is the second
 * message that a due rotation waits for. */
static void a_due_rotation_waits_for_a_second_message(void **state)
{
    struct fixture f;

    (void)state;
    open_fixture(&f, 0, true);
    for (unsigned i = 0; i < 20; i++) {
        assert_true(enqueue(&f));
        service_tx(&f);
        complete_all(&f);
    }
    enqueue(&f);
    enqueue(&f);
    enqueue(&f);
    service_tx(&f);
    for (unsigned i = 0; i < 20; i++)
        assert_int_equal(f.sent[i], i);
    assert_int_equal(f.sent[20], 21);
    assert_int_equal(f.sent[21], 22);
    assert_int_equal(f.sent[22], 20);
    close_fixture(&f);
}

static void without_disorder_nothing_rotates(void **state)
{
    struct fixture f;

    (void)state;
    open_fixture(&f, 0, false);
    for (unsigned round = 0; round < 100; round++) {
        for (unsigned i = 0; i < 3; i++)
            enqueue(&f);
        service_tx(&f);
        complete_all(&f);
    }
    for (size_t i = 0; i < f.sent_count; i++)
        assert_int_equal(f.sent[i], i % 64);
    close_fixture(&f);
}

static void a_deferred_message_is_sent_later_once(void **state)
{
    struct fixture f;

    (void)state;
    open_fixture(&f, 0, false);
    for (unsigned i = 0; i < 5; i++)
        enqueue(&f);
    f.refuse = -FI_EAGAIN;
    for (unsigned i = 0; i < 10; i++)
        assert_int_equal(control_tx_service(&f.tx, f.to, &f.failure), -FI_EAGAIN);
    assert_int_equal(f.endpoint.counts.deferred, 1); /* once an operation */
    assert_int_equal(f.endpoint.counts.posted, 0);
    f.refuse = 0;
    service_tx(&f);
    assert_int_equal(f.sent_count, 5);
    for (unsigned i = 0; i < 5; i++)
        assert_int_equal(f.sent[i], i);
    assert_int_equal(f.failure.code, 0);
    close_fixture(&f);
}

static void a_refused_message_is_a_failure(void **state)
{
    struct fixture f;

    (void)state;
    open_fixture(&f, 0, false);
    enqueue(&f);
    f.refuse = -FI_ENOTCONN;
    assert_int_equal(control_tx_service(&f.tx, f.to, &f.failure), -FI_ENOTCONN);
    assert_int_equal(f.failure.code, -FI_ENOTCONN);
    assert_true(f.failure.peer_lost);
    assert_says(f.failure.text, "progress_tx");
    close_fixture(&f);
}

/* ---- receiver ---- */

static void sixty_four_receives_are_posted_in_tag_order(void **state)
{
    struct fixture f;

    (void)state;
    open_fixture(&f, FI_MR_LOCAL | FI_MR_ENDPOINT, false);
    assert_int_equal(control_rx_service(&f.rx, &f.failure), 0);
    assert_int_equal(f.net->receives.count, 64);
    for (unsigned i = 0; i < 64; i++)
        assert_int_equal(f.net->receives.items[i]->tag, i);
    assert_null(control_rx_head(&f.rx));
    assert_int_equal(control_rx_service(&f.rx, &f.failure), 0);
    assert_int_equal(f.attempts, 64);
    close_fixture(&f);
}

/* 2,000 messages, up to 16 in flight, arriving and completing in any order. */
static void messages_are_taken_in_tag_order(void **state)
{
    struct dice dice = {11};
    uint64_t sent = 0, taken = 0, disorder = 0;
    struct fixture f;

    (void)state;
    open_fixture(&f, 0, false);
    while (taken < 2000) {
        struct control_message *message;

        assert_int_equal(control_rx_service(&f.rx, &f.failure), 0);
        while (sent < 2000 && sent - taken < 16) {
            fake_peer_send_tagged(f.net, fake_id(&f.endpoint.address), sent % 64, &sent, 8);
            sent++;
        }
        if (f.net->flying.count > 0)
            fake_deliver(f.net, dice_below(&dice, (uint32_t)f.net->flying.count), 0);
        if (f.net->finished.count > 0 && dice_chance(&dice, 60)) {
            struct op *op = complete(&f, dice_below(&dice, (uint32_t)f.net->finished.count));

            disorder += control_earlier_pending(&f.rx.posted, op) > 0;
        }
        while ((message = control_rx_head(&f.rx)) != NULL) {
            uint64_t number;

            memcpy(&number, message->bytes, 8);
            assert_int_equal(number, taken);
            assert_int_equal(message->op.position, taken);
            assert_int_equal(message->op.got, 8);
            control_rx_release(&f.rx);
            taken++;
        }
    }
    assert_true(disorder > 500);
    close_fixture(&f);
}

static void a_receive_is_posted_again_only_when_released(void **state)
{
    struct fixture f;

    (void)state;
    open_fixture(&f, 0, false);
    control_rx_service(&f.rx, &f.failure);
    fake_peer_send_tagged(f.net, fake_id(&f.endpoint.address), 0, "x", 1);
    fake_deliver(f.net, 0, 0);
    complete(&f, 0);
    control_rx_service(&f.rx, &f.failure);
    assert_int_equal(f.net->receives.count, 63);
    assert_non_null(control_rx_head(&f.rx));
    assert_non_null(control_rx_head(&f.rx)); /* looking does not take it */
    control_rx_release(&f.rx);
    assert_null(control_rx_head(&f.rx));
    control_rx_service(&f.rx, &f.failure);
    assert_int_equal(f.net->receives.count, 64);
    assert_int_equal(f.net->receives.items[63]->tag, 0); /* number 64 */
    close_fixture(&f);
}

static void deferred_receives_keep_their_order(void **state)
{
    struct fixture f;

    (void)state;
    open_fixture(&f, 0, false);
    f.refuse = -FI_EAGAIN;
    for (unsigned i = 0; i < 5; i++)
        assert_int_equal(control_rx_service(&f.rx, &f.failure), -FI_EAGAIN);
    assert_int_equal(f.failure.code, 0);
    f.refuse = 0;
    assert_int_equal(control_rx_service(&f.rx, &f.failure), 0);
    for (unsigned i = 0; i < 64; i++)
        assert_int_equal(f.net->receives.items[i]->tag, i);
    assert_int_equal(f.endpoint.counts.deferred, 1);
    close_fixture(&f);
}

static void a_message_too_long_ends_in_an_error(void **state)
{
    const uint8_t bytes[8 + 24 * 40] = {0};
    struct fixture f;
    struct op *op;

    (void)state;
    open_fixture(&f, 0, false);
    control_rx_service(&f.rx, &f.failure);
    fake_peer_send_tagged(f.net, fake_id(&f.endpoint.address), 0, bytes, sizeof(bytes));
    fake_deliver(f.net, 0, 0);
    op = complete(&f, 0);
    assert_int_equal(op->status, -FI_ETRUNC);
    control_failed(op, &f.failure);
    assert_says(f.failure.text, "vector_rx");
    assert_int_equal(f.failure.code, -FI_ETRUNC);
    assert_false(f.failure.peer_lost); /* it is there, and misbehaves */
    close_fixture(&f);
}

/* ---- endpoint ---- */

static void closing_abandons_what_is_posted(void **state)
{
    struct fixture f;

    (void)state;
    open_fixture(&f, 0, false);
    control_rx_service(&f.rx, &f.failure);
    enqueue(&f);
    service_tx(&f);
    assert_int_equal(f.endpoint.outstanding, 65);
    assert_int_equal(endpoint_close(&f.endpoint), 0);
    assert_int_equal(f.endpoint.outstanding, 0);
    assert_true(f.endpoint.closed);
    assert_int_equal(endpoint_close(&f.endpoint), 0); /* twice is harmless */
    close_fixture(&f);
}

static void cancelling_ends_each_operation(void **state)
{
    struct fixture f;

    (void)state;
    open_fixture(&f, 0, false);
    control_rx_service(&f.rx, &f.failure);
    enqueue(&f);
    service_tx(&f);
    endpoint_cancel(&f.endpoint);
    assert_int_equal(f.net->finished.count, 65);
    while (f.net->finished.count > 0) {
        struct op *op = complete(&f, 0);

        assert_int_equal(op->status, -FI_ECANCELED);
        assert_true(op->cancelled);
    }
    assert_int_equal(f.endpoint.outstanding, 0);
    assert_int_equal(f.endpoint.counts.completed, f.endpoint.counts.posted);
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tags_count_modulo_64),
        cmocka_unit_test(what_is_sent_is_what_was_queued),
        cmocka_unit_test(at_most_16_are_under_way),
        cmocka_unit_test(messages_come_back_in_posting_order),
        cmocka_unit_test(rotation_follows_the_rule),
        cmocka_unit_test(tag_1_may_precede_tag_0),
        cmocka_unit_test(a_due_rotation_waits_for_a_second_message),
        cmocka_unit_test(without_disorder_nothing_rotates),
        cmocka_unit_test(a_deferred_message_is_sent_later_once),
        cmocka_unit_test(a_refused_message_is_a_failure),
        cmocka_unit_test(sixty_four_receives_are_posted_in_tag_order),
        cmocka_unit_test(messages_are_taken_in_tag_order),
        cmocka_unit_test(a_receive_is_posted_again_only_when_released),
        cmocka_unit_test(deferred_receives_keep_their_order),
        cmocka_unit_test(a_message_too_long_ends_in_an_error),
        cmocka_unit_test(closing_abandons_what_is_posted),
        cmocka_unit_test(cancelling_ends_each_operation),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
