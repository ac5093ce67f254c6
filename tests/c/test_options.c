/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Description: the command line. Every short option and its long form mean the same; the defaults
 * are the documented ones; whatever does not parse or is out of range is a usage error (exit code
 * 2) in one line that names the option and the value. */
#include "fabt_events.h"
#include "harness.h"

#include <errno.h>
#include <sched.h>
#include <unistd.h>

#include "options.h"

#define ADDRESS "02:00:a2:77:7f:00:00:01"

enum { ARGUMENTS_MAX = 16 };

/* Parse a command line that is given without the program's name. */
static int parse(struct options *options, enum role role, const char *const *arguments,
                 struct failure *failure)
{
    char *argv[ARGUMENTS_MAX + 2] = {role == ROLE_GET ? (char[]){"fabtget"} : (char[]){"fabtput"}};
    int argc = 1;

    while (*arguments != NULL) {
        assert_true(argc <= ARGUMENTS_MAX);
        argv[argc++] = (char *)*arguments++;
    }
    return options_parse(options, role, argc, argv, failure);
}

#define ARGUMENTS(...) ((const char *const[]){__VA_ARGS__, NULL})

static struct options parse_good(enum role role, const char *const *arguments)
{
    struct options options;
    struct failure failure = {0};

    if (parse(&options, role, arguments, &failure) != 0)
        fail_msg("refused: %s", failure.text);
    return options;
}

/* ---- what is taken ---- */

static void defaults_are_the_documented_ones(void **state)
{
    const struct options get = parse_good(ROLE_GET, (const char *const[]){NULL});
    const struct options put = parse_good(ROLE_PUT, ARGUMENTS(ADDRESS));

    (void)state;
    assert_int_equal(get.role, ROLE_GET);
    assert_int_equal(get.action, ACTION_RUN);
    assert_int_equal(get.sessions, 1);
    assert_int_equal(get.local_sessions, 1);
    assert_false(get.limits.one_kind);
    assert_true(get.limits.total_bytes == UINT64_MAX && get.limits.size_bytes == UINT64_MAX);
    assert_true(get.limits.duration_ns == UINT64_MAX && get.limits.depth == UINT32_MAX);
    assert_int_equal(get.rounds, 1);
    assert_int_equal(put.workload.total_bytes, 7600000);
    assert_int_equal(put.workload.kind, FABT_WORKLOAD_STRESS);
    assert_int_equal(get.sessions_per_worker, 8);
    assert_int_equal(get.placement, PLACEMENT_PACK);
    assert_null(get.address_file);
    assert_null(get.provider);
    assert_false(get.expect_cancel || get.contiguous || get.pinned || get.reregister || get.wait ||
                 get.has_token);
    assert_true(get.timeout_ns > 0);
    assert_int_equal(put.role, ROLE_PUT);
    assert_int_equal(put.peer.len, 8);
    assert_memory_equal(put.peer.raw, "\x02\x00\xa2\x77\x7f\x00\x00\x01", 8);
}

static void short_and_long_forms_of_get_are_the_same(void **state)
{
    const struct options s =
        parse_good(ROLE_GET, ARGUMENTS("-a", "file", "-c", "-n", "5", "-p", "0", "-r", "-w"));
    const struct options l =
        parse_good(ROLE_GET, ARGUMENTS("--address-file", "file", "--expect-cancel", "--sessions=5",
                                       "--cpus=0", "--reregister", "--wait"));

    (void)state;
    assert_string_equal(s.address_file, "file");
    assert_string_equal(l.address_file, "file");
    assert_true(s.expect_cancel && l.expect_cancel);
    assert_true(s.sessions == 5 && l.sessions == 5);
    assert_true(s.local_sessions == 5 && l.local_sessions == 5);
    assert_true(s.pinned && l.pinned);
    assert_true(s.cpus.count == 1 && s.cpus.cpu[0] == 0);
    assert_true(l.cpus.count == 1 && l.cpus.cpu[0] == 0);
    assert_true(s.reregister && l.reregister);
    assert_true(s.wait && l.wait);
}

