/* SPDX-License-Identifier: BSD-3-Clause */
#include "rig.h"

#include "fake_clock.h"
#include "get.h"
#include "put.h"

enum {
    STEP_NS = 1000,
    CHECK_STEPS = 500,
    QUIET_NS = 1000000,
    QUIET_MAX = 5000,   /* 5 s of nothing: more than any bounded wait, less than the time-out */
    TRIES_MAX = 200000, /* steps in which posts are tried again and again */
};

/* ---- set-up ---- */

static int attempt(void *argument, const struct fake_post *post)
{
    struct rig *rig = argument;
    const bool receive = post->kind == FAKE_RECEIVE || post->kind == FAKE_TAGGED_RECEIVE;
    int rc = rig->only_receives && !receive ? 0 : rig->refuse;

    if (rc == 0 && dice_chance(&rig->dice, rig->setup.eagain_percent))
        rc = -FI_EAGAIN;
    watch_attempt(&rig->watch, post, rc == 0);
    return rc;
}

static void open_side(struct rig *rig, struct rig_side *side, enum role role,
                      const struct fake_limits *limits)
{
    struct fi_cq_attr attr = {.wait_obj = FI_WAIT_NONE};
    struct failure failure = {0};

    side->rig = rig;
    side->options = (struct options){
        .role = role,
        .sessions = 1,
        .local_sessions = 1,
        .contiguous = role == ROLE_PUT && rig->setup.contiguous,
        .reregister = rig->setup.reregister,
        .workload = workload_default(),
        .rounds = 1,
        .timeout_ns = UINT64_C(60000000000),
        .hello_timeout_ns = UINT64_C(300000000000),
    };
    side->options.workload.total_bytes = rig->setup.total_bytes;
    fake_fabric_open(&side->fabric, rig->net, limits);
    assert_int_equal(domain_open(&side->domain, &side->fabric, 2, &failure), 0);
    assert_int_equal(fi_cq_open(side->domain.domain, &attr, &side->cq, NULL), 0);
    reserve_init(&side->reserve, buffer_stress_lengths, BUFFER_STRESS_CYCLE, 0);
}

void rig_open(struct rig *rig, const struct rig_setup *setup)
{
    memset(rig, 0, sizeof(*rig));
    rig->setup = *setup;
    rig->dice.state = setup->seed;
    rig->net = fake_net_new();
    rig->net->attempt = attempt;
    rig->net->argument = rig;
    open_side(rig, &rig->put, ROLE_PUT, &setup->put);
    open_side(rig, &rig->get, ROLE_GET, &setup->get);
    rig->listener = fake_peer_open(rig->net);
    rig->script = fake_peer_open(rig->net);
    rig->put.options.peer = fake_address(rig->listener);
    watch_open(&rig->watch);
}

static void close_side(struct rig_side *side)
{
    if (side->session != NULL) {
        session_release(side->session);
        assert_int_equal(side->session->leaks, 0);
    }
    fi_close(&side->cq->fid);
    if (side->session != NULL)
        side->session->class->destroy(side->session);
    reserve_free(&side->reserve);
    assert_int_equal(domain_close(&side->domain), 0);
    fake_fabric_close(&side->fabric);
}

void rig_close(struct rig *rig)
{
    close_side(&rig->put);
    close_side(&rig->get);
    watch_close(&rig->watch);
    fake_net_free(rig->net);
}

static void begin(struct rig_side *side)
{
    const struct session_host host = {
        .domain = &side->domain,
        .cq = side->cq,
        .reserve = &side->reserve,
        .keep_endpoint = side->rig->setup.keep_endpoint,
    };

    assert_non_null(side->session);
    side->begun = true;
    session_begin(side->session, &host, fake_now);
}

void rig_start_put(struct rig *rig)
{
    rig->put.session = put_create(&rig->put.options, &rig->put.fabric, 0, 0, 0x1234);
    watch_put(&rig->watch, rig->put.session,
              rig->setup.contiguous ? 1 : rig->put.fabric.rma_iov_limit,
              rig->put.fabric.tx_iov_limit);
    begin(&rig->put);
}

void rig_start_get(struct rig *rig, const struct wire_initial *initial)
{
    struct workload workload = workload_default();
    struct failure failure = {0};

    if (initial->extended)
        assert_int_equal(workload_from_extension(&workload, &initial->extension, &failure),
                         WIRE_ACCEPTED);
    rig->get.session = get_create(&rig->get.options, &rig->get.fabric, 0, initial, &workload);
    watch_get(&rig->watch, rig->get.session);
    begin(&rig->get);
}

/* ---- a worker's work ---- */

void rig_report(struct rig *rig, size_t index)
{
    const bool sent = rig->net->finished.items[index]->kind == FAKE_TAGGED_SEND;
    const struct fake_completion completion = fake_take(rig->net, index);
    struct op *op = completion.context;
    struct session *session;

    if (op == NULL || op->state != OP_POSTED || op->endpoint->closed) {
        rig->strays++;
        return;
    }
    session = (struct session *)((char *)op->endpoint - offsetof(struct session, endpoint));
    if (sent)
        watch_sent(&rig->watch, session);
    else if (completion.status == 0)
        watch_arrived(&rig->watch, session, op, completion.len);
    session_completed(session, op, fake_now, completion.len, completion.status);
}

