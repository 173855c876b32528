/* reduce_sum -- y = the sum of all elements of x
 *
 * Bandwidth bound: x is read once. It is cut into chunks, which threads share out, and chunks into
 * blocks; where the cuts lie depends on N alone, so the result does not depend on the number of
 * threads.
 *
 *   x      |--------- chunk 0 ---------|--------- chunk 1 ---------| ...   at most CHUNKS
 *          |- block -|- block -|- block|- block -| ...                     BLOCK elements each
 *
 * A block is summed in A, in LANES lanes side by side that are then folded by halves: at most 38
 * additions follow one another, whatever N is. Blocks and chunks are added in f64, in order. One
 * rounding to T at the end. Nothing summed is 0; an infinity or NaN in x gives what it gives in
 * torch. The gradient is dy at every element, written past the caches where it would not stay in
 * them.
 */
#include "../tiles.h"
#include "lanes.h"
#include "spans.h"

WICK_OP(reduce_sum, "x: T[*N] -> y: T[] where T: f16 bf16 f32 f64 scratch w: f64[2048]");
WICK_OP(reduce_sum_backward, "dy: T[], x: shape[*N] -> dx: T[*N] batch N");

enum { CHUNKS = 512, GRAIN = 32768 };

typedef struct job {
    const T *x;
    double *partial; /* one per chunk */
    int64_t N;
    int64_t chunk; /* elements in each but the last, a multiple of BLOCK */
} job;

static wick_status sum_chunks(void *arg, int64_t begin, int64_t end)
{
    const job *j = (const job *)arg;

    for (int64_t c = begin; c < end; c++) {
        const int64_t last = wick_min((c + 1) * j->chunk, j->N);
        double sum = 0;
        for (int64_t i = c * j->chunk; i < last; i += BLOCK)
            sum += (double)sum_block(j->x + i, wick_min(BLOCK, last - i));
        j->partial[c] = sum;
    }
    return WICK_OK;
}

WICK_IMPL wick_status reduce_sum_cpu(wick_ctx *ctx, const T *x, T *y, double *w, int64_t N)
{
    const int64_t chunk = wick_max(1, wick_ceil_div(N, (int64_t)CHUNKS * BLOCK)) * BLOCK;
    const int64_t chunks = wick_ceil_div(N, chunk);
    double sum = 0;
    job j = {x, w, N, chunk};
    wick_status status = wick_parallel(ctx, chunks, wick_max(1, GRAIN / chunk), sum_chunks, &j);

    if (status != WICK_OK) return status;
    for (int64_t c = 0; c < chunks; c++)
        sum += w[c];
    *y = wick_T((A)sum);
    return WICK_OK;
}

static __global__ void __launch_bounds__(SPAN_THREADS, SPAN_RESIDENT)
    reduce_sum_spans(const T *x, T *y, double *w, int64_t N, int64_t span)
{
    double sum;
    if (!span_sum(x, N, span, 0, blockIdx.x, gridDim.x, w, &sum)) return;
    if (threadIdx.x == 0) *y = wick_T((A)sum);
}

WICK_IMPL wick_status reduce_sum_cuda(wick_ctx *ctx, const T *x, T *y, double *w, int64_t N)
{
    int64_t span;
    const int64_t parts = span_parts(1, N, wick_multiprocessors(ctx), &span);
    return WICK_LAUNCH(ctx, reduce_sum_spans, wick_1d(parts), wick_1d(SPAN_THREADS), 0, x, y, w, N,
                       span);
}

/* ---- the gradient ---- */

typedef struct backward_job {
    const T *filled; /* a block of dy */
    T *dx;
    int64_t N;
    bool streaming;
} backward_job;

static wick_status fill_blocks(void *arg, int64_t begin, int64_t end)
{
    const backward_job j = *(const backward_job *)arg;
    const int64_t last = wick_min(end * BLOCK, j.N);

    for (int64_t i = begin * BLOCK; i < last; i += BLOCK)
        wick_write_bytes(j.dx + i, j.filled, wick_min(BLOCK, last - i) * (int64_t)sizeof(T),
                         j.streaming);
    wick_write_done(j.streaming);
    return WICK_OK;
}

WICK_IMPL wick_status reduce_sum_backward_cpu(wick_ctx *ctx, const T *dy, T *dx, int64_t N)
{
    const T value = *dy;
    T filled[BLOCK];
    backward_job j = {filled, dx, N, wick_worth_streaming(N * (int64_t)sizeof(T))};

    for (int64_t k = 0; k < wick_min(N, BLOCK); k++)
        filled[k] = value;
    return wick_parallel(ctx, wick_ceil_div(N, BLOCK), GRAIN / BLOCK, fill_blocks, &j);
}

static __device__ __forceinline__ void fill_tile(const T *dy, T *dx, tiles cut, int pack)
{
    T v[WICK_PACK];
    const T value = *dy;
    const tile at = tile_here(cut, pack);
    if (tile_is_empty(at)) return;
#pragma unroll
    for (int k = 0; k < tile_size(pack); k++)
        v[k] = value;
    tile_store(dx, v, at, pack);
}

static __global__ void __launch_bounds__(TILE_THREADS)
    reduce_sum_backward_tiles(const T *dy, T *dx, tiles cut)
{
    if (tile_is_packed(cut))
        fill_tile(dy, dx, cut, WICK_PACK);
    else
        fill_tile(dy, dx, cut, 1);
}

WICK_IMPL wick_status reduce_sum_backward_cuda(wick_ctx *ctx, const T *dy, T *dx, int64_t N)
{
    const tiles cut = tiles_cut(N, wick_aligned16(dx));
    return WICK_LAUNCH(ctx, reduce_sum_backward_tiles, tiles_grid(&cut), wick_1d(cut.threads), 0,
                       dy, dx, cut);
}
