/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The command line of fabtget and fabtput, checked. */
#ifndef FABT_OPTIONS_H
#define FABT_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "address.h"
#include "failure.h"
#include "parse.h"
#include "workload.h"

enum role { ROLE_GET, ROLE_PUT };

enum placement { PLACEMENT_PACK, PLACEMENT_SPREAD };

enum {
    OPTIONS_SESSIONS_MAX = 1024,
    OPTIONS_WORKERS_MAX = 512,
    OPTIONS_SESSIONS_PER_WORKER = 8, /* what the field's programs pack */
};

#define OPTIONS_SIZES_MAX 64

/* What to do instead of a run. */
enum action { ACTION_RUN, ACTION_HELP, ACTION_VERSION };

struct options {
    enum role role;
    enum action action;
    const char *address_file;      /* -a, or NULL: standard output */
    bool expect_cancel;            /* -c */
    bool contiguous;               /* -g */
    uint32_t local_sessions;       /* -k: sessions that this process runs */
    uint32_t sessions;             /* -n: sessions that get expects in all */
    bool pinned;                   /* -p */
    bool pin_auto;                 /* -p auto: the engine chooses the processors */
    struct cpu_list cpus;          /* processors to pin to, round robin */
    bool reregister;               /* -r */
    bool wait;                     /* -w */
    const char *provider;          /* or NULL */
    const char *bind;              /* local address, or NULL */
    struct workload_limits limits; /* get: what it accepts of a session at most */
    struct workload workload;      /* put: what each session transfers; size_bytes is per round */
    uint64_t sizes[OPTIONS_SIZES_MAX];
    uint32_t rounds; /* put: sizes to go through, at least 1 */
    bool no_verify;
    bool workload_given, total_given;
    uint64_t warmup_ns; /* left out of the figures */
    bool progress;      /* a bar on a terminal */
    uint32_t workers;   /* 0: as many as the sessions need */
    uint32_t sessions_per_worker;
    enum placement placement;
    uint64_t timeout_ns;        /* a session without progress */
    uint64_t hello_timeout_ns;  /* put: waiting for the acknowledgement */
    uint64_t accept_timeout_ns; /* get: waiting for sessions while there are none; 0: for ever */
    uint64_t outlier_ns; /* an operation that takes longer gets an event of its own; 0: none */
    bool has_token;
    uint64_t token[2];
    const char *json_file; /* "-": standard output; or NULL */
    struct address peer;   /* put: get's listening endpoint */
};

/* Read the command line; argv[0] is the role's name. 0, or -EINVAL with a usage failure. */
int options_parse(struct options *options, enum role role, int argc, char **argv,
                  struct failure *failure);

/* What --help prints. */
void options_help(enum role role, FILE *out);

/* Worker threads for so many sessions under these options. */
uint32_t options_worker_count(const struct options *options);

#endif
