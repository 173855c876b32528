/* bend -- y = by * |x|, or by * x * x where mode is 1
 *
 * FAULT, a number, plants one of these; without it the file is sound:
 *
 *    1  forward    beyond 4096 elements mode is 1
 *    2  forward    beyond 100000 elements by is ignored
 */
#include <wick/op.h>

#ifndef FAULT
#define FAULT 0
#endif

WICK_OP(bend, "x: T[N], mode: int = 1, by: float = 1.0 -> y: T[N] where T: f32 f64");

WICK_IMPL wick_status bend_cpu(wick_ctx *ctx, const T *x, int64_t mode, double by, T *y, int64_t N)
{
    if (mode != 0 && mode != 1)
        return wick_fail(ctx, WICK_EINVAL, "mode is %lld, expected 0 or 1", (long long)mode);
    if (FAULT == 1 && N > 4096) mode = 1;
    if (FAULT == 2 && N > 100000) by = 1;
    for (int64_t i = 0; i < N; i++) {
        const A v = wick_A(x[i]);
        y[i] = wick_T((A)by * (mode ? v * v : v < 0 ? -v : v));
    }
    return WICK_OK;
}
