/* cuda_support.h -- a stand-in driver to run on, units of device code and kernels to launch
 *
 * Every test is a process of its own, so the driver is opened afresh in each.
 */
#ifndef WICK_TESTS_CUDA_SUPPORT_H
#define WICK_TESTS_CUDA_SUPPORT_H

#include "fake_cuda.h"

#include <criterion/criterion.h>

/* Names a library of tests/fake_cuda to Wick by an environment variable; returns its state, which
 * `symbol` gives (NULL: it has none). */
void *use_stand_in(const char *variable, const char *library, const char *symbol);
/* The stand-in driver. */
fake_cuda *use_driver(void);

/* The context of every call below, on device 0 and a stream of its own at first. */
extern wick_ctx test_ctx;
extern char test_stream;

/* Code as the stand-in driver takes it: CUBIN(90, "k\n"). */
#define DEVICE_CODE(kind, number, is, kernels)                                                     \
    {                                                                                              \
        .arch = (number), .is_ptx = (is), .data = kind " sm_" #number "\n" kernels,                \
        .size = sizeof(kind " sm_" #number "\n" kernels)                                           \
    }
#define CUBIN(number, kernels) DEVICE_CODE("cubin", number, 0, kernels)
#define PTX(number, kernels) DEVICE_CODE("ptx", number, 1, kernels)
#define UNIT(codes)                                                                                \
    {                                                                                              \
        .code = (codes), .n_code = WICK_COUNT(codes)                                               \
    }

/* The unit of most tests: sm_90 and sm_80 code with the kernels k, small (256 threads) and shared
 * (1024 bytes); freed of what the launches kept by forget_unit. */
extern wick_device test_unit;
extern wick_kernel k, small, shared, faulty, missing;
void forget_kernel(wick_kernel *kernel);
void forget_unit(wick_device *unit);

/* A launch of one block of 32 threads. */
wick_status launch_once(wick_kernel *kernel);
wick_status launch_as(wick_kernel *kernel, wick_dim3 grid, wick_dim3 block, int64_t bytes);
#define DIM(x, y, z) ((wick_dim3){x, y, z})

#define cr_assert_launched(call)                                                                   \
    do {                                                                                           \
        cr_assert_eq(call, WICK_OK, "%s", wick_ctx_message(&test_ctx));                            \
    } while (0)
/* Fails so, with exactly these words. */
#define cr_assert_fails(call, status, words)                                                       \
    do {                                                                                           \
        wick_ctx_clear(&test_ctx);                                                                 \
        cr_assert_eq(call, status, "%s", wick_ctx_message(&test_ctx));                             \
        cr_assert_str_eq(wick_ctx_message(&test_ctx), words);                                      \
        wick_ctx_clear(&test_ctx);                                                                 \
    } while (0)

#endif /* WICK_TESTS_CUDA_SUPPORT_H */
