/* convrnn_forward -- a recurrence with a convolution, ported from TORCH_LIBRARY
 *
 * h[s] = tanh(x[s] + h[s-1] * kernel), where * is a convolution of width 3 with zeros beyond the
 * ends, and h[-1] is hidden. Each batch is independent and is a piece of the parallel loop.
 */
#include <wick/op.h>

#include <math.h>

WICK_NAMESPACE(extension_cpp);

WICK_OP(convrnn_forward, "x: T[B, S, N], kernel: T[1, 1, 3], hidden: T[B, N] -> y: T[B, S, N]"
                         " where T: f32 f64");

typedef struct work {
    const T *x, *kernel, *hidden;
    T *y;
    int64_t S, N;
} work;

WICK_FN void step(const T *x, const T *k, const T *h, T *y, int64_t N)
{
    for (int64_t n = 0; n < N; n++) {
        T left = n > 0 ? h[n - 1] : 0, right = n + 1 < N ? h[n + 1] : 0;
        y[n] = (T)tanh((double)(x[n] + k[0] * left + k[1] * h[n] + k[2] * right));
    }
}

WICK_FN wick_status batches(void *arg, int64_t begin, int64_t end)
{
    const work *w = arg;
    int64_t S = w->S, N = w->N;
    for (int64_t b = begin; b < end; b++) {
        const T *h = w->hidden + b * N;
        for (int64_t s = 0; s < S; s++) {
            T *y = w->y + (b * S + s) * N;
            step(w->x + (b * S + s) * N, w->kernel, h, y, N);
            h = y;
        }
    }
    return WICK_OK;
}

WICK_IMPL wick_status convrnn_forward_cpu(wick_ctx *ctx, const T *x, const T *kernel,
                                          const T *hidden, T *y, int64_t B, int64_t S, int64_t N)
{
    work w = {x, kernel, hidden, y, S, N};
    return wick_parallel(ctx, B, 1, batches, &w);
}
