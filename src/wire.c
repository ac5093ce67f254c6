/* SPDX-License-Identifier: BSD-3-Clause */
#include "wire.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

static const char extension_magic[8] = {'F', 'A', 'B', 'T', 'E', 'X', 'T', '1'};

static void put32(uint8_t *at, uint32_t value)
{
    memcpy(at, &value, sizeof(value));
}

static void put64(uint8_t *at, uint64_t value)
{
    memcpy(at, &value, sizeof(value));
}

static uint32_t get32(const uint8_t *at)
{
    uint32_t value;

    memcpy(&value, at, sizeof(value));
    return value;
}

static uint64_t get64(const uint8_t *at)
{
    uint64_t value;

    memcpy(&value, at, sizeof(value));
    return value;
}

static void encode_extension(const struct wire_extension *extension, uint8_t *at)
{
    memset(at, 0, WIRE_EXTENSION_SIZE);
    memcpy(at, extension_magic, sizeof(extension_magic));
    at[8] = WIRE_EXTENSION_VERSION;
    at[9] = extension->workload;
    at[10] = extension->pattern;
    at[11] = extension->status;
    put32(at + 12, extension->depth);
    put64(at + 16, extension->duration_ns);
    put64(at + 24, extension->total_bytes);
    put64(at + 32, extension->size_bytes);
    put64(at + 40, extension->run_id);
    put32(at + 48, extension->session);
    put32(at + 52, extension->pid);
    memcpy(at + 56, &extension->round, sizeof(extension->round));
    memcpy(at + 58, &extension->rounds, sizeof(extension->rounds));
}

static bool decode_extension(const uint8_t *at, struct wire_extension *extension)
{
    if (memcmp(at, extension_magic, sizeof(extension_magic)) != 0)
        return false;
    *extension = (struct wire_extension){
        .version = at[8],
        .workload = at[9],
        .pattern = at[10],
        .status = at[11],
        .depth = get32(at + 12),
        .duration_ns = get64(at + 16),
        .total_bytes = get64(at + 24),
        .size_bytes = get64(at + 32),
        .run_id = get64(at + 40),
        .session = get32(at + 48),
        .pid = get32(at + 52),
    };
    memcpy(&extension->round, at + 56, sizeof(extension->round));
    memcpy(&extension->rounds, at + 58, sizeof(extension->rounds));
    return true;
}

/* addrlen, then 512 bytes of address whose tail may hold the extension block. */
static void encode_address(uint8_t *at, const struct address *address, bool extended,
                           const struct wire_extension *extension)
{
    put32(at, (uint32_t)address->len);
    memset(at + 4, 0, ADDRESS_MAX);
    memcpy(at + 4, address->raw, address->len);
    if (extended && address->len <= WIRE_EXTENSION_ADDRESS_MAX)
        encode_extension(extension, at + 4 + WIRE_EXTENSION_ADDRESS_MAX);
}

static int decode_address(const uint8_t *at, struct address *address, bool *extended,
                          struct wire_extension *extension, struct failure *failure)
{
    const uint32_t len = get32(at);

    if (len == 0 || len > ADDRESS_MAX)
        return failure_set(failure, -EPROTO, "address length %" PRIu32 " is not within 1 to %u",
                           len, ADDRESS_MAX);
    address->len = len;
    memcpy(address->raw, at + 4, len);
    *extended = len <= WIRE_EXTENSION_ADDRESS_MAX &&
                decode_extension(at + 4 + WIRE_EXTENSION_ADDRESS_MAX, extension);
    return 0;
}

static int expect_size(const char *what, size_t len, size_t expected, struct failure *failure)
{
    if (len == expected)
        return 0;
    return failure_set(failure, -EPROTO, "%s of %zu bytes, expected %zu", what, len, expected);
}

void wire_encode_initial(const struct wire_initial *message, uint8_t *bytes)
{
    memset(bytes, 0, WIRE_INITIAL_SIZE);
    put64(bytes, message->nonce[0]);
    put64(bytes + 8, message->nonce[1]);
    put32(bytes + 16, message->nsources);
    put32(bytes + 20, message->id);
    encode_address(bytes + 24, &message->address, message->extended, &message->extension);
}

int wire_decode_initial(const uint8_t *bytes, size_t len, struct wire_initial *message,
                        struct failure *failure)
{
    struct wire_initial m = {.nsources = 0};
    int rc = expect_size("initial message", len, WIRE_INITIAL_SIZE, failure);

