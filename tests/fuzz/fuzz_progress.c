/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Description: wire_decode_progress takes exactly what is 16 bytes long, and what it read is
 * encoded to the same bytes again. */
#include <errno.h>

#include "message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t len;
    uint8_t *bytes = message_take(data, size, WIRE_PROGRESS_SIZE, &len);
    uint8_t *encoded = malloc(WIRE_PROGRESS_SIZE);
    struct failure failure = {0};
    struct wire_progress message;
    int rc;

    FUZZ_CHECK(encoded != NULL);
    memset(&message, FUZZ_UNTOUCHED, sizeof(message));
    rc = wire_decode_progress(bytes, len, &message, &failure);
    fuzz_check_failure(rc, &failure);
    FUZZ_CHECK(rc == (len == 16 ? 0 : -EPROTO));
    if (rc != 0) {
        FUZZ_CHECK(fuzz_untouched(&message, sizeof(message)) && !failure.usage);
    } else {
        FUZZ_CHECK(message.filled == message_u64(bytes));
        FUZZ_CHECK(message.leftover == message_u64(bytes + 8));
        wire_encode_progress(&message, encoded);
        FUZZ_CHECK(memcmp(encoded, bytes, 16) == 0);
    }
    free(encoded);
    free(bytes);
    return 0;
}
