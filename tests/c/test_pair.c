/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Description: a put session and a get session reach the end together, with every byte verified,
 * whatever the order in which a provider delivers and completes, however often it defers a post,
 * and whatever its limits and registration modes are. A witness (watch.h) checks each post against
 * the protocol's rules on the way. */
#include "rig.h"

#include "fake_clock.h"
#include "stream.h"

#define RIG_SETUP                                                    \
    {                                                                \
        .total_bytes = 20000, .put = FAKE_LIMITS, .get = FAKE_LIMITS \
    }

static void assert_ended_well(const struct session *session, uint64_t total)
{
    if (session->failure.code != 0)
        fail_msg("%s: %s", session->options->role == ROLE_PUT ? "put" : "get",
                 session->failure.text);
    assert_int_equal(session->outcome, FABT_OUTCOME_OK);
    assert_int_equal(session->counts.payload_bytes, total);
    assert_int_equal(session->counts.reported_bytes, total);
    assert_int_equal(session->endpoint.counts.posted, session->endpoint.counts.completed);
    assert_int_equal(session->endpoint.outstanding, 0);
    assert_true(session->start_ns > 0 && session->end_ns >= session->start_ns);
}

/* Payload buffers that a stream of so many bytes takes: 37, 31, 29, 23, ... */
static uint64_t buffers_of(uint64_t total)
{
    uint64_t count = 0;

    for (uint64_t i = 1; i < total; i++)
        count += watch_boundary(i);
    return total == 0 ? 0 : count + 1;
}

static void check_counts(const struct rig *rig)
{
    const struct session_counts *put = &rig->put.session->counts, *get = &rig->get.session->counts;
    const uint64_t buffers = buffers_of(rig->setup.total_bytes);

    assert_int_equal(put->writes, rig->watch.writes);
    assert_int_equal(put->fragments, rig->watch.splits);
    assert_int_equal(put->progresses, rig->watch.progress.sent);
    assert_int_equal(get->progresses, rig->watch.progress.sent);
    assert_int_equal(put->vectors, rig->watch.vectors.sent);
    assert_int_equal(get->vectors, rig->watch.vectors.sent);
    assert_int_equal(rig->put.session->latency.count, put->writes);
    assert_int_equal(rig->strays, 0);
    if (rig->setup.reregister) {
        assert_int_equal(put->registrations.count, buffers);
        assert_true(get->registrations.count >= 3);
    } else {
        assert_int_equal(put->registrations.count, 64);
        assert_true(get->registrations.count <= 3);
    }
}

static void run_to_the_end(const struct rig_setup *setup)
{
    struct rig rig;

    rig_open(&rig, setup);
    rig_start_put(&rig);
    rig_run(&rig);
    assert_int_equal(rig.waits, 0); /* payload never waits for a clock */
    assert_ended_well(rig.put.session, setup->total_bytes);
    assert_ended_well(rig.get.session, setup->total_bytes);
    watch_check_end(&rig.watch, setup->total_bytes);
    check_counts(&rig);
    rig_close(&rig);
}

/* ---- orders and deferrals ---- */

static void every_order_reaches_the_end(void **state)
{
    struct rig_setup setup = RIG_SETUP;

    (void)state;
    for (unsigned order = 0; order < RIG_ORDERS; order++) {
        setup.order = (enum rig_order)order;
        for (setup.seed = 1; setup.seed <= 12; setup.seed++)
            run_to_the_end(&setup);
    }
}

static void deferred_posts_reach_the_end(void **state)
{
    static const uint32_t percents[] = {10, 50, 95};
    struct rig_setup setup = RIG_SETUP;

    (void)state;
    setup.total_bytes = 6000;
    for (unsigned order = 0; order < RIG_ORDERS; order++) {
        setup.order = (enum rig_order)order;
        for (size_t i = 0; i < COUNT_OF(percents); i++) {
            setup.eagain_percent = percents[i];
            for (setup.seed = 100; setup.seed < 105; setup.seed++)
                run_to_the_end(&setup);
        }
    }
}

static void one_segment_a_write_reaches_the_end(void **state)
{
    struct rig_setup setup = RIG_SETUP;

    (void)state;
    setup.contiguous = true;
    for (unsigned order = 0; order < RIG_ORDERS; order++) {
        setup.order = (enum rig_order)order;
        setup.eagain_percent = order * 20;
        for (setup.seed = 200; setup.seed < 206; setup.seed++)
            run_to_the_end(&setup);
    }
}

static void registering_each_use_reaches_the_end(void **state)
{
    struct rig_setup setup = RIG_SETUP;

    (void)state;
    setup.reregister = true;
    for (unsigned i = 0; i < 24; i++) {
        setup.seed = 300 + i;
        setup.order = (enum rig_order)(i % RIG_ORDERS);
        setup.contiguous = i % 2 == 1;
        setup.eagain_percent = i % 3 * 30;
        setup.put.mr_mode = i % 4 < 2 ? 0 : FI_MR_LOCAL | FI_MR_PROV_KEY;
        run_to_the_end(&setup);
    }
}

