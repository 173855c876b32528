/* op.h -- everything an operator file needs
 *
 *   #include <wick/op.h>
 *   WICK_OP(scale, "x: T[*N], by: float = 1.0 -> y: T[*N] where T: f16 bf16 f32 f64");
 *   WICK_IMPL wick_status scale_cpu(wick_ctx *ctx, const T *x, double by, T *y, int64_t N) { ... }
 *
 * The build reads WICK_OP out of the text, declares the C prototype that the signature implies and
 * then includes the file, once per element type: `T` (and `U`, ...) are typedefs, `A` is what T is
 * summed in, wick_A reads a T as an A and wick_T rounds back. docs/signature.md has the language,
 * docs/first-operator.md a walk through.
 */
#ifndef WICK_OP_H
#define WICK_OP_H

#include <wick/element.h>
#include <wick/types.h>
#include <wick/view.h>

/* These are read by the build; for the C compiler they declare a name and nothing else. */
#define WICK_OP(name, signature) struct wick_op_##name
#define WICK_NAMESPACE(name) struct wick_namespace_##name
/* So are these. `WICK_FAST_MATH;` compiles the file's kernels with fast, less exact mathematics.
 * `WICK_TUNE(op, "threads: 128 256 512");` names launch choices that `wick tune` may measure; the
 * operator asks for them with wick_tuned(ctx, threads, 256). */
#define WICK_FAST_MATH struct wick_fast_math
#define WICK_TUNE(name, choices) struct wick_tune_##name

/* In front of an implementation (`<op>_cpu`, `<op>_cuda`). Both are host code, plain C; a file's
 * kernels and what they call are found by the build and given to NVRTC (or nvcc): docs/cuda.md. */
#define WICK_IMPL static WICK_UNUSED

/* ---- what the context offers ---- */

#if !defined(__CUDACC_RTC__) /* which knows neither va_list nor host code */

/* Reports an error: `return wick_fail(ctx, WICK_EINVAL, "k is %lld, but ...", ...)`. The caller
 * sees the operator's name in front of the text. From several threads at once, the first one
 * counts. */
WICK_HOST_FN WICK_PRINTF(3, 4) wick_status
    wick_fail(wick_ctx *ctx, wick_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    status = ctx->services->fail(ctx, status, format, args);
    va_end(args);
    return status;
}

/* Runs body(arg, begin, end) over pieces of [0, n) of at least `grain` items, on torch's threads
 * inside torch. They may be cut anywhere, not only at multiples of the grain, and the last may be
 * shorter. Returns when all are done, with the first failure if there was one. */
WICK_HOST_FN wick_status wick_parallel(wick_ctx *ctx, int64_t n, int64_t grain, wick_body body,
                                       void *arg)
{
    if (n <= 0) return WICK_OK;
    if (n <= grain) return body(arg, 0, n);
    return ctx->services->parallel(ctx, n, grain, body, arg);
}

/* <wick/launch.h> has it for nvcc, whose streams have a type of their own. */
#if !defined(__CUDACC__)
/* The CUDA stream to launch on; NULL on the CPU. */
WICK_HOST_FN void *wick_stream(const wick_ctx *ctx) { return ctx->stream; }
#endif

#endif

/* ---- small arithmetic ---- */

WICK_FN int64_t wick_ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
WICK_FN int64_t wick_min(int64_t a, int64_t b) { return a < b ? a : b; }
WICK_FN int64_t wick_max(int64_t a, int64_t b) { return a > b ? a : b; }
WICK_FN bool wick_aligned16(const void *p) { return ((uintptr_t)p & 15u) == 0; }

#if defined(__CUDACC__)
#include <wick/device.h>
#else
#include <wick/cpu.h>
#endif
#include <wick/launch.h>

#endif /* WICK_OP_H */
