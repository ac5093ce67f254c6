/* SPDX-License-Identifier: BSD-3-Clause */
#include "watchdog.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { TICK_MS = 1000 };

bool watchdog_add(struct watchdog *watchdog, const struct heartbeat *heartbeat, const char *name)
{
    struct watched *watched;

    if (watchdog->count == watchdog->room) {
        const uint32_t room = watchdog->room == 0 ? 8 : 2 * watchdog->room;

        watched = realloc(watchdog->watched, room * sizeof(*watched));
        if (watched == NULL)
            return false;
        watchdog->watched = watched;
        watchdog->room = room;
    }
    watched = &watchdog->watched[watchdog->count++];
    *watched = (struct watched){.heartbeat = heartbeat};
    snprintf(watched->name, sizeof(watched->name), "%s", name);
    return true;
}

void watchdog_limit(struct watchdog *watchdog, uint32_t limit)
{
    atomic_store_explicit(&watchdog->limit, limit, memory_order_relaxed);
}

int watchdog_tick(struct watchdog *watchdog)
{
    const uint32_t limit = atomic_load_explicit(&watchdog->limit, memory_order_relaxed);
    int found = -1;

    for (uint32_t i = 0; i < watchdog->count; i++) {
        struct watched *watched = &watchdog->watched[i];
        const uint64_t beats =
            atomic_load_explicit(&watched->heartbeat->beats, memory_order_relaxed);

        watched->still = beats == watched->last_beats ? watched->still + 1 : 0;
        watched->last_beats = beats;
        if (watched->still > limit)
            found = (int)i;
    }
    return found;
}

static void *watch(void *argument)
{
    struct watchdog *watchdog = argument;
    struct pollfd stop = {.fd = watchdog->stop_fd, .events = POLLIN};

    while (poll(&stop, 1, TICK_MS) == 0) {
        const int found = watchdog_tick(watchdog);

        if (found >= 0)
            watchdog->hangs(watchdog->argument, watchdog->watched[found].name,
                            watchdog->watched[found].still);
    }
    return NULL;
}

int watchdog_start(struct watchdog *watchdog, uint32_t limit, struct failure *failure)
{
    int rc = 0;

    watchdog_limit(watchdog, limit);
    watchdog->stop_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (watchdog->stop_fd < 0)
        rc = -errno;
    if (rc == 0)
        rc = -pthread_create(&watchdog->thread, NULL, watch, watchdog);
    if (rc != 0)
        return failure_set(failure, rc, "cannot start the watchdog: %s", strerror(-rc));
    watchdog->running = true;
    return 0;
}

void watchdog_stop(struct watchdog *watchdog)
{
    const uint64_t one = 1;

    if (watchdog->running) {
        if (write(watchdog->stop_fd, &one, sizeof(one)) == (ssize_t)sizeof(one))
            pthread_join(watchdog->thread, NULL);
        watchdog->running = false;
    }
    if (watchdog->stop_fd > 0)
        close(watchdog->stop_fd);
    watchdog->stop_fd = 0;
    free(watchdog->watched);
    watchdog->watched = NULL;
    watchdog->count = watchdog->room = 0;
}
