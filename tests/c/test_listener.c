/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Description: get's listening endpoint gives each initial message its verdict (a session, a
 * refusal that counts, a drop that doesn't), tells a put that understands it why it is refused, and
 * is ended by no message and no peer's error. */
#include "harness.h"

#include <errno.h>

#include "fake_fabric.h"
#include "listener.h"

struct fixture {
    struct fake_net *net;
    struct fabric fabric;
    struct options options;
    struct listener listener;
    uint32_t put; /* id of a scripted put */
    int refuse;   /* what posts get */

    /* of the last poll */
    struct wire_initial initial;
    struct workload workload;
    struct failure reason;
};

static int attempt(void *argument, const struct fake_post *post)
{
    const struct fixture *f = argument;

    (void)post;
    return f->refuse;
}

static void open_with(struct fixture *f, uint32_t sessions, uint64_t mr_mode)
{
    struct fake_limits limits = FAKE_LIMITS;
    struct failure failure = {0};

    memset(f, 0, sizeof(*f));
    limits.mr_mode = mr_mode;
    f->net = fake_net_new();
    f->net->attempt = attempt;
    f->net->argument = f;
    fake_fabric_open(&f->fabric, f->net, &limits);
    f->options.role = ROLE_GET;
    f->options.sessions = f->options.local_sessions = sessions;
    f->options.limits = WORKLOAD_NO_LIMITS;
    assert_int_equal(listener_open(&f->listener, &f->fabric, &f->options, &failure), 0);
    f->put = fake_peer_open(f->net);
}

static void close_fixture(struct fixture *f)
{
    const uint64_t dropped = f->listener.dropped;

    assert_int_equal(listener_close(&f->listener), 0);
    assert_int_equal(f->listener.dropped, dropped); /* its own cancellations are no drops */
    fake_fabric_close(&f->fabric);
    fake_net_free(f->net);
}

/* A good initial message of a put of ours, to be spoilt by a test. */
static struct wire_initial good(const struct fixture *f)
{
    return (struct wire_initial){
        .nsources = f->options.sessions,
        .address = fake_address(f->put),
        .extended = true,
        .extension = {.version = 1, .pattern = 1, .total_bytes = WORKLOAD_STRESS_BYTES},
    };
}

static void send_bytes(struct fixture *f, const void *bytes, size_t len)
{
    fake_peer_send(f->net, fake_id(&f->listener.endpoint.address), bytes, len);
    fake_deliver(f->net, f->net->flying.count - 1, 0);
}

static void send_initial(struct fixture *f, const struct wire_initial *initial)
{
    uint8_t bytes[544];

    wire_encode_initial(initial, bytes);
    if (initial->extended)
        bytes[476 + 8] = initial->extension.version; /* the encoder knows only one */
    send_bytes(f, bytes, sizeof(bytes));
}

static enum listener_verdict verdict_of(struct fixture *f)
{
    f->reason = (struct failure){0};
    return listener_poll(&f->listener, &f->initial, &f->workload, &f->reason);
}

static size_t receives_posted(const struct fixture *f)
{
    return f->net->receives.count;
}

/* ---- sessions ---- */

static void a_receive_is_posted_for_each_session(void **state)
{
    struct fixture f;

    (void)state;
    open_with(&f, 64, FI_MR_LOCAL | FI_MR_ENDPOINT);
    assert_int_equal(receives_posted(&f), 64);
    assert_int_equal(verdict_of(&f), LISTENER_NOTHING);
    close_fixture(&f);
    open_with(&f, 1000, 0); /* more than the provider's queue takes at once */
    assert_true(receives_posted(&f) > 0 && receives_posted(&f) <= 256);
    close_fixture(&f);
}

static void good_messages_become_sessions(void **state)
{
    struct fixture f;

    (void)state;
    open_with(&f, 5, 0);
    for (uint32_t i = 0; i < 5; i++) {
        struct wire_initial initial = good(&f);

        initial.id = i;
        send_initial(&f, &initial);
    }
    for (uint32_t i = 0; i < 5; i++) {
        assert_int_equal(verdict_of(&f), LISTENER_ACCEPT);
        assert_int_equal(f.initial.id, i);
        assert_int_equal(fake_id(&f.initial.address), f.put);
        assert_int_equal(f.reason.code, 0);
    }
    assert_int_equal(verdict_of(&f), LISTENER_NOTHING);
    assert_int_equal(receives_posted(&f), 5); /* it goes on listening */
    close_fixture(&f);
}

