/* cuda_support.c -- a stand-in driver to run on, units of device code and kernels to launch */
#include "cuda_support.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char test_stream;
wick_ctx test_ctx = {.services = &wick_plain_services, .stream = &test_stream, .device = 0};

#define KERNELS "k\nsmall threads=256\nshared shared=1024\nfaulty\n"
static const wick_device_code codes[] = {CUBIN(80, KERNELS), CUBIN(90, KERNELS)};
wick_device test_unit = UNIT(codes);
wick_kernel k = {.name = "k", .device = &test_unit};
wick_kernel small = {.name = "small", .device = &test_unit};
wick_kernel shared = {.name = "shared", .device = &test_unit};
wick_kernel faulty = {.name = "faulty", .device = &test_unit};
wick_kernel missing = {.name = "missing", .device = &test_unit};

void *use_stand_in(const char *variable, const char *library, const char *symbol)
{
    char path[512];
    void *function = NULL, *(*state)(void) = NULL;
    snprintf(path, sizeof path, "%s/fake/%s", WICK_TEST_BUILD, library);
    setenv(variable, path, 1);
    if (!symbol) return NULL;
    void *opened = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    cr_assert(opened, "%s", dlerror());
    function = dlsym(opened, symbol);
    cr_assert(function, "%s", dlerror());
    memcpy(&state, &function, sizeof function);
    return state();
}

fake_cuda *use_driver(void)
{
    unsetenv("WICK_DEBUG");
    unsetenv("CUDA_LAUNCH_BLOCKING");
    return use_stand_in("WICK_CUDA_DRIVER", "libfake_cuda.so", FAKE_CUDA_STATE);
}

void forget_kernel(wick_kernel *kernel)
{
    wick_free(kernel->host);
    kernel->host = NULL;
}

void forget_unit(wick_device *unit)
{
    wick_free(unit->host); /* its lock owns nothing */
    unit->host = NULL;
}

wick_status launch_as(wick_kernel *kernel, wick_dim3 grid, wick_dim3 block, int64_t bytes)
{
    static int value;
    void *args[] = {&value};
    return wick_cuda_launch(&test_ctx, kernel, grid, block, bytes, args);
}

wick_status launch_once(wick_kernel *kernel)
{
    return launch_as(kernel, DIM(1, 1, 1), DIM(32, 1, 1), 0);
}
