/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Description: a percentile of the histogram is never below the sample of that rank in the sorted
 * raw samples and at most 1/64 above it; the largest sample is exact; merging equals counting all
 * in one. The percentiles are recomputed here from the raw samples. */
#include "harness.h"

#include "latency.h"

/* In per mille of a percent, so that ranks are exact integers. */
static const struct {
    double percent;
    uint64_t of_100000;
} percentiles[] = {
    {0, 0},         {1, 1000},       {10, 10000},   {25, 25000}, {50, 50000},
    {75, 75000},    {90, 90000},     {95, 95000},   {99, 99000}, {99.9, 99900},
    {99.99, 99990}, {99.999, 99999}, {100, 100000},
};

static int compare(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* Nearest rank: the ceil(p n)-th smallest, at least the first. */
static uint64_t true_percentile(const uint64_t *sorted, uint64_t n, uint64_t of_100000)
{
    const uint64_t rank = (of_100000 * n + 99999) / 100000;

    return sorted[rank == 0 ? 0 : rank - 1];
}

static void assert_percentiles(const struct latency *latency, uint64_t *samples, uint64_t n)
{
    qsort(samples, n, sizeof(samples[0]), compare);
    assert_int_equal(latency->count, n);
    assert_int_equal(latency->max, samples[n - 1]);
    for (size_t i = 0; i < COUNT_OF(percentiles); i++) {
        const uint64_t truth = true_percentile(samples, n, percentiles[i].of_100000);
        const uint64_t said = latency_percentile(latency, percentiles[i].percent);

        if (said < truth || said - truth > truth / 64)
            fail_msg("p%g of %llu samples is %llu, true %llu", percentiles[i].percent,
                     (unsigned long long)n, (unsigned long long)said, (unsigned long long)truth);
    }
}

static struct latency *new_latency(void)
{
    struct latency *latency = calloc(1, sizeof(*latency));

    assert_non_null(latency);
    return latency;
}

/* Samples of all magnitudes: uniform in the exponent. */
static uint64_t any_sample(struct dice *dice)
{
    return dice_next(dice) >> dice_below(dice, 64);
}

static void percentiles_are_those_of_the_raw_samples(void **state)
{
    struct dice dice = {7};

    (void)state;
    for (unsigned round = 0; round < 200; round++) {
        const uint64_t n = 1 + dice_below(&dice, 3000);
        uint64_t *samples = calloc(n, sizeof(*samples));
        struct latency *latency = new_latency();

        for (uint64_t i = 0; i < n; i++) {
            samples[i] = round % 2 == 0 ? any_sample(&dice) : 1000 + dice_below(&dice, 50000);
            latency_add(latency, samples[i]);
        }
        assert_percentiles(latency, samples, n);
        free(latency);
        free(samples);
    }
}

/* One far outlier: a rank that is off by one shows at once. */
static void ranks_are_exact(void **state)
{
    (void)state;
    for (uint64_t n = 1; n <= 3000; n++) {
        uint64_t *samples = calloc(n, sizeof(*samples));
        struct latency *latency = new_latency();

        for (uint64_t i = 0; i < n; i++) {
            samples[i] = i * i * 1000;
            latency_add(latency, samples[i]);
        }
        assert_percentiles(latency, samples, n);
        free(latency);
        free(samples);
    }
}

static void small_samples_are_exact(void **state)
{
    (void)state;
    for (uint64_t ns = 0; ns < 128; ns++) {
        struct latency *latency = new_latency();

        latency_add(latency, ns);
        latency_add(latency, 1000);
        assert_int_equal(latency_percentile(latency, 50), ns);
        free(latency);
    }
}

/* Each power of two and its neighbours, and the ends of the range. */
static void edges_of_buckets_are_within_bounds(void **state)
{
    (void)state;
    for (unsigned k = 0; k < 64; k++) {
        for (int d = -1; d <= 1; d++) {
            const uint64_t ns = (UINT64_C(1) << k) + (uint64_t)(int64_t)d;
            struct latency *latency = new_latency();
            uint64_t said;

            assert_true(latency_bucket(ns) < LATENCY_BUCKETS);
            latency_add(latency, ns);
            latency_add(latency, UINT64_MAX);
            said = latency_percentile(latency, 50);
            assert_true(said >= ns && said - ns <= ns / 64);
            free(latency);
        }
    }
    assert_int_equal(latency_bucket(UINT64_MAX), LATENCY_BUCKETS - 1);
    assert_int_equal(latency_bucket(0), 0);
}

/* The table in latency.h. */
static void buckets_follow_the_table(void **state)
{
    (void)state;
    for (uint64_t s = 0; s < 128; s++)
        assert_int_equal(latency_bucket(s), s);
    for (uint64_t s = 128; s < 256; s++)
        assert_int_equal(latency_bucket(s), 128 + (s - 128) / 2);
    for (uint64_t s = 256; s < 512; s++)
        assert_int_equal(latency_bucket(s), 192 + (s - 256) / 4);
    for (uint64_t s = 512, last = 255; s < 100000; s++) {
        assert_true(latency_bucket(s) == last || latency_bucket(s) == last + 1);
        last = latency_bucket(s);
    }
}

static void nothing_counted_is_zero(void **state)
{
    struct latency *latency = new_latency();

    (void)state;
    assert_int_equal(latency_percentile(latency, 50), 0);
    assert_int_equal(latency_percentile(latency, 100), 0);
    free(latency);
}

static void merging_equals_counting_in_one(void **state)
{
    struct dice dice = {8};
    struct latency *all = new_latency(), *a = new_latency(), *b = new_latency();
    struct latency *empty = new_latency();

    (void)state;
    for (unsigned i = 0; i < 5000; i++) {
        const uint64_t ns = any_sample(&dice);

        latency_add(all, ns);
        latency_add(dice_chance(&dice, 30) ? a : b, ns);
    }
    latency_merge(a, b);
    assert_memory_equal(a, all, sizeof(*all));
    latency_merge(a, empty);
    assert_memory_equal(a, all, sizeof(*all));
    free(empty);
    free(all);
    free(a);
    free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(percentiles_are_those_of_the_raw_samples),
        cmocka_unit_test(ranks_are_exact),
        cmocka_unit_test(small_samples_are_exact),
        cmocka_unit_test(edges_of_buckets_are_within_bounds),
        cmocka_unit_test(buckets_follow_the_table),
        cmocka_unit_test(nothing_counted_is_zero),
        cmocka_unit_test(merging_equals_counting_in_one),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
