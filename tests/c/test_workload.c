/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Description: what put asks for is what get understands, and what is beyond get's limits is
 * refused with the right status and words. */
#include "fabt_events.h"
#include "harness.h"
#include "workload.h"

static struct wire_extension stream(uint64_t size, uint32_t depth)
{
    return (struct wire_extension){
        .version = 1,
        .workload = FABT_WORKLOAD_STREAM,
        .pattern = 1,
        .depth = depth,
        .size_bytes = size,
        .total_bytes = 1000,
    };
}

static void assert_status(struct wire_extension extension, enum wire_status expected,
                          const char *word)
{
    const struct workload before = workload_default();
    struct workload workload = before;
    struct failure reason = {0};

    assert_int_equal(workload_from_extension(&workload, &extension, &reason), expected);
    if (expected == WIRE_ACCEPTED) {
        assert_int_equal(reason.code, 0);
        return;
    }
    assert_non_null(strstr(reason.text, word));
    assert_memory_equal(&workload, &before, sizeof(before)); /* set only on success */
}

static void what_is_asked_is_understood(void **state)
{
    static const struct workload workloads[] = {
        {.kind = FABT_WORKLOAD_STRESS, .pattern = true, .depth = 64, .total_bytes = 7600000},
        {.kind = FABT_WORKLOAD_STREAM, .depth = 16, .size_bytes = 65536, .duration_ns = 5},
        {.kind = FABT_WORKLOAD_PINGPONG,
         .pattern = true,
         .depth = 1,
         .size_bytes = 1,
         .total_bytes = UINT64_MAX},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(workloads) / sizeof(workloads[0]); i++) {
        struct wire_extension extension = {.version = 0};
        struct workload back = {.kind = 99};
        struct failure reason = {0};

        workload_to_extension(&workloads[i], &extension);
        assert_int_equal(workload_from_extension(&back, &extension, &reason), WIRE_ACCEPTED);
        assert_int_equal(back.kind, workloads[i].kind);
        assert_int_equal(back.pattern, workloads[i].pattern);
        assert_int_equal(back.depth, workloads[i].depth);
        assert_int_equal(back.size_bytes, workloads[i].size_bytes);
        assert_int_equal(back.total_bytes, workloads[i].total_bytes);
        assert_int_equal(back.duration_ns, workloads[i].duration_ns);
    }
}

static void what_is_beyond_the_limits_is_refused(void **state)
{
    struct wire_extension extension;

    (void)state;
    assert_status(stream(1, 1), WIRE_ACCEPTED, "");
    assert_status(stream(1, 512), WIRE_ACCEPTED, "");
    assert_status(stream(UINT64_C(1) << 29, 1), WIRE_ACCEPTED, ""); /* two of them: 1 GiB */
    assert_status(stream(0, 1), WIRE_REFUSED_SIZE, "buffers");
    assert_status(stream(1, 0), WIRE_REFUSED_SIZE, "buffers");
    assert_status(stream(1, 513), WIRE_REFUSED_SIZE, "513");
    assert_status(stream((UINT64_C(1) << 29) + 1, 1), WIRE_REFUSED_SIZE, "536870913");
    assert_status(stream(UINT64_MAX, UINT32_MAX), WIRE_REFUSED_SIZE, "buffers");
    extension = stream(64, 1);
    extension.workload = FABT_WORKLOAD_COUNT;
    assert_status(extension, WIRE_REFUSED_WORKLOAD, "workload");
    extension = stream(64, 1);
    extension.pattern = 2;
    assert_status(extension, WIRE_REFUSED_WORKLOAD, "payload 2");
    extension = stream(64, 1);
    extension.version = 2;
    assert_status(extension, WIRE_REFUSED_VERSION, "version 2");
    extension = stream(64, 1);
    extension.workload = FABT_WORKLOAD_STRESS; /* its buffers have lengths of their own */
    assert_status(extension, WIRE_REFUSED_SIZE, "64");
}

static void assert_within(const struct workload *workload, const struct workload_limits *limits,
                          enum wire_status expected, const char *word)
{
    struct failure reason = {0};

    assert_int_equal(workload_within(workload, limits, &reason), expected);
    if (expected == WIRE_ACCEPTED)
        assert_int_equal(reason.code, 0);
    else
        assert_non_null(strstr(reason.text, word));
}

static void what_get_allows_is_kept_to(void **state)
{
    const struct workload_limits limits = {.one_kind = true,
                                           .kind = FABT_WORKLOAD_STREAM,
                                           .depth = 8,
                                           .size_bytes = 4096,
                                           .total_bytes = 1000,
                                           .duration_ns = 500};
    const struct workload_limits any = WORKLOAD_NO_LIMITS;
    struct workload_limits by_time = WORKLOAD_NO_LIMITS, shallow = WORKLOAD_NO_LIMITS;
    const struct workload most = {
        .kind = FABT_WORKLOAD_STREAM, .depth = 8, .size_bytes = 4096, .total_bytes = 1000};
    struct workload workload = most;

    (void)state;
    assert_within(&workload, &limits, WIRE_ACCEPTED, "");
    workload.kind = FABT_WORKLOAD_PINGPONG;
    assert_within(&workload, &limits, WIRE_REFUSED_WORKLOAD, "--workload allows stream");
    assert_within(&workload, &any, WIRE_ACCEPTED, "");
    workload = most;
    workload.depth = 9;
    assert_within(&workload, &limits, WIRE_REFUSED_SIZE, "--depth allows 8");
    workload = most;
    workload.size_bytes = 4097;
    assert_within(&workload, &limits, WIRE_REFUSED_SIZE, "--size allows 4096");
    workload = most;
    workload.total_bytes = 1001;
    assert_within(&workload, &limits, WIRE_REFUSED_SIZE, "--total allows 1000");
    workload.total_bytes = 0;
    workload.duration_ns = 500;
    assert_within(&workload, &limits, WIRE_REFUSED_SIZE, "until its --duration is over");
    by_time.duration_ns = 500;
    assert_within(&workload, &by_time, WIRE_ACCEPTED, "");
    workload.duration_ns = 501;
    assert_within(&workload, &by_time, WIRE_REFUSED_SIZE, "--duration allows");
    workload = workload_default();
    shallow.depth = 1; /* of the stress workload it is not put's to choose */
    assert_within(&workload, &shallow, WIRE_ACCEPTED, "");
}

static void targets_keep_put_busy(void **state)
{
    struct workload workload = workload_default();

    (void)state;
    assert_int_equal(workload_targets(&workload), 3); /* what older puts live with */
    workload = (struct workload){.kind = FABT_WORKLOAD_STREAM, .depth = 16};
    assert_true(workload_targets(&workload) >= 2 * 16);
    workload = (struct workload){.kind = FABT_WORKLOAD_PINGPONG, .depth = 1};
    assert_int_equal(workload_targets(&workload), 1);
}

static void only_time_ends_a_run_without_total(void **state)
{
    const struct workload by_time = {.duration_ns = 1}, by_total = {.total_bytes = 1},
                          empty = {.kind = FABT_WORKLOAD_STREAM};

    (void)state;
    assert_true(workload_open_ended(&by_time));
    assert_false(workload_open_ended(&by_total));
    assert_false(workload_open_ended(&empty));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_asked_is_understood),
        cmocka_unit_test(what_is_beyond_the_limits_is_refused),
        cmocka_unit_test(what_get_allows_is_kept_to),
        cmocka_unit_test(targets_keep_put_busy),
        cmocka_unit_test(only_time_ends_a_run_without_total),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
