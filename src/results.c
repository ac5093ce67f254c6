/* SPDX-License-Identifier: BSD-3-Clause */
#include "results.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"

/* The JSON document's format; raised when a name or a meaning changes. doc/engine-json.md. */
enum { RESULTS_VERSION = 1 };

static const char *const outcome_labels[] = FABT_OUTCOME_LABELS;

/* One line of the table; the total is a line, too. */
struct row {
    uint64_t bytes;
    uint64_t ns;
    uint64_t writes;
    uint64_t deferred;
    uint64_t fragments;
    uint64_t out_of_order;
    const struct latency *latency;
};

static struct row session_row(const struct session *session)
{
    return (struct row){
        .bytes = session->counts.payload_bytes,
        .ns = session->start_ns == 0 ? 0 : session->end_ns - session->start_ns,
        .writes = session->counts.writes,
        .deferred = session->endpoint.counts.deferred,
        .fragments = session->counts.fragments,
        .out_of_order = session->endpoint.counts.out_of_order,
        .latency = &session->latency,
    };
}

/* The total's time runs from the first session's start to the last one's end. */
static struct row total_row(const struct engine *engine, struct latency *latency)
{
    struct row total = {.latency = latency};
    uint64_t first = UINT64_MAX, last = 0;

    for (uint32_t i = 0; i < engine->sessions_count; i++) {
        const struct session *session = engine->sessions[i];
        const struct row row = session_row(session);

        total.bytes += row.bytes;
        total.writes += row.writes;
        total.deferred += row.deferred;
        total.fragments += row.fragments;
        total.out_of_order += row.out_of_order;
        latency_merge(latency, row.latency);
        if (session->start_ns == 0)
            continue;
        if (session->start_ns < first)
            first = session->start_ns;
        if (session->end_ns > last)
            last = session->end_ns;
    }
    total.ns = last > first ? last - first : 0;
    return total;
}

static double seconds(uint64_t ns)
{
    return (double)ns / (double)NS_PER_S;
}

static double mib_per_s(const struct row *row)
{
    return row->ns == 0 ? 0 : (double)row->bytes / (1024.0 * 1024.0) / seconds(row->ns);
}

static double us(uint64_t ns)
{
    return (double)ns / (double)NS_PER_US;
}

static void print_row(FILE *out, const char *name, const struct row *row)
{
    fprintf(out, "%7s %13" PRIu64 " %9.3f %9.2f %9" PRIu64, name, row->bytes, seconds(row->ns),
            mib_per_s(row), row->writes);
    if (row->latency->count > 0)
        fprintf(out, " %9.1f %9.1f %10.1f", us(latency_percentile(row->latency, 50)),
                us(latency_percentile(row->latency, 99)), us(row->latency->max));
    else
        fprintf(out, " %9s %9s %10s", "-", "-", "-");
    fprintf(out, " %9" PRIu64 " %9" PRIu64 " %9" PRIu64 "\n", row->deferred, row->fragments,
            row->out_of_order);
}

void results_print(const struct engine *engine, FILE *out)
{
    struct latency *latency = calloc(1, sizeof(*latency));
    struct row total;

    if (latency == NULL)
        return;
    fprintf(out, "%7s %13s %9s %9s %9s %9s %9s %10s %9s %9s %9s\n", "session", "bytes", "seconds",
            "MiB/s", "writes", "p50 us", "p99 us", "max us", "deferred", "fragments", "disorder");
    for (uint32_t i = 0; i < engine->sessions_count; i++) {
        const struct row row = session_row(engine->sessions[i]);
        char name[16];

        snprintf(name, sizeof(name), "%" PRIu32, engine->sessions[i]->number);
        print_row(out, name, &row);
    }
    total = total_row(engine, latency);
    print_row(out, "total", &total);
    free(latency);
}

