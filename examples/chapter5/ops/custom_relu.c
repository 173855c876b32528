/* custom_relu -- max(input, 0) and its gradient
 *
 * The gradient at 0 is 0. NaN stays NaN, as in torch.relu.
 */
#include <wick/op.h>

WICK_NAMESPACE(custom_ops);

WICK_OP(custom_relu_forward, "input: T[*N] -> output: T[*N] where T: f16 bf16 f32 f64");
WICK_OP(custom_relu_backward, "doutput: T[*N], input: T[*N] -> dinput: T[*N]");

enum { THREADS = 256 };

WICK_FN T relu(T v) { return wick_A(v) < 0 ? wick_T(0) : v; }
WICK_FN T relu_back(T d, T v) { return wick_A(v) <= 0 ? wick_T(0) : d; }

WICK_IMPL wick_status custom_relu_forward_cpu(wick_ctx *ctx, const T *input, T *output, int64_t N)
{
    (void)ctx;
    for (int64_t i = 0; i < N; i++)
        output[i] = relu(input[i]);
    return WICK_OK;
}

WICK_IMPL wick_status custom_relu_backward_cpu(wick_ctx *ctx, const T *doutput, const T *input,
                                               T *dinput, int64_t N)
{
    (void)ctx;
    for (int64_t i = 0; i < N; i++)
        dinput[i] = relu_back(doutput[i], input[i]);
    return WICK_OK;
}

static __global__ void relu_kernel(const T *input, T *output, int64_t N)
{
    const int64_t i = wick_thread();
    if (i < N) output[i] = relu(input[i]);
}

WICK_IMPL wick_status custom_relu_forward_cuda(wick_ctx *ctx, const T *input, T *output, int64_t N)
{
    return WICK_LAUNCH(ctx, relu_kernel, wick_1d(wick_ceil_div(N, THREADS)), wick_1d(THREADS), 0,
                       input, output, N);
}

static __global__ void relu_back_kernel(const T *doutput, const T *input, T *dinput, int64_t N)
{
    const int64_t i = wick_thread();
    if (i < N) dinput[i] = relu_back(doutput[i], input[i]);
}

WICK_IMPL wick_status custom_relu_backward_cuda(wick_ctx *ctx, const T *doutput, const T *input,
                                                T *dinput, int64_t N)
{
    return WICK_LAUNCH(ctx, relu_back_kernel, wick_1d(wick_ceil_div(N, THREADS)), wick_1d(THREADS),
                       0, doutput, input, dinput, N);
}