/* ---- limits, modes, sizes ---- */

static void every_registration_mode_reaches_the_end(void **state)
{
    static const uint64_t modes[] = {
        0,
        FI_MR_LOCAL,
        FI_MR_VIRT_ADDR,
        FI_MR_PROV_KEY,
        FI_MR_ENDPOINT,
        FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT,
    };
    struct rig_setup setup = RIG_SETUP;

    (void)state;
    setup.order = RIG_RANDOM;
    setup.total_bytes = 6000;
    /* The two ends may differ. */
    for (size_t put = 0; put < COUNT_OF(modes); put++) {
        for (size_t get = 0; get < COUNT_OF(modes); get++) {
            setup.seed = 400 + 10 * put + get;
            setup.put.mr_mode = modes[put];
            setup.get.mr_mode = modes[get];
            run_to_the_end(&setup);
        }
    }
}

static void every_segment_limit_reaches_the_end(void **state)
{
    static const uint32_t limits[] = {1, 2, 3, 4, 8, 12};
    struct rig_setup setup = RIG_SETUP;

    (void)state;
    setup.order = RIG_RANDOM;
    setup.total_bytes = 6000;
    for (size_t tx = 0; tx < COUNT_OF(limits); tx++) {
        for (size_t rma = 0; rma < COUNT_OF(limits); rma++) {
            setup.seed = 500 + 10 * tx + rma;
            setup.put.tx_iov = setup.get.tx_iov = limits[tx];
            setup.put.rma_iov = limits[rma];
            setup.get.rx_iov = limits[(tx + rma) % COUNT_OF(limits)];
            run_to_the_end(&setup);
        }
    }
}

static void every_queue_size_reaches_the_end(void **state)
{
    static const uint32_t queues[] = {18, 20, 32, 66, 256, 0};
    struct rig_setup setup = RIG_SETUP;

    (void)state;
    setup.total_bytes = 6000;
    for (size_t put = 0; put < COUNT_OF(queues); put++) {
        for (size_t get = 0; get < COUNT_OF(queues); get++) {
            setup.seed = 700 + 10 * put + get;
            setup.order = (enum rig_order)((put + get) % RIG_ORDERS);
            setup.put.queue = queues[put];
            setup.get.queue = queues[get];
            run_to_the_end(&setup);
        }
    }
}

/* Also those that end in the middle of the pattern or of a buffer, and nothing at all. */
static void every_total_reaches_the_end(void **state)
{
    struct rig_setup setup = RIG_SETUP;

    (void)state;
    for (uint64_t total = 0; total <= 260; total++) {
        setup.seed = 600 + total;
        setup.total_bytes = total;
        setup.order = (enum rig_order)(total % RIG_ORDERS);
        setup.contiguous = total % 3 == 0;
        run_to_the_end(&setup);
    }
}

static void kept_endpoints_reach_the_end(void **state)
{
    struct rig_setup setup = RIG_SETUP;

    (void)state;
    setup.keep_endpoint = true;
    for (setup.seed = 900; setup.seed < 908; setup.seed++) {
        setup.order = (enum rig_order)(setup.seed % RIG_ORDERS);
        run_to_the_end(&setup);
    }
}

/* ---- the default run, in full ---- */

static void run_default(bool contiguous)
{
    struct rig_setup setup = RIG_SETUP;
    const struct session_counts *counts;
    struct rig rig;

    setup.total_bytes = 7600000;
    setup.order = RIG_FIRST;
    setup.seed = 42;
    setup.contiguous = contiguous;
    rig_open(&rig, &setup);
    rig_start_put(&rig);
    rig_run(&rig);
    assert_ended_well(rig.put.session, 7600000);
    assert_ended_well(rig.get.session, 7600000);
    assert_int_equal(rig.waits, 0);
    watch_check_end(&rig.watch, 7600000);
    counts = &rig.put.session->counts;
    if (contiguous) {
        /* "with -g nearly every write does: about 227,000 fragments a session" */
        assert_true(counts->fragments > 180000 && counts->fragments < 260000);
        assert_int_equal(rig.watch.most_local, 1);
        assert_int_equal(rig.watch.most_remote, 1);
    } else {
        /* "with 4 segments a write the default run hardly ever fragments" */
        assert_true(counts->fragments < counts->writes / 10);
        assert_true(rig.watch.most_local > 1);
    }
    /* the deliberate disorder of both directions */
    assert_true(rig.watch.vectors.disorder > 0);
    assert_true(rig.watch.progress.disorder > 0);
    rig_close(&rig);
}

static void the_default_run_is_as_described(void **state)
{
    (void)state;
    run_default(false);
}

static void the_default_run_with_one_segment_fragments(void **state)
{
    (void)state;
    run_default(true);
}

/* ---- ends that are not well ---- */

