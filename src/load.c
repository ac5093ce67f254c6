/* SPDX-License-Identifier: BSD-3-Clause */
#include "load.h"

#include <sched.h>
#include <string.h>
#include <sys/resource.h>

#include "clock.h"
#include "trace.h"

static void window_begin(struct load *load, uint64_t now)
{
    load->window_ns = now;
    load->window_loops = 0;
    load->window_contexts = 0;
    load->window_min = UINT32_MAX;
    load->window_max = 0;
}

void load_start(struct load *load, uint64_t now)
{
    memset(load, 0, sizeof(*load));
    load->last_ns = now;
    load->cpu = -1;
    window_begin(load, now);
}

bool load_loop_end(struct load *load, uint64_t now, const struct load_loop *loop)
{
    const uint64_t took = now - load->last_ns;

    load->last_ns = now;
    load->loops++;
    if (loop->contexts > 0 || loop->sessions > 0)
        load->busy_ns += took;
    else
        load->idle_ns += took;
    if (loop->contexts == 0)
        load->loops_no_completion++;
    if (loop->sessions == 0)
        load->loops_no_session++;
    load->contexts += loop->contexts;
    load->window_loops++;
    load->window_contexts += loop->contexts;
    if (loop->contexts < load->window_min)
        load->window_min = loop->contexts;
    if (loop->contexts > load->window_max)
        load->window_max = loop->contexts;
    return load->window_loops >= LOAD_WINDOW_LOOPS || now - load->window_ns >= LOAD_WINDOW_NS;
}

void load_slept(struct load *load, uint64_t now)
{
    load->asleep_ns += now - load->last_ns;
    load->activity.asleep_ns = load->asleep_ns;
    load->last_ns = now;
    load->sleeps++;
}

/* A yield to nobody takes well below a microsecond. */
#define OFF_CPU_NS (10 * NS_PER_US)

void load_yielded(struct load *load, uint64_t now)
{
    const uint64_t took = now - load->last_ns;

    load->idle_ns += took;
    load->last_ns = now;
    if (took >= OFF_CPU_NS)
        load->activity.off_cpu_ns += took;
}

void load_check_cpu(struct load *load, uint32_t worker)
{
    const int cpu = sched_getcpu();

    if (cpu == load->cpu)
        return;
    if (load->cpu >= 0) {
        load->migrations++;
        FABT_TRACE(migrate, .worker = worker, .from_cpu = load->cpu, .to_cpu = cpu);
    }
    load->cpu = cpu;
}

static void trace_load(const struct load *load, uint32_t worker, uint32_t sessions)
{
    struct rusage usage = {0};

    if (!FABT_TRACE_ENABLED(load))
        return;
    getrusage(RUSAGE_THREAD, &usage);
    FABT_TRACE(load, .worker = worker, .cpu = load->cpu, .sessions = sessions,
               .busy_ns = load->busy_ns, .idle_ns = load->idle_ns, .asleep_ns = load->asleep_ns,
               .polls_busy = load->polls_busy, .polls_idle = load->polls_idle, .loops = load->loops,
               .contexts = load->contexts, .window_loops = load->window_loops,
               .window_contexts_min = load->window_loops == 0 ? 0 : load->window_min,
               .window_contexts_max = load->window_max, .average_fp8 = load->average_fp8,
               .cpu_time_ns = clock_read(CLOCK_THREAD_CPUTIME_ID),
               .switches_voluntary = (uint64_t)usage.ru_nvcsw,
               .switches_involuntary = (uint64_t)usage.ru_nivcsw,
               .serving_ns = load->activity.serving_ns, .off_cpu_ns = load->activity.off_cpu_ns);
}

void load_window_end(struct load *load, uint64_t now, uint32_t worker, uint32_t sessions)
{
    load->average_fp8 = load_fold(load->average_fp8, load->window_contexts, load->window_loops);
    load_check_cpu(load, worker);
    trace_load(load, worker, sessions);
    window_begin(load, now);
}
