/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What an event costs, beside what a line of text would cost: the inner loops of
 * scripts/bench-tracepoints.
 *
 *     cost empty N          N times nothing: what to subtract
 *     cost off N            N switched-off tracepoints (run it while nobody records)
 *     cost events N         N events of level `ops`, in the mix of a stress session (record it)
 *     cost light N          N events of level `light` that are written most
 *     cost lines FILE N     the content of `events` as lines of text, to a buffered file
 *     cost stderr N         the same, to standard error, unbuffered
 *
 * Prints the nanoseconds of the thread's own CPU time that one took, except for the first two,
 * whose instructions callgrind counts. A line is what engines that log write: under a mutex, with a
 * time stamp, the event's name and each field by name. */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "trace.h"

#define NS_PER_S UINT64_C(1000000000)

/* So many events a round of a stress session's put; see `round_of_put`. */
enum { ROUND = 9 };

static uint64_t now_ns(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

/* ---- events ---- */

static void event_post(uint64_t op, uint8_t kind)
{
    FABT_TRACE(op_post, .session = 1, .op = op, .kind = kind, .nsegs = 3, .len_bytes = 68,
               .payload_bytes = 68, .position = op * 61, .tag_or_key = op % 64, .call_ns = 600);
}

static void event_complete(uint64_t op, uint8_t kind)
{
    FABT_TRACE(op_complete, .session = 1, .op = op, .kind = kind, .status = FABT_STATUS_OK,
               .len_bytes = 68, .payload_bytes = 68, .earlier_pending = (uint16_t)(op % 3));
}

static void event_state(uint64_t op, uint8_t state)
{
    (void)op;
    FABT_TRACE(session_state, .session = 1, .state = state);
}

/* ---- the same as lines ---- */

static FILE *lines;
static pthread_mutex_t lines_mutex = PTHREAD_MUTEX_INITIALIZER;
static uint64_t line_number;

static const char *const kinds[] = FABT_KIND_LABELS;
static const char *const states[] = FABT_STATE_LABELS;

static void stamp(const char *name)
{
    const uint64_t now = now_ns(CLOCK_REALTIME);

    fprintf(lines, "%" PRIu64 ".%09" PRIu64 " %s: writer=%u seq=%" PRIu64, now / NS_PER_S,
            now % NS_PER_S, name, fabt_writer.id, line_number++);
}

static void line_post(uint64_t op, uint8_t kind)
{
    pthread_mutex_lock(&lines_mutex);
    stamp("op_post");
    fprintf(lines,
            " session=1 op=%" PRIu64 " kind=%s nsegs=%d len=%d payload=%d position=%" PRIu64
            " tag=%" PRIu64 " call=%d\n",
            op, kinds[kind], 3, 68, 68, op * 61, op % 64, 600);
    pthread_mutex_unlock(&lines_mutex);
}

static void line_complete(uint64_t op, uint8_t kind)
{
    pthread_mutex_lock(&lines_mutex);
    stamp("op_complete");
    fprintf(lines, " session=1 op=%" PRIu64 " kind=%s status=ok len=%d payload=%d earlier=%d\n", op,
            kinds[kind], 68, 68, (int)(op % 3));
    pthread_mutex_unlock(&lines_mutex);
}

static void line_state(uint64_t op, uint8_t state)
{
    (void)op;
    pthread_mutex_lock(&lines_mutex);
    stamp("session_state");
    fprintf(lines, " session=1 state=%s\n", states[state]);
    pthread_mutex_unlock(&lines_mutex);
}

/* ---- loops ---- */

struct outlet {
    void (*post)(uint64_t op, uint8_t kind);
    void (*complete)(uint64_t op, uint8_t kind);
    void (*state)(uint64_t op, uint8_t state);
};

static const struct outlet event_outlet = {event_post, event_complete, event_state};
static const struct outlet line_outlet = {line_post, line_complete, line_state};

/* One write of a stress session as put tells it, but for its fragments. */
static void round_of_put(const struct outlet *outlet, uint64_t op)
{
    outlet->complete(op, FABT_KIND_VECTOR_RX);
    outlet->post(op + 1, FABT_KIND_WRITE);
    outlet->post(op + 2, FABT_KIND_VECTOR_RX);
    outlet->state(op, FABT_STATE_PROVIDER);
    outlet->complete(op + 1, FABT_KIND_WRITE);
    outlet->post(op + 3, FABT_KIND_PROGRESS_TX);
    outlet->state(op, FABT_STATE_MEMORY);
    outlet->complete(op + 3, FABT_KIND_PROGRESS_TX);
    outlet->complete(op + 2, FABT_KIND_VECTOR_RX);
}

static double rounds(const struct outlet *outlet, uint64_t count)
{
    const uint64_t begin = now_ns(CLOCK_THREAD_CPUTIME_ID);

    for (uint64_t i = 0; i < count; i += ROUND)
        round_of_put(outlet, i);
    if (lines != NULL)
        fflush(lines);
    return (double)(now_ns(CLOCK_THREAD_CPUTIME_ID) - begin) /
           (double)((count + ROUND - 1) / ROUND * ROUND);
}

static double light(uint64_t count)
{
    const uint64_t begin = now_ns(CLOCK_THREAD_CPUTIME_ID);

    for (uint64_t i = 0; i < count; i++)
        FABT_TRACE(session_count, .session = 1, .payload_bytes = i, .writes = i);
    return (double)(now_ns(CLOCK_THREAD_CPUTIME_ID) - begin) / (double)count;
}

/* These two differ in the tracepoint alone; the barrier keeps the compiler from merging rounds. */
__attribute__((noinline)) static void loop_empty(uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        __asm__ volatile("" ::: "memory");
}

__attribute__((noinline)) static void loop_off(uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        __asm__ volatile("" ::: "memory");
        FABT_TRACE(session_state, .session = 1, .state = FABT_STATE_MEMORY);
    }
}

static int usage(void)
{
    fputs("usage: cost empty|off|events|light|stderr N, cost lines FILE N\n", stderr);
    return 2;
}

int main(int argc, char **argv)
{
    const char *mode = argc < 3 ? "" : argv[1];
    struct fabt_writer ended;
    char *end;
    uint64_t count;

    if (argc != (strcmp(mode, "lines") == 0 ? 4 : 3))
        return usage();
    errno = 0;
    count = strtoull(argv[argc - 1], &end, 10);
    if (errno != 0 || *end != '\0' || count == 0)
        return usage();
    fabt_trace_writer_start(fabt_trace_make_instance(), 0);
    if (strcmp(mode, "empty") == 0) {
        loop_empty(count);
    } else if (strcmp(mode, "off") == 0) {
        loop_off(count);
    } else if (strcmp(mode, "events") == 0) {
        printf("%.1f\n", rounds(&event_outlet, count));
    } else if (strcmp(mode, "light") == 0) {
        printf("%.1f\n", light(count));
    } else if (strcmp(mode, "stderr") == 0) {
        lines = stderr;
        printf("%.1f\n", rounds(&line_outlet, count));
    } else if (strcmp(mode, "lines") == 0) {
        lines = fopen(argv[2], "we");
        if (lines == NULL) {
            fprintf(stderr, "cost: cannot write '%s': %s\n", argv[2], strerror(errno));
            return 1;
        }
        printf("%.1f\n", rounds(&line_outlet, count));
        fclose(lines);
    } else {
        return usage();
    }
    fabt_trace_writer_end(&ended);
    return 0;
}
