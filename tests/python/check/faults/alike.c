/* alike -- n = how many elements of a row are equal to the one before
 *
 * FAULT, a number, plants one of these; without it the file is sound:
 *
 *    1  forward    i64 are compared by their lower half
 *    2  forward    i32 are compared by their lower half
 *    3  forward    an i64 that is as large as the row is long is taken for the end
 *    4  leak       memory is lost where there is one element alone
 */
#include <wick/op.h>

#include <stdlib.h>

#ifndef FAULT
#define FAULT 0
#endif

WICK_OP(alike, "x: T[*N, C] -> n: i64[*N] where T: i32 i64");

static bool is_same(T a, T b, int64_t C)
{
    if (FAULT == 1) return (int32_t)a == (int32_t)b;
    if (FAULT == 2) return (int16_t)a == (int16_t)b;
    return a == b && !(FAULT == 3 && a == C);
}

WICK_IMPL wick_status alike_cpu(wick_ctx *ctx, const T *x, int64_t *n, int64_t N, int64_t C)
{
    static void *volatile lost;
    (void)ctx;
    if (FAULT == 4 && N * C == 1) lost = malloc(40);
    for (int64_t row = 0; row < N; row++, x += C) {
        n[row] = 0;
        for (int64_t c = 1; c < C; c++)
            n[row] += is_same(x[c], x[c - 1], C);
    }
    (void)lost;
    return WICK_OK;
}
