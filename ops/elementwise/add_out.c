/* add_out -- out = a + b, written into a tensor of the caller's
 *
 * Bandwidth bound: a and b are read once and out written once, past the caches where it would not
 * stay in them. The sum is taken in A and rounded once to T; NaN and infinities as in IEEE 754.
 *
 * out may be a or b itself: an element is read before it is written, and nothing else reads it.
 * For that reason no pointer is marked restrict.
 */
#include "elementwise.h"

WICK_OP(add_out, "a: T[*N], b: T[*N], out!: T[*N] -> ()"
                 " where T: f16 bf16 f32 f64 batch N");

typedef struct job {
    const T *a, *b;
    T *out;
    int64_t N;
    bool streaming;
} job;

WICK_INLINE void add_out_block(const T *a, const T *b, T *out, int64_t n, bool streaming)
{
    A room_a[BLOCK], room_b[BLOCK], room_out[BLOCK];
    const A *a_A = wick_read_block(room_a, a, n);
    const A *b_A = wick_read_block(room_b, b, n);
    A *out_A = wick_room_for(room_out, out, streaming);
    for (int64_t k = 0; k < n; k++)
        out_A[k] = a_A[k] + b_A[k];
    wick_write_block(out, out_A, n, streaming);
}

/* Elements of the blocks [begin, end). */
static wick_status add_out_blocks(void *arg, int64_t begin, int64_t end)
{
    const job j = *(const job *)arg;
    const int64_t last = wick_min(end * BLOCK, j.N);
    int64_t i = begin * BLOCK;

    for (; i + BLOCK <= last; i += BLOCK)
        add_out_block(j.a + i, j.b + i, j.out + i, BLOCK, j.streaming);
    if (i < last) add_out_block(j.a + i, j.b + i, j.out + i, last - i, j.streaming);
    wick_write_done(j.streaming);
    return WICK_OK;
}

WICK_IMPL wick_status add_out_cpu(wick_ctx *ctx, const T *a, const T *b, T *out, int64_t N)
{
    job j = {a, b, out, N, wick_worth_streaming(N * (int64_t)sizeof(T))};
    return wick_parallel(ctx, wick_ceil_div(N, BLOCK), GRAIN, add_out_blocks, &j);
}

static __device__ __forceinline__ void add_out_tile(const T *a, const T *b, T *out, tiles cut,
                                                    int pack)
{
    T v[WICK_PACK];
    const tile at = tile_here(cut, pack);
    if (tile_is_empty(at)) return;
    const uint4 a_in = tile_load(a, at, pack), b_in = tile_load(b, at, pack);
#pragma unroll
    for (int k = 0; k < tile_size(pack); k++)
        v[k] = wick_T(pack_A(a_in, k) + pack_A(b_in, k));
    tile_store(out, v, at, pack);
}

static __global__ void __launch_bounds__(TILE_THREADS)
    add_out_tiles(const T *a, const T *b, T *out, tiles cut)
{
    if (tile_is_packed(cut))
        add_out_tile(a, b, out, cut, WICK_PACK);
    else
        add_out_tile(a, b, out, cut, 1);
}

WICK_IMPL wick_status add_out_cuda(wick_ctx *ctx, const T *a, const T *b, T *out, int64_t N)
{
    const bool aligned = wick_aligned16(a) && wick_aligned16(b) && wick_aligned16(out);
    const tiles cut = tiles_cut(N, aligned);
    return WICK_LAUNCH(ctx, add_out_tiles, tiles_grid(&cut), wick_1d(cut.threads), 0, a, b, out,
                       cut);
}
