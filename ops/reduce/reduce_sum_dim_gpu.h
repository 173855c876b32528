/* reduce_sum_dim_gpu.h -- sums along a dimension on the GPU, and their gradient
 *
 * Q = 1: a row that fits into a pack per thread of a warp is taken by as many threads as it has
 * packs, a power of two of them; each has the same place in SHORT_ROWS rows. A longer row is taken
 * by a warp where there are many, else by a block of threads or several (spans.h). Q > 1: the walk
 * down the columns (columns.h).
 *
 * Back: dx is walked as one long array (tiles.h). A thread divides once, to find the p, n and q of
 * its first element, and adds the digits of the distance to find the next.
 */
#ifndef REDUCE_SUM_DIM_GPU_H
#define REDUCE_SUM_DIM_GPU_H

enum {
    COLUMNS_THREADS = 512,
    COLUMNS_RESIDENT = 1,
    COLUMNS_WIDTH = 64,
    COLUMNS_NARROW = 32,
    COLUMNS_ROUNDS = 4
};
#include "../columns.h"
#include "../divide.h"
#include "../tiles.h"
#include "spans.h"

enum {
    SHORT_ROWS = 4,
    SHORT_THREADS = 256,
    SHORT_MOST = 32 * TILE_PACK,
    WARP_ROWS = 8, /* of a block */
    SUM_STEPS = 8,
    SUM_ROUNDS = 4
};

/* dy[p, q] for every n; made on the host. */
typedef struct digits {
    int64_t p, n, q;
} digits;

typedef struct repeat_walk {
    divisor N, Q;
    digits step, single_step; /* from one element of a thread to its next */
    bool packed;              /* a pack of dx has a pack of dy to it */
} repeat_walk;

#if defined(__CUDACC__)

/* `packed`: every row starts at a multiple of 16 bytes. */
static __device__ __forceinline__ void short_rows(const T *x, T *y, int64_t rows, int64_t n,
                                                  int lanes, bool packed)
{
    const int lane = (int)threadIdx.x & (lanes - 1), groups = SHORT_THREADS / lanes;
    const int64_t first = ((int64_t)blockIdx.x * SHORT_ROWS * SHORT_THREADS + threadIdx.x) / lanes;
    uint4 in[SHORT_ROWS];
    A sum[SHORT_ROWS];

#pragma unroll
    for (int u = 0; u < SHORT_ROWS; u++) {
        const int64_t row = first + u * groups;
        in[u] = make_uint4(0, 0, 0, 0);
        if (packed && row < rows && lane * TILE_PACK < n)
            in[u] = wick_load16(x + row * n + lane * TILE_PACK);
    }
#pragma unroll
    for (int u = 0; u < SHORT_ROWS; u++) {
        const int64_t row = first + u * groups;
        sum[u] = 0;
#pragma unroll
        for (int k = 0; k < TILE_PACK; k++)
            if (packed)
                sum[u] += pack_A(in[u], k);
            else if (row < rows && lane + k * lanes < n)
                sum[u] += wick_A(x[row * n + lane + k * lanes]);
    }
    for (int step = lanes / 2; step > 0; step /= 2)
#pragma unroll
        for (int u = 0; u < SHORT_ROWS; u++)
            sum[u] += __shfl_xor_sync(0xffffffffu, sum[u], step);
#pragma unroll
    for (int u = 0; u < SHORT_ROWS; u++)
        if (lane == 0 && first + u * groups < rows) y[first + u * groups] = wick_T(sum[u]);
}

