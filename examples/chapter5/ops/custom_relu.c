/* custom_relu -- max(input, 0) and its gradient
 *
 * The gradient at 0 is 0. NaN stays NaN, as in torch.relu.
 */
#include <wick/op.h>

WICK_NAMESPACE(custom_ops);

WICK_OP(custom_relu_forward, "input: T[*N] -> output: T[*N] where T: f16 bf16 f32 f64");

WICK_IMPL wick_status custom_relu_forward_cpu(wick_ctx *ctx, const T *input, T *output, int64_t N)
{
    (void)ctx;
    for (int64_t i = 0; i < N; i++)
        output[i] = wick_A(input[i]) < 0 ? wick_T(0) : input[i];
    return WICK_OK;
}

WICK_OP(custom_relu_backward, "doutput: T[*N], input: T[*N] -> dinput: T[*N]");

WICK_IMPL wick_status custom_relu_backward_cpu(wick_ctx *ctx, const T *doutput, const T *input,
                                               T *dinput, int64_t N)
{
    (void)ctx;
    for (int64_t i = 0; i < N; i++)
        dinput[i] = wick_A(input[i]) <= 0 ? wick_T(0) : doutput[i];
    return WICK_OK;
}
