/* relu -- y = max(x, 0)
 *
 * Bandwidth bound: x is read once and y written once, past the caches where y would not stay in
 * them. Exact in every type. `v < 0 ? 0 : v` and not fmax, so that NaN stays NaN and -0.0 stays
 * -0.0, as in torch.relu.
 */
#include <wick/op.h>

WICK_OP(relu, "x: T[*N] -> y: T[*N] where T: f16 bf16 f32 f64");

enum { BLOCK = WICK_BLOCK_BYTES / sizeof(T), GRAIN = 32768 / BLOCK };

typedef struct job {
    const T *x;
    T *y;
    int64_t N;
    bool streaming;
} job;

/* Elements of the blocks [begin, end). Without streaming the result is its own buffer. */
static wick_status relu_blocks(void *arg, int64_t begin, int64_t end)
{
    const job *j = (const job *)arg;
    const int64_t last = wick_min(end * BLOCK, j->N);
    const int64_t step = j->streaming ? BLOCK : last - begin * BLOCK;
    _Alignas(64) T buffer[BLOCK];

    for (int64_t i = begin * BLOCK; i < last; i += step) {
        const int64_t n = wick_min(step, last - i);
        const T *x = j->x + i;
        T *to = j->streaming ? buffer : j->y + i;
        for (int64_t k = 0; k < n; k++) {
            const A v = wick_A(x[k]);
            to[k] = wick_T(v < 0 ? 0 : v);
        }
        if (j->streaming) wick_write_block(j->y + i, buffer, n * (int64_t)sizeof(T), true);
    }
    wick_write_done(j->streaming);
    return WICK_OK;
}

WICK_IMPL wick_status relu_cpu(wick_ctx *ctx, const T *x, T *y, int64_t N)
{
    job j = {x, y, N, wick_worth_streaming(N * (int64_t)sizeof(T))};
    return wick_parallel(ctx, wick_ceil_div(N, BLOCK), GRAIN, relu_blocks, &j);
}
