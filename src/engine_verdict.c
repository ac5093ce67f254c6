/* SPDX-License-Identifier: BSD-3-Clause
 *
 * How a process's run is judged. */
#include "engine_parts.h"

#include "clock.h"

/* A peer that disappears shortly before our signal was cancelled by the same hand. */
#define EXCUSE_NS (2 * NS_PER_S)

/* With -c: sessions that ended before the signal may be forgiven if the signal follows. Returns
 * until when to wait for it (CLOCK_MONOTONIC ns), 0: no longer. */
uint64_t engine_forgiven_until(const struct engine *engine)
{
    uint64_t until = 0, last_end = 0;

    if (!engine->options->expect_cancel || engine->signal != 0 || engine->refused > 0)
        return 0;
    for (uint32_t i = 0; i < engine->sessions_count; i++) {
        const struct session *session = engine->sessions[i];

        if (session->outcome == FABT_OUTCOME_REFUSED ||
            (session->outcome == FABT_OUTCOME_FAILED && !session->failure.peer_lost))
            return 0;
        if (session->outcome == FABT_OUTCOME_FAILED &&
            (until == 0 || session->failed_ns + EXCUSE_NS < until))
            until = session->failed_ns + EXCUSE_NS;
        if (session->end_ns > last_end)
            last_end = session->end_ns;
    }
    return until != 0 ? until : last_end + engine->options->timeout_ns;
}

bool engine_excused(const struct engine *engine, const struct session *session)
{
    return engine->options->expect_cancel && engine->signal != 0 && session->failure.peer_lost &&
           session->failed_ns + EXCUSE_NS >= engine->cancel_ns;
}

struct engine_verdict engine_judge(const struct engine *engine)
{
    struct engine_verdict verdict = {
        .failed = engine->refused,
        .dropped = engine->listener.dropped,
    };

    for (uint32_t i = 0; i < engine->sessions_count; i++) {
        const struct session *session = engine->sessions[i];

        if (session->outcome == FABT_OUTCOME_OK)
            verdict.ok++;
        else if (session->outcome == FABT_OUTCOME_CANCELLED || engine_excused(engine, session))
            verdict.cancelled++;
        else
            verdict.failed++;
    }
    verdict.success =
        verdict.failed == 0 && (engine->signal != 0) == engine->options->expect_cancel;
    return verdict;
}
