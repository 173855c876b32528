/* test_fenced.c -- memory with nothing before and behind it */
#include "cuda_support.h"

#include <signal.h>
#include <string.h>

static volatile unsigned char *make(uint64_t *bytes)
{
    void *p = NULL;
    signal(SIGSEGV, SIG_DFL); /* not the sanitizer's */
    use_driver();
    cr_assert_eq(wick_cuda_fenced(&test_ctx, 1, bytes, &p), WICK_OK, "%s",
                 wick_ctx_message(&test_ctx));
    return p;
}

Test(fenced, can_be_used_to_its_ends)
{
    uint64_t bytes = 70000;
    volatile unsigned char *p = make(&bytes);
    fake_cuda *fake = use_driver();
    cr_assert_eq(bytes, 131072, "as much as there is, not as was asked for");
    p[0] = 1;
    p[bytes - 1] = 2;
    cr_assert_eq(p[0] + p[bytes - 1], 3);
    cr_assert_eq(fake->stack_depth(), 0);
    cr_assert_eq(fake->allocations, 0, "a handle was kept");
    cr_assert_eq(fake->reservations, 1);
}

Test(fenced, stops_who_reads_behind_it, .signal = SIGSEGV)
{
    uint64_t bytes = 1;
    volatile unsigned char *p = make(&bytes);
    (void)p[bytes];
}

Test(fenced, stops_who_writes_before_it, .signal = SIGSEGV)
{
    uint64_t bytes = 1;
    make(&bytes)[-1] = 0;
}

Test(fenced, that_cannot_be_had_leaves_nothing)
{
    static const int steps[] = {FAKE_cuMemGetAllocationGranularity, FAKE_cuMemAddressReserve,
                                FAKE_cuMemCreate, FAKE_cuMemMap, FAKE_cuMemSetAccess};
    fake_cuda *fake = use_driver();
    for (int i = 0; i < WICK_COUNT(steps); i++) {
        uint64_t bytes = 65536;
        void *p = NULL;
        fake->fail_function = steps[i];
        fake->fail_nth = 1;
        fake->fail_code = 2;
        cr_assert_fails(wick_cuda_fenced(&test_ctx, 0, &bytes, &p), WICK_ENOMEM,
                        "65536 fenced bytes on CUDA device 0 (Stand-in 0): "
                        "CUDA_ERROR_OUT_OF_MEMORY (out of memory)");
        cr_assert_null(p);
        cr_assert_eq(fake->stack_depth() + fake->allocations + fake->reservations, 0, "step %d", i);
    }
}

Test(fenced, needs_a_driver_that_maps)
{
    uint64_t bytes = 8;
    void *p = NULL;
    use_stand_in("WICK_CUDA_DRIVER", "libfake_cuda_11_1.so", NULL);
    cr_assert_eq(wick_cuda_fenced(&test_ctx, 0, &bytes, &p), WICK_ECUDA);
    cr_assert(strstr(wick_ctx_message(&test_ctx), "libfake_cuda_11_1.so) is too old: it cannot map "
                                                  "memory at an address"),
              "%s", wick_ctx_message(&test_ctx));
}
