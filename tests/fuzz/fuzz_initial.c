/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Description: wire_decode_initial takes exactly what is 544 bytes long with an address of 1 to 512
 * bytes, reads each field from its place, and what it read is encoded to the same message again. */
#include <errno.h>

#include "message.h"

static void check_round_trip(const uint8_t *bytes, const struct wire_initial *message)
{
    uint8_t *encoded = malloc(WIRE_INITIAL_SIZE), *again = malloc(WIRE_INITIAL_SIZE);
    struct failure failure = {0};
    struct wire_initial second;

    FUZZ_CHECK(encoded != NULL && again != NULL);
    wire_encode_initial(message, encoded);
    FUZZ_CHECK(memcmp(encoded, bytes, 24) == 0);
    message_check_encoded(encoded + 24, bytes + 24);
    FUZZ_CHECK(message_u32(encoded + 540) == 0);
    FUZZ_CHECK(wire_decode_initial(encoded, WIRE_INITIAL_SIZE, &second, &failure) == 0);
    wire_encode_initial(&second, again);
    FUZZ_CHECK(memcmp(encoded, again, WIRE_INITIAL_SIZE) == 0);
    free(encoded);
    free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t len;
    uint8_t *bytes = message_take(data, size, WIRE_INITIAL_SIZE, &len);
    struct failure failure = {0};
    struct wire_initial message;
    bool right;
    int rc;

    memset(&message, FUZZ_UNTOUCHED, sizeof(message));
    rc = wire_decode_initial(bytes, len, &message, &failure);
    fuzz_check_failure(rc, &failure);
    right = len == 544 && message_address_fits(bytes + 24);
    FUZZ_CHECK(rc == (right ? 0 : -EPROTO));
    if (!right) {
        FUZZ_CHECK(fuzz_untouched(&message, sizeof(message)) && !failure.usage);
    } else {
        FUZZ_CHECK(message.nonce[0] == message_u64(bytes));
        FUZZ_CHECK(message.nonce[1] == message_u64(bytes + 8));
        FUZZ_CHECK(message.nsources == message_u32(bytes + 16));
        FUZZ_CHECK(message.id == message_u32(bytes + 20));
        message_check_address(bytes + 24, &message.address, message.extended, &message.extension);
        check_round_trip(bytes, &message);
    }
    free(bytes);
    return 0;
}
