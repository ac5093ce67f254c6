/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Description: who is who is told again once a second, and at once when a recording begins. */
#include "harness.h"

#include "state_dump.h"

static void told_once_a_second(void **state)
{
    struct state_dump dump;
    uint64_t told = 0;

    (void)state;
    state_dump_start(&dump, 0, true);
    for (uint64_t now = 0; now <= 10 * NS_PER_S; now += NS_PER_MS)
        told += state_dump_due(&dump, now, true);
    assert_int_equal(told, 10);
}

static void told_at_once_when_a_recording_begins(void **state)
{
    struct state_dump dump;

    (void)state;
    state_dump_start(&dump, 0, false);
    assert_false(state_dump_due(&dump, 1, false));
    assert_true(state_dump_due(&dump, 2, true));
    assert_false(state_dump_due(&dump, 3, true));
    assert_false(state_dump_due(&dump, 2 + NS_PER_S - 1, true));
    assert_true(state_dump_due(&dump, 2 + NS_PER_S, true));
}

static void told_again_when_the_next_recording_begins(void **state)
{
    struct state_dump dump;

    (void)state;
    state_dump_start(&dump, 0, true);
    assert_false(state_dump_due(&dump, 1, false));
    assert_true(state_dump_due(&dump, 2, true));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(told_once_a_second),
        cmocka_unit_test(told_at_once_when_a_recording_begins),
        cmocka_unit_test(told_again_when_the_next_recording_begins),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
