/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Description: the exit code's rule. Success is exactly: nothing failed, and cancelled == expected;
 * with -c a peer that was lost during our cancellation or within two seconds before our signal is
 * no failure, anything else is. */
#include "harness.h"

#include <signal.h>

#include "engine.h"

#define SECOND UINT64_C(1000000000)

struct session_end {
    uint8_t outcome;
    bool peer_lost;
    uint64_t failed_ns;
};

struct run_end {
    const char *what;
    bool expect_cancel;
    int signal;
    uint32_t refused;
    struct session_end sessions[3];
    uint32_t ok, failed, cancelled;
    bool success;
};

#define OK                        \
    {                             \
        FABT_OUTCOME_OK, false, 0 \
    }
#define CANCELLED                        \
    {                                    \
        FABT_OUTCOME_CANCELLED, false, 0 \
    }

/* Our signal comes at second 100. */
enum { SIGNAL_S = 100 };

static struct engine_verdict judge(const struct run_end *end)
{
    const struct options options = {.expect_cancel = end->expect_cancel};
    struct session *sessions[3];
    struct engine engine = {
        .options = &options,
        .sessions = sessions,
        .sessions_count = 3,
        .refused = end->refused,
        .signal = end->signal,
        .cancel_ns = SIGNAL_S * SECOND,
    };
    struct engine_verdict verdict;

    for (unsigned i = 0; i < 3; i++) {
        sessions[i] = calloc(1, sizeof(struct session));
        assert_non_null(sessions[i]);
        sessions[i]->outcome = end->sessions[i].outcome;
        sessions[i]->failed_ns = end->sessions[i].failed_ns;
        sessions[i]->failure.peer_lost = end->sessions[i].peer_lost;
        sessions[i]->failure.code = end->sessions[i].outcome == FABT_OUTCOME_FAILED ? -5 : 0;
    }
    verdict = engine_judge(&engine);
    for (unsigned i = 0; i < 3; i++)
        free(sessions[i]);
    return verdict;
}

static void the_table_of_verdicts(void **state)
{
    static const struct run_end ends[] = {
        {"all went well", false, 0, 0, {OK, OK, OK}, 3, 0, 0, true},
        {"one failed", false, 0, 0, {OK, {FABT_OUTCOME_FAILED, false, SECOND}, OK}, 2, 1, 0, false},
        {"one was refused before it started", false, 0, 1, {OK, OK, OK}, 3, 1, 0, false},
        {"put was refused",
         false,
         0,
         0,
         {OK, {FABT_OUTCOME_REFUSED, false, 1}, OK},
         2,
         1,
         0,
         false},
        {"cancelled, not expected", false, SIGINT, 0, {OK, CANCELLED, CANCELLED}, 1, 0, 2, false},
        {"cancelled, expected", true, SIGTERM, 0, {CANCELLED, CANCELLED, OK}, 1, 0, 2, true},
        {"the data ended before the signal", true, SIGHUP, 0, {OK, OK, OK}, 3, 0, 0, true},
        {"expected, and no signal came", true, 0, 0, {OK, OK, OK}, 3, 0, 0, false},
        {"a peer lost 2 s before the signal",
         true,
         SIGINT,
         0,
         {{FABT_OUTCOME_FAILED, true, (SIGNAL_S - 2) * SECOND}, CANCELLED, CANCELLED},
         0,
         0,
         3,
         true},
        {"a peer lost longer before the signal",
         true,
         SIGINT,
         0,
         {{FABT_OUTCOME_FAILED, true, (SIGNAL_S - 2) * SECOND - 1}, CANCELLED, CANCELLED},
         0,
         1,
         2,
         false},
        {"a peer lost during the cancellation",
         true,
         SIGINT,
         0,
         {{FABT_OUTCOME_FAILED, true, (SIGNAL_S + 1) * SECOND}, CANCELLED, OK},
         1,
         0,
         2,
         true},
        {"a peer lost, and our signal did not follow",
         true,
         0,
         0,
         {{FABT_OUTCOME_FAILED, true, (SIGNAL_S - 1) * SECOND}, OK, OK},
         2,
         1,
         0,
         false},
        {"a peer lost, signal not expected",
         false,
         SIGINT,
         0,
         {{FABT_OUTCOME_FAILED, true, SIGNAL_S * SECOND}, CANCELLED, CANCELLED},
         0,
         1,
         2,
         false},
        {"wrong bytes are no cancellation",
         true,
         SIGINT,
         0,
         {{FABT_OUTCOME_FAILED, false, SIGNAL_S * SECOND}, CANCELLED, CANCELLED},
         0,
         1,
         2,
         false},
        {"refused sessions are none either",
         true,
         SIGINT,
         1,
         {CANCELLED, CANCELLED, OK},
         1,
         1,
         2,
         false},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(ends); i++) {
        const struct engine_verdict verdict = judge(&ends[i]);

        if (verdict.ok != ends[i].ok || verdict.failed != ends[i].failed ||
            verdict.cancelled != ends[i].cancelled || verdict.success != ends[i].success)
            fail_msg("%s: %u ok, %u failed, %u cancelled, success %d", ends[i].what, verdict.ok,
                     verdict.failed, verdict.cancelled, verdict.success);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_table_of_verdicts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