static __device__ __forceinline__ void sum_columns_tile(const T *x, T *y, double *w, columns cut,
                                                        double *shared, int pack)
{
    uint4 in[SUM_STEPS];
    A sum[WICK_PACK];
    column c = column_here(cut, blockIdx.x, pack);
    const int64_t distance = c.tall * cut.Q;

    columns_clear(sum, shared, pack);
    x += c.at;
    for (int done = 0; done < c.rows; done += SUM_STEPS, x += SUM_STEPS * distance) {
        const int n = c.rows - done < SUM_STEPS ? c.rows - done : SUM_STEPS;
        column_load(in, x, distance, n, SUM_STEPS, pack);
#pragma unroll
        for (int k = 0; k < pack; k++) {
            A v[SUM_STEPS];
#pragma unroll
            for (int u = 0; u < SUM_STEPS; u++)
                v[u] = pack_A(in[u], k);
#pragma unroll
            for (int half = SUM_STEPS / 2; half > 0; half /= 2)
#pragma unroll
                for (int u = 0; u < half; u++)
                    v[u] += v[u + half];
            sum[k] += v[0];
        }
        if (done % (SUM_STEPS * SUM_ROUNDS) == 0) columns_add(sum, shared, pack);
    }
    columns_add(sum, shared, pack);
    columns_fold(shared, cut.wide, pack);
    if (columns_join(cut, c, shared, w, pack)) columns_write(y, cut, c, shared, pack);
}

/* ---- back ---- */

static __device__ __forceinline__ digits digits_after(digits at, digits by, int64_t N, int64_t Q)
{
    at.p += by.p;
    at.n += by.n;
    at.q += by.q;
    if (at.q >= Q) at.q -= Q, at.n++;
    if (at.n >= N) at.n -= N, at.p++;
    return at;
}

static __device__ __forceinline__ void repeat_tile(const T *dy, T *dx, repeat_walk walk, tiles cut,
                                                   int pack)
{
    const tile at = tile_here(cut, pack);
    if (tile_is_empty(at)) return;
    const int64_t N = walk.N.by, Q = walk.Q.by;
    const int64_t row = divided(at.first, walk.Q), p = divided(row, walk.N);
    const digits step = pack > 1 ? walk.step : walk.single_step;
    digits here = {p, row - p * N, at.first - row * Q};
    const bool same = pack > 1 && Q == 1 && here.n + WICK_PACK <= N;
    T v[WICK_PACK];

    if (pack > 1 && walk.packed) {
        wick_load(v, dy + here.p * Q + here.q, WICK_PACK);
    } else {
#pragma unroll
        for (int k = 0; k < tile_size(pack); k++) {
            const bool there = pack > 1 || at.first + k * WICK_WARP < at.end;
            v[k] = k > 0 && (same || !there) ? v[0] : dy[here.p * Q + here.q];
            here = digits_after(here, step, N, Q);
        }
    }
    tile_store(dx, v, at, pack);
}

#else /* the host */

/* Threads that share a row of up to SHORT_MOST elements. */
WICK_HOST_FN int32_t short_lanes(int64_t n)
{
    int32_t lanes = 1;
    while (lanes * TILE_PACK < n)
        lanes *= 2;
    return lanes;
}

/* Rows that are neither so few that the GPU would not be occupied nor so long that some warps would
 * be left working alone. */
WICK_HOST_FN bool warp_takes_a_row(int64_t rows, int64_t n, int64_t multiprocessors)
{
    const int64_t bytes = n * (int64_t)sizeof(T);
    return bytes <= 4096 || (bytes <= 65536 && rows >= 16 * multiprocessors);
}

/* A block no larger than its span is worth. */
WICK_HOST_FN int64_t span_threads(int64_t span)
{
    int64_t threads = 64;
    while (threads < SPAN_THREADS && threads * SUM_STEPS / 2 * TILE_PACK < span)
        threads *= 2;
    return threads;
}

WICK_HOST_FN digits digits_of(int64_t i, int64_t N, int64_t Q)
{
    const int64_t row = i / Q;
    digits d = {row / N, row % N, i % Q};
    return d;
}

WICK_HOST_FN repeat_walk repeat_walk_of(const T *dy, int64_t P, int64_t N, int64_t Q)
{
    const int64_t n = wick_max(N, 1), q = wick_max(Q, 1);
    const int64_t end = P * n * q + TILE_THREADS * TILE_PACK;
    repeat_walk walk = {divisor_of(n, end), divisor_of(q, end), digits_of(1, n, q),
                        digits_of(32, n, q), Q % TILE_PACK == 0 && wick_aligned16(dy)};
    return walk;
}

#endif

#endif /* REDUCE_SUM_DIM_GPU_H */
