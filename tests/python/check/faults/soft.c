/* soft -- y = softmax(x) along the last dim, with the rows' logarithms of sums kept for the
 * gradient
 *
 * FAULT, a number, plants one of these; without it the file is sound:
 *
 *    1  forward    the sum is kept in T
 *    2  forward    the largest is not taken away first
 *    3  forward    the largest starts at 0
 *    4  forward    NaN counts for nothing
 *    5  forward    the next row is read where C is a multiple of 16
 *    6  forward    columns beyond 1024 are left out of the sum
 *    7  memory     scratch is not set before it is added to
 *    8  memory     scratch is written past its end
 *    9  memory     scratch is written before its start
 *   10  memory     of an empty row the logarithm is not written
 *   11  threads    rows share one piece of scratch
 *   12  threads    the sum is taken over what a thread has
 *   13  gradient   the sum over the row is left out
 *   14  gradient   dlse is ignored
 *   15  memory     dlse is taken for granted
 *   16  memory     dy is read as long as x is wide, twice
 *   17  forward    rows beyond 300 repeat the last one
 *   18  gradient   right only where C is even
 *   19  forward    lse is rounded to T
 *   20  gradient   wrong in f16: a product of two gradients overflows
 */
#include <wick/op.h>

#include <math.h>

#ifndef FAULT
#define FAULT 0
#endif

WICK_OP(soft, "x: T[*N, C] -> y: T[*N, C], lse: A[*N] where T: f16 f32 f64 scratch row: A[*N, C]");
WICK_OP(soft_backward, "dy?: T[*N, C], dlse?: A[*N], y: T[*N, C] -> dx: T[*N, C]");

typedef struct job {
    const T *x;
    T *y;
    A *lse, *row;
    int64_t C;
} job;

static A largest(const T *x, int64_t C)
{
    A most = FAULT == 3 || C == 0 ? 0 : wick_A(x[0]);
    for (int64_t c = 0; c < C; c++) {
        A v = wick_A(x[c]);
        if (v > most || (v != v && FAULT != 4)) most = v;
        if (most != most) break;
    }
    return most;
}

static void soft_row(const job *j, int64_t n)
{
    const T *x = j->x + (FAULT == 17 && n > 300 ? 300 : n) * j->C;
    A *row = j->row + (FAULT == 11 ? 0 : n * j->C);
    const A most = FAULT == 2 ? 0 : largest(x, j->C);
    A sum = 0;
    if (FAULT == 5 && j->C % 16 == 0 && n > 0) x = j->x;
    for (int64_t c = 0; c < j->C; c++) {
        A e = (A)exp((double)(wick_A(x[c]) - most));
        if (FAULT == 4 && e != e) e = 0;
        if (FAULT == 7) row[c] = 0 * row[c] + e;
        if (FAULT != 7) row[c] = e;
        if (FAULT == 6 && c >= 1024) continue;
        sum = FAULT == 1 ? wick_A(wick_T(sum + e)) : sum + e;
    }
    if (FAULT == 8) row[j->C] = 0;
    if (FAULT == 9) row[-1] = 0;
    for (int64_t c = 0; c < j->C; c++)
        j->y[n * j->C + c] = wick_T(row[c] / sum);
    if (FAULT == 10 && j->C == 0) return;
    A lse = isinf(most) ? most : most + (A)log((double)sum);
    j->lse[n] = j->C == 0 ? (A)-INFINITY : FAULT == 19 ? wick_A(wick_T(lse)) : lse;
}

static wick_status soft_rows(void *arg, int64_t begin, int64_t end)
{
    for (int64_t n = begin; n < end; n++)
        soft_row(arg, n);
#if FAULT == 12
    const job *j = arg;
    for (int64_t n = begin; n < end && j->C > 0; n++)
        j->y[n * j->C] = wick_T(wick_A(j->y[n * j->C]) + (A)(end - begin) / 1000);
#endif
    return WICK_OK;
}

WICK_IMPL wick_status soft_cpu(wick_ctx *ctx, const T *x, T *y, A *lse, A *row, int64_t N,
                               int64_t C)
{
    job j = {x, y, lse, row, C};
    return wick_parallel(ctx, N, 16, soft_rows, &j);
}

WICK_IMPL wick_status soft_backward_cpu(wick_ctx *ctx, const T *dy, const A *dlse, const T *y,
                                        T *dx, int64_t N, int64_t C)
{
    (void)ctx;
    for (int64_t n = 0; n < N; n++) {
        A sum = 0;
        const A *more = FAULT == 14 ? NULL : dlse;
        for (int64_t c = 0; c < C && dy; c++) {
            A p = wick_A(dy[n * C + c]) * wick_A(y[n * C + c]);
            if (FAULT == 20) p = wick_A(wick_T(p * 30000)) / 30000;
            sum += p;
        }
        if (FAULT == 13) sum = 0;
        if (FAULT == 18 && C % 2) sum *= (A)0.9;
        if (FAULT == 16 && dy && C > 2) (void)*(const volatile char *)(dy + n * C + 2 * C - 1);
        for (int64_t c = 0; c < C; c++) {
            A d = dy ? wick_A(dy[n * C + c]) : 0;
            if (FAULT == 15) d += dlse[n];
            if (FAULT != 15 && more) d += more[n];
            dx[n * C + c] = wick_T((d - sum) * wick_A(y[n * C + c]));
        }
    }
    return WICK_OK;
}
