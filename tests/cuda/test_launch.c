/* test_launch.c -- arguments passed through, limits in words, contexts, WICK_DEBUG=sync, faults */
#include "cuda_support.h"

#include <criterion/parameterized.h>
#include <stdlib.h>
#include <string.h>

static fake_cuda *fake;

static void start(void) { fake = use_driver(); }
static void end(void)
{
    wick_ctx_clear(&test_ctx);
    forget_kernel(&k);
    forget_kernel(&small);
    forget_kernel(&shared);
    forget_kernel(&faulty);
    forget_unit(&test_unit);
    cr_assert_eq(fake->stack_depth(), 0, "a context was left current");
}

TestSuite(launch, .init = start, .fini = end);

Test(launch, passes_everything_through)
{
    float x = 1.5f;
    int64_t n = 7;
    void *args[] = {&x, &n};
    cr_assert_launched(wick_cuda_launch(&test_ctx, &k, DIM(2, 3, 4), DIM(8, 4, 2), 128, args));
    cr_assert_eq(fake->n_launches, 1);
    const fake_launch *l = &fake->launches[0];
    cr_assert_str_eq(l->kernel, "k");
    cr_assert_eq(l->device, 0);
    cr_assert_arr_eq(l->grid, ((unsigned[]){2, 3, 4}), sizeof l->grid);
    cr_assert_arr_eq(l->block, ((unsigned[]){8, 4, 2}), sizeof l->block);
    cr_assert_eq(l->shared, 128);
    cr_assert_eq(l->stream, &test_stream);
    cr_assert_eq(l->args, args);
}

Test(launch, is_two_calls_of_the_driver_once_it_is_warm)
{
    bool pushed = false;
    int calls[FAKE_FUNCTIONS];
    cr_assert_eq(wick_device_enter(&test_ctx, 0, &pushed), WICK_OK);
    cr_assert_launched(launch_once(&k));
    memcpy(calls, fake->calls, sizeof calls);
    cr_assert_launched(launch_once(&k));
    for (int i = 0; i < FAKE_FUNCTIONS; i++) {
        int wanted = i == FAKE_cuLaunchKernel || i == FAKE_cuCtxGetCurrent;
        cr_assert_eq(fake->calls[i] - calls[i], wanted, "function %d", i);
    }
    wick_device_leave(pushed);
}

Test(launch, with_an_empty_grid_does_nothing)
{
    static const wick_dim3 empty[] = {{0, 1, 1}, {1, 0, 1}, {1, 1, 0}, {0, 0, 0}};
    for (int i = 0; i < WICK_COUNT(empty); i++)
        cr_assert_launched(launch_as(&k, empty[i], DIM(0, 1, 1), 0));
    cr_assert_eq(fake->n_launches, 0);
    cr_assert_eq(fake->calls[FAKE_cuInit], 0, "the driver was started for nothing");
}

/* ---- limits ---- */

typedef struct limit_case {
    wick_dim3 grid, block;
    long long bytes;
    char words[256];
} limit_case;

