/* launch.h -- how host code starts a kernel; part of <wick/op.h>
 *
 *   return WICK_LAUNCH(ctx, addone_kernel, wick_1d(blocks), wick_1d(THREADS), 0, x, y, N);
 *
 * kernel, grid, block, bytes of dynamic shared memory, then the arguments in the kernel's own
 * order. The build reads the kernel's parameters out of the file and writes a C function that takes
 * them, so the C compiler checks count and types, and converts as in any call: a double becomes the
 * kernel's float. The kernel starts on the stream and the device of ctx. A grid without blocks is
 * no launch.
 */
#ifndef WICK_LAUNCH_H
#define WICK_LAUNCH_H

#include <wick/types.h>

#if !defined(__CUDACC_RTC__)

/* Grids and blocks, x first. */
WICK_HOST_FN wick_dim3 wick_3d(int64_t x, int64_t y, int64_t z)
{
    wick_dim3 d;
    d.x = x;
    d.y = y;
    d.z = z;
    return d;
}
WICK_HOST_FN wick_dim3 wick_2d(int64_t x, int64_t y) { return wick_3d(x, y, 1); }
WICK_HOST_FN wick_dim3 wick_1d(int64_t x) { return wick_3d(x, 1, 1); }

/* A launch choice that `wick tune` may have measured for shapes like this call's: the measured
 * value, or `rule`, the operator's own choice. `knob` is a name that WICK_TUNE lists. */
#define wick_tuned(ctx, knob, rule)                                                                \
    ((ctx)->tuned && (ctx)->tuned[WICK_TUNE_##knob] > 0 ? (ctx)->tuned[WICK_TUNE_##knob] : (rule))

#if defined(__CUDACC__) /* nvcc, for files with <<<>>> */

#define WICK_LAUNCH(ctx, kernel, grid, block, shared, ...)                                         \
    (wick_is_empty(grid) ? WICK_OK                                                                 \
                         : (kernel<<<wick_cuda_dim3(grid), wick_cuda_dim3(block),                  \
                                     (size_t)(shared), wick_stream(ctx)>>>(__VA_ARGS__),           \
                            wick_launched(ctx)))

WICK_HOST_FN bool wick_is_empty(wick_dim3 d) { return d.x == 0 || d.y == 0 || d.z == 0; }

WICK_HOST_FN dim3 wick_cuda_dim3(wick_dim3 d)
{
    dim3 out;
    out.x = (unsigned)d.x;
    out.y = (unsigned)d.y;
    out.z = (unsigned)d.z;
    return out;
}

/* The CUDA stream to launch on. */
WICK_HOST_FN cudaStream_t wick_stream(const wick_ctx *ctx) { return (cudaStream_t)ctx->stream; }

/* After a launch with <<<>>>: whether it began. */
WICK_HOST_FN wick_status wick_launched(wick_ctx *ctx)
{
    cudaError_t error = cudaGetLastError();
    if (error == cudaSuccess) return WICK_OK;
    return wick_fail(ctx, WICK_ECUDA, "the launch failed: %s (%s)", cudaGetErrorName(error),
                     cudaGetErrorString(error));
}

WICK_HOST_FN int64_t wick_cuda_attribute(wick_ctx *ctx, cudaDeviceAttr which)
{
    int value = 0;
    cudaDeviceGetAttribute(&value, which, ctx->device);
    return value;
}
#define wick_multiprocessors(ctx) wick_cuda_attribute(ctx, cudaDevAttrMultiProcessorCount)
#define wick_l2_bytes(ctx) wick_cuda_attribute(ctx, cudaDevAttrL2CacheSize)

#else /* the C compiler; wick_this_device is the unit's, written by the build */

/* WICK_LAUNCH(ctx, kernel, grid, block, shared, ...) */
#define WICK_LAUNCH(ctx, kernel, ...) wick_launch_##kernel(ctx, __VA_ARGS__)

/* How many multiprocessors the device of this call has, and the bytes of its last cache. */
#define wick_multiprocessors(ctx) wick_this_device.fact(ctx, WICK_FACT_MULTIPROCESSORS)
#define wick_l2_bytes(ctx) wick_this_device.fact(ctx, WICK_FACT_L2_BYTES)

#endif

#endif /* !__CUDACC_RTC__ */

#endif /* WICK_LAUNCH_H */
