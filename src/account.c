/* SPDX-License-Identifier: BSD-3-Clause */
#include "account.h"

#include <string.h>

void account_start(struct account *account, struct activity *activity, uint64_t now)
{
    if (account_on(account) || !FABT_TRACE_ENABLED(session_time))
        return;
    account->activity = activity;
    account->since_ns = now;
    account->seen = *activity;
}

/* Move a part of what is left to a counter. Never more than is left: parts are measured with other
 * readings of the clock, before or after those that delimit the whole. */
static void take(uint64_t *left, uint64_t part, uint64_t *counter)
{
    const uint64_t taken = part < *left ? part : *left;

    *counter += taken;
    *left -= taken;
}

void account_wait(struct account *account, uint8_t state, uint64_t now)
{
    struct account_row *row = &account->rows[state];
    const struct activity *is = account->activity;
    uint64_t left;

    if (!account_on(account) || now <= account->since_ns)
        return;
    left = now - account->since_ns;
    take(&left, is->serving_ns - account->seen.serving_ns, &row->others_ns);
    take(&left, is->asleep_ns - account->seen.asleep_ns, &row->asleep_ns);
    take(&left, is->off_cpu_ns - account->seen.off_cpu_ns, &row->off_cpu_ns);
    row->polling_ns += left;
    row->changed = true;
    account->seen = *is;
    account->since_ns = now;
}

static void take_own(struct account *account, uint64_t *left, uint64_t part, uint8_t state)
{
    if (part == 0)
        return;
    take(left, part, &account->rows[state].own_ns);
    account->rows[state].changed = true;
}

void account_serve(struct account *account, uint8_t state, const struct account_work *work,
                   bool deferred, uint64_t now)
{
    const uint8_t post = deferred ? (uint8_t)FABT_STATE_DEFERRED : (uint8_t)FABT_STATE_POST;
    uint64_t left;

    if (!account_on(account) || now <= account->since_ns)
        return;
    left = now - account->since_ns;
    account->activity->serving_ns += left;
    if (state == FABT_STATE_SERVICE) {
        take_own(account, &left, work->payload_ns - account->work.payload_ns, FABT_STATE_PAYLOAD);
        take_own(account, &left, work->registration_ns - account->work.registration_ns,
                 FABT_STATE_REGISTRATION);
        take_own(account, &left, work->post_ns - account->work.post_ns, post);
    }
    take_own(account, &left, left, state);
    account->work = *work;
    account->seen = *account->activity;
    account->since_ns = now;
}

void account_trace(struct account *account, uint32_t session)
{
    for (uint8_t state = 0; state < FABT_STATE_COUNT; state++) {
        struct account_row *row = &account->rows[state];

        if (!row->changed)
            continue;
        row->changed = false;
        FABT_TRACE(session_time, .session = session, .state = state, .own_ns = row->own_ns,
                   .polling_ns = row->polling_ns, .others_ns = row->others_ns,
                   .asleep_ns = row->asleep_ns, .off_cpu_ns = row->off_cpu_ns);
    }
}
