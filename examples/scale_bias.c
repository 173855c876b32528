/* scale_bias -- y = x * scale + bias, bias along the last dimension
 *
 * The body is written once. T is f16, bf16, f32 or f64; the sum is taken in A (f32, or f64 for f64)
 * and rounded once.
 */
#include <wick/op.h>

WICK_OP(scale_bias, "x: T[*N, C], bias: T[C], scale: float = 1.0 -> y: T[*N, C]"
                    " where T: f16 bf16 f32 f64");

WICK_IMPL wick_status scale_bias_cpu(wick_ctx *ctx, const T *x, const T *bias, double scale, T *y,
                                     int64_t N, int64_t C)
{
    (void)ctx;
    for (int64_t n = 0; n < N; n++) {
        for (int64_t c = 0; c < C; c++) {
            y[n * C + c] = wick_T(wick_A(x[n * C + c]) * (A)scale + wick_A(bias[c]));
        }
    }
    return WICK_OK;
}
