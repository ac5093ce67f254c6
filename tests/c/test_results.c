/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Description: the table and the JSON document say the same as the sessions' counters; the total
 * adds up, and its time runs from the first start to the last end. */
#include "harness.h"

#include <jansson.h>
#include <unistd.h>

#include "fake_fabric.h"
#include "results.h"

#define MS UINT64_C(1000000)

struct fixture {
    struct fake_net *net;
    struct engine engine;
    struct options options;
    struct session *sessions[2];
};

/* Two sessions: 1 MiB in 500 ms from 1000 ms on, 3 MiB in 1000 ms from 1250 ms on. */
static int make_engine(void **state)
{
    const struct fake_limits limits = FAKE_LIMITS;
    struct fixture *f = calloc(1, sizeof(*f));

    assert_non_null(f);
    f->net = fake_net_new();
    fake_fabric_open(&f->engine.fabric, f->net, &limits);
    f->options.role = ROLE_PUT;
    f->engine.options = &f->options;
    f->engine.sessions = f->sessions;
    f->engine.sessions_count = 2;
    f->engine.run_id = 0xabc;
    for (unsigned i = 0; i < 2; i++) {
        struct session *session = f->sessions[i] = calloc(1, sizeof(*session));

        assert_non_null(session);
        session->number = i;
        session->worker = 7 + i;
        session->outcome = FABT_OUTCOME_OK;
        session->domain = NULL;
        session->counts.payload_bytes = (i == 0 ? 1u : 3u) << 20;
        session->counts.writes = 100 + i;
        session->counts.fragments = 10 + i;
        session->endpoint.counts.deferred = 20 + i;
        session->endpoint.counts.out_of_order = 30 + i;
        session->start_ns = session->warm_ns = (i == 0 ? 1000 : 1250) * MS;
        session->end_ns = (i == 0 ? 1500 : 2250) * MS;
        for (unsigned k = 1; k <= 100; k++)
            latency_add(&session->latency, (k + 100 * i) * 1000);
    }
    *state = f;
    return 0;
}

static int free_engine(void **state)
{
    struct fixture *f = *state;

    free(f->sessions[0]);
    free(f->sessions[1]);
    fake_fabric_close(&f->engine.fabric);
    fake_net_free(f->net);
    free(f);
    return 0;
}

/* The numbers of the row that starts with `name`. */
static unsigned row_of(const char *table, const char *name, double *numbers, unsigned most)
{
    const char *line = table;
    unsigned count = 0;
    char word[16];
    int used;

    while (line != NULL && (sscanf(line, "%15s%n", word, &used) != 1 || strcmp(word, name) != 0)) {
        line = strchr(line, '\n');
        line = line == NULL ? NULL : line + 1;
    }
    if (line == NULL)
        fail_msg("there is no row %s", name);
    for (line += used; count < most && sscanf(line, "%lf%n", &numbers[count], &used) == 1; count++)
        line += used;
    return count;
}

static void assert_near(double is, double should, double tolerance)
{
    if (is < should - tolerance || is > should + tolerance)
        fail_msg("%g should be %g", is, should);
}

static void the_table_adds_up(void **state)
{
    struct fixture *f = *state;
    double first[10], second[10], total[10];
    char *table = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&table, &size);

    assert_non_null(out);
    results_print(&f->engine, out);
    fclose(out);
    assert_int_equal(row_of(table, "0", first, 10), 10);
    assert_int_equal(row_of(table, "1", second, 10), 10);
    assert_int_equal(row_of(table, "total", total, 10), 10);
    /* bytes, seconds, MiB/s, writes, p50, p99, max, deferred, fragments, disorder */
    assert_near(first[0], 1 << 20, 0);
    assert_near(first[1], 0.5, 0.001);
    assert_near(first[2], 2.0, 0.01);
    assert_near(first[4], 50, 50.0 / 64 + 0.1);
    assert_near(first[5], 99, 99.0 / 64 + 0.1);
    assert_near(first[6], 100, 0.1);
    assert_near(second[2], 3.0, 0.01);
    assert_near(total[0], 4 << 20, 0);
    assert_near(total[1], 1.25, 0.001); /* 1000 ms to 2250 ms, not 0.5 + 1.0 */
    assert_near(total[2], 4 / 1.25, 0.01);
    assert_near(total[4], 100, 100.0 / 64 + 0.1);
    assert_near(total[6], 200, 0.1);
    for (unsigned i = 0; i < 10; i++) {
        if (i == 0 || i == 3 || i >= 7)
            assert_near(total[i], first[i] + second[i], 0);
    }
    free(table);
}

static void the_warm_up_does_not_count(void **state)
{
    struct fixture *f = *state;
    struct session *session = f->sessions[0];
    char *table = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&table, &size);
    double first[10];

    session->warm_ns = session->start_ns + 250 * MS;
    session->warm_counts.payload_bytes = 3 << 18;
    session->warm_counts.writes = 60;
    session->warm_counts.fragments = 4;
    session->warm_ops.deferred = 5;
    session->warm_ops.out_of_order = 6;
    results_print(&f->engine, out);
    fclose(out);
    assert_int_equal(row_of(table, "0", first, 10), 10);
    assert_near(first[0], 1 << 18, 0);
    assert_near(first[1], 0.25, 0.001);
    assert_near(first[2], 1.0, 0.01);
    assert_near(first[3], 40, 0);
    assert_near(first[7], 15, 0);
    assert_near(first[8], 6, 0);
    assert_near(first[9], 24, 0);
    free(table);
}

