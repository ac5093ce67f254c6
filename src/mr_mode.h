/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Registration modes (FI_MR_* bits) by their names, for people and for tests. */
#ifndef FABT_MR_MODE_H
#define FABT_MR_MODE_H

#include <stdbool.h>
#include <stdint.h>

#include "failure.h"

/* Modes that the engine can live with. */
#define MR_MODES (FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT)

enum { MR_MODE_NAMES = 5 };

/* A mode's name and bit; `index` below MR_MODE_NAMES. */
const char *mr_mode_name(unsigned index, uint64_t *bit);

/* What environment variable FABT_MR_MODE lets the provider choose from: names with commas, or
 * `none` for none; MR_MODES if it is not set. `*given`: it is set. Fails as usage, naming what is
 * wrong. */
int mr_mode_offered(uint64_t *modes, bool *given, struct failure *failure);

#endif
