/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Description: messages have the bytes of the protocol's description at the offsets given there,
 * unused ones zero; every malformed message is refused with what was expected and what came, and
 * leaves the output alone; whatever bytes arrive, nothing is read or written out of bounds. The
 * expected bytes are built here by hand, with literal offsets. */
#include "harness.h"

#include <errno.h>

#include "wire.h"

/* ---- bytes by hand ---- */

static void at32(uint8_t *bytes, size_t offset, uint32_t value)
{
    memcpy(bytes + offset, &value, 4);
}

static void at64(uint8_t *bytes, size_t offset, uint64_t value)
{
    memcpy(bytes + offset, &value, 8);
}

static struct address address_of(size_t len, uint64_t seed)
{
    struct address address = {.len = len};
    struct dice dice = {seed};

    dice_fill(&dice, address.raw, len);
    return address;
}

static const struct wire_extension extension = {
    .version = 1,
    .workload = 2,
    .pattern = 1,
    .status = 3,
    .depth = 0x04030201,
    .duration_ns = 0x1817161514131211,
    .total_bytes = 0x2827262524232221,
    .size_bytes = 0x3837363534333231,
    .run_id = 0x4847464544434241,
    .session = 0x54535251,
    .pid = 0x64636261,
    .round = 0x7271,
    .rounds = 0x7473,
};

static void extension_by_hand(uint8_t *at)
{
    memcpy(at, "FABTEXT1", 8);
    at[8] = 1;
    at[9] = 2;
    at[10] = 1;
    at[11] = 3;
    at32(at, 12, 0x04030201);
    at64(at, 16, 0x1817161514131211);
    at64(at, 24, 0x2827262524232221);
    at64(at, 32, 0x3837363534333231);
    at64(at, 40, 0x4847464544434241);
    at32(at, 48, 0x54535251);
    at32(at, 52, 0x64636261);
    at32(at, 56, 0x74737271);
}

static void assert_same_extension(const struct wire_extension *a, const struct wire_extension *b)
{
    assert_int_equal(a->version, b->version);
    assert_int_equal(a->workload, b->workload);
    assert_int_equal(a->pattern, b->pattern);
    assert_int_equal(a->status, b->status);
    assert_int_equal(a->depth, b->depth);
    assert_int_equal(a->duration_ns, b->duration_ns);
    assert_int_equal(a->total_bytes, b->total_bytes);
    assert_int_equal(a->size_bytes, b->size_bytes);
    assert_int_equal(a->run_id, b->run_id);
    assert_int_equal(a->session, b->session);
    assert_int_equal(a->pid, b->pid);
    assert_int_equal(a->round, b->round);
    assert_int_equal(a->rounds, b->rounds);
}

/* ---- initial ---- */

static void initial_has_the_bytes_of_the_protocol(void **state)
{
    const struct wire_initial message = {
        .nonce = {0x0807060504030201, 0x1817161514131211},
        .nsources = 0xa4a3a2a1,
        .id = 0xb4b3b2b1,
        .address = address_of(16, 1),
    };
    uint8_t expected[544] = {0}, bytes[544];

    (void)state;
    at64(expected, 0, 0x0807060504030201);
    at64(expected, 8, 0x1817161514131211);
    at32(expected, 16, 0xa4a3a2a1);
    at32(expected, 20, 0xb4b3b2b1);
    at32(expected, 24, 16);
    memcpy(expected + 28, message.address.raw, 16);
    memset(bytes, 0xee, sizeof(bytes));
    wire_encode_initial(&message, bytes);
    assert_int_equal(WIRE_INITIAL_SIZE, 544);
    assert_memory_equal(bytes, expected, 544);
}

static void initial_has_the_extension_at_476(void **state)
{
    const struct wire_initial message = {
        .nsources = 1, .address = address_of(448, 2), .extended = true, .extension = extension};
    uint8_t expected[544] = {0}, bytes[544];

    (void)state;
    at32(expected, 16, 1);
    at32(expected, 24, 448);
    memcpy(expected + 28, message.address.raw, 448);
    extension_by_hand(expected + 476);
    memset(bytes, 0xee, sizeof(bytes));
    wire_encode_initial(&message, bytes);
    assert_memory_equal(bytes, expected, 544);
}

