/* SPDX-License-Identifier: BSD-3-Clause */

/* As in shm_spare.c: the plain `stat`. */
#undef _FILE_OFFSET_BITS

#include <errno.h>
#include <fcntl.h>
#include <rdma/fabric.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness.h"
#include "shm_spare.h"

enum { REGION_SIZE = 3 * 4096 + 7, PID_OFFSET = 4 };

/* A process id that no process has, so that no region of a real endpoint is in the way. */
#define OWN "4194305:0:0"
#define GONE "4194306:1:2"

static struct address address_of(const char *text)
{
    struct address address = {.len = strlen(text) + 1};

    memcpy(address.raw, text, address.len);
    return address;
}

/* A region in /dev/shm as far as this module looks at it: its owner, and something to tell it by.
 */
static void make_region(const char *name, int pid)
{
    const int fd = shm_open(name, O_RDWR | O_CREAT | O_EXCL, S_IRUSR | S_IWUSR);

    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, REGION_SIZE), 0);
    assert_int_equal(pwrite(fd, &pid, sizeof(pid), PID_OFFSET), sizeof(pid));
    assert_int_equal(pwrite(fd, "end", 3, REGION_SIZE - 3), 3);
    close(fd);
}

static int refused(const char *name)
{
    errno = 0;
    return shm_open(name, O_RDWR, 0) == -1 ? errno : 0;
}

static void a_missing_region_is_missing_at_first(void **state)
{
    struct stat info;

    (void)state;
    assert_int_equal(refused(GONE), ENOENT);
    assert_int_equal(stat("/dev/shm/" GONE, &info), -1);
    assert_int_equal(errno, ENOENT);
}

static void nothing_is_taken_from_what_is_no_own_region(void **state)
{
    const struct address foreign = address_of("fi_shm://" OWN);
    const struct address odd = address_of("fi_shm://a:b");
    const struct address other = address_of("127.0.0.1");

    (void)state;
    make_region(OWN, getpid() + 1);
    shm_spare_prepare(&foreign);
    shm_spare_prepare(&odd);
    shm_spare_prepare(&other);
    shm_unlink(OWN);
    assert_int_equal(refused(GONE), ENOENT);
}

static void a_missing_region_is_replaced_by_a_copy(void **state)
{
    const struct address own = address_of("fi_shm://" OWN);
    struct stat info;
    char tail[3];
    int pid = 0;
    int fd;

    (void)state;
    if (FI_VERSION_GE(fi_version(), FI_VERSION(1, 18)))
        skip();
    make_region(OWN, getpid());
    shm_spare_prepare(&own);
    shm_unlink(OWN);
    fd = shm_open(GONE, O_RDWR, 0);
    assert_true(fd >= 0);
    assert_int_equal(stat("/dev/shm/" GONE, &info), 0);
    assert_int_equal(info.st_size, REGION_SIZE);
    assert_int_equal(pread(fd, tail, sizeof(tail), REGION_SIZE - 3), sizeof(tail));
    assert_memory_equal(tail, "end", sizeof(tail));
    /* It must seem to be the missing peer's: libfabric looks. */
    assert_int_equal(pread(fd, &pid, sizeof(pid), PID_OFFSET), sizeof(pid));
    assert_int_equal(pid, 4194306);
    close(fd);
}

static void other_names_are_left_alone(void **state)
{
    static const char *const names[] = {
        "fabt-no-such-thing", "1:2", "1:2:3:4", "1::2", ":1:2", "1:2:", "1:2:x", ""};
    struct stat info;

    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        assert_true(refused(names[i]) != 0);
    assert_int_equal(stat("/dev/shm/fabt-no-such-thing", &info), -1);
    assert_int_equal(stat("/no/such/4194306:1:2", &info), -1);
}

static void a_region_that_is_there_is_the_real_one(void **state)
{
    struct stat info;
    int fd;

    (void)state;
    fd = shm_open(GONE, O_RDWR | O_CREAT | O_EXCL, S_IRUSR | S_IWUSR);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, 5), 0);
    assert_int_equal(stat("/dev/shm/" GONE, &info), 0);
    assert_int_equal(info.st_size, 5);
    close(fd);
    shm_unlink(GONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_missing_region_is_missing_at_first),
        cmocka_unit_test(nothing_is_taken_from_what_is_no_own_region),
        cmocka_unit_test(a_missing_region_is_replaced_by_a_copy),
        cmocka_unit_test(other_names_are_left_alone),
        cmocka_unit_test(a_region_that_is_there_is_the_real_one),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
