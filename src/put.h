/* SPDX-License-Identifier: BSD-3-Clause
 *
 * put's side of a session: it says hello, takes in the memory that get offers (vectors), writes its
 * payload into it and reports what is written (progress). */
#ifndef FABT_PUT_H
#define FABT_PUT_H

#include "session.h"

/* A session of round `round` to the listening endpoint at options->peer, or NULL when there is no
 * memory. */
struct session *put_create(const struct options *options, const struct fabric *fabric,
                           uint32_t number, uint32_t round, uint64_t run_id);

#endif