static void short_and_long_forms_of_put_are_the_same(void **state)
{
    const struct options s =
        parse_good(ROLE_PUT, ARGUMENTS("-cgrw", "-k", "2", "-n", "5", "-p0", ADDRESS));
    const struct options l =
        parse_good(ROLE_PUT, ARGUMENTS(ADDRESS, "--expect-cancel", "--contiguous", "--reregister",
                                       "--wait", "--local-sessions=2", "--sessions=5", "--cpus=0"));

    (void)state;
    assert_true(s.expect_cancel && l.expect_cancel);
    assert_true(s.contiguous && l.contiguous);
    assert_true(s.reregister && l.reregister);
    assert_true(s.wait && l.wait);
    assert_true(s.local_sessions == 2 && l.local_sessions == 2);
    assert_true(s.sessions == 5 && l.sessions == 5);
    assert_true(s.pinned && l.pinned);
    assert_int_equal(l.peer.len, 8);
}

static void k_alone_says_n_too(void **state)
{
    const struct options options = parse_good(ROLE_PUT, ARGUMENTS("-k", "3", ADDRESS));

    (void)state;
    assert_int_equal(options.sessions, 3);
    assert_int_equal(options.local_sessions, 3);
}

static void k_may_be_all_of_n(void **state)
{
    const struct options options = parse_good(ROLE_PUT, ARGUMENTS("-k", "5", "-n", "5", ADDRESS));

    (void)state;
    assert_int_equal(options.local_sessions, 5);
}

static void help_and_version_need_no_address(void **state)
{
    (void)state;
    assert_int_equal(parse_good(ROLE_PUT, ARGUMENTS("-h")).action, ACTION_HELP);
    assert_int_equal(parse_good(ROLE_PUT, ARGUMENTS("--help")).action, ACTION_HELP);
    assert_int_equal(parse_good(ROLE_PUT, ARGUMENTS("-V")).action, ACTION_VERSION);
    assert_int_equal(parse_good(ROLE_GET, ARGUMENTS("--version")).action, ACTION_VERSION);
}

static void auto_leaves_the_choice_to_the_engine(void **state)
{
    const struct options options = parse_good(ROLE_GET, ARGUMENTS("-p", "auto"));

    (void)state;
    assert_true(options.pinned);
    assert_true(options.pin_auto);
    assert_int_equal(options.cpus.count, 0);
}

static void sizes_and_times_reach_the_options(void **state)
{
    const struct options options = parse_good(
        ROLE_PUT, ARGUMENTS("--total", "64M", "--timeout", "500ms", "--provider", "shm", "--bind",
                            "127.0.0.1", "--json", "-", "--outlier", "500us", ADDRESS));

    (void)state;
    assert_int_equal(options.workload.total_bytes, 64 << 20);
    assert_int_equal(options.timeout_ns, 500000000);
    assert_int_equal(options.hello_timeout_ns, 500000000);
    assert_string_equal(options.provider, "shm");
    assert_string_equal(options.bind, "127.0.0.1");
    assert_string_equal(options.json_file, "-");
    assert_int_equal(options.outlier_ns, 500000);
}

static void workloads_are_complete(void **state)
{
    const struct options stream = parse_good(
        ROLE_PUT, ARGUMENTS("--workload", "stream", "--size", "64,1K-8K", "--depth", "7", ADDRESS));
    const struct options pingpong =
        parse_good(ROLE_PUT, ARGUMENTS("--workload", "pingpong", "--total", "1M", "--warmup", "1s",
                                       "--no-verify", ADDRESS));

    (void)state;
    assert_int_equal(stream.workload.kind, FABT_WORKLOAD_STREAM);
    assert_int_equal(stream.rounds, 5);
    assert_int_equal(stream.sizes[0], 64);
    assert_int_equal(stream.sizes[1], 1024);
    assert_int_equal(stream.sizes[4], 8192);
    assert_int_equal(stream.workload.depth, 7);
    assert_int_equal(stream.workload.total_bytes, 0);
    assert_int_equal(stream.workload.duration_ns, 3000000000); /* without --total: for a while */
    assert_true(stream.workload.pattern);
    assert_int_equal(pingpong.workload.depth, 1);
    assert_int_equal(pingpong.workload.total_bytes, 1 << 20);
    assert_int_equal(pingpong.workload.duration_ns, 0);
    assert_int_equal(pingpong.warmup_ns, 1000000000);
    assert_int_equal(pingpong.sizes[0], 64);
    assert_false(pingpong.workload.pattern);
}

