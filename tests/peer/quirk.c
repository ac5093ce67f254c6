/* SPDX-License-Identifier: BSD-3-Clause */
#include "quirk.h"

#include "wire.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

static void put_u32(uint8_t *msg, size_t offset, uint32_t value)
{
    memcpy(msg + offset, &value, sizeof(value));
}

static void put_u64(uint8_t *msg, size_t offset, uint64_t value)
{
    memcpy(msg + offset, &value, sizeof(value));
}

static uint64_t get_u64(const uint8_t *msg, size_t offset)
{
    uint64_t value;

    memcpy(&value, msg + offset, sizeof(value));
    return value;
}

static void garble(uint8_t *msg, size_t len)
{
    for (size_t i = 0; i < len; i++)
        msg[i] = (uint8_t)(0xa5 ^ (i * 37));
}

static void garble_initial(uint8_t *msg)
{
    garble(msg, sizeof(struct wire_initial));
}

static void garble_ack(uint8_t *msg)
{
    garble(msg, sizeof(struct wire_ack));
}

static void garble_vector(uint8_t *msg)
{
    garble(msg, sizeof(struct wire_vector));
}

static void garble_progress(uint8_t *msg)
{
    garble(msg, sizeof(struct wire_progress));
}

static void other_nsources(uint8_t *msg)
{
    put_u32(msg, offsetof(struct wire_initial, nsources), 63);
}

static void zero_nsources(uint8_t *msg)
{
    put_u32(msg, offsetof(struct wire_initial, nsources), 0);
}

static void big_id(uint8_t *msg)
{
    put_u32(msg, offsetof(struct wire_initial, id), UINT32_MAX);
}

static void long_address(uint8_t *msg)
{
    put_u32(msg, offsetof(struct wire_initial, addrlen), WIRE_ADDR_MAX + 1);
}

static void endless_address(uint8_t *msg)
{
    put_u32(msg, offsetof(struct wire_initial, addrlen), UINT32_MAX);
}

static void no_address(uint8_t *msg)
{
    put_u32(msg, offsetof(struct wire_initial, addrlen), 0);
}

static void ack_long_address(uint8_t *msg)
{
    put_u32(msg, offsetof(struct wire_ack, addrlen), WIRE_ADDR_MAX + 1);
}

static void ack_endless_address(uint8_t *msg)
{
    put_u32(msg, offsetof(struct wire_ack, addrlen), UINT32_MAX);
}

static void ack_no_address(uint8_t *msg)
{
    put_u32(msg, offsetof(struct wire_ack, addrlen), 0);
}

static void thirteen_segments(uint8_t *msg)
{
    put_u32(msg, 0, WIRE_SEGMENTS_MAX + 1);
    for (size_t i = 1; i <= WIRE_SEGMENTS_MAX; i++)
        memcpy(msg + 8 + 24 * i, msg + 8, 24);
}

static void endless_segments(uint8_t *msg)
{
    put_u32(msg, 0, UINT32_MAX);
}

static void one_segment_too_many(uint8_t *msg)
{
    uint32_t niovs;

    memcpy(&niovs, msg, sizeof(niovs));
    put_u32(msg, 0, niovs + 1);
}

static void empty_segment(uint8_t *msg)
{
    put_u64(msg, 8 + offsetof(struct wire_segment, len), 0);
}

static void endless_length(uint8_t *msg)
{
    put_u64(msg, 8 + offsetof(struct wire_segment, len), UINT64_MAX);
}

static void wrapping_address(uint8_t *msg)
{
    put_u64(msg, 8 + offsetof(struct wire_segment, addr), UINT64_MAX - 3);
}

static void wrapping_sum(uint8_t *msg)
{
    put_u32(msg, 0, 2);
    memcpy(msg + 8 + 24, msg + 8, 24);
    put_u64(msg, 8 + offsetof(struct wire_segment, len), UINT64_MAX / 2 + 1);
    put_u64(msg, 8 + 24 + offsetof(struct wire_segment, len), UINT64_MAX / 2 + 2);
}

static void other_key(uint8_t *msg)
{
    put_u64(msg, 8 + offsetof(struct wire_segment, key), 0x0badc0de);
}

static void early_eof(uint8_t *msg)
{
    put_u32(msg, 0, 0);
}

static void too_much_progress(uint8_t *msg)
{
    put_u64(msg, 0, get_u64(msg, 0) + 1000);
}

static void endless_progress(uint8_t *msg)
{
    put_u64(msg, 0, UINT64_MAX);
}

static void premature_end(uint8_t *msg)
{
    put_u64(msg, offsetof(struct wire_progress, nleftover), 0);
}

