/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The messages as PROTOCOL and wire.h describe them, read by hand: what the decoders must agree
 * with. */
#ifndef FABT_FUZZ_MESSAGE_H
#define FABT_FUZZ_MESSAGE_H

#include "fuzz.h"
#include "wire.h"

static inline uint16_t message_u16(const uint8_t *at)
{
    uint16_t value;

    memcpy(&value, at, sizeof(value));
    return value;
}

static inline uint32_t message_u32(const uint8_t *at)
{
    uint32_t value;

    memcpy(&value, at, sizeof(value));
    return value;
}

static inline uint64_t message_u64(const uint8_t *at)
{
    uint64_t value;

    memcpy(&value, at, sizeof(value));
    return value;
}

/* A message of exactly `len` bytes from the input. An even first byte asks for the size that is
 * right, so that most inputs come past the check of it. */
static inline uint8_t *message_take(const uint8_t *data, size_t size, size_t right, size_t *len)
{
    struct fuzz_input input = {data, size};
    uint8_t padded[1024];

    FUZZ_CHECK(right <= sizeof(padded));
    if (fuzz_take8(&input) % 2 == 1) {
        *len = input.left;
        return fuzz_exact(input.at, input.left);
    }
    fuzz_take(&input, padded, right);
    *len = right;
    return fuzz_exact(padded, right);
}

static inline void message_check_extension(const uint8_t *at, const struct wire_extension *e)
{
    FUZZ_CHECK(e->version == at[8] && e->workload == at[9] && e->pattern == at[10] &&
               e->status == at[11]);
    FUZZ_CHECK(e->depth == message_u32(at + 12) && e->duration_ns == message_u64(at + 16));
    FUZZ_CHECK(e->total_bytes == message_u64(at + 24) && e->size_bytes == message_u64(at + 32));
    FUZZ_CHECK(e->run_id == message_u64(at + 40) && e->session == message_u32(at + 48) &&
               e->pid == message_u32(at + 52));
    FUZZ_CHECK(e->round == message_u16(at + 56) && e->rounds == message_u16(at + 58));
}

/* Is the address field at `at` (length, then 512 bytes) acceptable? */
static inline bool message_address_fits(const uint8_t *at)
{
    return message_u32(at) >= 1 && message_u32(at) <= 512;
}

static inline void message_check_address(const uint8_t *at, const struct address *address,
                                         bool extended, const struct wire_extension *extension)
{
    static const struct wire_extension none;
    const bool present = message_u32(at) <= 448 && memcmp(at + 4 + 448, "FABTEXT1", 8) == 0;

    FUZZ_CHECK(address->len == message_u32(at));
    FUZZ_CHECK(memcmp(address->raw, at + 4, address->len) == 0);
    FUZZ_CHECK(extended == present);
    if (present)
        message_check_extension(at + 4 + 448, extension);
    else /* all members; padding follows them */
        FUZZ_CHECK(memcmp(extension, &none, offsetof(struct wire_extension, rounds) + 2) == 0);
}

/* An encoder writes what is in use of the address, the block if there is one, and else zeroes; of
 * version 1 whatever was received. */
static inline void message_check_encoded(const uint8_t *at, const uint8_t *original)
{
    const uint32_t len = message_u32(original);
    const bool present = len <= 448 && memcmp(original + 4 + 448, "FABTEXT1", 8) == 0;

    FUZZ_CHECK(message_u32(at) == len && memcmp(at + 4, original + 4, len) == 0);
    for (uint32_t i = len; i < 512; i++) {
        const uint32_t in_block = i - 448;
        uint8_t expected = 0;

        if (present && i >= 448)
            expected = in_block == 8 ? 1 : in_block < 60 ? original[4 + i] : 0;
        FUZZ_CHECK(at[4 + i] == expected);
    }
}

#endif
