/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Runs a harness without libFuzzer, with any compiler: replay FILE-OR-FOLDER... gives it each file,
 * and each file of each folder. Fails when there is none. */
#include <dirent.h>
#include <errno.h>
#include <sys/stat.h>

#include "fuzz.h"

/* One file. 1, or 0 and a line on stderr. */
static unsigned replay_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    uint8_t bytes[65536], *exact;
    size_t len;

    if (file == NULL) {
        fprintf(stderr, "replay: %s: %s\n", path, strerror(errno));
        return 0;
    }
    len = fread(bytes, 1, sizeof(bytes), file);
    if (ferror(file) || len == sizeof(bytes)) {
        fprintf(stderr, "replay: %s: unreadable, or not shorter than %zu bytes\n", path,
                sizeof(bytes));
        fclose(file);
        return 0;
    }
    fclose(file);
    exact = fuzz_exact(bytes, len);
    /* Said before: if the harness aborts, this is the input that did it. */
    printf("%s\n", path);
    fflush(stdout);
    LLVMFuzzerTestOneInput(exact, len);
    free(exact);
    return 1;
}

/* All files of a folder. How many, or 0 if one of them could not be read. */
static unsigned replay_folder(const char *path)
{
    DIR *folder = opendir(path);
    const struct dirent *entry;
    unsigned count = 0;

    if (folder == NULL) {
        fprintf(stderr, "replay: %s: %s\n", path, strerror(errno));
        return 0;
    }
    while ((entry = readdir(folder)) != NULL) {
        char name[4096];

        if (entry->d_name[0] == '.')
            continue;
        snprintf(name, sizeof(name), "%s/%s", path, entry->d_name);
        if (replay_file(name) == 0) {
            closedir(folder);
            return 0;
        }
        count++;
    }
    closedir(folder);
    if (count == 0)
        fprintf(stderr, "replay: %s: no inputs\n", path);
    return count;
}

int main(int argc, char **argv)
{
    unsigned total = 0;

    for (int i = 1; i < argc; i++) {
        struct stat about;
        unsigned count;

        count = stat(argv[i], &about) == 0 && S_ISDIR(about.st_mode) ? replay_folder(argv[i])
                                                                     : replay_file(argv[i]);
        if (count == 0)
            return 1;
        total += count;
    }
    if (total == 0) {
        fprintf(stderr, "usage: replay FILE-OR-FOLDER...\n");
        return 2;
    }
    printf("%u inputs\n", total);
    return 0;
}