static json_t *json_row(const struct row *row)
{
    json_t *object = json_pack(
        "{s:I, s:f, s:f, s:I, s:I, s:I, s:I}", "bytes", (json_int_t)row->bytes, "seconds",
        seconds(row->ns), "mib_per_second", mib_per_s(row), "writes", (json_int_t)row->writes,
        "deferred_posts", (json_int_t)row->deferred, "fragments", (json_int_t)row->fragments,
        "out_of_order_completions", (json_int_t)row->out_of_order);

    if (object != NULL && row->latency->count > 0) {
        json_t *latency =
            json_pack("{s:I, s:f, s:f, s:f}", "samples", (json_int_t)row->latency->count, "p50_us",
                      us(latency_percentile(row->latency, 50)), "p99_us",
                      us(latency_percentile(row->latency, 99)), "max_us", us(row->latency->max));

        json_object_set_new(object, "write_latency", latency);
    }
    return object;
}

static json_t *json_sessions(const struct engine *engine)
{
    json_t *sessions = json_array();

    for (uint32_t i = 0; i < engine->sessions_count; i++) {
        const struct session *session = engine->sessions[i];
        const struct row row = session_row(session);
        json_t *object = json_row(&row);

        json_object_set_new(object, "session", json_integer(session->number));
        json_object_set_new(object, "worker", json_integer(session->worker));
        json_object_set_new(object, "outcome", json_string(outcome_labels[session->outcome]));
        if (session->failure.code != 0)
            json_object_set_new(object, "error", json_string(session->failure.text));
        json_array_append_new(sessions, object);
    }
    return sessions;
}

static json_t *json_document(const struct engine *engine)
{
    const struct engine_verdict verdict = engine_judge(engine);
    struct latency *latency = calloc(1, sizeof(*latency));
    struct row total;
    json_t *document;
    char run_id[32];

    if (latency == NULL)
        return NULL;
    total = total_row(engine, latency);
    snprintf(run_id, sizeof(run_id), "0x%016" PRIx64, engine->run_id);
    document = json_pack(
        "{s:s, s:i, s:s, s:s, s:s, s:b, s:b, s:i, s:i, s:i, s:I, s:o, s:o}", "format",
        "fabtrace-run", "version", RESULTS_VERSION, "role",
        engine->options->role == ROLE_GET ? "get" : "put", "provider",
        engine->fabric.info->fabric_attr->prov_name, "run_id", run_id, "success", verdict.success,
        "cancelled", engine->signal != 0, "sessions_ok", (int)verdict.ok, "sessions_failed",
        (int)verdict.failed, "sessions_cancelled", (int)verdict.cancelled, "initials_dropped",
        (json_int_t)verdict.dropped, "sessions", json_sessions(engine), "total", json_row(&total));
    free(latency);
    return document;
}

int results_write_json(const struct engine *engine, const char *path, struct failure *failure)
{
    const size_t flags = JSON_INDENT(2) | JSON_REAL_PRECISION(9);
    json_t *document = json_document(engine);
    int rc;

    if (document == NULL)
        return failure_set(failure, -ENOMEM, "--json: no memory");
    errno = 0;
    if (strcmp(path, "-") == 0)
        rc = json_dumpf(document, stdout, flags) == 0 && putchar('\n') != EOF ? 0 : -1;
    else
        rc = json_dump_file(document, path, flags);
    json_decref(document);
    if (rc != 0)
        return failure_set(failure, errno == 0 ? -EIO : -errno, "--json: cannot write '%s': %s",
                           path, strerror(errno == 0 ? EIO : errno));
    return 0;
}

void results_describe_failure(const struct engine *engine, const struct session *session,
                              char *text, size_t size)
{
    char peer[128];

    domain_format(&engine->workers[session->worker].domain, &session->peer_address, peer,
                  sizeof(peer));
    snprintf(text, size, "session %" PRIu32 " with %s: %s", session->number,
             peer[0] == '\0' ? "a peer of unknown address" : peer, session->failure.text);
}
