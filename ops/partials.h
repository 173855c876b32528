/* partials.h -- sums that several blocks of threads share, in one launch and in a fixed order
 *
 * Each block of a group writes its partial sum and then marks it as written; a block that finds the
 * whole group marked adds the partial sums up, in their order, so that the result is the same on
 * every run. No block waits for another. The last one to mark finds all marks; so may others that
 * mark at the same time, which then write the same result once more.
 *
 * The marks lie in scratch memory, which holds anything at first. A mark is a number of 64 bits
 * that belongs to its place and to this file, and the block that finds them all takes them away:
 * none is left for the next launch, and what other programs leave there is not such a number.
 */
#ifndef PARTIALS_H
#define PARTIALS_H

#include <wick/op.h>

/* The most blocks of one launch that may share sums. */
enum { PARTIALS_BLOCKS = 1024 };

#if defined(__CUDACC__)

static __device__ __forceinline__ uint64_t partials_mark(const volatile uint64_t *at)
{
    return ((uint64_t)(uintptr_t)at * 0x9e3779b97f4a7c15u) ^ 0xd1b54a32d192ed03u;
}

/* Called by all threads of a block when its partial sum is written: marks[mine] is its mark, the
 * group's are marks[first], marks[first + step], ... `count` of them. True: this block adds them
 * up, reading what others wrote with __ldcg. */
static __device__ __forceinline__ bool partials_complete(volatile uint64_t *marks, int64_t mine,
                                                         int64_t first, int64_t step, int64_t count)
{
    int found = 1;

    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence(); /* the sum before the mark */
        marks[mine] = partials_mark(marks + mine);
        __threadfence(); /* the mark before a look at the others */
    }
    __syncthreads();
#pragma unroll 1
    for (int64_t i = threadIdx.x; i < count; i += blockDim.x) {
        const volatile uint64_t *at = marks + first + i * step;
        if (*at != partials_mark(at)) found = 0;
    }
    if (!__syncthreads_and(found)) return false;
#pragma unroll 1
    for (int64_t i = threadIdx.x; i < count; i += blockDim.x)
        marks[first + i * step] = 0;
    __threadfence();
    return true;
}

/* The same for one number per block, of which *sum is this block's: true: *sum is the sum of the
 * whole group, blocks [first, first + count), for every thread. w: PARTIALS_BLOCKS numbers, then as
 * many marks. */
static __device__ __forceinline__ bool partials_sum(double *sum, double *shared, double *w,
                                                    int64_t mine, int64_t first, int64_t count)
{
    double total = 0;

    if (count == 1) return true;
    if (threadIdx.x == 0) w[mine] = *sum;
    if (!partials_complete((uint64_t *)(w + PARTIALS_BLOCKS), mine, first, 1, count)) return false;
#pragma unroll 1
    for (int64_t i = threadIdx.x; i < count; i += blockDim.x)
        total += __ldcg(w + first + i);
    *sum = wick_block_sum_f64(total, shared);
    return true;
}

#endif /* __CUDACC__ */

#endif /* PARTIALS_H */
