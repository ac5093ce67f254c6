/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Description: get's side of a session against a scripted put: what it acknowledges and offers, the
 * deliberate vector splitting, how it advances over its buffers, the two ends of the stream, and
 * what it does about a put that is older, lies, breaks or falls silent. */
#include "rig.h"

#include "fake_clock.h"
#include "stream.h"

static const struct rig_setup plain = {
    .seed = 1, .order = RIG_FIRST, .total_bytes = 7600000, .put = FAKE_LIMITS, .get = FAKE_LIMITS};

struct offered {
    uint64_t addr, len, key;
};

struct script {
    struct rig rig;
    uint32_t get;                 /* id of get's endpoint */
    uint64_t progress;            /* messages sent */
    uint64_t vectors;             /* read in tag order */
    uint32_t counts[4096];        /* segments of each vector by its number */
    struct offered segments[256]; /* offered and not filled, oldest first */
    uint32_t segments_count;
    uint64_t filled;  /* bytes of the oldest */
    uint64_t written; /* bytes of the stream in get's memory */
    uint8_t ack[516];
    struct {
        bool here;
        uint8_t bytes[8 + 24 * 12];
    } pending[64]; /* vectors by tag, until those before them are here */
};

static struct session *get_of(const struct script *script)
{
    return script->rig.get.session;
}

static void take_vector(struct script *script, const uint8_t *bytes)
{
    memcpy(&script->counts[script->vectors], bytes, 4);
    for (uint32_t i = 0; i < script->counts[script->vectors]; i++)
        memcpy(&script->segments[script->segments_count++], bytes + 8 + 24 * i, 24);
    script->vectors++;
    assert_true(script->vectors < COUNT_OF(script->counts));
}

/* Read what get sent: vectors, in tag order. */
static void read_vectors(struct script *script)
{
    uint8_t bytes[8 + 24 * 12];
    uint64_t tag;
    ssize_t len;

    while ((len = fake_peer_receive(script->rig.net, script->rig.script, bytes, sizeof(bytes),
                                    &tag)) >= 0) {
        assert_true(tag < 64 && !script->pending[tag].here);
        script->pending[tag].here = true;
        memcpy(script->pending[tag].bytes, bytes, sizeof(bytes));
    }
    while (script->pending[script->vectors % 64].here) {
        script->pending[script->vectors % 64].here = false;
        take_vector(script, script->pending[script->vectors % 64].bytes);
    }
}

static void settle(struct script *script)
{
    rig_settle(&script->rig);
    read_vectors(script);
}

static struct wire_initial initial_of(const struct script *script, bool extended)
{
    return (struct wire_initial){
        .nsources = 1,
        .address = fake_address(script->rig.script),
        .extended = extended,
        .extension = {.version = 1,
                      .pattern = 1,
                      .total_bytes = script->rig.setup.total_bytes,
                      .run_id = 0x77,
                      .session = 3,
                      .pid = 4711},
    };
}

/* The handshake; get's first vectors are read. */
static void start_as(struct script *script, const struct rig_setup *setup, bool extended)
{
    struct wire_initial initial;
    uint64_t tag;

    memset(script, 0, sizeof(*script));
    rig_open(&script->rig, setup);
    initial = initial_of(script, extended);
    rig_start_get(&script->rig, &initial);
    script->get = fake_id(&get_of(script)->endpoint.address);
    rig_settle(&script->rig);
    assert_int_equal(fake_peer_receive(script->rig.net, script->rig.script, script->ack,
                                       sizeof(script->ack), &tag),
                     516);
    assert_int_equal(tag, UINT64_MAX);
    read_vectors(script);
}

static void start(struct script *script, const struct rig_setup *setup)
{
    start_as(script, setup, true);
}

static void end(struct script *script)
{
    rig_close(&script->rig);
}

