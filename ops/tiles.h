/* tiles.h -- the walk of operators that go element by element, on the GPU
 *
 * A thread has a pack of each array, 16 bytes, beside its neighbours' packs. What does not fill a
 * pack at the end, or everything if an array does not start at a multiple of 16 bytes, goes in
 * blocks of threads of its own, some single elements to a thread, a warp apart:
 *
 *   packs     | t0 t0 t0 t0 t1 t1 t1 t1 t2 ...
 *   singles   | t0 t1 t2 ... t31 | t0 t1 t2 ... t31 | ...      TILE_SINGLES times
 *
 * A kernel's body is written once, takes the length of a pack and is called with both:
 *
 *   static __device__ __forceinline__ void negate_tile(const T *x, T *y, tiles cut, int pack)
 *   {
 *       T v[WICK_PACK];
 *       const tile at = tile_here(cut, pack);
 *       if (tile_is_empty(at)) return;
 *       const uint4 in = tile_load(x, at, pack);
 *       for (int k = 0; k < tile_size(pack); k++)
 *           v[k] = wick_T(-pack_A(in, k));
 *       tile_store(y, v, at, pack);
 *   }
 *
 *   static __global__ void negate_tiles(const T *x, T *y, tiles cut)
 *   {
 *       if (tile_is_packed(cut))
 *           negate_tile(x, y, cut, WICK_PACK);
 *       else
 *           negate_tile(x, y, cut, 1);
 *   }
 *
 * A thread has read all of its elements before it writes one, so a result may be an input too. More
 * than 16 bytes to a thread were measured and are slower: there are threads enough.
 */
#ifndef TILES_H
#define TILES_H

#include "packs.h"

enum {
    TILE_THREADS = 128,
    TILE_FEW_THREADS = 64,
    TILE_PACK = 16 / sizeof(T),
    TILE_SINGLES = TILE_PACK < 4 ? TILE_PACK : 4
};

/* How arrays of one length are cut; made on the host, read in kernels. */
typedef struct tiles {
    int64_t count;   /* elements */
    int64_t packed;  /* of them in packs; single ones follow */
    int64_t threads; /* in a block */
    int64_t blocks;  /* that have packs */
} tiles;

#if defined(__CUDACC__)

/* A thread's elements: at `first` and, a warp apart or side by side, behind it, before `end`. */
typedef struct tile {
    int64_t first, end;
} tile;

/* How many elements a thread has. */
static __device__ __forceinline__ int tile_size(int pack)
{
    return pack > 1 ? WICK_PACK : TILE_SINGLES;
}

static __device__ __forceinline__ bool tile_is_packed(tiles cut)
{
    return (int64_t)blockIdx.x < cut.blocks;
}

static __device__ __forceinline__ tile tile_here(tiles cut, int pack)
{
    const int lane = (int)threadIdx.x % WICK_WARP;
    tile at;
    if (pack > 1) {
        at.first = wick_thread() * WICK_PACK;
        at.end = cut.packed;
    } else {
        const int64_t thread = wick_thread() - cut.blocks * blockDim.x;
        at.first = cut.packed + (thread - lane) * TILE_SINGLES + lane;
        at.end = cut.count;
    }
    return at;
}

/* A thread without elements leaves before it reads. Were its reads skipped instead, each of them
 * would be waited for where the two ways meet again, before the next one is even asked for. */
static __device__ __forceinline__ bool tile_is_empty(tile at) { return at.first >= at.end; }

/* Of single elements behind the end nothing is read: they are zeros. */
static __device__ __forceinline__ uint4 tile_load(const T *x, tile at, int pack)
{
    uint4 in = make_uint4(0, 0, 0, 0);
    T v[WICK_PACK];
    if (pack > 1) return wick_load16(x + at.first);
#pragma unroll
    for (int k = 0; k < TILE_SINGLES; k++)
        v[k] = at.first + k * WICK_WARP < at.end ? x[at.first + k * WICK_WARP] : wick_T(0);
    memcpy(&in, v, TILE_SINGLES * sizeof(T));
    return in;
}

static __device__ __forceinline__ void tile_store(T *y, const T *v, tile at, int pack)
{
    if (pack > 1) {
        wick_store(y + at.first, v, WICK_PACK);
        return;
    }
#pragma unroll
    for (int k = 0; k < TILE_SINGLES; k++)
        if (at.first + k * WICK_WARP < at.end) y[at.first + k * WICK_WARP] = v[k];
}

#else /* the host */

/* `aligned`: all arrays start at a multiple of 16 bytes. Small arrays go in small blocks, so that
 * they reach more multiprocessors. */
WICK_HOST_FN tiles tiles_cut(int64_t count, bool aligned)
{
    const int64_t bytes = count * (int64_t)sizeof(T);
    tiles cut = {count, aligned ? count - count % TILE_PACK : 0, TILE_THREADS, 0};
    if (bytes < ((int64_t)4 << 20)) cut.threads = TILE_FEW_THREADS;
    cut.blocks = wick_ceil_div(cut.packed, cut.threads * TILE_PACK);
    return cut;
}

/* The blocks of threads for packs and for single elements. */
WICK_HOST_FN wick_dim3 tiles_grid(const tiles *cut)
{
    return wick_1d(cut->blocks +
                   wick_ceil_div(cut->count - cut->packed, cut->threads * TILE_SINGLES));
}

#endif

#endif /* TILES_H */
