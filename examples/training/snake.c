/* snake -- y = x + sin(a x)^2 / a, with one a per column, which is trained
 *
 * An activation for what repeats itself. With s = sin(a x) and t = sin(2 a x):
 *
 *   dx = dy (1 + t)          da = sum over rows of dy (x t - s^2 / a) / a
 *
 * The names say the rest: snake_backward is the gradient of snake, dy is what arrives for y, and da
 * is skipped (NULL) where nobody needs it.
 */
#include <wick/op.h>

#include <math.h>

WICK_OP(snake, "x: T[*N, C], a: T[C] -> y: T[*N, C] where T: f32 f64");
WICK_OP(snake_backward, "dy: T[*N, C], x: T[*N, C], a: T[C] -> dx: T[*N, C], da?: T[C]");

WICK_IMPL wick_status snake_cpu(wick_ctx *ctx, const T *x, const T *a, T *y, int64_t N, int64_t C)
{
    (void)ctx;
    for (int64_t i = 0; i < N * C; i++) {
        double k = a[i % C], s = sin(k * x[i]);
        y[i] = (T)(x[i] + s * s / k);
    }
    return WICK_OK;
}

WICK_IMPL wick_status snake_backward_cpu(wick_ctx *ctx, const T *dy, const T *x, const T *a, T *dx,
                                         T *da, int64_t N, int64_t C)
{
    (void)ctx;
    for (int64_t c = 0; c < C; c++) {
        double k = a[c], sum = 0;
        for (int64_t i = c; i < N * C; i += C) {
            double s = sin(k * x[i]), t = sin(2 * k * x[i]);
            dx[i] = (T)(dy[i] * (1 + t));
            sum += dy[i] * (x[i] * t - s * s / k) / k;
        }
        if (da) da[c] = (T)sum;
    }
    return WICK_OK;
}
