/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Description: each parser of a value on the command line agrees with a second, slower reading of
 * the same grammar: it takes the same texts, gives the same values (computed in wider arithmetic),
 * says -ERANGE or -EINVAL, and leaves its output alone when it fails. */
#include <ctype.h>
#include <errno.h>

#include "fuzz.h"
#include "parse.h"

__extension__ typedef unsigned __int128 wide;

/* Larger than any 64-bit value times any unit; digits beyond it don't matter. */
#define WIDE_MANY ((wide)1 << 100)

/* Decimal digits at `*at`, which moves behind them. False: there are none. */
static bool read_digits(const char **at, wide *value)
{
    const char *start = *at;

    for (*value = 0; **at >= '0' && **at <= '9'; (*at)++) {
        if (*value < WIDE_MANY)
            *value = *value * 10 + (unsigned char)(**at - '0');
    }
    return *at != start;
}

static bool one_of(const char *text, const char *const *list, size_t *index)
{
    for (*index = 0; list[*index] != NULL; (*index)++) {
        if (strcmp(text, list[*index]) == 0)
            return true;
    }
    return false;
}

/* A result is right if text that fits gives the value, and other text an error and no value. Which
 * of the two errors it is matters only where the text as such is good. */
static void check_value(int rc, bool grammatical, bool in_range, uint64_t value, wide expected)
{
    if (grammatical && in_range) {
        FUZZ_CHECK(rc == 0 && value == expected);
        return;
    }
    FUZZ_CHECK(rc == -ERANGE || rc == -EINVAL);
    if (grammatical)
        FUZZ_CHECK(rc == -ERANGE);
    FUZZ_CHECK(fuzz_untouched(&value, sizeof(value)));
}

static void try_number(const char *text, uint64_t low, uint64_t high)
{
    const char *at = text;
    uint64_t value;
    wide expected = 0;
    bool grammatical;
    int rc;

    memset(&value, FUZZ_UNTOUCHED, sizeof(value));
    rc = parse_number(text, low, high, &value);
    grammatical = read_digits(&at, &expected) && *at == '\0';
    check_value(rc, grammatical, expected >= low && expected <= high, value, expected);
}

static bool read_size(const char *text, wide *value)
{
    static const char *const units[] = {"",  "K",  "KB",  "KiB", "M",  "MB",  "MiB",
                                        "G", "GB", "GiB", "T",   "TB", "TiB", NULL};
    static const unsigned shifts[] = {0, 10, 10, 10, 20, 20, 20, 30, 30, 30, 40, 40, 40};
    char lifted[8] = "";
    size_t unit;

    if (!read_digits(&text, value) || strlen(text) >= sizeof(lifted))
        return false;
    strcpy(lifted, text);
    lifted[0] = (char)toupper((unsigned char)lifted[0]);
    if (!one_of(lifted, units, &unit))
        return false;
    *value = *value >= WIDE_MANY ? WIDE_MANY : *value << shifts[unit];
    return true;
}

static void try_size(const char *text)
{
    uint64_t value;
    wide expected = 0;
    bool grammatical;
    int rc;

    memset(&value, FUZZ_UNTOUCHED, sizeof(value));
    rc = parse_size(text, &value);
    grammatical = read_size(text, &expected);
    check_value(rc, grammatical, expected <= UINT64_MAX, value, expected);
}

enum { SIZES_ROOM = 20 };

/* The list's sizes: how many, or -1 if it is none or has too many. */
static int read_sizes(char *text, uint64_t high, uint64_t *sizes)
{
    int count = 0;

    for (char *item = text, *comma; item != NULL; item = comma) {
        wide first, last;
        char *dash;

        comma = strchr(item, ',');
        if (comma != NULL)
            *comma++ = '\0';
        dash = strchr(item, '-');
        if (dash != NULL)
            *dash++ = '\0';
        if (!read_size(item, &first) || !read_size(dash == NULL ? item : dash, &last))
            return -1;
        if (first == 0 || last < first || last > high)
            return -1;
        for (; first <= last; first *= 2) {
            if (count == SIZES_ROOM)
                return -1;
            sizes[count++] = (uint64_t)first;
        }
    }
    return count;
}

static void try_sizes(const char *text, uint64_t high)
{
    uint64_t *sizes = malloc(SIZES_ROOM * sizeof(*sizes)), expected[SIZES_ROOM];
    char *copy = strdup(text);
    uint32_t count;
    int rc, many;

    FUZZ_CHECK(sizes != NULL && copy != NULL);
    memset(sizes, FUZZ_UNTOUCHED, SIZES_ROOM * sizeof(*sizes));
    memset(&count, FUZZ_UNTOUCHED, sizeof(count));
    rc = parse_sizes(text, high, sizes, SIZES_ROOM, &count);
    many = strlen(text) < 1024 ? read_sizes(copy, high, expected) : -1;
    if (many < 0) {
        FUZZ_CHECK(rc == -ERANGE || rc == -EINVAL);
        FUZZ_CHECK(fuzz_untouched(&count, sizeof(count)));
        FUZZ_CHECK(fuzz_untouched(sizes, SIZES_ROOM * sizeof(*sizes)));
    } else {
        FUZZ_CHECK(rc == 0 && count == (uint32_t)many && count > 0);
        FUZZ_CHECK(memcmp(sizes, expected, count * sizeof(*sizes)) == 0);
    }
    free(copy);
    free(sizes);
}