/* Older puts always send 0, several processes repeat ids, and n itself is allowed. */
static void ids_may_repeat_up_to_n(void **state)
{
    static const uint32_t ids[] = {0, 0, 3, 3};
    struct fixture f;

    (void)state;
    open_with(&f, 3, 0);
    for (size_t i = 0; i < COUNT_OF(ids); i++) {
        struct wire_initial initial = good(&f);

        initial.id = ids[i];
        send_initial(&f, &initial);
        assert_int_equal(verdict_of(&f), LISTENER_ACCEPT);
    }
    close_fixture(&f);
}

static void more_messages_than_receives_are_all_seen(void **state)
{
    struct fixture f;

    (void)state;
    open_with(&f, 2, 0);
    for (unsigned i = 0; i < 20; i++) {
        const struct wire_initial one = good(&f);

        send_initial(&f, &one);
    }
    for (unsigned i = 0; i < 20; i++)
        assert_int_equal(verdict_of(&f), LISTENER_ACCEPT);
    assert_int_equal(verdict_of(&f), LISTENER_NOTHING);
    close_fixture(&f);
}

/* ---- refusals ---- */

static void assert_refused(struct fixture *f, const struct wire_initial *initial, uint8_t status,
                           const char *says)
{
    struct wire_ack ack;
    struct failure failure = {0};
    uint8_t bytes[600];
    uint64_t tag;
    ssize_t len;

    send_initial(f, initial);
    assert_int_equal(verdict_of(f), LISTENER_REFUSE);
    assert_says(f->reason.text, says);
    assert_int_equal(verdict_of(f), LISTENER_NOTHING); /* the answer is posted */
    while (f->net->flying.count > 0)
        fake_deliver(f->net, 0, 0);
    len = fake_peer_receive(f->net, f->put, bytes, sizeof(bytes), &tag);
    if (!initial->extended) {
        assert_int_equal(len, -1); /* an older put gets silence */
        return;
    }
    assert_true(listener_busy(&f->listener));
    assert_int_equal(verdict_of(f), LISTENER_NOTHING);
    assert_false(listener_busy(&f->listener));
    assert_int_equal(len, 516);
    assert_int_equal(wire_decode_ack(bytes, 516, &ack, &failure), 0);
    assert_true(ack.extended);
    assert_int_equal(ack.extension.version, 1);
    assert_int_equal(ack.extension.status, status);
}

static void what_get_does_not_do_is_refused_with_a_reason(void **state)
{
    struct fixture f;
    struct wire_initial initial;

    (void)state;
    open_with(&f, 8, FI_MR_LOCAL);
    f.options.limits.total_bytes = 1000000000;
    initial = good(&f);
    initial.nsources = 3;
    assert_refused(&f, &initial, WIRE_REFUSED_SESSIONS, "3, expected 8");
    initial = good(&f);
    initial.id = 9;
    assert_refused(&f, &initial, WIRE_REFUSED_ID, "9");
    initial = good(&f);
    initial.extension.version = 2;
    assert_refused(&f, &initial, WIRE_REFUSED_VERSION, "version 2");
    initial = good(&f);
    initial.extension.pattern = 9;
    assert_refused(&f, &initial, WIRE_REFUSED_WORKLOAD, "workload");
    initial = good(&f);
    initial.extension.workload = 77;
    assert_refused(&f, &initial, WIRE_REFUSED_WORKLOAD, "workload");
    initial = good(&f);
    initial.extension.total_bytes = 1000000001;
    assert_refused(&f, &initial, WIRE_REFUSED_SIZE, "1000000001");
    assert_int_equal(f.listener.dropped, 0);
    close_fixture(&f);
}

static void an_older_put_is_refused_in_silence(void **state)
{
    struct fixture f;
    struct wire_initial initial;

    (void)state;
    open_with(&f, 4, 0);
    initial = good(&f);
    initial.extended = false;
    initial.nsources = 1;
    assert_refused(&f, &initial, WIRE_REFUSED_SESSIONS, "1, expected 4");
    close_fixture(&f);
}

