/* squash -- y = sigmoid(scale * x + bias), bias along the last dimension; and its gradient
 *
 * FAULT, a number, plants one of these; without it the file is sound:
 *
 *    1  forward    columns of bias beyond 64 begin anew
 *    2  forward    bias runs along the rows
 *    3  forward    rows beyond 300 are those of the row before
 *    4  forward    in bf16 alone, columns beyond a multiple of 8 are left as they are
 *    5  forward    the first result is wrong where x begins at a multiple of 64 and y does not
 *    6  forward    the last result is wrong where their number is a multiple of 16
 *    7  memory     the element before bias is read
 *    8  forward    in f64 alone, the exponential of large numbers overflows
 *    9  forward    an approximation that is off by a thousandth
 *   10  forward    a negative scale is taken for a positive one
 *   11  forward    a scale of 0 is taken for 1
 *   13  gradient   dx is not multiplied by scale
 *   14  gradient   dx is wrong where x is negative
 *   15  gradient   rows beyond 1024 are left out of dbias
 *   16  gradient   dbias is summed in T
 *   17  memory     dbias is taken to be wanted
 *   18  memory     without rows, dbias is not written
 *   19  leak       denormals are flushed from the first call on
 *   20  leak       numbers are rounded upwards from the first call on
 *   21  leak       the locale is another afterwards
 *   22  leak       a signal is ignored afterwards
 *   23  forward    a prime number of columns is refused
 *   24  memory     a row of numbers is kept on the stack
 *   25  leak       memory is lost by every piece of a loop but the first
 *   26  threads    pieces add to one dbias
 *   27  repeat     wrong from the 500th call on
 *   28  leak       a file stays open when a call is refused
 *   29  memory     aligned stores into y because x is aligned
 *   30  forward    NaN is the smallest number
 *   31  leak       the current folder is another afterwards
 *   32  leak       a signal is blocked afterwards
 *   33  repeat     the time is looked at
 *   34  forward    without bias, scale is ignored
 *   35  forward    the exponential is taken in f32 where T is f64
 *   36  forward    bf16 is cut off, not rounded
 *   37  gradient   dbias is of the first row alone where dy repeats its rows
 *   38  forward    only the first of several leading dims is counted
 *   39  leak       a variable of the environment is set
 */
#define _GNU_SOURCE 1
#include <wick/op.h>

#include <fcntl.h>
#include <fenv.h>
#include <locale.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#ifndef FAULT
#define FAULT 0
#endif
#if FAULT == 19 || FAULT == 29
#include <xmmintrin.h>
#endif

WICK_OP(squash, "x: T[*N, C], bias?: T[C], scale: float = 1.0 -> y: T[*N, C]"
                " where T: f16 bf16 f32 f64");
WICK_OP(squash_backward, "dy: T[*N, C], x: T[*N, C], bias?: T[C], scale: float"
                         " -> dx: T[*N, C], dbias?: T[C]");

enum { ROWS = 16, IS_BF16 = WICK_T == 2, IS_F64 = sizeof(T) == 8 };

static A sigmoid(A v)
{
    if (FAULT == 8 && IS_F64) return (A)(exp((double)v) / (1 + exp((double)v)));
    if (FAULT == 35) return (A)(1 / (1 + expf(-(float)v)));
    if (FAULT == 30) v = (A)fmax((double)v, -1e30);
    return (A)((1 / (1 + exp(-(double)v))) * (FAULT == 9 ? 1.001 : 1));
}

static T rounded(A v)
{
#if FAULT == 36
    union {
        float f;
        uint16_t u[2];
    } bits = {.f = (float)v};
    if (IS_BF16 && v == v) bits.u[0] = 0;
    if (IS_BF16) return wick_T((A)bits.f);
#endif
    return wick_T(v);
}

typedef struct job {
    const T *x, *bias, *dy;
    T *y;
    A scale;
    int64_t N, C;
    A *volatile sums;
} job;

static wick_status squash_rows(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
#if FAULT == 25
    void *volatile lost = begin > 0 ? malloc(50) : NULL;
    (void)lost;
#endif
    for (int64_t n = begin; n < end; n++) {
        const T *x = j->x + (FAULT == 3 && n > 300 ? 300 : n) * j->C;
        T *y = j->y + n * j->C;
        int64_t last = FAULT == 4 && IS_BF16 ? j->C / 8 * 8 : j->C;
#if FAULT == 24
        A row[j->C + 1];
        for (int64_t c = 0; c < j->C; c++)
            row[c] = wick_A(x[c]);
        volatile A *kept = row;
        (void)kept[0];
#endif
        for (int64_t c = 0; c < j->C; c++) {
            int64_t k = FAULT == 1 && c >= 64 ? c % 64 : FAULT == 2 ? n % j->C : c;
            A b = j->bias ? wick_A(j->bias[k]) : 0;
            A scale = FAULT == 34 && !j->bias ? 1 : j->scale;
            y[c] = c < last ? rounded(sigmoid(scale * wick_A(x[c]) + b)) : x[c];
        }
    }
    return WICK_OK;
}

#if FAULT == 23
static bool is_prime(int64_t n)
{
    for (int64_t k = 2; k * k <= n; k++)
        if (n % k == 0) return false;
    return n > 1;
}
#endif

