/* SPDX-License-Identifier: BSD-3-Clause */
#include "options.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"

/* Longer is no time-out; and sums with it must not overflow. */
#define TIMEOUT_MAX_NS (720 * 3600 * NS_PER_S)

enum long_option {
    OPT_PROVIDER = 256,
    OPT_BIND,
    OPT_TOTAL,
    OPT_WORKERS,
    OPT_SESSIONS_PER_WORKER,
    OPT_PLACEMENT,
    OPT_TIMEOUT,
    OPT_TOKEN_FILE,
    OPT_JSON,
};

/* The field's programs have the short ones; scripts depend on them. */
static const char short_options[][32] = {
    [ROLE_GET] = ":a:chn:p:rwV",
    [ROLE_PUT] = ":cghk:n:p:rwV",
};

#define COMMON_OPTIONS                                                                            \
    {"expect-cancel", no_argument, NULL, 'c'}, {"help", no_argument, NULL, 'h'},                  \
        {"sessions", required_argument, NULL, 'n'}, {"cpus", required_argument, NULL, 'p'},       \
        {"reregister", no_argument, NULL, 'r'}, {"wait", no_argument, NULL, 'w'},                 \
        {"version", no_argument, NULL, 'V'}, {"provider", required_argument, NULL, OPT_PROVIDER}, \
        {"bind", required_argument, NULL, OPT_BIND},                                              \
        {"total", required_argument, NULL, OPT_TOTAL},                                            \
        {"workers", required_argument, NULL, OPT_WORKERS},                                        \
        {"sessions-per-worker", required_argument, NULL, OPT_SESSIONS_PER_WORKER},                \
        {"placement", required_argument, NULL, OPT_PLACEMENT},                                    \
        {"timeout", required_argument, NULL, OPT_TIMEOUT},                                        \
        {"token-file", required_argument, NULL, OPT_TOKEN_FILE},                                  \
    {                                                                                             \
        "json", required_argument, NULL, OPT_JSON                                                 \
    }

static const struct option get_options[] = {
    {"address-file", required_argument, NULL, 'a'}, COMMON_OPTIONS, {NULL, 0, NULL, 0}};

static const struct option put_options[] = {{"contiguous", no_argument, NULL, 'g'},
                                            {"local-sessions", required_argument, NULL, 'k'},
                                            COMMON_OPTIONS,
                                            {NULL, 0, NULL, 0}};

static const char help_head_get[] =
    "Usage: fabtget [OPTION]...\n"
    "Offer memory to RDMA writes from fabtput and verify every byte that arrives.\n"
    "\n"
    "fabtget prints the address of its listening endpoint, waits for sessions, and exits\n"
    "when all have ended. Give the address to fabtput.\n"
    "\n"
    "  -a, --address-file FILE      publish the address in FILE, atomically, not on stdout\n";

static const char help_head_put[] =
    "Usage: fabtput [OPTION]... ADDRESS\n"
    "RDMA-write a known byte stream into the memory that fabtget offers.\n"
    "\n"
    "ADDRESS is the line that fabtget printed.\n"
    "\n"
    "  -g, --contiguous             one segment a write: no scatter-gather\n"
    "  -k, --local-sessions K       start only K of the -n sessions; other fabtput\n"
    "                               processes start the rest\n";

static const char help_common[] =
    "  -c, --expect-cancel          being cancelled by a signal is the expected end:\n"
    "                               exit 0 if cancelled, 1 otherwise\n"
    "  -n, --sessions N             sessions in all (default 1); the same on both sides\n"
    "  -p, --cpus LIST              pin workers to processors, round robin: 'I - J', a list\n"
    "                               such as 0,2,4-7, or auto (all that are allowed)\n"
    "  -r, --reregister             register a payload buffer before each use and\n"
    "                               deregister it after\n"
    "  -w, --wait                   sleep in epoll_pwait(2) until the provider signals,\n"
    "                               instead of polling\n"
    "      --provider NAME          libfabric provider (see fi_info -l); default: FI_PROVIDER,\n"
    "                               else the first that fits\n"
    "      --bind ADDR              local address or host name, such as 127.0.0.1; providers\n"
    "                               without such addresses (shm) ignore it\n"
    "      --total SIZE             put: payload bytes a session (default 7600000);\n"
    "                               get: the most that it accepts (default: any)\n"
    "      --workers N              worker threads (default: as many as needed)\n"
    "      --sessions-per-worker N  sessions that a worker takes (default 8)\n"
    "      --placement pack|spread  fill one worker after the other (default), or spread\n"
    "                               sessions over all workers\n"
    "      --timeout TIME           end a session that makes no progress for so long\n"
    "                               (default 60s; put waits 300s for a slow start of others)\n"
    "      --token-file FILE        32 hex digits that both sides must share\n"
    "      --json FILE              write the results as JSON; - is standard output\n"
    "  -h, --help                   this text\n"
    "  -V, --version                versions of this program and of libfabric, and whether\n"
    "                               tracing is compiled in\n"
    "\n"
    "Sizes take K, M, G, T (powers of 1024); times take ms, s, m, h.\n"
    "Exit code: 0 success, 1 failure, 2 usage.\n"
    "\n";