static void long_address_leaves_no_room_for_the_extension(void **state)
{
    (void)state;
    for (size_t len = 449; len <= 512; len++) {
        const struct wire_initial message = {.nsources = 1,
                                             .address = address_of(len, len),
                                             .extended = true,
                                             .extension = extension};
        struct wire_initial back;
        struct failure failure = {0};
        uint8_t expected[544] = {0}, bytes[544];

        at32(expected, 16, 1);
        at32(expected, 24, (uint32_t)len);
        memcpy(expected + 28, message.address.raw, len);
        wire_encode_initial(&message, bytes);
        assert_memory_equal(bytes, expected, 544);
        assert_int_equal(wire_decode_initial(bytes, 544, &back, &failure), 0);
        assert_false(back.extended);
        assert_int_equal(back.address.len, len);
        assert_memory_equal(back.address.raw, message.address.raw, len);
    }
}

/* An address may by chance hold what looks like the block: only the length decides. */
static void magic_within_a_long_address_is_address(void **state)
{
    uint8_t bytes[544] = {0};
    struct wire_initial message;
    struct failure failure = {0};

    (void)state;
    at32(bytes, 24, 449);
    extension_by_hand(bytes + 476);
    assert_int_equal(wire_decode_initial(bytes, 544, &message, &failure), 0);
    assert_false(message.extended);
}

static void initial_is_decoded_from_an_odd_address(void **state)
{
    uint8_t storage[545] = {0}, *bytes = storage + 1;
    struct wire_initial message;
    struct failure failure = {0};

    (void)state;
    at64(bytes, 0, 5);
    at64(bytes, 8, 6);
    at32(bytes, 16, 7);
    at32(bytes, 20, 8);
    at32(bytes, 24, 3);
    memcpy(bytes + 28, "abc", 3);
    extension_by_hand(bytes + 476);
    assert_int_equal(wire_decode_initial(bytes, 544, &message, &failure), 0);
    assert_int_equal(message.nonce[0], 5);
    assert_int_equal(message.nonce[1], 6);
    assert_int_equal(message.nsources, 7);
    assert_int_equal(message.id, 8);
    assert_int_equal(message.address.len, 3);
    assert_memory_equal(message.address.raw, "abc", 3);
    assert_true(message.extended);
    assert_same_extension(&message.extension, &extension);
}

static void each_byte_of_the_magic_counts(void **state)
{
    (void)state;
    for (size_t i = 0; i < 8; i++) {
        uint8_t bytes[544] = {0};
        struct wire_initial message;
        struct failure failure = {0};

        at32(bytes, 24, 16);
        extension_by_hand(bytes + 476);
        bytes[476 + i] ^= 0x20;
        assert_int_equal(wire_decode_initial(bytes, 544, &message, &failure), 0);
        assert_false(message.extended);
    }
}

static void initial_of_another_size_is_refused(void **state)
{
    static const size_t sizes[] = {0, 1, 28, 540, 543, 545, 608};
    uint8_t zero[608] = {0};

    (void)state;
    at32(zero, 24, 16);
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        uint8_t *bytes = exact_copy(zero, sizes[i]);
        struct wire_initial message = {.nsources = 99};
        struct failure failure = {0};
        char came[32];

        snprintf(came, sizeof(came), "%zu bytes", sizes[i]);
        assert_int_equal(wire_decode_initial(bytes, sizes[i], &message, &failure), -EPROTO);
        assert_says(failure.text, "initial");
        assert_says(failure.text, came);
        assert_says(failure.text, "544");
        assert_int_equal(message.nsources, 99);
        free(bytes);
    }
}

