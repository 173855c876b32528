/* addone -- y = x + 1
 *
 * Bandwidth bound: x is read once and y written once, past the caches where y would not stay in
 * them. The sum is taken in A and rounded once to T. NaN and infinities pass through. The gradient
 * is a copy.
 */
#include "elementwise.h"

WICK_OP(addone, "x: T[*N] -> y: T[*N] where T: f16 bf16 f32 f64 batch N");
WICK_OP(addone_backward, "dy: T[*N] -> dx: T[*N] batch N");

typedef struct job {
    const T *x;
    T *y;
    int64_t N;
    bool streaming;
} job;

WICK_INLINE void addone_block(const T *x, T *y, int64_t n, bool streaming)
{
    A room_x[BLOCK], room_y[BLOCK];
    const A *x_A = wick_read_block(room_x, x, n);
    A *y_A = wick_room_for(room_y, y, streaming);
    for (int64_t k = 0; k < n; k++)
        y_A[k] = x_A[k] + 1;
    wick_write_block(y, y_A, n, streaming);
}

/* Elements of the blocks [begin, end). */
static wick_status addone_blocks(void *arg, int64_t begin, int64_t end)
{
    const job j = *(const job *)arg;
    const int64_t last = wick_min(end * BLOCK, j.N);
    int64_t i = begin * BLOCK;

    for (; i + BLOCK <= last; i += BLOCK)
        addone_block(j.x + i, j.y + i, BLOCK, j.streaming);
    if (i < last) addone_block(j.x + i, j.y + i, last - i, j.streaming);
    wick_write_done(j.streaming);
    return WICK_OK;
}

WICK_IMPL wick_status addone_cpu(wick_ctx *ctx, const T *x, T *y, int64_t N)
{
    job j = {x, y, N, wick_worth_streaming(N * (int64_t)sizeof(T))};
    return wick_parallel(ctx, wick_ceil_div(N, BLOCK), GRAIN, addone_blocks, &j);
}

static __device__ __forceinline__ void addone_tile(const T *x, T *y, tiles cut, int pack)
{
    T v[WICK_PACK];
    const tile at = tile_here(cut, pack);
    if (tile_is_empty(at)) return;
    const uint4 in = tile_load(x, at, pack);
#pragma unroll
    for (int k = 0; k < tile_size(pack); k++)
        v[k] = wick_T(pack_A(in, k) + 1);
    tile_store(y, v, at, pack);
}

static __global__ void __launch_bounds__(TILE_THREADS) addone_tiles(const T *x, T *y, tiles cut)
{
    if (tile_is_packed(cut))
        addone_tile(x, y, cut, WICK_PACK);
    else
        addone_tile(x, y, cut, 1);
}

WICK_IMPL wick_status addone_cuda(wick_ctx *ctx, const T *x, T *y, int64_t N)
{
    const bool aligned = wick_aligned16(x) && wick_aligned16(y);
    const tiles cut = tiles_cut(N, aligned);
    return WICK_LAUNCH(ctx, addone_tiles, tiles_grid(&cut), wick_1d(cut.threads), 0, x, y, cut);
}

/* ---- the gradient ---- */

static wick_status copy_blocks(void *arg, int64_t begin, int64_t end)
{
    const job j = *(const job *)arg;
    const int64_t first = begin * BLOCK, last = wick_min(end * BLOCK, j.N);

    wick_write_bytes(j.y + first, j.x + first, (last - first) * (int64_t)sizeof(T), j.streaming);
    wick_write_done(j.streaming);
    return WICK_OK;
}

WICK_IMPL wick_status addone_backward_cpu(wick_ctx *ctx, const T *dy, T *dx, int64_t N)
{
    job j = {dy, dx, N, wick_worth_streaming(N * (int64_t)sizeof(T))};
    return wick_parallel(ctx, wick_ceil_div(N, BLOCK), GRAIN, copy_blocks, &j);
}

static __device__ __forceinline__ void copy_tile(const T *x, T *y, tiles cut, int pack)
{
    T v[WICK_PACK];
    const tile at = tile_here(cut, pack);
    if (tile_is_empty(at)) return;
    const uint4 in = tile_load(x, at, pack);
#pragma unroll
    for (int k = 0; k < tile_size(pack); k++)
        v[k] = pack_T(in, k);
    tile_store(y, v, at, pack);
}

static __global__ void __launch_bounds__(TILE_THREADS)
    addone_backward_tiles(const T *dy, T *dx, tiles cut)
{
    if (tile_is_packed(cut))
        copy_tile(dy, dx, cut, WICK_PACK);
    else
        copy_tile(dy, dx, cut, 1);
}

WICK_IMPL wick_status addone_backward_cuda(wick_ctx *ctx, const T *dy, T *dx, int64_t N)
{
    const bool aligned = wick_aligned16(dy) && wick_aligned16(dx);
    const tiles cut = tiles_cut(N, aligned);
    return WICK_LAUNCH(ctx, addone_backward_tiles, tiles_grid(&cut), wick_1d(cut.threads), 0, dy,
                       dx, cut);
}