static void a_refusal_to_an_address_that_leads_nowhere_is_harmless(void **state)
{
    struct fixture f;
    struct wire_initial initial;

    (void)state;
    open_with(&f, 4, 0);
    initial = good(&f);
    initial.nsources = 1;
    memset(initial.address.raw, 0xff, 16);
    send_initial(&f, &initial);
    assert_int_equal(verdict_of(&f), LISTENER_REFUSE);
    assert_false(listener_busy(&f.listener));
    close_fixture(&f);
}

static void a_refusal_that_is_deferred_is_sent_later(void **state)
{
    struct fixture f;
    struct wire_initial initial;

    (void)state;
    open_with(&f, 4, 0);
    initial = good(&f);
    initial.nsources = 1;
    send_initial(&f, &initial);
    assert_int_equal(verdict_of(&f), LISTENER_REFUSE);
    f.refuse = -FI_EAGAIN;
    for (unsigned i = 0; i < 5; i++)
        assert_int_equal(verdict_of(&f), LISTENER_NOTHING);
    assert_true(listener_busy(&f.listener));
    assert_int_equal(f.net->flying.count, 0);
    f.refuse = 0;
    verdict_of(&f);
    assert_int_equal(f.net->flying.count, 1);
    close_fixture(&f); /* still on its way: abandoned in order */
}

/* ---- drops ---- */

static void assert_dropped(struct fixture *f, const char *says)
{
    const uint64_t before = f->listener.dropped;

    assert_int_equal(verdict_of(f), LISTENER_DROP);
    assert_says(f->reason.text, says);
    assert_int_equal(f->listener.dropped, before + 1);
}

static void assert_still_listening(struct fixture *f)
{
    const struct wire_initial initial = good(f);

    send_initial(f, &initial);
    assert_int_equal(verdict_of(f), LISTENER_ACCEPT);
}

static void messages_of_another_size_are_dropped(void **state)
{
    static const size_t sizes[] = {0, 1, 16, 543, 545, 608, 609, 4000};
    static const uint8_t bytes[4000];
    struct fixture f;

    (void)state;
    open_with(&f, 2, 0);
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        send_bytes(&f, bytes, sizes[i]);
        assert_dropped(&f, "initial message");
        assert_still_listening(&f);
    }
    close_fixture(&f);
}

static void an_address_length_out_of_range_is_dropped(void **state)
{
    static const uint32_t lengths[] = {0, 513, UINT32_MAX};
    struct fixture f;

    (void)state;
    open_with(&f, 2, 0);
    for (size_t i = 0; i < COUNT_OF(lengths); i++) {
        const struct wire_initial initial = good(&f);
        uint8_t bytes[544];

        wire_encode_initial(&initial, bytes);
        memcpy(bytes + 24, &lengths[i], 4);
        send_bytes(&f, bytes, sizeof(bytes));
        assert_dropped(&f, "length");
        assert_still_listening(&f);
    }
    close_fixture(&f);
}

static void another_token_is_dropped(void **state)
{
    static const uint64_t token[2] = {0x1122334455667788, 0x99aabbccddeeff00};
    struct fixture f;
    struct wire_initial initial;

    (void)state;
    open_with(&f, 2, 0);
    f.options.has_token = true;
    memcpy(f.options.token, token, sizeof(token));
    initial = good(&f);
    send_initial(&f, &initial); /* none */
    assert_dropped(&f, "token");
    for (unsigned bit = 0; bit < 128; bit++) {
        memcpy(initial.nonce, token, sizeof(token));
        initial.nonce[bit / 64] ^= UINT64_C(1) << bit % 64;
        send_initial(&f, &initial);
        assert_dropped(&f, "token");
    }
    memcpy(initial.nonce, token, sizeof(token));
    send_initial(&f, &initial);
    assert_int_equal(verdict_of(&f), LISTENER_ACCEPT);
    /* A wrong token is not told what else is wrong. */
    initial.nonce[0] = 0;
    initial.nsources = 99;
    send_initial(&f, &initial);
    assert_dropped(&f, "token");
    close_fixture(&f);
}

