/* test_code.c -- which code a device takes, how it is loaded, and what is said when it is not */
#include "cuda_support.h"

#include <criterion/parameterized.h>
#include <string.h>

static fake_cuda *fake;

static void start(void) { fake = use_driver(); }
static void end(void)
{
    wick_ctx_clear(&test_ctx);
    cr_assert_eq(fake->stack_depth(), 0, "a context was left current");
    cr_assert_eq(fake->capture_mode(), 0, "the capture mode was not put back");
}

TestSuite(code, .init = start, .fini = end);

/* The kernel's name tells which code was taken. */
static wick_status prepare(wick_device *unit, const char *name)
{
    wick_kernel kernel = {.name = name, .device = unit};
    wick_status s = wick_cuda_prepare(&test_ctx, &kernel);
    forget_kernel(&kernel);
    forget_unit(unit);
    return s;
}

static void takes(const wick_device_code *codes, int n, int arch, const char *name)
{
    wick_device unit = {.code = codes, .n_code = n};
    fake->arch[0] = arch;
    cr_assert_eq(prepare(&unit, name), WICK_OK, "%s", wick_ctx_message(&test_ctx));
}

Test(code, of_the_device_itself_is_taken)
{
    static const wick_device_code codes[] = {CUBIN(80, "a\n"), CUBIN(90, "b\n"), PTX(90, "p\n")};
    takes(codes, 3, 90, "b");
}

Test(code, of_the_same_major_and_an_older_minor_is_taken)
{
    static const wick_device_code codes[] = {CUBIN(80, "a\n"), CUBIN(89, "c\n"), CUBIN(86, "b\n"),
                                             CUBIN(90, "d\n"), PTX(80, "p\n")};
    takes(codes, 5, 87, "b");
}

Test(code, of_ptx_serves_what_is_newer_than_all)
{
    static const wick_device_code codes[] = {CUBIN(80, "a\n"), PTX(80, "p\n"), PTX(90, "q\n"),
                                             CUBIN(90, "b\n"), PTX(120, "r\n")};
    takes(codes, 5, 100, "q");
}

Test(code, of_ptx_without_its_end_is_given_one)
{
    static const char text[] = "ptx sm_80\np\nXXXX";
    wick_device_code codes[] = {
        {.arch = 80, .is_ptx = 1, .data = text, .size = strlen("ptx sm_80\np\n")}};
    takes(codes, 1, 90, "p");
    wick_device unit = UNIT(codes);
    cr_assert_eq(prepare(&unit, "pXXXX"), WICK_ENOTSUP);
}

Test(code, that_no_device_takes_is_listed)
{
    static const wick_device_code codes[] = {CUBIN(80, "k\n"), CUBIN(90, "k\n"), PTX(90, "k\n")};
    wick_device unit = UNIT(codes);
    fake->arch[0] = 75;
    cr_assert_fails(prepare(&unit, "k"), WICK_ENOTSUP,
                    "kernel k: the module holds sm_80 and sm_90 code and PTX of sm_90, but the "
                    "device is sm_75 (Stand-in 0): build it with --arch sm_75");
    unit.n_code = 1;
    cr_assert_fails(prepare(&unit, "k"), WICK_ENOTSUP,
                    "kernel k: the module holds sm_80 code, but the device is sm_75 (Stand-in 0): "
                    "build it with --arch sm_75");
    unit.code = &codes[2];
    cr_assert_fails(prepare(&unit, "k"), WICK_ENOTSUP,
                    "kernel k: the module holds PTX of sm_90, but the device is sm_75 (Stand-in "
                    "0): build it with --arch sm_75");
    unit.n_code = 0;
    cr_assert_fails(prepare(&unit, "k"), WICK_ENOTSUP,
                    "kernel k: the module holds no device code, but the device is sm_75 (Stand-in "
                    "0): build it with --arch sm_75");
}

Test(code, lists_three_with_a_comma)
{
    static const wick_device_code codes[] = {CUBIN(80, "k\n"), CUBIN(86, "k\n"), CUBIN(90, "k\n")};
    wick_device unit = UNIT(codes);
    fake->arch[0] = 100;
    cr_assert_fails(prepare(&unit, "k"), WICK_ENOTSUP,
                    "kernel k: the module holds sm_80, sm_86 and sm_90 code, but the device is "
                    "sm_100 (Stand-in 0): build it with --arch sm_100");
}

/* ---- made at run time ---- */

static int n_resolved;
static int32_t resolved_arch;

static wick_status resolve(wick_ctx *ctx, wick_device *device, int32_t arch, wick_device_code *out)
{
    static const wick_device_code made = CUBIN(90, "k\nother\n");
    (void)ctx;
    cr_assert_eq(device->resolve_arg, &n_resolved);
    n_resolved++;
    resolved_arch = arch;
    *out = made;
    return WICK_OK;
}