/* One byte in the target's memory changes between its arrival and its report. */
static void a_changed_byte_fails_the_session(void **state)
{
    struct rig_setup setup = RIG_SETUP;
    struct rig rig;
    bool changed = false;

    (void)state;
    setup.order = RIG_FIRST;
    rig_open(&rig, &setup);
    rig.net->cancel_ignores_transmits = false;
    rig_start_put(&rig);
    for (unsigned i = 0; i < 20000 && !changed; i++) {
        struct fake_list *finished = &rig.net->finished;

        for (size_t k = 0; k < finished->count && !changed; k++) {
            const struct fake_post *post = finished->items[k];

            if (post->kind != FAKE_WRITE || rig.watch.writes < 20)
                continue;
            /* A completed write: its bytes are in the target and not yet reported. */
            for (size_t r = 0; r < rig.net->registrations_count && !changed; r++) {
                struct fake_mr *mr = (struct fake_mr *)rig.net->registrations[r];

                if ((mr->access & FI_REMOTE_WRITE) != 0 && mr->fid.key == post->rma[0].key) {
                    ((uint8_t *)(uintptr_t)mr->start)[post->rma[0].addr] ^= 1;
                    changed = true;
                }
            }
        }
        rig_step(&rig);
    }
    assert_true(changed);
    rig_settle(&rig);
    rig_pass(&rig, 3000);
    assert_int_equal(rig.get.session->outcome, FABT_OUTCOME_FAILED);
    assert_says(rig.get.session->failure.text, "payload byte");
    rig_pass(&rig, 70000);
    assert_int_equal(rig.put.session->outcome, FABT_OUTCOME_FAILED);
    rig_close(&rig);
}

/* Both sides are cancelled at some moment of the run, one a little later. */
static void cancellation_at_any_moment_is_orderly(void **state)
{
    struct rig_setup setup = RIG_SETUP;

    (void)state;
    setup.order = RIG_RANDOM;
    for (unsigned at = 0; at < 1200; at += 17) {
        struct rig rig;

        setup.seed = 1000 + at;
        setup.keep_endpoint = at % 2 == 1;
        rig_open(&rig, &setup);
        rig.net->cancel_ignores_transmits = at % 3 == 0;
        rig_start_put(&rig);
        for (unsigned i = 0; i < at; i++)
            rig_step(&rig);
        session_cancel(rig.put.session, fake_now);
        for (unsigned i = 0; i < 20; i++)
            rig_step(&rig);
        if (rig.get.session != NULL)
            session_cancel(rig.get.session, fake_now);
        rig_settle(&rig);
        rig_pass(&rig, 3000);
        assert_int_equal(rig.put.session->outcome, FABT_OUTCOME_CANCELLED);
        assert_true(session_closed(rig.put.session));
        if (rig.get.session != NULL) {
            assert_true(session_closed(rig.get.session));
            assert_int_equal(rig.get.session->outcome, FABT_OUTCOME_CANCELLED);
        }
        rig_close(&rig);
    }
}

/* The peer vanishes: every transmit is lost, or nothing is ever heard again. */
static void a_peer_that_vanishes_ends_the_session(void **state)
{
    struct rig_setup setup = RIG_SETUP;

    (void)state;
    setup.order = RIG_RANDOM;
    for (unsigned at = 40; at < 1000; at += 37) {
        const bool silent = at % 2 == 0;
        struct rig rig;

        setup.seed = 2000 + at;
        rig_open(&rig, &setup);
        rig_start_put(&rig);
        for (unsigned i = 0; i < at || rig.put.session->phase < FABT_PHASE_TRANSFER; i++)
            rig_step(&rig);
        session_cancel(rig.get.session, fake_now);
        /* get is gone without a word */
        for (unsigned i = 0; i < 10000 && rig.net->flying.count > 0 && !silent; i++)
            fake_deliver(rig.net, 0, -FI_ENOTCONN);
        rig_pass(&rig, 65000);
        assert_true(session_closed(rig.put.session));
        assert_int_equal(rig.put.session->outcome, FABT_OUTCOME_FAILED);
        assert_true(rig.put.session->failure.peer_lost);
        rig_close(&rig);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_order_reaches_the_end),
        cmocka_unit_test(deferred_posts_reach_the_end),
        cmocka_unit_test(one_segment_a_write_reaches_the_end),
        cmocka_unit_test(registering_each_use_reaches_the_end),
        cmocka_unit_test(every_registration_mode_reaches_the_end),
        cmocka_unit_test(every_segment_limit_reaches_the_end),
        cmocka_unit_test(every_queue_size_reaches_the_end),
        cmocka_unit_test(every_total_reaches_the_end),
        cmocka_unit_test(kept_endpoints_reach_the_end),
        cmocka_unit_test(the_default_run_is_as_described),
        cmocka_unit_test(the_default_run_with_one_segment_fragments),
        cmocka_unit_test(a_changed_byte_fails_the_session),
        cmocka_unit_test(cancellation_at_any_moment_is_orderly),
        cmocka_unit_test(a_peer_that_vanishes_ends_the_session),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
