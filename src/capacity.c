/* SPDX-License-Identifier: BSD-3-Clause */
#include "capacity.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>

#include "parse.h"

/* What a process has open besides: standard streams, libfabric's interfaces, ours, LTTng's. */
enum { FILES_BASE = 48 };

/* Bytes of a shm endpoint's region: so many for each receive that it queues, and a part that is
 * always there (measured, doc/limits.md). */
#define REGION_ENTRY 4400
#define REGION_BASE (512 * 1024)

/* ofi_rxm's buffers come in chunks of so many, each with headers; a connected session has so many
 * chunks (86 MiB, measured with 1.17; doc/limits.md). */
enum { RXM_CHUNK = 1024, RXM_CHUNKS = 5, RXM_HEADERS = 1100 };

#define SHM_FOLDER "/dev/shm"
#define MIB UINT64_C(1048576)

/* Open files of a worker's domain and queue, and of a session's endpoint with its connections, as
 * measured with libfabric 1.17 and rounded up (doc/limits.md). */
static const struct provider_files {
    const char *provider;
    uint32_t worker, session;
} files_of[] = {
    {"tcp;ofi_rxm", 10, 11}, {"net;ofi_rxm", 10, 11}, {"net", 10, 4}, {"tcp", 10, 4},
    {"sockets", 12, 8},      {"udp;ofi_rxd", 10, 3},  {"shm", 4, 1},
};

void capacity_raise_descriptors(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static int check_files(const struct fabric *fabric, const struct options *options, uint32_t workers,
                       struct failure *failure)
{
    const char *provider = fabric->info->fabric_attr->prov_name;
    const struct provider_files *files = NULL;
    struct rlimit limit;
    uint64_t need;

    for (size_t i = 0; i < sizeof(files_of) / sizeof(files_of[0]) && files == NULL; i++) {
        if (strcmp(files_of[i].provider, provider) == 0)
            files = &files_of[i];
    }
    if (files == NULL || getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return 0;
    need = FILES_BASE + (uint64_t)workers * files->worker +
           (uint64_t)options->local_sessions * files->session;
    if (need <= limit.rlim_cur)
        return 0;
    return failure_set(failure, -EMFILE,
                       "-n: %" PRIu32 " sessions of provider %.40s on %" PRIu32
                       " workers need about %" PRIu64 " open files, and the limit is %" PRIu64
                       ": raise it (ulimit -n) or run fewer sessions",
                       options->local_sessions, provider, workers, need, (uint64_t)limit.rlim_cur);
}

static int check_peers(const struct fabric *fabric, const struct options *options,
                       struct failure *failure)
{
    const uint32_t most = capacity_sessions(fabric);
    const uint64_t all = (uint64_t)options->sessions * options->rounds;

    if (most == 0 || all <= most)
        return 0;
    return failure_set(failure, -ENOSPC,
                       "-n: %" PRIu32
                       " sessions%s need one listening endpoint with room for %" PRIu64
                       " peers, and one of provider %.40s has room for %" PRIu32
                       ": run fewer sessions, or several fabtget, or another provider",
                       options->sessions, options->rounds > 1 ? " of each --size" : "", all,
                       fabric->info->fabric_attr->prov_name, most);
}

/* A shm endpoint's region: queue entries of a page and more, as many as it queues receives. */
static uint64_t region_bytes(const struct fabric *fabric)
{
    return (uint64_t)fabric->rx_size * REGION_ENTRY + REGION_BASE;
}

static int check_shared_memory(const struct fabric *fabric, const struct options *options,
                               struct failure *failure)
{
    const uint64_t endpoints =
        (uint64_t)options->local_sessions + (options->role == ROLE_GET ? 1 : 0);
    const uint64_t need = endpoints * region_bytes(fabric);
    struct statvfs info;
    uint64_t left;

    if (!fabric->shm || statvfs(SHM_FOLDER, &info) != 0)
        return 0;
    left = (uint64_t)info.f_bavail * info.f_frsize;
    if (need <= left)
        return 0;
    return failure_set(failure, -ENOSPC,
                       "-n: %" PRIu64 " endpoints of provider shm need about %" PRIu64
                       " MiB of " SHM_FOLDER ", and %" PRIu64
                       " MiB are left: enlarge it, remove what nobody uses, or run fewer sessions",
                       endpoints, need / MIB, left / MIB);
}

/* A number from the environment that libfabric reads there, too. */
static uint64_t setting(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    uint64_t value;

    return text != NULL && parse_number(text, 1, UINT32_MAX, &value) == 0 ? value : otherwise;
}

/* Bytes of memory that are to be had without swapping; UINT64_MAX if the system doesn't say. */
static uint64_t available_memory(void)
{
    FILE *file = fopen("/proc/meminfo", "re");
    uint64_t kib = UINT64_MAX / 1024;
    char line[128];

    if (file == NULL)
        return UINT64_MAX;
    while (fgets(line, sizeof(line), file) != NULL) {
        if (sscanf(line, "MemAvailable: %" SCNu64, &kib) == 1)
            break;
    }
    fclose(file);
    return kib * 1024;
}

/* ofi_rxm allocates buffers by the thousand, touched: two times for an endpoint, and more for the
 * receives of its connections unless their queues are shorter than that, as those of net are. */
static int check_memory(const struct fabric *fabric, const struct options *options,
                        struct failure *failure)
{
    const uint64_t buffer = setting("FI_OFI_RXM_BUFFER_SIZE", 16384) + RXM_HEADERS;
    const bool short_queue = strcmp(fabric->info->fabric_attr->prov_name, "net;ofi_rxm") == 0 ||
                             setting("FI_OFI_RXM_MSG_RX_SIZE", UINT32_MAX) <= RXM_CHUNK / 4;
    const uint64_t chunks = short_queue ? 2 : RXM_CHUNKS;
    const uint64_t need = options->local_sessions * chunks * RXM_CHUNK * buffer;
    const uint64_t left = available_memory();

    if (strstr(fabric->info->fabric_attr->prov_name, ";ofi_rxm") == NULL || need <= left)
        return 0;
    return failure_set(
        failure, -ENOMEM,
        "-n: %" PRIu32 " sessions of provider %.40s need about %" PRIu64
        " MiB of memory, and %" PRIu64 " MiB are left: set FI_OFI_RXM_BUFFER_SIZE=1024 and "
        "FI_OFI_RXM_MSG_RX_SIZE=64 on both sides, or run fewer sessions",
        options->local_sessions, fabric->info->fabric_attr->prov_name, need / MIB, left / MIB);
}

int capacity_check(const struct fabric *fabric, const struct options *options, uint32_t workers,
                   struct failure *failure)
{
    int rc = check_peers(fabric, options, failure);

    if (rc == 0)
        rc = check_files(fabric, options, workers, failure);
    if (rc == 0)
        rc = check_shared_memory(fabric, options, failure);
    if (rc == 0)
        rc = check_memory(fabric, options, failure);
    return rc;
}
