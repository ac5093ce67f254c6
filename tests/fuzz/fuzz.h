/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What every fuzz harness needs. A harness is one function, LLVMFuzzerTestOneInput: libFuzzer calls
 * it with inputs that it invents, replay.c with those of the corpus. It must state what is right
 * for each input, not only survive it; FUZZ_CHECK ends the program where it is wrong. */
#ifndef FABT_FUZZ_H
#define FABT_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "failure.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FUZZ_CHECK(condition)                                                              \
    do {                                                                                   \
        if (!(condition)) {                                                                \
            fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition); \
            abort();                                                                       \
        }                                                                                  \
    } while (0)

/* The input, taken from the front. What is missing at its end reads as zero. */
struct fuzz_input {
    const uint8_t *at;
    size_t left;
};

static inline void fuzz_take(struct fuzz_input *input, void *bytes, size_t len)
{
    const size_t n = len < input->left ? len : input->left;

    memset(bytes, 0, len);
    if (n == 0)
        return;
    memcpy(bytes, input->at, n);
    input->at += n;
    input->left -= n;
}

static inline uint8_t fuzz_take8(struct fuzz_input *input)
{
    uint8_t value;

    fuzz_take(input, &value, sizeof(value));
    return value;
}

static inline uint16_t fuzz_take16(struct fuzz_input *input)
{
    uint16_t value;

    fuzz_take(input, &value, sizeof(value));
    return value;
}

/* A number that is often near a limit: a byte chooses how to read it. */
static inline uint64_t fuzz_take_number(struct fuzz_input *input)
{
    const uint8_t way = fuzz_take8(input);
    uint64_t value;

    switch (way % 6) {
    case 0:
        return way / 6;
    case 1:
        return UINT64_MAX - way / 6;
    case 2:
        return (UINT64_C(1) << (way / 6)) - 1; /* 2^0 - 1 to 2^42 - 1 */
    case 3:
        return UINT64_MAX >> (way / 6);
    case 4:
        return fuzz_take16(input);
    default:
        fuzz_take(input, &value, sizeof(value));
        return value;
    }
}

/* Memory of exactly `len` bytes: the sanitizer sees any access beyond it. */
static inline uint8_t *fuzz_exact(const void *bytes, size_t len)
{
    uint8_t *copy = malloc(len == 0 ? 1 : len);

    FUZZ_CHECK(copy != NULL);
    if (len > 0)
        memcpy(copy, bytes, len);
    return copy;
}

/* The text up to the first NUL or the end, with a NUL, in memory of exactly that size. */
static inline char *fuzz_text(const uint8_t *data, size_t size)
{
    const size_t len = size == 0 ? 0 : strnlen((const char *)data, size);
    char *text = malloc(len + 1);

    FUZZ_CHECK(text != NULL);
    if (len > 0)
        memcpy(text, data, len);
    text[len] = '\0';
    return text;
}

/* A failure is described if, and only if, there is one; in one line. */
static inline void fuzz_check_failure(int rc, const struct failure *failure)
{
    const size_t len = strnlen(failure->text, sizeof(failure->text));

    FUZZ_CHECK(rc <= 0);
    FUZZ_CHECK(failure->code == rc);
    FUZZ_CHECK(len < sizeof(failure->text));
    FUZZ_CHECK((len > 0) == (rc != 0));
    FUZZ_CHECK(!failure->peer_lost);
}

/* Outputs are filled with this before a call, to see whether it touches them. */
enum { FUZZ_UNTOUCHED = 0xa5 };

static inline bool fuzz_untouched(const void *object, size_t size)
{
    const uint8_t *bytes = object;

    for (size_t i = 0; i < size; i++) {
        if (bytes[i] != FUZZ_UNTOUCHED)
            return false;
    }
    return true;
}

#endif
