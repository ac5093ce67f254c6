/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Description: put's side of a session against a scripted get: what it says and when; how it
 * gathers, splits and waits; the deliberate progress splitting; the end of the stream; and what it
 * does about a get that is refused, older, hostile, broken or silent. */
#include "rig.h"

#include "fake_clock.h"
#include "stream.h"

enum { KEY = 77, MEMORY = 1 << 20 };

#define BASE UINT64_C(0x7000000000)

struct script {
    struct rig rig;
    uint8_t *memory;  /* what get offers, one segment after the other */
    uint64_t offered; /* bytes of it */
    uint64_t vectors; /* messages sent */
    uint32_t put;     /* id of put's endpoint */
    struct wire_initial initial;
};

static const struct rig_setup plain = {
    .seed = 1, .order = RIG_FIRST, .total_bytes = 7600000, .put = FAKE_LIMITS, .get = FAKE_LIMITS};

/* Up to put's initial message. */
static void say_hello(struct script *script, const struct rig_setup *setup)
{
    memset(script, 0, sizeof(*script));
    script->memory = calloc(1, MEMORY);
    assert_non_null(script->memory);
    rig_open(&script->rig, setup);
    fake_peer_expose(script->rig.net, KEY, BASE, script->memory, MEMORY);
    rig_start_put(&script->rig);
    rig_read_initial(&script->rig, &script->initial);
    script->put = fake_id(&script->initial.address);
}

static void acknowledge(struct script *script, bool extended)
{
    const struct wire_ack ack = {
        .address = fake_address(script->rig.script),
        .extended = extended,
        .extension = script->initial.extension,
    };
    uint8_t bytes[516];

    wire_encode_ack(&ack, bytes);
    fake_peer_send(script->rig.net, script->put, bytes, sizeof(bytes));
    rig_settle(&script->rig);
}

/* The handshake. */
static void start(struct script *script, const struct rig_setup *setup)
{
    say_hello(script, setup);
    acknowledge(script, true);
    assert_int_equal(script->rig.put.session->phase, FABT_PHASE_TRANSFER);
}

static void end(struct script *script)
{
    rig_close(&script->rig);
    free(script->memory);
}

static struct session *put_of(const struct script *script)
{
    return script->rig.put.session;
}

static void send_vector(struct script *script, const void *bytes, size_t len)
{
    fake_peer_send_tagged(script->rig.net, script->put, script->vectors++ % 64, bytes, len);
}

/* A vector by hand; `surplus` more segments than it says. */
static void offer(struct script *script, const uint64_t *lengths, uint32_t count, uint32_t surplus)
{
    uint8_t bytes[8 + 24 * 13] = {0};
    uint64_t key = KEY;

    memcpy(bytes, &count, 4);
    for (uint32_t i = 0; i < count; i++) {
        const uint64_t addr = BASE + script->offered;

        memcpy(bytes + 8 + 24 * i, &addr, 8);
        memcpy(bytes + 8 + 24 * i + 8, &lengths[i], 8);
        memcpy(bytes + 8 + 24 * i + 16, &key, 8);
        script->offered += lengths[i];
        assert_true(script->offered <= MEMORY);
    }
    send_vector(script, bytes, 8 + 24 * (size_t)(count + surplus));
}

#define OFFER(script, ...)                         \
    offer(script, (const uint64_t[]){__VA_ARGS__}, \
          sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t), 0)

static void offer_nothing_more(struct script *script)
{
    offer(script, NULL, 0, 0);
}

/* The next progress message. False: none has come. */
static bool read_progress(struct script *script, uint64_t *filled, uint64_t *leftover)
{
    uint8_t bytes[64];
    uint64_t tag;

    if (fake_peer_receive(script->rig.net, script->rig.script, bytes, sizeof(bytes), &tag) != 16)
        return false;
    memcpy(filled, bytes, 8);
    memcpy(leftover, bytes + 8, 8);
    return true;
}

static void assert_progress(struct script *script, uint64_t filled, uint64_t leftover)
{
    uint64_t f = 0, l = 0;

    assert_true(read_progress(script, &f, &l));
    assert_int_equal(f, filled);
    assert_int_equal(l, leftover);
}

static void assert_failed(struct script *script, const char *text)
{
    rig_settle(&script->rig);
    rig_pass(&script->rig, 3000);
    assert_true(session_closed(put_of(script)));
    assert_int_equal(put_of(script)->outcome, FABT_OUTCOME_FAILED);
    assert_says(put_of(script)->failure.text, text);
}

