/* scale_bias_relu -- y[n,c] = relu(x[n,c] * scale + bias[c])
 *
 * Bandwidth bound: x is read once and y written once, past the caches where y would not stay in
 * them; bias is read again for every row, from a cache (scale_bias_relu.h has the walks).
 *
 * scale is rounded to A; product and sum are taken in A, each rounded (no fused multiply-add, so
 * f32 and f64 equal torch's relu(x * scale + bias) to the bit), then once to T. `v < 0 ? 0 : v` and
 * not fmax, so that NaN stays NaN, as in torch.relu. dx is rounded once to T. dbias is summed in an
 * order that depends on the sizes alone, its error hardly grows with N. A scale that is trained
 * itself is scale_bias_relu_learned's.
 */
#include "scale_bias_relu.h"

WICK_OP(scale_bias_relu, "x: T[*N, C], bias: T[C], scale: float = 1.0 -> y: T[*N, C]"
                         " where T: f16 bf16 f32 f64 batch N, C");
WICK_OP(scale_bias_relu_backward, "dy: T[*N, C], x: T[*N, C], bias: T[C], scale: float"
                                  " -> dx?: T[*N, C], dbias?: T[C] batch C");

WICK_IMPL wick_status scale_bias_relu_cpu(wick_ctx *ctx, const T *x, const T *bias, double scale,
                                          T *y, int64_t N, int64_t C)
{
    return forward(ctx, x, bias, (A)scale, y, N, C);
}

WICK_IMPL wick_status scale_bias_relu_backward_cpu(wick_ctx *ctx, const T *dy, const T *x,
                                                   const T *bias, double scale, T *dx, T *dbias,
                                                   int64_t N, int64_t C)
{
    backward_job j = {dy, x, bias, (A)scale, dx, dbias, .C = C};
    return backward(ctx, &j, N, NULL, NULL);
}
