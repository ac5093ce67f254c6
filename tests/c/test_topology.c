/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Description: processors are given to workers one of each core first, within what is allowed,
 * whatever the numbering; an unknown network device changes nothing. */
#include "harness.h"

#include <sched.h>

#include "topology.h"

static hwloc_topology_t machine(const char *synthetic)
{
    hwloc_topology_t topology;

    assert_int_equal(hwloc_topology_init(&topology), 0);
    assert_int_equal(hwloc_topology_set_synthetic(topology, synthetic), 0);
    assert_int_equal(hwloc_topology_load(topology), 0);
    return topology;
}

static void assert_order(const char *synthetic, const char *allowed_list, const char *expected)
{
    hwloc_topology_t topology = machine(synthetic);
    struct cpu_list allowed_cpus, cpus, wanted;
    cpu_set_t allowed;

    assert_int_equal(parse_cpus(allowed_list, &allowed_cpus), 0);
    assert_int_equal(parse_cpus(expected, &wanted), 0);
    CPU_ZERO(&allowed);
    for (unsigned i = 0; i < allowed_cpus.count; i++)
        CPU_SET(allowed_cpus.cpu[i], &allowed);
    topology_order_on(topology, &allowed, "no such device", &cpus);
    assert_int_equal(cpus.count, wanted.count);
    for (unsigned i = 0; i < wanted.count; i++)
        assert_int_equal(cpus.cpu[i], wanted.cpu[i]);
    hwloc_topology_destroy(topology);
}

static void cores_come_before_hardware_threads(void **state)
{
    (void)state;
    assert_order("package:2 core:2 pu:2", "0-7", "0,2,4,6,1,3,5,7");
    /* The usual numbering of x86 servers: second threads have the high numbers. */
    assert_order("package:2 core:2 pu:2(indexes=0,4,1,5,2,6,3,7)", "0-7", "0-7");
}

static void what_is_not_allowed_is_left_out(void **state)
{
    (void)state;
    assert_order("package:2 core:2 pu:2", "1-4", "2,4,1,3");
    assert_order("core:4 pu:1", "3", "3");
}

static void a_machine_without_hardware_threads_is_in_order(void **state)
{
    (void)state;
    assert_order("package:1 core:6 pu:1", "0-5", "0-5");
}

static void this_machine_has_all_that_is_allowed(void **state)
{
    struct failure failure = {0};
    struct cpu_list cpus;
    cpu_set_t allowed;

    (void)state;
    assert_int_equal(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
    assert_int_equal(topology_order(&allowed, NULL, &cpus, &failure), 0);
    assert_int_equal(cpus.count, CPU_COUNT(&allowed));
    for (unsigned i = 0; i < cpus.count; i++)
        assert_true(CPU_ISSET(cpus.cpu[i], &allowed));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cores_come_before_hardware_threads),
        cmocka_unit_test(what_is_not_allowed_is_left_out),
        cmocka_unit_test(a_machine_without_hardware_threads_is_in_order),
        cmocka_unit_test(this_machine_has_all_that_is_allowed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