/* Where a remote address leads: put's writes, without put. */
static uint8_t *memory_at(const struct script *script, const struct offered *segment)
{
    const struct fake_net *net = script->rig.net;
    const struct fake_endpoint *endpoint = fake_find_endpoint(net, script->get);
    const struct fake_mr *mr = fake_find_mr(net, endpoint->domain, segment->key);
    uint8_t *start_;

    assert_non_null(mr);
    assert_true((mr->access & FI_REMOTE_WRITE) != 0);
    start_ = (uint8_t *)(uintptr_t)mr->start;
    if ((endpoint->domain->limits->mr_mode & FI_MR_VIRT_ADDR) != 0)
        assert_ptr_equal((void *)(uintptr_t)segment->addr, start_);
    else
        assert_int_equal(segment->addr, 0);
    assert_true(segment->len <= mr->len);
    return start_;
}

/* Write the next bytes of the stream into what get offered. */
static void write_bytes(struct script *script, uint64_t bytes)
{
    while (bytes > 0) {
        const struct offered *segment = &script->segments[0];

        assert_true(script->segments_count > 0);
        memory_at(script, segment)[script->filled++] = stream_byte(script->written++);
        bytes--;
        if (script->filled == segment->len) {
            memmove(script->segments, script->segments + 1,
                    --script->segments_count * sizeof(script->segments[0]));
            script->filled = 0;
        }
    }
}

static void send_bytes(struct script *script, const void *bytes, size_t len)
{
    fake_peer_send_tagged(script->rig.net, script->get, script->progress++ % 64, bytes, len);
}

static void report(struct script *script, uint64_t filled, uint64_t leftover)
{
    const uint64_t message[2] = {filled, leftover};

    send_bytes(script, message, sizeof(message));
}

/* Write and report, and let get react. */
static void progress(struct script *script, uint64_t bytes, uint64_t leftover)
{
    write_bytes(script, bytes);
    report(script, bytes, leftover);
    settle(script);
}

static void assert_failed(struct script *script, const char *text)
{
    settle(script);
    rig_pass(&script->rig, 3000);
    assert_true(session_closed(get_of(script)));
    assert_int_equal(get_of(script)->outcome, FABT_OUTCOME_FAILED);
    assert_says(get_of(script)->failure.text, text);
}

static void assert_ended_well(struct script *script)
{
    settle(script);
    rig_pass(&script->rig, 1000);
    if (get_of(script)->failure.code != 0)
        fail_msg("%s", get_of(script)->failure.text);
    assert_true(session_closed(get_of(script)));
    assert_int_equal(get_of(script)->outcome, FABT_OUTCOME_OK);
    assert_int_equal(get_of(script)->counts.payload_bytes, get_of(script)->total_bytes);
}

/* ---- handshake ---- */

static void the_acknowledgement_says_where_and_what(void **state)
{
    struct script script;
    struct wire_ack ack;
    struct failure failure = {0};

    (void)state;
    start(&script, &plain);
    assert_int_equal(wire_decode_ack(script.ack, 516, &ack, &failure), 0);
    assert_int_equal(ack.address.len, 16);
    assert_int_equal(fake_id(&ack.address), script.get);
    assert_true(ack.extended);
    assert_int_equal(ack.extension.version, 1);
    assert_int_equal(ack.extension.status, WIRE_ACCEPTED);
    assert_int_equal(ack.extension.total_bytes, 7600000);
    assert_int_equal(ack.extension.run_id, 0x77);
    assert_int_equal(get_of(&script)->run_id, 0x77);
    assert_int_equal(get_of(&script)->peer_pid, 4711);
    end(&script);
}

static void an_older_put_gets_no_extension_and_the_defaults(void **state)
{
    static const uint8_t zero[64];
    struct rig_setup setup = plain;
    struct script script;

    (void)state;
    setup.total_bytes = 1000; /* get's own --total is not an older put's */
    start_as(&script, &setup, false);
    assert_memory_equal(script.ack + 452, zero, 64);
    assert_int_equal(get_of(&script)->total_bytes, 7600000);
    end(&script);
}

