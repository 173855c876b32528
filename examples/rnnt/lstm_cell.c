/* lstm_cell -- the pointwise half of an LSTM step, forward and backward
 *
 *   i, f, g, o = gates             c = sigmoid(f) * c0 + sigmoid(i) * tanh(g)
 *                                  h = sigmoid(o) * tanh(c)
 *
 * The matrix products stay in torch. The backward computes the activations again instead of saving
 * them: four transcendental functions cost less than reading four more tensors.
 */
#include <wick/op.h>

#include <math.h>

WICK_NAMESPACE(rnnt_ext);

WICK_OP(lstm_cell, "gates: T[B, 4*H], c0: T[B, H] -> h: T[B, H], c: T[B, H] where T: f32 f64");

WICK_OP(lstm_cell_backward, "dh: T[B, H], dc: T[B, H], gates: T[B, 4*H], c0: T[B, H], c: T[B, H]"
                            " -> dgates: T[B, 4*H], dc0: T[B, H]");

enum { THREADS = 256 };

WICK_FN A sigmoid(A v) { return 1 / (1 + (A)exp((double)-v)); }
WICK_FN A tangent(A v) { return (A)tanh((double)v); }

/* Column k of a row, in which four gates lie side by side. */
WICK_FN void step(const T *row, T c0, T *h, T *c, int64_t k, int64_t H)
{
    A i = sigmoid(row[k]), f = sigmoid(row[H + k]);
    A g = tangent(row[2 * H + k]), o = sigmoid(row[3 * H + k]);
    *c = f * c0 + i * g;
    *h = o * tangent(*c);
}

WICK_FN void step_back(T dh, T dc, const T *row, T c0, T c, T *drow, T *dc0, int64_t k, int64_t H)
{
    A i = sigmoid(row[k]), f = sigmoid(row[H + k]);
    A g = tangent(row[2 * H + k]), o = sigmoid(row[3 * H + k]), t = tangent(c);
    A d = dc + dh * o * (1 - t * t);
    drow[k] = d * g * i * (1 - i);
    drow[H + k] = d * c0 * f * (1 - f);
    drow[2 * H + k] = d * i * (1 - g * g);
    drow[3 * H + k] = dh * t * o * (1 - o);
    *dc0 = d * f;
}

WICK_IMPL wick_status lstm_cell_cpu(wick_ctx *ctx, const T *gates, const T *c0, T *h, T *c,
                                    int64_t B, int64_t H)
{
    (void)ctx;
    for (int64_t at = 0; at < B * H; at++)
        step(gates + at / H * 4 * H, c0[at], h + at, c + at, at % H, H);
    return WICK_OK;
}

WICK_IMPL wick_status lstm_cell_backward_cpu(wick_ctx *ctx, const T *dh, const T *dc,
                                             const T *gates, const T *c0, const T *c, T *dgates,
                                             T *dc0, int64_t B, int64_t H)
{
    (void)ctx;
    for (int64_t at = 0; at < B * H; at++) {
        const int64_t row = at / H * 4 * H;
        step_back(dh[at], dc[at], gates + row, c0[at], c[at], dgates + row, dc0 + at, at % H, H);
    }
    return WICK_OK;
}

static __global__ void step_kernel(const T *gates, const T *c0, T *h, T *c, int64_t B, int64_t H)
{
    const int64_t at = wick_thread();
    if (at < B * H) step(gates + at / H * 4 * H, c0[at], h + at, c + at, at % H, H);
}

WICK_IMPL wick_status lstm_cell_cuda(wick_ctx *ctx, const T *gates, const T *c0, T *h, T *c,
                                     int64_t B, int64_t H)
{
    return WICK_LAUNCH(ctx, step_kernel, wick_1d(wick_ceil_div(B * H, THREADS)), wick_1d(THREADS),
                       0, gates, c0, h, c, B, H);
}

static __global__ void step_back_kernel(const T *dh, const T *dc, const T *gates, const T *c0,
                                        const T *c, T *dgates, T *dc0, int64_t B, int64_t H)
{
    const int64_t at = wick_thread(), row = at / H * 4 * H;
    if (at >= B * H) return;
    step_back(dh[at], dc[at], gates + row, c0[at], c[at], dgates + row, dc0 + at, at % H, H);
}

WICK_IMPL wick_status lstm_cell_backward_cuda(wick_ctx *ctx, const T *dh, const T *dc,
                                              const T *gates, const T *c0, const T *c, T *dgates,
                                              T *dc0, int64_t B, int64_t H)
{
    return WICK_LAUNCH(ctx, step_back_kernel, wick_1d(wick_ceil_div(B * H, THREADS)),
                       wick_1d(THREADS), 0, dh, dc, gates, c0, c, dgates, dc0, B, H);
}
