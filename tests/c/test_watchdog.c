/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Description: a counter that stands still for more than the limit is found, whichever it is; one
 * that moves now and then never is; ticks count, not the clock. */
#include "harness.h"
#include <sched.h>

#include "watchdog.h"

static void the_one_that_stands_still_is_found(void **state)
{
    struct watchdog watchdog = {.limit = 3};
    struct heartbeat hearts[3] = {{0}};

    (void)state;
    for (unsigned i = 0; i < 3; i++)
        assert_true(watchdog_add(&watchdog, &hearts[i], i == 1 ? "the second" : "another"));
    for (unsigned tick = 0; tick < 10; tick++) {
        int found;

        heartbeat_beat(&hearts[0]);
        heartbeat_beat(&hearts[2]);
        found = watchdog_tick(&watchdog);
        /* The first tick sees the start's zero again: still for one tick. */
        assert_int_equal(found, tick < 3 ? -1 : 1);
    }
    assert_string_equal(watchdog.watched[1].name, "the second");
    watchdog_stop(&watchdog);
}

static void a_slow_one_is_let_alone(void **state)
{
    struct watchdog watchdog = {.limit = 3};
    struct heartbeat heart = {0};

    (void)state;
    assert_true(watchdog_add(&watchdog, &heart, "slow"));
    for (unsigned tick = 0; tick < 100; tick++) {
        if (tick % 3 == 0)
            heartbeat_beat(&heart);
        assert_int_equal(watchdog_tick(&watchdog), -1);
    }
    watchdog_stop(&watchdog);
}

static void the_limit_can_change(void **state)
{
    struct watchdog watchdog = {.limit = 1000};
    struct heartbeat heart = {0};

    (void)state;
    assert_true(watchdog_add(&watchdog, &heart, "still"));
    for (unsigned tick = 0; tick < 100; tick++)
        assert_int_equal(watchdog_tick(&watchdog), -1);
    watchdog_limit(&watchdog, 5);
    assert_int_equal(watchdog_tick(&watchdog), 0);
    watchdog_stop(&watchdog);
}

static _Atomic bool told;

static void tell(void *argument, const char *name, uint32_t seconds)
{
    assert_string_equal(name, "hung");
    assert_true(seconds >= 1);
    heartbeat_beat(argument);
    atomic_store(&told, true);
}

/* With its thread: it finds what hangs, and stops when told to. */
static void the_thread_tells(void **state)
{
    struct heartbeat heart = {0};
    struct watchdog watchdog = {.hangs = tell, .argument = &heart};
    struct failure failure = {0};

    (void)state;
    assert_true(watchdog_add(&watchdog, &heart, "hung"));
    assert_int_equal(watchdog_start(&watchdog, 0, &failure), 0);
    while (!atomic_load(&told))
        sched_yield();
    watchdog_stop(&watchdog);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_one_that_stands_still_is_found),
        cmocka_unit_test(a_slow_one_is_let_alone),
        cmocka_unit_test(the_limit_can_change),
        cmocka_unit_test(the_thread_tells),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