/* Progress must find a receive: they are posted before the acknowledgement is sent. */
static void progress_receives_come_before_the_acknowledgement(void **state)
{
    struct script script;
    struct wire_initial initial;

    (void)state;
    memset(&script, 0, sizeof(script));
    rig_open(&script.rig, &plain);
    initial = initial_of(&script, true);
    rig_start_get(&script.rig, &initial);
    assert_int_equal(script.rig.net->receives.count, 64);
    for (size_t i = 0; i < 64; i++)
        assert_int_equal(script.rig.net->receives.items[i]->tag, i);
    assert_int_equal(script.rig.net->flying.count, 1);
    end(&script);
}

static void the_acknowledgement_has_fibonacci_segments(void **state)
{
    static const size_t fibonacci[] = {1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89};

    (void)state;
    for (uint32_t limit = 1; limit <= 12; limit++) {
        struct rig_setup setup = plain;
        struct script script;
        struct wire_initial initial;
        const struct fake_post *ack;
        size_t left = 516;

        setup.get.tx_iov = limit;
        setup.get.mr_mode = FI_MR_LOCAL;
        memset(&script, 0, sizeof(script));
        rig_open(&script.rig, &setup);
        initial = initial_of(&script, true);
        rig_start_get(&script.rig, &initial);
        ack = script.rig.net->flying.items[0];
        assert_int_equal(ack->kind, FAKE_SEND);
        assert_int_equal(ack->iov_count, limit);
        for (size_t i = 0; i + 1 < ack->iov_count; i++) {
            assert_int_equal(ack->iov[i].iov_len, fibonacci[i]);
            left -= fibonacci[i];
        }
        assert_int_equal(ack->iov[limit - 1].iov_len, left);
        end(&script);
    }
}

static void a_deferred_handshake_goes_on_in_order(void **state)
{
    struct script script;
    struct wire_initial initial;

    (void)state;
    memset(&script, 0, sizeof(script));
    rig_open(&script.rig, &plain);
    initial = initial_of(&script, true);
    script.rig.refuse = -FI_EAGAIN;
    script.rig.only_receives = true;
    rig_start_get(&script.rig, &initial);
    assert_true(session_due(get_of(&script)));
    assert_int_equal(script.rig.net->flying.count, 0); /* no acknowledgement without receives */
    script.rig.refuse = 0;
    rig_settle(&script.rig);
    assert_int_equal(get_of(&script)->phase, FABT_PHASE_TRANSFER);
    end(&script);
}

/* ---- offers ---- */

static void three_buffers_of_37_31_29_are_offered(void **state)
{
    static const uint64_t modes[] = {0, FI_MR_VIRT_ADDR, FI_MR_PROV_KEY,
                                     FI_MR_VIRT_ADDR | FI_MR_PROV_KEY | FI_MR_ENDPOINT};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(modes); i++) {
        struct rig_setup setup = plain;
        struct script script;

        setup.get.mr_mode = modes[i];
        start(&script, &setup);
        assert_int_equal(script.vectors, 2); /* the first offers half of three */
        assert_int_equal(script.counts[0], 1);
        assert_int_equal(script.counts[1], 2);
        assert_int_equal(script.segments_count, 3);
        assert_int_equal(script.segments[0].len, 37);
        assert_int_equal(script.segments[1].len, 31);
        assert_int_equal(script.segments[2].len, 29);
        for (size_t k = 0; k < 3; k++)
            memory_at(&script, &script.segments[k]);
        assert_int_equal(script.rig.watch.vectors.disorder, 1); /* tag 1 went before tag 0 */
        end(&script);
    }
}

static void every_16th_vector_offers_half(void **state)
{
    struct script script;

    (void)state;
    start(&script, &plain);
    while (script.vectors < 100)
        progress(&script, 97, 1); /* all three come back at once */
    for (uint64_t number = 0; number < 100; number++) {
        const uint32_t expected = number % 16 == 0 ? 1 : number % 16 == 1 ? 2 : 3;

        assert_int_equal(script.counts[number], expected);
    }
    end(&script);
}

