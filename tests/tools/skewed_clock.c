/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A clock plugin for LTTng-UST: the clock of another host. Events and packets of the processes that
 * load it (by LTTNG_UST_CLOCK_PLUGIN: the programs, and the consumer daemon) are stamped with
 *
 *     CLOCK_MONOTONIC + FABT_CLOCK_OFFSET_NS
 *         + FABT_CLOCK_DRIFT_PPM / 10^6 * (time since FABT_CLOCK_ORIGIN_NS)
 *
 * The session daemon says in the metadata how far the clock is from real time. It would take the
 * skew out again, so there the clock stays as it is: the trace is one of a host whose real time is
 * wrong. */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <lttng/ust-clock.h>

void lttng_ust_clock_plugin_init(void);

static uint64_t origin_ns;
static int64_t offset_ns;
static int64_t drift_ppm;

static uint64_t monotonic(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

static uint64_t skewed(void)
{
    const uint64_t now = monotonic();
    const int64_t drifted = (int64_t)(now - origin_ns) * drift_ppm / 1000000;

    return now + (uint64_t)(offset_ns + drifted);
}

static uint64_t frequency(void)
{
    return UINT64_C(1000000000);
}

static int uuid(char *text)
{
    memcpy(text, "8f0b3f26-2d0c-4b0f-9a39-5b7a9b7e4c11", LTTNG_UST_UUID_STR_LEN);
    return 0;
}

static const char *name(void)
{
    return "skewed";
}

static const char *description(void)
{
    return "CLOCK_MONOTONIC with an offset and a drift";
}

static int64_t number_of(const char *variable)
{
    const char *text = getenv(variable);

    return text == NULL ? 0 : strtoll(text, NULL, 10);
}

void lttng_ust_clock_plugin_init(void)
{
    if (strcmp(program_invocation_short_name, "lttng-sessiond") == 0)
        return;
    origin_ns = (uint64_t)number_of("FABT_CLOCK_ORIGIN_NS");
    offset_ns = number_of("FABT_CLOCK_OFFSET_NS");
    drift_ppm = number_of("FABT_CLOCK_DRIFT_PPM");
    if (lttng_ust_trace_clock_set_read64_cb(skewed) != 0 ||
        lttng_ust_trace_clock_set_freq_cb(frequency) != 0 ||
        lttng_ust_trace_clock_set_uuid_cb(uuid) != 0 ||
        lttng_ust_trace_clock_set_name_cb(name) != 0 ||
        lttng_ust_trace_clock_set_description_cb(description) != 0 ||
        lttng_ust_enable_trace_clock_override() != 0)
        abort();
}
