/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What a run tells at its end: a table for people, a JSON document for programs. */
#ifndef FABT_RESULTS_H
#define FABT_RESULTS_H

#include <stdio.h>

#include "engine.h"

/* A row a session and a total. */
void results_print(const struct engine *engine, FILE *out);

/* Write the JSON document to an open file; `path` is its name, for messages. */
int results_write_json(const struct engine *engine, FILE *out, const char *path,
                       struct failure *failure);

/* A session that failed, in one line without a newline. */
void results_describe_failure(const struct engine *engine, const struct session *session,
                              char *text, size_t size);

#endif
