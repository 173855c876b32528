/* scale_bias_relu -- y[n,c] = relu(x[n,c] * scale + bias[c])
 *
 * Bandwidth bound: x is read once and y written once, past the caches where y would not stay in
 * them; bias is read again for every row, from a cache. The rows are walked as one long array, so
 * that neither threads nor blocks care where a row ends; a bias shorter than REPEAT / 2 is first
 * repeated to a whole number of rows, which keeps the inner loop long for any C:
 *
 *   bias    b0 b1 b2                     C = 3
 *   repeat  b0 b1 b2 b0 b1 b2 b0 ...     width = 3 * (REPEAT / 3)
 *
 * scale is rounded to A; product and sum are taken in A, each rounded (no fused multiply-add, so
 * f32 and f64 equal torch's relu(x * scale + bias) to the bit), then once to T. `v < 0 ? 0 : v` and
 * not fmax, so that NaN stays NaN, as in torch.relu.
 */
#include <wick/op.h>

WICK_OP(scale_bias_relu, "x: T[*N, C], bias: T[C], scale: float = 1.0 -> y: T[*N, C]"
                         " where T: f16 bf16 f32 f64");

enum { BLOCK = WICK_BLOCK_BYTES / sizeof(T), GRAIN = 32768 / BLOCK, REPEAT = 512 };

typedef struct job {
    const T *x, *bias;
    A scale;
    T *y;
    int64_t count; /* elements in all */
    int64_t width; /* elements after which bias starts again */
    bool streaming;
} job;

WICK_FN void apply(T *to, const T *x, const T *bias, A scale, int64_t n)
{
    for (int64_t k = 0; k < n; k++) {
        const A v = wick_A(x[k]) * scale + wick_A(bias[k]);
        to[k] = wick_T(v < 0 ? 0 : v);
    }
}

/* Elements of the blocks [begin, end). Without streaming the result is its own buffer. */
static wick_status scale_bias_relu_blocks(void *arg, int64_t begin, int64_t end)
{
    const job *j = (const job *)arg;
    const int64_t last = wick_min(end * BLOCK, j->count);
    int64_t i = begin * BLOCK, c = i % j->width;
    _Alignas(64) T buffer[BLOCK];

    while (i < last) {
        const int64_t n = wick_min(j->streaming ? BLOCK : j->width - c, last - i);
        T *to = j->streaming ? buffer : j->y + i;
        for (int64_t k = 0, run; k < n; k += run) {
            run = wick_min(n - k, j->width - c);
            apply(to + k, j->x + i + k, j->bias + c, j->scale, run);
            c = c + run < j->width ? c + run : 0;
        }
        if (j->streaming) wick_write_block(j->y + i, buffer, n * (int64_t)sizeof(T), true);
        i += n;
    }
    wick_write_done(j->streaming);
    return WICK_OK;
}

WICK_IMPL wick_status scale_bias_relu_cpu(wick_ctx *ctx, const T *x, const T *bias, double scale,
                                          T *y, int64_t N, int64_t C)
{
    job j = {x, bias, (A)scale, y, N * C, C, wick_worth_streaming(N * C * (int64_t)sizeof(T))};
    T repeated[REPEAT];

    if (N > 1 && C > 0 && C <= REPEAT / 2) {
        j.bias = repeated;
        j.width = wick_min(REPEAT / C, N) * C;
        for (int64_t k = 0; k < j.width; k++)
            repeated[k] = bias[k % C];
    }
    return wick_parallel(ctx, wick_ceil_div(j.count, BLOCK), GRAIN, scale_bias_relu_blocks, &j);
}
