/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Description: the first description of an error stays, its code is negative whatever sign it had,
 * and what kind of error it is goes with it; long texts are cut, never overrun. */
#include "harness.h"

#include <errno.h>

static void the_first_description_stays(void **state)
{
    struct failure failure = {0};

    (void)state;
    assert_int_equal(failure_set(&failure, -EIO, "first %d", 1), -EIO);
    assert_int_equal(failure_set(&failure, -ENOMEM, "second"), -EIO);
    assert_int_equal(failure_set_usage(&failure, "third"), -EIO);
    assert_int_equal(failure_set_peer_lost(&failure, -ETIMEDOUT, "fourth"), -EIO);
    assert_string_equal(failure.text, "first 1");
    assert_false(failure.usage);
    assert_false(failure.peer_lost);
}

static void the_kind_goes_with_it(void **state)
{
    struct failure usage = {0}, lost = {0}, positive = {0};

    (void)state;
    assert_int_equal(failure_set_usage(&usage, "-n: %s", "x"), -EINVAL);
    assert_true(usage.usage && !usage.peer_lost);
    assert_int_equal(failure_set_peer_lost(&lost, -ENOTCONN, "gone"), -ENOTCONN);
    assert_true(lost.peer_lost && !lost.usage);
    assert_int_equal(failure_set(&positive, EIO, "positive"), -EIO);
}

static void long_texts_are_cut(void **state)
{
    char text[2000];
    struct failure failure = {0};

    (void)state;
    memset(text, 'x', sizeof(text));
    text[sizeof(text) - 1] = '\0';
    failure_set(&failure, -EIO, "%s", text);
    assert_int_equal(strlen(failure.text), sizeof(failure.text) - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_description_stays),
        cmocka_unit_test(the_kind_goes_with_it),
        cmocka_unit_test(long_texts_are_cut),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