static void address_length_out_of_range_is_refused(void **state)
{
    static const uint32_t lengths[] = {0, 513, 0x80000000, UINT32_MAX};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(lengths); i++) {
        uint8_t initial[544] = {0}, ack[516] = {0};
        struct wire_initial a = {.id = 99};
        struct wire_ack b = {.address = {.len = 99}};
        struct failure fa = {0}, fb = {0};
        char came[32];

        snprintf(came, sizeof(came), "%u", lengths[i]);
        at32(initial, 24, lengths[i]);
        at32(ack, 0, lengths[i]);
        assert_int_equal(wire_decode_initial(initial, 544, &a, &fa), -EPROTO);
        assert_int_equal(wire_decode_ack(ack, 516, &b, &fb), -EPROTO);
        assert_says(fa.text, came);
        assert_says(fb.text, "512");
        assert_int_equal(a.id, 99);
        assert_int_equal(b.address.len, 99);
    }
}

/* ---- acknowledgement ---- */

static void ack_has_the_bytes_of_the_protocol(void **state)
{
    struct wire_ack message = {
        .address = address_of(448, 3), .extended = true, .extension = extension};
    uint8_t expected[516] = {0}, bytes[516];
    struct wire_ack back;
    struct failure failure = {0};

    (void)state;
    at32(expected, 0, 448);
    memcpy(expected + 4, message.address.raw, 448);
    extension_by_hand(expected + 452);
    memset(bytes, 0xee, sizeof(bytes));
    wire_encode_ack(&message, bytes);
    assert_int_equal(WIRE_ACK_SIZE, 516);
    assert_memory_equal(bytes, expected, 516);
    assert_int_equal(wire_decode_ack(bytes, 516, &back, &failure), 0);
    assert_true(back.extended);
    assert_same_extension(&back.extension, &extension);

    message.extended = false;
    memset(expected + 452, 0, 64);
    wire_encode_ack(&message, bytes);
    assert_memory_equal(bytes, expected, 516);
    assert_int_equal(wire_decode_ack(bytes, 516, &back, &failure), 0);
    assert_false(back.extended);
}

static void ack_of_another_size_is_refused(void **state)
{
    static const size_t sizes[] = {0, 4, 515, 517, 544};
    uint8_t zero[544] = {0};

    (void)state;
    at32(zero, 0, 16);
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        uint8_t *bytes = exact_copy(zero, sizes[i]);
        struct wire_ack message;
        struct failure failure = {0};

        assert_int_equal(wire_decode_ack(bytes, sizes[i], &message, &failure), -EPROTO);
        assert_says(failure.text, "acknowledgement");
        assert_says(failure.text, "516");
        free(bytes);
    }
}

/* ---- vector ---- */

/* A vector message by hand: `count` as said, `k` segments present, each 100 bytes long. */
static size_t vector_by_hand(uint8_t *bytes, uint32_t count, size_t k)
{
    memset(bytes, 0, 8 + 24 * k);
    at32(bytes, 0, count);
    for (size_t i = 0; i < k; i++) {
        at64(bytes, 8 + 24 * i, 1000 * i);
        at64(bytes, 8 + 24 * i + 8, 100 + i);
        at64(bytes, 8 + 24 * i + 16, 7000 + i);
    }
    return 8 + 24 * k;
}

/* Decode a copy that ends where the message ends. */
static int decode_vector(const uint8_t *bytes, size_t len, struct wire_vector *vector,
                         struct failure *failure)
{
    uint8_t *copy = exact_copy(bytes, len);
    const int rc = wire_decode_vector(copy, len, vector, failure);

    free(copy);
    return rc;
}

static void vector_has_the_bytes_of_the_protocol(void **state)
{
    (void)state;
    for (uint32_t count = 0; count <= 12; count++) {
        struct wire_vector vector = {.count = count}, back;
        struct failure failure = {0};
        uint8_t expected[8 + 24 * 12], bytes[8 + 24 * 12];
        const size_t len = vector_by_hand(expected, count, count);
        uint64_t total = 0;

        for (uint32_t i = 0; i < count; i++) {
            vector.segments[i] = (struct wire_segment){1000 * i, 100 + i, 7000 + i};
            total += 100 + i;
        }
        memset(bytes, 0xee, sizeof(bytes));
        assert_int_equal(wire_encode_vector(&vector, bytes), len);
        assert_memory_equal(bytes, expected, len);
        assert_int_equal(decode_vector(bytes, len, &back, &failure), 0);
        assert_int_equal(back.count, count);
        assert_int_equal(back.total, total);
        assert_memory_equal(back.segments, vector.segments, count * sizeof(back.segments[0]));
    }
}

