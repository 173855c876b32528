/* my_kernel -- output = input: the template's operator to begin with, and its gradient
 *
 * Begin here: change the formula and the signature. A function that does not match its signature
 * does not compile, nor does a launch that does not match its kernel.
 */
#include <wick/op.h>

WICK_NAMESPACE(extension_cpp);

WICK_OP(my_kernel_forward, "input: T[*N] -> output: T[*N] where T: f16 bf16 f32 f64");
WICK_OP(my_kernel_backward, "doutput: T[*N] -> dinput: T[*N]");

enum { THREADS = 256 };

WICK_IMPL wick_status my_kernel_forward_cpu(wick_ctx *ctx, const T *input, T *output, int64_t N)
{
    (void)ctx;
    for (int64_t i = 0; i < N; i++)
        output[i] = input[i];
    return WICK_OK;
}

WICK_IMPL wick_status my_kernel_backward_cpu(wick_ctx *ctx, const T *doutput, T *dinput, int64_t N)
{
    (void)ctx;
    for (int64_t i = 0; i < N; i++)
        dinput[i] = doutput[i];
    return WICK_OK;
}

static __global__ void my_kernel(const T *input, T *output, int64_t N)
{
    const int64_t i = wick_thread();
    if (i < N) output[i] = input[i];
}

WICK_IMPL wick_status my_kernel_forward_cuda(wick_ctx *ctx, const T *input, T *output, int64_t N)
{
    return WICK_LAUNCH(ctx, my_kernel, wick_1d(wick_ceil_div(N, THREADS)), wick_1d(THREADS), 0,
                       input, output, N);
}

WICK_IMPL wick_status my_kernel_backward_cuda(wick_ctx *ctx, const T *doutput, T *dinput, int64_t N)
{
    return WICK_LAUNCH(ctx, my_kernel, wick_1d(wick_ceil_div(N, THREADS)), wick_1d(THREADS), 0,
                       doutput, dinput, N);
}
