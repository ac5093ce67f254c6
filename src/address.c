/* SPDX-License-Identifier: BSD-3-Clause */
#include "address.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

void address_format(const struct address *address, char *text)
{
    static const char digits[] = "0123456789abcdef";
    char *out = text;

    for (size_t i = 0; i < address->len; i++) {
        if (i > 0)
            *out++ = ':';
        *out++ = digits[address->raw[i] >> 4];
        *out++ = digits[address->raw[i] & 15];
    }
    *out = '\0';
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

int address_parse(const char *text, struct address *address, struct failure *failure)
{
    struct address parsed = {.len = 0};
    const char *in = text;

    if (*in == '\0')
        return failure_set_usage(failure,
                                 "the address is empty: give the line that fabtget printed");
    for (;;) {
        const int high = hex_value(in[0]);
        const int low = high < 0 ? -1 : hex_value(in[1]);

        if (low < 0)
            return failure_set_usage(
                failure,
                "address: expected two hex digits at character %zu of '%.40s': "
                "give the line that fabtget printed",
                (size_t)(in - text) + 1, text);
        if (parsed.len == ADDRESS_MAX)
            return failure_set_usage(failure, "address: more than %u bytes", ADDRESS_MAX);
        parsed.raw[parsed.len++] = (uint8_t)(high * 16 + low);
        in += 2;
        if (*in == '\0')
            break;
        if (*in != ':')
            return failure_set_usage(failure, "address: expected ':' at character %zu of '%.40s'",
                                     (size_t)(in - text) + 1, text);
        in++;
    }
    *address = parsed;
    return 0;
}

static int write_all(int fd, const char *data, size_t len)
{
    while (len > 0) {
        const ssize_t n = write(fd, data, len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        data += n;
        len -= (size_t)n;
    }
    return 0;
}

/* Make a file beside `path` that nobody else has; its name goes to `*name`, to be freed. */
static int make_temporary(const char *path, char **name)
{
    for (unsigned attempt = 0; attempt < 100; attempt++) {
        uint32_t random = 0;
        int fd;

        if (getrandom(&random, sizeof(random), GRND_NONBLOCK) < 0)
            random = attempt;
        if (asprintf(name, "%s.%d.%08x", path, (int)getpid(), random) < 0) {
            *name = NULL;
            return -ENOMEM;
        }
        fd = open(*name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd >= 0)
            return fd;
        if (errno != EEXIST)
            return -errno;
        free(*name);
        *name = NULL;
    }
    return -EEXIST;
}

int address_publish(const char *path, const char *text, struct failure *failure)
{
    char *temporary = NULL;
    const int fd = make_temporary(path, &temporary);
    int rc = fd < 0 ? fd : write_all(fd, text, strlen(text));

    if (rc == 0)
        rc = write_all(fd, "\n", 1);
    if (fd >= 0 && close(fd) != 0 && rc == 0)
        rc = -errno;
    if (rc == 0 && rename(temporary, path) != 0)
        rc = -errno;
    if (rc != 0) {
        if (fd >= 0)
            unlink(temporary);
        failure_set(
            failure, rc,
            "-a/--address-file: cannot write '%s': %s; name a file in a folder that you may write "
            "to",
            path, strerror(-rc));
    }
    free(temporary);
    return rc;
}
