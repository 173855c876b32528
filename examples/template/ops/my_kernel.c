/* my_kernel -- output = input: the template's operator to begin with, and its gradient
 *
 * Begin here: change the formula and the signature. A function that does not match its signature
 * does not compile.
 */
#include <wick/op.h>

WICK_NAMESPACE(extension_cpp);

WICK_OP(my_kernel_forward, "input: T[*N] -> output: T[*N] where T: f16 bf16 f32 f64");

WICK_IMPL wick_status my_kernel_forward_cpu(wick_ctx *ctx, const T *input, T *output, int64_t N)
{
    (void)ctx;
    for (int64_t i = 0; i < N; i++)
        output[i] = input[i];
    return WICK_OK;
}

WICK_OP(my_kernel_backward, "doutput: T[*N] -> dinput: T[*N]");

WICK_IMPL wick_status my_kernel_backward_cpu(wick_ctx *ctx, const T *doutput, T *dinput, int64_t N)
{
    (void)ctx;
    for (int64_t i = 0; i < N; i++)
        dinput[i] = doutput[i];
    return WICK_OK;
}
