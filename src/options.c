/* SPDX-License-Identifier: BSD-3-Clause */
#include "options.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "fabt_events.h"

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
    OPT_ACCEPT_TIMEOUT,
    OPT_TOKEN_FILE,
    OPT_JSON,
    OPT_WORKLOAD,
    OPT_SIZE,
    OPT_DEPTH,
    OPT_DURATION,
    OPT_WARMUP,
    OPT_NO_VERIFY,
    OPT_PROGRESS,
    OPT_OUTLIER,
};

/* The field's programs have the short ones; scripts depend on them. */
static const char short_options[][32] = {
    [ROLE_GET] = ":a:chn:p:rwV",
    [ROLE_PUT] = ":cghk:n:p:rwV",
};

/* Long options of both roles; one that is the other's is refused by its letter. */
static const struct option long_options[] = {
    {"address-file", required_argument, NULL, 'a'},
    {"expect-cancel", no_argument, NULL, 'c'},
    {"contiguous", no_argument, NULL, 'g'},
    {"help", no_argument, NULL, 'h'},
    {"local-sessions", required_argument, NULL, 'k'},
    {"sessions", required_argument, NULL, 'n'},
    {"cpus", required_argument, NULL, 'p'},
    {"reregister", no_argument, NULL, 'r'},
    {"wait", no_argument, NULL, 'w'},
    {"version", no_argument, NULL, 'V'},
    {"provider", required_argument, NULL, OPT_PROVIDER},
    {"bind", required_argument, NULL, OPT_BIND},
    {"workload", required_argument, NULL, OPT_WORKLOAD},
    {"size", required_argument, NULL, OPT_SIZE},
    {"depth", required_argument, NULL, OPT_DEPTH},
    {"total", required_argument, NULL, OPT_TOTAL},
    {"duration", required_argument, NULL, OPT_DURATION},
    {"warmup", required_argument, NULL, OPT_WARMUP},
    {"no-verify", no_argument, NULL, OPT_NO_VERIFY},
    {"workers", required_argument, NULL, OPT_WORKERS},
    {"sessions-per-worker", required_argument, NULL, OPT_SESSIONS_PER_WORKER},
    {"placement", required_argument, NULL, OPT_PLACEMENT},
    {"timeout", required_argument, NULL, OPT_TIMEOUT},
    {"accept-timeout", required_argument, NULL, OPT_ACCEPT_TIMEOUT},
    {"outlier", required_argument, NULL, OPT_OUTLIER},
    {"token-file", required_argument, NULL, OPT_TOKEN_FILE},
    {"json", required_argument, NULL, OPT_JSON},
    {"progress", no_argument, NULL, OPT_PROGRESS},
    {NULL, 0, NULL, 0},
};

