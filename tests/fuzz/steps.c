/* SPDX-License-Identifier: BSD-3-Clause */
#include "steps.h"

#include "fake_clock.h"

#define MS UINT64_C(1000000)

#define TIMEOUT_NS (2000 * MS)
#define HELLO_TIMEOUT_NS (5000 * MS)
/* Longer than the hello's time-out, a linger and a drain together. */
#define SILENCE_NS (12000 * MS)
/* Time that may pass without an honest peer being to blame for a time-out. */
#define PATIENCE_NS (400 * MS)

enum {
    SETTLE_MAX = 100000, /* acts within one settling; the scripts here need some thousands */
    SPIN_MAX = 64,       /* services without a post that was deferred, or news */
    MESSAGES_UNDER_WAY = 16,
};

static const int errors[] = {
    -FI_ENOTCONN, -FI_ECANCELED, -FI_EIO, -FI_EACCES, -FI_ETRUNC, -FI_ENOMEM, -FI_ETIMEDOUT, -EPIPE,
};

static int an_error(struct steps *steps)
{
    return errors[fuzz_take8(&steps->input) % COUNT_OF(errors)];
}

/* ---- set-up ---- */

/* In the rig's place: the input decides, not dice. */
static int attempt(void *argument, const struct fake_post *post)
{
    struct steps *steps = argument;
    int rc = 0;

    if (steps->refusals > 0) {
        steps->refusals--;
        steps->heard_since_through = true;
        rc = steps->refusal;
    } else if (steps->deferrals > 0) {
        steps->deferrals--;
        rc = -FI_EAGAIN;
    }
    if (steps->watching)
        watch_attempt(&steps->rig.watch, post, rc == 0);
    return rc;
}

static struct workload take_workload(struct fuzz_input *input)
{
    const uint8_t way = fuzz_take8(input);
    struct workload workload = {
        .kind = FABT_WORKLOAD_STRESS,
        .pattern = (way & 0x10) == 0,
        .depth = 4 + 4 * (fuzz_take8(input) % 16u), /* watch.h knows whole cycles of lengths */
        .total_bytes = fuzz_take16(input) % 1024u,
    };

    if (way % 8 == 6) {
        workload.kind = FABT_WORKLOAD_STREAM;
        workload.depth = 1 + workload.depth / 4 % 8;
        workload.size_bytes = 8 + fuzz_take8(input) % 200u;
    } else if (way % 8 == 7) {
        workload.kind = FABT_WORKLOAD_PINGPONG;
        workload.depth = 1;
        workload.size_bytes = 8 + fuzz_take8(input) % 200u;
    } else {
        workload.pattern = true;
    }
    return workload;
}

static struct rig_setup take_setup(struct fuzz_input *input, enum role role)
{
    static const uint64_t modes[] = {
        0,
        0,
        FI_MR_LOCAL,
        FI_MR_VIRT_ADDR,
        FI_MR_PROV_KEY,
        FI_MR_ENDPOINT,
        FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT,
    };
    const uint8_t flags = fuzz_take8(input), limits = fuzz_take8(input);
    struct rig_setup setup = {
        .contiguous = (flags & 1) != 0,
        .reregister = (flags & 2) != 0,
        .keep_endpoint = (flags & 4) != 0,
        .put = FAKE_LIMITS,
        .get = FAKE_LIMITS,
    };
    struct fake_limits *own = role == ROLE_PUT ? &setup.put : &setup.get;

    own->tx_iov = 1 + limits % 4;
    own->rma_iov = 1 + limits / 4 % 4;
    own->rx_iov = 1 + limits / 16 % 4;
    own->mr_mode = modes[fuzz_take8(input) % COUNT_OF(modes)];
    own->provider = (flags & 8) != 0 ? "udp;ofi_rxd" : "fake";
    return setup;
}

