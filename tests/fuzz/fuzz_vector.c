/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Description: wire_decode_vector takes messages of 8 + 24k bytes with at most 12 and at most k
 * segments, none of them empty, whose ends and whose sum fit into 64 bits, and nothing else; the
 * total is the sum; what it read is encoded to the same bytes again. */
#include <errno.h>

#include "message.h"

__extension__ typedef unsigned __int128 wide;

/* What PROTOCOL says, in wider arithmetic. */
static bool acceptable(const uint8_t *bytes, size_t len, wide *total)
{
    uint32_t count;

    *total = 0;
    if (len < 8 || (len - 8) % 24 != 0)
        return false;
    count = message_u32(bytes);
    if (count > 12 || count > (len - 8) / 24)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        const uint8_t *at = bytes + 8 + 24 * i;
        const uint64_t length = message_u64(at + 8);

        if (length == 0 || (wide)message_u64(at) + length > UINT64_MAX)
            return false;
        *total += length;
    }
    return *total <= UINT64_MAX;
}

static void check_message(const uint8_t *bytes, const struct wire_vector *message)
{
    const size_t used = WIRE_VECTOR_HEAD + (size_t)message->count * WIRE_SEGMENT_SIZE;
    uint8_t *encoded = malloc(used);
    uint8_t most[WIRE_VECTOR_MAX];
    struct failure failure = {0};
    struct wire_vector second;

    FUZZ_CHECK(encoded != NULL);
    FUZZ_CHECK(message->count == message_u32(bytes));
    for (uint32_t i = 0; i < message->count; i++) {
        const uint8_t *at = bytes + 8 + 24 * i;

        FUZZ_CHECK(message->segments[i].addr == message_u64(at));
        FUZZ_CHECK(message->segments[i].len == message_u64(at + 8));
        FUZZ_CHECK(message->segments[i].key == message_u64(at + 16));
    }
    FUZZ_CHECK(wire_encode_vector(message, most) == used);
    FUZZ_CHECK(wire_encode_vector(message, encoded) == used); /* needs no more than it says */
    FUZZ_CHECK(memcmp(encoded, bytes, 4) == 0 && message_u32(encoded + 4) == 0);
    FUZZ_CHECK(memcmp(encoded + 8, bytes + 8, used - 8) == 0);
    FUZZ_CHECK(wire_decode_vector(encoded, used, &second, &failure) == 0);
    FUZZ_CHECK(second.count == message->count && second.total == message->total);
    FUZZ_CHECK(
        memcmp(second.segments, message->segments, second.count * sizeof(second.segments[0])) == 0);
    free(encoded);
}

/* Half of the inputs are built from segments, the others are the message's bytes themselves. */
static uint8_t *build(struct fuzz_input *input, size_t *len)
{
    const uint8_t way = fuzz_take8(input);
    uint8_t bytes[8 + 24 * 16 + 24] = {0};
    uint32_t room, count;

    if (way % 2 == 1) {
        *len = input->left;
        return fuzz_exact(input->at, input->left);
    }
    room = way / 2 % 16;
    count = room + (way >= 0xf0);
    memcpy(bytes, &count, sizeof(count));
    for (uint32_t i = 0; i < room; i++) {
        const uint64_t segment[3] = {fuzz_take_number(input), fuzz_take_number(input),
                                     fuzz_take8(input)};

        memcpy(bytes + 8 + 24 * i, segment, sizeof(segment));
    }
    *len = 8 + 24 * room + (fuzz_take8(input) >= 0xf8);
    return fuzz_exact(bytes, *len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {data, size};
    size_t len;
    uint8_t *bytes = build(&input, &len);
    struct failure failure = {0};
    struct wire_vector message;
    wide total;
    bool right;
    int rc;

    memset(&message, FUZZ_UNTOUCHED, sizeof(message));
    rc = wire_decode_vector(bytes, len, &message, &failure);
    fuzz_check_failure(rc, &failure);
    right = acceptable(bytes, len, &total);
    FUZZ_CHECK(rc == (right ? 0 : -EPROTO));
    if (!right) {
        FUZZ_CHECK(fuzz_untouched(&message, sizeof(message)) && !failure.usage);
    } else {
        FUZZ_CHECK((wide)message.total == total);
        check_message(bytes, &message);
    }
    free(bytes);
    return 0;
}