/* Closed, and well: the outcome alone is 0 from the start. */
static void assert_ended_well(struct script *script)
{
    rig_pass(&script->rig, 1000);
    if (put_of(script)->failure.code != 0)
        fail_msg("%s", put_of(script)->failure.text);
    assert_true(session_closed(put_of(script)));
    assert_int_equal(put_of(script)->outcome, FABT_OUTCOME_OK);
}

/* ---- handshake ---- */

static void the_initial_message_says_who_and_what(void **state)
{
    struct script script;
    const struct wire_initial *initial = &script.initial;

    (void)state;
    say_hello(&script, &plain);
    assert_int_equal(initial->nonce[0] | initial->nonce[1], 0);
    assert_int_equal(initial->nsources, 1);
    assert_int_equal(initial->id, 0);
    assert_int_equal(initial->address.len, 16);
    assert_memory_equal(initial->address.raw, put_of(&script)->endpoint.address.raw, 16);
    assert_true(initial->extended);
    assert_int_equal(initial->extension.version, 1);
    assert_int_equal(initial->extension.total_bytes, 7600000);
    assert_int_equal(initial->extension.run_id, 0x1234);
    end(&script);
}

/* The receives come first, get may answer at once: while they are deferred nothing is sent. */
static void the_reply_has_a_receive_before_the_hello(void **state)
{
    struct rig rig;

    (void)state;
    rig_open(&rig, &plain);
    rig.refuse = -FI_EAGAIN;
    rig.only_receives = true;
    rig_start_put(&rig);
    assert_true(session_due(rig.put.session));
    session_service(rig.put.session, fake_now);
    assert_int_equal(rig.net->flying.count, 0);
    assert_true(session_due(rig.put.session));
    rig.refuse = 0;
    session_service(rig.put.session, fake_now);
    assert_int_equal(rig.net->receives.count, 65);
    assert_int_equal(rig.net->receives.items[64]->kind, FAKE_RECEIVE);
    assert_int_equal(rig.net->flying.count, 1);
    rig_close(&rig);
}

/* Nothing is posted, so no completion will come: the next service closes it. */
static void a_session_with_nothing_posted_is_cancelled_at_once(void **state)
{
    struct rig rig;

    (void)state;
    rig_open(&rig, &plain);
    rig.refuse = -FI_EAGAIN;
    rig_start_put(&rig);
    session_service(rig.put.session, fake_now);
    session_cancel(rig.put.session, fake_now);
    assert_true(session_due(rig.put.session));
    session_service(rig.put.session, fake_now);
    assert_true(session_closed(rig.put.session));
    assert_int_equal(rig.put.session->outcome, FABT_OUTCOME_CANCELLED);
    rig_close(&rig);
}

/* Exactly one, whatever happens. */
static void one_initial_message_a_session(void **state)
{
    struct script script;
    uint8_t bytes[600];
    uint64_t tag;

    (void)state;
    start(&script, &plain);
    OFFER(&script, 37, 31, 29);
    rig_settle(&script.rig);
    assert_int_equal(
        fake_peer_receive(script.rig.net, script.rig.listener, bytes, sizeof(bytes), &tag), -1);
    end(&script);
}

/* A vector that overtakes the acknowledgement, too, finds its receive: what arrives unexpected some
 * providers mix up with that of other sessions. */
static void vector_receives_are_posted_before_the_hello(void **state)
{
    struct script script;

    (void)state;
    say_hello(&script, &plain);
    assert_int_equal(script.rig.net->receives.count, 65);
    for (size_t i = 0; i < 64; i++)
        assert_int_equal(script.rig.net->receives.items[i]->tag, i);
    end(&script);
}

static void an_older_get_is_served_with_the_defaults(void **state)
{
    struct script script;

    (void)state;
    say_hello(&script, &plain);
    acknowledge(&script, false);
    OFFER(&script, 37, 31, 29);
    rig_settle(&script.rig);
    assert_memory_equal(script.memory, stream_table, 76);
    end(&script);
}

static void an_older_get_can_not_do_other_totals(void **state)
{
    struct rig_setup setup = plain;
    struct script script;

    (void)state;
    setup.total_bytes = 1000;
    say_hello(&script, &setup);
    acknowledge(&script, false);
    assert_failed(&script, "older");
    assert_says(put_of(&script)->failure.text, "--total");
    end(&script);
}

