/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Description: an address survives the way through text; text that is no address is refused with
 * the place of its first error; a published file appears complete or not at all, replaces an older
 * one, is readable as files made here are, and leaves nothing else behind. */
#include "harness.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "address.h"

/* ---- text ---- */

static void format_writes_two_digits_a_byte(void **state)
{
    const struct address address = {.len = 6, .raw = {0x02, 0x00, 0xa2, 0x77, 0x0a, 0xff}};
    const struct address one = {.len = 1, .raw = {0x0f}};
    char text[ADDRESS_TEXT_SIZE];

    (void)state;
    address_format(&address, text);
    assert_string_equal(text, "02:00:a2:77:0a:ff");
    address_format(&one, text);
    assert_string_equal(text, "0f");
}

static void every_length_makes_the_round_trip(void **state)
{
    struct dice dice = {1};

    (void)state;
    for (size_t len = 1; len <= ADDRESS_MAX; len++) {
        struct address out, in = {.len = len};
        struct failure failure = {0};
        char text[ADDRESS_TEXT_SIZE];

        dice_fill(&dice, in.raw, len);
        address_format(&in, text);
        assert_int_equal(strlen(text), 3 * len - 1);
        assert_int_equal(address_parse(text, &out, &failure), 0);
        assert_int_equal(out.len, len);
        assert_memory_equal(out.raw, in.raw, len);
    }
}

static void both_cases_of_digits_are_read(void **state)
{
    struct failure failure = {0};
    struct address address;

    (void)state;
    assert_int_equal(address_parse("aB:Cd:EF", &address, &failure), 0);
    assert_int_equal(address.len, 3);
    assert_memory_equal(address.raw, "\xab\xcd\xef", 3);
}

static void malformed_text_is_refused(void **state)
{
    static const char *const bad[] = {
        "",        ":",        "0",       "02:",     ":02",      "02::03",  "02:0",       "2:3",
        "0 2",     "02 03",    " 02",     "02 ",     "02:03\n",  "02\t:03", "0x02",       "+6: 9",
        "-1:02",   "0g",       "g0",      "02-03",   "02:03:",   "02.03",   "020",        "0203",
        "02:0304", "\xff\x01", "02:\x80", "address", "02:03:zz", "02;03",   "02:03:0x04", "::",
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct address address = {.len = 77};
        struct failure failure = {0};

        if (address_parse(bad[i], &address, &failure) != -EINVAL)
            fail_msg("'%s' was not refused", bad[i]);
        assert_true(failure.usage);
        assert_says(failure.text, "address");
        assert_int_equal(address.len, 77);
    }
}

static void the_refusal_says_where(void **state)
{
    struct address address;
    struct failure digit = {0}, colon = {0};

    (void)state;
    address_parse("02:0x:03", &address, &digit);
    assert_says(digit.text, "character 4");
    address_parse("02:03;04", &address, &colon);
    assert_says(colon.text, "character 6");
}

static void too_long_an_address_is_refused(void **state)
{
    char text[3 * (ADDRESS_MAX + 1) + 1] = "";
    struct address address;
    struct failure failure = {0};

    (void)state;
    for (unsigned i = 0; i <= ADDRESS_MAX; i++)
        strcat(text, i == 0 ? "11" : ":11");
    assert_int_equal(address_parse(text, &address, &failure), -EINVAL);
    assert_says(failure.text, "512");
}

/* ---- publication: each test has a folder of its own ---- */

struct folder {
    char path[64];
    char file[96];
};

static int make_folder(void **state)
{
    struct folder *folder = calloc(1, sizeof(*folder));

    strcpy(folder->path, "/tmp/fabt-address-XXXXXX");
    if (mkdtemp(folder->path) == NULL)
        return -1;
    snprintf(folder->file, sizeof(folder->file), "%s/addr", folder->path);
    *state = folder;
    return 0;
}

static int remove_folder(void **state)
{
    struct folder *folder = *state;
    int rc;

    unlink(folder->file);
    rc = rmdir(folder->path);
    free(folder);
    return rc;
}

static unsigned files_in(const char *path)
{
    DIR *dir = opendir(path);
    unsigned count = 0;
    struct dirent *entry;

    assert_non_null(dir);
    while ((entry = readdir(dir)) != NULL)
        count += entry->d_name[0] != '.' || strlen(entry->d_name) > 2;
    closedir(dir);
    return count;
}

static size_t read_file(const char *path, char *content, size_t size)
{
    const int fd = open(path, O_RDONLY);
    ssize_t n;

    assert_true(fd >= 0);
    n = read(fd, content, size - 1);
    assert_true(n >= 0);
    close(fd);
    content[n] = '\0';
    return (size_t)n;
}

static void publish_writes_text_and_newline(void **state)
{
    const struct folder *folder = *state;
    struct failure failure = {0};
    char content[64];

    assert_int_equal(address_publish(folder->file, "02:00:a2", &failure), 0);
    assert_int_equal(read_file(folder->file, content, sizeof(content)), 9);
    assert_string_equal(content, "02:00:a2\n");
    assert_int_equal(files_in(folder->path), 1);
}

/* A reader that has the old file open goes on reading the old text: it is replaced, not rewritten.
 */
