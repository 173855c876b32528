/* mean2 -- y = (a + b) / 2 for integers, rounded down
 *
 * FAULT, a number, plants one of these; without it the file is sound:
 *
 *    1  forward    the sum is kept in T
 *    2  forward    rounded towards 0: i32
 *    3  forward    i16 alone is wrong
 *    4  forward    wrong for equal a and b
 */
#include <wick/op.h>

#ifndef FAULT
#define FAULT 0
#endif

WICK_OP(mean2, "a: T[*N], b: T[*N] -> y: T[*N] where T: u8 i16 i32");

WICK_IMPL wick_status mean2_cpu(wick_ctx *ctx, const T *a, const T *b, T *y, int64_t N)
{
    (void)ctx;
    for (int64_t i = 0; i < N; i++) {
        A sum = FAULT == 1 ? (A)(T)(wick_A(a[i]) + wick_A(b[i])) : wick_A(a[i]) + wick_A(b[i]);
        A half = FAULT == 2 ? sum / 2 : (sum - (sum % 2 != 0 && sum < 0)) / 2;
        if (FAULT == 3 && WICK_T == 6 && i == 5) half = 0;
        if (FAULT == 4 && a[i] == b[i]) half = 0;
        y[i] = wick_T(half);
    }
    return WICK_OK;
}
