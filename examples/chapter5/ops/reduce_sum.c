/* reduce_sum -- the sum of all elements, and its gradient: doutput, for each of them
 *
 * Summed in double, whatever the element type, so that the order hardly matters. The gradient needs
 * the shape of the input and no element of it, so nothing is saved.
 */
#include <wick/op.h>

WICK_NAMESPACE(custom_ops);

WICK_OP(reduce_sum_forward, "input: T[*N] -> output: T[] where T: f16 bf16 f32 f64");

WICK_IMPL wick_status reduce_sum_forward_cpu(wick_ctx *ctx, const T *input, T *output, int64_t N)
{
    (void)ctx;
    double sum = 0;
    for (int64_t i = 0; i < N; i++)
        sum += wick_A(input[i]);
    *output = wick_T((A)sum);
    return WICK_OK;
}

WICK_OP(reduce_sum_backward, "doutput: T[], input: shape[*N] -> dinput: T[*N]");

WICK_IMPL wick_status reduce_sum_backward_cpu(wick_ctx *ctx, const T *doutput, T *dinput, int64_t N)
{
    (void)ctx;
    for (int64_t i = 0; i < N; i++)
        dinput[i] = *doutput;
    return WICK_OK;
}
