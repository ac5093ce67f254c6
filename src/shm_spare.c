/* SPDX-License-Identifier: BSD-3-Clause */

/* With it the C library's header would call our `stat` by another name than libfabric does. */
#undef _FILE_OFFSET_BITS

#include "shm_spare.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <rdma/fabric.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#define PREFIX "fi_shm://"
#define FOLDER "/dev/shm/"

/* The region's first fields in shm's layout up to 1.17: version, flags, then the owner's process
 * id. */
enum { PID_OFFSET = 4 };

typedef int (*shm_open_function)(const char *, int, mode_t);
typedef int (*stat_function)(const char *, struct stat *);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_int spare = -1; /* the unused region's copy; open until the process ends */

/* The next function of that name behind ours. dlsym gives an object pointer, which C can't convert.
 */
static void find_next(const char *name, void *function)
{
    void *found = dlsym(RTLD_NEXT, name);

    memcpy(function, &found, sizeof(found));
}

/* Is it the name of an endpoint's region: three numbers, joined by colons? */
static bool names_region(const char *name)
{
    unsigned colons = 0;

    for (const char *c = name; *c != '\0'; c++) {
        if (*c == ':' && c != name && c[-1] != ':')
            colons++;
        else if (*c < '0' || *c > '9')
            return false;
    }
    return colons == 2 && name[strlen(name) - 1] != ':';
}

/* Copy the region behind a descriptor and make `pid` its owner. Returns a descriptor or -1. */
static int copy_region(int from, int32_t pid)
{
    const int to = memfd_create("fabt-spare-region", MFD_CLOEXEC);
    struct stat info;
    bool good = to >= 0 && fstat(from, &info) == 0 && info.st_size > 0;

    for (off_t done = 0; good && done < info.st_size;)
        good = sendfile(to, from, &done, (size_t)(info.st_size - done)) > 0;
    good = good && pwrite(to, &pid, sizeof(pid), PID_OFFSET) == sizeof(pid);
    if (to >= 0 && !good)
        close(to);
    return good ? to : -1;
}

/* Copy an own region, if it looks as expected. */
static int copy_own(const char *name)
{
    const int from = shm_open(name, O_RDONLY | O_CLOEXEC, 0);
    int32_t pid = 0;
    int to = -1;

    if (from < 0)
        return -1;
    if (pread(from, &pid, sizeof(pid), PID_OFFSET) == sizeof(pid) && pid == getpid())
        to = copy_region(from, pid);
    close(from);
    return to;
}

/* A region in the place of that of a peer which is gone. libfabric compares its owner with the
 * process id in the peer's message, and with the wrong one it uses the mapping after taking it
 * away. */
static int replace_region(const char *name)
{
    const int from = atomic_load(&spare);
    const long pid = strtol(name, NULL, 10);
    const int fd = from < 0 || pid <= 0 || pid > INT32_MAX ? -1 : copy_region(from, (int32_t)pid);

    if (fd < 0)
        errno = ENOENT;
    return fd;
}

void shm_spare_prepare(const struct address *address)
{
    char name[ADDRESS_MAX + 1];

    if (FI_VERSION_GE(fi_version(), FI_VERSION(1, 18)) || address->len <= strlen(PREFIX) ||
        memcmp(address->raw, PREFIX, strlen(PREFIX)) != 0)
        return;
    snprintf(name, sizeof(name), "%.*s", (int)(address->len - strlen(PREFIX)),
             (const char *)address->raw + strlen(PREFIX));
    if (!names_region(name))
        return;
    pthread_mutex_lock(&lock);
    if (atomic_load(&spare) < 0)
        atomic_store(&spare, copy_own(name));
    pthread_mutex_unlock(&lock);
}

/* What libfabric calls to map a peer's region. */
int shm_open(const char *name, int flags, mode_t mode)
{
    shm_open_function next = NULL;
    int fd;

    find_next("shm_open", &next);
    fd = next(name, flags, mode);
    if (fd < 0 && errno == ENOENT && (flags & O_CREAT) == 0 && names_region(name))
        fd = replace_region(name);
    return fd;
}

/* What libfabric calls next, to see how large the region is. */
int stat(const char *restrict path, struct stat *restrict info)
{
    const size_t folder = strlen(FOLDER);
    stat_function next = NULL;
    int rc;

    find_next("stat", &next);
    rc = next(path, info);
    if (rc != 0 && errno == ENOENT && strncmp(path, FOLDER, folder) == 0 &&
        names_region(path + folder)) {
        const int copy = atomic_load(&spare);

        if (copy >= 0)
            rc = fstat(copy, info);
        else
            errno = ENOENT;
    }
    return rc;
}
