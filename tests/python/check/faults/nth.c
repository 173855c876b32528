/* nth -- the k-th of each row, its sign turned once for every '-' of signs; and the row's largest
 *
 * FAULT, a number, plants one of these; without it the file is sound:
 *
 *    1  memory     k may be the number of columns, which the reference refuses
 *    2  memory     a division by k, which is 0 by default
 *    3  memory     the letter behind the end of signs is read
 *    4  forward    where the largest is not wanted, NaN becomes 0
 *    5  forward    the largest is taken for wanted where the k-th is the last
 *    6  memory     it does not come to an end for a k that the reference refuses
 */
#include <wick/op.h>

#include <string.h>

#ifndef FAULT
#define FAULT 0
#endif

WICK_OP(nth, "x: T[*N, S], k: int = 0, signs: str = '+-' -> y: T[*N], most?: T[*N]"
             " where T: f16 f32 f64");

static int turns_of(const char *signs)
{
    int turns = 0;
    for (size_t i = 0, n = strlen(signs); i < n; i++) {
        turns += signs[i] == '-';
        if (FAULT == 3 && i == n - 1 && ((const volatile char *)signs)[n + 1] == '-') turns++;
    }
    return turns;
}

static T largest(const T *row, int64_t S)
{
    int64_t best = 0;
    for (int64_t s = 1; s < S; s++) {
        const A v = wick_A(row[s]), top = wick_A(row[best]);
        if (top == top && (v > top || v != v)) best = s;
    }
    return row[best];
}

WICK_IMPL wick_status nth_cpu(wick_ctx *ctx, const T *x, int64_t k, const char *signs, T *y,
                              T *most, int64_t N, int64_t S)
{
    if (FAULT == 6)
        for (volatile int64_t i = 0; i != k;)
            if (k <= S) i = k;
    if (k < 0 || k >= S + (FAULT == 1))
        return wick_fail(ctx, WICK_EINVAL, "k is %lld, expected 0 to %lld", (long long)k,
                         (long long)S - 1);
    const int64_t every = FAULT == 2 ? S / *(volatile int64_t *)&k : 1;
    const A sign = turns_of(signs) % 2 ? -1 : 1;
    for (int64_t n = 0; n < N && every >= 0; n++) {
        const A v = wick_A(x[n * S + k]);
        y[n] = wick_T(FAULT == 4 && !most && v != v ? 0 : sign * v);
        if (most || (FAULT == 5 && k == S - 1 && k > 0))
            (most ? most : y)[n] = largest(x + n * S, S);
    }
    return WICK_OK;
}
