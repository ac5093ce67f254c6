/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What a process tells of itself in the trace. `cause`: enum fabt_cause. */
#ifndef FABT_ENGINE_TRACE_H
#define FABT_ENGINE_TRACE_H

#include "engine.h"

void engine_trace_process(const struct engine *engine, uint8_t cause);
void engine_trace_params(const struct engine *engine, uint8_t cause);
void engine_trace_listening(const struct engine *engine, uint8_t cause);

/* The hints and the chosen fi_info, a line an event. */
void engine_trace_infos(const struct engine *engine);

/* Once a second: who we are, for traces that started late. */
void engine_trace_state_dump(struct engine *engine, uint64_t now);

/* How much this process has written: its very last events, which are repeated for all threads. */
void engine_trace_ends(struct engine *engine);

/* How it ended. */
void engine_trace_end(const struct engine *engine);

#endif
