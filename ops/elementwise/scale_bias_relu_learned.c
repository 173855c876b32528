/* scale_bias_relu_learned -- y[n,c] = relu(x[n,c] * scale + bias[c]) with a scale that is trained
 *
 * As scale_bias_relu, but scale is a 0-d tensor of type A, because a plain number has no gradient:
 * dscale = the sum of dy * x over what was not cut off, taken like dbias and in the same walk, then
 * over the columns in f64.
 */
#include "scale_bias_relu_gpu.h"

WICK_OP(scale_bias_relu_learned, "x: T[*N, C], bias: T[C], scale: A[] -> y: T[*N, C]"
                                 " where T: f16 bf16 f32 f64 batch N, C");
WICK_OP(scale_bias_relu_learned_backward, "dy: T[*N, C], x: T[*N, C], bias: T[C], scale: A[]"
                                          " -> dx?: T[*N, C], dbias?: T[C], dscale?: A[]"
                                          " scratch by_column: f64[C], w: f64[134144]");

WICK_IMPL wick_status scale_bias_relu_learned_cpu(wick_ctx *ctx, const T *x, const T *bias,
                                                  const A *scale, T *y, int64_t N, int64_t C)
{
    return forward(ctx, x, bias, *scale, y, N, C);
}

static __global__ void __launch_bounds__(TILE_THREADS)
    scale_bias_relu_learned_tiles(const T *x, const T *bias, const A *scale, T *y, bias_walk walk,
                                  tiles cut)
{
    if (tile_is_packed(cut))
        forward_tile(x, bias, *scale, y, walk, cut, WICK_PACK);
    else
        forward_tile(x, bias, *scale, y, walk, cut, 1);
}

WICK_IMPL wick_status scale_bias_relu_learned_cuda(wick_ctx *ctx, const T *x, const T *bias,
                                                   const A *scale, T *y, int64_t N, int64_t C)
{
    const bool aligned = wick_aligned16(x) && wick_aligned16(y);
    const tiles cut = tiles_cut(N * C, aligned);
    return WICK_LAUNCH(ctx, scale_bias_relu_learned_tiles, tiles_grid(&cut), wick_1d(cut.threads),
                       0, x, bias, scale, y, bias_walk_of(bias, N, C), cut);
}

/* ---- the gradient ---- */

WICK_IMPL wick_status scale_bias_relu_learned_backward_cpu(wick_ctx *ctx, const T *dy, const T *x,
                                                           const T *bias, const A *scale, T *dx,
                                                           T *dbias, A *dscale, double *by_column,
                                                           double *w, int64_t N, int64_t C)
{
    backward_job j = {dy, x, bias, *scale, dx, dbias, .C = C};
    (void)w;
    return backward(ctx, &j, N, dscale, by_column);
}

/* A block may have several tiles, so that there are no more blocks than may share a sum. */
static __device__ __forceinline__ void learned_tiles(back j, const A *scale, A *dscale,
                                                     double *shared, int pack)
{
    const uint32_t tiles = j.cut.stripes * j.cut.parts;
    const A by = *scale;
    double dot = 0;

    for (uint32_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        back_tile(j, by, tile, shared, &dot, pack);
        __syncthreads();
    }
    if (dscale) back_join_dots(dot, shared, j.w, dscale);
}

static __global__ void __launch_bounds__(COLUMNS_THREADS, COLUMNS_RESIDENT)
    scale_bias_relu_learned_backward_packs(back j, const A *scale, A *dscale)
{
    __shared__ double shared[COLUMNS_THREADS * WICK_PACK];
    learned_tiles(j, scale, dscale, shared, WICK_PACK);
}

static __global__ void __launch_bounds__(COLUMNS_THREADS, COLUMNS_RESIDENT)
    scale_bias_relu_learned_backward_singles(back j, const A *scale, A *dscale)
{
    __shared__ double shared[COLUMNS_THREADS];
    learned_tiles(j, scale, dscale, shared, 1);
}

WICK_IMPL wick_status scale_bias_relu_learned_backward_cuda(wick_ctx *ctx, const T *dy, const T *x,
                                                            const T *bias, const A *scale, T *dx,
                                                            T *dbias, A *dscale, double *by_column,
                                                            double *w, int64_t N, int64_t C)
{
    const int64_t multiprocessors = wick_multiprocessors(ctx);
    const back j = back_of(dy, x, bias, dx, dbias, w, N, C, multiprocessors);
    const int64_t tiles = (int64_t)j.cut.stripes * j.cut.parts;
    const wick_dim3 grid =
        wick_1d(dx || dbias || dscale ? wick_min(tiles, columns_blocks(multiprocessors)) : 0);
    (void)by_column;
    if (j.packed)
        return WICK_LAUNCH(ctx, scale_bias_relu_learned_backward_packs, grid,
                           wick_1d(COLUMNS_THREADS), 0, j, scale, dscale);
    return WICK_LAUNCH(ctx, scale_bias_relu_learned_backward_singles, grid,
                       wick_1d(COLUMNS_THREADS), 0, j, scale, dscale);
}
