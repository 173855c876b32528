/* plane -- y = 2 x, in order, of x in whatever order; and the same again into total, in place
 *
 * FAULT, a number, plants one of these; without it the file is sound:
 *
 *    1  forward    where the last two dims lie swapped, the first plane is taken for all
 *    2  forward    where the first two dims lie swapped, they are mixed up
 *    3  huge       an element of y has a place of 32 bits
 */
#include <wick/op.h>

#ifndef FAULT
#define FAULT 0
#endif

WICK_OP(plane, "x: strided T[L, R, C], total!: T[C] -> y: T[L, R, C] where T: f32 f64");

WICK_IMPL wick_status plane_cpu(wick_ctx *ctx, const wick_view *x, T *total, T *y, int64_t L,
                                int64_t R, int64_t C)
{
    const int64_t *by = x->stride;
    const bool last = R > 1 && C > 1 && by[1] == 1 && by[2] == R;
    const bool first = L > 1 && R > 1 && by[2] == 1 && by[0] == C && by[1] == L * C;
    (void)ctx;
    for (int64_t l = 0; l < L; l++)
        for (int64_t r = 0; r < R; r++)
            for (int64_t c = 0; c < C; c++) {
                const int64_t from = FAULT == 1 && last ? 0 : FAULT == 2 && first ? r % L : l;
                const int64_t at = (l * R + r) * C + c;
                const A v = 2 * wick_A(WICK_AT(const T, x, from, r, c));
                y[FAULT == 3 ? (int64_t)(int32_t)at : at] = wick_T(v);
            }
    for (int64_t c = 0; c < C; c++)
        total[c] = wick_T(2 * wick_A(total[c]));
    return WICK_OK;
}