static void a_half_waits_for_a_second_buffer(void **state)
{
    struct script script;

    (void)state;
    start(&script, &plain);
    for (unsigned i = 0; i < 40; i++)
        progress(&script, script.segments[0].len, 1); /* one at a time */
    assert_int_equal(script.vectors, 42);
    for (uint64_t number = 2; number < 42; number++)
        assert_int_equal(script.counts[number], 1);
    progress(&script, script.segments[0].len + script.segments[1].len, 1);
    assert_int_equal(script.vectors, 44); /* two at hand: one, and one */
    assert_int_equal(script.counts[42], 1);
    assert_int_equal(script.counts[43], 1);
    end(&script);
}

/* Over a long run at random: get never has more than three buffers out, and never the same twice.
 */
static void three_buffers_circulate(void **state)
{
    struct dice dice = {13};
    struct script script;

    (void)state;
    start(&script, &plain);
    while (script.vectors < 4000) {
        uint64_t room = 0;

        for (uint32_t i = 0; i < script.segments_count; i++)
            room += script.segments[i].len;
        room -= script.filled;
        assert_true(script.segments_count >= 1 && script.segments_count <= 3);
        assert_true(room <= 97);
        for (uint32_t i = 1; i < script.segments_count; i++)
            assert_int_not_equal(script.segments[i].key, script.segments[0].key);
        progress(&script, 1 + dice_below(&dice, (uint32_t)room), 1);
    }
    assert_int_equal(get_of(&script)->failure.code, 0);
    assert_int_equal(get_of(&script)->counts.registrations.count, 3);
    end(&script);
}

static void each_use_is_registered_with_r(void **state)
{
    struct rig_setup setup = plain;
    struct script script;

    (void)state;
    setup.reregister = true;
    start(&script, &setup);
    for (unsigned i = 0; i < 50; i++) {
        const uint64_t key = script.segments[0].key;
        const struct fake_endpoint *endpoint = fake_find_endpoint(script.rig.net, script.get);

        progress(&script, script.segments[0].len, 1);
        assert_null(fake_find_mr(script.rig.net, endpoint->domain, key));
    }
    assert_int_equal(get_of(&script)->counts.registrations.count, 53);
    end(&script);
}

/* ---- progress and sink ---- */

static void a_buffer_in_part_is_not_offered_again(void **state)
{
    struct script script;

    (void)state;
    start(&script, &plain);
    progress(&script, 36, 1);
    assert_int_equal(script.vectors, 2);
    assert_int_equal(get_of(&script)->counts.payload_bytes, 0);
    progress(&script, 1, 1);
    assert_int_equal(script.vectors, 3);
    assert_int_equal(get_of(&script)->counts.payload_bytes, 37);
    end(&script);
}

/* The later message arrives first; it counts only after the earlier one. */
static void progress_counts_in_tag_order(void **state)
{
    struct script script;

    (void)state;
    start(&script, &plain);
    write_bytes(&script, 68);
    report(&script, 37, 1);
    report(&script, 31, 1);
    fake_deliver(script.rig.net, 1, 0);
    rig_report(&script.rig, 0);
    rig_service_get(&script.rig);
    assert_int_equal(get_of(&script)->counts.reported_bytes, 0);
    fake_deliver(script.rig.net, 0, 0);
    rig_report(&script.rig, 0);
    rig_service_get(&script.rig);
    assert_int_equal(get_of(&script)->counts.reported_bytes, 68);
    assert_int_equal(get_of(&script)->counts.payload_bytes, 68);
    end(&script);
}

