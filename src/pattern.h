/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The payload stream: a repetition of one 76-byte pattern. Source and sink of a session. */
#ifndef FABT_PATTERN_H
#define FABT_PATTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PATTERN_SIZE = 76 };

/* Write the stream's bytes from `offset` on. */
void pattern_fill(uint8_t *data, size_t len, uint64_t offset);

/* Compare with the stream's bytes from `offset` on. True: equal. False: `*at` is the index in
 * `data` of the first byte that differs and `*expected` what it should be. */
bool pattern_verify(const uint8_t *data, size_t len, uint64_t offset, size_t *at,
                    uint8_t *expected);

#endif
