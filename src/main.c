/* SPDX-License-Identifier: BSD-3-Clause
 *
 * fabtget and fabtput: one program, two names. */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine.h"
#include "results.h"
#include "signals.h"

enum { EXIT_OK = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

static const char *program; /* the name we go by in messages */

static void complain(const char *text)
{
    fprintf(stderr, "%s: %s\n", program, text);
}

static int complain_and_exit_code(const struct failure *failure)
{
    complain(failure->text);
    return failure->usage ? EXIT_USAGE : EXIT_FAILED;
}

static void print_version(void)
{
    printf("%s (fabtrace) %s, libfabric %u.%u, tracing: %s\n", program, FABT_VERSION,
           FI_MAJOR(fi_version()), FI_MINOR(fi_version()), FABT_TRACING_NAME);
}

/* The arguments as one line. Option values never hold secrets: a token comes from a file. */
static char *join_arguments(int argc, char **argv)
{
    size_t size = 1;
    char *line, *out;

    for (int i = 0; i < argc; i++)
        size += strlen(argv[i]) + 1;
    line = out = malloc(size);
    if (line == NULL)
        return NULL;
    for (int i = 0; i < argc; i++)
        out += sprintf(out, "%s%s", i == 0 ? "" : " ", argv[i]);
    return line;
}

static void report_sessions(const struct engine *engine)
{
    for (uint32_t i = 0; i < engine->sessions_count; i++) {
        const struct session *session = engine->sessions[i];
        char text[512];

        if (session->failure.code == 0 || engine_excused(engine, session))
            continue;
        results_describe_failure(engine, session, text, sizeof(text));
        complain(text);
    }
}

static void report_warmup(const struct engine *engine)
{
    uint32_t count = 0;
    char text[160];

    for (uint32_t i = 0; i < engine->sessions_count; i++)
        count += engine->sessions[i]->start_ns != 0 && engine->sessions[i]->warm_ns == 0;
    if (count == 0)
        return;
    snprintf(text, sizeof(text),
             "--warmup: %u of %u sessions ended before it was over, nothing of them is measured: "
             "shorten it, or let the run be longer",
             count, engine->sessions_count);
    complain(text);
}

static void report_cancellation(const struct engine *engine, const struct engine_verdict *verdict)
{
    char text[160];

    if (engine->signal != 0 && !engine->options->expect_cancel) {
        snprintf(text, sizeof(text), "cancelled by signal %d (%s) with %u sessions under way",
                 engine->signal, strsignal(engine->signal), verdict->cancelled);
        complain(text);
    } else if (engine->signal == 0 && engine->options->expect_cancel) {
        complain("-c: the run ended and was not cancelled by a signal");
    }
}

/* The exit code, unless what was printed can't be written. */
static int flushed(int code)
{
    if (fflush(stdout) == 0 && ferror(stdout) == 0)
        return code;
    complain("cannot write to standard output");
    return EXIT_FAILED;
}

/* Open the file of --json before the run: results that can't be written would be lost. */
static int open_json(const struct options *options, FILE **json, struct failure *failure)
{
    *json = NULL;
    if (options->json_file == NULL)
        return 0;
    *json = strcmp(options->json_file, "-") == 0 ? stdout : fopen(options->json_file, "we");
    if (*json == NULL)
        return failure_set(
            failure, -errno,
            "--json: cannot write '%s': %s; name a file in a folder that you may write to, "
            "or - for standard output",
            options->json_file, strerror(errno));
    return 0;
}

static int run(const struct options *options, const char *command_line, FILE *json)
{
    struct engine engine = {
        .options = options,
        .command_line = command_line,
        .note = complain,
    };
    struct failure failure = {0};
    unsigned leaks;
    int code;

    if (engine_run(&engine, &failure) != 0) {
        code = complain_and_exit_code(&failure);
    } else {
        const struct engine_verdict verdict = engine_judge(&engine);

        code = verdict.success ? EXIT_OK : EXIT_FAILED;
        report_sessions(&engine);
        report_warmup(&engine);
        report_cancellation(&engine, &verdict);
        if (verdict.success && (options->json_file == NULL || strcmp(options->json_file, "-") != 0))
            results_print(&engine, stdout);
        if (json != NULL && results_write_json(&engine, json, options->json_file, &failure) != 0)
            code = complain_and_exit_code(&failure);
    }
    leaks = engine_close(&engine);
    if (leaks > 0)
        fprintf(stderr, "%s: %u libfabric objects could not be closed\n", program, leaks);
    return flushed(code);
}

/* A caller may have closed our standard descriptors; a file of ours in their place would get what
 * is meant for people. */
static void occupy_standard_descriptors(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) < 0)
            return;
    }
}

static bool ends_with(const char *text, const char *end)
{
    const size_t len = strlen(text), end_len = strlen(end);

    return len >= end_len && strcmp(text + len - end_len, end) == 0;
}

int main(int argc, char **argv)
{
    struct options options;
    struct failure failure = {0};
    enum role role;
    char *command_line;
    FILE *json;
    int code;

    occupy_standard_descriptors();
    signals_prepare();
    program = argc > 0 ? basename(argv[0]) : "fabtget";
    role = ends_with(program, "put") ? ROLE_PUT : ROLE_GET;
    if (options_parse(&options, role, argc, argv, &failure) != 0)
        return complain_and_exit_code(&failure);
    if (options.action == ACTION_HELP) {
        options_help(role, stdout);
        return flushed(EXIT_OK);
    }
    if (options.action == ACTION_VERSION) {
        print_version();
        return flushed(EXIT_OK);
    }
    command_line = join_arguments(argc, argv);
    if (command_line == NULL) {
        complain("no memory");
        return EXIT_FAILED;
    }
    code = open_json(&options, &json, &failure) == 0 ? run(&options, command_line, json)
                                                     : complain_and_exit_code(&failure);
    if (json != NULL && json != stdout)
        fclose(json);
    free(command_line);
    return code;
}
