/* SPDX-License-Identifier: BSD-3-Clause */
#include "text.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int failure_set(struct failure *f, const char *format, ...)
{
    if (f->text[0] == '\0') {
        va_list args;
        va_start(args, format);
        vsnprintf(f->text, sizeof(f->text), format, args);
        va_end(args);
    }
    return -1;
}

void text_from_address(const uint8_t *addr, size_t len, char *text)
{
    for (size_t i = 0; i < len; i++)
        sprintf(text + 3 * i, "%02x%s", addr[i], i + 1 < len ? ":" : "");
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

int text_to_address(const char *text, uint8_t *addr, size_t size)
{
    size_t n = 0;

    for (const char *p = text;; p += 3) {
        int high = hex_digit(p[0]);
        int low = high < 0 ? -1 : hex_digit(p[1]);
        if (low < 0 || n == size)
            return -1;
        addr[n++] = (uint8_t)(high << 4 | low);
        if (p[2] == '\0')
            return (int)n;
        if (p[2] != ':')
            return -1;
    }
}

int text_publish(const char *path, const char *line, struct failure *f)
{
    char temporary[4096];

    if (path == NULL) {
        if (printf("%s\n", line) < 0 || fflush(stdout) != 0)
            return failure_set(f, "cannot write the address to standard output: %s",
                               strerror(errno));
        return 0;
    }
    /* The same folder, since a rename is atomic only within a file system. */
    if (snprintf(temporary, sizeof(temporary), "%s.%ld", path, (long)getpid()) >=
        (int)sizeof(temporary))
        return failure_set(f, "-a %s: name too long", path);
    FILE *file = fopen(temporary, "w");
    if (file == NULL)
        return failure_set(f, "-a %s: %s", path, strerror(errno));
    bool written = fprintf(file, "%s\n", line) > 0;
    if (fclose(file) != 0 || !written || rename(temporary, path) != 0) {
        failure_set(f, "-a %s: %s", path, strerror(errno));
        unlink(temporary);
        return -1;
    }
    return 0;
}

void text_dump(const char *title, const void *bytes, size_t len)
{
    const uint8_t *p = bytes;

    fprintf(stderr, "%s, %zu bytes\n", title, len);
    for (size_t line = 0; line < len; line += 16) {
        fprintf(stderr, "  %4zu ", line);
        for (size_t i = line; i < line + 16 && i < len; i++)
            fprintf(stderr, "%s%02x", i % 8 == 0 ? "  " : " ", p[i]);
        fputc('\n', stderr);
    }
}

bool text_is_zero(const uint8_t *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (bytes[i] != 0)
            return false;
    return true;
}