/* The protocol: "a message may be longer than niovs says: 8 + 24k, k >= niovs". */
static void vector_may_be_longer_than_it_says(void **state)
{
    uint8_t bytes[8 + 24 * 20];

    (void)state;
    for (uint32_t count = 0; count <= 12; count++) {
        for (size_t k = count; k <= 20; k++) {
            const size_t len = vector_by_hand(bytes, count, k);
            struct wire_vector vector;
            struct failure failure = {0};

            assert_int_equal(decode_vector(bytes, len, &vector, &failure), 0);
            assert_int_equal(vector.count, count);
        }
    }
}

/* What lies behind the segments that count is not looked at. */
static void surplus_segments_may_hold_anything(void **state)
{
    uint8_t bytes[8 + 24 * 3];
    const size_t len = vector_by_hand(bytes, 1, 3);
    struct wire_vector vector;
    struct failure failure = {0};

    (void)state;
    memset(bytes + 8 + 24, 0xff, 48);
    assert_int_equal(decode_vector(bytes, len, &vector, &failure), 0);
    assert_int_equal(vector.total, 100);
}

static void vector_with_more_than_12_segments_is_refused(void **state)
{
    static const uint32_t counts[] = {13, 14, 255, 0x10000000, UINT32_MAX};
    uint8_t bytes[8 + 24 * 14];

    (void)state;
    for (size_t i = 0; i < COUNT_OF(counts); i++) {
        const size_t len = vector_by_hand(bytes, counts[i], 14);
        struct wire_vector vector = {.count = 99};
        struct failure failure = {0};
        char came[32];

        snprintf(came, sizeof(came), "%u segments", counts[i]);
        assert_int_equal(decode_vector(bytes, len, &vector, &failure), -EPROTO);
        assert_says(failure.text, came);
        assert_says(failure.text, "12");
        assert_int_equal(vector.count, 99);
    }
}

static void vector_shorter_than_it_says_is_refused(void **state)
{
    uint8_t bytes[8 + 24 * 12];

    (void)state;
    for (uint32_t count = 1; count <= 12; count++) {
        for (size_t k = 0; k < count; k++) {
            const size_t len = vector_by_hand(bytes, count, k);
            struct wire_vector vector;
            struct failure failure = {0};

            assert_int_equal(decode_vector(bytes, len, &vector, &failure), -EPROTO);
        }
    }
}

static void vector_of_an_odd_size_is_refused(void **state)
{
    uint8_t bytes[8 + 24 * 12];

    (void)state;
    vector_by_hand(bytes, 0, 12);
    for (size_t len = 0; len < sizeof(bytes); len++) {
        struct wire_vector vector;
        struct failure failure = {0};

        if (len >= 8 && (len - 8) % 24 == 0)
            continue;
        assert_int_equal(decode_vector(bytes, len, &vector, &failure), -EPROTO);
        assert_says(failure.text, "8 + 24");
    }
}

static void empty_segment_is_refused(void **state)
{
    uint8_t bytes[8 + 24 * 12];

    (void)state;
    for (size_t i = 0; i < 12; i++) {
        const size_t len = vector_by_hand(bytes, 12, 12);
        struct wire_vector vector;
        struct failure failure = {0};
        char which[32];

        at64(bytes, 8 + 24 * i + 8, 0);
        snprintf(which, sizeof(which), "segment %zu", i);
        assert_int_equal(decode_vector(bytes, len, &vector, &failure), -EPROTO);
        assert_says(failure.text, which);
        assert_says(failure.text, "empty");
    }
}