static void each_wrong_byte_is_found(void **state)
{
    (void)state;
    for (uint64_t wrong = 0; wrong < 97; wrong++) {
        struct script script;
        char where[40];

        start(&script, &plain);
        for (uint64_t i = 0; i < 97; i++) {
            const struct offered segment = script.segments[0];
            const uint64_t at = script.filled;

            write_bytes(&script, 1);
            if (i == wrong)
                memory_at(&script, &segment)[at] ^= 4;
        }
        report(&script, 97, 1);
        snprintf(where, sizeof(where), "payload byte %u is", (unsigned)wrong);
        assert_failed(&script, where);
        end(&script);
    }
}

/* ---- the end of the stream ---- */

static struct rig_setup stream_of(uint64_t total)
{
    struct rig_setup setup = plain;

    setup.total_bytes = total;
    return setup;
}

static void the_end_with_the_last_bytes(void **state)
{
    const struct rig_setup setup = stream_of(50);
    struct script script;

    (void)state;
    start(&script, &setup);
    progress(&script, 50, 0); /* 37, and 13 of 31 */
    assert_int_equal(script.counts[script.vectors - 1], 0);
    assert_ended_well(&script);
    assert_int_equal(script.vectors, 3);
    end(&script);
}

static void the_end_in_a_message_of_its_own(void **state)
{
    const struct rig_setup setup = stream_of(50);
    struct script script;

    (void)state;
    start(&script, &setup);
    progress(&script, 50, 1);
    assert_int_equal(get_of(&script)->counts.payload_bytes, 50);
    assert_false(session_closed(get_of(&script)));
    assert_int_not_equal(script.counts[script.vectors - 1], 0);
    report(&script, 0, 0);
    assert_ended_well(&script);
    end(&script);
}

/* An older put: half and the end, then the rest with nleftover 1. get answers the end at once. */
static void the_rest_may_come_after_the_end(void **state)
{
    const struct rig_setup setup = stream_of(90);
    struct script script;

    (void)state;
    start(&script, &setup);
    progress(&script, 45, 0);
    assert_int_equal(script.counts[script.vectors - 1], 0);
    assert_false(session_closed(get_of(&script)));
    rig_pass(&script.rig, 1000);
    progress(&script, 45, 1);
    assert_ended_well(&script);
    assert_int_equal(script.counts[script.vectors - 1], 0); /* nothing after get's end */
    end(&script);
}

static void the_rest_is_not_waited_for_without_limit(void **state)
{
    const struct rig_setup setup = stream_of(90);
    struct script script;

    (void)state;
    start(&script, &setup);
    progress(&script, 45, 0);
    rig_pass(&script.rig, 10000);
    assert_failed(&script, "45 of 90");
    end(&script);
}

static void an_empty_stream_ends_at_once(void **state)
{
    const struct rig_setup setup = stream_of(0);
    struct script script;

    (void)state;
    start(&script, &setup);
    report(&script, 0, 0);
    assert_ended_well(&script);
    end(&script);
}

/* 10 s in which nothing arrives, but what is cancelled is reported. */
static void wait_in_silence(struct script *script)
{
    for (unsigned i = 0; i < 1000; i++) {
        fake_now += UINT64_C(10000000);
        session_check_time(get_of(script), fake_now);
        rig_service_get(&script->rig);
        while (script->rig.net->finished.count > 0)
            rig_report(&script->rig, 0);
    }
    assert_true(session_closed(get_of(script)));
}

/* All is verified; only the provider's word on get's own end of stream is missing. */
static void get_waits_for_its_last_send_but_not_for_ever(void **state)
{
    const struct rig_setup setup = stream_of(50);

    (void)state;
    for (unsigned lost = 0; lost < 3; lost++) {
        struct script script;

        start(&script, &setup);
        write_bytes(&script, 50);
        report(&script, 50, 0);
        rig_deliver_vectors(&script.rig);
        rig_report(&script.rig, 0);
        rig_service_get(&script.rig);
        assert_int_equal(script.rig.net->flying.count, 1); /* get's end */
        assert_int_equal(get_of(&script)->phase, FABT_PHASE_FINISH);
        rig_service_get(&script.rig);
        assert_int_equal(get_of(&script)->phase, FABT_PHASE_FINISH);
        if (lost == 0)
            fake_deliver(script.rig.net, 0, 0);
        else if (lost == 1)
            fake_deliver(script.rig.net, 0, -FI_ENOTCONN); /* put has gone by right */
        else
            wait_in_silence(&script);
        assert_ended_well(&script);
        end(&script);
    }
}

