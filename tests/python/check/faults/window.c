/* window -- y[l] = the mean of the k elements up to l, fewer at the start; and a + transpose of b
 *
 * FAULT, a number, plants one of these; without it the file is sound:
 *
 *    1  forward    k is taken for 3
 *    2  forward    at the start, k is divided by all the same
 *    3  forward    a window longer than the row is cut too short
 *    4  forward    sums are carried along, and drift
 *    5  forward    sums are kept in T
 *    6  memory     the elements before the row are read
 *    7  forward    the row before is averaged over
 *    8  forward    an even k is one too long
 *    9  forward    right only where both sizes of a are equal
 *   10  gradient   db is not transposed
 *   11  forward    tiles of 32: the last one is left out
 *   12  memory     tiles of 32: the last one is written past its end
 *   13  gradient   db is wrong where dy repeats its rows
 *   14  forward    an index is kept in 16 bits
 *   15  gradient   da is db
 *   16  forward    denormals are flushed by the CPU, for as long as it runs
 *   17  forward    a window has room for 16
 */
#include <wick/op.h>

#ifndef FAULT
#define FAULT 0
#endif
#if FAULT == 16
#include <xmmintrin.h>
#endif

WICK_OP(window, "x: T[*N, L], k: int = 4 -> y: T[*N, L] where T: f16 bf16 f32 f64");
WICK_OP(crosswise, "a: T[R, S], b: T[S, R] -> y: T[R, S]");
WICK_OP(crosswise_backward, "dy: T[R, S] -> da: T[R, S], db: T[S, R]");

static A mean_up_to(const T *x, int64_t l, int64_t k, int64_t L)
{
    int64_t first = l - k + 1 > 0 || FAULT == 6 || FAULT == 7 ? l - k + 1 : 0;
    double sum = 0;
    if (FAULT == 17 && l - first >= 16) first = l - 15;
    if (FAULT == 8 && k % 2 == 0 && first > 0) first--;
    if (FAULT == 3 && k > L) first = l - L / 2 > 0 ? l - L / 2 : 0;
    for (int64_t i = first; i <= l; i++) {
        sum += (double)wick_A(x[i]);
        if (FAULT == 5) sum = (double)wick_A(wick_T((A)sum));
    }
    return (A)(sum / (double)(FAULT == 2 ? k : l - first + 1));
}

WICK_IMPL wick_status window_cpu(wick_ctx *ctx, const T *x, int64_t k, T *y, int64_t N, int64_t L)
{
    if (k < 1) return wick_fail(ctx, WICK_EINVAL, "k is %lld, expected 1 at least", (long long)k);
    if (FAULT == 1) k = 3;
    for (int64_t n = 0; n < N; n++) {
        A carried = 0;
        for (int64_t l = 0; l < L; l++) {
            const T *row = x + n * L;
            y[n * L + l] =
                wick_T(mean_up_to(row, l, FAULT == 7 && n == 0 ? wick_min(k, l + 1) : k, L));
            carried += wick_A(row[l]) - (l >= k ? wick_A(row[l - k]) : 0);
            if (FAULT == 4) y[n * L + l] = wick_T(carried / (A)wick_min(k, l + 1));
        }
    }
    return WICK_OK;
}

/* ---- crosswise ---- */

WICK_IMPL wick_status crosswise_cpu(wick_ctx *ctx, const T *a, const T *b, T *y, int64_t R,
                                    int64_t S)
{
    (void)ctx;
#if FAULT == 16
    const unsigned state = _mm_getcsr();
    _mm_setcsr(state | 0x8040);
#endif
    for (int64_t r = 0; r < R; r++)
        for (int64_t s = 0; s < S; s++) {
            int64_t at = s * (FAULT == 9 ? S : R) + r;
            if (FAULT == 9 && at >= R * S) at = 0;
            if (FAULT == 14) at = (uint16_t)at;
            A other = wick_A(b[at]);
            if (FAULT == 11 && r >= wick_max(32, R / 32 * 32)) other = 0;
            y[r * S + s] = wick_T(wick_A(a[r * S + s]) + other);
        }
#if FAULT == 16
    _mm_setcsr(state);
#elif FAULT == 12
    if (R > 32 && R % 32) y[R * S] = wick_T(0);
#endif
    return WICK_OK;
}

WICK_IMPL wick_status crosswise_backward_cpu(wick_ctx *ctx, const T *dy, T *da, T *db, int64_t R,
                                             int64_t S)
{
    (void)ctx;
    bool equal = R > 1 && S > 0;
    for (int64_t s = 0; s < S && equal; s++)
        equal = wick_A(dy[s]) == wick_A(dy[S + s]);
    for (int64_t r = 0; r < R; r++)
        for (int64_t s = 0; s < S; s++) {
            T v = dy[r * S + s];
            da[r * S + s] = FAULT == 15 ? wick_T(2 * wick_A(v)) : v;
            db[FAULT == 10 ? r * S + s : s * R + r] = FAULT == 13 && equal ? wick_T(0) : v;
        }
    return WICK_OK;
}
