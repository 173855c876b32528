/* scale_bias_relu_learned -- y[n,c] = relu(x[n,c] * scale + bias[c]) with a scale that is trained
 *
 * As scale_bias_relu, but scale is a 0-d tensor of type A, because a plain number has no gradient:
 * dscale = the sum of dy * x over what was not cut off, taken like dbias and in the same walk, then
 * over the columns in f64.
 */
#include "scale_bias_relu.h"

WICK_OP(scale_bias_relu_learned, "x: T[*N, C], bias: T[C], scale: A[] -> y: T[*N, C]"
                                 " where T: f16 bf16 f32 f64 batch N, C");
WICK_OP(scale_bias_relu_learned_backward, "dy: T[*N, C], x: T[*N, C], bias: T[C], scale: A[]"
                                          " -> dx?: T[*N, C], dbias?: T[C], dscale?: A[]"
                                          " scratch by_column: f64[C]");

WICK_IMPL wick_status scale_bias_relu_learned_cpu(wick_ctx *ctx, const T *x, const T *bias,
                                                  const A *scale, T *y, int64_t N, int64_t C)
{
    return forward(ctx, x, bias, *scale, y, N, C);
}

WICK_IMPL wick_status scale_bias_relu_learned_backward_cpu(wick_ctx *ctx, const T *dy, const T *x,
                                                           const T *bias, const A *scale, T *dx,
                                                           T *dbias, A *dscale, double *by_column,
                                                           int64_t N, int64_t C)
{
    backward_job j = {dy, x, bias, *scale, dx, dbias, .C = C};
    return backward(ctx, &j, N, dscale, by_column);
}
