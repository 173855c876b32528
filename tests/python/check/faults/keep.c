/* keep -- y = x * w in the rows that a mask keeps, 0 in the others
 *
 * FAULT, a number, plants one of these; without it the file is sound:
 *
 *    1  forward    rows that are left out are multiplied by 0: NaN stays
 *    2  gradient   dw has the rows that are left out
 *    3  memory     dx is not written in rows that are left out
 *    4  gradient   NaN in w does not reach dx
 */
#include <wick/op.h>

#ifndef FAULT
#define FAULT 0
#endif

WICK_OP(keep, "x: T[N, C], mask: bool[N], w: T[C] -> y: T[N, C] where T: bf16 f32 f64");
WICK_OP(keep_backward, "dy: T[N, C], x: T[N, C], mask: bool[N], w: T[C] -> dx: T[N, C], dw: T[C]"
                       " scratch sum: A[C]");

WICK_IMPL wick_status keep_cpu(wick_ctx *ctx, const T *x, const bool *mask, const T *w, T *y,
                               int64_t N, int64_t C)
{
    (void)ctx;
    for (int64_t n = 0; n < N; n++, x += C, y += C)
        for (int64_t c = 0; c < C; c++) {
            const A product = wick_A(x[c]) * wick_A(w[c]);
            y[c] = wick_T(mask[n] ? product : FAULT == 1 ? 0 * product : 0);
        }
    return WICK_OK;
}

WICK_IMPL wick_status keep_backward_cpu(wick_ctx *ctx, const T *dy, const T *x, const bool *mask,
                                        const T *w, T *dx, T *dw, A *sum, int64_t N, int64_t C)
{
    (void)ctx;
    for (int64_t c = 0; c < C; c++)
        sum[c] = 0;
    for (int64_t n = 0; n < N; n++, dy += C, x += C, dx += C)
        for (int64_t c = 0; c < C; c++) {
            const A by = wick_A(w[c]);
            if (mask[n] || FAULT == 2) sum[c] += wick_A(dy[c]) * wick_A(x[c]);
            if (mask[n])
                dx[c] = wick_T(FAULT == 4 && by != by ? 0 : wick_A(dy[c]) * by);
            else if (FAULT != 3)
                dx[c] = wick_T(0);
        }
    for (int64_t c = 0; c < C; c++)
        dw[c] = wick_T(sum[c]);
    return WICK_OK;
}
