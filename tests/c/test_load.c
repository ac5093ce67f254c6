/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Description: a worker's time is accounted for to the nanosecond (busy + idle + asleep is wall
 * time), the average follows the table in load.h, windows end by loops or by time, and a change of
 * processor is noticed. */
#include "harness.h"

#include "load.h"

/* The linker calls this instead of sched_getcpu. */
int __wrap_sched_getcpu(void);

static int current_cpu = 3;

int __wrap_sched_getcpu(void)
{
    return current_cpu;
}

static void the_average_follows_the_table(void **state)
{
    static const uint64_t contexts[] = {2, 2, 2, 0, 0};
    static const uint32_t averages[] = {256, 384, 448, 224, 112};
    uint32_t average = 0;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(contexts); i++) {
        average = load_fold(average, contexts[i] * 1000, 1000);
        assert_int_equal(average, averages[i]);
    }
}

static void folding_copes_with_extremes(void **state)
{
    (void)state;
    assert_int_equal(load_fold(0, 0, 0), 0);
    assert_int_equal(load_fold(100, 7, 0), 50);
    assert_int_equal(load_fold(0, 1, 65536), 0);
    assert_int_equal(load_fold(0, 64 * UINT64_C(65536), 65536), 64 * 256 / 2);
    assert_int_equal(load_fold(1, 0, 65536), 0); /* it does end at 0 */
}

static void time_is_accounted_for_exactly(void **state)
{
    struct dice dice = {9};
    struct load load;
    uint64_t now = 12345678901, busy = 0, idle = 0, asleep = 0, contexts = 0, loops = 0, sleeps = 0;
    uint64_t no_completion = 0, no_session = 0;
    const uint64_t start = now;

    (void)state;
    load_start(&load, now);
    for (unsigned i = 0; i < 100000; i++) {
        const uint64_t step = dice_below(&dice, 3000);
        const struct load_loop loop = {.contexts =
                                           dice_chance(&dice, 60) ? 0 : dice_below(&dice, 65),
                                       .sessions = dice_chance(&dice, 60) ? 0 : 1};

        now += step;
        if (dice_chance(&dice, 20)) {
            load_slept(&load, now);
            asleep += step;
            sleeps++;
            continue;
        }
        if (load_loop_end(&load, now, &loop))
            load_window_end(&load, now, 0, 1);
        if (loop.contexts > 0 || loop.sessions > 0)
            busy += step;
        else
            idle += step;
        no_completion += loop.contexts == 0;
        no_session += loop.sessions == 0;
        contexts += loop.contexts;
        loops++;
        assert_int_equal(load.busy_ns + load.idle_ns + load.asleep_ns, now - start);
    }
    assert_int_equal(load.busy_ns, busy);
    assert_int_equal(load.idle_ns, idle);
    assert_int_equal(load.asleep_ns, asleep);
    assert_int_equal(load.contexts, contexts);
    assert_int_equal(load.loops, loops);
    assert_int_equal(load.loops_no_completion, no_completion);
    assert_int_equal(load.loops_no_session, no_session);
    assert_int_equal(load.sleeps, sleeps);
}

static void a_window_ends_after_65536_loops(void **state)
{
    const struct load_loop two = {.contexts = 2, .sessions = 1};
    struct load load;

    (void)state;
    load_start(&load, 1000);
    for (unsigned i = 1; i < 65536; i++)
        assert_false(load_loop_end(&load, 1000 + i, &two));
    assert_true(load_loop_end(&load, 1000 + 65536, &two));
    load_window_end(&load, 1000 + 65536, 0, 1);
    assert_int_equal(load.average_fp8, 256);
    assert_false(load_loop_end(&load, 1000 + 65537, &two));
}

static void a_window_ends_after_100_ms(void **state)
{
    const struct load_loop one = {.contexts = 1};
    struct load load;

    (void)state;
    load_start(&load, 1000);
    assert_false(load_loop_end(&load, 1000 + LOAD_WINDOW_NS - 1, &one));
    assert_true(load_loop_end(&load, 1000 + LOAD_WINDOW_NS, &one));
    load_window_end(&load, 1000 + LOAD_WINDOW_NS, 0, 1);
    assert_false(load_loop_end(&load, 1000 + 2 * LOAD_WINDOW_NS - 1, &one));
    assert_true(load_loop_end(&load, 1000 + 2 * LOAD_WINDOW_NS, &one));
}

static void least_and_most_start_afresh_with_a_window(void **state)
{
    struct load load;

    (void)state;
    load_start(&load, 0);
    for (uint32_t contexts = 3; contexts <= 9; contexts++)
        load_loop_end(&load, contexts, &(const struct load_loop){.contexts = contexts});
    assert_int_equal(load.window_min, 3);
    assert_int_equal(load.window_max, 9);
    assert_int_equal(load.window_loops, 7);
    load_window_end(&load, 10, 0, 1);
    load_loop_end(&load, 11, &(const struct load_loop){.contexts = 5});
    assert_int_equal(load.window_min, 5);
    assert_int_equal(load.window_max, 5);
    assert_int_equal(load.window_loops, 1);
    assert_int_equal(load.contexts, 3 + 4 + 5 + 6 + 7 + 8 + 9 + 5); /* totals go on */
}

static void migrations_are_counted(void **state)
{
    struct load load;

    (void)state;
    load_start(&load, 0);
    load_check_cpu(&load, 0);
    assert_int_equal(load.migrations, 0); /* the first is where it starts */
    assert_int_equal(load.cpu, 3);
    load_check_cpu(&load, 0);
    assert_int_equal(load.migrations, 0);
    current_cpu = 1;
    load_check_cpu(&load, 0);
    assert_int_equal(load.migrations, 1);
    assert_int_equal(load.cpu, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_average_follows_the_table),
        cmocka_unit_test(folding_copes_with_extremes),
        cmocka_unit_test(time_is_accounted_for_exactly),
        cmocka_unit_test(a_window_ends_after_65536_loops),
        cmocka_unit_test(a_window_ends_after_100_ms),
        cmocka_unit_test(least_and_most_start_afresh_with_a_window),
        cmocka_unit_test(migrations_are_counted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