static const char help_tail_get[] = "Example: fabtget -n 4 --bind 127.0.0.1 -a addr &\n"
                                    "         fabtput -n 4 \"$(cat addr)\"   (once addr exists)\n";

static const char help_tail_put[] = "Example: fabtput -n 4 \"$(cat addr)\"\n";

void options_help(enum role role, FILE *out)
{
    fputs(role == ROLE_GET ? help_head_get : help_head_put, out);
    fputs(help_common, out);
    fputs(role == ROLE_GET ? help_tail_get : help_tail_put, out);
}

static int bad_value(struct failure *failure, const char *option, const char *value,
                     const char *expected)
{
    return failure_set_usage(failure, "%s: '%.60s' is not %s", option, value, expected);
}

static int parse_count(const char *option, const char *value, uint32_t high, uint32_t *count,
                       struct failure *failure)
{
    char expected[64];
    uint64_t v;

    if (parse_number(value, 1, high, &v) != 0) {
        snprintf(expected, sizeof(expected), "a whole number from 1 to %u", high);
        return bad_value(failure, option, value, expected);
    }
    *count = (uint32_t)v;
    return 0;
}

/* Processors must be ones that this process may run on: pinning elsewhere would fail later. */
static int parse_pinning(struct options *options, const char *value, struct failure *failure)
{
    cpu_set_t allowed;
    int rc;

    if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0)
        return failure_set(failure, -errno, "-p: cannot read the allowed processors: %s",
                           strerror(errno));
    options->pinned = true;
    if (strcmp(value, "auto") == 0) {
        options->cpus.count = 0;
        for (unsigned cpu = 0; cpu < CPU_SETSIZE; cpu++) {
            if (CPU_ISSET(cpu, &allowed) && options->cpus.count < PARSE_CPUS_MAX)
                options->cpus.cpu[options->cpus.count++] = cpu;
        }
        return 0;
    }
    rc = parse_cpus(value, &options->cpus);
    if (rc == -ERANGE)
        return bad_value(failure, "-p", value, "a list of processors that exist");
    if (rc != 0)
        return bad_value(failure, "-p", value, "a processor list: 'I - J', 0,2,4-7 or auto");
    for (unsigned i = 0; i < options->cpus.count; i++) {
        if (!CPU_ISSET(options->cpus.cpu[i], &allowed))
            return failure_set_usage(failure,
                                     "-p: processor %u of '%.60s' does not exist or is not allowed "
                                     "here (taskset -p $$ shows which are)",
                                     options->cpus.cpu[i], value);
    }
    return 0;
}

static int read_token(struct options *options, const char *path, struct failure *failure)
{
    char line[64] = "";
    FILE *file = fopen(path, "re");

    if (file == NULL)
        return failure_set_usage(failure, "--token-file: cannot read '%s': %s", path,
                                 strerror(errno));
    if (fgets(line, sizeof(line), file) == NULL)
        line[0] = '\0';
    fclose(file);
    line[strcspn(line, " \t\r\n")] = '\0';
    if (parse_token(line, options->token) != 0)
        return failure_set_usage(failure, "--token-file: '%s' does not start with 32 hex digits",
                                 path);
    options->has_token = true;
    return 0;
}

