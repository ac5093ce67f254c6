/* SPDX-License-Identifier: BSD-3-Clause */
#include "buffer.h"

#include <stdlib.h>
#include <string.h>

#include "clock.h"

const uint32_t buffer_stress_lengths[BUFFER_STRESS_CYCLE] = {23, 29, 31, 37};

/* A buffer's bytes start on a cache line of their own: two threads never share one. */
enum { ALIGNMENT = 64 };

void reserve_init(struct reserve *reserve, const uint32_t *lengths, uint32_t cycle, uint32_t worker)
{
    *reserve = (struct reserve){.lengths = lengths, .cycle = cycle, .worker = worker};
}

void reserve_share(struct reserve *reserve)
{
    reserve->shared = true;
}

/* Memory that has been touched: a first-touch page fault would be measured as part of a transfer.
 */
static uint8_t *make_block(uint32_t capacity)
{
    const size_t room = ((size_t)capacity + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    uint8_t *block = aligned_alloc(ALIGNMENT, room);

    if (block != NULL)
        memset(block, 0, room);
    return block;
}

static struct buffer *buffer_make(struct reserve *reserve, uint32_t capacity)
{
    struct buffer *buffer = calloc(1, sizeof(*buffer));

    if (buffer == NULL)
        return NULL;
    if (reserve->block == NULL || !reserve->shared)
        buffer->data = make_block(capacity);
    else
        buffer->data = reserve->block;
    if (buffer->data == NULL) {
        free(buffer);
        return NULL;
    }
    if (reserve->shared)
        reserve->block = buffer->data;
    buffer->capacity = capacity;
    return buffer;
}

void reserve_free(struct reserve *reserve)
{
    while (reserve->free != NULL) {
        struct buffer *buffer = reserve->free;

        reserve->free = buffer->next;
        if (!reserve->shared)
            free(buffer->data);
        free(buffer);
    }
    free(reserve->block);
    reserve->block = NULL;
}

void reserve_return(struct reserve *reserve, struct buffer *buffer)
{
    buffer->next = reserve->free;
    reserve->free = buffer;
}

struct buffer *reserve_take(struct reserve *reserve)
{
    struct buffer *buffer;

    if (reserve->free == NULL) {
        for (uint32_t i = 0; i < reserve->cycle; i++) {
            buffer = buffer_make(reserve, reserve->lengths[i]);
            if (buffer == NULL)
                break;
            FABT_TRACE(buffer_make, .worker = reserve->worker, .len_bytes = buffer->capacity);
            reserve_return(reserve, buffer);
        }
    }
    buffer = reserve->free;
    if (buffer != NULL)
        reserve->free = buffer->next;
    return buffer;
}

int buffer_register(struct buffer *buffer, struct endpoint *endpoint, uint64_t access,
                    struct registration_counts *counts, struct failure *failure)
{
    const uint64_t begin = clock_now();
    const int rc = domain_register(endpoint->domain, endpoint->ep, buffer->data, buffer->capacity,
                                   access, &buffer->mr, failure);
    const uint64_t took = clock_now() - begin;

    if (rc != 0)
        return rc;
    buffer->desc = fi_mr_desc(buffer->mr);
    counts->count++;
    counts->ns += took;
    FABT_TRACE(memory_register, .session = endpoint->session, .buffer = buffer->index, .nsegs = 1,
               .len_bytes = buffer->capacity, .access = access, .key = fi_mr_key(buffer->mr),
               .duration_ns = took);
    return 0;
}

unsigned buffer_deregister(struct buffer *buffer, struct endpoint *endpoint,
                           struct registration_counts *counts)
{
    const uint64_t begin = clock_now();
    unsigned leaks;
    uint64_t took;

    if (buffer->mr == NULL)
        return 0;
    leaks =
        fabric_close_object(&buffer->mr->fid, "payload registration", (int32_t)endpoint->session);
    took = clock_now() - begin;
    counts->ns += took;
    buffer->mr = NULL;
    buffer->desc = NULL;
    FABT_TRACE(memory_deregister, .session = endpoint->session, .buffer = buffer->index,
               .duration_ns = took);
    return leaks;
}

uint64_t buffer_remote_address(const struct buffer *buffer, const struct fabric *fabric)
{
    return (fabric->mr_mode & FI_MR_VIRT_ADDR) != 0 ? (uint64_t)(uintptr_t)buffer->data : 0;
}
