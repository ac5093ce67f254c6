/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Description: put's side of a session, faced with a get that sends anything: acknowledgements and
 * vectors that are right, wrong or raw bytes, in any order and under any tag (see steps.h for what
 * must hold). What put reports is never more than what its writes brought; with an honest get the
 * stream lies in get's memory at the end, byte for byte. */
#include "fake_clock.h"
#include "steps.h"
#include "stream.h"

enum {
    SEGMENT_MAX = 200,     /* bytes that an honest get offers at a time */
    OFFERS_MAX = 16,       /* steps of an honest get's end; each offers a segment */
    RAW_MAX = 8 + 24 * 16, /* bytes of a raw message */
};

/* The scripted get. */
struct get_script {
    struct steps steps; /* first */
    uint32_t put;       /* id of put's endpoint */
    uint8_t memory[STEPS_MEMORY];
    uint64_t offered_bytes; /* of memory, from its start on */
    uint64_t vectors;       /* sent in order */
    uint64_t filled_bytes;  /* that put has reported */
    bool put_ended;         /* progress with leftover 0 has come */
    bool acknowledged;
    bool ended;
};

static void read_letters(struct steps *steps)
{
    struct get_script *get = (struct get_script *)steps;
    struct rig *rig = &steps->rig;
    struct wire_progress progress;
    uint8_t bytes[1024];
    uint64_t tag;
    ssize_t len;

    while (fake_peer_receive(rig->net, rig->listener, bytes, sizeof(bytes), &tag) >= 0)
        ;
    while ((len = fake_peer_receive(rig->net, rig->script, bytes, sizeof(bytes), &tag)) >= 0) {
        struct failure failure = {0};

        FUZZ_CHECK(tag < 64 && len == 16);
        FUZZ_CHECK(wire_decode_progress(bytes, (size_t)len, &progress, &failure) == 0);
        FUZZ_CHECK(!get->put_ended || progress.leftover != 0);
        FUZZ_CHECK(progress.filled <= steps->written_bytes - get->filled_bytes);
        get->filled_bytes += progress.filled;
        get->put_ended |= progress.leftover == 0;
    }
}

/* ---- what get sends ---- */

static struct wire_ack honest_ack(const struct get_script *get)
{
    struct wire_ack ack = {
        .address = fake_address(get->steps.rig.script),
        .extended = true,
        .extension = {.run_id = 0x1234, .pid = 4711},
    };

    workload_to_extension(&steps_session(&get->steps)->workload, &ack.extension);
    return ack;
}

/* Right, or with some bytes changed: near the start (length and address) or in the block. */
static void send_ack(struct get_script *get, bool changed)
{
    struct fuzz_input *input = &get->steps.input;
    const struct wire_ack ack = honest_ack(get);
    uint8_t bytes[WIRE_ACK_SIZE];

    wire_encode_ack(&ack, bytes);
    for (uint32_t i = 0; changed && i < 4; i++) {
        const uint8_t where = fuzz_take8(input);

        bytes[where < 128 ? where : 516 - 128 + where % 128] ^= fuzz_take8(input);
    }
    if (changed || get->acknowledged)
        get->steps.honest = false;
    get->acknowledged = true;
    fake_peer_send(get->steps.rig.net, get->put, bytes, sizeof(bytes));
}

static void send_vector(struct get_script *get, const struct wire_vector *vector, uint64_t tag)
{
    uint8_t bytes[8 + 24 * 12];
    const size_t len = wire_encode_vector(vector, bytes);

    fake_peer_send_tagged(get->steps.rig.net, get->put, tag, bytes, len);
}

/* More of the memory, from where the last offer ended. */
static void offer(struct get_script *get, uint32_t count, uint64_t len)
{
    struct wire_vector vector = {.count = 0};

    if (get->ended || get->offered_bytes + count * len > sizeof(get->memory))
        return;
    for (; vector.count < count; vector.count++) {
        vector.segments[vector.count] =
            (struct wire_segment){STEPS_BASE + get->offered_bytes, len, STEPS_KEY};
        get->offered_bytes += len;
    }
    send_vector(get, &vector, get->vectors++ % WIRE_TAGS);
}

/* More than there will ever be bytes for; two of them are more than 64 bits can count. */
static void offer_endless(struct get_script *get)
{
    const struct wire_vector vector = {
        .count = 1,
        .segments = {{STEPS_BASE + get->offered_bytes, UINT64_C(1) << 63, STEPS_KEY}},
    };

    if (!get->ended)
        send_vector(get, &vector, get->vectors++ % WIRE_TAGS);
}

