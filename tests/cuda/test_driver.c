/* test_driver.c -- a driver that is not there, too old or does not start; facts and contexts */
#include "cuda_support.h"

#include <stdlib.h>
#include <string.h>

static const wick_cuda_facts *facts;

static wick_status ask(int32_t device) { return wick_cuda_device_facts(&test_ctx, device, &facts); }

Test(driver, that_is_missing_is_named)
{
    setenv("WICK_CUDA_DRIVER", "/nowhere/libcuda.so.1", 1);
    cr_assert_eq(ask(0), WICK_ECUDA);
    const char *words = "there is no CUDA driver (/nowhere/libcuda.so.1) here: ";
    cr_assert_eq(strncmp(wick_ctx_message(&test_ctx), words, strlen(words)), 0, "%s",
                 wick_ctx_message(&test_ctx));
    cr_assert(strstr(wick_ctx_message(&test_ctx), "cannot open shared object file"));
    wick_ctx_clear(&test_ctx);
    cr_assert_eq(wick_driver_version(), 0);
    cr_assert_eq(launch_once(&k), WICK_ECUDA);
    cr_assert(!strncmp(wick_ctx_message(&test_ctx), "kernel k: there is no CUDA driver", 33));
    wick_ctx_clear(&test_ctx);
}

Test(driver, that_is_looked_for_is_libcuda)
{
    unsetenv("WICK_CUDA_DRIVER");
    cr_assert_str_eq(wick_driver_file(), "libcuda.so.1");
}

Test(driver, that_is_too_old_names_what_it_lacks)
{
    use_stand_in("WICK_CUDA_DRIVER", "libfake_cuda_10_0.so", NULL);
    cr_assert_eq(ask(0), WICK_ECUDA);
    cr_assert(strstr(wick_ctx_message(&test_ctx),
                     "libfake_cuda_10_0.so) is too old: it has no "
                     "cuThreadExchangeStreamCaptureMode; one of CUDA 11.2 or later is needed"),
              "%s", wick_ctx_message(&test_ctx));
    wick_ctx_clear(&test_ctx);
}

Test(driver, that_does_not_start_is_tried_again)
{
    fake_cuda *fake = use_driver();
    fake->init_result = 100;
    cr_assert_fails(ask(0), WICK_ECUDA,
                    "the CUDA driver does not start: CUDA_ERROR_NO_DEVICE (no CUDA-capable device "
                    "is detected)");
    fake->init_result = 3;
    cr_assert_fails(ask(0), WICK_ECUDA,
                    "the CUDA driver does not start: CUDA_ERROR_NOT_INITIALIZED (initialization "
                    "error): CUDA does not survive a fork; start such a process by spawning it");
    fake->init_result = 12345;
    cr_assert_fails(ask(0), WICK_ECUDA,
                    "the CUDA driver does not start: CUDA error 12345 (no further words)");
    fake->init_result = 0;
    cr_assert_eq(ask(0), WICK_OK);
}

Test(driver, version_is_known_without_starting_it)
{
    fake_cuda *fake = use_driver();
    fake->version = 12080;
    cr_assert_eq(wick_driver_version(), 12080);
    cr_assert_eq(fake->calls[FAKE_cuInit], 0);
}

Test(device, facts_are_those_of_the_driver_and_asked_once)
{
    fake_cuda *fake = use_driver();
    cr_assert_eq(ask(1), WICK_OK, "%s", wick_ctx_message(&test_ctx));
    cr_assert_str_eq(facts->name, "Stand-in 1");
    cr_assert_eq(facts->arch, 80);
    cr_assert_eq(facts->multiprocessors, 132);
    cr_assert_eq(facts->shared_per_block, 49152);
    cr_assert_eq(facts->shared_opt_in, 232448);
    cr_assert_eq(facts->l2_bytes, 1 << 25);
    cr_assert_eq(facts->max_threads, 1024);
    cr_assert_eq(facts->max_block[2], 64);
    cr_assert_eq(facts->max_grid[0], 0x7fffffff);
    cr_assert_eq(facts->max_grid[1], 65535);
    int asked = fake->calls[FAKE_cuDeviceGetAttribute];
    cr_assert_eq(ask(1), WICK_OK);
    cr_assert_eq(fake->calls[FAKE_cuDeviceGetAttribute], asked);
    cr_assert_eq(fake->contexts_retained, 0, "asking for facts has made a context");
    cr_assert_eq(ask(0), WICK_OK);
    cr_assert_eq(facts->arch, 90);
}

Test(device, that_is_not_there_is_named)
{
    use_driver();
    cr_assert_fails(ask(2), WICK_EINVAL, "there is no CUDA device 2: this process sees 2");
    cr_assert_fails(ask(-1), WICK_EINVAL, "this call runs on the CPU, not on a CUDA device");
}

Test(device, none_at_all_is_said)
{
    fake_cuda *fake = use_driver();
    fake->n_devices = 0;
    cr_assert_fails(ask(0), WICK_ECUDA, "this process sees no CUDA device");
}

Test(device, facts_that_fail_are_asked_again)
{
    fake_cuda *fake = use_driver();
    fake->fail_function = FAKE_cuDeviceGetAttribute;
    fake->fail_nth = 3;
    fake->fail_code = 1;
    cr_assert_fails(ask(0), WICK_ECUDA,
                    "attribute 3 of CUDA device 0: CUDA_ERROR_INVALID_VALUE (invalid argument)");
    cr_assert_eq(ask(0), WICK_OK);
    cr_assert_eq(facts->arch, 90);
}

Test(device, enters_and_leaves_its_context)
{
    fake_cuda *fake = use_driver();
    bool first = false, second = false;
    cr_assert_eq(wick_device_enter(&test_ctx, 1, &first), WICK_OK);
    cr_assert(first);
    cr_assert_eq(fake->current_device(), 1);
    cr_assert_eq(wick_device_enter(&test_ctx, 1, &second), WICK_OK);
    cr_assert(!second, "the context was current already");
    wick_device_leave(second);
    cr_assert_eq(fake->current_device(), 1);
    wick_device_leave(first);
    cr_assert_eq(fake->stack_depth(), 0);
    cr_assert_eq(fake->contexts_retained, 1);
    fake->fail_function = FAKE_cuCtxPushCurrent_v2;
    fake->fail_nth = 1;
    fake->fail_code = 201;
    cr_assert_fails(wick_device_enter(&test_ctx, 0, &first), WICK_ECUDA,
                    "the context of CUDA device 0 cannot be made current: "
                    "CUDA_ERROR_INVALID_CONTEXT (invalid device context)");
    cr_assert(!first);
}
