/* sections -- y[s] = the mean of the rows of x from at[s] to at[s + 1], 0 of none
 *
 * FAULT, a number, plants one of these; without it the file is sound:
 *
 *    1  forward    rows of one element are summed, not averaged
 *    2  forward    of each section of more than 16 rows, the last is left out
 *    3  refuse     sections may begin before the first row
 *    4  refuse     sections may end one behind the last row
 *    5  refuse     where they begin and end is looked at in 32 bits
 *    6  memory     the mean of no rows is not written
 *    7  huge       a row begins at a product of 32 bits
 *    8  gradient   the gradient is that of a sum
 *    9  huge       a row of the gradient begins at a product of 32 bits
 */
#include <wick/op.h>

#ifndef FAULT
#define FAULT 0
#endif

WICK_OP(sections, "x: T[M, C], at: U[S+1] -> y: T[S, C] where T: f16 f32 f64, U: i32 i64");
/* Its dims have other names: C is how many rows there are. */
WICK_OP(sections_backward, "dy: T[P, Q], at: U[P+1], x: shape[C, Q] -> dx: T[C, Q]");

static int64_t place(const U *at, int64_t s) { return FAULT == 5 ? (int32_t)at[s] : at[s]; }

static int64_t first_of(int64_t row, int64_t C)
{
    return FAULT == 7 ? (int64_t)(int32_t)((uint32_t)row * (uint32_t)C) : row * C;
}

static void average(const T *x, int64_t begin, int64_t end, T *y, int64_t C)
{
    const int64_t left_out = FAULT == 2 && end - begin > 16;
    const double by = FAULT == 1 && C == 1 ? 1 : (double)(end - begin);
    for (int64_t c = 0; c < C; c++) {
        double sum = 0;
        for (int64_t m = begin; m < end - left_out; m++)
            sum += (double)wick_A(x[first_of(m, C) + c]);
        if (end > begin || FAULT != 6) y[c] = wick_T(end > begin ? (A)(sum / by) : 0);
    }
}

WICK_IMPL wick_status sections_cpu(wick_ctx *ctx, const T *x, const U *at, T *y, int64_t M,
                                   int64_t C, int64_t S)
{
    for (int64_t s = 0; s <= S; s++) {
        const int64_t lowest = s > 0 ? place(at, s - 1) : FAULT == 3 ? INT64_MIN : 0;
        if (place(at, s) < lowest || place(at, s) > M + (FAULT == 4))
            return wick_fail(ctx, WICK_EINVAL, "at[%lld] is %lld, expected %lld to %lld",
                             (long long)s, (long long)at[s], (long long)lowest, (long long)M);
    }
    for (int64_t s = 0; s < S; s++)
        average(x, at[s], at[s + 1], y + s * C, C);
    return WICK_OK;
}

WICK_IMPL wick_status sections_backward_cpu(wick_ctx *ctx, const T *dy, const U *at, T *dx,
                                            int64_t P, int64_t Q, int64_t C)
{
    (void)ctx;
    memset(dx, 0, (size_t)(C * Q) * sizeof(T));
    for (int64_t p = 0; p < P; p++) {
        const double by = FAULT == 8 ? 1 : (double)(at[p + 1] - at[p]);
        for (int64_t row = at[p]; row < at[p + 1]; row++) {
            T *to = dx + (FAULT == 9 ? (int64_t)(uint32_t)(row * Q * 2) / 2 : row * Q);
            for (int64_t q = 0; q < Q; q++)
                to[q] = wick_T((A)((double)wick_A(dy[p * Q + q]) / by));
        }
    }
    return WICK_OK;
}