static void overflowing_segments_are_refused(void **state)
{
    static const struct {
        uint64_t addr[2], len[2];
        int rc;
    } cases[] = {
        {{UINT64_MAX, 0}, {2, 1}, -EPROTO},
        {{0, UINT64_MAX - 10}, {1, 12}, -EPROTO},
        {{0x8000000000000000, 0}, {0x8000000000000001, 1}, -EPROTO},
        /* each is fine, the sum is not */
        {{0, 0}, {UINT64_MAX, 1}, -EPROTO},
        {{0, 0}, {0x8000000000000000, 0x8000000000000000}, -EPROTO},
        /* the largest that are fine */
        {{UINT64_MAX - 1, 0}, {1, 1}, 0},
        {{0, 0}, {UINT64_MAX - 1, 1}, 0},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        uint8_t bytes[8 + 24 * 2] = {0};
        struct wire_vector vector;
        struct failure failure = {0};

        at32(bytes, 0, 2);
        for (size_t k = 0; k < 2; k++) {
            at64(bytes, 8 + 24 * k, cases[i].addr[k]);
            at64(bytes, 8 + 24 * k + 8, cases[i].len[k]);
        }
        assert_int_equal(decode_vector(bytes, sizeof(bytes), &vector, &failure), cases[i].rc);
        if (cases[i].rc != 0)
            assert_says(failure.text, "overflow");
    }
}

/* ---- progress ---- */

static void progress_has_the_bytes_of_the_protocol(void **state)
{
    const struct wire_progress message = {0x0807060504030201, 0x1817161514131211};
    struct wire_progress back;
    struct failure failure = {0};
    uint8_t expected[16], bytes[16];

    (void)state;
    at64(expected, 0, 0x0807060504030201);
    at64(expected, 8, 0x1817161514131211);
    wire_encode_progress(&message, bytes);
    assert_int_equal(WIRE_PROGRESS_SIZE, 16);
    assert_memory_equal(bytes, expected, 16);
    assert_int_equal(wire_decode_progress(bytes, 16, &back, &failure), 0);
    assert_int_equal(back.filled, message.filled);
    assert_int_equal(back.leftover, message.leftover);
}

static void progress_of_another_size_is_refused(void **state)
{
    static const size_t sizes[] = {0, 8, 15, 17, 24, 32};
    const uint8_t zero[32] = {0};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        uint8_t *bytes = exact_copy(zero, sizes[i]);
        struct wire_progress message = {99, 99};
        struct failure failure = {0};

        assert_int_equal(wire_decode_progress(bytes, sizes[i], &message, &failure), -EPROTO);
        assert_says(failure.text, "progress");
        assert_says(failure.text, "16");
        assert_int_equal(message.filled, 99);
        free(bytes);
    }
}

/* ---- at random ---- */

static void random_messages_make_the_round_trip(void **state)
{
    struct dice dice = {4};

    (void)state;
    for (unsigned i = 0; i < 5000; i++) {
        struct wire_initial in = {.extended = dice_chance(&dice, 50)}, out;
        struct failure failure = {0};
        uint8_t bytes[544];

        dice_fill(&dice, in.nonce, sizeof(in.nonce));
        in.nsources = (uint32_t)dice_next(&dice);
        in.id = (uint32_t)dice_next(&dice);
        in.address.len = 1 + dice_below(&dice, 512);
        /* Below 0x40: no accidental magic. */
        for (size_t k = 0; k < in.address.len; k++)
            in.address.raw[k] = (uint8_t)dice_below(&dice, 0x40);
        if (in.extended)
            dice_fill(&dice, &in.extension, sizeof(in.extension));
        in.extension.version = WIRE_EXTENSION_VERSION;
        wire_encode_initial(&in, bytes);
        assert_int_equal(wire_decode_initial(bytes, 544, &out, &failure), 0);
        assert_memory_equal(out.nonce, in.nonce, sizeof(in.nonce));
        assert_int_equal(out.nsources, in.nsources);
        assert_int_equal(out.id, in.id);
        assert_int_equal(out.address.len, in.address.len);
        assert_memory_equal(out.address.raw, in.address.raw, in.address.len);
        assert_int_equal(out.extended, in.extended && in.address.len <= 448);
        if (out.extended)
            assert_same_extension(&out.extension, &in.extension);
    }
}