static int take_option(struct options *options, int option, const char *value,
                       struct failure *failure)
{
    switch (option) {
    case 'a':
        options->address_file = value;
        return 0;
    case 'c':
        options->expect_cancel = true;
        return 0;
    case 'g':
        options->contiguous = true;
        return 0;
    case 'h':
        options->action = ACTION_HELP;
        return 0;
    case 'k':
        return parse_count("-k", value, OPTIONS_SESSIONS_MAX, &options->local_sessions, failure);
    case 'n':
        return parse_count("-n", value, OPTIONS_SESSIONS_MAX, &options->sessions, failure);
    case 'p':
        return parse_pinning(options, value, failure);
    case 'r':
        options->reregister = true;
        return 0;
    case 'w':
        options->wait = true;
        return 0;
    case 'V':
        options->action = ACTION_VERSION;
        return 0;
    case OPT_PROVIDER:
        options->provider = value;
        return 0;
    case OPT_BIND:
        options->bind = value;
        return 0;
    case OPT_TOTAL:
        if (parse_size(value, &options->total_bytes) != 0)
            return bad_value(failure, "--total", value, "a size such as 7600000 or 64M");
        options->total_limit = options->total_bytes;
        return 0;
    case OPT_WORKERS:
        return parse_count("--workers", value, OPTIONS_WORKERS_MAX, &options->workers, failure);
    case OPT_SESSIONS_PER_WORKER:
        return parse_count("--sessions-per-worker", value, OPTIONS_SESSIONS_MAX,
                           &options->sessions_per_worker, failure);
    case OPT_PLACEMENT:
        if (strcmp(value, "pack") == 0)
            options->placement = PLACEMENT_PACK;
        else if (strcmp(value, "spread") == 0)
            options->placement = PLACEMENT_SPREAD;
        else
            return bad_value(failure, "--placement", value, "pack or spread");
        return 0;
    case OPT_TIMEOUT:
        if (parse_duration(value, &options->timeout_ns) != 0 || options->timeout_ns == 0 ||
            options->timeout_ns > TIMEOUT_MAX_NS)
            return bad_value(failure, "--timeout", value,
                             "a time such as 30s or 500ms, at most 720h");
        options->hello_timeout_ns = options->timeout_ns;
        return 0;
    case OPT_TOKEN_FILE:
        return read_token(options, value, failure);
    case OPT_JSON:
        options->json_file = value;
        return 0;
    default:
        return failure_set_usage(failure, "unexpected option");
    }
}

/* Rules between options, once all are read. */
static int settle(struct options *options, struct failure *failure)
{
    if (options->sessions == 0)
        options->sessions = options->local_sessions == 0 ? 1 : options->local_sessions;
    if (options->local_sessions == 0)
        options->local_sessions = options->sessions;
    if (options->local_sessions > options->sessions)
        return failure_set_usage(failure, "-k: %u is more than the %u sessions of -n",
                                 options->local_sessions, options->sessions);
    if (options->workers != 0) {
        const uint64_t room = (uint64_t)options->workers * options->sessions_per_worker;

        if (room < options->local_sessions && options->placement == PLACEMENT_PACK)
            return failure_set_usage(failure,
                                     "--workers: %u workers of %u sessions hold fewer than %u: "
                                     "raise --workers or --sessions-per-worker",
                                     options->workers, options->sessions_per_worker,
                                     options->local_sessions);
    }
    return 0;
}

uint32_t options_worker_count(const struct options *options)
{
    const uint32_t per = options->sessions_per_worker;

    if (options->workers != 0)
        return options->workers < options->local_sessions ? options->workers
                                                          : options->local_sessions;
    return (options->local_sessions + per - 1) / per;
}

/* getopt moves arguments about: the option just scanned is always the one before optind. */
static int unknown_option(struct failure *failure, int option, char **argv)
{
    const char *name = argv[optind - 1];

    if (option == ':' && optopt < 256)
        return failure_set_usage(failure, "-%c needs a value (see --help)", optopt);
    if (option == ':')
        return failure_set_usage(failure, "%.60s needs a value (see --help)", name);
    if (optopt != 0 && strncmp(name, "--", 2) == 0)
        return failure_set_usage(failure, "%.60s takes no value (see --help)", name);
    if (optopt != 0)
        return failure_set_usage(failure, "unknown option -%c (see --help)", optopt);
    return failure_set_usage(failure, "unknown or ambiguous option %.60s (see --help)", name);
}

int options_parse(struct options *options, enum role role, int argc, char **argv,
                  struct failure *failure)
{
    struct options o = {
        .role = role,
        .total_bytes = OPTIONS_TOTAL_BYTES,
        .total_limit = UINT64_MAX,
        .sessions_per_worker = OPTIONS_SESSIONS_PER_WORKER,
        .timeout_ns = 60 * NS_PER_S,
        .hello_timeout_ns = 300 * NS_PER_S,
    };
    const struct option *long_options = role == ROLE_GET ? get_options : put_options;
    int rc;

    optind = 1;
    opterr = 0;
    for (;;) {
        const int option = getopt_long(argc, argv, short_options[role], long_options, NULL);

        if (option == -1)
            break;
        if (option == '?' || option == ':')
            return unknown_option(failure, option, argv);
        rc = take_option(&o, option, optarg, failure);
        if (rc != 0)
            return rc;
        if (o.action != ACTION_RUN) {
            *options = o;
            return 0;
        }
    }
    if (role == ROLE_PUT) {
        if (optind == argc)
            return failure_set_usage(failure,
                                     "no address: give the line that fabtget printed (see --help)");
        rc = address_parse(argv[optind++], &o.peer, failure);
        if (rc != 0)
            return rc;
    }
    if (optind < argc)
        return failure_set_usage(failure, "unexpected argument '%.60s' (see --help)", argv[optind]);
    rc = settle(&o, failure);
    if (rc == 0)
        *options = o;
    return rc;
}