static void workers_follow_from_sessions(void **state)
{
    static const struct {
        const char *const arguments[ARGUMENTS_MAX];
        uint32_t workers;
    } cases[] = {
        {{"-n", "1"}, 1},
        {{"-n", "8"}, 1},
        {{"-n", "9"}, 2},
        {{"-n", "64"}, 8},
        {{"-n", "64", "--sessions-per-worker", "64"}, 1},
        {{"-n", "9", "--sessions-per-worker", "1"}, 9},
        {{"-n", "16", "--workers", "2"}, 2},
        {{"-n", "2", "--workers", "5"}, 2}, /* no worker without a session */
        {{"-n", "20", "--workers", "2", "--placement", "spread"}, 2},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        const struct options options = parse_good(ROLE_GET, cases[i].arguments);

        assert_int_equal(options_worker_count(&options), cases[i].workers);
    }
}

static char *write_token(const char *content)
{
    static char path[] = "/tmp/fabt-token-XXXXXX";
    int fd;

    strcpy(path, "/tmp/fabt-token-XXXXXX");
    fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, content, strlen(content)), strlen(content));
    close(fd);
    return path;
}

static void token_is_read_from_its_file(void **state)
{
    static const char *const good[] = {"000102030405060708090a0b0c0d0e0f\n",
                                       "000102030405060708090A0B0C0D0E0F",
                                       "000102030405060708090a0b0c0d0e0f \r\nmore\n"};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        char *path = write_token(good[i]);
        const struct options options = parse_good(ROLE_GET, ARGUMENTS("--token-file", path));

        unlink(path);
        assert_true(options.has_token);
        assert_memory_equal(options.token, "\0\1\2\3\4\5\6\7\10\11\12\13\14\15\16\17", 16);
    }
}

static void a_bad_token_is_not_repeated(void **state)
{
    static const char *const bad[] = {"",
                                      "\n",
                                      "secret",
                                      "000102030405060708090a0b0c0d0e0",
                                      "000102030405060708090a0b0c0d0e0f0f",
                                      "zz"};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        char *path = write_token(bad[i]);
        struct options options;
        struct failure failure = {0};
        const int rc = parse(&options, ROLE_GET, ARGUMENTS("--token-file", path), &failure);

        unlink(path);
        assert_int_equal(rc, -EINVAL);
        assert_true(failure.usage);
        assert_says(failure.text, "--token-file");
        assert_says(failure.text, path);
        assert_null(strstr(failure.text, "secret"));
    }
}

/* ---- what is refused ---- */

struct refusal {
    enum role role;
    const char *const arguments[ARGUMENTS_MAX];
    const char *says[3]; /* the option, the value, what would be right */
};

static void assert_refused(const struct refusal *cases, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct options options;
        struct failure failure = {0};

        if (parse(&options, cases[i].role, cases[i].arguments, &failure) == 0)
            fail_msg("'%s %s' was not refused", cases[i].arguments[0], cases[i].arguments[1]);
        if (!failure.usage)
            fail_msg("'%s' is no usage error", failure.text);
        assert_null(strchr(failure.text, '\n'));
        for (size_t k = 0; k < COUNT_OF(cases[i].says) && cases[i].says[k] != NULL; k++)
            assert_says(failure.text, cases[i].says[k]);
    }
}

