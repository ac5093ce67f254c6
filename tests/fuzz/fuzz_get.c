/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Description: get's side of a session, faced with a put that writes and reports anything, in any
 * order and under any tag (see steps.h for what must hold). A session whose payload is not the
 * stream, byte for byte, never ends well. */
#include "fake_clock.h"
#include "steps.h"
#include "stream.h"

enum {
    SEGMENTS_MAX = 1024,
    RAW_MAX = 64, /* bytes of a raw message */
    ROUNDS_MAX = 1024 + 64,
};

/* The scripted put. */
struct put_script {
    struct steps steps; /* first */
    uint32_t get;       /* id of get's endpoint */
    uint64_t messages;  /* progress messages sent in order */
    uint64_t vectors;   /* read in tag order */
    struct {
        bool here;
        struct wire_vector vector;
    } pending[WIRE_TAGS]; /* vectors by tag, until those before them are here */
    struct wire_segment segments[SEGMENTS_MAX]; /* offered, in order */
    uint32_t segments_count, at;                /* the one to be written */
    uint64_t used;                              /* bytes of it */

    uint64_t written;  /* the position in the stream */
    uint64_t reported; /* at most `written`: what is reported is not written any more */
    uint64_t bad_at;   /* the first byte that is not the stream's; UINT64_MAX: none */
    bool blind; /* it has reported what it was not offered: it doesn't know what lies where */
    bool ended; /* its end of stream is sent */
    bool get_ended;
    bool acknowledged;
};

/* ---- what get sends ---- */

static void take_vector(struct put_script *put, const struct wire_vector *vector)
{
    put->vectors++;
    if (vector->count == 0)
        put->get_ended = true;
    for (uint32_t i = 0; i < vector->count; i++) {
        if (put->segments_count == SEGMENTS_MAX)
            put->blind = true;
        else
            put->segments[put->segments_count++] = vector->segments[i];
    }
}

static void read_letters(struct steps *steps)
{
    struct put_script *put = (struct put_script *)steps;
    uint8_t bytes[1024];
    uint64_t tag, next;
    ssize_t len;

    while ((len = fake_peer_receive(steps->rig.net, steps->rig.script, bytes, sizeof(bytes),
                                    &tag)) >= 0) {
        struct failure failure = {0};
        struct wire_ack ack;

        if (tag == UINT64_MAX) {
            FUZZ_CHECK(wire_decode_ack(bytes, (size_t)len, &ack, &failure) == 0);
            FUZZ_CHECK(fake_id(&ack.address) == put->get && !put->acknowledged);
            put->acknowledged = true;
            continue;
        }
        FUZZ_CHECK(tag < WIRE_TAGS && !put->pending[tag].here);
        FUZZ_CHECK(wire_decode_vector(bytes, (size_t)len, &put->pending[tag].vector, &failure) ==
                   0);
        put->pending[tag].here = true;
    }
    while (put->pending[next = put->vectors % WIRE_TAGS].here) {
        put->pending[next].here = false;
        take_vector(put, &put->pending[next].vector);
    }
}

/* ---- writes, as far as get's memory is known ---- */

/* Where the next byte belongs, or NULL: nothing is offered, or it is gone. */
static uint8_t *place(const struct put_script *put)
{
    const struct fake_net *net = put->steps.rig.net;
    const struct fake_endpoint *endpoint = fake_find_endpoint(net, put->get);
    const struct wire_segment *segment = &put->segments[put->at];
    const struct fake_mr *mr;
    uint64_t offset;

    if (endpoint == NULL || put->at == put->segments_count)
        return NULL;
    mr = fake_find_mr(net, endpoint->domain, segment->key);
    if (mr == NULL || (mr->access & FI_REMOTE_WRITE) == 0)
        return NULL;
    offset = (endpoint->domain->limits->mr_mode & FI_MR_VIRT_ADDR) != 0
                 ? segment->addr - (uint64_t)(uintptr_t)mr->start
                 : segment->addr;
    FUZZ_CHECK(offset == 0 && segment->len <= mr->len);
    return (uint8_t *)(uintptr_t)mr->start + put->used;
}

