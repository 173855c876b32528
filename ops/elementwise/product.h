/* product.h -- the product of two tensors and its gradient, which mul and muladd share
 *
 * The gradients of a product are products too: da = dy * b, db = dy * a. What nobody wants (NULL)
 * is not computed.
 */
#ifndef PRODUCT_H
#define PRODUCT_H

#include "elementwise.h"

#if !defined(__CUDACC__)

WICK_INLINE void product_block(const T *a, const T *b, T *y, int64_t n, bool streaming)
{
    A room_a[BLOCK], room_b[BLOCK], room_y[BLOCK];
    const A *a_A = wick_read_block(room_a, a, n);
    const A *b_A = wick_read_block(room_b, b, n);
    A *y_A = wick_room_for(room_y, y, streaming);
    for (int64_t k = 0; k < n; k++)
        y_A[k] = product(a_A[k], b_A[k]);
    wick_write_block(y, y_A, n, streaming);
}

typedef struct backward_job {
    const T *dy, *a, *b;
    T *da, *db; /* NULL where nobody wants it */
    int64_t N;
    bool streaming;
} backward_job;

WICK_FN void multiply(const T *a, const T *b, T *y, int64_t n, bool streaming)
{
    if (n == BLOCK)
        product_block(a, b, y, BLOCK, streaming);
    else
        product_block(a, b, y, n, streaming);
}

/* dy is read twice, the second time from the nearest cache. */
static wick_status product_backward_blocks(void *arg, int64_t begin, int64_t end)
{
    const backward_job j = *(const backward_job *)arg;
    const int64_t last = wick_min(end * BLOCK, j.N);

    for (int64_t i = begin * BLOCK; i < last; i += BLOCK) {
        const int64_t n = wick_min(BLOCK, last - i);
        if (j.da) multiply(j.dy + i, j.b + i, j.da + i, n, j.streaming);
        if (j.db) multiply(j.dy + i, j.a + i, j.db + i, n, j.streaming);
    }
    wick_write_done(j.streaming);
    return WICK_OK;
}

WICK_FN wick_status product_backward(wick_ctx *ctx, const T *dy, const T *a, const T *b, T *da,
                                     T *db, int64_t N)
{
    const int64_t written = N * (int64_t)sizeof(T) * ((da != NULL) + (db != NULL));
    backward_job j = {dy, a, b, da, db, N, wick_worth_streaming(written)};
    return wick_parallel(ctx, wick_ceil_div(N, BLOCK), GRAIN, product_backward_blocks, &j);
}

/* How the three inputs and up to two results are cut for the GPU. */
WICK_HOST_FN tiles product_backward_cut(const T *dy, const T *a, const T *b, const T *da,
                                        const T *db, int64_t N)
{
    const bool aligned = wick_aligned16(dy) && wick_aligned16(a) && wick_aligned16(b) &&
                         wick_aligned16(da) && wick_aligned16(db);
    const int wanted = (da != NULL) + (db != NULL);
    return tiles_cut(wanted ? N : 0, aligned);
}

#else /* the GPU */

static __device__ __forceinline__ void product_backward_tile(const T *dy, const T *a, const T *b,
                                                             T *da, T *db, tiles cut, int pack)
{
    T v[WICK_PACK], w[WICK_PACK];
    const tile at = tile_here(cut, pack);
    if (tile_is_empty(at)) return;
    const uint4 dy_in = tile_load(dy, at, pack);
    uint4 a_in = make_uint4(0, 0, 0, 0), b_in = a_in;
    if (da) b_in = tile_load(b, at, pack);
    if (db) a_in = tile_load(a, at, pack);
#pragma unroll
    for (int k = 0; k < tile_size(pack); k++) {
        v[k] = wick_T(product(pack_A(dy_in, k), pack_A(b_in, k)));
        w[k] = wick_T(product(pack_A(dy_in, k), pack_A(a_in, k)));
    }
    if (da) tile_store(da, v, at, pack);
    if (db) tile_store(db, w, at, pack);
}

#endif

#endif /* PRODUCT_H */
