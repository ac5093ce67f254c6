/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Description: put's view of the memory that get offers. Segments are used in order and exactly;
 * sums of untrusted lengths never wrap; and more is expected from get exactly while buffers that it
 * was seen to circulate have been reported full and not come back. */
#include "harness.h"

#include "target.h"

static struct wire_segment segment_of(uint64_t addr, uint64_t len)
{
    return (struct wire_segment){.addr = addr, .len = len, .key = addr / 1000};
}

static void add(struct target *target, uint64_t addr, uint64_t len)
{
    const struct wire_segment segment = segment_of(addr, len);

    target_add(target, &segment);
}

static void segments_are_used_in_order(void **state)
{
    struct target target = {.count = 0};
    struct fi_rma_iov rma[12];

    (void)state;
    add(&target, 1000, 10);
    add(&target, 2000, 20);
    add(&target, 3000, 30);
    assert_int_equal(target_room(&target, 3), 60);
    assert_int_equal(target_room(&target, 2), 30);
    assert_int_equal(target_use(&target, 15, rma), 2);
    assert_true(rma[0].addr == 1000 && rma[0].len == 10 && rma[0].key == 1);
    assert_true(rma[1].addr == 2000 && rma[1].len == 5 && rma[1].key == 2);
    assert_int_equal(target.count, 2);
    assert_int_equal(target_use(&target, 15, rma), 1); /* exactly to its end */
    assert_true(rma[0].addr == 2005 && rma[0].len == 15);
    assert_int_equal(target.count, 1);
    assert_int_equal(target_use(&target, 30, rma), 1);
    assert_int_equal(target.count, 0);
    assert_int_equal(target_room(&target, 0), 0);
}

static void sums_do_not_wrap(void **state)
{
    struct target target = {.count = 0};
    struct fi_rma_iov rma[12];

    (void)state;
    add(&target, 0, UINT64_C(1) << 63);
    add(&target, 0, UINT64_C(1) << 63);
    assert_int_equal(target_room(&target, 2), UINT64_MAX);
    assert_int_equal(target_use(&target, 100, rma), 1);
    assert_int_equal(target.segments[0].len, (UINT64_C(1) << 63) - 100);
}

static void it_is_full_at_12(void **state)
{
    struct target target = {.count = 0};

    (void)state;
    for (unsigned i = 0; i < 12; i++) {
        assert_false(target_full(&target));
        add(&target, 1000 * i, 10);
    }
    assert_true(target_full(&target));
}

/* Three circulate: once two are reported full and not back, get is sure to offer. */
static void more_comes_while_full_buffers_are_not_back(void **state)
{
    struct target target = {.count = 0};
    struct fi_rma_iov rma[12];

    (void)state;
    add(&target, 1000, 37);
    add(&target, 2000, 31);
    add(&target, 3000, 29);
    assert_false(target_more_to_come(&target));
    target_use(&target, 97, rma);
    assert_false(target_more_to_come(&target)); /* nothing is reported */
    target_reported(&target, 67);
    assert_false(target_more_to_come(&target)); /* one, which get may hold back */
    target_reported(&target, 68);
    assert_true(target_more_to_come(&target));
    add(&target, 1000, 37);
    assert_false(target_more_to_come(&target));
    target_reported(&target, 97);
    assert_true(target_more_to_come(&target));
    add(&target, 2000, 31);
    add(&target, 3000, 29);
    assert_false(target_more_to_come(&target));
}

/* Many segments, more than are followed: expectations may be missed, nothing else. */
static void many_segments_are_followed_in_part(void **state)
{
    struct dice dice = {16};
    struct target target = {.count = 0};
    struct fi_rma_iov rma[12];
    uint64_t used = 0, offered = 0;

    (void)state;
    for (unsigned i = 0; i < 100000; i++) {
        if (!target_full(&target) && dice_chance(&dice, 55)) {
            const uint64_t len = 1 + dice_below(&dice, 100);

            add(&target, i, len);
            offered += len;
        } else if (target.count > 0) {
            const uint64_t room = target_room(&target, target.count);
            const uint64_t n = 1 + dice_below(&dice, (uint32_t)room);

            assert_int_equal(room, offered - used);
            target_use(&target, n, rma);
            used += n;
        }
        if (dice_chance(&dice, 2))
            target_reported(&target, used);
    }
    target_reported(&target, used);
    assert_true(used > 1000000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(segments_are_used_in_order),
        cmocka_unit_test(sums_do_not_wrap),
        cmocka_unit_test(it_is_full_at_12),
        cmocka_unit_test(more_comes_while_full_buffers_are_not_back),
        cmocka_unit_test(many_segments_are_followed_in_part),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
