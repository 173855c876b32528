/* spans.h -- the sum of elements that lie side by side, on the GPU
 *
 * A warp or a block of threads goes over a span in packs, SPAN_STEPS of them to a thread at a time;
 * what lies before the first multiple of 16 bytes and behind the last goes by single elements. The
 * packs that a thread holds at a time are added up in A, by halves, and these sums in f64, so that
 * the error hardly grows with the length; so are the threads and, where several blocks share a row,
 * the blocks (partials.h). The order depends on the sizes, on how x is aligned and on the number of
 * multiprocessors alone.
 */
#ifndef SPANS_H
#define SPANS_H

#include "../packs.h"
#include "../partials.h"

enum {
    SPAN_THREADS = 512,
    SPAN_RESIDENT = 2, /* blocks of a multiprocessor at a time */
    SPAN_STEPS = sizeof(T) == 8 ? 4 : 8,
    SPAN_SCRATCH = 2 * PARTIALS_BLOCKS
};

#if defined(__CUDACC__)

/* The sum of what a thread holds. */
static __device__ __forceinline__ A span_add(const uint4 *in)
{
    A sum[WICK_PACK];
#pragma unroll
    for (int k = 0; k < WICK_PACK; k++) {
        A v[SPAN_STEPS];
#pragma unroll
        for (int u = 0; u < SPAN_STEPS; u++)
            v[u] = pack_A(in[u], k);
#pragma unroll
        for (int half = SPAN_STEPS / 2; half > 0; half /= 2)
#pragma unroll
            for (int u = 0; u < half; u++)
                v[u] += v[u + half];
        sum[k] = v[0];
    }
#pragma unroll
    for (int half = WICK_PACK / 2; half > 0; half /= 2)
#pragma unroll
        for (int k = 0; k < half; k++)
            sum[k] += sum[k + half];
    return sum[0];
}

/* What the thread-th of `threads` threads, at least a warp, has to add to the sum of x[0, n). */
static __device__ __forceinline__ double span_part(const T *x, int64_t n, int thread, int threads)
{
    const int64_t behind = (int64_t)((uintptr_t)x & 15u) / (int64_t)sizeof(T);
    const int64_t head = wick_min(n, behind ? WICK_PACK - behind : 0);
    const int64_t packs = (n - head) / WICK_PACK, tail = head + packs * WICK_PACK + thread;
    double total = 0;
    A edge = 0;

    if (thread < head) edge = wick_A(x[thread]);
    if (tail < n) edge += wick_A(x[tail]);
    x += head;
    for (int64_t i = thread; i < packs; i += SPAN_STEPS * threads) {
        uint4 in[SPAN_STEPS];
        if (i + (SPAN_STEPS - 1) * threads < packs) {
#pragma unroll
            for (int u = 0; u < SPAN_STEPS; u++)
                in[u] = wick_load16(x + (i + u * threads) * WICK_PACK);
        } else {
#pragma unroll
            for (int u = 0; u < SPAN_STEPS; u++) {
                in[u] = make_uint4(0, 0, 0, 0);
                if (i + u * threads < packs) in[u] = wick_load16(x + (i + u * threads) * WICK_PACK);
            }
        }
        total += (double)span_add(in);
    }
    return total + (double)edge;
}

/* The sum of row `row` of x[rows, n], cut into `parts` spans of `span` elements, by the block that
 * has part `part` of it: true: *out is it, for every thread. */
static __device__ __forceinline__ bool span_sum(const T *x, int64_t n, int64_t span, int64_t row,
                                                int64_t part, int64_t parts, double *w, double *out)
{
    __shared__ double shared[WICK_WARP];
    const int64_t begin = part * span, left = n - begin;
    double sum =
        span_part(x + row * n + begin, wick_min(span, left), (int)threadIdx.x, (int)blockDim.x);
    *out = wick_block_sum_f64(sum, shared);
    return partials_sum(out, shared, w, row * parts + part, row * parts, parts);
}

#else /* the host */

/* Into how many spans each of `rows` rows of n elements is cut, and their length. A multiple of 16
 * bytes in a block's every step, and enough of them that sharing them out is worth it. */
WICK_HOST_FN int64_t span_parts(int64_t rows, int64_t n, int64_t multiprocessors, int64_t *span)
{
    const int64_t bytes = n * (int64_t)sizeof(T), unit = 1024 / (int64_t)sizeof(T);
    const int64_t blocks = wick_min(multiprocessors * SPAN_RESIDENT, PARTIALS_BLOCKS);
    int64_t parts = rows * bytes <= 128 * 1024 ? 1 : wick_min(blocks / rows, bytes / (16 * 1024));
    parts = wick_max(1, parts);
    *span = wick_max(unit, wick_ceil_div(wick_ceil_div(n, parts), unit) * unit);
    return wick_max(1, wick_ceil_div(n, *span));
}

#endif

#endif /* SPANS_H */
