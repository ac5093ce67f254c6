/* SPDX-License-Identifier: BSD-3-Clause */
/* An older get or put, for interoperability tests: an implementation of the protocol that shares no
 * code with the programs under test, in one polling thread.
 */
#include "session.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const uint8_t wire_pattern[WIRE_PATTERN_LEN] = {
    0x49, 0x66, 0x20, 0x74, 0x68, 0x69, 0x73, 0x20, 0x6d, 0x65, 0x73, 0x73, 0x61, 0x67, 0x65, 0x20,
    0x77, 0x61, 0x73, 0x20, 0x72, 0x65, 0x63, 0x65, 0x69, 0x76, 0x65, 0x64, 0x20, 0x69, 0x6e, 0x20,
    0x65, 0x72, 0x72, 0x6f, 0x72, 0x20, 0x74, 0x68, 0x65, 0x6e, 0x20, 0x70, 0x6c, 0x65, 0x61, 0x73,
    0x65, 0x20, 0x70, 0x72, 0x69, 0x6e, 0x74, 0x20, 0x69, 0x74, 0x20, 0x6f, 0x75, 0x74, 0x20, 0x61,
    0x6e, 0x64, 0x20, 0x73, 0x68, 0x72, 0x65, 0x64, 0x20, 0x69, 0x74, 0x2e};

static const char usage[] =
    "usage: fieldpeer get [-n N] [-a FILE] [OPTION]...\n"
    "       fieldpeer put [-n N] [-k K] [-g] [OPTION]... ADDRESS\n"
    "\n"
    "An older peer of the get/put protocol. Exits 0 when every session has transferred and "
    "verified\n"
    "7,600,000 bytes, else 1 with one line on standard error. Sessions with a hostile quirk don't\n"
    "count; they stay until the time-out or a signal.\n"
    "\n"
    "  -n N             sessions that get expects in all (1 to 16)\n"
    "  -k K             put: start only K of them\n"
    "  -g               put: one segment a write\n"
    "  -a FILE          get: publish the address in FILE, atomically\n"
    "  --bind ADDR      local address\n"
    "  --provider NAME  libfabric provider\n"
    "  --virt-addr      offer FI_MR_VIRT_ADDR to the provider\n"
    "  --timeout SEC    end a session in which nothing happens for so long (default 60)\n"
    "  --strict         refuse what only older peers may do; for peers that are ours\n"
    "  --dump           a hex dump of each message sent and received, on standard error\n"
    "  --quirk NAME[@S] misbehave in session S (legal quirks: default all; hostile ones: 0)\n"
    "\n"
    "quirks:\n";

enum { OPT_BIND = 256, OPT_PROVIDER, OPT_VIRT_ADDR, OPT_TIMEOUT, OPT_STRICT, OPT_DUMP, OPT_QUIRK };

static const struct option long_options[] = {
    {"bind", required_argument, NULL, OPT_BIND},
    {"provider", required_argument, NULL, OPT_PROVIDER},
    {"virt-addr", no_argument, NULL, OPT_VIRT_ADDR},
    {"timeout", required_argument, NULL, OPT_TIMEOUT},
    {"strict", no_argument, NULL, OPT_STRICT},
    {"dump", no_argument, NULL, OPT_DUMP},
    {"quirk", required_argument, NULL, OPT_QUIRK},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

static int parse_count(const char *text, unsigned *count, struct failure *f)
{
    char *end;
    long value = strtol(text, &end, 10);

    if (end == text || *end != '\0' || value < 1 || value > 16)
        return failure_set(f, "'%s' is not a number of sessions from 1 to 16", text);
    *count = (unsigned)value;
    return 0;
}

static int parse_quirk(const char *text, struct options *o, struct failure *f)
{
    char name[64];
    const char *at = strchr(text, '@');
    const int len = at == NULL ? (int)strlen(text) : (int)(at - text);

    snprintf(name, sizeof(name), "%.*s", len, text);
    const struct quirk *quirk = quirk_find(o->role, name);
    if (quirk == NULL)
        return failure_set(f, "no such quirk: '%s' (--help lists them)", name);
    if (o->nquirks == QUIRKS_MAX)
        return failure_set(f, "at most %d quirks", QUIRKS_MAX);
    o->quirks[o->nquirks].quirk = quirk;
    o->quirks[o->nquirks].session = at != NULL ? atoi(at + 1) : quirk_is_hostile(quirk) ? 0 : -1;
    o->nquirks++;
    return 0;
}

static int parse_option(int option, struct options *o, struct failure *f)
{
    switch (option) {
    case 'a':
        o->address_file = optarg;
        return 0;
    case 'g':
        o->contiguous = true;
        return 0;
    case 'n':
        return parse_count(optarg, &o->nsources, f);
    case 'k':
        return parse_count(optarg, &o->nlocal, f);
    case OPT_BIND:
        o->net.bind = optarg;
        return 0;
    case OPT_PROVIDER:
        o->net.provider = optarg;
        return 0;
    case OPT_VIRT_ADDR:
        o->net.virt_addr = true;
        return 0;
    case OPT_TIMEOUT:
        o->timeout = atof(optarg);
        return o->timeout > 0 ? 0 : failure_set(f, "--timeout %s", optarg);
    case OPT_STRICT:
        o->strict = true;
        return 0;
    case OPT_DUMP:
        o->dump = true;
        return 0;
    case OPT_QUIRK:
        return parse_quirk(optarg, o, f);
    default:
        return failure_set(f, "unknown option or missing argument (--help lists them)");
    }
}

static int parse(int argc, char **argv, struct options *o, struct failure *f)
{
    int option;

    opterr = 0;
    while ((option = getopt_long(argc, argv, "a:ghk:n:", long_options, NULL)) != -1) {
        if (option == 'h') {
            fputs(usage, stdout);
            quirk_print_all(stdout);
            exit(0);
        }
        if (parse_option(option, o, f) < 0)
            return -1;
    }
    if (argc - optind != (o->role == QUIRK_PUT ? 1 : 0))
        return failure_set(f, "put takes one address and get none");
    o->address = argv[optind];
    if (o->nlocal == 0)
        o->nlocal = o->nsources == 0 ? 1 : o->nsources;
    if (o->nsources == 0)
        o->nsources = o->nlocal;
    return o->nlocal <= o->nsources ? 0 : failure_set(f, "-k is more than -n");
}

int main(int argc, char **argv)
{
    struct options options = {.timeout = 60};
    struct failure failure = {""};
    int rc = -1;

    const char *role = argc > 1 ? argv[1] : "--help";
    if (strcmp(role, "--help") == 0 || strcmp(role, "-h") == 0) {
        fputs(usage, stdout);
        quirk_print_all(stdout);
        return 0;
    }
    options.role = strcmp(role, "put") == 0 ? QUIRK_PUT : QUIRK_GET;
    if (options.role == QUIRK_GET && strcmp(role, "get") != 0)
        failure_set(&failure, "the first argument is get or put, not '%s'", role);
    else
        rc = parse(argc - 1, argv + 1, &options, &failure);
    if (rc == 0) {
        session_catch_signals();
        rc = options.role == QUIRK_PUT ? put_run(&options, &failure) : get_run(&options, &failure);
    }
    if (rc != 0)
        fprintf(stderr, "fieldpeer %s: %s\n", role, failure.text);
    return rc == 0 ? 0 : 1;
}
