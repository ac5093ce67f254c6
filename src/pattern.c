/* SPDX-License-Identifier: BSD-3-Clause */
#include "pattern.h"

#include <string.h>

/* The pattern many times over: a stretch of STRETCH bytes may start anywhere in the first period,
 * so that long buffers are handled by long memcpy and memcmp calls. */
enum { REPEATS = 52, STRETCH = PATTERN_SIZE * (REPEATS - 1) };

#define P "If this message was received in error then please print it out and shred it."
#define P4 P P P P
#define P16 P4 P4 P4 P4

static const char tile[PATTERN_SIZE * REPEATS + 1] = P16 P16 P16 P4;

_Static_assert(sizeof(P) - 1 == PATTERN_SIZE, "the pattern has 76 bytes");

void pattern_fill(uint8_t *data, size_t len, uint64_t offset)
{
    while (len > 0) {
        const size_t n = len < STRETCH ? len : STRETCH;

        memcpy(data, tile + offset % PATTERN_SIZE, n);
        data += n;
        offset += n;
        len -= n;
    }
}

bool pattern_verify(const uint8_t *data, size_t len, uint64_t offset, size_t *at, uint8_t *expected)
{
    size_t done = 0;

    while (done < len) {
        const size_t n = len - done < STRETCH ? len - done : STRETCH;
        const char *want = tile + (offset + done) % PATTERN_SIZE;

        if (memcmp(data + done, want, n) != 0) {
            size_t i = 0;

            while (data[done + i] == (uint8_t)want[i])
                i++;
            *at = done + i;
            *expected = (uint8_t)want[i];
            return false;
        }
        done += n;
    }
    return true;
}
