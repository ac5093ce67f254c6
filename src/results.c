/* SPDX-License-Identifier: BSD-3-Clause */
#include "results.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "mr_mode.h"

/* The JSON document's format; raised when a name or a meaning changes. doc/engine-json.md. */
enum { RESULTS_VERSION = 1 };

static const char *const outcome_labels[] = FABT_OUTCOME_LABELS;
static const char *const workload_labels[] = FABT_WORKLOAD_LABELS;

/* One line of the table; totals are lines, too. */
struct row {
    uint64_t bytes;
    uint64_t start_ns;
    uint64_t end_ns;
    uint64_t writes;
    uint64_t deferred;
    uint64_t fragments;
    uint64_t out_of_order;
    const struct latency *latency;
    const struct latency *round_trip;
};

/* A session's figures, without its warm-up: none if it was all warm-up. */
static struct row session_row(const struct session *session)
{
    static const struct latency nothing;
    const struct session_counts *counts = &session->counts, *warm = &session->warm_counts;
    const struct op_counts *ops = &session->endpoint.counts, *warm_ops = &session->warm_ops;

    if (session->warm_ns == 0)
        return (struct row){.latency = &nothing, .round_trip = &nothing};
    return (struct row){
        .bytes = counts->payload_bytes - warm->payload_bytes,
        .start_ns = session->warm_ns,
        .end_ns = session->end_ns,
        .writes = counts->writes - warm->writes,
        .deferred = ops->deferred - warm_ops->deferred,
        .fragments = counts->fragments - warm->fragments,
        .out_of_order = ops->out_of_order - warm_ops->out_of_order,
        .latency = &session->latency,
        .round_trip = &session->round_trip,
    };
}

/* Room for what a total adds up. */
struct total {
    struct row row;
    struct latency latency;
    struct latency round_trip;
};

/* All sessions of a round, or of all rounds (-1). The time runs from the first session's start to
 * the last one's end. */
static void add_up(const struct engine *engine, int round, struct total *total)
{
    struct row *sum = &total->row;

    memset(total, 0, sizeof(*total));
    sum->latency = &total->latency;
    sum->round_trip = &total->round_trip;
    for (uint32_t i = 0; i < engine->sessions_count; i++) {
        const struct session *session = engine->sessions[i];
        const struct row row = session_row(session);

        if (round >= 0 && session->round != round)
            continue;
        sum->bytes += row.bytes;
        sum->writes += row.writes;
        sum->deferred += row.deferred;
        sum->fragments += row.fragments;
        sum->out_of_order += row.out_of_order;
        latency_merge(&total->latency, row.latency);
        latency_merge(&total->round_trip, row.round_trip);
        if (row.end_ns <= row.start_ns)
            continue;
        if (sum->start_ns == 0 || row.start_ns < sum->start_ns)
            sum->start_ns = row.start_ns;
        if (row.end_ns > sum->end_ns)
            sum->end_ns = row.end_ns;
    }
}

/* Rounds that sessions belong to: with more than one the table has a row a round. */
static uint32_t rounds(const struct engine *engine)
{
    uint32_t count = 1;

    for (uint32_t i = 0; i < engine->sessions_count; i++) {
        if (engine->sessions[i]->round >= count)
            count = engine->sessions[i]->round + 1u;
    }
    return count;
}

/* The buffer size of a round's sessions; 0 for the stress workload. */
static uint64_t round_size(const struct engine *engine, uint32_t round)
{
    for (uint32_t i = 0; i < engine->sessions_count; i++) {
        if (engine->sessions[i]->round == round)
            return engine->sessions[i]->workload.size_bytes;
    }
    return 0;
}

static double seconds(uint64_t ns)
{
    return (double)ns / (double)NS_PER_S;
}

static double row_seconds(const struct row *row)
{
    return row->end_ns > row->start_ns ? seconds(row->end_ns - row->start_ns) : 0;
}

static double mib_per_s(const struct row *row)
{
    const double time = row_seconds(row);

    return time == 0 ? 0 : (double)row->bytes / (1024.0 * 1024.0) / time;
}

static double us(uint64_t ns)
{
    return (double)ns / (double)NS_PER_US;
}