static const char help_head_get[] =
    "Usage: fabtget [OPTION]...\n"
    "Offer memory to RDMA writes from fabtput and verify every byte that arrives.\n"
    "\n"
    "fabtget prints the address of its listening endpoint, waits for sessions, and\n"
    "exits when all have ended. Give the address to fabtput.\n"
    "\n"
    "  -a, --address-file FILE      publish the address in FILE, atomically, instead\n"
    "                               of on stdout\n"
    "      --accept-timeout TIME    end when no session is under way and none comes\n"
    "                               for so long (default: wait for ever)\n";

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
    "  -n, --sessions N             sessions in all (default 1), alike on both sides\n"
    "  -p, --cpus LIST              pin workers to processors, round robin: 'I - J',\n"
    "                               a list such as 0,2,4-7, or auto: cores before\n"
    "                               hardware threads, near the network device first\n"
    "                               (get and put on one host: give each its LIST)\n"
    "  -r, --reregister             register a payload buffer before each use and\n"
    "                               deregister it after\n"
    "  -w, --wait                   sleep in epoll_pwait(2) until the provider\n"
    "                               signals, instead of polling\n"
    "      --provider NAME          libfabric provider (see fi_info -l); default:\n"
    "                               FI_PROVIDER, else the first that fits\n"
    "      --bind ADDR              local address or host name, such as 127.0.0.1;\n"
    "                               providers without them (shm) ignore it\n"
    "      --workload NAME          stress (default), stream (bandwidth) or pingpong\n"
    "                               (round trips); put decides this and the next\n"
    "                               four, on get they limit what it accepts\n"
    "      --size LIST              stream, pingpong: bytes of a buffer, or several\n"
    "                               for a sweep: 64,4K or 64-1M (doubling);\n"
    "                               default 64K, pingpong 64\n"
    "      --depth N                stream: buffers in flight (default 16)\n"
    "      --total SIZE             payload bytes a session (stress: default\n"
    "                               7600000)\n"
    "      --duration TIME          run so long instead (stream, pingpong: default\n"
    "                               3s); with -c until cancelled\n"
    "      --warmup TIME            leave so much of the start out of the figures\n"
    "      --no-verify              do not fill in and verify the payload; a\n"
    "                               session's buffers are then the same memory\n"
    "      --workers N              worker threads (default: as many as needed)\n"
    "      --sessions-per-worker N  sessions that a worker takes (default 8)\n"
    "      --placement pack|spread  fill one worker after the other (default), or\n"
    "                               spread sessions over all workers\n"
    "      --timeout TIME           end a session that makes no progress for so long\n"
    "                               (default 60s; put waits 300s for a slow start\n"
    "                               of others); what it had posted then has 2s to\n"
    "                               come back\n"
    "      --outlier TIME           write a trace event when a send or write takes\n"
    "                               longer, or a session makes no progress for so\n"
    "                               long (50ms at least)\n"
    "      --token-file FILE        32 hex digits that both sides must share\n"
    "      --progress               show a progress bar, on a terminal\n"
    "      --json FILE              write the results as JSON; - is standard output\n"
    "  -h, --help                   this text\n"
    "  -V, --version                versions of this program and of libfabric, and\n"
    "                               whether tracing is compiled in\n"
    "\n"
    "Sizes take K, M, G, T (powers of 1024); times take us, ms, s, m, h.\n"
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
    options->pin_auto = strcmp(value, "auto") == 0;
    if (options->pin_auto)
        return 0; /* which ones are best depends on the network device, not chosen yet */
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
        return failure_set_usage(failure,
                                 "--token-file: cannot read '%s': %s; name a file that you may "
                                 "read, with 32 hex digits",
                                 path, strerror(errno));
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

static int take_workload(struct options *options, const char *value, struct failure *failure)
{
    static const char *const labels[] = FABT_WORKLOAD_LABELS;

    for (uint8_t i = 0; i < FABT_WORKLOAD_COUNT; i++) {
        if (strcmp(value, labels[i]) == 0) {
            options->workload.kind = i;
            options->workload_given = true;
            return 0;
        }
    }
    return bad_value(failure, "--workload", value, "stress, stream or pingpong");
}