static void a_refusal_is_passed_on_with_its_reason(void **state)
{
    struct wire_ack ack = {.extended = true};
    uint8_t bytes[516];
    struct script script;

    (void)state;
    say_hello(&script, &plain);
    ack.address = fake_address(script.rig.listener);
    ack.extension = script.initial.extension;
    ack.extension.status = WIRE_REFUSED_SESSIONS;
    wire_encode_ack(&ack, bytes);
    fake_peer_send(script.rig.net, script.put, bytes, sizeof(bytes));
    rig_settle(&script.rig);
    rig_pass(&script.rig, 3000);
    assert_int_equal(put_of(&script)->outcome, FABT_OUTCOME_REFUSED);
    assert_says(put_of(&script)->failure.text, wire_status_text(WIRE_REFUSED_SESSIONS));
    end(&script);
}

static void a_malformed_reply_fails_the_session(void **state)
{
    static const struct {
        size_t len;
        uint32_t addrlen;
        const char *says;
    } cases[] = {
        {515, 16, "516"},     {0, 16, "516"},    {517, 16, "cknowledgement"},
        {516, 0, "length"},   {516, 513, "513"}, {516, UINT32_MAX, "length"},
        {516, 16, "address"}, /* an address that leads nowhere */
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        uint8_t bytes[600] = {0};
        struct script script;

        say_hello(&script, &plain);
        memcpy(bytes, &cases[i].addrlen, 4);
        fake_peer_send(script.rig.net, script.put, bytes, cases[i].len);
        if (cases[i].len == 517) {
            /* longer than the receive: the provider says so */
            rig_settle(&script.rig);
            rig_pass(&script.rig, 3000);
            assert_int_equal(put_of(&script)->outcome, FABT_OUTCOME_FAILED);
        } else {
            assert_failed(&script, cases[i].says);
        }
        end(&script);
    }
}

/* ---- gathering ---- */

/* Vectors of any shape, in any order of arrival, any limits: the witness checks each write, and at
 * the end all bytes are where get offered memory for them. */
static void feed_at_random(const struct rig_setup *setup)
{
    struct script script;
    struct dice dice = {setup->seed ^ 0x5555};
    uint64_t filled = 0, f = 0, left = 1;

    start(&script, setup);
    for (unsigned quiet = 0; filled < setup->total_bytes;) {
        /* keep at most 16 vectors unread, as a get does */
        if (script.vectors < script.rig.watch.next_here + 16 && dice_chance(&dice, 30) &&
            script.offered < filled + 3000) {
            uint64_t lengths[12];
            const uint32_t count = 1 + dice_below(&dice, 12);

            for (uint32_t i = 0; i < count; i++)
                lengths[i] = 1 + dice_below(&dice, dice_chance(&dice, 50) ? 100 : 8);
            offer(&script, lengths, count, dice_below(&dice, 13 - count + 1));
        }
        rig_step(&script.rig);
        while (read_progress(&script, &f, &left)) {
            filled += f;
            quiet = 0;
        }
        if (++quiet > 20000)
            rig_pass(&script.rig, 10);
        if (put_of(&script)->failure.code != 0)
            fail_msg("seed %llu: %s", (unsigned long long)setup->seed,
                     put_of(&script)->failure.text);
        assert_true(quiet < 40000);
    }
    for (uint64_t i = 0; i < setup->total_bytes; i++)
        assert_int_equal(script.memory[i], stream_byte(i));
    offer_nothing_more(&script);
    rig_settle(&script.rig);
    while (read_progress(&script, &f, &left))
        filled += f;
    assert_ended_well(&script);
    assert_int_equal(filled, setup->total_bytes);
    watch_check_end(&script.rig.watch, setup->total_bytes);
    end(&script);
}

static void any_vectors_are_filled_in_order(void **state)
{
    static const uint32_t limits[] = {1, 2, 4, 12};

    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct rig_setup setup = plain;

        setup.seed = seed;
        setup.order = (enum rig_order)(seed % RIG_ORDERS);
        setup.total_bytes = 5000;
        setup.contiguous = seed % 5 == 0;
        setup.reregister = seed % 3 == 0;
        setup.eagain_percent = seed % 4 * 15;
        setup.put.tx_iov = limits[seed % 4];
        setup.put.rma_iov = limits[seed / 4 % 4];
        feed_at_random(&setup);
    }
}

