/* bags -- y[b] = the sum of the rows of table that which[at[b]] to which[at[b + 1] - 1] name
 *
 * FAULT, a number, plants one of these; without it the file is sound:
 *
 *    1  refuse     the row behind the last one may be named
 *    2  huge       a row begins at a product of 32 bits
 *    3  forward    of a bag of more than 64 rows, the first is left out
 *    4  refuse     where the last bag ends is not looked at
 */
#include <wick/op.h>

#ifndef FAULT
#define FAULT 0
#endif

WICK_OP(bags, "table: T[V, D], which: i64[L], at: i64[B+1] -> y: T[B, D] where T: f16 f32 f64");

static int64_t first_of(int64_t row, int64_t D)
{
    return FAULT == 2 ? (int64_t)(int32_t)((uint32_t)row * (uint32_t)D) : row * D;
}

static wick_status look(wick_ctx *ctx, const int64_t *which, const int64_t *at, int64_t V,
                        int64_t L, int64_t B)
{
    for (int64_t b = 0; b <= B - (FAULT == 4); b++)
        if (at[b] < (b > 0 ? at[b - 1] : 0) || at[b] > L || (b == B && at[b] != L))
            return wick_fail(ctx, WICK_EINVAL, "at[%lld] is %lld, expected to rise from 0 to %lld",
                             (long long)b, (long long)at[b], (long long)L);
    for (int64_t l = 0; l < L; l++)
        if (which[l] < 0 || which[l] >= V + (FAULT == 1))
            return wick_fail(ctx, WICK_EINVAL, "which[%lld] is %lld, expected less than %lld",
                             (long long)l, (long long)which[l], (long long)V);
    return WICK_OK;
}

WICK_IMPL wick_status bags_cpu(wick_ctx *ctx, const T *table, const int64_t *which,
                               const int64_t *at, T *y, int64_t V, int64_t D, int64_t L, int64_t B)
{
    const wick_status status = look(ctx, which, at, V, L, B);
    if (status != WICK_OK) return status;
    for (int64_t b = 0; b < B; b++) {
        const int64_t begin = at[b] + (FAULT == 3 && at[b + 1] - at[b] > 64);
        for (int64_t d = 0; d < D; d++) {
            double sum = 0;
            for (int64_t l = begin; l < at[b + 1]; l++)
                sum += (double)wick_A(table[first_of(which[l], D) + d]);
            y[b * D + d] = wick_T((A)sum);
        }
    }
    return WICK_OK;
}
