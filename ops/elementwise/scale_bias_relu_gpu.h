/* scale_bias_relu_gpu.h -- what the two scale_bias_relu operators share on the GPU
 *
 * Forward. The rows are walked as one long array (tiles.h). A thread divides once, to find the
 * column of its first element, and goes on from there; its part of the bias comes out of a cache,
 * as a pack where packs never reach across the end of a row, else element by element.
 *
 * Back. dx and the column sums come out of one walk over dy and x, down the columns (columns.h).
 * What was cut off is computed again. dscale is summed in the same walk and then over the blocks.
 */
#ifndef SCALE_BIAS_RELU_GPU_H
#define SCALE_BIAS_RELU_GPU_H

#include "scale_bias_relu.h"

enum {
    COLUMNS_THREADS = 512,
    COLUMNS_RESIDENT = 2,
    COLUMNS_WIDTH = 128,
    COLUMNS_NARROW = 512,
    COLUMNS_ROUNDS = 1
};
#include "../columns.h"
#include "../divide.h"

/* The bias of a walk over whole rows; made on the host. */
typedef struct bias_walk {
    divisor C;
    int64_t step, single_step; /* columns from one element of a thread to its next, modulo C */
    bool packed;               /* a pack of x has a pack of the bias to it */
} bias_walk;

enum { BACK_STEPS = 1, BACK_ROUNDS = 16, BACK_SCRATCH = COLUMNS_PARTIALS + 3 * PARTIALS_BLOCKS };

/* A walk back; made on the host. */
typedef struct back {
    const T *dy, *x, *bias;
    T *dx, *dbias; /* NULL where nobody wants it */
    double *w;     /* BACK_SCRATCH numbers */
    columns cut;
    bool packed; /* packs of 16 bytes, else single elements */
} back;

#if defined(__CUDACC__)

/* The bias of a thread's elements, as tile_load gives those. */
static __device__ __forceinline__ uint4 bias_load(const T *bias, bias_walk walk, tile at, int pack)
{
    const int64_t step = pack > 1 ? walk.step : walk.single_step;
    int64_t c = at.first - divided(at.first, walk.C) * walk.C.by;
    T v[WICK_PACK];
    uint4 in = make_uint4(0, 0, 0, 0);
    if (pack > 1 && walk.packed) return wick_load16(bias + c);
#pragma unroll
    for (int k = 0; k < tile_size(pack); k++) {
        v[k] = bias[c];
        c += step;
        if (c >= walk.C.by) c -= walk.C.by;
    }
    memcpy(&in, v, (size_t)tile_size(pack) * sizeof(T));
    return in;
}

static __device__ __forceinline__ void forward_tile(const T *x, const T *bias, A scale, T *y,
                                                    bias_walk walk, tiles cut, int pack)
{
    T v[WICK_PACK];
    const tile at = tile_here(cut, pack);
    if (tile_is_empty(at)) return;
    const uint4 x_in = tile_load(x, at, pack), bias_in = bias_load(bias, walk, at, pack);
#pragma unroll
    for (int k = 0; k < tile_size(pack); k++)
        v[k] = wick_T(cut_off(scaled(pack_A(x_in, k), scale, pack_A(bias_in, k))));
    tile_store(y, v, at, pack);
}

/* ---- back ---- */

/* One stripe and part of the rows; `dot`: adds the sum of dy * x to it, unless it is NULL. */
static __device__ __forceinline__ void back_tile(back j, A scale, uint32_t tile, double *shared,
                                                 double *dot, int pack)
{
    uint4 dy_in[BACK_STEPS], x_in[BACK_STEPS], bias_in = make_uint4(0, 0, 0, 0);
    T v[BACK_STEPS * WICK_PACK];
    A sum[WICK_PACK];
    column c = column_here(j.cut, tile, pack);
    const int64_t distance = c.tall * j.cut.Q;

    if (c.rows > 0) bias_in = pack_load(j.bias + c.first, pack);
    columns_clear(sum, shared, pack);
    for (int done = 0; done < c.rows; done += BACK_STEPS, c.at += BACK_STEPS * distance) {
        const int n = c.rows - done < BACK_STEPS ? c.rows - done : BACK_STEPS;
        T *dx = j.dx ? j.dx + c.at : NULL;
        A dots = 0;
        column_load(dy_in, j.dy + c.at, distance, n, BACK_STEPS, pack);
        column_load(x_in, j.x + c.at, distance, n, BACK_STEPS, pack);
#pragma unroll
        for (int u = 0; u < BACK_STEPS; u++)
#pragma unroll
            for (int k = 0; k < pack; k++) {
                const A x = pack_A(x_in[u], k);
                const A before = scaled(x, scale, pack_A(bias_in, k));
                const A passed = passed_on(pack_A(dy_in[u], k), before);
                sum[k] += passed;
                if (dot) dots += passed * x;
                v[u * pack + k] = wick_T(passed * scale);
            }
        if (done % (BACK_STEPS * BACK_ROUNDS) == 0) columns_add(sum, shared, pack);
        if (dot) *dot += (double)dots;
        if (dx) column_store(dx, v, distance, n, BACK_STEPS, pack);
    }
    if (!j.dbias) return;
    columns_add(sum, shared, pack);
    columns_fold(shared, j.cut.wide, pack);
    if (!columns_join(j.cut, c, shared, j.w, pack)) return;
    columns_write(j.dbias, j.cut, c, shared, pack);
}

/* The sum of `dot` over all threads of all blocks. */
static __device__ __forceinline__ void back_join_dots(double dot, double *shared, double *w,
                                                      A *dscale)
{
    double *partial = w + COLUMNS_PARTIALS + PARTIALS_BLOCKS;
    dot = wick_block_sum_f64(dot, shared);
    if (!partials_sum(&dot, shared, partial, blockIdx.x, 0, gridDim.x)) return;
    if (threadIdx.x == 0) *dscale = (A)dot;
}

#else /* the host */

WICK_HOST_FN bias_walk bias_walk_of(const T *bias, int64_t N, int64_t C)
{
    const divisor by = divisor_of(C, N * C + TILE_THREADS * TILE_PACK);
    bias_walk walk = {by, 1 % by.by, 32 % by.by, C % TILE_PACK == 0 && wick_aligned16(bias)};
    return walk;
}

WICK_HOST_FN back back_of(const T *dy, const T *x, const T *bias, T *dx, T *dbias, double *w,
                          int64_t N, int64_t C, int64_t multiprocessors)
{
    const bool packed = C % TILE_PACK == 0 && wick_aligned16(dy) && wick_aligned16(x) &&
                        wick_aligned16(bias) && wick_aligned16(dx);
    back j = {dy,
              x,
              bias,
              dx,
              dbias,
              w,
              columns_cut(1, N, C, packed ? TILE_PACK : 1, BACK_STEPS, multiprocessors),
              packed};
    return j;
}

#endif

#endif /* SCALE_BIAS_RELU_GPU_H */