/* Offer without letting anything complete, and look at the writes. */
static void assert_write(const struct script *script, size_t index, size_t local, size_t remote,
                         size_t len)
{
    const struct fake_list *flying = &script->rig.net->flying;

    assert_true(index < flying->count);
    assert_int_equal(flying->items[index]->kind, FAKE_WRITE);
    assert_int_equal(flying->items[index]->iov_count, local);
    assert_int_equal(flying->items[index]->rma_count, remote);
    assert_int_equal(flying->items[index]->len, len);
}

/* Vectors arrive and are reported; writes stay where they are. */
static void take_vectors_only(struct script *script)
{
    struct rig *rig = &script->rig;

    rig_deliver_vectors(rig);
    while (rig->net->finished.count > 0)
        rig_report(rig, 0);
    rig_service_put(rig);
}

static void whole_buffers_are_gathered(void **state)
{
    struct script script;

    (void)state;
    start(&script, &plain);
    OFFER(&script, 37, 31, 29, 23, 100);
    take_vectors_only(&script);
    assert_write(&script, 0, 4, 4, 120); /* 37 + 31 + 29 + 23, at the limit of 4 */
    assert_write(&script, 1, 1, 1, 37);  /* with one segment at hand, one on each side */
    assert_write(&script, 2, 1, 1, 31);
    assert_write(&script, 3, 1, 1, 29);
    assert_int_equal(script.rig.net->flying.count, 4); /* 23 does not fit into 3 */
    end(&script);
}

static void a_buffer_waits_while_others_are_in_flight(void **state)
{
    struct script script;

    (void)state;
    start(&script, &plain);
    OFFER(&script, 37, 10);
    take_vectors_only(&script);
    assert_write(&script, 0, 1, 1, 37);
    assert_int_equal(script.rig.net->flying.count, 1); /* 31 does not fit into 10 */
    OFFER(&script, 21);
    take_vectors_only(&script);
    assert_int_equal(script.rig.net->flying.count, 2);
    assert_write(&script, 1, 1, 2, 31); /* 10 + 21 */
    end(&script);
}

static void a_buffer_is_split_at_the_segment_limit(void **state)
{
    struct script script;

    (void)state;
    start(&script, &plain);
    OFFER(&script, 5, 5, 5, 5, 40);
    take_vectors_only(&script);
    assert_write(&script, 0, 1, 4, 20); /* 20 of 37 */
    assert_write(&script, 1, 1, 1, 17); /* the rest; 31 does not fit into 23 */
    assert_int_equal(script.rig.net->flying.count, 2);
    assert_int_equal(put_of(&script)->counts.fragments, 1);
    end(&script);
}

static void a_buffer_is_split_when_both_would_wait(void **state)
{
    struct script script;

    (void)state;
    start(&script, &plain);
    OFFER(&script, 10);
    rig_settle(&script.rig); /* no time passes: get has nothing that it could offer */
    assert_int_equal(put_of(&script)->counts.payload_bytes, 10);
    assert_int_equal(put_of(&script)->counts.fragments, 1);
    end(&script);
}

static void one_segment_a_write_with_g(void **state)
{
    struct rig_setup setup = plain;
    struct script script;

    (void)state;
    setup.contiguous = true;
    start(&script, &setup);
    OFFER(&script, 40, 30);
    take_vectors_only(&script);
    assert_write(&script, 0, 1, 1, 37);
    assert_write(&script, 1, 1, 1, 3); /* of the buffer of 31, into what is left of the 40 */
    assert_write(&script, 2, 1, 1, 28);
    assert_write(&script, 3, 1, 1, 2);
    assert_int_equal(script.rig.net->flying.count, 4);
    end(&script);
}

/* 64 buffers are in flight, nothing completes: put holds 12 segments and leaves the rest where it
 * is, with its receive not posted again. */
static void put_holds_at_most_12_segments(void **state)
{
    const uint64_t lengths[12] = {37, 31, 29, 23, 37, 31, 29, 23, 37, 31, 29, 23};
    struct script script;

    (void)state;
    start(&script, &plain);
    for (unsigned i = 0; i < 16; i++)
        offer(&script, lengths, 12, 0);
    take_vectors_only(&script);
    for (unsigned i = 0; i < 20; i++) {
        watch_service(&script.rig.watch, put_of(&script));
        session_service(put_of(&script), fake_now);
    }
    /* 64 buffers fill 64 segments; 12 more are held: 6 vectors are taken, and 4 of the 7th */
    assert_int_equal(script.rig.watch.position, 64 / 4 * 120);
    assert_int_equal(script.rig.net->receives.count, 64 - 16 + 6);
    end(&script);
}

