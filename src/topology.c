/* SPDX-License-Identifier: BSD-3-Clause */
#include "topology.h"

#include <errno.h>
#include <string.h>

/* The processors near a device, or NULL when it is not known here. */
static hwloc_const_cpuset_t near_device(hwloc_topology_t topology, const char *device)
{
    hwloc_obj_t os_device = NULL;

    if (device == NULL)
        return NULL;
    while ((os_device = hwloc_get_next_osdev(topology, os_device)) != NULL) {
        if (os_device->name != NULL && strcmp(os_device->name, device) == 0) {
            const hwloc_obj_t parent = hwloc_get_non_io_ancestor_obj(topology, os_device);

            return parent == NULL ? NULL : parent->cpuset;
        }
    }
    return NULL;
}

/* Which hardware thread of its core a processor is: 0, 1, ... */
static unsigned thread_of_core(hwloc_topology_t topology, hwloc_obj_t pu)
{
    const hwloc_obj_t core = hwloc_get_ancestor_obj_by_type(topology, HWLOC_OBJ_CORE, pu);
    unsigned before = 0;

    if (core == NULL)
        return 0;
    for (int i = hwloc_bitmap_first(core->cpuset); i >= 0; i = hwloc_bitmap_next(core->cpuset, i)) {
        if ((unsigned)i < pu->os_index)
            before++;
    }
    return before;
}

/* Append the allowed processors that are hardware thread `thread` of their core and (not) `near`.
 * Returns how many hardware threads of that rank or a higher one there are at all. */
static unsigned append(hwloc_topology_t topology, const cpu_set_t *allowed,
                       hwloc_const_cpuset_t near, bool is_near, unsigned thread,
                       struct cpu_list *cpus)
{
    hwloc_obj_t pu = NULL;
    unsigned left = 0;

    while ((pu = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_PU, pu)) != NULL) {
        const unsigned rank = thread_of_core(topology, pu);

        left += rank >= thread;
        if (rank != thread || pu->os_index >= CPU_SETSIZE || !CPU_ISSET(pu->os_index, allowed) ||
            (near == NULL || hwloc_bitmap_isset(near, pu->os_index)) != is_near)
            continue;
        if (cpus->count < PARSE_CPUS_MAX)
            cpus->cpu[cpus->count++] = pu->os_index;
    }
    return left;
}

void topology_order_on(hwloc_topology_t topology, const cpu_set_t *allowed, const char *device,
                       struct cpu_list *cpus)
{
    const hwloc_const_cpuset_t near = near_device(topology, device);
    unsigned left = 1;

    cpus->count = 0;
    for (unsigned thread = 0; left > 0; thread++) {
        left = append(topology, allowed, near, true, thread, cpus);
        append(topology, allowed, near, false, thread, cpus);
    }
}

int topology_order(const cpu_set_t *allowed, const char *device, struct cpu_list *cpus,
                   struct failure *failure)
{
    hwloc_topology_t topology;

    if (hwloc_topology_init(&topology) != 0)
        return failure_set(failure, -ENOMEM, "-p auto: no memory for hwloc");
    hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
    if (hwloc_topology_load(topology) != 0) {
        hwloc_topology_destroy(topology);
        return failure_set(failure, -EIO,
                           "-p auto: hwloc can't read this machine's topology: "
                           "name the processors");
    }
    topology_order_on(topology, allowed, device, cpus);
    hwloc_topology_destroy(topology);
    if (cpus->count == 0)
        return failure_set(failure, -ENOENT,
                           "-p auto: hwloc knows none of the allowed processors: "
                           "name them");
    return 0;
}
