/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Values on the command line. Each parser takes the whole text or nothing: no trailing characters,
 * no signs where none make sense, decimal digits only. They return 0 or -EINVAL (-ERANGE for a
 * number that does not fit) and set their output only on success.
 */
#ifndef FABT_PARSE_H
#define FABT_PARSE_H

#include <sched.h>
#include <stdint.h>

/* A whole number within low..high. */
int parse_number(const char *text, uint64_t low, uint64_t high, uint64_t *value);

/* Bytes, with an optional suffix K, M, G or T (powers of 1024; a following "iB" or "B" is allowed).
 */
int parse_size(const char *text, uint64_t *bytes);

/* Sizes from 1 to `high`: a list of sizes and of ranges, in which each size is double the one
 * before
 * ("64,4K", "64-1M"). At most `room`, which is at most PARSE_SIZES_MAX. */
#define PARSE_SIZES_MAX 64

int parse_sizes(const char *text, uint64_t high, uint64_t *sizes, uint32_t room, uint32_t *count);

/* A duration: "10", "10s", "500ms", "20us", "2m", "1h"; without a unit: seconds. Decimals allowed.
 */
int parse_duration(const char *text, uint64_t *ns);

/* Sixteen bytes as 32 hex digits. */
int parse_token(const char *text, uint64_t token[2]);

/* Processors: "I - J", "I-J", or a list such as "0,2,4-7". Order and repeats are kept. */
#define PARSE_CPUS_MAX 1024

struct cpu_list {
    unsigned count;
    unsigned cpu[PARSE_CPUS_MAX];
};

int parse_cpus(const char *text, struct cpu_list *cpus);

#endif
