/* SPDX-License-Identifier: BSD-3-Clause
 *
 * In which order processors are best given to workers: one of each core before any second hardware
 * thread, and those near the network device before those far from it. */
#ifndef FABT_TOPOLOGY_H
#define FABT_TOPOLOGY_H

#include <hwloc.h>
#include <sched.h>

#include "failure.h"
#include "parse.h"

/* The processors of `allowed` in that order. `device` is the name of the network device (a
 * libfabric domain's name, as "eth0" or "mlx5_0"); NULL or an unknown one: no processor is nearer
 * than others. */
int topology_order(const cpu_set_t *allowed, const char *device, struct cpu_list *cpus,
                   struct failure *failure);

/* The same on a topology that is loaded already. */
void topology_order_on(hwloc_topology_t topology, const cpu_set_t *allowed, const char *device,
                       struct cpu_list *cpus);

#endif
