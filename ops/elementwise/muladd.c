/* muladd -- y = a * b + c with a number c
 *
 * Bandwidth bound: a and b are read once and y written once, past the caches where y would not
 * stay in them. c is rounded to A; product and sum are taken in A, each rounded (no fused
 * multiply-add, so every CPU and GPU agrees to the bit), then once to T. NaN and infinities as in
 * IEEE 754. The gradients are da = dy * b and db = dy * a.
 */
#include "product.h"

WICK_OP(muladd, "a: T[*N], b: T[*N], c: float -> y: T[*N]"
                " where T: f16 bf16 f32 f64 batch N");
WICK_OP(muladd_backward, "dy: T[*N], a: T[*N], b: T[*N] -> da?: T[*N], db?: T[*N] batch N");

typedef struct job {
    const T *a, *b;
    A c;
    T *y;
    int64_t N;
    bool streaming;
} job;

WICK_INLINE void muladd_block(const T *a, const T *b, A c, T *y, int64_t n, bool streaming)
{
    A room_a[BLOCK], room_b[BLOCK], room_y[BLOCK];
    const A *a_A = wick_read_block(room_a, a, n);
    const A *b_A = wick_read_block(room_b, b, n);
    A *y_A = wick_room_for(room_y, y, streaming);
    for (int64_t k = 0; k < n; k++)
        y_A[k] = product(a_A[k], b_A[k]) + c;
    wick_write_block(y, y_A, n, streaming);
}

/* Elements of the blocks [begin, end). */
static wick_status muladd_blocks(void *arg, int64_t begin, int64_t end)
{
    const job j = *(const job *)arg;
    const int64_t last = wick_min(end * BLOCK, j.N);
    int64_t i = begin * BLOCK;

    for (; i + BLOCK <= last; i += BLOCK)
        muladd_block(j.a + i, j.b + i, j.c, j.y + i, BLOCK, j.streaming);
    if (i < last) muladd_block(j.a + i, j.b + i, j.c, j.y + i, last - i, j.streaming);
    wick_write_done(j.streaming);
    return WICK_OK;
}

WICK_IMPL wick_status muladd_cpu(wick_ctx *ctx, const T *a, const T *b, double c, T *y, int64_t N)
{
    job j = {a, b, (A)c, y, N, wick_worth_streaming(N * (int64_t)sizeof(T))};
    return wick_parallel(ctx, wick_ceil_div(N, BLOCK), GRAIN, muladd_blocks, &j);
}

static __device__ __forceinline__ void muladd_tile(const T *a, const T *b, A c, T *y, tiles cut,
                                                   int pack)
{
    T v[WICK_PACK];
    const tile at = tile_here(cut, pack);
    if (tile_is_empty(at)) return;
    const uint4 a_in = tile_load(a, at, pack), b_in = tile_load(b, at, pack);
#pragma unroll
    for (int k = 0; k < tile_size(pack); k++)
        v[k] = wick_T(product(pack_A(a_in, k), pack_A(b_in, k)) + c);
    tile_store(y, v, at, pack);
}

static __global__ void __launch_bounds__(TILE_THREADS)
    muladd_tiles(const T *a, const T *b, A c, T *y, tiles cut)
{
    if (tile_is_packed(cut))
        muladd_tile(a, b, c, y, cut, WICK_PACK);
    else
        muladd_tile(a, b, c, y, cut, 1);
}

WICK_IMPL wick_status muladd_cuda(wick_ctx *ctx, const T *a, const T *b, double c, T *y, int64_t N)
{
    const bool aligned = wick_aligned16(a) && wick_aligned16(b) && wick_aligned16(y);
    const tiles cut = tiles_cut(N, aligned);
    return WICK_LAUNCH(ctx, muladd_tiles, tiles_grid(&cut), wick_1d(cut.threads), 0, a, b, (A)c, y,
                       cut);
}

/* ---- the gradient ---- */

WICK_IMPL wick_status muladd_backward_cpu(wick_ctx *ctx, const T *dy, const T *a, const T *b, T *da,
                                          T *db, int64_t N)
{
    return product_backward(ctx, dy, a, b, da, db, N);
}

static __global__ void __launch_bounds__(TILE_THREADS)
    muladd_backward_tiles(const T *dy, const T *a, const T *b, T *da, T *db, tiles cut)
{
    if (tile_is_packed(cut))
        product_backward_tile(dy, a, b, da, db, cut, WICK_PACK);
    else
        product_backward_tile(dy, a, b, da, db, cut, 1);
}

WICK_IMPL wick_status muladd_backward_cuda(wick_ctx *ctx, const T *dy, const T *a, const T *b,
                                           T *da, T *db, int64_t N)
{
    const tiles cut = product_backward_cut(dy, a, b, da, db, N);
    return WICK_LAUNCH(ctx, muladd_backward_tiles, tiles_grid(&cut), wick_1d(cut.threads), 0, dy, a,
                       b, da, db, cut);
}
