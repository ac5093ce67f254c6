/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Description: wire_decode_ack takes exactly what is 516 bytes long with an address of 1 to 512
 * bytes, reads each field from its place, and what it read is encoded to the same message again. */
#include <errno.h>

#include "message.h"

static void check_round_trip(const uint8_t *bytes, const struct wire_ack *message)
{
    uint8_t *encoded = malloc(WIRE_ACK_SIZE), *again = malloc(WIRE_ACK_SIZE);
    struct failure failure = {0};
    struct wire_ack second;

    FUZZ_CHECK(encoded != NULL && again != NULL);
    wire_encode_ack(message, encoded);
    message_check_encoded(encoded, bytes);
    FUZZ_CHECK(wire_decode_ack(encoded, WIRE_ACK_SIZE, &second, &failure) == 0);
    wire_encode_ack(&second, again);
    FUZZ_CHECK(memcmp(encoded, again, WIRE_ACK_SIZE) == 0);
    free(encoded);
    free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t len;
    uint8_t *bytes = message_take(data, size, WIRE_ACK_SIZE, &len);
    struct failure failure = {0};
    struct wire_ack message;
    bool right;
    int rc;

    memset(&message, FUZZ_UNTOUCHED, sizeof(message));
    rc = wire_decode_ack(bytes, len, &message, &failure);
    fuzz_check_failure(rc, &failure);
    right = len == 516 && message_address_fits(bytes);
    FUZZ_CHECK(rc == (right ? 0 : -EPROTO));
    if (!right) {
        FUZZ_CHECK(fuzz_untouched(&message, sizeof(message)) && !failure.usage);
    } else {
        message_check_address(bytes, &message.address, message.extended, &message.extension);
        if (message.extended)
            FUZZ_CHECK(strlen(wire_status_text(message.extension.status)) > 0);
        check_round_trip(bytes, &message);
    }
    free(bytes);
    return 0;
}