/* ---- lies ---- */

struct lie {
    uint64_t total;
    uint64_t honest; /* bytes written and reported before */
    uint64_t filled, leftover;
    const char *says;
};

static void lies_about_progress_fail_the_session(void **state)
{
    static const struct lie lies[] = {
        {7600000, 0, 98, 1, "98 bytes written into 97"},
        {7600000, 0, UINT64_MAX, 1, "into 97"},
        {7600000, 37, UINT64_MAX - 36, 1, "written into"}, /* the sum would be 0 */
        {7600000, 97, 98, 0, "into 97"},
        {50, 0, 51, 1, "1 bytes more"},
        {50, 0, 97, 0, "47 bytes more"},
        {50, 50, 1, 1, "1 bytes more"},
        {7600000, 37, 0, 0, "37 of 7600000"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(lies); i++) {
        const struct rig_setup setup = stream_of(lies[i].total);
        struct script script;

        start(&script, &setup);
        if (lies[i].honest > 0)
            progress(&script, lies[i].honest, 1);
        report(&script, lies[i].filled, lies[i].leftover);
        settle(&script);
        rig_pass(&script.rig, 3000);
        assert_failed(&script, lies[i].says);
        end(&script);
    }
}

static void a_second_end_is_a_failure(void **state)
{
    const struct rig_setup setup = stream_of(90);
    struct script script;

    (void)state;
    start(&script, &setup);
    progress(&script, 45, 0);
    report(&script, 0, 0);
    assert_failed(&script, "twice");
    end(&script);
}

static void progress_of_another_size_fails_the_session(void **state)
{
    static const size_t sizes[] = {0, 8, 15, 17, 32, 320};
    const uint8_t bytes[320] = {0};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        struct script script;
        char came[32];

        start(&script, &plain);
        send_bytes(&script, bytes, sizes[i]);
        snprintf(came, sizeof(came), "%zu bytes", sizes[i]);
        assert_failed(&script, came);
        end(&script);
    }
}

static void progress_too_long_for_its_receive_fails_the_session(void **state)
{
    const uint8_t bytes[2000] = {0};
    struct script script;

    (void)state;
    start(&script, &plain);
    send_bytes(&script, bytes, sizeof(bytes));
    assert_failed(&script, "progress_rx");
    end(&script);
}

static void random_progress_does_no_harm(void **state)
{
    struct dice dice = {14};

    (void)state;
    for (unsigned i = 0; i < 300; i++) {
        struct script script;

        start(&script, &plain);
        for (unsigned k = 0; k < 4; k++) {
            uint64_t message[4];

            dice_fill(&dice, message, sizeof(message));
            if (dice_chance(&dice, 60))
                message[0] = dice_below(&dice, 120);
            if (dice_chance(&dice, 60))
                message[1] = dice_below(&dice, 2);
            send_bytes(&script, message, dice_chance(&dice, 90) ? 16 : dice_below(&dice, 32));
        }
        settle(&script);
        rig_pass(&script.rig, 65000);
        assert_true(session_closed(get_of(&script)));
        assert_int_equal(get_of(&script)->outcome, FABT_OUTCOME_FAILED);
        end(&script);
    }
}

/* ---- broken and silent peers ---- */

static void silence_ends_in_a_time_out(void **state)
{
    struct script script;

    (void)state;
    start(&script, &plain);
    progress(&script, 37, 1);
    rig_pass(&script.rig, 59000);
    assert_false(session_closed(get_of(&script)));
    rig_pass(&script.rig, 4000);
    assert_failed(&script, "--timeout");
    assert_true(get_of(&script)->failure.peer_lost);
    assert_null(strstr(get_of(&script)->failure.text, "acknowledgement"));
    end(&script);
}