    if (rc != 0)
        return rc;
    m.nonce[0] = get64(bytes);
    m.nonce[1] = get64(bytes + 8);
    m.nsources = get32(bytes + 16);
    m.id = get32(bytes + 20);
    rc = decode_address(bytes + 24, &m.address, &m.extended, &m.extension, failure);
    if (rc == 0)
        *message = m;
    return rc;
}

void wire_encode_ack(const struct wire_ack *message, uint8_t *bytes)
{
    encode_address(bytes, &message->address, message->extended, &message->extension);
}

int wire_decode_ack(const uint8_t *bytes, size_t len, struct wire_ack *message,
                    struct failure *failure)
{
    struct wire_ack m = {.extended = false};
    int rc = expect_size("acknowledgement", len, WIRE_ACK_SIZE, failure);

    if (rc == 0)
        rc = decode_address(bytes, &m.address, &m.extended, &m.extension, failure);
    if (rc == 0)
        *message = m;
    return rc;
}

size_t wire_encode_vector(const struct wire_vector *message, uint8_t *bytes)
{
    uint8_t *at = bytes + WIRE_VECTOR_HEAD;

    put32(bytes, message->count);
    put32(bytes + 4, 0);
    for (uint32_t i = 0; i < message->count; i++, at += WIRE_SEGMENT_SIZE) {
        put64(at, message->segments[i].addr);
        put64(at + 8, message->segments[i].len);
        put64(at + 16, message->segments[i].key);
    }
    return (size_t)(at - bytes);
}

int wire_decode_vector(const uint8_t *bytes, size_t len, struct wire_vector *message,
                       struct failure *failure)
{
    struct wire_vector m = {.count = 0};
    size_t room;

    if (len < WIRE_VECTOR_HEAD || (len - WIRE_VECTOR_HEAD) % WIRE_SEGMENT_SIZE != 0)
        return failure_set(failure, -EPROTO,
                           "vector message of %zu bytes, expected 8 + 24 x segments", len);
    room = (len - WIRE_VECTOR_HEAD) / WIRE_SEGMENT_SIZE;
    m.count = get32(bytes);
    if (m.count > WIRE_SEGMENTS_MAX || m.count > room)
        return failure_set(failure, -EPROTO,
                           "vector message of %" PRIu32 " segments, expected at most %zu", m.count,
                           room < WIRE_SEGMENTS_MAX ? room : (size_t)WIRE_SEGMENTS_MAX);
    for (uint32_t i = 0; i < m.count; i++) {
        const uint8_t *at = bytes + WIRE_VECTOR_HEAD + i * WIRE_SEGMENT_SIZE;
        const struct wire_segment s = {get64(at), get64(at + 8), get64(at + 16)};

        if (s.len == 0)
            return failure_set(failure, -EPROTO, "vector segment %" PRIu32 " is empty", i);
        if (s.len > UINT64_MAX - m.total)
            return failure_set(failure, -EPROTO,
                               "vector segments together overflow: %" PRIu64 " and %" PRIu64,
                               m.total, s.len);
        if (s.len > UINT64_MAX - s.addr)
            return failure_set(failure, -EPROTO,
                               "vector segment %" PRIu32 " overflows: address %" PRIu64
                               ", length %" PRIu64,
                               i, s.addr, s.len);
        m.total += s.len;
        m.segments[i] = s;
    }
    *message = m;
    return 0;
}

void wire_encode_progress(const struct wire_progress *message, uint8_t *bytes)
{
    put64(bytes, message->filled);
    put64(bytes + 8, message->leftover);
}

int wire_decode_progress(const uint8_t *bytes, size_t len, struct wire_progress *message,
                         struct failure *failure)
{
    const int rc = expect_size("progress message", len, WIRE_PROGRESS_SIZE, failure);

    if (rc == 0)
        *message = (struct wire_progress){get64(bytes), get64(bytes + 8)};
    return rc;
}

const char *wire_status_text(uint8_t status)
{
    switch (status) {
    case WIRE_ACCEPTED:
        return "accepted";
    case WIRE_REFUSED_SESSIONS:
        return "put's -n differs from get's";
    case WIRE_REFUSED_ID:
        return "session number beyond -n";
    case WIRE_REFUSED_WORKLOAD:
        return "get does not do this workload";
    case WIRE_REFUSED_SIZE:
        return "total, size or depth beyond get's limits";
    case WIRE_REFUSED_VERSION:
        return "get does not know this version of the extension block";
    case WIRE_REFUSED_RESOURCES:
        return "get could not set the session up";
    case WIRE_REFUSED_ROUNDS:
        return "number of rounds beyond get's limit, or unlike that of other puts";
    default:
        return "a reason that this version does not know";
    }
}
