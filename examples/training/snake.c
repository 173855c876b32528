/* snake -- y = x + sin(a x)^2 / a, with one a per column, which is trained
 *
 * An activation for what repeats itself. With s = sin(a x) and t = sin(2 a x):
 *
 *   dx = dy (1 + t)          da = sum over rows of dy (x t - s^2 / a) / a
 *
 * The names say the rest: snake_backward is the gradient of snake, dy is what arrives for y, and da
 * is skipped (NULL) where nobody needs it. A column's sum has one order, on the CPU and on the GPU,
 * where a thread has a column.
 */
#include <wick/op.h>

#include <math.h>

WICK_OP(snake, "x: T[*N, C], a: T[C] -> y: T[*N, C] where T: f32 f64");
WICK_OP(snake_backward, "dy: T[*N, C], x: T[*N, C], a: T[C] -> dx: T[*N, C], da?: T[C]");

enum { THREADS = 128 };

WICK_FN T snake_of(double x, double a)
{
    double s = sin(a * x);
    return (T)(x + s * s / a);
}

/* Down one column: dx, and da. */
WICK_FN double go_back(const T *dy, const T *x, double a, T *dx, int64_t N, int64_t C)
{
    double sum = 0;
    for (int64_t i = 0; i < N * C; i += C) {
        double s = sin(a * x[i]), t = sin(2 * a * x[i]);
        dx[i] = (T)(dy[i] * (1 + t));
        sum += dy[i] * (x[i] * t - s * s / a) / a;
    }
    return sum;
}

WICK_IMPL wick_status snake_cpu(wick_ctx *ctx, const T *x, const T *a, T *y, int64_t N, int64_t C)
{
    (void)ctx;
    for (int64_t i = 0; i < N * C; i++)
        y[i] = snake_of(x[i], a[i % C]);
    return WICK_OK;
}

WICK_IMPL wick_status snake_backward_cpu(wick_ctx *ctx, const T *dy, const T *x, const T *a, T *dx,
                                         T *da, int64_t N, int64_t C)
{
    (void)ctx;
    for (int64_t c = 0; c < C; c++) {
        double sum = go_back(dy + c, x + c, a[c], dx + c, N, C);
        if (da) da[c] = (T)sum;
    }
    return WICK_OK;
}

static __global__ void snake_kernel(const T *x, const T *a, T *y, int64_t N, int64_t C)
{
    for (int64_t i = wick_thread(); i < N * C; i += wick_threads())
        y[i] = snake_of(x[i], a[i % C]);
}

WICK_IMPL wick_status snake_cuda(wick_ctx *ctx, const T *x, const T *a, T *y, int64_t N, int64_t C)
{
    wick_dim3 grid =
        wick_1d(wick_min(wick_ceil_div(N * C, THREADS), 8 * wick_multiprocessors(ctx)));
    return WICK_LAUNCH(ctx, snake_kernel, grid, wick_1d(THREADS), 0, x, a, y, N, C);
}

static __global__ void snake_backward_kernel(const T *dy, const T *x, const T *a, T *dx, T *da,
                                             int64_t N, int64_t C)
{
    const int64_t c = wick_thread();
    if (c >= C) return;
    double sum = go_back(dy + c, x + c, a[c], dx + c, N, C);
    if (da) da[c] = (T)sum;
}

WICK_IMPL wick_status snake_backward_cuda(wick_ctx *ctx, const T *dy, const T *x, const T *a, T *dx,
                                          T *da, int64_t N, int64_t C)
{
    return WICK_LAUNCH(ctx, snake_backward_kernel, wick_1d(wick_ceil_div(C, THREADS)),
                       wick_1d(THREADS), 0, dy, x, a, dx, da, N, C);
}
