/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Description: the ring is a FIFO: it gives back what was put in, in that order, never more than
 * its capacity, also when its counters run past 2^32. */
#include "harness.h"

#include "ring.h"

static int items[64];

static void a_new_ring_is_empty(void **state)
{
    struct ring ring;

    (void)state;
    assert_true(ring_init(&ring, 4));
    assert_true(ring_empty(&ring));
    assert_false(ring_full(&ring));
    assert_int_equal(ring_count(&ring), 0);
    assert_null(ring_peek(&ring));
    assert_null(ring_pop(&ring));
    assert_null(ring_at(&ring, 0));
    ring_free(&ring);
    ring_free(&ring); /* twice is harmless */
}

static void capacity_is_at_least_what_was_asked(void **state)
{
    (void)state;
    for (uint32_t capacity = 1; capacity <= 20; capacity++) {
        struct ring ring;
        uint32_t n = 0;

        assert_true(ring_init(&ring, capacity));
        while (ring_push(&ring, &items[n]))
            n++;
        assert_true(n >= capacity && n < 2 * capacity);
        assert_true(ring_full(&ring));
        assert_false(ring_push(&ring, &items[0]));
        assert_int_equal(ring_count(&ring), n);
        for (uint32_t i = 0; i < n; i++)
            assert_ptr_equal(ring_pop(&ring), &items[i]);
        ring_free(&ring);
    }
}

static void at_looks_behind_the_head(void **state)
{
    struct ring ring;

    (void)state;
    assert_true(ring_init(&ring, 4));
    for (unsigned i = 0; i < 3; i++)
        ring_push(&ring, &items[i]);
    ring_pop(&ring);
    ring_push(&ring, &items[3]);
    ring_push(&ring, &items[4]);
    for (uint32_t i = 0; i < 4; i++)
        assert_ptr_equal(ring_at(&ring, i), &items[i + 1]);
    assert_null(ring_at(&ring, 4));
    assert_null(ring_at(&ring, UINT32_MAX));
    assert_ptr_equal(ring_peek(&ring), &items[1]);
    ring_free(&ring);
}

/* Against a plain list, from counters shortly before they wrap. */
static void behaves_like_a_list_beyond_the_wrap(void **state)
{
    struct dice dice = {6};
    void *list[8];
    uint32_t count = 0;
    struct ring ring;

    (void)state;
    assert_true(ring_init(&ring, 8));
    ring.head = ring.tail = UINT32_MAX - 20;
    for (unsigned i = 0; i < 10000; i++) {
        if (dice_chance(&dice, 50)) {
            void *item = &items[dice_below(&dice, 64)];

            assert_int_equal(ring_push(&ring, item), count < 8);
            if (count < 8)
                list[count++] = item;
        } else {
            assert_ptr_equal(ring_pop(&ring), count == 0 ? NULL : list[0]);
            if (count > 0)
                memmove(list, list + 1, --count * sizeof(list[0]));
        }
        assert_int_equal(ring_count(&ring), count);
        for (uint32_t k = 0; k < count; k++)
            assert_ptr_equal(ring_at(&ring, k), list[k]);
    }
    assert_true(ring.tail < 10000); /* it did wrap */
    ring_free(&ring);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_ring_is_empty),
        cmocka_unit_test(capacity_is_at_least_what_was_asked),
        cmocka_unit_test(at_looks_behind_the_head),
        cmocka_unit_test(behaves_like_a_list_beyond_the_wrap),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