#define INITIAL(n, l, s, h)                                  \
    {                                                        \
        n, QUIRK_PUT, QUIRK_INITIAL, QUIRK_SPOIL, 0, l, s, h \
    }
#define ACK(n, l, s, h)                                  \
    {                                                    \
        n, QUIRK_GET, QUIRK_ACK, QUIRK_SPOIL, 0, l, s, h \
    }
#define VECTOR(n, l, s, h)                                    \
    {                                                         \
        n, QUIRK_GET, QUIRK_VECTOR, QUIRK_SPOIL, 100, l, s, h \
    }
#define PROGRESS(n, l, s, h)                                    \
    {                                                           \
        n, QUIRK_PUT, QUIRK_PROGRESS, QUIRK_SPOIL, 100, l, s, h \
    }

static const struct quirk all[] = {
    {"late-progress", QUIRK_PUT, QUIRK_ODD, QUIRK_OWN, 0, 0, NULL,
     "one more progress message after EOF, with the rest and nleftover 1"},
    {"eof-alone", QUIRK_PUT, QUIRK_ODD, QUIRK_OWN, 0, 0, NULL,
     "EOF in a message of its own, with no bytes"},
    {"zero-progress", QUIRK_PUT, QUIRK_ODD, QUIRK_OWN, 0, 0, NULL,
     "a progress message without bytes first"},
    {"long-vectors", QUIRK_GET, QUIRK_ODD, QUIRK_OWN, 0, 0, NULL,
     "every vector 296 bytes long, whatever niovs is"},
    {"between-eofs", QUIRK_GET, QUIRK_ODD, QUIRK_OWN, 0, 0, NULL,
     "non-empty vectors after put's EOF and before get's"},

    INITIAL("initial-short", 543, NULL, "a byte less"),
    INITIAL("initial-tiny", 1, NULL, "one byte"),
    INITIAL("initial-long", 545, NULL, "a byte more"),
    INITIAL("initial-nsources", 0, other_nsources, "nsources 63"),
    INITIAL("initial-nsources-zero", 0, zero_nsources, "nsources 0"),
    INITIAL("initial-id", 0, big_id, "id 4294967295"),
    INITIAL("initial-addrlen", 0, long_address, "addrlen 513"),
    INITIAL("initial-addrlen-endless", 0, endless_address, "addrlen 4294967295"),
    INITIAL("initial-addrlen-zero", 0, no_address, "addrlen 0"),
    INITIAL("initial-garbage", 0, garble_initial, "544 bytes of garbage"),
    {"silent-after-ack", QUIRK_PUT, QUIRK_CONNECTED, QUIRK_SILENCE, 0, 0, NULL,
     "nothing after the acknowledgement has come"},
    {"vanish-before-ack", QUIRK_PUT, QUIRK_GREETED, QUIRK_VANISH, 0, 0, NULL,
     "killed when the initial message has been sent"},
    {"vanish-after-ack", QUIRK_PUT, QUIRK_CONNECTED, QUIRK_VANISH, 0, 0, NULL,
     "killed when the acknowledgement has come"},

    PROGRESS("progress-beyond", 0, too_much_progress, "1000 bytes more than were written"),
    PROGRESS("progress-overflow", 0, endless_progress, "2^64 - 1 bytes"),
    PROGRESS("progress-short", 15, NULL, "a byte less"),
    PROGRESS("progress-tiny", 1, NULL, "one byte"),
    PROGRESS("progress-long", 17, NULL, "a byte more"),
    PROGRESS("progress-garbage", 0, garble_progress, "16 bytes of garbage"),
    PROGRESS("progress-early-eof", 0, premature_end, "EOF in mid run"),
    {"put-silent", QUIRK_PUT, QUIRK_PROGRESS, QUIRK_SILENCE, 1000, 0, NULL, "silence in mid run"},
    {"put-vanish", QUIRK_PUT, QUIRK_PROGRESS, QUIRK_VANISH, 1000, 0, NULL, "killed in mid run"},

    ACK("ack-short", 515, NULL, "a byte less"),
    ACK("ack-tiny", 1, NULL, "one byte"),
    ACK("ack-long", 517, NULL, "a byte more"),
    ACK("ack-addrlen", 0, ack_long_address, "addrlen 513"),
    ACK("ack-addrlen-endless", 0, ack_endless_address, "addrlen 4294967295"),
    ACK("ack-addrlen-zero", 0, ack_no_address, "addrlen 0"),
    ACK("ack-garbage", 0, garble_ack, "516 bytes of garbage"),
    {"no-ack", QUIRK_GET, QUIRK_ACK, QUIRK_SILENCE, 0, 0, NULL, "no acknowledgement"},
    {"silent-after-ack", QUIRK_GET, QUIRK_CONNECTED, QUIRK_SILENCE, 0, 0, NULL,
     "nothing after the acknowledgement"},
    {"vanish-after-ack", QUIRK_GET, QUIRK_CONNECTED, QUIRK_VANISH, 0, 0, NULL,
     "killed when the acknowledgement has been sent"},

    VECTOR("vector-thirteen", 8 + 24 * 13, thirteen_segments, "13 segments, and 320 bytes"),
    VECTOR("vector-thirteen-cut", 8 + 24 * 12, thirteen_segments, "niovs 13 in 296 bytes"),
    VECTOR("vector-niovs-endless", 0, endless_segments, "niovs 4294967295"),
    VECTOR("vector-niovs-beyond", 0, one_segment_too_many, "niovs one more than the message has"),
    VECTOR("vector-ragged", 8 + 24 + 5, NULL, "37 bytes"),
    VECTOR("vector-short", 7, NULL, "7 bytes"),
    VECTOR("vector-empty-segment", 0, empty_segment, "a segment of 0 bytes"),
    VECTOR("vector-length-overflow", 0, endless_length, "a segment of 2^64 - 1 bytes"),
    VECTOR("vector-address-overflow", 0, wrapping_address, "addr + len beyond 2^64"),
    VECTOR("vector-sum-overflow", 8 + 24 * 2, wrapping_sum, "lengths that add up to 3"),
    VECTOR("vector-key", 0, other_key, "a key of no registration"),
    VECTOR("vector-garbage", 8 + 24 * 12, garble_vector, "296 bytes of garbage"),
    VECTOR("vector-early-eof", 0, early_eof, "EOF in mid run"),
    {"vector-after-eof", QUIRK_GET, QUIRK_VECTOR, QUIRK_OWN, 0, 0, NULL,
     "a non-empty vector after get's EOF, delivered before it"},
    {"get-silent", QUIRK_GET, QUIRK_VECTOR, QUIRK_SILENCE, 1000, 0, NULL, "silence in mid run"},
    {"get-vanish", QUIRK_GET, QUIRK_VECTOR, QUIRK_VANISH, 1000, 0, NULL, "killed in mid run"},
};

