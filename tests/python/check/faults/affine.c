/* affine -- y = x * w + b along the last dim, w and b optional; and where y is positive, if wanted
 *
 * FAULT, a number, plants one of these; without it the file is sound:
 *
 *    1  forward    b is ignored
 *    2  memory     w is taken for granted
 *    3  memory     mask is taken for granted
 *    4  memory     mask is not written for negative y
 *    5  forward    without w, b is ignored too
 *    6  gradient   dw is not summed over rows
 *    7  gradient   db is 0
 *    8  gradient   without w, dx is 0
 *    9  gradient   dw of the last row is left out
 *   10  forward    mask is 2 where y is positive
 *   11  gradient   without w, db is doubled
 *   12  forward    without w, columns beyond 256 are halved
 */
#include <wick/op.h>

#ifndef FAULT
#define FAULT 0
#endif

WICK_OP(affine,
        "x: T[*N, C], w?: T[C], b?: T[C] -> y: T[*N, C], mask?: u8[*N, C] where T: f32 f64");
WICK_OP(affine_backward, "dy: T[*N, C], x: T[*N, C], w?: T[C], b?: T[C]"
                         " -> dx: T[*N, C], dw?: T[C], db?: T[C]");

WICK_IMPL wick_status affine_cpu(wick_ctx *ctx, const T *x, const T *w, const T *b, T *y,
                                 uint8_t *mask, int64_t N, int64_t C)
{
    (void)ctx;
    for (int64_t i = 0; i < N * C; i++) {
        A v = wick_A(x[i]) * (w || FAULT == 2 ? wick_A(w[i % C]) : 1);
        if (b && FAULT != 1 && (w || FAULT != 5)) v += wick_A(b[i % C]);
        if (FAULT == 12 && !w && i % C >= 256) v /= 2;
        y[i] = wick_T(v);
        if (mask || FAULT == 3) {
            if (FAULT == 4 && !(v > 0)) continue;
            mask[i] = v > 0 ? (FAULT == 10 ? 2 : 1) : 0;
        }
    }
    return WICK_OK;
}

WICK_IMPL wick_status affine_backward_cpu(wick_ctx *ctx, const T *dy, const T *x, const T *w,
                                          const T *b, T *dx, T *dw, T *db, int64_t N, int64_t C)
{
    (void)ctx, (void)b;
    for (int64_t i = 0; i < N * C; i++)
        dx[i] = wick_T(wick_A(dy[i]) * (w ? wick_A(w[i % C]) : FAULT == 8 ? 0 : 1));
    for (int64_t c = 0; c < C; c++) {
        A sum_w = 0, sum_b = 0;
        for (int64_t n = 0; n < N - (FAULT == 9 && N > 1); n++) {
            A d = wick_A(dy[n * C + c]);
            sum_w = FAULT == 6 ? d * wick_A(x[n * C + c]) : sum_w + d * wick_A(x[n * C + c]);
            sum_b += d;
        }
        if (dw) dw[c] = wick_T(sum_w);
        if (db) db[c] = wick_T(FAULT == 7 ? 0 : FAULT == 11 && !w ? 2 * sum_b : sum_b);
    }
    return WICK_OK;
}