/* What a decoder lets through keeps its promises, whatever came. */
static void random_bytes_do_no_harm(void **state)
{
    struct dice dice = {5};
    unsigned taken = 0;

    (void)state;
    for (unsigned i = 0; i < 50000; i++) {
        const size_t len = dice_chance(&dice, 30) ? 544 : dice_below(&dice, 600);
        uint8_t *bytes = malloc(len == 0 ? 1 : len);
        struct wire_initial initial;
        struct wire_ack ack;
        struct wire_vector vector;
        struct wire_progress progress;
        struct failure failure = {0};

        dice_fill(&dice, bytes, len);
        /* Small numbers where counts and lengths are: get beyond the first check. */
        for (size_t at = 0; at + 4 <= len && at <= 24; at += 8) {
            if (dice_chance(&dice, 70))
                at32(bytes, at, dice_below(&dice, 600) >> dice_below(&dice, 9));
        }
        if (wire_decode_initial(bytes, len, &initial, &failure) == 0) {
            assert_true(len == 544 && initial.address.len >= 1 && initial.address.len <= 512);
            taken++;
        }
        if (wire_decode_ack(bytes, len, &ack, &failure) == 0)
            assert_true(len == 516 && ack.address.len >= 1 && ack.address.len <= 512);
        if (wire_decode_vector(bytes, len, &vector, &failure) == 0) {
            uint64_t total = 0;

            assert_true(vector.count <= 12 && 8 + 24 * (size_t)vector.count <= len);
            for (uint32_t k = 0; k < vector.count; k++) {
                assert_true(vector.segments[k].len > 0);
                total += vector.segments[k].len;
            }
            assert_int_equal(total, vector.total);
            taken++;
        }
        if (wire_decode_progress(bytes, len, &progress, &failure) == 0)
            assert_int_equal(len, 16);
        free(bytes);
    }
    assert_true(taken > 1000); /* else the test looks at nothing */
}

static void each_refusal_has_a_reason_of_its_own(void **state)
{
    (void)state;
    for (unsigned a = WIRE_ACCEPTED; a <= WIRE_REFUSED_ROUNDS + 1u; a++) {
        assert_true(strlen(wire_status_text((uint8_t)a)) > 0);
        for (unsigned b = WIRE_ACCEPTED; b < a; b++)
            assert_string_not_equal(wire_status_text((uint8_t)a), wire_status_text((uint8_t)b));
    }
    assert_string_equal(wire_status_text(255), wire_status_text(WIRE_REFUSED_ROUNDS + 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(initial_has_the_bytes_of_the_protocol),
        cmocka_unit_test(initial_has_the_extension_at_476),
        cmocka_unit_test(long_address_leaves_no_room_for_the_extension),
        cmocka_unit_test(magic_within_a_long_address_is_address),
        cmocka_unit_test(initial_is_decoded_from_an_odd_address),
        cmocka_unit_test(each_byte_of_the_magic_counts),
        cmocka_unit_test(initial_of_another_size_is_refused),
        cmocka_unit_test(address_length_out_of_range_is_refused),
        cmocka_unit_test(ack_has_the_bytes_of_the_protocol),
        cmocka_unit_test(ack_of_another_size_is_refused),
        cmocka_unit_test(vector_has_the_bytes_of_the_protocol),
        cmocka_unit_test(vector_may_be_longer_than_it_says),
        cmocka_unit_test(surplus_segments_may_hold_anything),
        cmocka_unit_test(vector_with_more_than_12_segments_is_refused),
        cmocka_unit_test(vector_shorter_than_it_says_is_refused),
        cmocka_unit_test(vector_of_an_odd_size_is_refused),
        cmocka_unit_test(empty_segment_is_refused),
        cmocka_unit_test(overflowing_segments_are_refused),
        cmocka_unit_test(progress_has_the_bytes_of_the_protocol),
        cmocka_unit_test(progress_of_another_size_is_refused),
        cmocka_unit_test(random_messages_make_the_round_trip),
        cmocka_unit_test(random_bytes_do_no_harm),
        cmocka_unit_test(each_refusal_has_a_reason_of_its_own),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