enum { NQUIRKS = sizeof(all) / sizeof(all[0]) };

const struct quirk *quirk_find(enum quirk_role role, const char *name)
{
    for (size_t i = 0; i < NQUIRKS; i++)
        if (all[i].role == role && strcmp(all[i].name, name) == 0)
            return &all[i];
    return NULL;
}

bool quirk_is_hostile(const struct quirk *quirk)
{
    return quirk->moment != QUIRK_ODD;
}

void quirk_print_all(FILE *file)
{
    static const char *const moments[] = {
        "", "initial: ", "", "ack: ", "", "vector: ", "progress: "};

    for (size_t i = 0; i < NQUIRKS; i++)
        fprintf(file, "  %-3s %-8s %-24s %s%s\n", all[i].role == QUIRK_GET ? "get" : "put",
                quirk_is_hostile(&all[i]) ? "hostile" : "legal", all[i].name,
                moments[all[i].moment], all[i].help);
}

bool quirks_have(const struct quirks *quirks, const char *name)
{
    for (unsigned i = 0; i < quirks->n; i++)
        if (strcmp(quirks->list[i]->name, name) == 0)
            return true;
    return false;
}

bool quirks_are_hostile(const struct quirks *quirks)
{
    for (unsigned i = 0; i < quirks->n; i++)
        if (quirk_is_hostile(quirks->list[i]))
            return true;
    return false;
}

/* Beyond the message's end the spoiled one is filled with zero bytes. */
static void spoil(const struct quirk *quirk, uint8_t *msg, size_t *len, size_t room)
{
    const size_t new_len = quirk->len != 0 ? quirk->len : *len;

    memset(msg + *len, 0, room - *len);
    if (quirk->spoil != NULL)
        quirk->spoil(msg);
    *len = new_len;
}

bool quirks_strike(struct quirks *quirks, enum quirk_moment moment, uint64_t nth, void *msg,
                   size_t *len, size_t room)
{
    for (unsigned i = 0; i < quirks->n; i++) {
        const struct quirk *quirk = quirks->list[i];

        if (quirk->moment != moment || quirk->nth != nth)
            continue;
        switch (quirk->act) {
        case QUIRK_OWN:
            break;
        case QUIRK_VANISH:
            kill(getpid(), SIGKILL);
            break;
        case QUIRK_SILENCE:
            quirks->silent = true;
            return false;
        case QUIRK_SPOIL:
            quirks->silent = true;
            spoil(quirk, msg, len, room);
            break;
        }
    }
    return true;
}
