/* muladd -- y = a * b + c with a number c
 *
 * Bandwidth bound: a and b are read once and y written once, past the caches where y would not
 * stay in them. c is rounded to A; product and sum are taken in A, each rounded (no fused
 * multiply-add, so every CPU agrees to the bit), then once to T. NaN and infinities as in IEEE 754.
 */
#include <wick/op.h>

WICK_OP(muladd, "a: T[*N], b: T[*N], c: float -> y: T[*N] where T: f16 bf16 f32 f64");

enum { BLOCK = WICK_BLOCK_BYTES / sizeof(T), GRAIN = 32768 / BLOCK };

typedef struct job {
    const T *a, *b;
    A c;
    T *y;
    int64_t N;
    bool streaming;
} job;

/* Elements of the blocks [begin, end). Without streaming the result is its own buffer. */
static wick_status muladd_blocks(void *arg, int64_t begin, int64_t end)
{
    const job *j = (const job *)arg;
    const int64_t last = wick_min(end * BLOCK, j->N);
    const int64_t step = j->streaming ? BLOCK : last - begin * BLOCK;
    const A c = j->c;
    _Alignas(64) T buffer[BLOCK];

    for (int64_t i = begin * BLOCK; i < last; i += step) {
        const int64_t n = wick_min(step, last - i);
        const T *a = j->a + i, *b = j->b + i;
        T *to = j->streaming ? buffer : j->y + i;
        for (int64_t k = 0; k < n; k++)
            to[k] = wick_T(wick_A(a[k]) * wick_A(b[k]) + c);
        if (j->streaming) wick_write_block(j->y + i, buffer, n * (int64_t)sizeof(T), true);
    }
    wick_write_done(j->streaming);
    return WICK_OK;
}

WICK_IMPL wick_status muladd_cpu(wick_ctx *ctx, const T *a, const T *b, double c, T *y, int64_t N)
{
    job j = {a, b, (A)c, y, N, wick_worth_streaming(N * (int64_t)sizeof(T))};
    return wick_parallel(ctx, wick_ceil_div(N, BLOCK), GRAIN, muladd_blocks, &j);
}
