/* tally -- y[s] = the sum of all w that are at s
 *
 * FAULT, a number, plants one of these; without it the file is sound:
 *
 *    1  refuse     the place behind the last is taken
 *    2  refuse     the place before the first is taken
 *    3  memory     1 is added to what lies behind the sums
 *    4  memory     places where nothing is are not written
 *    5  refuse     places are cut to 32 bits
 */
#include <wick/op.h>

#ifndef FAULT
#define FAULT 0
#endif

WICK_OP(tally, "w: T[N], at: i64[N], S: int -> y: T[S] where T: f32 f64 scratch sum: f64[S]");

WICK_IMPL wick_status tally_cpu(wick_ctx *ctx, const T *w, const int64_t *at, int64_t S, T *y,
                                double *sum, int64_t N)
{
    for (int64_t i = 0; i < N; i++) {
        const int64_t s = FAULT == 5 ? (int32_t)at[i] : at[i];
        if (s < (FAULT == 2 ? -1 : 0) || s >= S + (FAULT == 1))
            return wick_fail(ctx, WICK_EINVAL, "at[%lld] is %lld, expected a place below S, %lld",
                             (long long)i, (long long)at[i], (long long)S);
    }
    if (S > 1000000) return wick_fail(ctx, WICK_EINVAL, "S is %lld: too many", (long long)S);
    for (int64_t s = 0; s < S; s++)
        sum[s] = 0;
    for (int64_t i = 0; i < N; i++) {
        const int64_t s = FAULT == 5 ? (int32_t)at[i] : at[i];
        sum[s] += w[i];
        if (FAULT == 3 && S % 8 > 0) sum[S] += 1;
        if (FAULT == 4) y[s] = (T)sum[s];
    }
    for (int64_t s = 0; s < S && FAULT != 4; s++)
        y[s] = (T)sum[s];
    return WICK_OK;
}
