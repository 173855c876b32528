/* scale_bias_relu -- y[n,c] = relu(x[n,c] * scale + bias[c])
 *
 * Bandwidth bound: x is read once and y written once, past the caches where y would not stay in
 * them; bias is read again for every row, from a cache. The rows are walked as one long array, so
 * that neither threads nor blocks care where a row ends. A bias shorter than REPEAT / 2 is first
 * repeated to a whole number of rows, so that a block meets the end of the bias at most once, and
 * seldom; its part of the bias is then put together from both ends:
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

enum { BLOCK = WICK_BLOCK, GRAIN = 32768 / BLOCK, REPEAT = 1024 };

typedef struct job {
    const T *x, *bias;
    A scale;
    T *y;
    int64_t count; /* elements in all */
    int64_t width; /* elements after which bias starts again */
    bool streaming;
} job;

WICK_INLINE void scale_bias_relu_block(const T *x, const T *bias, A scale, T *y, int64_t n,
                                       bool streaming)
{
    A room_x[BLOCK], room_bias[BLOCK], room_y[BLOCK];
    const A *x_A = wick_read_block(room_x, x, n);
    const A *bias_A = wick_read_block(room_bias, bias, n);
    A *y_A = wick_room_for(room_y, y, streaming);
    for (int64_t k = 0; k < n; k++) {
        const A v = x_A[k] * scale + bias_A[k];
        y_A[k] = v < 0 ? 0 : v;
    }
    wick_write_block(y, y_A, n, streaming);
}

/* Elements of the blocks [begin, end). */
static wick_status scale_bias_relu_blocks(void *arg, int64_t begin, int64_t end)
{
    const job j = *(const job *)arg;
    const int64_t last = wick_min(end * BLOCK, j.count);
    int64_t c = begin * BLOCK % j.width;
    T joined[BLOCK];

    for (int64_t i = begin * BLOCK; i < last; i += BLOCK) {
        const int64_t n = wick_min(BLOCK, last - i), over = c + n - j.width;
        const T *bias = j.bias + c;
        if (over > 0) {
            memcpy(joined, bias, (size_t)(n - over) * sizeof(T));
            memcpy(joined + n - over, j.bias, (size_t)over * sizeof(T));
            bias = joined;
        }
        c = over < 0 ? c + n : over;
        if (n == BLOCK)
            scale_bias_relu_block(j.x + i, bias, j.scale, j.y + i, BLOCK, j.streaming);
        else
            scale_bias_relu_block(j.x + i, bias, j.scale, j.y + i, n, j.streaming);
    }
    wick_write_done(j.streaming);
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