/* Two segments whose lengths add up to 2^64 in two vectors: each is fine. */
static void lengths_that_overflow_together_are_written_to(void **state)
{
    struct script script;
    uint8_t bytes[8 + 24] = {1};
    const uint64_t len = UINT64_C(1) << 63, key = KEY;

    (void)state;
    start(&script, &plain);
    fake_peer_expose(script.rig.net, KEY, 0, script.memory, UINT64_MAX);
    memcpy(bytes + 16, &len, 8);
    memcpy(bytes + 24, &key, 8);
    send_vector(&script, bytes, sizeof(bytes));
    send_vector(&script, bytes, sizeof(bytes));
    rig_deliver_vectors(&script.rig);
    while (script.rig.net->finished.count > 0)
        rig_report(&script.rig, 0);
    rig_service_put(&script.rig);
    assert_true(script.rig.watch.position >= 37);
    end(&script);
}

/* ---- progress ---- */

static void progress_reports_what_has_completed_in_order(void **state)
{
    struct script script;
    struct fake_net *net;

    (void)state;
    start(&script, &plain);
    net = script.rig.net;
    OFFER(&script, 37);
    take_vectors_only(&script);
    OFFER(&script, 31);
    take_vectors_only(&script);
    OFFER(&script, 29);
    take_vectors_only(&script);
    assert_int_equal(net->flying.count, 3);
    fake_deliver(net, 1, 0);
    rig_report(&script.rig, 0);
    rig_service_put(&script.rig);
    assert_int_equal(net->flying.count, 2); /* nothing to report: the first is still out */
    assert_int_equal(put_of(&script)->endpoint.counts.out_of_order, 1);
    fake_deliver(net, 0, 0);
    rig_report(&script.rig, 0);
    rig_service_put(&script.rig);
    assert_int_equal(put_of(&script)->counts.reported_bytes, 37 + 31);
    assert_int_equal(put_of(&script)->counts.payload_bytes, 37 + 31);
    end(&script);
}

/* Each round one whole buffer: message 0, 2048, 4096 report half, the message after each the rest.
 */
static void every_2048th_progress_message_reports_half(void **state)
{
    static const uint64_t lengths[] = {37, 31, 29, 23};
    struct script script;
    const struct watch_direction *progress = &script.rig.watch.progress;
    uint64_t rounds = 0;

    (void)state;
    start(&script, &plain);
    for (uint64_t number = 0; number < 3 * 2048; number++) {
        const uint64_t len = lengths[rounds % 4];
        uint64_t expected = len;

        if (progress->sent <= number) {
            offer(&script, &len, 1, 0);
            rig_settle(&script.rig);
        }
        if (number % 2048 == 0)
            expected = len / 2;
        else if (number % 2048 == 1)
            expected = len - len / 2;
        assert_int_equal(progress->messages[number].a, expected);
        assert_int_not_equal(progress->messages[number].b, 0);
        rounds += number % 2048 != 0;
    }
    end(&script);
}

static void a_half_waits_for_two_bytes_and_is_rounded_down(void **state)
{
    struct script script;

    (void)state;
    start(&script, &plain);
    OFFER(&script, 1);
    rig_settle(&script.rig);
    rig_pass(&script.rig, 100);
    assert_progress(&script, 1, 1);
    OFFER(&script, 5);
    take_vectors_only(&script);
    rig_settle(&script.rig);
    rig_pass(&script.rig, 100);
    /* 2 and 3, rotated: tag 2 precedes tag 1 */
    assert_int_equal(script.rig.watch.progress.messages[1].a, 2);
    assert_int_equal(script.rig.watch.progress.messages[2].a, 3);
    end(&script);
}

/* ---- the end of the stream ---- */

static struct rig_setup short_stream(void)
{
    struct rig_setup setup = plain;

    setup.total_bytes = 97;
    return setup;
}

static void the_last_bytes_bring_the_end_of_stream(void **state)
{
    const struct rig_setup setup = short_stream();
    struct script script;

    (void)state;
    start(&script, &setup);
    OFFER(&script, 37, 31, 29);
    rig_settle(&script.rig);
    assert_int_equal(script.rig.watch.progress.sent, 2);
    assert_int_equal(script.rig.watch.progress.messages[0].a, 48);
    assert_int_not_equal(script.rig.watch.progress.messages[0].b, 0);
    assert_int_equal(script.rig.watch.progress.messages[1].a, 49);
    assert_int_equal(script.rig.watch.progress.messages[1].b, 0);
    assert_int_equal(put_of(&script)->phase, FABT_PHASE_FINISH);
    rig_pass(&script.rig, 1000);
    assert_false(session_closed(put_of(&script))); /* get has not answered */
    offer_nothing_more(&script);
    rig_settle(&script.rig);
    assert_ended_well(&script);
    end(&script);
}

