/* tiles.h -- the walk of operators that go element by element, on the GPU
 *
 * A thread has TILE_STEPS packs of 16 bytes of each array and asks for all of them before it waits
 * for one. The threads of a warp hold neighbouring packs:
 *
 *   tile of a warp   | t0 t1 t2 ... t31 | t0 t1 t2 ... t31 | ...      TILE_STEPS times
 *
 * What does not fill a pack at the end, or everything if an array does not start at a multiple of
 * 16 bytes, goes in the same way with single elements for packs, in blocks of threads of its own.
 * So a kernel's body is written once, takes the length of a pack and is called with both:
 *
 *   static __device__ __forceinline__ void negate_tile(const T *x, T *y, tiles cut, int pack)
 *   {
 *       uint4 in[TILE_STEPS];
 *       T v[TILE_ROOM];
 *       const tile at = tile_here(cut, pack);
 *       tile_load(in, x, at, pack);
 *       for (int k = 0; k < TILE_STEPS * pack; k++)
 *           v[k] = wick_T(-tile_A(in, k, pack));
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
 * A thread has read all of its elements before it writes one, so a result may be an input too.
 */
#ifndef TILES_H
#define TILES_H

#include "packs.h"

enum { TILE_STEPS = 1, TILE_THREADS = 128, TILE_FEW_THREADS = 64 };

/* How arrays of one length are cut; made on the host, read in kernels. */
typedef struct tiles {
    int64_t count;   /* elements */
    int64_t packed;  /* of them in packs; single ones follow */
    int64_t threads; /* in a block */
    int64_t blocks;  /* that have packs */
} tiles;

#if defined(__CUDACC__)

enum { TILE_ROOM = TILE_STEPS * WICK_PACK };

/* This thread's part: a pack at `first`, and so on in steps of a warp's packs, while that is before
 * `end`. */
typedef struct tile {
    int64_t first, end;
} tile;

static __device__ __forceinline__ bool tile_is_packed(tiles cut)
{
    return (int64_t)blockIdx.x < cut.blocks;
}

static __device__ __forceinline__ tile tile_here(tiles cut, int pack)
{
    const int64_t thread = wick_thread() - (pack > 1 ? 0 : cut.blocks * blockDim.x);
    const int lane = (int)threadIdx.x % WICK_WARP;
    tile at;
    at.first = (pack > 1 ? 0 : cut.packed) + ((thread - lane) * TILE_STEPS + lane) * pack;
    at.end = pack > 1 ? cut.packed : cut.count;
    return at;
}

static __device__ __forceinline__ bool tile_is_whole(tile at, int pack)
{
    return at.first + (TILE_STEPS - 1) * WICK_WARP * pack < at.end;
}

/* What lies behind the end is not read: there, `in` is zero. */
static __device__ __forceinline__ void tile_load(uint4 *in, const T *x, tile at, int pack)
{
    if (pack > 1 && tile_is_whole(at, pack)) {
#pragma unroll
        for (int u = 0; u < TILE_STEPS; u++)
            in[u] = pack_load(x + at.first + u * WICK_WARP * pack, pack);
        return;
    }
#pragma unroll
    for (int u = 0; u < TILE_STEPS; u++) {
        const int64_t i = at.first + u * WICK_WARP * pack;
        in[u] = make_uint4(0, 0, 0, 0);
        if (i < at.end) in[u] = pack_load(x + i, pack);
    }
}

/* The k-th of a thread's elements. */
static __device__ __forceinline__ T tile_T(const uint4 *in, int k, int pack)
{
    return pack_T(in[k / pack], k % pack);
}
static __device__ __forceinline__ A tile_A(const uint4 *in, int k, int pack)
{
    return wick_A(tile_T(in, k, pack));
}

static __device__ __forceinline__ void tile_store(T *y, const T *v, tile at, int pack)
{
    if (pack > 1 && tile_is_whole(at, pack)) {
#pragma unroll
        for (int u = 0; u < TILE_STEPS; u++)
            pack_store(y + at.first + u * WICK_WARP * pack, v + u * pack, pack);
        return;
    }
#pragma unroll
    for (int u = 0; u < TILE_STEPS; u++) {
        const int64_t i = at.first + u * WICK_WARP * pack;
        if (i < at.end) pack_store(y + i, v + u * pack, pack);
    }
}

#else /* the host */

/* `aligned`: all arrays start at a multiple of 16 bytes. Small arrays
 * go in small blocks, so that they reach more multiprocessors. */
WICK_HOST_FN tiles tiles_cut(int64_t count, bool aligned)
{
    const int64_t pack = 16 / (int64_t)sizeof(T), bytes = count * (int64_t)sizeof(T);
    tiles cut = {count, aligned ? count - count % pack : 0, TILE_THREADS, 0};
    if (bytes < ((int64_t)4 << 20)) cut.threads = TILE_FEW_THREADS;
    cut.blocks = wick_ceil_div(cut.packed, cut.threads * TILE_STEPS * pack);
    return cut;
}

/* The blocks of threads for packs and for single elements. */
WICK_HOST_FN wick_dim3 tiles_grid(const tiles *cut)
{
    return wick_1d(cut->blocks +
                   wick_ceil_div(cut->count - cut->packed, cut->threads * TILE_STEPS));
}

#endif

#endif /* TILES_H */
