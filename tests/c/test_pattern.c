/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Description: the payload stream is the protocol's 76 bytes over and over, from any offset and of
 * any length, and the sink finds the first byte that differs, wherever it is. */
#include "harness.h"

#include "pattern.h"
#include "stream.h"

enum { LONGEST = 3 * 76 * 52 + 5 }; /* beyond what one memcpy of the source takes */

static void assert_filled(size_t len, uint64_t offset)
{
    uint8_t *data = malloc(len + 2);

    assert_non_null(data);
    memset(data, 0xee, len + 2);
    pattern_fill(data + 1, len, offset);
    assert_int_equal(data[0], 0xee);
    assert_int_equal(data[len + 1], 0xee);
    for (size_t i = 0; i < len; i++) {
        if (data[1 + i] != stream_byte(offset + i))
            fail_msg("byte %zu of %zu from offset %llu is 0x%02x", i, len,
                     (unsigned long long)offset, data[1 + i]);
    }
    free(data);
}

static void fill_starts_anywhere(void **state)
{
    static const size_t lengths[] = {0, 1, 23, 29, 31, 37, 75, 76, 77, 152, 1000, LONGEST};

    (void)state;
    for (uint64_t offset = 0; offset < 152; offset++) {
        for (size_t i = 0; i < COUNT_OF(lengths); i++)
            assert_filled(lengths[i], offset);
    }
}

static void offsets_may_be_large(void **state)
{
    (void)state;
    assert_filled(LONGEST, UINT64_C(7599999));
    assert_filled(300, UINT64_C(1) << 40);
    assert_filled(300, UINT64_MAX - 400);
}

static void verify_agrees_from_any_offset(void **state)
{
    uint8_t *data = malloc(LONGEST);
    size_t at = 99;
    uint8_t expected = 99;

    (void)state;
    assert_non_null(data);
    for (uint64_t offset = 0; offset < 152; offset++) {
        for (size_t i = 0; i < LONGEST; i++)
            data[i] = stream_byte(offset + i);
        assert_true(pattern_verify(data, LONGEST, offset, &at, &expected));
        assert_true(pattern_verify(data, 37, offset, &at, &expected));
        assert_true(pattern_verify(data, 0, offset, &at, &expected));
    }
    assert_true(at == 99 && expected == 99);
    free(data);
}

static void verify_finds_each_wrong_byte(void **state)
{
    enum { LEN = 200 };

    (void)state;
    for (uint64_t offset = 0; offset < 76; offset++) {
        for (size_t wrong = 0; wrong < LEN; wrong++) {
            uint8_t data[LEN];
            size_t at = 0;
            uint8_t expected = 0;

            for (size_t i = 0; i < LEN; i++)
                data[i] = stream_byte(offset + i);
            data[wrong] ^= 0x01;
            assert_false(pattern_verify(data, LEN, offset, &at, &expected));
            assert_int_equal(at, wrong);
            assert_int_equal(expected, stream_byte(offset + wrong));
        }
    }
}

static void verify_finds_wrong_bytes_of_long_buffers(void **state)
{
    static const size_t places[] = {0, 3875, 3876, 3877, 7751, 7752, 7753, LONGEST - 1};
    uint8_t *data = malloc(LONGEST);

    (void)state;
    assert_non_null(data);
    for (size_t i = 0; i < COUNT_OF(places); i++) {
        size_t at = 0;
        uint8_t expected = 0;

        pattern_fill(data, LONGEST, 13);
        data[places[i]] ^= 0x80;
        data[LONGEST - 1] ^= 0x80; /* a later one is not the first */
        if (places[i] == LONGEST - 1)
            data[LONGEST - 1] ^= 0x40;
        assert_false(pattern_verify(data, LONGEST, 13, &at, &expected));
        assert_int_equal(at, places[i]);
        assert_int_equal(expected, stream_byte(13 + places[i]));
    }
    free(data);
}

/* Old data of another place in the stream must not pass. */
static void verify_sees_a_shifted_stream(void **state)
{
    (void)state;
    for (uint64_t shift = 1; shift < 76; shift++) {
        uint8_t data[76];
        size_t at;
        uint8_t expected;

        pattern_fill(data, sizeof(data), shift);
        assert_false(pattern_verify(data, sizeof(data), 0, &at, &expected));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fill_starts_anywhere),
        cmocka_unit_test(offsets_may_be_large),
        cmocka_unit_test(verify_agrees_from_any_offset),
        cmocka_unit_test(verify_finds_each_wrong_byte),
        cmocka_unit_test(verify_finds_wrong_bytes_of_long_buffers),
        cmocka_unit_test(verify_sees_a_shifted_stream),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
