/* mul -- y = a * b
 *
 * Bandwidth bound: a and b are read once and y written once, past the caches where y would not
 * stay in them. The product is taken in A and rounded once to T; NaN and infinities as in IEEE 754.
 * The gradients are products too: da = dy * b, db = dy * a.
 */
#include <wick/op.h>

WICK_OP(mul, "a: T[*N], b: T[*N] -> y: T[*N] where T: f16 bf16 f32 f64");
WICK_OP(mul_backward, "dy: T[*N], a: T[*N], b: T[*N] -> da?: T[*N], db?: T[*N]");

enum { BLOCK = WICK_BLOCK, GRAIN = 32768 / BLOCK };

typedef struct job {
    const T *a, *b;
    T *y;
    int64_t N;
    bool streaming;
} job;

WICK_INLINE void mul_block(const T *a, const T *b, T *y, int64_t n, bool streaming)
{
    A room_a[BLOCK], room_b[BLOCK], room_y[BLOCK];
    const A *a_A = wick_read_block(room_a, a, n);
    const A *b_A = wick_read_block(room_b, b, n);
    A *y_A = wick_room_for(room_y, y, streaming);
    for (int64_t k = 0; k < n; k++)
        y_A[k] = a_A[k] * b_A[k];
    wick_write_block(y, y_A, n, streaming);
}

/* Elements of the blocks [begin, end). */
static wick_status mul_blocks(void *arg, int64_t begin, int64_t end)
{
    const job j = *(const job *)arg;
    const int64_t last = wick_min(end * BLOCK, j.N);
    int64_t i = begin * BLOCK;

    for (; i + BLOCK <= last; i += BLOCK)
        mul_block(j.a + i, j.b + i, j.y + i, BLOCK, j.streaming);
    if (i < last) mul_block(j.a + i, j.b + i, j.y + i, last - i, j.streaming);
    wick_write_done(j.streaming);
    return WICK_OK;
}

WICK_IMPL wick_status mul_cpu(wick_ctx *ctx, const T *a, const T *b, T *y, int64_t N)
{
    job j = {a, b, y, N, wick_worth_streaming(N * (int64_t)sizeof(T))};
    return wick_parallel(ctx, wick_ceil_div(N, BLOCK), GRAIN, mul_blocks, &j);
}

/* ---- the gradient ---- */

typedef struct backward_job {
    const T *dy, *a, *b;
    T *da, *db; /* NULL where nobody wants it */
    int64_t N;
    bool streaming;
} backward_job;

WICK_FN void multiply(const T *a, const T *b, T *y, int64_t n, bool streaming)
{
    if (n == BLOCK)
        mul_block(a, b, y, BLOCK, streaming);
    else
        mul_block(a, b, y, n, streaming);
}

/* dy is read twice, the second time from the nearest cache. */
static wick_status mul_backward_blocks(void *arg, int64_t begin, int64_t end)
{
    const backward_job j = *(const backward_job *)arg;
    const int64_t last = wick_min(end * BLOCK, j.N);

    for (int64_t i = begin * BLOCK; i < last; i += BLOCK) {
        const int64_t n = wick_min(BLOCK, last - i);
        if (j.da) multiply(j.dy + i, j.b + i, j.da + i, n, j.streaming);
        if (j.db) multiply(j.dy + i, j.a + i, j.db + i, n, j.streaming);
    }
    wick_write_done(j.streaming);
    return WICK_OK;
}

WICK_IMPL wick_status mul_backward_cpu(wick_ctx *ctx, const T *dy, const T *a, const T *b, T *da,
                                       T *db, int64_t N)
{
    const int64_t written = N * (int64_t)sizeof(T) * ((da != NULL) + (db != NULL));
    backward_job j = {dy, a, b, da, db, N, wick_worth_streaming(written)};
    return wick_parallel(ctx, wick_ceil_div(N, BLOCK), GRAIN, mul_backward_blocks, &j);
}