void steps_open(struct steps *steps, enum role role, const uint8_t *data, size_t size)
{
    struct rig_setup setup;

    /* cmocka's checks in the rig end the program: there is no test to leave. */
    setenv("CMOCKA_TEST_ABORT", "1", 1);
    memset(steps, 0, sizeof(*steps));
    steps->input = (struct fuzz_input){data, size};
    setup = take_setup(&steps->input, role);
    rig_open(&steps->rig, &setup);
    steps->side = role == ROLE_PUT ? &steps->rig.put : &steps->rig.get;
    steps->side->options.workload = take_workload(&steps->input);
    steps->side->options.sizes[0] = steps->side->options.workload.size_bytes;
    steps->side->options.timeout_ns = TIMEOUT_NS;
    steps->side->options.hello_timeout_ns = HELLO_TIMEOUT_NS;
    steps->rig.net->attempt = attempt;
    steps->rig.net->argument = steps;
    steps->honest = true;
}

/* ---- single acts ---- */

bool steps_room(const struct steps *steps)
{
    const struct fake_list *flying = &steps->rig.net->flying;
    unsigned count = 0;

    for (size_t i = 0; i < flying->count; i++)
        count += flying->items[i]->owner == NULL;
    return count < MESSAGES_UNDER_WAY;
}

/* A write that goes elsewhere than to what an honest get offered may succeed all the same. */
static void redirect(struct steps *steps, struct fake_post *write)
{
    for (size_t i = 0; i < write->rma_count; i++) {
        if (write->rma[i].key == STEPS_KEY && write->rma[i].addr >= STEPS_BASE &&
            write->rma[i].addr < STEPS_BASE + STEPS_MEMORY)
            continue;
        write->rma[i].key = STEPS_KEY;
        write->rma[i].addr = STEPS_BASE;
        steps->honest = false;
    }
}

static void deliver(struct steps *steps, size_t index, int status)
{
    struct fake_net *net = steps->rig.net;
    struct fake_post *post = net->flying.items[index];
    const bool write = post->kind == FAKE_WRITE;
    const size_t len = post->len, finished = net->finished.count;

    if (write && steps->permissive)
        redirect(steps, post);
    fake_deliver(net, index, status);
    if (write && net->finished.items[finished]->status == 0)
        steps->written_bytes += len;
    steps->read_letters(steps);
}

static void report(struct steps *steps, size_t index)
{
    const struct fake_post *post = steps->rig.net->finished.items[index];
    const struct session *session = steps_session(steps);
    const bool receive = post->kind == FAKE_RECEIVE || post->kind == FAKE_TAGGED_RECEIVE;

    if (receive && post->status == 0)
        steps->heard_since_through = true;
    rig_report(&steps->rig, index);
    if (!session->through)
        steps->heard_since_through = false;
}

static bool due(const struct steps *steps)
{
    const struct session *session = steps_session(steps);

    return !session_closed(session) && session_due(session);
}

static void service(struct steps *steps)
{
    const struct session *session = steps_session(steps);
    const unsigned deferrals = steps->deferrals;

    if (steps->side == &steps->rig.put)
        rig_service_put(&steps->rig);
    else
        rig_service_get(&steps->rig);
    if (!session->through)
        steps->heard_since_through = false;
    /* What was deferred is tried again without waiting for anything. */
    if (steps->deferrals < deferrals && session->phase < FABT_PHASE_FINISH)
        FUZZ_CHECK(session_due(session));
}

void steps_settle(struct steps *steps)
{
    const struct fake_net *net = steps->rig.net;
    unsigned spins = 0;

    for (unsigned acts = 0;; acts++) {
        FUZZ_CHECK(acts < SETTLE_MAX);
        if (net->finished.count > 0)
            report(steps, 0);
        else if (net->flying.count > 0)
            deliver(steps, 0, 0);
        else if (!due(steps))
            return;
        else
            FUZZ_CHECK(steps->deferrals > 0 || ++spins < SPIN_MAX);
        service(steps);
    }
}

void steps_pass(struct steps *steps, uint64_t ns)
{
    fake_now += ns;
    session_check_time(steps_session(steps), fake_now);
    service(steps);
}

/* A step of the input's that takes time. */
static void take_time(struct steps *steps)
{
    const uint64_t ns = (uint64_t)fuzz_take8(&steps->input) * 10 * MS;

    steps->passed_ns += ns;
    if (steps->passed_ns > PATIENCE_NS)
        steps->honest = false;
    steps_pass(steps, ns);
}

static void take_failed_receive(struct steps *steps)
{
    const struct session *session = steps_session(steps);
    const int error = an_error(steps);

    if (session->endpoint.ep == NULL)
        return;
    steps->honest = false;
    fake_fail_receive(steps->rig.net, session->endpoint.ep, error);
}

