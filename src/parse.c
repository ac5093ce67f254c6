/* SPDX-License-Identifier: BSD-3-Clause */
#include "parse.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "clock.h"

/* Read decimal digits; `*at` moves behind them. */
static int read_digits(const char **at, uint64_t *value)
{
    uint64_t v = 0;
    const char *in = *at;

    if (!isdigit((unsigned char)*in))
        return -EINVAL;
    for (; isdigit((unsigned char)*in); in++) {
        if (__builtin_mul_overflow(v, UINT64_C(10), &v) ||
            __builtin_add_overflow(v, (uint64_t)(*in - '0'), &v))
            return -ERANGE;
    }
    *at = in;
    *value = v;
    return 0;
}

int parse_number(const char *text, uint64_t low, uint64_t high, uint64_t *value)
{
    uint64_t v;
    const int rc = read_digits(&text, &v);

    if (rc != 0)
        return rc;
    if (*text != '\0')
        return -EINVAL;
    if (v < low || v > high)
        return -ERANGE;
    *value = v;
    return 0;
}

int parse_size(const char *text, uint64_t *bytes)
{
    static const char suffixes[] = "KMGT";
    uint64_t v;
    int rc = read_digits(&text, &v);

    if (rc != 0)
        return rc;
    if (*text != '\0') {
        const char *suffix = strchr(suffixes, toupper((unsigned char)*text));

        if (suffix == NULL)
            return -EINVAL;
        text++;
        if (strcmp(text, "") != 0 && strcmp(text, "B") != 0 && strcmp(text, "iB") != 0)
            return -EINVAL;
        if (__builtin_mul_overflow(v, UINT64_C(1) << (10 * (suffix - suffixes + 1)), &v))
            return -ERANGE;
    }
    *bytes = v;
    return 0;
}

int parse_sizes(const char *text, uint64_t high, uint64_t *sizes, uint32_t room, uint32_t *count)
{
    char copy[1024];
    uint64_t parsed[PARSE_SIZES_MAX];
    uint32_t n = 0;
    char *next = copy, *item;

    if (strlen(text) >= sizeof(copy) || room > PARSE_SIZES_MAX)
        return -ERANGE;
    strcpy(copy, text);
    while ((item = strsep(&next, ",")) != NULL) {
        char *dash = strchr(item, '-');
        uint64_t first, last;
        int rc;

        if (dash != NULL)
            *dash = '\0';
        rc = parse_size(item, &first);
        last = first;
        if (rc == 0 && dash != NULL)
            rc = parse_size(dash + 1, &last);
        if (rc != 0)
            return rc;
        if (first == 0 || last > high)
            return -ERANGE;
        if (last < first)
            return -EINVAL;
        for (uint64_t size = first; size <= last; size *= 2) {
            if (n == room)
                return -ERANGE;
            parsed[n++] = size;
            if (size > last / 2)
                break; /* doubled it would be too large, or wrap */
        }
    }
    memcpy(sizes, parsed, n * sizeof(parsed[0]));
    *count = n;
    return 0;
}

/* Nanoseconds in a unit of time, 0 if it is none. */
static uint64_t unit_ns(const char *unit)
{
    static const struct {
        const char *name;
        uint64_t ns;
    } units[] = {
        {"", NS_PER_S},      {"s", NS_PER_S},      {"ms", NS_PER_MS},      {"us", NS_PER_US},
        {"ns", UINT64_C(1)}, {"m", 60 * NS_PER_S}, {"h", 3600 * NS_PER_S},
    };

    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        if (strcmp(unit, units[i].name) == 0)
            return units[i].ns;
    }
    return 0;
}

int parse_duration(const char *text, uint64_t *ns)
{
    const char *in = text;
    uint64_t whole, fraction = 0, scale = 1, unit, v;
    int rc = read_digits(&in, &whole);

    if (rc != 0)
        return rc;
    if (*in == '.') {
        in++;
        if (!isdigit((unsigned char)*in))
            return -EINVAL;
        for (; isdigit((unsigned char)*in); in++) {
            if (scale < NS_PER_S) {
                scale *= 10;
                fraction = fraction * 10 + (uint64_t)(*in - '0');
            }
        }
    }
    unit = unit_ns(in);
    if (unit == 0)
        return -EINVAL;
    if (__builtin_mul_overflow(whole, unit, &v) ||
        __builtin_add_overflow(v, fraction * (unit / scale) + fraction * (unit % scale) / scale,
                               &v))
        return -ERANGE;
    *ns = v;
    return 0;
}

int parse_token(const char *text, uint64_t token[2])
{
    uint8_t bytes[16];

    for (size_t i = 0; i < 32; i++) {
        const char c = text[i];
        unsigned v;

        if (c >= '0' && c <= '9')
            v = (unsigned)(c - '0');
        else if (tolower((unsigned char)c) >= 'a' && tolower((unsigned char)c) <= 'f')
            v = (unsigned)(tolower((unsigned char)c) - 'a') + 10;
        else
            return -EINVAL;
        bytes[i / 2] = (uint8_t)(i % 2 == 0 ? v << 4 : bytes[i / 2] | v);
    }
    if (text[32] != '\0')
        return -EINVAL;
    memcpy(token, bytes, sizeof(bytes));
    return 0;
}

static void skip_blanks(const char **at)
{
    while (**at == ' ' || **at == '\t')
        (*at)++;
}

int parse_cpus(const char *text, struct cpu_list *cpus)
{
    struct cpu_list list = {.count = 0};

    for (;;) {
        uint64_t first, last;
        int rc;

        skip_blanks(&text);
        rc = read_digits(&text, &first);
        if (rc != 0)
            return rc;
        last = first;
        skip_blanks(&text);
        if (*text == '-') {
            text++;
            skip_blanks(&text);
            rc = read_digits(&text, &last);
            if (rc != 0)
                return rc;
            skip_blanks(&text);
        }
        if (last < first)
            return -EINVAL;
        if (last - first >= PARSE_CPUS_MAX - list.count || last >= CPU_SETSIZE)
            return -ERANGE;
        for (uint64_t cpu = first; cpu <= last; cpu++)
            list.cpu[list.count++] = (unsigned)cpu;
        if (*text == '\0')
            break;
        if (*text != ',')
            return -EINVAL;
        text++;
    }
    *cpus = list;
    return 0;
}
