/* columns.h -- sums down the columns of x[P, N, Q] on the GPU
 *
 * There are P * Q columns. A block of threads takes a stripe of them and a part of the rows: `wide`
 * threads side by side, a pack of columns each, and below them as many such rows as the block has
 * threads left, which go down together.
 *
 *             stripe 0   stripe 1   stripe 2
 *   part 0   [ block  ] [ block  ] [ block  ]
 *   part 1   [ block  ] [ block  ] [ block  ]
 *
 * A thread adds up some tens of rows in A and these sums in f64; in f64 are added what the threads
 * of a block have for one column, and the parts (partials.h): the error hardly grows with N. The
 * order depends on the sizes and on the number of multiprocessors alone.
 */
#ifndef COLUMNS_H
#define COLUMNS_H

#include "packs.h"
#include "partials.h"

/* The operator that includes this file has said, as measured for it:
 *   COLUMNS_THREADS    of a block, a power of two
 *   COLUMNS_RESIDENT   blocks of a multiprocessor at a time
 *   COLUMNS_WIDTH      columns of a stripe, where there are many
 *   COLUMNS_NARROW     bytes of a stripe's row, at least
 *   COLUMNS_ROUNDS     times that a thread goes on, before its rows are shared with another block
 */
enum { COLUMNS_PARTIALS = 131072 /* partial sums at most */ };

/* How x[P, N, Q] is cut; made on the host, read in kernels. */
typedef struct columns {
    int64_t N, Q;
    int64_t count; /* P * Q */
    int64_t rows;  /* of each part but the last */
    uint32_t stripes, parts;
    int32_t wide; /* threads side by side, a power of two */
} columns;

#if defined(__CUDACC__)

/* A thread's columns, and where it begins. */
typedef struct column {
    int64_t first; /* its first column */
    int64_t at;    /* element of x: that column in the thread's first row */
    uint32_t stripe, part;
    int32_t row, tall; /* of the `tall` rows that go down together */
    int32_t rows;      /* how many it has, at a distance of tall * Q elements; more than 2^31 would
                        * be terabytes */
} column;

static __device__ __forceinline__ column column_here(columns cut, uint32_t tile, int pack)
{
    const int bits = __ffs(cut.wide) - 1, tall_bits = __ffs(COLUMNS_THREADS) - 1 - bits;
    column c;
    c.part = tile / cut.stripes;
    c.stripe = tile - c.part * cut.stripes;
    c.row = (int)threadIdx.x >> bits;
    c.tall = 1 << tall_bits;
    c.first = ((int64_t)c.stripe * cut.wide + (threadIdx.x & (cut.wide - 1))) * pack;
    const int64_t begin = c.part * cut.rows + c.row, end = c.part * cut.rows + cut.rows;
    c.rows = (int32_t)((wick_min(end, cut.N) - begin + c.tall - 1) >> tall_bits);
    if (c.first >= cut.count) c.rows = 0;
    const int64_t p = cut.count == cut.Q ? 0 : c.first / cut.Q;
    c.at = (p * cut.N + begin) * cut.Q + (c.first - p * cut.Q);
    return c;
}

/* A pack of n of `steps` rows, zeros for the others. */
static __device__ __forceinline__ void column_load(uint4 *in, const T *x, int64_t distance, int n,
                                                   int steps, int pack)
{
    if (n == steps) {
#pragma unroll
        for (int u = 0; u < steps; u++)
            in[u] = pack_load(x + u * distance, pack);
        return;
    }
#pragma unroll
    for (int u = 0; u < steps; u++) {
        in[u] = make_uint4(0, 0, 0, 0);
        if (u < n) in[u] = pack_load(x + u * distance, pack);
    }
}

/* The packs of v of n rows. */
static __device__ __forceinline__ void column_store(T *y, const T *v, int64_t distance, int n,
                                                    int steps, int pack)
{
    if (n == steps) {
#pragma unroll
        for (int u = 0; u < steps; u++)
            pack_store(y + u * distance, v + u * pack, pack);
        return;
    }
#pragma unroll
    for (int u = 0; u < steps; u++)
        if (u < n) pack_store(y + u * distance, v + u * pack, pack);
}

/* ---- sums ----
 * Of each thread and each column of its pack there is one in shared memory: column k of a pack is
 * shared[k * COLUMNS_THREADS + threadIdx.x]. */

static __device__ __forceinline__ void columns_clear(A *sum, double *shared, int pack)
{
#pragma unroll
    for (int k = 0; k < pack; k++) {
        sum[k] = 0;
        shared[k * COLUMNS_THREADS + threadIdx.x] = 0;
    }
}

/* What a thread has added up in A since the last time. */
static __device__ __forceinline__ void columns_add(A *sum, double *shared, int pack)
{
#pragma unroll
    for (int k = 0; k < pack; k++) {
        shared[k * COLUMNS_THREADS + threadIdx.x] += (double)sum[k];
        sum[k] = 0;
    }
}

/* The sum of the i-th column of a stripe, after columns_fold. */
static __device__ __forceinline__ double columns_sum(const double *shared, int i, int pack)
{
    return shared[i % pack * COLUMNS_THREADS + i / pack];
}

