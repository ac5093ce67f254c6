/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A FIFO of pointers with a fixed capacity. Its users are single threads: no atomics. */
#ifndef FABT_RING_H
#define FABT_RING_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

struct ring {
    void **slots;
    uint32_t mask; /* capacity - 1; head and tail run free and are masked on use */
    uint32_t head;
    uint32_t tail;
};

/* Room for at least `capacity` pointers (1 to 2^20). False: no memory. */
static inline bool ring_init(struct ring *ring, uint32_t capacity)
{
    uint32_t size = 1;

    while (size < capacity)
        size *= 2;
    ring->slots = calloc(size, sizeof(*ring->slots));
    ring->mask = size - 1;
    ring->head = ring->tail = 0;
    return ring->slots != NULL;
}

static inline void ring_free(struct ring *ring)
{
    free(ring->slots);
    ring->slots = NULL;
}

static inline uint32_t ring_count(const struct ring *ring)
{
    return ring->tail - ring->head;
}

static inline bool ring_empty(const struct ring *ring)
{
    return ring->head == ring->tail;
}

static inline bool ring_full(const struct ring *ring)
{
    return ring_count(ring) > ring->mask;
}

/* False: the ring is full, nothing was stored. */
static inline bool ring_push(struct ring *ring, void *item)
{
    if (ring_full(ring))
        return false;
    ring->slots[ring->tail++ & ring->mask] = item;
    return true;
}

/* The oldest item, or NULL. */
static inline void *ring_peek(const struct ring *ring)
{
    return ring_empty(ring) ? NULL : ring->slots[ring->head & ring->mask];
}

/* The item `index` places behind the oldest, or NULL. */
static inline void *ring_at(const struct ring *ring, uint32_t index)
{
    return index < ring_count(ring) ? ring->slots[(ring->head + index) & ring->mask] : NULL;
}

static inline void *ring_pop(struct ring *ring)
{
    return ring_empty(ring) ? NULL : ring->slots[ring->head++ & ring->mask];
}

#endif
