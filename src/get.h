/* SPDX-License-Identifier: BSD-3-Clause
 *
 * get's side of a session: it acknowledges, offers payload buffers (vectors), learns what has been
 * written (progress), verifies it and offers the buffers again. */
#ifndef FABT_GET_H
#define FABT_GET_H

#include "session.h"

/* A session with the put that sent `initial` and asked for `workload`, or NULL when there is no
 * memory. */
struct session *get_create(const struct options *options, const struct fabric *fabric,
                           uint32_t number, const struct wire_initial *initial,
                           const struct workload *workload);

#endif