/* Adds up what the threads of a block have for the same columns. */
static __device__ __forceinline__ void columns_fold(double *shared, int wide, int pack)
{
    const int thread = (int)threadIdx.x, across = wide < WICK_WARP ? WICK_WARP : wide;

    if (wide < WICK_WARP)
#pragma unroll 1
        for (int k = 0; k < pack; k++) {
            double sum = shared[k * COLUMNS_THREADS + thread];
#pragma unroll 1
            for (int step = WICK_WARP / 2; step >= wide; step /= 2)
                sum += __shfl_xor_sync(0xffffffffu, sum, step);
            shared[k * COLUMNS_THREADS + thread] = sum;
        }
    __syncthreads();
#pragma unroll 1
    for (int i = thread; i < wide * pack; i += COLUMNS_THREADS) {
        double *column = shared + i % pack * COLUMNS_THREADS + i / pack, sum = *column;
#pragma unroll 1
        for (int below = across; below < COLUMNS_THREADS; below += across)
            sum += column[below];
        *column = sum;
    }
    __syncthreads();
}

/* From the sums of a block to those of the whole columns, in the same place; true: they are
 * complete, and this block has them. w: COLUMNS_PARTIALS numbers, then PARTIALS_BLOCKS marks. */
static __device__ __forceinline__ bool columns_join(columns cut, column c, double *shared,
                                                    double *w, int pack)
{
    const int64_t begin = (int64_t)c.stripe * cut.wide * pack;

    if (cut.parts == 1) return true;
#pragma unroll 1
    for (int i = (int)threadIdx.x; i < cut.wide * pack; i += COLUMNS_THREADS)
        if (begin + i < cut.count) w[c.part * cut.count + begin + i] = columns_sum(shared, i, pack);
    if (!partials_complete((uint64_t *)(w + COLUMNS_PARTIALS), c.part * cut.stripes + c.stripe,
                           c.stripe, cut.stripes, cut.parts))
        return false;
#pragma unroll 1
    for (int k = 0; k < pack; k++) {
        double sum = 0;
#pragma unroll 1
        for (int64_t part = c.row; part < cut.parts && c.first < cut.count; part += c.tall)
            sum += __ldcg(w + part * cut.count + c.first + k);
        shared[k * COLUMNS_THREADS + threadIdx.x] = sum;
    }
    columns_fold(shared, cut.wide, pack);
    return true;
}

/* The sums of whole columns to where they belong, rounded. */
static __device__ __forceinline__ void columns_write(T *y, columns cut, column c,
                                                     const double *shared, int pack)
{
    const int64_t begin = (int64_t)c.stripe * cut.wide * pack;
#pragma unroll 1
    for (int i = (int)threadIdx.x; i < cut.wide * pack; i += COLUMNS_THREADS)
        if (begin + i < cut.count) y[begin + i] = wick_T((A)columns_sum(shared, i, pack));
}

#else /* the host */

/* Blocks that run at the same time. */
WICK_HOST_FN int64_t columns_blocks(int64_t multiprocessors)
{
    return wick_min(multiprocessors * COLUMNS_RESIDENT, PARTIALS_BLOCKS);
}

/* Threads side by side. Parts that have to be put together cost some microseconds: narrower stripes
 * are better where there are then enough of them for all multiprocessors, or too few rows to share.
 */
WICK_HOST_FN int64_t columns_wide(int64_t packs, int64_t N, int64_t pack, int64_t steps,
                                  int64_t blocks)
{
    const int64_t many = blocks * 3 / 4, bytes = pack * (int64_t)sizeof(T);
    int64_t wide = 1;
    while (wide < packs && wide < 32 && wide * pack < COLUMNS_WIDTH)
        wide *= 2;
    while (wide < packs && wide < COLUMNS_THREADS && COLUMNS_THREADS / wide > N)
        wide *= 2;
    int64_t narrow = wide;
    while (wick_ceil_div(packs, narrow) < many && narrow * bytes > COLUMNS_NARROW &&
           2 * COLUMNS_THREADS / narrow <= N)
        narrow /= 2;
    const bool is_short = N < 2 * (COLUMNS_THREADS / wide) * steps * COLUMNS_ROUNDS;
    return is_short || wick_ceil_div(packs, narrow) >= many ? narrow : wide;
}

/* `steps`: rows that a thread reads at a time. There is at least one stripe and one part. */
WICK_HOST_FN columns columns_cut(int64_t P, int64_t N, int64_t Q, int64_t pack, int64_t steps,
                                 int64_t multiprocessors)
{
    const int64_t packs = wick_max(1, wick_ceil_div(P * Q, pack));
    const int64_t blocks = columns_blocks(multiprocessors);
    const int64_t wide = columns_wide(packs, N, pack, steps, blocks);
    const int64_t stripes = wick_ceil_div(packs, wide), tall = COLUMNS_THREADS / wide;
    const int64_t most = wick_min(blocks / stripes, COLUMNS_PARTIALS / wick_max(1, P * Q));
    const bool shared = N >= 2 * tall * steps * COLUMNS_ROUNDS;
    const int64_t parts = wick_max(1, shared ? wick_min(most, N / (tall * steps)) : 1);
    const int64_t rows = wick_max(1, wick_ceil_div(N, parts));
    columns cut = {N,
                   Q,
                   P * Q,
                   rows,
                   (uint32_t)stripes,
                   (uint32_t)wick_max(1, wick_ceil_div(N, rows)),
                   (int32_t)wide};
    return cut;
}

#endif

#endif /* COLUMNS_H */
