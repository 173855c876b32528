/* mul -- y = a * b
 *
 * Bandwidth bound: a and b are read once and y written once, past the caches where y would not
 * stay in them. The product is taken in A and rounded once to T; NaN and infinities as in IEEE 754.
 */
#include <wick/op.h>

WICK_OP(mul, "a: T[*N], b: T[*N] -> y: T[*N] where T: f16 bf16 f32 f64");

enum { BLOCK = WICK_BLOCK_BYTES / sizeof(T), GRAIN = 32768 / BLOCK };

typedef struct job {
    const T *a, *b;
    T *y;
    int64_t N;
    bool streaming;
} job;

/* Elements of the blocks [begin, end). Without streaming the result is its own buffer. */
static wick_status mul_blocks(void *arg, int64_t begin, int64_t end)
{
    const job *j = (const job *)arg;
    const int64_t last = wick_min(end * BLOCK, j->N);
    const int64_t step = j->streaming ? BLOCK : last - begin * BLOCK;
    _Alignas(64) T buffer[BLOCK];

    for (int64_t i = begin * BLOCK; i < last; i += step) {
        const int64_t n = wick_min(step, last - i);
        const T *a = j->a + i, *b = j->b + i;
        T *to = j->streaming ? buffer : j->y + i;
        for (int64_t k = 0; k < n; k++)
            to[k] = wick_T(wick_A(a[k]) * wick_A(b[k]));
        if (j->streaming) wick_write_block(j->y + i, buffer, n * (int64_t)sizeof(T), true);
    }
    wick_write_done(j->streaming);
    return WICK_OK;
}

WICK_IMPL wick_status mul_cpu(wick_ctx *ctx, const T *a, const T *b, T *y, int64_t N)
{
    job j = {a, b, y, N, wick_worth_streaming(N * (int64_t)sizeof(T))};
    return wick_parallel(ctx, wick_ceil_div(N, BLOCK), GRAIN, mul_blocks, &j);
}
