/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Raw endpoint addresses as text: two lower-case hex digits a byte, joined by colons. */
#ifndef FABT_ADDRESS_H
#define FABT_ADDRESS_H

#include <stddef.h>
#include <stdint.h>

#include "failure.h"

#define ADDRESS_MAX 512u                         /* longest raw address that a message can carry */
#define ADDRESS_TEXT_SIZE (3u * ADDRESS_MAX + 1) /* its text and the terminating NUL */

struct address {
    size_t len;
    uint8_t raw[ADDRESS_MAX];
};

/* Write the text of an address; `text` holds ADDRESS_TEXT_SIZE bytes. */
void address_format(const struct address *address, char *text);

/* Read an address from text. Both cases of digits are taken, nothing else.
 * 0, or -EINVAL with a failure that says where it goes wrong. */
int address_parse(const char *text, struct address *address, struct failure *failure);

/* Put text and a newline into file `path`, which appears complete or not at all: a temporary file
 * in the same folder is renamed over it. 0 or a negative errno with a failure. */
int address_publish(const char *path, const char *text, struct failure *failure);

#endif