/* A worker that sleeps keeps endpoints to its end; what they may still write to stays with them. */
static void a_kept_endpoint_keeps_its_buffers(void **state)
{
    struct rig_setup setup = short_stream();
    struct script script;

    (void)state;
    setup.keep_endpoint = true;
    start(&script, &setup);
    OFFER(&script, 37, 31, 29);
    rig_settle(&script.rig);
    offer_nothing_more(&script);
    rig_settle(&script.rig);
    assert_ended_well(&script);
    assert_int_equal(script.rig.net->endpoints_count, 1);
    assert_int_equal(script.rig.net->registrations_count, 64);
    assert_null(script.rig.put.reserve.free);
    assert_int_equal(session_release(put_of(&script)), 0);
    assert_int_equal(script.rig.net->endpoints_count, 0);
    assert_int_equal(script.rig.net->registrations_count, 0);
    assert_non_null(script.rig.put.reserve.free);
    end(&script);
}

static void vectors_between_the_two_ends_are_discarded(void **state)
{
    const struct rig_setup setup = short_stream();
    const uint64_t lengths[12] = {37, 31, 29, 23, 37, 31, 29, 23, 37, 31, 29, 23};
    struct script script;

    (void)state;
    start(&script, &setup);
    for (unsigned i = 0; i < 10; i++)
        offer(&script, lengths, 12, 0);
    rig_settle(&script.rig);
    for (unsigned i = 0; i < 20; i++)
        offer(&script, lengths, 1 + i % 12, 0);
    offer_nothing_more(&script);
    rig_settle(&script.rig);
    assert_ended_well(&script);
    assert_int_equal(put_of(&script)->counts.payload_bytes, 97);
    end(&script);
}

static void put_waits_for_its_own_last_send(void **state)
{
    const struct rig_setup setup = short_stream();
    struct script script;

    (void)state;
    start(&script, &setup);
    OFFER(&script, 37, 31, 29);
    take_vectors_only(&script);
    fake_deliver(script.rig.net, 0, 0); /* the write */
    rig_report(&script.rig, 0);
    rig_service_put(&script.rig); /* progress messages fly */
    offer_nothing_more(&script);
    rig_deliver_vectors(&script.rig);
    rig_report(&script.rig, 0);
    rig_service_put(&script.rig);
    assert_int_equal(put_of(&script)->phase, FABT_PHASE_FINISH);
    rig_settle(&script.rig);
    assert_int_equal(put_of(&script)->phase, FABT_PHASE_LINGER);
    end(&script);
}

static void an_early_end_of_stream_is_a_failure(void **state)
{
    struct script script;

    (void)state;
    start(&script, &plain);
    OFFER(&script, 37, 31, 29);
    rig_settle(&script.rig);
    offer_nothing_more(&script);
    assert_failed(&script, "ended the stream");
    end(&script);
}

static void a_vector_after_the_end_is_a_failure(void **state)
{
    const struct rig_setup setup = short_stream();

    (void)state;
    for (unsigned again = 0; again < 2; again++) {
        struct script script;

        start(&script, &setup);
        OFFER(&script, 37, 31, 29);
        rig_settle(&script.rig);
        offer_nothing_more(&script);
        if (again == 0)
            OFFER(&script, 37);
        else
            offer_nothing_more(&script);
        rig_deliver_vectors(&script.rig);
        while (script.rig.net->finished.count > 0)
            rig_report(&script.rig, 0);
        assert_failed(&script, "after get's end of stream");
        end(&script);
    }
}

/* ---- hostile, broken and silent peers ---- */