static void without_a_token_the_nonce_is_ignored(void **state)
{
    struct fixture f;
    struct wire_initial initial;

    (void)state;
    open_with(&f, 2, 0);
    initial = good(&f);
    initial.nonce[0] = initial.nonce[1] = 0x1234;
    send_initial(&f, &initial);
    assert_int_equal(verdict_of(&f), LISTENER_ACCEPT);
    close_fixture(&f);
}

/* ---- the provider's errors ---- */

static void errors_of_receives_are_one_peers(void **state)
{
    static const int errors[] = {-FI_EIO, -FI_ECONNRESET, -FI_ETRUNC};
    struct fixture f;

    (void)state;
    open_with(&f, 2, 0);
    for (size_t i = 0; i < COUNT_OF(errors); i++) {
        assert_true(fake_fail_receive(f.net, f.listener.endpoint.ep, errors[i]));
        assert_dropped(&f, "failed");
        assert_int_equal(receives_posted(&f), 2); /* posted again */
        assert_still_listening(&f);
    }
    close_fixture(&f);
}

static void errors_of_nobody_are_ignored(void **state)
{
    struct fixture f;

    (void)state;
    open_with(&f, 2, 0);
    for (unsigned i = 0; i < 5; i++) {
        fake_inject_error(f.net, f.listener.cq, -FI_ECONNREFUSED);
        assert_int_equal(verdict_of(&f), LISTENER_NOTHING);
    }
    assert_int_equal(f.listener.dropped, 0);
    assert_still_listening(&f);
    close_fixture(&f);
}

static void random_messages_do_no_harm(void **state)
{
    struct dice dice = {15};
    struct fixture f;

    (void)state;
    open_with(&f, 4, 0);
    for (unsigned i = 0; i < 5000; i++) {
        struct wire_initial initial = good(&f);
        uint8_t bytes[700];

        wire_encode_initial(&initial, bytes);
        for (unsigned k = dice_below(&dice, 20); k > 0; k--)
            bytes[dice_below(&dice, 544)] = (uint8_t)dice_next(&dice);
        send_bytes(&f, bytes, dice_chance(&dice, 80) ? 544 : dice_below(&dice, 700));
        /* The second look is for an error behind a refusal's completion. */
        if (verdict_of(&f) == LISTENER_NOTHING)
            assert_int_not_equal(verdict_of(&f), LISTENER_NOTHING);
        verdict_of(&f);
        while (f.net->flying.count > 0)
            fake_deliver(f.net, 0, 0);
    }
    verdict_of(&f);
    assert_still_listening(&f);
    close_fixture(&f);
}

static void what_can_not_be_opened_is_given_back(void **state)
{
    struct fake_limits limits = FAKE_LIMITS;
    struct fixture f;
    struct failure failure = {0};

    (void)state;
    memset(&f, 0, sizeof(f));
    limits.mr_mode = FI_MR_LOCAL;
    f.net = fake_net_new();
    f.net->refuse_register = -FI_ENOMEM;
    fake_fabric_open(&f.fabric, f.net, &limits);
    f.options.sessions = 3;
    assert_int_not_equal(listener_open(&f.listener, &f.fabric, &f.options, &failure), 0);
    assert_says(failure.text, "register");
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_receive_is_posted_for_each_session),
        cmocka_unit_test(good_messages_become_sessions),
        cmocka_unit_test(ids_may_repeat_up_to_n),
        cmocka_unit_test(more_messages_than_receives_are_all_seen),
        cmocka_unit_test(what_get_does_not_do_is_refused_with_a_reason),
        cmocka_unit_test(an_older_put_is_refused_in_silence),
        cmocka_unit_test(a_refusal_to_an_address_that_leads_nowhere_is_harmless),
        cmocka_unit_test(a_refusal_that_is_deferred_is_sent_later),
        cmocka_unit_test(messages_of_another_size_are_dropped),
        cmocka_unit_test(an_address_length_out_of_range_is_dropped),
        cmocka_unit_test(another_token_is_dropped),
        cmocka_unit_test(without_a_token_the_nonce_is_ignored),
        cmocka_unit_test(errors_of_receives_are_one_peers),
        cmocka_unit_test(errors_of_nobody_are_ignored),
        cmocka_unit_test(random_messages_do_no_harm),
        cmocka_unit_test(what_can_not_be_opened_is_given_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