static int take_sizes(struct options *options, const char *value, struct failure *failure)
{
    const int rc =
        parse_sizes(value, WORKLOAD_SIZE_MAX, options->sizes, OPTIONS_SIZES_MAX, &options->rounds);

    if (rc == -ERANGE)
        return bad_value(failure, "--size", value, "at most 64 sizes from 1 to 1G");
    if (rc != 0)
        return bad_value(failure, "--size", value, "a size, a list (64,4K) or a range (64-1M)");
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
        if (parse_size(value, &options->workload.total_bytes) != 0)
            return bad_value(failure, "--total", value, "a size such as 7600000 or 64M");
        options->total_given = true;
        return 0;
    case OPT_WORKLOAD:
        return take_workload(options, value, failure);
    case OPT_SIZE:
        return take_sizes(options, value, failure);
    case OPT_DEPTH:
        return parse_count("--depth", value, WORKLOAD_DEPTH_MAX, &options->workload.depth, failure);
    case OPT_DURATION:
        if (parse_duration(value, &options->workload.duration_ns) != 0 ||
            options->workload.duration_ns == 0 || options->workload.duration_ns > TIMEOUT_MAX_NS)
            return bad_value(failure, "--duration", value, "a time such as 10s, at most 720h");
        return 0;
    case OPT_WARMUP:
        if (parse_duration(value, &options->warmup_ns) != 0 || options->warmup_ns > TIMEOUT_MAX_NS)
            return bad_value(failure, "--warmup", value, "a time such as 1s or 200ms");
        return 0;
    case OPT_NO_VERIFY:
        options->no_verify = true;
        return 0;
    case OPT_PROGRESS:
        options->progress = true;
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
    case OPT_ACCEPT_TIMEOUT:
        if (options->role != ROLE_GET)
            return failure_set_usage(failure, "--accept-timeout is for fabtget (see --help)");
        if (parse_duration(value, &options->accept_timeout_ns) != 0 ||
            options->accept_timeout_ns == 0 || options->accept_timeout_ns > TIMEOUT_MAX_NS)
            return bad_value(failure, "--accept-timeout", value,
                             "a time such as 30s or 10m, at most 720h");
        return 0;
    case OPT_OUTLIER:
        if (parse_duration(value, &options->outlier_ns) != 0 || options->outlier_ns == 0 ||
            options->outlier_ns > TIMEOUT_MAX_NS)
            return bad_value(failure, "--outlier", value,
                             "a time such as 500us or 20ms, at most 720h");
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

/* What get was told of the workload are limits of what it accepts. */
static void settle_limits(struct options *options)
{
    struct workload *workload = &options->workload;
    struct workload_limits *limits = &options->limits;

    *limits = WORKLOAD_NO_LIMITS;
    limits->one_kind = options->workload_given;
    limits->kind = workload->kind;
    if (options->total_given)
        limits->total_bytes = workload->total_bytes;
    if (workload->depth != 0)
        limits->depth = workload->depth;
    if (workload->duration_ns != 0)
        limits->duration_ns = workload->duration_ns;
    for (uint32_t i = 0; i < options->rounds; i++) {
        if (i == 0 || options->sizes[i] > limits->size_bytes)
            limits->size_bytes = options->sizes[i];
    }
    if (workload->depth == 0)
        workload->depth = WORKLOAD_STRESS_DEPTH;
    if (options->rounds == 0)
        options->rounds = 1;
}

/* Complete put's workload. */
static int settle_workload(struct options *options, struct failure *failure)
{
    struct workload *workload = &options->workload;

    workload->pattern = !options->no_verify;
    if (workload->kind == FABT_WORKLOAD_STRESS) {
        if (options->rounds != 0 || workload->depth != 0)
            return failure_set_usage(failure,
                                     "%s: the stress workload has its own: choose "
                                     "--workload stream or pingpong",
                                     options->rounds != 0 ? "--size" : "--depth");
        workload->depth = WORKLOAD_STRESS_DEPTH;
        options->rounds = 1;
        if (!options->total_given && workload->duration_ns == 0)
            workload->total_bytes = WORKLOAD_STRESS_BYTES;
    } else {
        if (options->rounds == 0) {
            options->sizes[0] = workload->kind == FABT_WORKLOAD_STREAM ? 65536 : 64;
            options->rounds = 1;
        }
        if (workload->kind == FABT_WORKLOAD_PINGPONG && workload->depth > 1)
            return failure_set_usage(failure, "--depth: pingpong has one buffer in flight");
        if (workload->depth == 0)
            workload->depth = workload->kind == FABT_WORKLOAD_STREAM ? 16 : 1;
        if (!options->total_given && workload->duration_ns == 0)
            workload->duration_ns = 3 * NS_PER_S;
    }
    if (options->total_given && workload->duration_ns != 0)
        return failure_set_usage(failure, "--total and --duration: give one of them");
    for (uint32_t i = 0; i < options->rounds; i++) {
        struct workload round = *workload;

        round.size_bytes = options->sizes[i];
        if (round.size_bytes * workload_targets(&round) > WORKLOAD_MEMORY_MAX)
            return failure_set_usage(failure,
                                     "--size: %" PRIu64 " bytes at --depth %u need more than the "
                                     "1 GiB of target memory that a session may have",
                                     round.size_bytes, workload->depth);
    }
    return 0;
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
    if (options->role == ROLE_PUT)
        return settle_workload(options, failure);
    settle_limits(options);
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
        .sessions_per_worker = OPTIONS_SESSIONS_PER_WORKER,
        .timeout_ns = 60 * NS_PER_S,
        .hello_timeout_ns = 300 * NS_PER_S,
    };
    int rc;

    optind = 1;
    opterr = 0;
    for (;;) {
        const int option = getopt_long(argc, argv, short_options[role], long_options, NULL);

        if (option == -1)
            break;
        if (option == '?' || option == ':')
            return unknown_option(failure, option, argv);
        if (option < 256 && strchr(short_options[role], option) == NULL)
            return failure_set_usage(failure, "%.60s is for %s (see --help)", argv[optind - 1],
                                     role == ROLE_GET ? "fabtput" : "fabtget");
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
