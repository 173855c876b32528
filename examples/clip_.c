/* clip_ -- cuts the elements of x to [low, high], in place
 *
 * Some arguments only the operator itself can judge: wick_fail says so, and the caller gets an
 * exception.
 */
#include <wick/op.h>

WICK_OP(clip_, "x!: T[*N], low: float, high: float -> () where T: f32 f64");

WICK_IMPL wick_status clip__cpu(wick_ctx *ctx, T *x, double low, double high, int64_t N)
{
    if (!(low <= high))
        return wick_fail(ctx, WICK_EINVAL, "low is %g, expected at most high, %g", low, high);
    for (int64_t i = 0; i < N; i++) {
        if (x[i] < (T)low) x[i] = (T)low;
        if (x[i] > (T)high) x[i] = (T)high;
    }
    return WICK_OK;
}