enum { COLUMNS = 11, CELL = 24 };

/* Text cells; columns are as wide as their widest cell, numbers to the right. */
struct table {
    char (*cells)[COLUMNS][CELL];
    uint32_t rows;
};

static bool table_open(struct table *table, uint32_t rows, const char *first)
{
    const char *const heads[COLUMNS] = {first,    "bytes",  "s",     "MiB/s", "writes", "p50 us",
                                        "p99 us", "max us", "defer", "frag",  "ooo"};

    table->rows = 1;
    table->cells = calloc(rows + 1, sizeof(*table->cells));
    if (table->cells == NULL)
        return false;
    for (unsigned i = 0; i < COLUMNS; i++)
        snprintf(table->cells[0][i], CELL, "%s", heads[i]);
    return true;
}

static void table_add(struct table *table, const char *name, const struct row *row)
{
    /* A pingpong's latency is that of its round trips. */
    const struct latency *latency = row->round_trip->count > 0 ? row->round_trip : row->latency;
    const bool timed = latency->count > 0;
    char(*cell)[CELL] = table->cells[table->rows++];

    snprintf(cell[0], CELL, "%s", name);
    snprintf(cell[1], CELL, "%" PRIu64, row->bytes);
    snprintf(cell[2], CELL, "%.3f", row_seconds(row));
    snprintf(cell[3], CELL, "%.2f", mib_per_s(row));
    snprintf(cell[4], CELL, "%" PRIu64, row->writes);
    snprintf(cell[5], CELL, timed ? "%.1f" : "-", us(latency_percentile(latency, 50)));
    snprintf(cell[6], CELL, timed ? "%.1f" : "-", us(latency_percentile(latency, 99)));
    snprintf(cell[7], CELL, timed ? "%.1f" : "-", us(latency->max));
    snprintf(cell[8], CELL, "%" PRIu64, row->deferred);
    snprintf(cell[9], CELL, "%" PRIu64, row->fragments);
    snprintf(cell[10], CELL, "%" PRIu64, row->out_of_order);
}

static void table_print(struct table *table, FILE *out)
{
    int width[COLUMNS] = {0};

    for (uint32_t row = 0; row < table->rows; row++) {
        for (unsigned column = 0; column < COLUMNS; column++) {
            const int len = (int)strlen(table->cells[row][column]);

            width[column] = len > width[column] ? len : width[column];
        }
    }
    for (uint32_t row = 0; row < table->rows; row++) {
        for (unsigned column = 0; column < COLUMNS; column++)
            fprintf(out, "%s%*s", column == 0 ? "" : " ", width[column], table->cells[row][column]);
        fputc('\n', out);
    }
    free(table->cells);
}

static void print_sessions(const struct engine *engine, FILE *out, struct total *total)
{
    struct table table;

    if (!table_open(&table, engine->sessions_count + 1, "session"))
        return;
    for (uint32_t i = 0; i < engine->sessions_count; i++) {
        const struct row row = session_row(engine->sessions[i]);
        char name[16];

        snprintf(name, sizeof(name), "%" PRIu32, engine->sessions[i]->number);
        table_add(&table, name, &row);
    }
    add_up(engine, -1, total);
    table_add(&table, "total", &total->row);
    table_print(&table, out);
}

static void print_rounds(const struct engine *engine, FILE *out, struct total *total)
{
    struct table table;

    if (!table_open(&table, rounds(engine), "size"))
        return;
    for (uint32_t round = 0; round < rounds(engine); round++) {
        char name[24];

        add_up(engine, (int)round, total);
        snprintf(name, sizeof(name), "%" PRIu64, round_size(engine, round));
        table_add(&table, name, &total->row);
    }
    table_print(&table, out);
}

void results_print(const struct engine *engine, FILE *out)
{
    struct total *total = calloc(1, sizeof(*total));

    if (total == NULL)
        return;
    if (rounds(engine) > 1)
        print_rounds(engine, out, total);
    else
        print_sessions(engine, out, total);
    free(total);
}

static json_t *json_latency(const struct latency *latency)
{
    return json_pack("{s:I, s:f, s:f, s:f}", "samples", (json_int_t)latency->count, "p50_us",
                     us(latency_percentile(latency, 50)), "p99_us",
                     us(latency_percentile(latency, 99)), "max_us", us(latency->max));
}

