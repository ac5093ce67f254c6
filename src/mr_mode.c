/* SPDX-License-Identifier: BSD-3-Clause */
#include "mr_mode.h"

#include <rdma/fi_domain.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    uint64_t bit;
} names[MR_MODE_NAMES] = {
    {"local", FI_MR_LOCAL},       {"virt_addr", FI_MR_VIRT_ADDR}, {"allocated", FI_MR_ALLOCATED},
    {"prov_key", FI_MR_PROV_KEY}, {"endpoint", FI_MR_ENDPOINT},
};

const char *mr_mode_name(unsigned index, uint64_t *bit)
{
    *bit = names[index].bit;
    return names[index].name;
}

/* The bit of a name of `len` characters, or 0. */
static uint64_t bit_of(const char *text, size_t len)
{
    for (unsigned i = 0; i < MR_MODE_NAMES; i++) {
        if (strlen(names[i].name) == len && memcmp(names[i].name, text, len) == 0)
            return names[i].bit;
    }
    return 0;
}

int mr_mode_offered(uint64_t *modes, bool *given, struct failure *failure)
{
    const char *text = getenv("FABT_MR_MODE");
    uint64_t chosen = 0;

    *given = text != NULL && *text != '\0';
    *modes = MR_MODES;
    if (!*given)
        return 0;
    if (strcmp(text, "none") != 0) {
        for (const char *word = text; word != NULL;) {
            const char *comma = strchr(word, ',');
            const size_t len = comma == NULL ? strlen(word) : (size_t)(comma - word);
            const uint64_t bit = bit_of(word, len);

            if (bit == 0)
                return failure_set_usage(failure,
                                         "FABT_MR_MODE: '%.*s' is no registration mode: none, or "
                                         "local, virt_addr, allocated, prov_key, endpoint with "
                                         "commas",
                                         len > 40 ? 40 : (int)len, word);
            chosen |= bit;
            word = comma == NULL ? NULL : comma + 1;
        }
    }
    *modes = chosen;
    return 0;
}
