/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Description: values on the command line are taken whole or refused: no trailing characters, no
 * signs, no overflow, nothing out of range; the output is set only on success. */
#include "harness.h"

#include <errno.h>

#include "parse.h"

static void numbers_are_decimal_digits_only(void **state)
{
    static const char *const bad[] = {"",    "abc", "5x",  "-1",  "+6",   " 5",  "5 ",  "0x10",
                                      "1.5", "5\n", "1e3", "--1", "five", "1,2", "5\t", "\xb2"};
    uint64_t value = 99;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        if (parse_number(bad[i], 0, UINT64_MAX, &value) != -EINVAL)
            fail_msg("'%s' was not refused", bad[i]);
    }
    assert_int_equal(value, 99);
}

static void numbers_are_read_to_the_last_bit(void **state)
{
    static const struct {
        const char *text;
        uint64_t value;
    } good[] = {
        {"0", 0},
        {"7", 7},
        {"010", 10}, /* decimal, whatever other programs think */
        {"4294967296", UINT64_C(4294967296)},
        {"18446744073709551615", UINT64_MAX},
    };
    uint64_t value = 99;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        assert_int_equal(parse_number(good[i].text, 0, UINT64_MAX, &value), 0);
        assert_int_equal(value, good[i].value);
    }
    value = 99;
    assert_int_equal(parse_number("18446744073709551616", 0, UINT64_MAX, &value), -ERANGE);
    assert_int_equal(parse_number("99999999999999999999999", 0, UINT64_MAX, &value), -ERANGE);
    assert_int_equal(value, 99);
}

static void numbers_keep_to_their_range(void **state)
{
    uint64_t value = 99;

    (void)state;
    assert_int_equal(parse_number("0", 1, 10, &value), -ERANGE);
    assert_int_equal(parse_number("11", 1, 10, &value), -ERANGE);
    assert_int_equal(value, 99);
    assert_int_equal(parse_number("1", 1, 10, &value), 0);
    assert_int_equal(parse_number("10", 1, 10, &value), 0);
    assert_int_equal(value, 10);
}

static void sizes_take_suffixes(void **state)
{
    static const struct {
        const char *text;
        uint64_t bytes;
    } good[] = {
        {"0", 0},
        {"1", 1},
        {"64K", 65536},
        {"64k", 65536},
        {"64KiB", 65536},
        {"64KB", 65536},
        {"1M", UINT64_C(1) << 20},
        {"1G", UINT64_C(1) << 30},
        {"3T", UINT64_C(3) << 40},
        {"7600000", 7600000},
        {"16777215T", UINT64_C(16777215) << 40},
    };
    static const char *const bad[] = {
        "",    "K",   "5KK",  "5Kx", "5 K", "-5K",       "5.5K",
        "5X",  "5iB", "5B",   "5Ki", "+5K", "16777216T", "0x5K",
        "5K ", " 5K", "5MBB", "1e3", "5P",  "K5",        "99999999999999999999"};
    uint64_t bytes = 99;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        if (parse_size(good[i].text, &bytes) != 0)
            fail_msg("'%s' was refused", good[i].text);
        assert_int_equal(bytes, good[i].bytes);
    }
    bytes = 99;
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        if (parse_size(bad[i], &bytes) == 0)
            fail_msg("'%s' was not refused", bad[i]);
    }
    assert_int_equal(bytes, 99);
}

static void durations_take_units_and_decimals(void **state)
{
    static const struct {
        const char *text;
        uint64_t ns;
    } good[] = {
        {"0", 0},
        {"10", UINT64_C(10000000000)},
        {"10s", UINT64_C(10000000000)},
        {"500ms", 500000000},
        {"20us", 20000},
        {"7ns", 7},
        {"2m", UINT64_C(120000000000)},
        {"1h", UINT64_C(3600000000000)},
        {"1.5s", 1500000000},
        {"0.25", 250000000},
        {"1.000000001s", 1000000001},
        {"0.1h", UINT64_C(360000000000)},
        {"0.5us", 500},
        {"1.0000000000000000001s", 1000000000},
        {"0.999999999999s", 999999999},
        {"18446744073s", UINT64_C(18446744073000000000)},
    };
    static const char *const bad[] = {
        "",    "s",   "10x",   "10 s", "-1s",          "+1s",      "1.s",  ".5s",  "1..5", "1.5.2",
        "1e3", "10S", "10sec", "0x1",  "18446744074s", "5124096h", "10s ", " 10s", "1,5s", "ms"};
    uint64_t ns = 99;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        if (parse_duration(good[i].text, &ns) != 0)
            fail_msg("'%s' was refused", good[i].text);
        assert_int_equal(ns, good[i].ns);
    }
    ns = 99;
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        if (parse_duration(bad[i], &ns) == 0)
            fail_msg("'%s' was not refused", bad[i]);
    }
    assert_int_equal(ns, 99);
}

