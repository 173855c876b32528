/* spans -- y[b] = the sum of the first n[b] of x[b], weighted where there are weights; or per one
 * of them
 *
 * FAULT, a number, plants one of these; without it the file is sound:
 *
 *    1  forward    where all of a row counts, the last does not
 *    2  refuse     one more than there are may be counted
 *    3  forward    of five without weights, per one, the first counts twice
 *    4  forward    per one is per two
 */
#include <wick/op.h>

#include <string.h>

#ifndef FAULT
#define FAULT 0
#endif

WICK_OP(spans, "x: T[B, S], n: i64[B], w?: T[S], per: str = 'all' -> y: T[B]"
               " where T: f16 f32 f64");

WICK_IMPL wick_status spans_cpu(wick_ctx *ctx, const T *x, const int64_t *n, const T *w,
                                const char *per, T *y, int64_t B, int64_t S)
{
    const bool per_one = strcmp(per, "one") == 0;
    if (!per_one && strcmp(per, "all") != 0)
        return wick_fail(ctx, WICK_EINVAL, "per is '%s', expected 'all' or 'one'", per);
    for (int64_t b = 0; b < B; b++)
        if (n[b] < 0 || n[b] > S + (FAULT == 2))
            return wick_fail(ctx, WICK_EINVAL, "n[%lld] is %lld, expected 0 to %lld", (long long)b,
                             (long long)n[b], (long long)S);
    for (int64_t b = 0; b < B; b++, x += S) {
        const int64_t many = n[b] - (FAULT == 1 && n[b] == S && S > 1);
        double sum = 0;
        for (int64_t s = 0; s < many; s++)
            sum += (double)wick_A(x[s]) * (w ? (double)wick_A(w[s]) : 1);
        if (FAULT == 3 && many == 5 && !w && per_one) sum += (double)wick_A(x[0]);
        if (per_one && n[b] > 0) sum /= (double)n[b] * (FAULT == 4 ? 2 : 1);
        y[b] = wick_T((A)sum);
    }
    return WICK_OK;
}