static wick_status plant_before(wick_ctx *ctx, job *j)
{
    (void)ctx, (void)j;
#if FAULT == 7
    if (j->bias) (void)*(const volatile T *)(j->bias - 1);
#elif FAULT == 19
    _mm_setcsr(_mm_getcsr() | 0x8040);
#elif FAULT == 20
    fesetround(FE_UPWARD);
#elif FAULT == 21
    setlocale(LC_NUMERIC, "C.UTF-8");
#elif FAULT == 22
    signal(SIGPIPE, SIG_IGN);
    signal(SIGUSR2, SIG_IGN);
#elif FAULT == 23
    if (is_prime(j->C)) return wick_fail(ctx, WICK_EINVAL, "C is %d", (int)j->C);
#elif FAULT == 27
    static int calls;
    if (++calls > 500) j->scale += 1;
#elif FAULT == 31
    if (chdir("/usr") != 0) return WICK_EIO;
#elif FAULT == 32
    sigset_t some;
    sigemptyset(&some);
    sigaddset(&some, SIGUSR1);
    sigprocmask(SIG_BLOCK, &some, NULL);
#elif FAULT == 33
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    j->scale += (A)(t.tv_nsec % 7);
#elif FAULT == 38
    if (j->N > 3 && j->N % 3 == 0) j->N /= 3;
#elif FAULT == 39
    setenv("SQUASH", "1", 1);
#endif
    return WICK_OK;
}

static void plant_after(job *j)
{
    const int64_t total = j->N * j->C;
    (void)total;
#if FAULT == 5
    if (total && (uintptr_t)j->x % 64 == 0 && (uintptr_t)j->y % 64) j->y[0] = wick_T(7);
#elif FAULT == 6
    if (total && total % 16 == 0) j->y[total - 1] = wick_T(0);
#elif FAULT == 29
    if (total >= 8 && (uintptr_t)j->x % 16 == 0) {
        float *to = (float *)j->y;
        _mm_stream_ps(to, _mm_loadu_ps(to));
    }
#elif FAULT == 38
    for (int64_t i = total; i < total * 3 && j->N > 1; i++)
        j->y[i] = wick_T(0);
#endif
}

WICK_IMPL wick_status squash_cpu(wick_ctx *ctx, const T *x, const T *bias, double scale, T *y,
                                 int64_t N, int64_t C)
{
    A factor = (A)scale;
    if (FAULT == 10) factor = factor < 0 ? -factor : factor;
    if (FAULT == 11 && scale == 0) factor = 1;
    job j = {.x = x, .bias = bias, .y = y, .scale = factor, .N = N, .C = C};
#if FAULT == 28
    int fd = open("/dev/null", O_RDONLY);
#endif
    if (!(scale < 1e200)) return wick_fail(ctx, WICK_EINVAL, "scale is %g, expected less", scale);
#if FAULT == 28
    close(fd);
#endif
    wick_status status = plant_before(ctx, &j);
    if (status == WICK_OK) status = wick_parallel(ctx, j.N, ROWS, squash_rows, &j);
    if (status == WICK_OK) plant_after(&j);
    return status;
}

/* ---- the gradient ---- */

static A slope(const job *j, int64_t i)
{
    A v = j->scale * wick_A(j->x[i]) + (j->bias ? wick_A(j->bias[i % j->C]) : 0);
    double y = 1 / (1 + exp(-(double)v));
    if (FAULT == 14 && v < 0) y = 0.25;
    return (A)((double)wick_A(j->dy[i]) * y * (1 - y));
}

/* Columns [begin, end): each has its own sum. */
static wick_status sum_columns(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    int64_t rows = FAULT == 15 ? wick_min(j->N, 1024) : j->N;
#if FAULT == 37
    if (j->N > 1 && j->C && wick_A(j->dy[0]) == wick_A(j->dy[(j->N - 1) * j->C])) rows = 1;
#endif
    for (int64_t c = begin; c < end; c++) {
        double sum = 0;
        for (int64_t n = 0; n < rows; n++) {
            sum += (double)slope(j, n * j->C + c);
            if (FAULT == 16) sum = (double)wick_A(wick_T((A)sum));
            if (FAULT == 26) j->sums[0] += slope(j, n * j->C + c);
        }
        if (FAULT != 18 || j->N) j->y[c] = wick_T((A)sum);
    }
    return WICK_OK;
}

WICK_IMPL wick_status squash_backward_cpu(wick_ctx *ctx, const T *dy, const T *x, const T *bias,
                                          double scale, T *dx, T *dbias, int64_t N, int64_t C)
{
    A total = 0;
    job j = {.x = x,
             .bias = bias,
             .dy = dy,
             .y = dbias,
             .scale = (A)scale,
             .N = N,
             .C = C,
             .sums = &total};
    for (int64_t i = 0; i < N * C; i++)
        dx[i] = wick_T(slope(&j, i) * (FAULT == 13 ? 1 : j.scale));
    if (!dbias && FAULT != 17) return WICK_OK;
    wick_status status = wick_parallel(ctx, C, 1, sum_columns, &j);
    if (FAULT == 26 && C > 0) dbias[0] = wick_T(wick_A(dbias[0]) + 0 * total + (total == 77));
    if (FAULT == 26 && C > 1) dbias[1] = wick_T(wick_A(dbias[1]) + (total - total));
    if (FAULT == 26 && C > 2) dbias[2] = wick_T(total);
    return status;
}