/* The value in nanoseconds, rounded down; digits behind the ninth of a fraction don't count. */
static bool read_duration(const char *text, wide *ns)
{
    static const char *const units[] = {"", "s", "ms", "us", "ns", "m", "h", NULL};
    static const uint64_t lengths[] = {1000000000, 1000000000,  1000000,      1000,
                                       1,          60000000000, 3600000000000};
    wide whole, fraction = 0, scale = 1;
    size_t unit;

    if (!read_digits(&text, &whole))
        return false;
    if (*text == '.') {
        if (!isdigit((unsigned char)*++text))
            return false;
        for (; isdigit((unsigned char)*text); text++) {
            if (scale < 1000000000) {
                scale *= 10;
                fraction = fraction * 10 + (unsigned char)(*text - '0');
            }
        }
    }
    if (!one_of(text, units, &unit))
        return false;
    *ns = whole > UINT64_MAX ? WIDE_MANY : whole * lengths[unit] + fraction * lengths[unit] / scale;
    return true;
}

static void try_duration(const char *text)
{
    uint64_t value;
    wide expected = 0;
    bool grammatical;
    int rc;

    memset(&value, FUZZ_UNTOUCHED, sizeof(value));
    rc = parse_duration(text, &value);
    grammatical = read_duration(text, &expected);
    check_value(rc, grammatical, expected <= UINT64_MAX, value, expected);
}

static void try_token(const char *text)
{
    static const char digits[] = "0123456789abcdef";
    const size_t len = strlen(text);
    uint64_t token[2];
    uint8_t bytes[16];
    size_t hex = 0;
    int rc;

    memset(token, FUZZ_UNTOUCHED, sizeof(token));
    rc = parse_token(text, token);
    while (isxdigit((unsigned char)text[hex]))
        hex++;
    if (len != 32 || hex != 32) {
        FUZZ_CHECK(rc == -EINVAL && fuzz_untouched(token, sizeof(token)));
        return;
    }
    FUZZ_CHECK(rc == 0);
    memcpy(bytes, token, sizeof(bytes));
    for (size_t i = 0; i < 16; i++) {
        FUZZ_CHECK(digits[bytes[i] >> 4] == tolower((unsigned char)text[2 * i]));
        FUZZ_CHECK(digits[bytes[i] & 15] == tolower((unsigned char)text[2 * i + 1]));
    }
}

static void skip_blanks(const char **at)
{
    *at += strspn(*at, " \t");
}

/* The list's processors: how many, or -1 if it is none or has too many. */
static int read_cpus(const char *text, unsigned *cpus)
{
    int count = 0;

    for (;;) {
        wide first, last;

        skip_blanks(&text);
        if (!read_digits(&text, &first))
            return -1;
        last = first;
        skip_blanks(&text);
        if (*text == '-') {
            text++;
            skip_blanks(&text);
            if (!read_digits(&text, &last))
                return -1;
            skip_blanks(&text);
        }
        if (last < first || last >= CPU_SETSIZE)
            return -1;
        for (; first <= last; first++) {
            if (count == PARSE_CPUS_MAX)
                return -1;
            cpus[count++] = (unsigned)first;
        }
        if (*text == '\0')
            return count;
        if (*text++ != ',')
            return -1;
    }
}

static void try_cpus(const char *text)
{
    struct cpu_list *list = malloc(sizeof(*list));
    unsigned expected[PARSE_CPUS_MAX];
    int rc, many;

    FUZZ_CHECK(list != NULL);
    memset(list, FUZZ_UNTOUCHED, sizeof(*list));
    rc = parse_cpus(text, list);
    many = read_cpus(text, expected);
    if (many < 0) {
        FUZZ_CHECK(rc == -ERANGE || rc == -EINVAL);
        FUZZ_CHECK(fuzz_untouched(list, sizeof(*list)));
    } else {
        FUZZ_CHECK(rc == 0 && list->count == (unsigned)many && many > 0);
        FUZZ_CHECK(memcmp(list->cpu, expected, list->count * sizeof(list->cpu[0])) == 0);
    }
    free(list);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {data, size};
    const uint8_t which = fuzz_take8(&input);
    uint64_t low, high;
    char *text;

    switch (which % 6) {
    case 0:
        low = fuzz_take_number(&input);
        high = fuzz_take_number(&input);
        text = fuzz_text(input.at, input.left);
        try_number(text, low, high);
        break;
    case 1:
        text = fuzz_text(input.at, input.left);
        try_size(text);
        break;
    case 2:
        high = fuzz_take_number(&input) / 2; /* doubling must not overflow */
        text = fuzz_text(input.at, input.left);
        try_sizes(text, high);
        break;
    case 3:
        text = fuzz_text(input.at, input.left);
        try_duration(text);
        break;
    case 4:
        text = fuzz_text(input.at, input.left);
        try_token(text);
        break;
    default:
        text = fuzz_text(input.at, input.left);
        try_cpus(text);
        break;
    }
    free(text);
    return 0;
}