static json_t *json_row(const struct row *row)
{
    json_t *object = json_pack(
        "{s:I, s:f, s:f, s:I, s:I, s:I, s:I}", "bytes", (json_int_t)row->bytes, "seconds",
        row_seconds(row), "mib_per_second", mib_per_s(row), "writes", (json_int_t)row->writes,
        "deferred_posts", (json_int_t)row->deferred, "fragments", (json_int_t)row->fragments,
        "out_of_order_completions", (json_int_t)row->out_of_order);

    if (object != NULL && row->latency->count > 0)
        json_object_set_new(object, "write_latency", json_latency(row->latency));
    if (object != NULL && row->round_trip->count > 0)
        json_object_set_new(object, "round_trip", json_latency(row->round_trip));
    return object;
}

static json_t *json_rounds(const struct engine *engine, struct total *total)
{
    json_t *array = json_array();

    for (uint32_t round = 0; round < rounds(engine); round++) {
        json_t *object;

        add_up(engine, (int)round, total);
        object = json_row(&total->row);
        json_object_set_new(object, "size_bytes",
                            json_integer((json_int_t)round_size(engine, round)));
        json_array_append_new(array, object);
    }
    return array;
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
        json_object_set_new(object, "workload",
                            json_string(workload_labels[session->workload.kind]));
        json_object_set_new(object, "size_bytes",
                            json_integer((json_int_t)session->workload.size_bytes));
        json_object_set_new(object, "outcome", json_string(outcome_labels[session->outcome]));
        if (session->failure.code != 0)
            json_object_set_new(object, "error", json_string(session->failure.text));
        json_array_append_new(sessions, object);
    }
    return sessions;
}

/* The domain's registration modes. */
static json_t *json_mr_mode(const struct fabric *fabric)
{
    json_t *modes = json_array();

    for (unsigned i = 0; i < MR_MODE_NAMES; i++) {
        uint64_t bit;
        const char *name = mr_mode_name(i, &bit);

        if ((fabric->mr_mode & bit) != 0)
            json_array_append_new(modes, json_string(name));
    }
    return modes;
}

static json_t *json_document(const struct engine *engine)
{
    const struct engine_verdict verdict = engine_judge(engine);
    struct total *total = calloc(1, sizeof(*total));
    json_t *document, *by_round;
    char run_id[32];

    if (total == NULL)
        return NULL;
    by_round = json_rounds(engine, total);
    add_up(engine, -1, total);
    snprintf(run_id, sizeof(run_id), "0x%016" PRIx64, engine->run_id);
    document = json_pack(
        "{s:s, s:i, s:s, s:s, s:o, s:s, s:b, s:b, s:i, s:i, s:i, s:I, s:o, s:o, s:o}", "format",
        "fabtrace-run", "version", RESULTS_VERSION, "role",
        engine->options->role == ROLE_GET ? "get" : "put", "provider",
        engine->fabric.info->fabric_attr->prov_name, "mr_mode", json_mr_mode(&engine->fabric),
        "run_id", run_id, "success", verdict.success, "cancelled", engine->signal != 0,
        "sessions_ok", (int)verdict.ok, "sessions_failed", (int)verdict.failed,
        "sessions_cancelled", (int)verdict.cancelled, "initials_dropped",
        (json_int_t)verdict.dropped, "sessions", json_sessions(engine), "total",
        json_row(&total->row), "rounds", by_round);
    free(total);
    return document;
}

int results_write_json(const struct engine *engine, FILE *out, const char *path,
                       struct failure *failure)
{
    json_t *document = json_document(engine);
    int rc;

    if (document == NULL)
        return failure_set(failure, -ENOMEM, "--json: no memory");
    errno = 0;
    rc = json_dumpf(document, out, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    json_decref(document);
    if (rc == 0 && fputc('\n', out) != EOF && fflush(out) == 0)
        return 0;
    return failure_set(failure, errno == 0 ? -EIO : -errno, "--json: cannot write '%s': %s", path,
                       strerror(errno == 0 ? EIO : errno));
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