static bool due(const struct rig_side *side)
{
    return side->begun && !session_closed(side->session) && session_due(side->session);
}

static void service(struct rig_side *side)
{
    if (!due(side))
        return;
    watch_service(&side->rig->watch, side->session);
    session_service(side->session, fake_now);
}

void rig_service_put(struct rig *rig)
{
    service(&rig->put);
}

void rig_service_get(struct rig *rig)
{
    service(&rig->get);
}

void rig_deliver_vectors(struct rig *rig)
{
    for (size_t i = 0; i < rig->net->flying.count;) {
        if (rig->net->flying.items[i]->owner == NULL)
            fake_deliver(rig->net, i, 0);
        else
            i++;
    }
}

static void check_time(struct rig_side *side)
{
    if (side->begun)
        session_check_time(side->session, fake_now);
}

static bool ended(const struct rig_side *side)
{
    return side->session == NULL || session_closed(side->session);
}

/* ---- one step after the other ---- */

static size_t choose(struct rig *rig, size_t count)
{
    switch (rig->setup.order) {
    case RIG_FIRST:
        return 0;
    case RIG_LAST:
        return count - 1;
    default:
        return dice_below(&rig->dice, (uint32_t)count);
    }
}

/* put's initial message has arrived: get's main thread would hand a session over now. */
static void accept(struct rig *rig)
{
    uint8_t bytes[600];
    struct wire_initial initial;
    struct failure failure = {0};
    uint64_t tag;
    ssize_t len;

    if (rig->get.session != NULL)
        return;
    len = fake_peer_receive(rig->net, rig->listener, bytes, sizeof(bytes), &tag);
    if (len < 0)
        return;
    assert_int_equal(len, 544);
    assert_int_equal(wire_decode_initial(bytes, 544, &initial, &failure), 0);
    rig_start_get(rig, &initial);
}

void rig_step(struct rig *rig)
{
    const size_t flying = rig->net->flying.count, finished = rig->net->finished.count;
    const uint32_t kind = dice_below(&rig->dice, 8);

    fake_now += STEP_NS;
    if (kind < 3 && flying > 0)
        fake_deliver(rig->net, choose(rig, flying), 0);
    else if (kind < 6 && finished > 0 && (rig->setup.order != RIG_BATCH || flying == 0))
        rig_report(rig, choose(rig, finished));
    else if (kind == 6)
        service(&rig->put);
    else
        service(&rig->get);
    accept(rig);
    if (++rig->steps % CHECK_STEPS == 0) {
        check_time(&rig->put);
        check_time(&rig->get);
    }
}

/* Nobody has anything to do: only time can go on. */
static void wait_a_moment(struct rig *rig)
{
    fake_now += QUIET_NS;
    rig->waits += rig->put.session->phase == FABT_PHASE_TRANSFER;
    check_time(&rig->put);
    check_time(&rig->get);
    service(&rig->put);
    service(&rig->get);
}

static void fail_stuck(const struct rig *rig)
{
    const struct session *put = rig->put.session, *get = rig->get.session;

    fail_msg(
        "stuck (seed %llu, order %d): put in phase %d with %llu of %llu bytes, get in phase %d "
        "with %llu",
        (unsigned long long)rig->setup.seed, rig->setup.order, put == NULL ? -1 : put->phase,
        put == NULL ? 0 : (unsigned long long)put->counts.payload_bytes,
        (unsigned long long)rig->setup.total_bytes, get == NULL ? -1 : get->phase,
        get == NULL ? 0 : (unsigned long long)get->counts.payload_bytes);
}

void rig_run(struct rig *rig)
{
    unsigned quiet = 0, tries = 0;

    while (!ended(&rig->put) || rig->get.session == NULL || !ended(&rig->get)) {
        if (rig->net->flying.count > 0 || rig->net->finished.count > 0) {
            quiet = tries = 0;
            rig_step(rig);
        } else if ((due(&rig->put) || due(&rig->get)) && ++tries < TRIES_MAX) {
            rig_step(rig);
        } else if (++quiet < QUIET_MAX) {
            accept(rig);
            wait_a_moment(rig);
        } else {
            fail_stuck(rig);
        }
    }
}

void rig_settle(struct rig *rig)
{
    for (unsigned rounds = 0;; rounds++) {
        if (rig->net->finished.count > 0)
            rig_report(rig, 0);
        else if (rig->net->flying.count > 0)
            fake_deliver(rig->net, 0, 0);
        else if ((due(&rig->put) || due(&rig->get)) && rounds < 1000000)
            rounds += 100;
        else
            return;
        service(&rig->put);
        service(&rig->get);
    }
}

void rig_pass(struct rig *rig, uint64_t ms)
{
    for (uint64_t passed = 0; passed < ms; passed += 10) {
        fake_now += 10 * UINT64_C(1000000);
        check_time(&rig->put);
        check_time(&rig->get);
        rig_settle(rig);
    }
}

void rig_read_initial(struct rig *rig, struct wire_initial *initial)
{
    uint8_t bytes[600];
    struct failure failure = {0};
    uint64_t tag;

    rig_settle(rig);
    assert_int_equal(fake_peer_receive(rig->net, rig->listener, bytes, sizeof(bytes), &tag), 544);
    assert_int_equal(tag, UINT64_MAX);
    assert_int_equal(wire_decode_initial(bytes, 544, initial, &failure), 0);
}