static void malformed_vectors_fail_the_session(void **state)
{
    static const struct {
        uint32_t count;
        size_t len;
        uint64_t first_len, first_addr;
        const char *says;
    } cases[] = {
        {13, 8 + 24 * 13, 1, 0, "13 segments"},
        {UINT32_MAX, 8 + 24 * 12, 1, 0, "segments"},
        {2, 8 + 24, 1, 0, "segments"},
        {1, 8, 1, 0, "segments"},
        {1, 7, 1, 0, "7 bytes"},
        {1, 0, 1, 0, "0 bytes"},
        {1, 8 + 23, 1, 0, "31 bytes"},
        {1, 8 + 24, 0, 0, "empty"},
        {1, 8 + 24, 2, UINT64_MAX, "overflow"},
        {0, 8 + 24 * 20, 1, 0, "vector_rx"}, /* longer than any may be: the provider says so */
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        uint8_t bytes[8 + 24 * 20];
        struct script script;

        for (size_t k = 0; k < 20; k++) {
            const uint64_t segment[3] = {0, 1, KEY};

            memcpy(bytes + 8 + 24 * k, segment, 24);
        }
        memset(bytes, 0, 8);
        memcpy(bytes, &cases[i].count, 4);
        memcpy(bytes + 8, &cases[i].first_addr, 8);
        memcpy(bytes + 16, &cases[i].first_len, 8);
        start(&script, &plain);
        OFFER(&script, 37, 31, 29);
        rig_settle(&script.rig);
        send_vector(&script, bytes, cases[i].len);
        assert_failed(&script, cases[i].says);
        end(&script);
    }
}

/* Random bytes as vectors: each ends in a failure or is harmless, none crashes. */
static void random_vectors_do_no_harm(void **state)
{
    struct dice dice = {12};

    (void)state;
    for (unsigned i = 0; i < 300; i++) {
        struct script script;

        start(&script, &plain);
        for (unsigned k = 0; k < 3; k++) {
            uint8_t bytes[8 + 24 * 14];
            const uint32_t count = dice_below(&dice, 15);

            dice_fill(&dice, bytes, sizeof(bytes));
            if (dice_chance(&dice, 80))
                memcpy(bytes, &count, 4);
            send_vector(&script, bytes,
                        dice_chance(&dice, 70) ? 8 + 24 * (size_t)dice_below(&dice, 15)
                                               : dice_below(&dice, sizeof(bytes)));
        }
        rig_settle(&script.rig);
        rig_pass(&script.rig, 65000);
        assert_true(session_closed(put_of(&script)));
        assert_int_equal(put_of(&script)->outcome, FABT_OUTCOME_FAILED);
        end(&script);
    }
}

static void a_write_that_fails_fails_the_session(void **state)
{
    static const struct {
        int status;
        bool peer_lost;
    } cases[] = {{-FI_ENOTCONN, true}, {-FI_EIO, true}, {-FI_EACCES, false}, {-FI_ECANCELED, true}};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct script script;

        start(&script, &plain);
        OFFER(&script, 37, 31, 29);
        take_vectors_only(&script);
        fake_deliver(script.rig.net, 0, cases[i].status);
        assert_failed(&script, "write");
        assert_int_equal(put_of(&script)->failure.peer_lost, cases[i].peer_lost);
        end(&script);
    }
}

static void a_key_that_is_wrong_fails_the_session(void **state)
{
    struct script script;

    (void)state;
    start(&script, &plain);
    fake_peer_expose(script.rig.net, KEY + 1, BASE, script.memory, MEMORY);
    OFFER(&script, 37, 31, 29);
    assert_failed(&script, "write");
    end(&script);
}

static void a_post_that_is_refused_fails_the_session(void **state)
{
    struct script script;

    (void)state;
    start(&script, &plain);
    OFFER(&script, 37, 31, 29);
    rig_deliver_vectors(&script.rig);
    rig_report(&script.rig, 0);
    script.rig.refuse = -FI_EIO;
    rig_service_put(&script.rig);
    script.rig.refuse = 0;
    assert_failed(&script, "write");
    end(&script);
}

static void what_can_not_be_set_up_is_given_back(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        struct rig rig;

        rig_open(&rig, &plain);
        if (i == 0)
            rig.net->refuse_register = -FI_ENOMEM;
        else
            rig.net->refuse_insert = -FI_EADDRNOTAVAIL;
        rig_start_put(&rig);
        rig_settle(&rig);
        rig_pass(&rig, 3000);
        assert_true(session_closed(rig.put.session));
        assert_int_equal(rig.put.session->outcome, FABT_OUTCOME_FAILED);
        assert_says(rig.put.session->failure.text, i == 0 ? "register" : "address");
        rig_close(&rig);
    }
}

static void no_reply_ends_in_a_time_out(void **state)
{
    struct script script;

    (void)state;
    say_hello(&script, &plain);
    rig_pass(&script.rig, 299000);
    assert_false(session_closed(put_of(&script)));
    rig_pass(&script.rig, 4000);
    assert_failed(&script, "no acknowledgement");
    assert_true(put_of(&script)->failure.peer_lost);
    end(&script);
}

