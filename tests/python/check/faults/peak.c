/* peak -- the largest of each row and where it is, NaN above all; x may lie in memory as it likes
 *
 * FAULT, a number, plants one of these; without it the file is sound:
 *
 *    1  forward    NaN is never the largest
 *    2  forward    of equal numbers the last is taken
 *    3  forward    the search begins with the smallest finite number
 *    4  forward    strides of columns are not looked at
 *    5  memory     rows lie one behind the other
 *    6  memory     it does not end for a single column
 *    7  forward    at is counted from the start of x
 *    8  forward    v and at are those of the row before in the last row
 *    9  forward    at is kept in 8 bits
 *   10  gradient   dx is not 0 elsewhere
 *   11  gradient   dx goes to the first column
 *   12  memory     dx is written only where it is not 0
 *   13  memory     it crashes without columns
 *   14  forward    rows of one column are NaN
 *   15  memory     the column behind the last is read
 *   16  forward    infinity is not the largest
 *   17  forward    at is kept in a float
 *   18  forward    0 is taken for more than -0
 */
#include <wick/op.h>

#include <float.h>
#include <math.h>

#ifndef FAULT
#define FAULT 0
#endif

WICK_OP(peak, "x: strided T[R, C] -> v: T[R], at: i64[R] where T: f16 f32 f64");
WICK_OP(peak_backward, "dv: T[R], at: i64[R], x: shape[R, C] -> dx: T[R, C]");

static bool above(A v, A best)
{
    if (FAULT == 1) return v > best;
    if (FAULT == 16 && isinf(v)) return false;
    if (v != v) return best == best;
    if (FAULT == 18 && v == best) return signbit(best) && !signbit(v);
    return FAULT == 2 ? v >= best : v > best;
}

WICK_IMPL wick_status peak_cpu(wick_ctx *ctx, const wick_view *x, T *v, int64_t *at, int64_t R,
                               int64_t C)
{
    const T *data = x->data;
    const int64_t down = FAULT == 5 ? C : x->stride[0], right = FAULT == 4 ? 1 : x->stride[1];
    if (C == 0 && R > 0 && FAULT != 13)
        return wick_fail(ctx, WICK_EINVAL, "a row of nothing has no largest");
    for (int64_t r = 0; r < R; r++) {
        int64_t best = 0;
        int64_t row = FAULT == 8 && r == R - 1 && r > 0 ? r - 1 : r;
        A most = wick_A(data[row * down]);
        if (FAULT == 3) most = (A)(sizeof(T) == 8 ? -DBL_MAX : -(double)FLT_MAX);
        if (FAULT == 3 && C > 0) most = (A)-65504;
        for (int64_t c = FAULT == 3 ? 0 : 1; c < C + (FAULT == 15); c++) {
            A here = wick_A(*(const volatile T *)(data + row * down + c * right));
            if (c < C && above(here, most)) most = here, best = c;
        }
#if FAULT == 6
        for (volatile int64_t k = 0; C == 1; k = !k) {
        }
#endif
        if (FAULT == 17) best = (int64_t)(float)best;
        if (FAULT == 14 && C == 1) most = (A)NAN;
        v[r] = wick_T(most);
        at[r] = FAULT == 7 ? r * C + best : FAULT == 9 ? (int64_t)(int8_t)best : best;
    }
    return WICK_OK;
}

WICK_IMPL wick_status peak_backward_cpu(wick_ctx *ctx, const T *dv, const int64_t *at, T *dx,
                                        int64_t R, int64_t C)
{
    (void)ctx;
    for (int64_t r = 0; r < R; r++)
        for (int64_t c = 0; c < C; c++) {
            bool here = c == (FAULT == 11 ? 0 : at[r]);
            if (FAULT == 12 && !here) continue;
            dx[r * C + c] = here || FAULT == 10 ? dv[r] : wick_T(0);
        }
    return WICK_OK;
}
