/* scale_bias_relu -- y[n,c] = relu(x[n,c] * scale + bias[c])
 *
 * Bandwidth bound: x is read once and y written once, past the caches where y would not stay in
 * them; bias is read again for every row, from a cache (scale_bias_relu.h has the walks).
 *
 * scale is rounded to A; product and sum are taken in A, each rounded (no fused multiply-add, so
 * f32 and f64 equal torch's relu(x * scale + bias) to the bit), then once to T. `v < 0 ? 0 : v` and
 * not fmax, so that NaN stays NaN, as in torch.relu. dx is rounded once to T. dbias is summed in an
 * order that depends on the sizes alone, its error hardly grows with N. A scale that is trained
 * itself is scale_bias_relu_learned's.
 */
#include "scale_bias_relu_gpu.h"

WICK_OP(scale_bias_relu, "x: T[*N, C], bias: T[C], scale: float = 1.0 -> y: T[*N, C]"
                         " where T: f16 bf16 f32 f64 batch N, C");
WICK_OP(scale_bias_relu_backward, "dy: T[*N, C], x: T[*N, C], bias: T[C], scale: float"
                                  " -> dx?: T[*N, C], dbias?: T[C]"
                                  " scratch w: f64[134144] batch C");

WICK_IMPL wick_status scale_bias_relu_cpu(wick_ctx *ctx, const T *x, const T *bias, double scale,
                                          T *y, int64_t N, int64_t C)
{
    return forward(ctx, x, bias, (A)scale, y, N, C);
}

static __global__ void __launch_bounds__(TILE_THREADS)
    scale_bias_relu_tiles(const T *x, const T *bias, A scale, T *y, bias_walk walk, tiles cut)
{
    if (tile_is_packed(cut))
        forward_tile(x, bias, scale, y, walk, cut, WICK_PACK);
    else
        forward_tile(x, bias, scale, y, walk, cut, 1);
}

WICK_IMPL wick_status scale_bias_relu_cuda(wick_ctx *ctx, const T *x, const T *bias, double scale,
                                           T *y, int64_t N, int64_t C)
{
    const bool aligned = wick_aligned16(x) && wick_aligned16(y);
    const tiles cut = tiles_cut(N * C, aligned);
    return WICK_LAUNCH(ctx, scale_bias_relu_tiles, tiles_grid(&cut), wick_1d(cut.threads), 0, x,
                       bias, (A)scale, y, bias_walk_of(bias, N, C), cut);
}

/* ---- the gradient ---- */

WICK_IMPL wick_status scale_bias_relu_backward_cpu(wick_ctx *ctx, const T *dy, const T *x,
                                                   const T *bias, double scale, T *dx, T *dbias,
                                                   double *w, int64_t N, int64_t C)
{
    backward_job j = {dy, x, bias, (A)scale, dx, dbias, .C = C};
    (void)w;
    return backward(ctx, &j, N, NULL, NULL);
}

static __global__ void __launch_bounds__(COLUMNS_THREADS, COLUMNS_RESIDENT)
    scale_bias_relu_backward_packs(back j, A scale)
{
    __shared__ double shared[COLUMNS_THREADS * WICK_PACK];
    back_tile(j, scale, blockIdx.x, shared, NULL, WICK_PACK);
}

static __global__ void __launch_bounds__(COLUMNS_THREADS, COLUMNS_RESIDENT)
    scale_bias_relu_backward_singles(back j, A scale)
{
    __shared__ double shared[COLUMNS_THREADS];
    back_tile(j, scale, blockIdx.x, shared, NULL, 1);
}

WICK_IMPL wick_status scale_bias_relu_backward_cuda(wick_ctx *ctx, const T *dy, const T *x,
                                                    const T *bias, double scale, T *dx, T *dbias,
                                                    double *w, int64_t N, int64_t C)
{
    const back j = back_of(dy, x, bias, dx, dbias, w, N, C, wick_multiprocessors(ctx));
    const wick_dim3 grid = wick_1d(dx || dbias ? (int64_t)j.cut.stripes * j.cut.parts : 0);
    if (j.packed)
        return WICK_LAUNCH(ctx, scale_bias_relu_backward_packs, grid, wick_1d(COLUMNS_THREADS), 0,
                           j, (A)scale);
    return WICK_LAUNCH(ctx, scale_bias_relu_backward_singles, grid, wick_1d(COLUMNS_THREADS), 0, j,
                       (A)scale);
}