ParameterizedTestParameters(launch, names_the_limit)
{
    static limit_case cases[] = {
        {{0x80000000LL, 1, 1}, {1, 1, 1}, 0, "grid.x is 2147483648, but must be 1 to 2147483647"},
        {{1, 65536, 1}, {1, 1, 1}, 0, "grid.y is 65536, but must be 1 to 65535"},
        {{1, 1, 65536}, {1, 1, 1}, 0, "grid.z is 65536, but must be 1 to 65535"},
        {{-1, 1, 1}, {1, 1, 1}, 0, "grid.x is -1, but must be 1 to 2147483647"},
        {{1, INT64_MIN, 1}, {1, 1, 1}, 0, "grid.y is -9223372036854775808, but must be 1 to 65535"},
        {{0x100000001LL, 1, 1}, {1, 1, 1}, 0, "grid.x is 4294967297, but must be 1 to 2147483647"},
        {{1, 1, 1}, {1025, 1, 1}, 0, "block.x is 1025, but must be 1 to 1024"},
        {{1, 1, 1}, {1, 1025, 1}, 0, "block.y is 1025, but must be 1 to 1024"},
        {{1, 1, 1}, {1, 1, 65}, 0, "block.z is 65, but must be 1 to 64"},
        {{1, 1, 1}, {0, 1, 1}, 0, "block.x is 0, but must be 1 to 1024"},
        {{1, 1, 1}, {64, 64, 1}, 0, "a block has 4096 threads, but at most 1024 are possible"},
        {{1, 1, 1}, {1, 1, 1}, -1, "shared memory cannot be negative"},
        {{1, 1, 1},
         {1, 1, 1},
         232449,
         "it declares 0 bytes of shared memory and asks for 232449 more, but a block has at most "
         "232448"},
        {{1, 1, 1},
         {1, 1, 1},
         INT64_MAX,
         "it declares 0 bytes of shared memory and asks for 9223372036854775807 more, but a block "
         "has at most 232448"}};
    return cr_make_param_array(limit_case, cases, WICK_COUNT(cases));
}

ParameterizedTest(limit_case *c, launch, names_the_limit)
{
    wick_text words = {0};
    wick_text_printf(&words,
                     "kernel k, grid (%lld, %lld, %lld), block (%lld, %lld, %lld), %lld bytes of "
                     "dynamic shared memory: %s on sm_90 (Stand-in 0)",
                     (long long)c->grid.x, (long long)c->grid.y, (long long)c->grid.z,
                     (long long)c->block.x, (long long)c->block.y, (long long)c->block.z, c->bytes,
                     c->words);
    cr_assert_fails(launch_as(&k, c->grid, c->block, c->bytes), WICK_EINVAL, wick_text_str(&words));
    cr_assert_eq(fake->calls[FAKE_cuLaunchKernel], 0, "the driver was asked all the same");
    wick_text_free(&words);
}

Test(launch, takes_the_largest_that_is_possible)
{
    cr_assert_launched(launch_as(&k, DIM(0x7fffffff, 65535, 65535), DIM(1024, 1, 1), 232448));
    cr_assert_launched(launch_as(&k, DIM(1, 1, 1), DIM(1, 1024, 1), 0));
    cr_assert_launched(launch_as(&k, DIM(1, 1, 1), DIM(16, 1, 64), 0));
    cr_assert_eq(fake->n_launches, 3);
}

Test(launch, names_the_limit_of_the_kernel_itself)
{
    cr_assert_launched(launch_as(&small, DIM(1, 1, 1), DIM(256, 1, 1), 0));
    cr_assert_fails(launch_as(&small, DIM(1, 1, 1), DIM(257, 1, 1), 0), WICK_EINVAL,
                    "kernel small, grid (1, 1, 1), block (257, 1, 1), 0 bytes of dynamic shared "
                    "memory: a block has 257 threads, but its launch bounds and its 256 registers "
                    "per thread allow 256 on sm_90 (Stand-in 0)");
    cr_assert_launched(launch_as(&shared, DIM(1, 1, 1), DIM(1, 1, 1), 232448 - 1024));
    cr_assert_fails(launch_as(&shared, DIM(1, 1, 1), DIM(1, 1, 1), 232448 - 1023), WICK_EINVAL,
                    "kernel shared, grid (1, 1, 1), block (1, 1, 1), 231425 bytes of dynamic "
                    "shared memory: it declares 1024 bytes of shared memory and asks for 231425 "
                    "more, but a block has at most 232448 on sm_90 (Stand-in 0)");
    cr_assert_eq(launch_as(&shared, DIM(1, 1, 1), DIM(1, 1, 1), INT64_MAX), WICK_EINVAL);
}