static void chatter_does_not_keep_a_session_alive(void **state)
{
    struct script script;

    (void)state;
    start(&script, &plain);
    for (unsigned s = 0; s < 70 && get_of(&script)->phase < FABT_PHASE_DRAIN; s++) {
        report(&script, 0, 1);
        settle(&script);
        rig_pass(&script.rig, 1000);
    }
    assert_failed(&script, "--timeout");
    end(&script);
}

static void a_vector_that_is_not_delivered_fails_the_session(void **state)
{
    struct script script;

    (void)state;
    start(&script, &plain);
    write_bytes(&script, 37);
    report(&script, 37, 1);
    rig_deliver_vectors(&script.rig);
    rig_report(&script.rig, 0);
    rig_service_get(&script.rig);
    fake_deliver(script.rig.net, 0, -FI_ECONNRESET);
    assert_failed(&script, "vector_tx");
    assert_true(get_of(&script)->failure.peer_lost);
    end(&script);
}

static void what_can_not_be_set_up_is_given_back(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        struct script script;
        struct wire_initial initial;

        memset(&script, 0, sizeof(script));
        rig_open(&script.rig, &plain);
        initial = initial_of(&script, true);
        if (i == 0)
            script.rig.net->refuse_register = -FI_ENOMEM;
        else
            memset(&initial.address.raw, 0xff, 16); /* leads nowhere */
        rig_start_get(&script.rig, &initial);
        rig_settle(&script.rig);
        rig_pass(&script.rig, 3000);
        assert_true(session_closed(get_of(&script)));
        assert_int_equal(get_of(&script)->outcome, FABT_OUTCOME_FAILED);
        assert_says(get_of(&script)->failure.text, i == 0 ? "register" : "address");
        end(&script);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_acknowledgement_says_where_and_what),
        cmocka_unit_test(an_older_put_gets_no_extension_and_the_defaults),
        cmocka_unit_test(progress_receives_come_before_the_acknowledgement),
        cmocka_unit_test(the_acknowledgement_has_fibonacci_segments),
        cmocka_unit_test(a_deferred_handshake_goes_on_in_order),
        cmocka_unit_test(three_buffers_of_37_31_29_are_offered),
        cmocka_unit_test(every_16th_vector_offers_half),
        cmocka_unit_test(a_half_waits_for_a_second_buffer),
        cmocka_unit_test(three_buffers_circulate),
        cmocka_unit_test(each_use_is_registered_with_r),
        cmocka_unit_test(a_buffer_in_part_is_not_offered_again),
        cmocka_unit_test(progress_counts_in_tag_order),
        cmocka_unit_test(each_wrong_byte_is_found),
        cmocka_unit_test(the_end_with_the_last_bytes),
        cmocka_unit_test(the_end_in_a_message_of_its_own),
        cmocka_unit_test(the_rest_may_come_after_the_end),
        cmocka_unit_test(the_rest_is_not_waited_for_without_limit),
        cmocka_unit_test(an_empty_stream_ends_at_once),
        cmocka_unit_test(get_waits_for_its_last_send_but_not_for_ever),
        cmocka_unit_test(lies_about_progress_fail_the_session),
        cmocka_unit_test(a_second_end_is_a_failure),
        cmocka_unit_test(progress_of_another_size_fails_the_session),
        cmocka_unit_test(progress_too_long_for_its_receive_fails_the_session),
        cmocka_unit_test(random_progress_does_no_harm),
        cmocka_unit_test(silence_ends_in_a_time_out),
        cmocka_unit_test(chatter_does_not_keep_a_session_alive),
        cmocka_unit_test(a_vector_that_is_not_delivered_fails_the_session),
        cmocka_unit_test(what_can_not_be_set_up_is_given_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