static void send_eof(struct get_script *get)
{
    const struct wire_vector vector = {.count = 0};

    if (get->ended || !get->put_ended ||
        get->filled_bytes != steps_session(&get->steps)->workload.total_bytes)
        get->steps.honest = false;
    get->ended = true;
    send_vector(get, &vector, get->vectors++ % WIRE_TAGS);
}

/* The next tag, or any. */
static uint64_t take_tag(struct get_script *get)
{
    const uint8_t tag = fuzz_take8(&get->steps.input);

    return tag < 128 ? get->vectors++ % WIRE_TAGS : tag % 70u;
}

/* Well-formed, with segments that get has no right to offer, or that are no segments at all. */
static void send_odd_vector(struct get_script *get)
{
    struct fuzz_input *input = &get->steps.input;
    const uint64_t tag = take_tag(get);
    struct wire_vector vector = {.count = fuzz_take8(input) % 13u};

    get->steps.honest = false;
    for (uint32_t i = 0; i < vector.count; i++)
        vector.segments[i] = (struct wire_segment){fuzz_take_number(input), fuzz_take_number(input),
                                                   fuzz_take8(input)};
    send_vector(get, &vector, tag);
}

static void send_raw(struct get_script *get, bool tagged)
{
    struct fuzz_input *input = &get->steps.input;
    const uint64_t tag = tagged ? take_tag(get) : 0;
    const size_t len = fuzz_take16(input) % (tagged ? RAW_MAX : 640u);
    uint8_t bytes[640];

    get->steps.honest = false;
    fuzz_take(input, bytes, len);
    if (tagged)
        fake_peer_send_tagged(get->steps.rig.net, get->put, tag, bytes, len);
    else
        fake_peer_send(get->steps.rig.net, get->put, bytes, len);
}

static void act(struct get_script *get, uint32_t kind)
{
    struct fuzz_input *input = &get->steps.input;

    if (!steps_room(&get->steps))
        return;
    switch (kind) {
    case 0:
        send_ack(get, false);
        break;
    case 1:
    case 2:
    case 3:
    case 4: {
        const uint8_t count = fuzz_take8(input), len = fuzz_take8(input);

        offer(get, 1 + count % 12u, 1 + len % SEGMENT_MAX);
        break;
    }
    case 5:
        send_eof(get);
        break;
    case 6:
        send_ack(get, true);
        break;
    case 7:
        send_raw(get, false);
        break;
    case 8:
        send_raw(get, true);
        break;
    case 9:
        offer_endless(get);
        break;
    default:
        send_odd_vector(get);
        break;
    }
}

enum { ACTS = 12 };

/* ---- a whole session ---- */

/* What an honest get still owes after the script: the acknowledgement, memory, its end. */
static void end_honestly(struct get_script *get)
{
    struct steps *steps = &get->steps;
    const struct session *session = steps_session(steps);

    steps->deferrals = 0;
    if (!get->acknowledged)
        send_ack(get, false);
    steps_settle(steps);
    for (unsigned i = 0; i < OFFERS_MAX && !get->put_ended; i++) {
        offer(get, 1, SEGMENT_MAX);
        steps_settle(steps);
        steps_pass(steps, 25000000); /* put waits so long for memory that is sure to come */
        steps_settle(steps);
    }
    if (!steps->honest)
        return;
    FUZZ_CHECK(get->put_ended && get->filled_bytes == session->workload.total_bytes);
    if (!get->ended)
        send_eof(get);
    for (uint64_t i = 0; session->workload.pattern && i < session->workload.total_bytes; i++)
        FUZZ_CHECK(get->memory[i] == stream_byte(i));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct get_script script;
    struct get_script *get = &script;
    struct steps *steps = &get->steps;

    memset(get, 0, sizeof(*get));
    steps_open(steps, ROLE_PUT, data, size);
    steps->read_letters = read_letters;
    steps->watching = steps->side->options.workload.kind == FABT_WORKLOAD_STRESS;
    fake_peer_expose(steps->rig.net, STEPS_KEY, STEPS_BASE, get->memory, sizeof(get->memory));
    rig_start_put(&steps->rig);
    get->put = fake_id(&steps_session(steps)->endpoint.address);
    while (steps->input.left > 0) {
        const uint32_t kind = fuzz_take8(&steps->input) % (STEPS_KINDS + ACTS);

        if (kind < STEPS_KINDS)
            steps_take(steps, kind);
        else
            act(get, kind - STEPS_KINDS);
    }
    if (steps->honest)
        end_honestly(get);
    steps_end(steps);
    steps_close(steps);
    return 0;
}
