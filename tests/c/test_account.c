/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Description: every nanosecond of a session is charged to one state and to one thing that its
 * worker did, whatever the order of waits and services, and a session that nobody records costs
 * nothing. */
#include "harness.h"

#include "account.h"

static uint64_t total(const struct account *account)
{
    uint64_t sum = 0;

    for (int i = 0; i < FABT_STATE_COUNT; i++) {
        const struct account_row *row = &account->rows[i];

        sum += row->own_ns + row->polling_ns + row->others_ns + row->asleep_ns + row->off_cpu_ns;
    }
    return sum;
}

static void a_wait_is_split_by_what_the_worker_did(void **state)
{
    struct activity activity = {.serving_ns = 1000, .asleep_ns = 50};
    struct account account = {.activity = &activity, .since_ns = 5000, .seen = activity};
    const struct account_row *row = &account.rows[FABT_STATE_PROVIDER];

    (void)state;
    activity.serving_ns += 300;
    activity.asleep_ns += 100;
    activity.off_cpu_ns += 20;
    account_wait(&account, FABT_STATE_PROVIDER, 6000);
    assert_int_equal(row->others_ns, 300);
    assert_int_equal(row->asleep_ns, 100);
    assert_int_equal(row->off_cpu_ns, 20);
    assert_int_equal(row->polling_ns, 580);
    account_wait(&account, FABT_STATE_PROVIDER, 6001); /* nothing is counted twice */
    assert_int_equal(row->polling_ns, 581);
    assert_int_equal(total(&account), 1001);
}

static void a_service_is_split_by_its_work(void **state)
{
    struct activity activity = {0};
    struct account account = {.activity = &activity, .since_ns = 1};
    const struct account_work work = {.payload_ns = 100, .registration_ns = 200, .post_ns = 50};
    const struct account_work vain = {.payload_ns = 100, .registration_ns = 200, .post_ns = 80};

    (void)state;
    account_serve(&account, FABT_STATE_SERVICE, &work, false, 1001);
    assert_int_equal(account.rows[FABT_STATE_PAYLOAD].own_ns, 100);
    assert_int_equal(account.rows[FABT_STATE_REGISTRATION].own_ns, 200);
    assert_int_equal(account.rows[FABT_STATE_POST].own_ns, 50);
    assert_int_equal(account.rows[FABT_STATE_SERVICE].own_ns, 650);
    assert_int_equal(activity.serving_ns, 1000);
    account_serve(&account, FABT_STATE_SERVICE, &vain, true, 1101);
    assert_int_equal(account.rows[FABT_STATE_DEFERRED].own_ns, 30);
    account_serve(&account, FABT_STATE_SETUP, &vain, false, 1201);
    assert_int_equal(account.rows[FABT_STATE_SETUP].own_ns, 100);
    assert_int_equal(total(&account), 1200);
}

static void two_sessions_of_a_worker_share_its_time(void **state)
{
    struct activity activity = {0};
    struct account one = {.activity = &activity, .since_ns = 1};
    struct account two = {.activity = &activity, .since_ns = 1};
    struct account *accounts[] = {&one, &two};
    const struct account_work work = {0};
    struct dice dice = {7};
    uint64_t now = 1, served = 0;

    (void)state;
    for (int i = 0; i < 10000; i++) {
        struct account *account = accounts[dice_below(&dice, 2)];

        now += dice_below(&dice, 1000);
        account_wait(account, (uint8_t)dice_below(&dice, FABT_STATE_COUNT), now);
        if (dice_below(&dice, 3) > 0) {
            const uint64_t took = dice_below(&dice, 500);

            now += took;
            served += took;
            account_serve(account, FABT_STATE_SERVICE, &work, false, now);
        } else {
            const uint64_t took = dice_below(&dice, 2000);

            now += took;
            activity.asleep_ns += took;
        }
    }
    account_wait(&one, FABT_STATE_PEER, now);
    account_wait(&two, FABT_STATE_PEER, now);
    assert_int_equal(total(&one), now - 1);
    assert_int_equal(total(&two), now - 1);
    assert_int_equal(one.rows[FABT_STATE_SERVICE].own_ns + two.rows[FABT_STATE_SERVICE].own_ns,
                     served);
}

static void parts_never_exceed_the_whole(void **state)
{
    struct activity activity = {.asleep_ns = 5000};
    struct account account = {.activity = &activity, .since_ns = 1};
    const struct account_work work = {.payload_ns = 900, .post_ns = 900};

    (void)state;
    account_wait(&account, FABT_STATE_MEMORY, 1001);
    assert_int_equal(account.rows[FABT_STATE_MEMORY].asleep_ns, 1000);
    account_serve(&account, FABT_STATE_SERVICE, &work, false, 2001);
    assert_int_equal(account.rows[FABT_STATE_POST].own_ns, 100);
    account_wait(&account, FABT_STATE_MEMORY, 1500); /* an older reading of the clock */
    assert_int_equal(total(&account), 2000);
}

static void without_a_recording_there_is_no_account(void **state)
{
    struct activity activity = {0};
    struct account account = {0};
    const struct account_work work = {0};

    (void)state;
    account_start(&account, &activity, 1);
    assert_false(account_on(&account));
    account_wait(&account, FABT_STATE_PEER, 100);
    account_serve(&account, FABT_STATE_SERVICE, &work, false, 200);
    assert_int_equal(total(&account), 0);
    assert_int_equal(activity.serving_ns, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_wait_is_split_by_what_the_worker_did),
        cmocka_unit_test(a_service_is_split_by_its_work),
        cmocka_unit_test(two_sessions_of_a_worker_share_its_time),
        cmocka_unit_test(parts_never_exceed_the_whole),
        cmocka_unit_test(without_a_recording_there_is_no_account),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