static wick_status resolve_in_vain(wick_ctx *ctx, wick_device *device, int32_t arch,
                                   wick_device_code *out)
{
    (void)device, (void)arch, (void)out;
    n_resolved++;
    return wick_fail(ctx, WICK_ECOMPILE, "op.c:3: error: no such thing");
}

Test(code, that_is_not_there_is_made_once_for_all_kernels)
{
    wick_device unit = {.resolve = resolve, .resolve_arg = &n_resolved};
    wick_kernel one = {.name = "k", .device = &unit}, two = {.name = "other", .device = &unit};
    cr_assert_launched(launch_once(&one));
    cr_assert_launched(launch_once(&two));
    cr_assert_launched(launch_once(&one));
    cr_assert_eq(n_resolved, 1);
    cr_assert_eq(resolved_arch, 90);
    cr_assert_eq(fake->modules, 1);
    forget_kernel(&one);
    forget_kernel(&two);
    forget_unit(&unit);
}

Test(code, that_fits_is_not_made_again)
{
    static const wick_device_code codes[] = {PTX(80, "k\n")};
    wick_device unit = {.code = codes, .n_code = 1, .resolve = resolve, .resolve_arg = &n_resolved};
    cr_assert_eq(prepare(&unit, "k"), WICK_OK);
    cr_assert_eq(n_resolved, 0);
}

Test(code, that_does_not_fit_is_made)
{
    static const wick_device_code codes[] = {CUBIN(80, "k\n")};
    wick_device unit = {.code = codes, .n_code = 1, .resolve = resolve, .resolve_arg = &n_resolved};
    cr_assert_eq(prepare(&unit, "k"), WICK_OK);
    cr_assert_eq(n_resolved, 1);
}

Test(code, that_does_not_compile_keeps_its_words_and_is_tried_again)
{
    wick_device unit = {.resolve = resolve_in_vain};
    cr_assert_fails(prepare(&unit, "k"), WICK_ECOMPILE, "op.c:3: error: no such thing");
    cr_assert_fails(prepare(&unit, "k"), WICK_ECOMPILE, "op.c:3: error: no such thing");
    cr_assert_eq(n_resolved, 2);
    unit.resolve = resolve;
    unit.resolve_arg = &n_resolved;
    cr_assert_eq(prepare(&unit, "k"), WICK_OK);
}

Test(code, that_was_made_is_not_made_again_when_it_did_not_load)
{
    wick_device unit = {.resolve = resolve, .resolve_arg = &n_resolved};
    wick_kernel kernel = {.name = "k", .device = &unit};
    fake->fail_function = FAKE_cuModuleLoadDataEx;
    fake->fail_nth = 1;
    fake->fail_code = 200;
    cr_assert_fails(launch_once(&kernel), WICK_ECUDA,
                    "kernel k: the code of sm_90 does not load on sm_90 (Stand-in 0): "
                    "CUDA_ERROR_INVALID_IMAGE (device kernel image is invalid)");
    cr_assert_launched(launch_once(&kernel));
    cr_assert_eq(n_resolved, 1);
    forget_kernel(&kernel);
    forget_unit(&unit);
}

/* ---- loading ---- */

Test(code, has_no_such_kernel)
{
    cr_assert_fails(launch_once(&missing), WICK_ENOTSUP,
                    "kernel missing: the device code loaded for sm_90 (Stand-in 0) has no kernel "
                    "of that name");
    cr_assert_launched(launch_once(&k));
    cr_assert_eq(fake->modules, 1, "the code was loaded twice");
    forget_kernel(&k);
    forget_kernel(&missing);
    forget_unit(&test_unit);
}

Test(code, of_bad_ptx_shows_the_log)
{
    static const wick_device_code codes[] = {PTX(80, "bad\n")};
    wick_device unit = UNIT(codes);
    cr_assert_fails(prepare(&unit, "k"), WICK_ECUDA,
                    "kernel k: the PTX of sm_80 does not load on sm_90 (Stand-in 0): "
                    "CUDA_ERROR_INVALID_PTX (a PTX JIT compilation failed); CUDA's log: line 2: "
                    "syntax error at 'bad'");
    cr_assert_eq(fake->modules, 0);
}

Test(code, of_a_later_cuda_names_the_driver)
{
    static const wick_device_code codes[] = {PTX(80, "k\n")};
    wick_device unit = UNIT(codes);
    fake->version = 12040;
    fake->fail_function = FAKE_cuModuleLoadDataEx;
    fake->fail_nth = 1;
    fake->fail_code = 222;
    cr_assert_fails(prepare(&unit, "k"), WICK_ECUDA,
                    "kernel k: the PTX of sm_80 does not load on sm_90 (Stand-in 0): "
                    "CUDA_ERROR_UNSUPPORTED_PTX_VERSION (the PTX is of a later toolchain); the "
                    "driver speaks CUDA 12.4, and what made this may be newer");
}