/* Go on by a byte; what lies there now stays, and may be wrong. */
static void pass_byte(struct put_script *put, uint8_t found)
{
    if (found != stream_byte(put->written) && put->bad_at == UINT64_MAX)
        put->bad_at = put->written;
    put->written++;
    if (++put->used == put->segments[put->at].len) {
        put->at++;
        put->used = 0;
    }
}

static void write_bytes(struct put_script *put, uint64_t count, uint8_t spoil)
{
    for (uint8_t *at; count > 0 && !put->blind && (at = place(put)) != NULL; count--) {
        *at = stream_byte(put->written) ^ spoil;
        pass_byte(put, *at);
    }
}

/* So many bytes are reported, whether written or not. */
static void report_bytes(struct put_script *put, uint64_t count)
{
    if (count > UINT64_MAX - put->reported)
        put->blind = true;
    else
        put->reported += count;
    while (put->written < put->reported && !put->blind) {
        const uint8_t *at = place(put);

        if (at == NULL)
            put->blind = true;
        else
            pass_byte(put, *at);
    }
}

/* ---- what put sends ---- */

static void send_progress(struct put_script *put, uint64_t filled, uint64_t leftover, uint64_t tag)
{
    const struct wire_progress progress = {filled, leftover};
    uint8_t bytes[WIRE_PROGRESS_SIZE];

    report_bytes(put, filled);
    wire_encode_progress(&progress, bytes);
    fake_peer_send_tagged(put->steps.rig.net, put->get, tag, bytes, sizeof(bytes));
}

/* Is this all of the session? What more was written has no place in it. */
static uint64_t left_to_report(const struct put_script *put)
{
    const uint64_t total = steps_session(&put->steps)->workload.total_bytes;

    return (put->written < total ? put->written : total) - put->reported;
}

static void send_honest_progress(struct put_script *put, uint8_t part)
{
    const uint64_t total = steps_session(&put->steps)->workload.total_bytes;
    uint64_t bytes;

    if (put->blind || put->ended || put->reported > total)
        return;
    bytes = left_to_report(put);
    if (part < 64)
        bytes /= 2;
    put->ended = put->reported + bytes == total;
    send_progress(put, bytes, put->ended ? 0 : 1, put->messages++ % WIRE_TAGS);
}

/* The next tag, or any. */
static uint64_t take_tag(struct put_script *put)
{
    const uint8_t tag = fuzz_take8(&put->steps.input);

    return tag < 128 ? put->messages++ % WIRE_TAGS : tag % 70u;
}

static void send_odd_progress(struct put_script *put)
{
    struct fuzz_input *input = &put->steps.input;
    const uint64_t tag = take_tag(put);
    const uint64_t filled = fuzz_take_number(input);

    put->steps.honest = false;
    send_progress(put, filled, fuzz_take8(input) % 3, tag);
}

static void send_raw(struct put_script *put, bool tagged)
{
    struct fuzz_input *input = &put->steps.input;
    const uint64_t tag = tagged ? take_tag(put) : 0;
    const size_t len = fuzz_take8(input) % RAW_MAX;
    uint8_t bytes[RAW_MAX];

    put->steps.honest = false;
    fuzz_take(input, bytes, len);
    if (tagged && len == WIRE_PROGRESS_SIZE)
        put->blind = true;
    if (tagged)
        fake_peer_send_tagged(put->steps.rig.net, put->get, tag, bytes, len);
    else
        fake_peer_send(put->steps.rig.net, put->get, bytes, len);
}

