/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Description: a worker's reserve makes payload buffers of 23, 29, 31 and 37 bytes in that order
 * and gives them out last in, first out; buffers are usable to their last byte, start on cache
 * lines of their own, and register for what they are used for. */
#include "harness.h"

#include "buffer.h"
#include "fake_fabric.h"

static void lengths_follow_the_cycle_last_in_first_out(void **state)
{
    static const uint32_t expected[] = {37, 31, 29, 23};
    struct buffer *buffers[16];
    struct reserve reserve;

    (void)state;
    reserve_init(&reserve, buffer_stress_lengths, BUFFER_STRESS_CYCLE, 0);
    for (unsigned i = 0; i < 16; i++) {
        buffers[i] = reserve_take(&reserve);
        assert_non_null(buffers[i]);
        assert_int_equal(buffers[i]->capacity, expected[i % 4]);
    }
    for (unsigned i = 16; i-- > 0;)
        reserve_return(&reserve, buffers[i]);
    for (unsigned i = 0; i < 16; i++)
        assert_ptr_equal(reserve_take(&reserve), buffers[i]); /* as before */
    for (unsigned i = 0; i < 16; i++)
        reserve_return(&reserve, buffers[i]);
    assert_ptr_equal(reserve_take(&reserve), buffers[15]);
    reserve_return(&reserve, buffers[15]);
    reserve_free(&reserve);
}

static void buffers_have_memory_of_their_own(void **state)
{
    struct buffer *buffers[64];
    struct reserve reserve;

    (void)state;
    reserve_init(&reserve, buffer_stress_lengths, BUFFER_STRESS_CYCLE, 0);
    for (unsigned i = 0; i < 64; i++) {
        buffers[i] = reserve_take(&reserve);
        assert_int_equal((uintptr_t)buffers[i]->data % 64, 0);
        memset(buffers[i]->data, (int)i, buffers[i]->capacity);
    }
    for (unsigned i = 0; i < 64; i++) {
        for (uint32_t k = 0; k < buffers[i]->capacity; k++)
            assert_int_equal(buffers[i]->data[k], i);
        reserve_return(&reserve, buffers[i]);
    }
    reserve_free(&reserve);
}

static void shared_buffers_are_one_memory(void **state)
{
    static const uint32_t length = 1000;
    struct buffer *buffers[8];
    struct reserve reserve;

    (void)state;
    reserve_init(&reserve, &length, 1, 0);
    reserve_share(&reserve);
    for (unsigned i = 0; i < COUNT_OF(buffers); i++) {
        buffers[i] = reserve_take(&reserve);
        assert_non_null(buffers[i]);
        assert_int_equal(buffers[i]->capacity, length);
        assert_ptr_equal(buffers[i]->data, buffers[0]->data);
        assert_true(i == 0 || buffers[i] != buffers[i - 1]);
    }
    memset(buffers[0]->data, 1, length);
    for (unsigned i = 0; i < COUNT_OF(buffers); i++)
        reserve_return(&reserve, buffers[i]);
    reserve_free(&reserve);
    reserve_free(&reserve); /* nothing is left to free */
}

static void registrations_are_counted_and_given_back(void **state)
{
    static const uint64_t modes[] = {0, FI_MR_VIRT_ADDR, FI_MR_PROV_KEY | FI_MR_ENDPOINT};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(modes); i++) {
        struct fake_limits limits = FAKE_LIMITS;
        struct fi_cq_attr attr = {.wait_obj = FI_WAIT_NONE};
        struct registration_counts counts = {0};
        struct failure failure = {0};
        struct fake_net *net = fake_net_new();
        struct endpoint endpoint;
        struct reserve reserve;
        struct fabric fabric;
        struct domain domain;
        struct buffer *buffer;
        struct fid_cq *cq;

        limits.mr_mode = modes[i];
        fake_fabric_open(&fabric, net, &limits);
        assert_int_equal(domain_open(&domain, &fabric, 1, &failure), 0);
        assert_int_equal(fi_cq_open(domain.domain, &attr, &cq, NULL), 0);
        assert_int_equal(endpoint_open(&endpoint, &domain, cq, 0, &failure), 0);
        reserve_init(&reserve, buffer_stress_lengths, BUFFER_STRESS_CYCLE, 0);
        buffer = reserve_take(&reserve);
        assert_int_equal(buffer_register(buffer, &endpoint, FI_REMOTE_WRITE, &counts, &failure), 0);
        assert_int_equal(counts.count, 1);
        assert_true(((struct fake_mr *)buffer->mr)->enabled);
        assert_int_equal(((struct fake_mr *)buffer->mr)->access, FI_REMOTE_WRITE);
        assert_int_equal(buffer_remote_address(buffer, &fabric),
                         modes[i] == FI_MR_VIRT_ADDR ? (uintptr_t)buffer->data : 0);
        assert_int_equal(buffer_deregister(buffer, &endpoint, &counts), 0);
        assert_int_equal(buffer_deregister(buffer, &endpoint, &counts), 0); /* twice is harmless */
        net->refuse_register = -FI_ENOMEM;
        assert_int_not_equal(buffer_register(buffer, &endpoint, FI_WRITE, &counts, &failure), 0);
        assert_null(buffer->mr);
        assert_int_equal(counts.count, 1);
        reserve_return(&reserve, buffer);
        reserve_free(&reserve);
        endpoint_close(&endpoint);
        fi_close(&cq->fid);
        domain_close(&domain);
        fake_fabric_close(&fabric);
        fake_net_free(net);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lengths_follow_the_cycle_last_in_first_out),
        cmocka_unit_test(buffers_have_memory_of_their_own),
        cmocka_unit_test(shared_buffers_are_one_memory),
        cmocka_unit_test(registrations_are_counted_and_given_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
