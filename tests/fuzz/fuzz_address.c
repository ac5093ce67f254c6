/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Description: address_parse takes 1 to 512 pairs of hex digits joined by colons and nothing else;
 * formatting what it read gives the same text in lower case. */
#include <ctype.h>
#include <errno.h>

#include "address.h"
#include "fuzz.h"

static bool acceptable(const char *text, size_t len)
{
    if (len % 3 != 2 || (len + 1) / 3 > 512)
        return false;
    for (size_t i = 0; i < len; i++) {
        if (i % 3 == 2 ? text[i] != ':' : !isxdigit((unsigned char)text[i]))
            return false;
    }
    return true;
}

static void check_round_trip(const char *text, size_t len, const struct address *address)
{
    char *formatted = malloc(len + 1);
    struct failure failure = {0};
    struct address again;

    FUZZ_CHECK(formatted != NULL);
    FUZZ_CHECK(address->len == (len + 1) / 3);
    address_format(address, formatted);
    FUZZ_CHECK(strlen(formatted) == len);
    for (size_t i = 0; i < len; i++)
        FUZZ_CHECK(formatted[i] == tolower((unsigned char)text[i]));
    FUZZ_CHECK(address_parse(formatted, &again, &failure) == 0);
    FUZZ_CHECK(again.len == address->len && memcmp(again.raw, address->raw, again.len) == 0);
    free(formatted);
}

/* The first byte: the text itself, or all of it as raw bytes in hex, so that long ones are met. */
static char *build(const uint8_t *data, size_t size)
{
    static const char digits[] = "0123456789abcdefABCDEF";
    char *text;

    if (size == 0 || data[0] % 4 != 0)
        return size == 0 ? fuzz_text(data, 0) : fuzz_text(data + 1, size - 1);
    text = malloc(3 * size);
    FUZZ_CHECK(text != NULL);
    for (size_t i = 1; i < size; i++) {
        text[3 * i - 3] = digits[data[i] / 16];
        text[3 * i - 2] = digits[data[i] % 16];
        text[3 * i - 1] = i + 1 < size ? ':' : '\0';
    }
    if (size == 1)
        text[0] = '\0';
    return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = build(data, size);
    const size_t len = strlen(text);
    struct failure failure = {0};
    struct address address;
    int rc;

    memset(&address, FUZZ_UNTOUCHED, sizeof(address));
    rc = address_parse(text, &address, &failure);
    fuzz_check_failure(rc, &failure);
    FUZZ_CHECK(rc == (acceptable(text, len) ? 0 : -EINVAL));
    FUZZ_CHECK(failure.usage == (rc != 0));
    if (rc != 0)
        FUZZ_CHECK(fuzz_untouched(&address, sizeof(address)));
    else
        check_round_trip(text, len, &address);
    free(text);
    return 0;
}
