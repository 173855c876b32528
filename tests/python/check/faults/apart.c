/* apart -- distances between the rows of x and those of y; what goes wrong at the edge of a formula
 *
 * FAULT, a number, plants one of these; without it the file is sound:
 *
 *    1  gradient   rows that are equal get 0 / 0
 *    2  forward    of no columns the largest difference is -inf
 *    3  forward    where x and y are the same tensor, only the upper half is written
 *    4  gradient   l1: what y gets has the sign of what x gets
 *    5  forward    l1: NaN is left out
 *    6  forward    a row is taken to be 0 from itself without looking, NaN or not
 */
#include <wick/op.h>

#include <math.h>

#ifndef FAULT
#define FAULT 0
#endif

WICK_OP(apart, "x: T[M, D], y: T[N, D], p: 'l1'|'l2'|'most' = 'l2' -> d: T[M, N] where T: f32 f64");
WICK_OP(apart_backward, "dd: T[M, N], x: T[M, D], y: T[N, D], d: T[M, N], p: 'l1'|'l2'|'most'"
                        " -> dx: T[M, D], dy: T[N, D] scratch sx: f64[M, D], sy: f64[N, D]");

static double distance(const T *x, const T *y, int64_t D, int p)
{
    if (FAULT == 6 && x == y) return 0;
    double sum = FAULT == 2 && p == WICK_p_most ? -INFINITY : 0;
    for (int64_t i = 0; i < D; i++) {
        const double a = fabs((double)x[i] - (double)y[i]);
        if (p == WICK_p_most && (a > sum || a != a))
            sum = a;
        else if (p == WICK_p_l2)
            sum += a * a;
        else if (p == WICK_p_l1 && !(FAULT == 5 && a != a))
            sum += a;
        if (sum != sum) return sum;
    }
    return p == WICK_p_l2 ? sqrt(sum) : sum;
}

WICK_IMPL wick_status apart_cpu(wick_ctx *ctx, const T *x, const T *y, int p, T *d, int64_t M,
                                int64_t D, int64_t N)
{
    (void)ctx;
    for (int64_t m = 0; m < M; m++)
        for (int64_t n = FAULT == 3 && x == y && M == N ? m : 0; n < N; n++)
            d[m * N + n] = (T)distance(x + m * D, y + n * D, D, p);
    return WICK_OK;
}

/* The derivative by a coordinate of x; ties: how many coordinates are furthest apart. */
static double slope(double a, double d, int p, int64_t ties)
{
    const double sign = a > 0 ? 1 : a < 0 ? -1 : 0;
    if (p == WICK_p_l1) return sign;
    if (p == WICK_p_l2) return d == 0 && FAULT != 1 ? 0 : a / d;
    return d != d ? d : fabs(a) == d ? sign / (double)ties : 0;
}

WICK_IMPL wick_status apart_backward_cpu(wick_ctx *ctx, const T *dd, const T *x, const T *y,
                                         const T *d, int p, T *dx, T *dy, double *sx, double *sy,
                                         int64_t M, int64_t N, int64_t D)
{
    (void)ctx, (void)d;
    for (int64_t i = 0; i < M * D; i++)
        sx[i] = 0;
    for (int64_t i = 0; i < N * D; i++)
        sy[i] = 0;
    for (int64_t m = 0; m < M; m++)
        for (int64_t n = 0; n < N; n++) {
            const T *u = x + m * D, *v = y + n * D;
            const double g = (double)dd[m * N + n], far = distance(u, v, D, p);
            int64_t ties = 0;
            for (int64_t i = 0; i < D; i++)
                ties += fabs((double)u[i] - (double)v[i]) == far;
            for (int64_t i = 0; i < D; i++) {
                const double s = g * slope((double)u[i] - (double)v[i], far, p, ties);
                sx[m * D + i] += s;
                sy[n * D + i] -= FAULT == 4 && p == WICK_p_l1 ? -s : s;
            }
        }
    for (int64_t i = 0; i < M * D; i++)
        dx[i] = (T)sx[i];
    for (int64_t i = 0; i < N * D; i++)
        dy[i] = (T)sy[i];
    return WICK_OK;
}