static void act(struct put_script *put, uint32_t kind)
{
    struct fuzz_input *input = &put->steps.input;

    if (!steps_room(&put->steps))
        return;
    switch (kind) {
    case 0:
    case 1:
    case 2:
        write_bytes(put, fuzz_take8(input), 0);
        break;
    case 3:
        write_bytes(put, 1 + fuzz_take8(input) % 16u, fuzz_take8(input));
        break;
    case 4:
    case 5:
    case 6:
        send_honest_progress(put, fuzz_take8(input));
        break;
    case 7:
        send_raw(put, false);
        break;
    case 8:
        send_raw(put, true);
        break;
    default:
        send_odd_progress(put);
        break;
    }
}

enum { ACTS = 11 };

/* ---- a whole session ---- */

/* What get knows of is memory that it has offered. */
static void check_progress(const struct put_script *put)
{
    const struct session *session = steps_session(&put->steps);
    const uint64_t memory =
        session->workload.kind == FABT_WORKLOAD_STRESS
            ? 37 + 31 + 29
            : workload_targets(&session->workload) * session->workload.size_bytes;

    /* The last buffer is offered again with its rest unfilled: from then on both count. */
    if (session->counts.reported_bytes < session->total_bytes)
        FUZZ_CHECK(session->counts.credit_bytes <= memory);
    FUZZ_CHECK(session->counts.payload_bytes <= session->counts.reported_bytes);
}

/* What an honest put still owes after the script: the rest of the stream and its end. */
static void end_honestly(struct put_script *put)
{
    struct steps *steps = &put->steps;
    const struct session *session = steps_session(steps);

    steps->deferrals = 0;
    steps_settle(steps);
    for (unsigned i = 0; i < ROUNDS_MAX && !put->ended && !session_closed(session); i++) {
        write_bytes(put, UINT8_MAX, 0);
        send_honest_progress(put, UINT8_MAX);
        steps_settle(steps);
        check_progress(put);
    }
    steps->spoiled = session->workload.pattern && put->bad_at < session->workload.total_bytes;
    FUZZ_CHECK(put->acknowledged && !put->blind);
    FUZZ_CHECK(steps->spoiled || (put->ended && put->get_ended));
}

/* The initial message as get's listener has accepted it. */
static void start(struct put_script *put)
{
    struct steps *steps = &put->steps;
    const uint8_t way = fuzz_take8(&steps->input);
    struct wire_initial initial = {
        .nsources = 1,
        .address = fake_address(steps->rig.script),
        .extended = (way & 1) == 0,
        .extension = {.run_id = 0x77, .session = 3, .pid = 4711},
    };

    workload_to_extension(&steps->side->options.workload, &initial.extension);
    if ((way & 0xf0) == 0xf0) {
        initial.address.raw[fuzz_take8(&steps->input) % 8] ^= fuzz_take8(&steps->input);
        steps->honest = false;
    }
    if (!initial.extended) {
        /* What the listener takes without the block: too much for a short script to end well. */
        steps->side->options.workload = workload_default();
        steps->honest = false;
    }
    rig_start_get(&steps->rig, &initial);
    put->get = fake_id(&steps_session(steps)->endpoint.address);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct put_script script;
    struct put_script *put = &script;
    struct steps *steps = &put->steps;
    const struct session *session;

    memset(put, 0, sizeof(*put));
    put->bad_at = UINT64_MAX;
    steps_open(steps, ROLE_GET, data, size);
    steps->read_letters = read_letters;
    steps->watching =
        true; /* of get's side it knows vectors and their tags, whatever the workload */
    start(put);
    session = steps_session(steps);
    while (steps->input.left > 0) {
        const uint32_t kind = fuzz_take8(&steps->input) % (STEPS_KINDS + ACTS);

        if (kind < STEPS_KINDS)
            steps_take(steps, kind);
        else
            act(put, kind - STEPS_KINDS);
        check_progress(put);
    }
    if (steps->honest)
        end_honestly(put);
    steps_end(steps);
    if (session->outcome == FABT_OUTCOME_OK && !put->blind && session->workload.pattern)
        FUZZ_CHECK(put->bad_at >= session->counts.payload_bytes);
    steps_close(steps);
    return 0;
}