static void silence_ends_in_a_time_out(void **state)
{
    struct script script;

    (void)state;
    start(&script, &plain);
    OFFER(&script, 37, 31, 29);
    rig_settle(&script.rig);
    rig_pass(&script.rig, 59000);
    assert_false(session_closed(put_of(&script)));
    rig_pass(&script.rig, 4000);
    assert_failed(&script, "--timeout");
    assert_true(put_of(&script)->failure.peer_lost);
    end(&script);
}

/* A provider that defers for ever is silence, too. */
static void deferral_without_end_ends_in_a_time_out(void **state)
{
    struct script script;

    (void)state;
    start(&script, &plain);
    script.rig.refuse = -FI_EAGAIN;
    OFFER(&script, 37, 31, 29);
    rig_settle(&script.rig);
    for (unsigned s = 0; s < 65 && !session_closed(put_of(&script)); s++) {
        fake_now += UINT64_C(1000000000);
        session_check_time(put_of(&script), fake_now);
        session_service(put_of(&script), fake_now);
    }
    script.rig.refuse = 0;
    assert_failed(&script, "--timeout");
    end(&script);
}

/* Messages without progress don't keep a session alive. */
static void chatter_does_not_keep_a_session_alive(void **state)
{
    const struct rig_setup setup = short_stream();
    struct script script;

    (void)state;
    start(&script, &setup);
    OFFER(&script, 37, 31, 29);
    rig_settle(&script.rig);
    assert_int_equal(put_of(&script)->phase, FABT_PHASE_FINISH);
    for (unsigned s = 0; s < 70 && put_of(&script)->phase < FABT_PHASE_DRAIN; s++) {
        OFFER(&script, 37); /* but never the end */
        rig_settle(&script.rig);
        rig_pass(&script.rig, 1000);
    }
    assert_failed(&script, "--timeout");
    end(&script);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_initial_message_says_who_and_what),
        cmocka_unit_test(the_reply_has_a_receive_before_the_hello),
        cmocka_unit_test(a_session_with_nothing_posted_is_cancelled_at_once),
        cmocka_unit_test(one_initial_message_a_session),
        cmocka_unit_test(vector_receives_are_posted_before_the_hello),
        cmocka_unit_test(an_older_get_is_served_with_the_defaults),
        cmocka_unit_test(an_older_get_can_not_do_other_totals),
        cmocka_unit_test(a_refusal_is_passed_on_with_its_reason),
        cmocka_unit_test(a_malformed_reply_fails_the_session),
        cmocka_unit_test(any_vectors_are_filled_in_order),
        cmocka_unit_test(whole_buffers_are_gathered),
        cmocka_unit_test(a_buffer_waits_while_others_are_in_flight),
        cmocka_unit_test(a_buffer_is_split_at_the_segment_limit),
        cmocka_unit_test(a_buffer_is_split_when_both_would_wait),
        cmocka_unit_test(one_segment_a_write_with_g),
        cmocka_unit_test(put_holds_at_most_12_segments),
        cmocka_unit_test(lengths_that_overflow_together_are_written_to),
        cmocka_unit_test(progress_reports_what_has_completed_in_order),
        cmocka_unit_test(every_2048th_progress_message_reports_half),
        cmocka_unit_test(a_half_waits_for_two_bytes_and_is_rounded_down),
        cmocka_unit_test(the_last_bytes_bring_the_end_of_stream),
        cmocka_unit_test(a_kept_endpoint_keeps_its_buffers),
        cmocka_unit_test(vectors_between_the_two_ends_are_discarded),
        cmocka_unit_test(put_waits_for_its_own_last_send),
        cmocka_unit_test(an_early_end_of_stream_is_a_failure),
        cmocka_unit_test(a_vector_after_the_end_is_a_failure),
        cmocka_unit_test(malformed_vectors_fail_the_session),
        cmocka_unit_test(random_vectors_do_no_harm),
        cmocka_unit_test(a_write_that_fails_fails_the_session),
        cmocka_unit_test(a_key_that_is_wrong_fails_the_session),
        cmocka_unit_test(a_post_that_is_refused_fails_the_session),
        cmocka_unit_test(what_can_not_be_set_up_is_given_back),
        cmocka_unit_test(no_reply_ends_in_a_time_out),
        cmocka_unit_test(silence_ends_in_a_time_out),
        cmocka_unit_test(deferral_without_end_ends_in_a_time_out),
        cmocka_unit_test(chatter_does_not_keep_a_session_alive),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