static void tokens_are_32_hex_digits(void **state)
{
    static const uint8_t expected[16] = {0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77,
                                         0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff};
    static const char *const bad[] = {
        "",
        "0",
        "00112233445566778899aabbccddeef",   /* 31 */
        "00112233445566778899aabbccddeeff0", /* 33 */
        "00112233445566778899aabbccddeefg",
        "00112233445566778899aabbccddee f",
        " 0112233445566778899aabbccddeeff",
        "0x112233445566778899aabbccddeeff",
        "00112233445566778899aabbccddeeff\n",
        "00:11:22:33:44:55:66:77:88:99:aa",
    };
    uint64_t token[2] = {9, 9};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        assert_int_equal(parse_token(bad[i], token), -EINVAL);
    assert_true(token[0] == 9 && token[1] == 9);
    assert_int_equal(parse_token("00112233445566778899aabbccddeeff", token), 0);
    assert_memory_equal(token, expected, 16);
    assert_int_equal(parse_token("00112233445566778899AABBCCDDEEFF", token), 0);
    assert_memory_equal(token, expected, 16);
}

static void assert_cpus(const char *text, const unsigned *cpus, unsigned count)
{
    struct cpu_list list;

    if (parse_cpus(text, &list) != 0)
        fail_msg("'%s' was refused", text);
    assert_int_equal(list.count, count);
    for (unsigned i = 0; i < count; i++)
        assert_int_equal(list.cpu[i], cpus[i]);
}

static void processors_are_ranges_and_lists(void **state)
{
    (void)state;
    assert_cpus("3", (const unsigned[]){3}, 1);
    assert_cpus("3 - 5", (const unsigned[]){3, 4, 5}, 3); /* the field's form */
    assert_cpus("3-5", (const unsigned[]){3, 4, 5}, 3);
    assert_cpus(" 3\t-\t3 ", (const unsigned[]){3}, 1);
    assert_cpus("0,2,4-7", (const unsigned[]){0, 2, 4, 5, 6, 7}, 6);
    assert_cpus("1, 0 ,1", (const unsigned[]){1, 0, 1}, 3); /* order and repeats are kept */
    assert_cpus("1023", (const unsigned[]){1023}, 1);
}

static void anything_else_is_no_processor_list(void **state)
{
    static const char *const bad[] = {
        "",         "-",
        "3 -",      "- 3",
        "3 - 5 -",  "3 - 5 x",
        "5-2",      "a",
        "0x1",      "3..5",
        "1,",       ",1",
        "1,,2",     "1;2",
        "-1",       "+1",
        "1-2-3",    "1 2",
        "1024",     "0-1024",
        "0 -1024",  "1-99999999999999999999",
        "all",      "1-",
        "0-1023,0",
    };
    struct cpu_list list = {.count = 99};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        if (parse_cpus(bad[i], &list) == 0)
            fail_msg("'%s' was not refused", bad[i]);
    }
    assert_int_equal(list.count, 99);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_decimal_digits_only),
        cmocka_unit_test(numbers_are_read_to_the_last_bit),
        cmocka_unit_test(numbers_keep_to_their_range),
        cmocka_unit_test(sizes_take_suffixes),
        cmocka_unit_test(durations_take_units_and_decimals),
        cmocka_unit_test(tokens_are_32_hex_digits),
        cmocka_unit_test(processors_are_ranges_and_lists),
        cmocka_unit_test(anything_else_is_no_processor_list),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
