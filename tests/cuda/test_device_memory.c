/* test_device_memory.c -- memory and copies on a stream, for programs without torch */
#include "cuda_support.h"

#include <stdlib.h>
#include <string.h>

Test(device_memory, is_given_copied_into_and_taken_back)
{
    fake_cuda *fake = use_driver();
    float in[3] = {1, 2, 3}, out[3] = {0};
    void *p = NULL;
    cr_assert_eq(wick_cuda_alloc(&test_ctx, 1, &test_stream, sizeof in, &p), WICK_OK);
    cr_assert(p);
    cr_assert_eq(fake->allocations, 1);
    cr_assert_eq(wick_cuda_copy(&test_ctx, 1, &test_stream, p, in, sizeof in), WICK_OK);
    cr_assert_eq(wick_cuda_copy(&test_ctx, 1, &test_stream, out, p, sizeof in), WICK_OK);
    cr_assert_eq(memcmp(in, out, sizeof in), 0);
    wick_cuda_free(1, &test_stream, p);
    cr_assert_eq(fake->allocations, 0);
    cr_assert_eq(fake->stack_depth(), 0);
    cr_assert_eq(fake->contexts_retained, 1);
}

Test(device_memory, of_no_bytes_is_null)
{
    fake_cuda *fake = use_driver();
    void *p = &p;
    cr_assert_eq(wick_cuda_alloc(&test_ctx, 0, NULL, 0, &p), WICK_OK);
    cr_assert_null(p);
    wick_cuda_free(0, NULL, NULL);
    cr_assert_eq(wick_cuda_copy(&test_ctx, 0, NULL, NULL, NULL, 0), WICK_OK);
    cr_assert_eq(fake->calls[FAKE_cuInit], 0, "nothing to do, but the driver was started");
}

Test(device_memory, that_does_not_suffice_is_said)
{
    fake_cuda *fake = use_driver();
    void *p = NULL;
    cr_assert_fails(wick_cuda_alloc(&test_ctx, 0, NULL, (uint64_t)1 << 50, &p), WICK_ENOMEM,
                    "1125899906842624 bytes on CUDA device 0 (Stand-in 0): "
                    "CUDA_ERROR_OUT_OF_MEMORY (out of memory)");
    cr_assert_null(p);
    cr_assert_eq(fake->stack_depth(), 0);
}

Test(device_memory, needs_a_driver_that_has_pools)
{
    void *p = NULL;
    use_stand_in("WICK_CUDA_DRIVER", "libfake_cuda_11_1.so", NULL);
    cr_assert_eq(wick_cuda_alloc(&test_ctx, 0, NULL, 8, &p), WICK_ECUDA);
    cr_assert(strstr(wick_ctx_message(&test_ctx), "libfake_cuda_11_1.so) is too old: it has no "
                                                  "cuMemAllocAsync; one of CUDA 11.2 or later"),
              "%s", wick_ctx_message(&test_ctx));
    wick_ctx_clear(&test_ctx);
    cr_assert_eq(launch_once(&k), WICK_OK, "such a driver launches: %s",
                 wick_ctx_message(&test_ctx));
    forget_kernel(&k);
    forget_unit(&test_unit);
}

Test(device_memory, a_copy_that_fails_says_how_much)
{
    fake_cuda *fake = use_driver();
    char a[4] = "abc", b[4];
    fake->fail_function = FAKE_cuMemcpyAsync;
    fake->fail_nth = 1;
    fake->fail_code = 1;
    cr_assert_fails(wick_cuda_copy(&test_ctx, 0, NULL, b, a, 4), WICK_ECUDA,
                    "a copy of 4 bytes on CUDA device 0: CUDA_ERROR_INVALID_VALUE (invalid "
                    "argument)");
    cr_assert_eq(fake->stack_depth(), 0);
}