static void publish_replaces_an_existing_file(void **state)
{
    const struct folder *folder = *state;
    struct failure failure = {0};
    char content[64] = "";
    int old;

    assert_int_equal(address_publish(folder->file, "aa:aa:aa:aa", &failure), 0);
    old = open(folder->file, O_RDONLY);
    assert_int_equal(address_publish(folder->file, "bb", &failure), 0);
    assert_int_equal(read(old, content, sizeof(content)), 12);
    close(old);
    assert_string_equal(content, "aa:aa:aa:aa\n");
    read_file(folder->file, content, sizeof(content));
    assert_string_equal(content, "bb\n");
    assert_int_equal(files_in(folder->path), 1);
}

static void publish_keeps_to_the_umask(void **state)
{
    static const mode_t masks[] = {0022, 0077, 0002};
    const struct folder *folder = *state;
    const mode_t before = umask(0);

    for (size_t i = 0; i < COUNT_OF(masks); i++) {
        struct failure failure = {0};
        struct stat stat_;

        umask(masks[i]);
        assert_int_equal(address_publish(folder->file, "01", &failure), 0);
        assert_int_equal(stat(folder->file, &stat_), 0);
        assert_int_equal(stat_.st_mode & 0777, 0666 & ~masks[i]);
        assert_int_equal(umask(masks[i]), masks[i]);
    }
    umask(before);
}

static void publish_says_what_it_can_not_write(void **state)
{
    const struct folder *folder = *state;
    char missing[128];
    struct failure failure = {0}, directory = {0};

    snprintf(missing, sizeof(missing), "%s/no/such/addr", folder->path);
    assert_int_equal(address_publish(missing, "01", &failure), -ENOENT);
    assert_says(failure.text, "--address-file");
    assert_says(failure.text, missing);
    assert_says(failure.text, "folder that you may write to");
    assert_true(address_publish(folder->path, "01", &directory) < 0);
    assert_says(directory.text, folder->path);
    assert_int_equal(files_in(folder->path), 0);
}

/* A disk that is full: the old file stays, and no half a file. */
static void failed_write_leaves_the_old_file(void **state)
{
    const struct folder *folder = *state;
    struct rlimit before, small;
    struct failure failure = {0};
    char text[3 * 64], content[64];
    int rc;

    for (size_t i = 0; i < sizeof(text) - 1; i++)
        text[i] = "11:"[i % 3];
    text[sizeof(text) - 1] = '\0';
    assert_int_equal(address_publish(folder->file, "0a", &failure), 0);
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before);
    small = before;
    small.rlim_cur = 16;
    setrlimit(RLIMIT_FSIZE, &small);
    rc = address_publish(folder->file, text, &failure);
    setrlimit(RLIMIT_FSIZE, &before);
    signal(SIGXFSZ, SIG_DFL);
    assert_int_equal(rc, -EFBIG);
    assert_says(failure.text, folder->file);
    read_file(folder->file, content, sizeof(content));
    assert_string_equal(content, "0a\n");
    assert_int_equal(files_in(folder->path), 1);
}

struct reader {
    const char *path;
    atomic_bool stop;
    unsigned reads;
    unsigned torn;
};

/* Like a peer that polls: whenever it opens the file, the file is one of the two texts. */
static void *read_always(void *argument)
{
    struct reader *reader = argument;

    do {
        char content[ADDRESS_TEXT_SIZE + 1];
        const size_t n = read_file(reader->path, content, sizeof(content));

        reader->reads++;
        if (content[n == 0 ? 0 : n - 1] != '\n' || (n != 3 && n != 3 * ADDRESS_MAX))
            reader->torn++;
    } while (!atomic_load(&reader->stop));
    return NULL;
}

static void readers_never_see_half_a_file(void **state)
{
    const struct folder *folder = *state;
    struct address longest = {.len = ADDRESS_MAX};
    struct reader reader = {.path = folder->file};
    struct failure failure = {0};
    char text[ADDRESS_TEXT_SIZE];
    pthread_t thread;

    address_format(&longest, text);
    assert_int_equal(address_publish(folder->file, "0a", &failure), 0);
    assert_int_equal(pthread_create(&thread, NULL, read_always, &reader), 0);
    for (unsigned i = 0; i < 500; i++)
        assert_int_equal(address_publish(folder->file, i % 2 == 0 ? text : "0a", &failure), 0);
    atomic_store(&reader.stop, true);
    pthread_join(thread, NULL);
    assert_true(reader.reads > 0);
    assert_int_equal(reader.torn, 0);
    assert_int_equal(files_in(folder->path), 1);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(format_writes_two_digits_a_byte),
        cmocka_unit_test(every_length_makes_the_round_trip),
        cmocka_unit_test(both_cases_of_digits_are_read),
        cmocka_unit_test(malformed_text_is_refused),
        cmocka_unit_test(the_refusal_says_where),
        cmocka_unit_test(too_long_an_address_is_refused),
        IN_FOLDER(publish_writes_text_and_newline),
        IN_FOLDER(publish_replaces_an_existing_file),
        IN_FOLDER(publish_keeps_to_the_umask),
        IN_FOLDER(publish_says_what_it_can_not_write),
        IN_FOLDER(failed_write_leaves_the_old_file),
        IN_FOLDER(readers_never_see_half_a_file),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
