/* mul -- y = a * b
 *
 * Bandwidth bound: a and b are read once and y written once, past the caches where y would not
 * stay in them. The product is taken in A and rounded once to T; NaN and infinities as in IEEE 754.
 * The gradients are products too: da = dy * b, db = dy * a.
 */
#include "product.h"

WICK_OP(mul, "a: T[*N], b: T[*N] -> y: T[*N] where T: f16 bf16 f32 f64 batch N");
WICK_OP(mul_backward, "dy: T[*N], a: T[*N], b: T[*N] -> da?: T[*N], db?: T[*N] batch N");

typedef struct job {
    const T *a, *b;
    T *y;
    int64_t N;
    bool streaming;
} job;

/* Elements of the blocks [begin, end). */
static wick_status mul_blocks(void *arg, int64_t begin, int64_t end)
{
    const job j = *(const job *)arg;
    const int64_t last = wick_min(end * BLOCK, j.N);
    int64_t i = begin * BLOCK;

    for (; i + BLOCK <= last; i += BLOCK)
        product_block(j.a + i, j.b + i, j.y + i, BLOCK, j.streaming);
    if (i < last) product_block(j.a + i, j.b + i, j.y + i, last - i, j.streaming);
    wick_write_done(j.streaming);
    return WICK_OK;
}

WICK_IMPL wick_status mul_cpu(wick_ctx *ctx, const T *a, const T *b, T *y, int64_t N)
{
    job j = {a, b, y, N, wick_worth_streaming(N * (int64_t)sizeof(T))};
    return wick_parallel(ctx, wick_ceil_div(N, BLOCK), GRAIN, mul_blocks, &j);
}

static __device__ __forceinline__ void mul_tile(const T *a, const T *b, T *y, tiles cut, int pack)
{
    T v[WICK_PACK];
    const tile at = tile_here(cut, pack);
    if (tile_is_empty(at)) return;
    const uint4 a_in = tile_load(a, at, pack), b_in = tile_load(b, at, pack);
#pragma unroll
    for (int k = 0; k < tile_size(pack); k++)
        v[k] = wick_T(product(pack_A(a_in, k), pack_A(b_in, k)));
    tile_store(y, v, at, pack);
}

static __global__ void __launch_bounds__(TILE_THREADS)
    mul_tiles(const T *a, const T *b, T *y, tiles cut)
{
    if (tile_is_packed(cut))
        mul_tile(a, b, y, cut, WICK_PACK);
    else
        mul_tile(a, b, y, cut, 1);
}

WICK_IMPL wick_status mul_cuda(wick_ctx *ctx, const T *a, const T *b, T *y, int64_t N)
{
    const bool aligned = wick_aligned16(a) && wick_aligned16(b) && wick_aligned16(y);
    const tiles cut = tiles_cut(N, aligned);
    return WICK_LAUNCH(ctx, mul_tiles, tiles_grid(&cut), wick_1d(cut.threads), 0, a, b, y, cut);
}

/* ---- the gradient ---- */

WICK_IMPL wick_status mul_backward_cpu(wick_ctx *ctx, const T *dy, const T *a, const T *b, T *da,
                                       T *db, int64_t N)
{
    return product_backward(ctx, dy, a, b, da, db, N);
}

static __global__ void __launch_bounds__(TILE_THREADS)
    mul_backward_tiles(const T *dy, const T *a, const T *b, T *da, T *db, tiles cut)
{
    if (tile_is_packed(cut))
        product_backward_tile(dy, a, b, da, db, cut, WICK_PACK);
    else
        product_backward_tile(dy, a, b, da, db, cut, 1);
}

WICK_IMPL wick_status mul_backward_cuda(wick_ctx *ctx, const T *dy, const T *a, const T *b, T *da,
                                        T *db, int64_t N)
{
    const tiles cut = product_backward_cut(dy, a, b, da, db, N);
    return WICK_LAUNCH(ctx, mul_backward_tiles, tiles_grid(&cut), wick_1d(cut.threads), 0, dy, a, b,
                       da, db, cut);
}
