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

WICK_FN A sigmoid(A v) { return 1 / (1 + (A)exp((double)-v)); }
WICK_FN A tangent(A v) { return (A)tanh((double)v); }

WICK_IMPL wick_status lstm_cell_cpu(wick_ctx *ctx, const T *gates, const T *c0, T *h, T *c,
                                    int64_t B, int64_t H)
{
    (void)ctx;
    for (int64_t b = 0; b < B; b++) {
        const T *row = gates + b * 4 * H;
        for (int64_t k = 0; k < H; k++) {
            A i = sigmoid(row[k]), f = sigmoid(row[H + k]);
            A g = tangent(row[2 * H + k]), o = sigmoid(row[3 * H + k]);
            A next = f * c0[b * H + k] + i * g;
            c[b * H + k] = next;
            h[b * H + k] = o * tangent(next);
        }
    }
    return WICK_OK;
}

WICK_IMPL wick_status lstm_cell_backward_cpu(wick_ctx *ctx, const T *dh, const T *dc,
                                             const T *gates, const T *c0, const T *c, T *dgates,
                                             T *dc0, int64_t B, int64_t H)
{
    (void)ctx;
    for (int64_t b = 0; b < B; b++) {
        const T *row = gates + b * 4 * H;
        T *drow = dgates + b * 4 * H;
        for (int64_t k = 0; k < H; k++) {
            int64_t at = b * H + k;
            A i = sigmoid(row[k]), f = sigmoid(row[H + k]);
            A g = tangent(row[2 * H + k]), o = sigmoid(row[3 * H + k]), t = tangent(c[at]);
            A d = dc[at] + dh[at] * o * (1 - t * t);
            drow[k] = d * g * i * (1 - i);
            drow[H + k] = d * c0[at] * f * (1 - f);
            drow[2 * H + k] = d * i * (1 - g * g);
            drow[3 * H + k] = dh[at] * t * o * (1 - o);
            dc0[at] = d * f;
        }
    }
    return WICK_OK;
}