Test(code, that_is_not_code_is_refused)
{
    static const wick_device_code codes[] = {{.arch = 90, .data = "garbage", .size = 8}};
    wick_device unit = UNIT(codes);
    cr_assert_fails(prepare(&unit, "k"), WICK_ECUDA,
                    "kernel k: the code of sm_90 does not load on sm_90 (Stand-in 0): "
                    "CUDA_ERROR_INVALID_IMAGE (device kernel image is invalid)");
}

Test(code, is_loaded_while_a_stream_is_captured)
{
    fake->capturing = &test_stream;
    cr_assert_launched(launch_once(&k));
    cr_assert(fake->capture_holds, "loading has broken the capture");
    cr_assert_eq(fake->capture_mode(), 0);
    cr_assert_eq(fake->calls[FAKE_cuThreadExchangeStreamCaptureMode], 2);
    forget_kernel(&k);
    forget_unit(&test_unit);
}

Test(code, is_loaded_on_each_device_that_launches_it)
{
    cr_assert_launched(launch_once(&k));
    test_ctx.device = 1;
    cr_assert_launched(launch_once(&k));
    cr_assert_launched(launch_once(&small));
    test_ctx.device = 0;
    cr_assert_launched(launch_once(&k));
    cr_assert_eq(fake->modules, 2);
    cr_assert_eq(fake->contexts_retained, 2);
    cr_assert_eq(fake->n_launches, 4);
    cr_assert_eq(fake->launches[0].device, 0);
    cr_assert_eq(fake->launches[1].device, 1);
    cr_assert_eq(fake->launches[2].device, 1);
    cr_assert_eq(fake->launches[3].device, 0);
    forget_kernel(&k);
    forget_kernel(&small);
    forget_unit(&test_unit);
}

/* ---- failures ---- */

enum { CALLS = 31 }; /* of the driver in a first launch, at least */

ParameterizedTestParameters(code, survives_the_failure_of_any_call_of_the_driver)
{
    static int nth[CALLS];
    for (int i = 0; i < CALLS; i++)
        nth[i] = i + 1;
    return cr_make_param_array(int, nth, CALLS);
}

ParameterizedTest(int *nth, code, survives_the_failure_of_any_call_of_the_driver)
{
    fake->fail_nth = *nth;
    fake->fail_code = 1;
    wick_status s = launch_once(&k);
    cr_assert_eq(fake->fail_nth, 0, "a first launch has fewer calls than %d", *nth);
    /* Only the question for the current context is asked again. */
    bool asked_again = s == WICK_OK && fake->calls[FAKE_cuCtxGetCurrent] == 3;
    cr_assert(s == WICK_ECUDA || asked_again, "call %d: %d", *nth, s);
    cr_assert_eq(fake->n_launches, s == WICK_OK);
    if (s != WICK_OK)
        cr_assert(
            strstr(wick_ctx_message(&test_ctx), "CUDA_ERROR_INVALID_VALUE (invalid argument)"),
            "call %d: %s", *nth, wick_ctx_message(&test_ctx));
    end();
    cr_assert_launched(launch_once(&k));
    cr_assert_eq(fake->modules, 1, "the code was loaded twice");
    cr_assert_eq(fake->contexts_retained, 1);
    forget_kernel(&k);
    forget_unit(&test_unit);
}

Test(code, keeps_three_blocks_whatever_allocation_failed)
{
    static const char text[] = "ptx sm_80\nk\n";
    static const wick_device_code codes[] = {
        {.arch = 80, .is_ptx = 1, .data = text, .size = sizeof text - 1}};
    wick_device unit = UNIT(codes);
    wick_kernel kernel = {.name = "k", .device = &unit};
    long live = wick_memory_live(), n = 0;
    wick_status s = WICK_ENOMEM;
    while (s != WICK_OK) {
        cr_assert_lt(++n, 100, "still failing at allocation %ld", n);
        wick_ctx_clear(&test_ctx);
        wick_memory_fail_after(n);
        s = launch_once(&kernel);
        wick_memory_fail_after(0);
        cr_assert(s == WICK_OK || s == WICK_ENOMEM, "%d %s", s, wick_ctx_message(&test_ctx));
    }
    cr_assert_gt(n, 3);
    cr_assert_eq(wick_memory_live() - live, 3, "devices, unit and kernel; but %ld",
                 wick_memory_live() - live);
    forget_kernel(&kernel);
    forget_unit(&unit);
}
