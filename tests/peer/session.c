/* SPDX-License-Identifier: BSD-3-Clause */
#include "session.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <time.h>

static volatile sig_atomic_t interrupted;

static const double GRACE = 2.0; /* seconds that honest sessions have to end after a signal */

static void on_signal(int number)
{
    (void)number;
    interrupted = 1;
}

void session_catch_signals(void)
{
    static const int signals[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM};
    struct sigaction action = {.sa_handler = on_signal};

    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
        sigaction(signals[i], &action, NULL);
}

bool session_interrupted(void)
{
    return interrupted != 0;
}

double session_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void session_init(struct session *session, const struct options *options, unsigned number)
{
    memset(session, 0, sizeof(*session));
    session->options = options;
    session->last_event = session_now();
    for (unsigned i = 0; i < options->nquirks; i++)
        if (options->quirks[i].session < 0 || options->quirks[i].session == (int)number)
            session->quirks.list[session->quirks.n++] = options->quirks[i].quirk;
}

int session_service(struct session *session)
{
    int n = port_poll(&session->port, &session->failure);
    if (n < 0)
        return -1;
    int sent = control_tx_service(&session->tx, &session->port, &session->failure);
    return sent < 0 ? -1 : n + sent;
}

void session_send(struct session *session, enum quirk_moment kind, const void *msg, size_t len)
{
    _Alignas(8) uint8_t bytes[CONTROL_BYTES_MAX] = {0};

    memcpy(bytes, msg, len);
    if (quirks_strike(&session->quirks, kind, session->tx.added, bytes, &len, sizeof(bytes)))
        control_tx_add(&session->tx, bytes, len);
}

static int step_one(struct session *session, session_step *step)
{
    int n = session->quirks.silent ? session_service(session) : step(session);
    if (n < 0)
        return -1;
    const double now = session_now();
    if (n > 0)
        session->last_event = now;
    else if (now - session->last_event > session->options->timeout)
        return failure_set(&session->failure, "nothing happened for %g s while waiting for %s",
                           session->options->timeout, session->waiting_for);
    return n;
}

static void keep_first_failure(const struct session *session, unsigned number, struct failure *f)
{
    if (!quirks_are_hostile(&session->quirks))
        failure_set(f, "session %u: %s", number, session->failure.text);
}

/* Runs the sessions in turn once. Returns the number of things done. */
static int step_all(struct session **sessions, unsigned n, session_step *step, struct failure *f)
{
    int done = 0;

    for (unsigned i = 0; i < n; i++) {
        if (sessions[i]->port.ep == NULL)
            continue;
        int rc = step_one(sessions[i], step);
        if (rc >= 0 && !sessions[i]->finished) {
            done += rc;
            continue;
        }
        if (rc < 0)
            keep_first_failure(sessions[i], i, f);
        port_close(&sessions[i]->port);
    }
    return done;
}

static unsigned count_open(struct session **sessions, unsigned n, bool hostile)
{
    unsigned count = 0;

    for (unsigned i = 0; i < n; i++)
        count +=
            sessions[i]->port.ep != NULL && quirks_are_hostile(&sessions[i]->quirks) == hostile;
    return count;
}

int session_run_all(struct session **sessions, unsigned n, session_step *step,
                    struct port *background, struct failure *f)
{
    struct failure ignored = {""};
    double interrupted_at = 0;
    unsigned honest = n;

    while ((honest = count_open(sessions, n, false)) + count_open(sessions, n, true) > 0) {
        if (session_interrupted() && interrupted_at == 0)
            interrupted_at = session_now();
        if (interrupted_at > 0 && (honest == 0 || session_now() > interrupted_at + GRACE))
            break;
        int done = step_all(sessions, n, step, f);
        if (background != NULL)
            port_poll(background, &ignored);
        if (done == 0)
            sched_yield();
    }
    if (honest > 0)
        failure_set(f, "interrupted by a signal with %u sessions open", honest);
    return f->text[0] == '\0' ? 0 : -1;
}
