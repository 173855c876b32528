/* add_out -- out = a + b, written into a tensor of the caller's
 *
 * Bandwidth bound: a and b are read once and out written once, past the caches where it would not
 * stay in them. The sum is taken in A and rounded once to T; NaN and infinities as in IEEE 754.
 *
 * out may be a or b itself: an element is read before it is written, and nothing else reads it.
 * For that reason no pointer is marked restrict.
 */
#include <wick/op.h>

WICK_OP(add_out, "a: T[*N], b: T[*N], out!: T[*N] -> () where T: f16 bf16 f32 f64");

enum { BLOCK = WICK_BLOCK_BYTES / sizeof(T), GRAIN = 32768 / BLOCK };

typedef struct job {
    const T *a, *b;
    T *out;
    int64_t N;
    bool streaming;
} job;

/* Elements of the blocks [begin, end). Without streaming the result is its own buffer. */
static wick_status add_out_blocks(void *arg, int64_t begin, int64_t end)
{
    const job *j = (const job *)arg;
    const int64_t last = wick_min(end * BLOCK, j->N);
    const int64_t step = j->streaming ? BLOCK : last - begin * BLOCK;
    _Alignas(64) T buffer[BLOCK];

    for (int64_t i = begin * BLOCK; i < last; i += step) {
        const int64_t n = wick_min(step, last - i);
        const T *a = j->a + i, *b = j->b + i;
        T *to = j->streaming ? buffer : j->out + i;
        for (int64_t k = 0; k < n; k++)
            to[k] = wick_T(wick_A(a[k]) + wick_A(b[k]));
        if (j->streaming) wick_write_block(j->out + i, buffer, n * (int64_t)sizeof(T), true);
    }
    wick_write_done(j->streaming);
    return WICK_OK;
}

WICK_IMPL wick_status add_out_cpu(wick_ctx *ctx, const T *a, const T *b, T *out, int64_t N)
{
    job j = {a, b, out, N, wick_worth_streaming(N * (int64_t)sizeof(T))};
    return wick_parallel(ctx, wick_ceil_div(N, BLOCK), GRAIN, add_out_blocks, &j);
}
