/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What every unit test needs: cmocka with the headers it wants first, a random generator whose
 * seed is fixed (so that a failure can be seen again), and checks of a failure's text. */
#ifndef FABT_TEST_HARNESS_H
#define FABT_TEST_HARNESS_H

/* cmocka.h wants these first, in this order. */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "failure.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* splitmix64: short, good enough to disturb things, the same everywhere. */
struct dice {
    uint64_t state;
};

static inline uint64_t dice_next(struct dice *dice)
{
    uint64_t z = dice->state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* 0 to n - 1. */
static inline uint32_t dice_below(struct dice *dice, uint32_t n)
{
    return (uint32_t)(dice_next(dice) % n);
}

/* True in `percent` of 100 cases. */
static inline bool dice_chance(struct dice *dice, uint32_t percent)
{
    return dice_below(dice, 100) < percent;
}

static inline void dice_fill(struct dice *dice, void *data, size_t len)
{
    uint8_t *bytes = data;

    for (size_t i = 0; i < len; i++)
        bytes[i] = (uint8_t)dice_next(dice);
}

/* The text must contain the word; say both if it doesn't. */
static inline void assert_says(const char *text, const char *word)
{
    if (strstr(text, word) == NULL)
        fail_msg("'%s' does not say '%s'", text, word);
}

/* Memory of exactly `len` bytes with this content: a sanitizer sees any access beyond it. */
static inline uint8_t *exact_copy(const void *data, size_t len)
{
    uint8_t *copy = malloc(len == 0 ? 1 : len);

    assert_non_null(copy);
    if (len > 0)
        memcpy(copy, data, len);
    return copy;
}

#endif