Test(launch, opts_in_to_large_shared_memory_once_per_size)
{
    cr_assert_launched(launch_as(&shared, DIM(1, 1, 1), DIM(1, 1, 1), 48 * 1024 - 1024));
    cr_assert_eq(fake->calls[FAKE_cuFuncSetAttribute], 0);
    cr_assert_launched(launch_as(&shared, DIM(1, 1, 1), DIM(1, 1, 1), 48 * 1024));
    cr_assert_eq(fake->calls[FAKE_cuFuncSetAttribute], 1);
    cr_assert_launched(launch_as(&shared, DIM(1, 1, 1), DIM(1, 1, 1), 48 * 1024));
    cr_assert_launched(launch_as(&shared, DIM(1, 1, 1), DIM(1, 1, 1), 1024));
    cr_assert_eq(fake->calls[FAKE_cuFuncSetAttribute], 1);
    cr_assert_launched(launch_as(&shared, DIM(1, 1, 1), DIM(1, 1, 1), 100 * 1024));
    cr_assert_eq(fake->calls[FAKE_cuFuncSetAttribute], 2);
    fake->fail_function = FAKE_cuFuncSetAttribute;
    fake->fail_nth = 1;
    fake->fail_code = 1;
    cr_assert_fails(launch_as(&shared, DIM(1, 1, 1), DIM(1, 1, 1), 101 * 1024), WICK_ECUDA,
                    "kernel shared: 103424 bytes of dynamic shared memory are not granted: "
                    "CUDA_ERROR_INVALID_VALUE (invalid argument)");
    cr_assert_launched(launch_as(&shared, DIM(1, 1, 1), DIM(1, 1, 1), 101 * 1024));
}

/* ---- devices and contexts ---- */

Test(launch, leaves_the_context_as_it_was)
{
    bool pushed = false;
    cr_assert_launched(launch_once(&k));
    cr_assert_eq(fake->stack_depth(), 0);
    cr_assert_eq(wick_device_enter(&test_ctx, 1, &pushed), WICK_OK);
    cr_assert_launched(launch_once(&k));
    cr_assert_eq(fake->launches[1].device, 0, "the call's device, not the thread's");
    cr_assert_eq(fake->current_device(), 1);
    wick_device_leave(pushed);
    fake->push_foreign();
    cr_assert_launched(launch_once(&k));
    cr_assert_eq(fake->stack_depth(), 1);
    cu_context context = NULL;
    cuda.cuCtxPopCurrent_v2(&context);
}

Test(launch, of_a_call_on_the_cpu_is_refused)
{
    test_ctx.device = -1;
    cr_assert_fails(launch_once(&k), WICK_EINVAL,
                    "kernel k: this call runs on the CPU, not on a CUDA device");
    test_ctx.device = 0;
    cr_assert_launched(launch_once(&k));
    test_ctx.device = -1;
    cr_assert_fails(launch_once(&k), WICK_EINVAL,
                    "kernel k: this call runs on the CPU, not on a CUDA device");
    test_ctx.device = 5;
    cr_assert_fails(launch_once(&k), WICK_EINVAL,
                    "kernel k: there is no CUDA device 5: this process sees 2");
    test_ctx.device = 0;
}

Test(launch, whose_context_cannot_be_made_current_says_so)
{
    cr_assert_launched(launch_once(&k));
    fake->fail_function = FAKE_cuCtxPushCurrent_v2;
    fake->fail_nth = 1;
    fake->fail_code = 201;
    cr_assert_fails(launch_once(&k), WICK_ECUDA,
                    "kernel k: the context of CUDA device 0 cannot be made current: "
                    "CUDA_ERROR_INVALID_CONTEXT (invalid device context)");
}

Test(launch, can_be_prepared_ahead)
{
    cr_assert_launched(wick_cuda_prepare(&test_ctx, &k));
    cr_assert_eq(fake->modules, 1);
    cr_assert_eq(fake->n_launches, 0);
    cr_assert_launched(wick_cuda_prepare(&test_ctx, &k));
    cr_assert_launched(launch_once(&k));
    cr_assert_eq(fake->modules, 1);
}

/* ---- faults ---- */