static void bad_numbers_are_refused(void **state)
{
    static const struct refusal cases[] = {
        {ROLE_GET, {"-n", "0"}, {"-n", "'0'", "1 to"}},
        {ROLE_GET, {"-n", "abc"}, {"-n", "'abc'", "whole number"}},
        {ROLE_GET, {"-n", "5x"}, {"-n", "'5x'"}},
        {ROLE_GET, {"-n", "-1"}, {"-n", "'-1'"}},
        {ROLE_GET, {"-n", "+6"}, {"-n", "'+6'"}},
        {ROLE_GET, {"-n", ""}, {"-n", "''"}},
        {ROLE_GET, {"-n", " 5"}, {"-n", "' 5'"}},
        {ROLE_GET, {"-n", "0x10"}, {"-n", "'0x10'"}},
        {ROLE_GET, {"-n", "99999"}, {"-n", "'99999'"}},
        {ROLE_GET, {"-n", "18446744073709551617"}, {"-n", "'18446744073709551617'"}},
        {ROLE_GET, {"--sessions=0"}, {"-n", "'0'"}},
        {ROLE_PUT, {"-k", "0", ADDRESS}, {"-k", "'0'"}},
        {ROLE_PUT, {"-k", "two", ADDRESS}, {"-k", "'two'"}},
        {ROLE_GET, {"--workers", "0"}, {"--workers", "'0'"}},
        {ROLE_GET, {"--workers", "9999"}, {"--workers", "'9999'"}},
        {ROLE_GET, {"--sessions-per-worker", "0"}, {"--sessions-per-worker", "'0'"}},
    };

    (void)state;
    assert_refused(cases, COUNT_OF(cases));
}

static void bad_processors_are_refused(void **state)
{
    static const struct refusal cases[] = {
        {ROLE_GET, {"-p", "3 -"}, {"-p", "'3 -'"}},
        {ROLE_GET, {"-p", "5-2"}, {"-p", "'5-2'"}},
        {ROLE_GET, {"-p", ""}, {"-p", "''"}},
        {ROLE_GET, {"-p", "x"}, {"-p", "'x'"}},
        {ROLE_GET, {"-p", "0-"}, {"-p", "'0-'"}},
        {ROLE_GET, {"-p", "1000"}, {"-p", "1000", "not exist"}},
        {ROLE_GET, {"-p", "0,1000"}, {"-p", "1000", "'0,1000'"}},
        {ROLE_GET, {"-p", "99999"}, {"-p", "'99999'"}},
        {ROLE_PUT, {"-p", "0 - 1000", ADDRESS}, {"-p", "'0 - 1000'"}},
    };

    (void)state;
    assert_refused(cases, COUNT_OF(cases));
}

static void other_bad_values_are_refused(void **state)
{
    static const struct refusal cases[] = {
        {ROLE_PUT, {"-k", "5", "-n", "2", ADDRESS}, {"-k", "5", "2"}},
        {ROLE_PUT, {"-n", "2", "-k", "5", ADDRESS}, {"-k", "5", "2"}},
        {ROLE_GET, {"--total", "64X"}, {"--total", "'64X'"}},
        {ROLE_GET, {"--total", "-1"}, {"--total", "'-1'"}},
        {ROLE_GET, {"--total", "99999999T"}, {"--total", "'99999999T'"}},
        {ROLE_GET, {"--timeout", "0"}, {"--timeout", "'0'"}},
        {ROLE_GET, {"--timeout", "10 s"}, {"--timeout", "'10 s'"}},
        {ROLE_GET, {"--outlier", "0"}, {"--outlier", "'0'"}},
        {ROLE_PUT, {"--outlier", "slow", ADDRESS}, {"--outlier", "'slow'"}},
        {ROLE_PUT, {"--outlier", "721h", ADDRESS}, {"--outlier", "'721h'"}},
        {ROLE_GET, {"--timeout", "soon"}, {"--timeout", "'soon'"}},
        {ROLE_GET, {"--placement", "here"}, {"--placement", "'here'", "pack or spread"}},
        {ROLE_GET, {"--token-file", "/no/such/file"}, {"--token-file", "/no/such/file"}},
        {ROLE_GET, {"-n", "20", "--workers", "2"}, {"--workers", "2", "20"}},
    };

    (void)state;
    assert_refused(cases, COUNT_OF(cases));
}

