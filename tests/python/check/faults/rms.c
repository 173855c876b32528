/* rms -- y = w * x / rms(x) over the last dimension, and r = 1 / rms(x)
 *
 * FAULT, a number, plants one of these; without it the file is sound:
 *
 *    1  forward    squares are summed in T
 *    2  forward    squares are rounded to T: they overflow in f16
 *    3  forward    eps is added outside of the root
 *    4  forward    eps is ignored
 *    5  forward    one too few is divided by
 *    6  forward    in f16 alone, columns beyond 2048 do not count
 *    7  forward    the root is taken in 32 bits where T is f64
 *    8  memory     it does not end for a single column
 *    9  memory     it divides by the number of columns as an integer
 *   10  gradient   the sum over the row is left out
 *   11  gradient   dw is of the last row alone
 *   12  gradient   dr is ignored
 *   13  memory     the element behind scratch is read
 *   14  memory     the last element of scratch is read, but not written
 *   15  forward    the default of eps is another
 *   16  gradient   dw is not multiplied by r
 *   17  forward    r is that of the row before from row 100 on
 *   18  forward    inf is not a number
 *   19  memory     w is scaled, and put back
 *   20  threads    a row is written by the thread before as well
 */
#include <wick/op.h>

#include <math.h>

#ifndef FAULT
#define FAULT 0
#endif

WICK_OP(rms, "x: T[*N, C], w: T[C], eps: float = 1e-2 -> y: T[*N, C], r: A[*N]"
             " where T: f16 bf16 f32 f64 scratch sums: f64[*N]");
WICK_OP(rms_backward, "dy: T[*N, C], dr?: A[*N], x: T[*N, C], w: T[C], r: A[*N]"
                      " -> dx: T[*N, C], dw: T[C]");

static double square(T x)
{
    A v = wick_A(x);
    if (FAULT == 2) return (double)wick_A(wick_T(v * v));
    return (double)v * (double)v;
}

static double sum_of_squares(const T *x, int64_t C)
{
    double sum = 0;
    int64_t last = FAULT == 6 && WICK_T == 1 ? wick_min(C, 2048) : C;
    for (int64_t c = 0; c < last; c++) {
        sum += square(x[c]);
        if (FAULT == 1) sum = (double)wick_A(wick_T((A)sum));
    }
    return FAULT == 18 && isinf(sum) ? (double)NAN : sum;
}

typedef struct job {
    const T *x, *w;
    T *y;
    A *r;
    double *sums, eps;
    int64_t N, C;
} job;

static A reciprocal(const job *j, double sum)
{
    double mean = sum / (double)(FAULT == 5 && j->C > 1 ? j->C - 1 : j->C);
    if (FAULT == 9) mean = sum / (double)(1000 / j->C * j->C) * (double)(1000 / j->C);
    if (FAULT == 7) return (A)(1.0F / sqrtf((float)(mean + j->eps)));
    if (FAULT == 3) return (A)(1 / (sqrt(mean) + j->eps));
    return (A)(1 / sqrt(mean + (FAULT == 4 ? 0 : j->eps)));
}

static wick_status rms_rows(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    for (int64_t n = begin; n < end; n++) {
        const T *x = j->x + n * j->C;
        T *y = j->y + n * j->C;
        if (FAULT != 14 || n + 1 < j->N) j->sums[n] = sum_of_squares(x, j->C);
        A r = reciprocal(j, j->sums[n]);
        for (int64_t c = 0; c < j->C; c++)
            y[c] = wick_T(wick_A(x[c]) * r * wick_A(j->w[c]));
        j->r[n] = FAULT == 17 && n >= 100 ? j->r[n - 1] : r;
#if FAULT == 20
        if (n + 1 == end && end < j->N && j->C > 0) y[j->C] = wick_T(0);
#endif
    }
    return WICK_OK;
}

WICK_IMPL wick_status rms_cpu(wick_ctx *ctx, const T *x, const T *w, double eps, T *y, A *r,
                              double *sums, int64_t N, int64_t C)
{
    job j = {x, w, y, r, sums, FAULT == 15 && eps == 1e-2 ? 1e-5 : eps, N, C};
#if FAULT == 8
    for (volatile int64_t k = 0; C == 1; k = !k) {
    }
#elif FAULT == 19
    volatile T *own = (volatile T *)(uintptr_t)w;
    if (C > 0) {
        T kept = w[0];
        own[0] = wick_T(1);
        own[0] = kept;
    }
#endif
    wick_status status = wick_parallel(ctx, N, 4, rms_rows, &j);
#if FAULT == 13
    (void)*(volatile double *)(sums + N + 8);
#endif
    return status;
}

/* ---- the gradient ---- */

WICK_IMPL wick_status rms_backward_cpu(wick_ctx *ctx, const T *dy, const A *dr, const T *x,
                                       const T *w, const A *r, T *dx, T *dw, int64_t N, int64_t C)
{
    (void)ctx;
    for (int64_t n = 0; n < N; n++) {
        const int64_t at = n * C;
        double sum = dr && FAULT != 12 ? (double)dr[n] : 0;
        for (int64_t c = 0; c < C; c++)
            sum += (double)wick_A(dy[at + c]) * (double)wick_A(w[c]) * (double)wick_A(x[at + c]);
        if (FAULT == 10) sum = 0;
        double factor = sum * (double)r[n] * (double)r[n] * (double)r[n] / (double)C;
        for (int64_t c = 0; c < C; c++)
            dx[at + c] =
                wick_T((A)((double)r[n] * (double)wick_A(dy[at + c]) * (double)wick_A(w[c]) -
                           factor * (double)wick_A(x[at + c])));
    }
    for (int64_t c = 0; c < C; c++) {
        double sum = 0;
        for (int64_t n = FAULT == 11 && N ? N - 1 : 0; n < N; n++)
            sum += (double)wick_A(dy[n * C + c]) * (double)wick_A(x[n * C + c]) *
                   (FAULT == 16 ? 1 : (double)r[n]);
        dw[c] = wick_T((A)sum);
    }
    return WICK_OK;
}