static void a_sweep_has_a_row_a_size(void **state)
{
    struct fixture *f = *state;
    char *table = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&table, &size);
    double row[10];

    f->sessions[0]->workload.size_bytes = 64;
    f->sessions[1]->workload.size_bytes = 4096;
    f->sessions[1]->round = 1;
    results_print(&f->engine, out);
    fclose(out);
    assert_int_equal(row_of(table, "64", row, 10), 10);
    assert_near(row[0], 1 << 20, 0);
    assert_int_equal(row_of(table, "4096", row, 10), 10);
    assert_near(row[0], 3 << 20, 0);
    assert_null(strstr(table, "total"));
    free(table);
}

static void a_session_without_writes_has_no_latency(void **state)
{
    struct fixture *f = *state;
    char *table = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&table, &size);
    double numbers[10];

    memset(&f->sessions[0]->latency, 0, sizeof(f->sessions[0]->latency));
    results_print(&f->engine, out);
    fclose(out);
    assert_int_equal(row_of(table, "0", numbers, 10), 4); /* then comes a dash */
    free(table);
}

static json_int_t integer(const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);

    if (!json_is_integer(value))
        fail_msg("%s is not an integer", name);
    return json_integer_value(value);
}

static double real(const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);

    if (!json_is_number(value))
        fail_msg("%s is not a number", name);
    return json_number_value(value);
}

static json_t *write_and_read(const struct engine *engine)
{
    struct failure failure = {0};
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    json_t *document;

    assert_non_null(out);
    assert_int_equal(results_write_json(engine, out, "run.json", &failure), 0);
    fclose(out);
    document = json_loads(text, 0, NULL);
    free(text);
    assert_non_null(document);
    return document;
}

static void the_document_says_the_same(void **state)
{
    struct fixture *f = *state;
    json_t *document = write_and_read(&f->engine), *sessions, *total;

    assert_string_equal(json_string_value(json_object_get(document, "format")), "fabtrace-run");
    assert_string_equal(json_string_value(json_object_get(document, "role")), "put");
    assert_string_equal(json_string_value(json_object_get(document, "provider")), "fake");
    assert_true(json_is_true(json_object_get(document, "success")));
    assert_int_equal(integer(document, "sessions_ok"), 2);
    sessions = json_object_get(document, "sessions");
    assert_int_equal(json_array_size(sessions), 2);
    for (unsigned i = 0; i < 2; i++) {
        const json_t *session = json_array_get(sessions, i);

        assert_int_equal(integer(session, "session"), i);
        assert_int_equal(integer(session, "worker"), 7 + i);
        assert_int_equal(integer(session, "bytes"), (i == 0 ? 1 : 3) << 20);
        assert_int_equal(integer(session, "writes"), 100 + i);
        assert_int_equal(integer(session, "fragments"), 10 + i);
        assert_int_equal(integer(session, "deferred_posts"), 20 + i);
        assert_int_equal(integer(session, "out_of_order_completions"), 30 + i);
        assert_near(real(session, "seconds"), i == 0 ? 0.5 : 1.0, 1e-6);
        assert_string_equal(json_string_value(json_object_get(session, "outcome")), "ok");
    }
    total = json_object_get(document, "total");
    assert_int_equal(integer(total, "bytes"), 4 << 20);
    assert_int_equal(integer(total, "writes"), 201);
    assert_near(real(total, "seconds"), 1.25, 1e-6);
    assert_near(real(total, "mib_per_second"), 3.2, 1e-6);
    assert_near(real(json_object_get(total, "write_latency"), "max_us"), 200, 1e-6);
    assert_int_equal(integer(json_object_get(total, "write_latency"), "samples"), 200);
    json_decref(document);
}

static void the_document_has_a_failures_text(void **state)
{
    struct fixture *f = *state;
    json_t *document;
    const json_t *session;

    f->sessions[1]->outcome = FABT_OUTCOME_FAILED;
    failure_set(&f->sessions[1]->failure, -5, "what went wrong: \"%s\"", "quoted");
    document = write_and_read(&f->engine);
    session = json_array_get(json_object_get(document, "sessions"), 1);
    assert_true(json_is_false(json_object_get(document, "success")));
    assert_int_equal(integer(document, "sessions_failed"), 1);
    assert_string_equal(json_string_value(json_object_get(session, "error")),
                        "what went wrong: \"quoted\"");
    json_decref(document);
}

static void a_document_that_can_not_be_written_is_an_error(void **state)
{
    struct fixture *f = *state;
    struct failure failure = {0};

    FILE *full = fopen("/dev/full", "w");

    assert_non_null(full);
    assert_true(results_write_json(&f->engine, full, "/dev/full", &failure) < 0);
    fclose(full);
    assert_says(failure.text, "--json");
    assert_says(failure.text, "/dev/full");
}

#define WITH_ENGINE(test) cmocka_unit_test_setup_teardown(test, make_engine, free_engine)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_ENGINE(the_table_adds_up),
        WITH_ENGINE(the_warm_up_does_not_count),
        WITH_ENGINE(a_sweep_has_a_row_a_size),
        WITH_ENGINE(a_session_without_writes_has_no_latency),
        WITH_ENGINE(the_document_says_the_same),
        WITH_ENGINE(the_document_has_a_failures_text),
        WITH_ENGINE(a_document_that_can_not_be_written_is_an_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
