/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What a process opens before its first session. */
#include "engine_parts.h"

#include <errno.h>
#include <glob.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "capacity.h"
#include "clock.h"
#include "engine_trace.h"
#include "signals.h"
#include "topology.h"

enum {
    HANG_S = 10, /* without a round, beyond all time-outs: the provider hangs */
};

/* The recorder gives all processes of a run the same id; else put makes one up. */
uint64_t engine_choose_run_id(enum role role)
{
    const char *text = getenv("FABT_RUN_ID");
    uint64_t id = 0;
    char *end;

    if (text != NULL && *text != '\0') {
        errno = 0;
        id = strtoull(text, &end, 16);
        if (*end == '\0' && errno == 0 && id != 0)
            return id;
        id = 0;
    }
    if (role == ROLE_PUT && getrandom(&id, sizeof(id), GRND_NONBLOCK) != (ssize_t)sizeof(id))
        id = clock_now();
    return id;
}

int engine_watch(struct engine *engine, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};

    return epoll_ctl(engine->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0 ? 0 : -errno;
}

static int open_descriptors(struct engine *engine, struct failure *failure)
{
    const sigset_t set = signals_cancelling();
    int rc = 0;

    engine->signal_fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    engine->done_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    engine->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (engine->signal_fd < 0 || engine->done_fd < 0 || engine->epoll_fd < 0)
        rc = -errno;
    if (rc == 0)
        rc = engine_watch(engine, engine->signal_fd);
    if (rc == 0)
        rc = engine_watch(engine, engine->done_fd);
    if (rc != 0)
        return failure_set(failure, rc, "cannot open descriptors: %s", strerror(-rc));
    return 0;
}

uint32_t engine_sessions_a_worker(const struct engine *engine)
{
    const struct options *options = engine->options;

    if (options->placement == PLACEMENT_PACK)
        return options->sessions_per_worker < options->local_sessions ? options->sessions_per_worker
                                                                      : options->local_sessions;
    return (options->local_sessions + engine->workers_count - 1) / engine->workers_count;
}

static int choose_cpus(struct engine *engine, struct failure *failure)
{
    cpu_set_t allowed;

    if (!engine->options->pin_auto) {
        if (engine->options->pinned)
            engine->cpus = engine->options->cpus;
        return 0;
    }
    if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0)
        return failure_set(failure, -errno, "-p auto: cannot read the allowed processors: %s",
                           strerror(errno));
    return topology_order(&allowed, engine->fabric.info->domain_attr->name, &engine->cpus, failure);
}

/* Processors that this process may run on. */
static uint32_t processors(void)
{
    cpu_set_t allowed;

    if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0 || CPU_COUNT(&allowed) < 1)
        return 1;
    return (uint32_t)CPU_COUNT(&allowed);
}

static int start_workers(struct engine *engine, struct failure *failure)
{
    const struct options *options = engine->options;
    const uint32_t crowd = engine->workers_count / processors();

    for (uint32_t i = 0; i < engine->workers_count; i++) {
        const struct worker_config config = {
            .options = options,
            .fabric = &engine->fabric,
            .instance = engine->instance,
            .index = i,

            .pinned_cpu =
                engine->cpus.count > 0 ? (int)engine->cpus.cpu[i % engine->cpus.count] : -1,
            .sessions_max = engine_sessions_a_worker(engine),
            .crowd = crowd,
            .done_fd = engine->done_fd,
            .cancel = &engine->cancel,
        };
        const int rc = worker_start(&engine->workers[i], &config, failure);

        if (rc != 0) {
            engine->workers_count = i;
            return rc;
        }
    }
    if (engine->workers[0].wait_mode == FABT_WAIT_MODE_POLL_FALLBACK) {
        char text[160];

        snprintf(text, sizeof(text),
                 "-w: provider %.40s has no wait descriptor; workers poll and back off instead",
                 engine->fabric.info->fabric_attr->prov_name);
        engine->note(text);
    }
    return 0;
}

/* shm names its regions after the process; no one else would remove them. */
static void remove_shm_regions(void)
{
    char pattern[64];
    glob_t found = {0};

    snprintf(pattern, sizeof(pattern), "/dev/shm/%d:*", (int)getpid());
    if (glob(pattern, GLOB_NOSORT, NULL, &found) == 0) {
        for (size_t i = 0; i < found.gl_pathc; i++)
            unlink(found.gl_pathv[i]);
    }
    globfree(&found);
}

/* Nothing can be closed any more: what is traced so far is safe, the rest the system takes back. */
static void provider_hangs(void *argument, const char *name, uint32_t seconds)
{
    const struct engine *engine = argument;
    char text[256];

    snprintf(text, sizeof(text),
             "%s hangs inside provider %.60s for %" PRIu32
             " s: the process ends (a peer that was killed can leave shared memory locked)",
             name, engine->fabric.info->fabric_attr->prov_name, seconds);
    fabt_trace_writer_start(engine->instance, FABT_WRITER_THREADS - 1);
    FABT_TRACE(error, .session = -1, .code = -FI_ETIMEDOUT, .text = text);
    engine->note(text);
    remove_shm_regions();
    _exit(1);
}

/* Watch the main thread, and the workers if there are any, for `limit_s` seconds without a round.
 */
int engine_start_watchdog(struct engine *engine, uint32_t workers, uint64_t limit_s,
                          struct failure *failure)
{
    bool added = watchdog_add(&engine->watchdog, &engine->heartbeat, "the main thread");

    engine->watchdog.hangs = provider_hangs;
    engine->watchdog.argument = engine;
    for (uint32_t i = 0; i < workers && added; i++) {
        char name[24];

        snprintf(name, sizeof(name), "worker %" PRIu32, i);
        added = watchdog_add(&engine->watchdog, &engine->workers[i].heartbeat, name);
    }
    if (!added)
        return failure_set(failure, -ENOMEM, "no memory for the watchdog");
    return watchdog_start(&engine->watchdog, (uint32_t)limit_s, failure);
}

int engine_set_up(struct engine *engine, struct failure *failure)
{
    const struct options *options = engine->options;
    const struct fabric_request request = {
        .provider = options->provider,
        .bind = options->bind,
        .peer = options->role == ROLE_PUT ? &options->peer : NULL,
        .wait = options->wait,
    };
    const uint32_t workers = options_worker_count(options);
    int rc;

    capacity_raise_descriptors();
    rc = open_descriptors(engine, failure);
    if (rc == 0)
        rc = fabric_open(&engine->fabric, &request, failure);
    if (rc == 0)
        rc = capacity_check(&engine->fabric, options, workers, failure);
    if (rc != 0)
        return rc;
    engine->workers = calloc(workers, sizeof(*engine->workers));
    engine->workers_load = calloc(workers, sizeof(*engine->workers_load));
    engine->open = calloc(options->local_sessions, sizeof(struct session *));
    if (engine->workers == NULL || engine->workers_load == NULL || engine->open == NULL)
        return failure_set(failure, -ENOMEM, "no memory for %u sessions", options->local_sessions);
    engine->workers_count = workers;
    engine_trace_process(engine, FABT_CAUSE_START);
    state_dump_start(&engine->dump, clock_now(), FABT_TRACE_ENABLED(process));
    engine_trace_infos(engine);
    rc = choose_cpus(engine, failure);
    if (rc == 0)
        rc = start_workers(engine, failure);
    if (rc == 0)
        rc = engine_start_watchdog(engine, workers, options->timeout_ns / NS_PER_S + HANG_S,
                                   failure);
    if (rc == 0)
        engine_trace_params(engine, FABT_CAUSE_START);
    return rc;
}
