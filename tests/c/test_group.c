/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Description: the loops over rows that the analysis' model uses. Rows of equal keys get equal
 * numbers, in several portions too; groups have the rows that they should; a join finds what a
 * search finds, and says so where a place is taken twice or a row has none. */
#include "harness.h"

#include <errno.h>

#include "group.h"

#define ROWS 3000
#define MOST_KEYS 64

static uint32_t high[ROWS], low[ROWS];
static int32_t numbers[ROWS];

static uint64_t key_of(size_t row)
{
    return (uint64_t)(high[row] >> 10) << 32 | low[row];
}

static void equal_keys_have_equal_numbers(void **state)
{
    struct dice dice = {1};
    uint64_t keys[MOST_KEYS];
    int64_t known = 0;

    (void)state;
    for (size_t i = 0; i < ROWS; i++) {
        high[i] = (dice_below(&dice, 5) + 4000) << 10 | dice_below(&dice, 1024);
        low[i] = dice_chance(&dice, 20) ? UINT32_MAX : dice_below(&dice, 7);
    }
    for (size_t begin = 0; begin < ROWS; begin += 1000)
        known = group_number(high + begin, 10, low + begin, 1000, numbers + begin, keys,
                             (uint32_t)known, MOST_KEYS);
    assert_int_equal(known, 5 * 8);
    for (size_t i = 0; i < ROWS; i++) {
        assert_in_range(numbers[i], 0, (uintmax_t)known - 1);
        assert_int_equal(keys[numbers[i]], key_of(i));
    }
}

static void too_many_keys_are_refused(void **state)
{
    uint64_t keys[4];

    (void)state;
    for (uint32_t i = 0; i < 5; i++)
        high[i] = i;
    assert_int_equal(group_number(high, 0, NULL, 4, numbers, keys, 0, 4), 4);
    assert_int_equal(group_number(high, 0, NULL, 5, numbers, keys, 0, 4), -ENOSPC);
    assert_int_equal(group_number(high, 0, NULL, 0, numbers, keys, 0, 4), 0);
}

static void groups_have_their_rows(void **state)
{
    enum { GROUPS = 9 };
    struct dice dice = {2};
    int64_t first[GROUPS], last[GROUPS], counts[GROUPS], starts[GROUPS + 1];
    static int32_t order[ROWS];

    (void)state;
    for (size_t i = 0; i < ROWS; i++)
        numbers[i] = (int32_t)dice_below(&dice, GROUPS - 1); /* the last group has none */
    assert_int_equal(group_bounds(numbers, ROWS, GROUPS, first, last, counts), 0);
    assert_int_equal(group_order(numbers, ROWS, GROUPS, order, starts), 0);
    assert_int_equal(starts[0], 0);
    for (int32_t group = 0; group < GROUPS; group++) {
        int64_t at = starts[group];

        assert_int_equal(first[group], counts[group] == 0 ? -1 : order[at]);
        for (int32_t i = 0; i < ROWS; i++)
            if (numbers[i] == group)
                assert_int_equal(order[at++], i);
        assert_int_equal(at, starts[group + 1]);
        assert_int_equal(counts[group], at - starts[group]);
        assert_int_equal(last[group], counts[group] == 0 ? -1 : order[at - 1]);
    }
    assert_int_equal(first[GROUPS - 1], -1);
}

static void rows_of_no_group_are_refused(void **state)
{
    const int32_t wrong[][2] = {{0, 2}, {-1, 0}};
    int64_t first[2], last[2], counts[2], starts[3];
    int32_t order[2];

    (void)state;
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        assert_int_equal(group_bounds(wrong[i], 2, 2, first, last, counts), -ERANGE);
        assert_int_equal(group_order(wrong[i], 2, 2, order, starts), -ERANGE);
    }
}

/* Two owners with 8 and 4 places. */
static const int64_t starts[] = {0, 8, 12};

static int64_t join(const int32_t *post_owners, const uint64_t *posts, const int32_t *end_owners,
                    const uint64_t *ends, uint64_t rows, int32_t *partners, int32_t *alone)
{
    int32_t table[12];
    const struct group_side left = {post_owners, posts, rows}, right = {end_owners, ends, rows};

    return group_join(starts, 2, &left, &right, table, partners, alone);
}

static void posts_find_their_ends(void **state)
{
    const int32_t post_owners[] = {0, 0, 1, 1}, end_owners[] = {1, 0, 0, 1};
    const uint64_t posts[] = {7, 2, 2, 0}, ends[] = {2, 1, 7, 3};
    int32_t partners[4], alone[4];

    (void)state;
    assert_int_equal(join(post_owners, posts, end_owners, ends, 4, partners, alone), 2);
    assert_int_equal(partners[0], 2);
    assert_int_equal(partners[1], -1);
    assert_int_equal(partners[2], 0);
    assert_int_equal(partners[3], -1);
    assert_int_equal(alone[0], 1);
    assert_int_equal(alone[1], 3);
}

static void what_is_no_place_is_refused(void **state)
{
    const int32_t owners[] = {0, 0}, strange[] = {0, 2};
    const uint64_t good[] = {1, 2}, twice[] = {1, 1}, far[] = {1, 8};
    int32_t partners[2], alone[2];

    (void)state;
    assert_int_equal(join(owners, twice, owners, good, 2, partners, alone), -EEXIST);
    assert_int_equal(join(owners, good, owners, twice, 2, partners, alone), -EEXIST);
    assert_int_equal(join(owners, far, owners, good, 2, partners, alone), -ERANGE);
    assert_int_equal(join(owners, good, owners, far, 2, partners, alone), -ERANGE);
    assert_int_equal(join(strange, good, owners, good, 2, partners, alone), -ERANGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_keys_have_equal_numbers),
        cmocka_unit_test(too_many_keys_are_refused),
        cmocka_unit_test(groups_have_their_rows),
        cmocka_unit_test(rows_of_no_group_are_refused),
        cmocka_unit_test(posts_find_their_ends),
        cmocka_unit_test(what_is_no_place_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