static void take_cancel(struct steps *steps)
{
    steps->honest = false;
    steps->cancelled = true;
    session_cancel(steps_session(steps), fake_now);
}

static void take_refusal(struct steps *steps)
{
    steps->honest = false;
    steps->refusal = an_error(steps);
    steps->refusals = 1 + fuzz_take8(&steps->input) % 4u;
}

static void take_setting(struct steps *steps)
{
    const uint8_t what = fuzz_take8(&steps->input);

    steps->honest = false;
    steps->rig.net->refuse_insert = (what & 1) != 0 ? an_error(steps) : 0;
    steps->rig.net->refuse_register = (what & 2) != 0 ? an_error(steps) : 0;
    steps->rig.net->cancel_ignores_transmits = (what & 4) != 0;
    steps->permissive = (what & 8) != 0;
    steps->mute = (what & 16) != 0;
}

void steps_take(struct steps *steps, uint32_t kind)
{
    const struct fake_list *flying = &steps->rig.net->flying;
    const struct fake_list *finished = &steps->rig.net->finished;

    switch (kind) {
    case 0:
    case 1:
    case 2:
        if (flying->count > 0)
            deliver(steps, fuzz_take8(&steps->input) % flying->count, 0);
        break;
    case 3:
    case 4:
    case 5:
        if (finished->count > 0)
            report(steps, fuzz_take8(&steps->input) % finished->count);
        break;
    case 6:
    case 7:
        service(steps);
        break;
    case 8:
        steps_settle(steps);
        break;
    case 9:
        steps->deferrals = fuzz_take8(&steps->input);
        break;
    case 10:
        take_time(steps);
        break;
    case 11:
        if (flying->count > 0) {
            steps->honest = false;
            deliver(steps, fuzz_take8(&steps->input) % flying->count, an_error(steps));
        }
        break;
    case 12:
        take_failed_receive(steps);
        break;
    case 13:
        take_cancel(steps);
        break;
    case 14:
        take_refusal(steps);
        break;
    default:
        take_setting(steps);
        break;
    }
}

/* ---- the end ---- */

static void check_end(const struct steps *steps)
{
    const struct session *session = steps_session(steps);
    const struct failure *failure = &session->failure;
    const size_t len = strnlen(failure->text, sizeof(failure->text));

    FUZZ_CHECK(session_closed(session));
    FUZZ_CHECK(len < sizeof(failure->text) && strchr(failure->text, '\n') == NULL);
    FUZZ_CHECK(failure->code <= 0 && (failure->code != 0) == (len > 0));
    FUZZ_CHECK(!session->cancelled || steps->cancelled);
    FUZZ_CHECK(session->counts.payload_bytes <= session->total_bytes);
    FUZZ_CHECK(session->counts.reported_bytes <= session->total_bytes);
    switch (session->outcome) {
    case FABT_OUTCOME_OK:
        FUZZ_CHECK(failure->code == 0 && !session->cancelled);
        FUZZ_CHECK(session->counts.payload_bytes == session->total_bytes);
        FUZZ_CHECK(session->counts.reported_bytes == session->total_bytes);
        break;
    case FABT_OUTCOME_CANCELLED:
        FUZZ_CHECK(failure->code == 0 && session->cancelled);
        break;
    default:
        FUZZ_CHECK(failure->code != 0);
        FUZZ_CHECK((session->outcome == FABT_OUTCOME_REFUSED) == session->refused);
        FUZZ_CHECK(!session->through || steps->heard_since_through ||
                   failure->code == -FI_ETIMEDOUT);
        break;
    }
    if (steps->honest)
        FUZZ_CHECK(session->outcome == (steps->spoiled ? FABT_OUTCOME_FAILED : FABT_OUTCOME_OK));
}

void steps_end(struct steps *steps)
{
    const struct session *session = steps_session(steps);

    steps->deferrals = steps->refusals = 0;
    for (uint64_t passed = 0; passed < SILENCE_NS && !session_closed(session); passed += 500 * MS) {
        if (!steps->mute)
            steps_settle(steps);
        steps_pass(steps, 500 * MS);
    }
    check_end(steps);
}

void steps_close(struct steps *steps)
{
    rig_close(&steps->rig);
}