static void addresses_are_asked_for_and_checked(void **state)
{
    static const struct refusal cases[] = {
        {ROLE_PUT, {NULL}, {"address"}},
        {ROLE_PUT, {"-n", "2"}, {"address"}},
        {ROLE_PUT, {""}, {"address"}},
        {ROLE_PUT, {"+6: 9"}, {"address", "'+6: 9'"}},
        {ROLE_PUT, {"02:0"}, {"address", "'02:0'"}},
        {ROLE_PUT, {ADDRESS, ADDRESS}, {"unexpected", ADDRESS}},
        {ROLE_GET, {ADDRESS}, {"unexpected", ADDRESS}},
    };

    (void)state;
    assert_refused(cases, COUNT_OF(cases));
}

static void on_get_the_workload_is_a_limit(void **state)
{
    const struct options get =
        parse_good(ROLE_GET, ARGUMENTS("--workload", "stream", "--size", "64,4K,1K", "--depth", "8",
                                       "--total", "1M", "--duration", "10s"));

    (void)state;
    assert_true(get.limits.one_kind);
    assert_int_equal(get.limits.kind, FABT_WORKLOAD_STREAM);
    assert_int_equal(get.limits.size_bytes, 4096);
    assert_int_equal(get.limits.depth, 8);
    assert_int_equal(get.limits.total_bytes, 1 << 20);
    assert_int_equal(get.limits.duration_ns, 10000000000);
    assert_int_equal(parse_good(ROLE_GET, ARGUMENTS("--size", "64")).limits.size_bytes, 64);
}

static void unknown_options_are_named(void **state)
{
    static const struct refusal cases[] = {
        {ROLE_GET, {"-q"}, {"-q"}},
        {ROLE_GET, {"-g"}, {"-g"}}, /* put's */
        {ROLE_GET, {"-k", "1"}, {"-k"}},
        {ROLE_PUT, {"-a", "file", ADDRESS}, {"-a"}}, /* get's */
        {ROLE_PUT, {"--accept-timeout", "1s", ADDRESS}, {"--accept-timeout", "fabtget"}},
        {ROLE_GET, {"--accept-timeout", "0"}, {"--accept-timeout", "'0'"}},
        {ROLE_PUT, {"-cq", ADDRESS}, {"-q"}},
        {ROLE_GET, {"--bogus"}, {"--bogus"}},
        {ROLE_GET, {"--bogus=3"}, {"--bogus"}},
        {ROLE_GET, {"--p"}, {"--p"}}, /* ambiguous */
        {ROLE_PUT, {ADDRESS, "-q"}, {"-q"}},
        {ROLE_PUT, {ADDRESS, "--bogus"}, {"--bogus"}},
        {ROLE_PUT, {"-n", "2", ADDRESS, "--bogus"}, {"--bogus"}},
        {ROLE_PUT, {ADDRESS, "--wait=3"}, {"--wait"}},
    };

    (void)state;
    assert_refused(cases, COUNT_OF(cases));
}

static void missing_values_are_named(void **state)
{
    static const struct refusal cases[] = {
        {ROLE_GET, {"-n"}, {"-n needs a value"}},
        {ROLE_GET, {"-cn"}, {"-n needs a value"}},
        {ROLE_GET, {"--provider"}, {"--provider needs a value"}},
        {ROLE_GET, {"--sessions"}, {"-n needs a value"}}, /* its short form */
        {ROLE_PUT, {ADDRESS, "-n"}, {"-n needs a value"}},
        {ROLE_PUT, {ADDRESS, "--timeout"}, {"--timeout needs a value"}},
    };

    (void)state;
    assert_refused(cases, COUNT_OF(cases));
}

/* A refusal leaves nothing behind that the next parse could stumble over. */
static void parsing_can_be_repeated(void **state)
{
    struct options options;
    struct failure failure = {0};

    (void)state;
    assert_int_not_equal(parse(&options, ROLE_GET, ARGUMENTS("-cq", "-n", "3"), &failure), 0);
    assert_int_equal(parse_good(ROLE_GET, ARGUMENTS("-n", "3")).sessions, 3);
}

