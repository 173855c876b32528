/* blend_ -- x = x + a * (y - x), in place
 *
 * FAULT, a number, plants one of these; without it the file is sound:
 *
 *    1  forward    x is read after it was written
 *    2  memory     y is written as well
 *    3  forward    wrong where x and y are the same tensor
 *    4  memory     the element behind x is written
 *    5  forward    a is clamped to 1
 *    6  forward    nothing happens to a single element
 *    7  forward    wrong where x and y are the same tensor, and a is negative
 *    8  forward    where a is 0, zeros of y are taken over all the same
 *    9  forward    a is at least a half, where it is not 0
 */
#include <wick/op.h>

#ifndef FAULT
#define FAULT 0
#endif

WICK_OP(blend_, "x!: T[*N], y: T[*N], a: float = 0.5 -> () where T: bf16 f32");

WICK_IMPL wick_status blend__cpu(wick_ctx *ctx, T *x, const T *y, double a, int64_t N)
{
    const bool in_two_passes = FAULT == 3 || (FAULT == 7 && a < 0);
    A by = FAULT == 5 && a > 1 ? 1 : FAULT == 9 && a > 0 && a < 0.5 ? (A)0.5 : (A)a;
    (void)ctx;
    if (FAULT == 6 && N == 1) return WICK_OK;
    for (int64_t i = 0; i < N && in_two_passes; i++)
        x[i] = wick_T((1 - by) * wick_A(x[i]));
    for (int64_t i = 0; i < N; i++) {
        const A old = wick_A(x[FAULT == 1 && i > 0 ? i - 1 : i]);
        if (FAULT == 8 && a == 0 && wick_A(y[i]) == 0)
            x[i] = y[i];
        else if (in_two_passes)
            x[i] = wick_T(wick_A(x[i]) + by * wick_A(y[i]));
        else
            x[i] = wick_T(old + by * (wick_A(y[i]) - old));
    }
    if (FAULT == 2 && N > 0) ((T *)y)[0] = x[0];
    if (FAULT == 4) x[N] = wick_T(0);
    return WICK_OK;
}