#define K_ONCE "grid (1, 1, 1), block (32, 1, 1), 0 bytes of dynamic shared memory"
#define ILLEGAL "CUDA_ERROR_ILLEGAL_ADDRESS (an illegal memory access was encountered)"
#define EARLIER                                                                                    \
    ": a kernel that was started earlier has failed, and CUDA does nothing more in this process; " \
    "run it again with WICK_DEBUG=sync to learn which"

Test(launch, that_the_driver_refuses_says_what_it_was)
{
    fake->fail_function = FAKE_cuLaunchKernel;
    fake->fail_nth = 1;
    fake->fail_code = 701;
    cr_assert_fails(launch_once(&k), WICK_ECUDA,
                    "kernel k, " K_ONCE ": CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES (too many resources "
                    "requested)");
}

Test(launch, after_a_fault_points_to_an_earlier_kernel)
{
    bool pushed = false;
    cr_assert_eq(wick_device_enter(&test_ctx, 0, &pushed), WICK_OK);
    cr_assert_launched(launch_once(&k));
    fake->sticky = 700;
    cr_assert_eq(launch_once(&k), WICK_ECUDA);
    cr_assert(strstr(wick_ctx_message(&test_ctx), ILLEGAL EARLIER), "%s",
              wick_ctx_message(&test_ctx));
    wick_ctx_clear(&test_ctx);
    wick_device_leave(pushed);
}

Test(launch, that_meets_a_fault_itself_points_to_an_earlier_kernel)
{
    fake->fail_function = FAKE_cuLaunchKernel;
    fake->fail_nth = 1;
    fake->fail_code = 700;
    cr_assert_fails(launch_once(&k), WICK_ECUDA, "kernel k, " K_ONCE ": " ILLEGAL EARLIER);
}

Test(launch, without_wick_debug_does_not_wait)
{
    setenv("WICK_DEBUG", "async,synchronous", 1);
    setenv("CUDA_LAUNCH_BLOCKING", "0", 1);
    cr_assert_launched(launch_once(&faulty));
    cr_assert_launched(launch_once(&k));
    cr_assert_eq(fake->calls[FAKE_cuStreamSynchronize], 0);
}

Test(launch, with_wick_debug_blames_the_kernel_that_failed)
{
    setenv("WICK_DEBUG", "trace,sync", 1);
    cr_assert_launched(launch_once(&k));
    cr_assert_eq(fake->calls[FAKE_cuStreamSynchronize], 2);
    cr_assert_fails(launch_once(&faulty), WICK_ECUDA, "kernel faulty, " K_ONCE " failed: " ILLEGAL);
}

Test(launch, with_wick_debug_does_not_blame_a_kernel_for_what_was_before)
{
    setenv("WICK_DEBUG", "sync", 1);
    cr_assert_launched(wick_cuda_prepare(&test_ctx, &k));
    fake->fail_function = FAKE_cuStreamSynchronize;
    fake->fail_nth = 1;
    fake->fail_code = 700;
    cr_assert_fails(launch_once(&k), WICK_ECUDA, "kernel k, " K_ONCE ": " ILLEGAL EARLIER);
    cr_assert_eq(fake->n_launches, 0);
}

Test(launch, blocking_is_the_same)
{
    setenv("CUDA_LAUNCH_BLOCKING", "1", 1);
    cr_assert_fails(launch_once(&faulty), WICK_ECUDA, "kernel faulty, " K_ONCE " failed: " ILLEGAL);
}

Test(launch, with_wick_debug_does_not_wait_for_a_stream_that_is_captured)
{
    setenv("WICK_DEBUG", "sync", 1);
    fake->capturing = &test_stream;
    cr_assert_launched(launch_once(&k));
    cr_assert(fake->capture_holds);
    cr_assert_eq(fake->calls[FAKE_cuStreamSynchronize], 0);
    test_ctx.stream = NULL; /* which does not say, while another one is captured */
    cr_assert_launched(launch_once(&k));
    cr_assert_eq(fake->calls[FAKE_cuStreamSynchronize], 0);
    test_ctx.stream = &test_stream;
}
