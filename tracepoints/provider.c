/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The LTTng-UST provider `fabt`. It stands alone in this unit because LTTng's headers expand the
 * definitions several times over. */
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "fabt_tp.h"
