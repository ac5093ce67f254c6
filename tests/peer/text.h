/* SPDX-License-Identifier: BSD-3-Clause */
/* Text that people and other programs read: addresses, failures, dumps of messages. */
#ifndef PEER_TEXT_H
#define PEER_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One line that says what went wrong first; later ones are consequences and are not kept. */
struct failure {
    char text[256];
};

/* Notes the failure unless one is noted already. Returns -1, for `return failure_set(...)`. */
int failure_set(struct failure *f, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Writes len bytes as "02:00:..." and a NUL; text must hold 3 * len characters. */
void text_from_address(const uint8_t *addr, size_t len, char *text);

/* Decodes what text_from_address() writes. Returns the number of bytes or -1. */
int text_to_address(const char *text, uint8_t *addr, size_t size);

/* Writes a line to standard output, or to path so that it appears there complete. */
int text_publish(const char *path, const char *line, struct failure *f);

/* A hex dump on standard error, 16 bytes a line, under a title. */
void text_dump(const char *title, const void *bytes, size_t len);

/* Is every byte of the range zero? */
bool text_is_zero(const uint8_t *bytes, size_t len);

#endif