static void help_describes_each_option(void **state)
{
    static const char *const of_both[] = {"-c, --expect-cancel",
                                          "-n, --sessions",
                                          "-p, --cpus",
                                          "-r, --reregister",
                                          "-w, --wait",
                                          "-h, --help",
                                          "-V, --version",
                                          "--provider",
                                          "--bind",
                                          "--total",
                                          "--workers",
                                          "--sessions-per-worker",
                                          "--placement",
                                          "--timeout",
                                          "--outlier",
                                          "--token-file",
                                          "--json",
                                          "Exit code"};

    (void)state;
    for (unsigned role = ROLE_GET; role <= ROLE_PUT; role++) {
        char *text = NULL;
        size_t size = 0;
        FILE *out = open_memstream(&text, &size);

        assert_non_null(out);
        options_help((enum role)role, out);
        fclose(out);
        for (size_t i = 0; i < COUNT_OF(of_both); i++)
            assert_says(text, of_both[i]);
        assert_int_equal(strstr(text, "-a, --address-file") != NULL, role == ROLE_GET);
        assert_int_equal(strstr(text, "-g, --contiguous") != NULL, role == ROLE_PUT);
        assert_int_equal(strstr(text, "-k, --local-sessions") != NULL, role == ROLE_PUT);
        for (const char *line = text; *line != '\0'; line += strcspn(line, "\n") + 1)
            assert_in_range(strcspn(line, "\n"), 0, 80);
        free(text);
    }
}

static void workloads_that_make_no_sense_are_refused(void **state)
{
    static const struct refusal cases[] = {
        {ROLE_PUT, {"--workload", "burst", ADDRESS}, {"--workload", "burst"}},
        {ROLE_PUT, {"--size", "64", ADDRESS}, {"--size", "stress"}},
        {ROLE_PUT, {"--depth", "2", ADDRESS}, {"--depth", "stress"}},
        {ROLE_PUT, {"--workload", "stream", "--size", "0", ADDRESS}, {"--size", "'0'"}},
        {ROLE_PUT, {"--workload", "stream", "--size", "4K-64", ADDRESS}, {"--size", "4K-64"}},
        {ROLE_PUT, {"--workload", "stream", "--size", "1G", ADDRESS}, {"--size", "1 GiB"}},
        {ROLE_PUT, {"--workload", "pingpong", "--depth", "2", ADDRESS}, {"--depth", "pingpong"}},
        {ROLE_PUT, {"--total", "1", "--duration", "1s", ADDRESS}, {"--total", "--duration"}},
        {ROLE_PUT, {"--duration", "0", ADDRESS}, {"--duration", "'0'"}},
        {ROLE_PUT, {"--warmup", "soon", ADDRESS}, {"--warmup", "soon"}},
        {ROLE_GET, {"--contiguous", ""}, {"--contiguous", "fabtput"}},
        {ROLE_PUT, {"--address-file=x", ADDRESS}, {"--address-file", "fabtget"}},
    };

    (void)state;
    assert_refused(cases, COUNT_OF(cases));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_the_documented_ones),
        cmocka_unit_test(short_and_long_forms_of_get_are_the_same),
        cmocka_unit_test(short_and_long_forms_of_put_are_the_same),
        cmocka_unit_test(k_alone_says_n_too),
        cmocka_unit_test(k_may_be_all_of_n),
        cmocka_unit_test(help_and_version_need_no_address),
        cmocka_unit_test(auto_leaves_the_choice_to_the_engine),
        cmocka_unit_test(sizes_and_times_reach_the_options),
        cmocka_unit_test(workloads_are_complete),
        cmocka_unit_test(workloads_that_make_no_sense_are_refused),
        cmocka_unit_test(workers_follow_from_sessions),
        cmocka_unit_test(token_is_read_from_its_file),
        cmocka_unit_test(a_bad_token_is_not_repeated),
        cmocka_unit_test(bad_numbers_are_refused),
        cmocka_unit_test(bad_processors_are_refused),
        cmocka_unit_test(other_bad_values_are_refused),
        cmocka_unit_test(addresses_are_asked_for_and_checked),
        cmocka_unit_test(on_get_the_workload_is_a_limit),
        cmocka_unit_test(unknown_options_are_named),
        cmocka_unit_test(missing_values_are_named),
        cmocka_unit_test(parsing_can_be_repeated),
        cmocka_unit_test(help_describes_each_option),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
