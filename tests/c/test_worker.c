/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Description: sessions that are handed to worker threads one by one are begun, served, cancelled
 * and closed there; the main thread learns of each end, and after the join nothing is left open. It
 * is also a run for a thread sanitizer. */
#include "harness.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include "fake_fabric.h"
#include "put.h"
#include "worker.h"

enum { WORKERS = 3, SESSIONS = 8 };

struct crew {
    struct options options;
    atomic_bool cancel;
    int done_fd;
    /* A provider each: what is below a domain belongs to one thread. */
    struct fake_net *nets[WORKERS];
    struct fabric fabrics[WORKERS];
    struct worker workers[WORKERS];
    struct session *sessions[WORKERS][SESSIONS];
};

static void open_crew(struct crew *crew, bool wait)
{
    const struct fake_limits limits = FAKE_LIMITS;

    memset(crew, 0, sizeof(*crew));
    atomic_init(&crew->cancel, false);
    crew->done_fd = eventfd(0, EFD_CLOEXEC);
    assert_true(crew->done_fd >= 0);
    crew->options = (struct options){
        .role = ROLE_PUT,
        .sessions = 1,
        .local_sessions = 1,
        .wait = wait,
        .workload = workload_default(),
        .rounds = 1,
        .timeout_ns = UINT64_C(60000000000),
        .hello_timeout_ns = UINT64_C(60000000000),
    };
    for (unsigned w = 0; w < WORKERS; w++) {
        struct worker_config config = {
            .options = &crew->options,
            .fabric = &crew->fabrics[w],
            .index = w,
            .pinned_cpu = -1,
            .sessions_max = SESSIONS,
            .done_fd = crew->done_fd,
            .cancel = &crew->cancel,
        };
        struct failure failure = {0};

        crew->nets[w] = fake_net_new();
        fake_fabric_open(&crew->fabrics[w], crew->nets[w], &limits);
        crew->options.peer = fake_address(fake_peer_open(crew->nets[w]));
        assert_int_equal(worker_start(&crew->workers[w], &config, &failure), 0);
    }
}

static void give_all(struct crew *crew)
{
    for (unsigned s = 0; s < SESSIONS; s++) {
        for (unsigned w = 0; w < WORKERS; w++) {
            crew->sessions[w][s] =
                put_create(&crew->options, &crew->fabrics[w], w * SESSIONS + s, 0, 0);
            assert_non_null(crew->sessions[w][s]);
            worker_give(&crew->workers[w], crew->sessions[w][s]);
        }
    }
}

static void cancel_all(struct crew *crew)
{
    atomic_store_explicit(&crew->cancel, true, memory_order_release);
    for (unsigned w = 0; w < WORKERS; w++)
        worker_kick(&crew->workers[w]);
}

/* Blocks until so many sessions have ended. */
static void wait_for(const struct crew *crew, uint64_t sessions)
{
    for (uint64_t ended = 0; ended < sessions;) {
        uint64_t count;

        assert_int_equal(read(crew->done_fd, &count, sizeof(count)), sizeof(count));
        ended += count;
    }
}

static void close_crew(struct crew *crew)
{
    for (unsigned w = 0; w < WORKERS; w++) {
        worker_join(&crew->workers[w]);
        worker_join(&crew->workers[w]); /* twice is harmless */
    }
    for (unsigned w = 0; w < WORKERS; w++) {
        assert_int_equal(worker_close(&crew->workers[w]), 0);
        for (unsigned s = 0; s < SESSIONS && crew->sessions[w][s] != NULL; s++) {
            struct session *session = crew->sessions[w][s];

            assert_true(session_closed(session));
            assert_int_equal(session->outcome, FABT_OUTCOME_CANCELLED);
            assert_int_equal(session->worker, w);
            assert_int_equal(session->leaks, 0);
            session->class->destroy(session);
        }
        fake_fabric_close(&crew->fabrics[w]);
        fake_net_free(crew->nets[w]);
    }
    close(crew->done_fd);
}

static void sessions_are_served_until_cancelled(void **state)
{
    (void)state;
    for (unsigned round = 0; round < 20; round++) {
        struct crew crew;

        open_crew(&crew, round % 2 == 1);
        give_all(&crew);
        cancel_all(&crew);
        wait_for(&crew, WORKERS * SESSIONS);
        close_crew(&crew);
    }
}

static void sessions_given_after_the_cancellation_end_too(void **state)
{
    (void)state;
    for (unsigned round = 0; round < 20; round++) {
        struct crew crew;

        open_crew(&crew, false);
        cancel_all(&crew);
        give_all(&crew);
        wait_for(&crew, WORKERS * SESSIONS);
        close_crew(&crew);
    }
}

/* The engine does so when its set-up fails: stop and join without waiting for each session. */
static void joining_ends_what_was_given(void **state)
{
    struct crew crew;

    (void)state;
    open_crew(&crew, false);
    give_all(&crew);
    cancel_all(&crew);
    close_crew(&crew);
}

static void workers_without_sessions_end(void **state)
{
    struct crew crew;

    (void)state;
    open_crew(&crew, true);
    close_crew(&crew);
}

static void no_wait_descriptor_means_polling(void **state)
{
    struct crew crew;

    (void)state;
    open_crew(&crew, true); /* the fake provider has none, as shm */
    assert_int_equal(crew.workers[0].wait_mode, FABT_WAIT_MODE_POLL_FALLBACK);
    close_crew(&crew);
    open_crew(&crew, false);
    assert_int_equal(crew.workers[0].wait_mode, FABT_WAIT_MODE_POLL);
    close_crew(&crew);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sessions_are_served_until_cancelled),
        cmocka_unit_test(sessions_given_after_the_cancellation_end_too),
        cmocka_unit_test(joining_ends_what_was_given),
        cmocka_unit_test(workers_without_sessions_end),
        cmocka_unit_test(no_wait_descriptor_means_polling),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
