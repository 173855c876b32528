/* relu -- y = max(x, 0)
 *
 * Bandwidth bound: x is read once and y written once, past the caches where y would not stay in
 * them. Exact in every type. `v < 0 ? 0 : v` and not fmax, so that NaN stays NaN and -0.0 stays
 * -0.0, as in torch.relu. The gradient is dy where x is not <= 0: nothing at 0, dy at NaN, as
 * torch's.
 */
#include "elementwise.h"

WICK_OP(relu, "x: T[*N] -> y: T[*N] where T: f16 bf16 f32 f64 batch N");
WICK_OP(relu_backward, "dy: T[*N], x: T[*N] -> dx: T[*N] batch N");

WICK_INLINE A relu_of(A x) { return x < 0 ? 0 : x; }
WICK_INLINE A relu_passed(A dy, A x) { return x <= 0 ? 0 : dy; }

typedef struct job {
    const T *x;
    T *y;
    int64_t N;
    bool streaming;
} job;

WICK_INLINE void relu_block(const T *x, T *y, int64_t n, bool streaming)
{
    A room_x[BLOCK], room_y[BLOCK];
    const A *x_A = wick_read_block(room_x, x, n);
    A *y_A = wick_room_for(room_y, y, streaming);
    for (int64_t k = 0; k < n; k++)
        y_A[k] = relu_of(x_A[k]);
    wick_write_block(y, y_A, n, streaming);
}

/* Elements of the blocks [begin, end). */
static wick_status relu_blocks(void *arg, int64_t begin, int64_t end)
{
    const job j = *(const job *)arg;
    const int64_t last = wick_min(end * BLOCK, j.N);
    int64_t i = begin * BLOCK;

    for (; i + BLOCK <= last; i += BLOCK)
        relu_block(j.x + i, j.y + i, BLOCK, j.streaming);
    if (i < last) relu_block(j.x + i, j.y + i, last - i, j.streaming);
    wick_write_done(j.streaming);
    return WICK_OK;
}

WICK_IMPL wick_status relu_cpu(wick_ctx *ctx, const T *x, T *y, int64_t N)
{
    job j = {x, y, N, wick_worth_streaming(N * (int64_t)sizeof(T))};
    return wick_parallel(ctx, wick_ceil_div(N, BLOCK), GRAIN, relu_blocks, &j);
}

static __device__ __forceinline__ void relu_tile(const T *x, T *y, tiles cut, int pack)
{
    T v[WICK_PACK];
    const tile at = tile_here(cut, pack);
    if (tile_is_empty(at)) return;
    const uint4 in = tile_load(x, at, pack);
#pragma unroll
    for (int k = 0; k < tile_size(pack); k++)
        v[k] = wick_T(relu_of(pack_A(in, k)));
    tile_store(y, v, at, pack);
}

static __global__ void __launch_bounds__(TILE_THREADS) relu_tiles(const T *x, T *y, tiles cut)
{
    if (tile_is_packed(cut))
        relu_tile(x, y, cut, WICK_PACK);
    else
        relu_tile(x, y, cut, 1);
}

WICK_IMPL wick_status relu_cuda(wick_ctx *ctx, const T *x, T *y, int64_t N)
{
    const bool aligned = wick_aligned16(x) && wick_aligned16(y);
    const tiles cut = tiles_cut(N, aligned);
    return WICK_LAUNCH(ctx, relu_tiles, tiles_grid(&cut), wick_1d(cut.threads), 0, x, y, cut);
}

/* ---- the gradient ---- */

typedef struct backward_job {
    const T *dy, *x;
    T *dx;
    int64_t N;
    bool streaming;
} backward_job;

WICK_INLINE void relu_backward_block(const T *dy, const T *x, T *dx, int64_t n, bool streaming)
{
    A room_dy[BLOCK], room_x[BLOCK], room_dx[BLOCK];
    const A *dy_A = wick_read_block(room_dy, dy, n);
    const A *x_A = wick_read_block(room_x, x, n);
    A *dx_A = wick_room_for(room_dx, dx, streaming);
    for (int64_t k = 0; k < n; k++)
        dx_A[k] = relu_passed(dy_A[k], x_A[k]);
    wick_write_block(dx, dx_A, n, streaming);
}

static wick_status relu_backward_blocks(void *arg, int64_t begin, int64_t end)
{
    const backward_job j = *(const backward_job *)arg;
    const int64_t last = wick_min(end * BLOCK, j.N);
    int64_t i = begin * BLOCK;

    for (; i + BLOCK <= last; i += BLOCK)
        relu_backward_block(j.dy + i, j.x + i, j.dx + i, BLOCK, j.streaming);
    if (i < last) relu_backward_block(j.dy + i, j.x + i, j.dx + i, last - i, j.streaming);
    wick_write_done(j.streaming);
    return WICK_OK;
}

WICK_IMPL wick_status relu_backward_cpu(wick_ctx *ctx, const T *dy, const T *x, T *dx, int64_t N)
{
    backward_job j = {dy, x, dx, N, wick_worth_streaming(N * (int64_t)sizeof(T))};
    return wick_parallel(ctx, wick_ceil_div(N, BLOCK), GRAIN, relu_backward_blocks, &j);
}

static __device__ __forceinline__ void relu_backward_tile(const T *dy, const T *x, T *dx, tiles cut,
                                                          int pack)
{
    T v[WICK_PACK];
    const tile at = tile_here(cut, pack);
    if (tile_is_empty(at)) return;
    const uint4 dy_in = tile_load(dy, at, pack), x_in = tile_load(x, at, pack);
#pragma unroll
    for (int k = 0; k < tile_size(pack); k++)
        v[k] = wick_T(relu_passed(pack_A(dy_in, k), pack_A(x_in, k)));
    tile_store(dx, v, at, pack);
}

static __global__ void __launch_bounds__(TILE_THREADS)
    relu_backward_tiles(const T *dy, const T *x, T *dx, tiles cut)
{
    if (tile_is_packed(cut))
        relu_backward_tile(dy, x, dx, cut, WICK_PACK);
    else
        relu_backward_tile(dy, x, dx, cut, 1);
}

WICK_IMPL wick_status relu_backward_cuda(wick_ctx *ctx, const T *dy, const T *x, T *dx, int64_t N)
{
    const bool aligned = wick_aligned16(dy) && wick_aligned16(x) && wick_aligned16(dx);
    const tiles cut = tiles_cut(N, aligned);
    return WICK_LAUNCH(ctx, relu_backward_tiles, tiles_grid(&cut), wick_1d(cut.threads), 0, dy, x,
                       dx, cut);
}
