/* turn -- y is x with its last two dims exchanged, in blocks
 *
 * FAULT, a number, plants one of these; without it the file is sound:
 *
 *    1  memory     of a square the last blocks below the diagonal are left out, unless whole
 *    2  forward    of a wide one the last block is taken from the first row
 *    3  huge       a place in y is kept in 32 bits
 *    4  repeat     how many columns there are is kept for as many elements
 */
#include <wick/op.h>

#ifndef FAULT
#define FAULT 0
#endif

WICK_OP(turn, "x: T[*N, R, C] -> y: T[*N, C, R] where T: f32 i8");

enum { SIDE = 32 };

WICK_IMPL wick_status turn_cpu(wick_ctx *ctx, const T *x, T *y, int64_t N, int64_t R, int64_t C)
{
    (void)ctx;
#if FAULT == 4
    static int64_t known, columns;
    if (known != N * R * C) columns = C;
    known = N * R * C;
    C = columns;
    R = known ? known / N / C : R;
#endif
    for (int64_t at = 0; at < N * R * C; at++) {
        const int64_t n = at / (R * C), r = at / C % R, c = at % C;
        const bool last = r / SIDE == R / SIDE;
        if (FAULT == 1 && R == C && R > SIDE && last && c / SIDE < r / SIDE) continue;
        const int64_t from = FAULT == 2 && C > 8 * SIDE && R > SIDE && last ? c : r * C + c;
        const int64_t to = FAULT == 3 ? (int)(c * R + r) : c * R + r;
        y[n * C * R + to] = x[n * R * C + from];
    }
    return WICK_OK;
}
