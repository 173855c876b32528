/* device.h -- what kernels are written with; part of <wick/op.h>, seen by NVRTC and nvcc alone
 *
 * Packs: a thread moves 16 bytes at a time where the addresses allow it.
 *
 *   T v[WICK_PACK];
 *   wick_load(v, x + i, WICK_PACK);      one access of 16 bytes; x + i is a multiple of 16
 *   ...
 *   wick_store(y + i, v, WICK_PACK);
 *
 * The count is a literal: WICK_PACK is one access, any other number that many. Write the kernel's
 * body once, in a WICK_INLINE function that takes the count, and call it with WICK_PACK and with 1.
 *
 * Sums over a warp or a block are taken in one fixed order, so they are the same on every run.
 * Indices are 64-bit: wick_thread() and wick_threads() count over the whole grid.
 */
#ifndef WICK_DEVICE_H
#define WICK_DEVICE_H

#include <wick/element.h>

#if defined(__CUDACC__)

#include <string.h>

enum { WICK_WARP = 32 };

/* WICK_ENTER_KERNEL is what the build writes at the start of every kernel. */
#ifdef WICK_SKEW
/* For `wick check`: the warps of a block begin, and leave each barrier, at different times, any of
 * them first. Where a barrier is missing, results change. */
static __device__ __forceinline__ void wick_skew(void)
{
    const unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    const unsigned start = (unsigned)clock();
    const unsigned mixed = (thread / WICK_WARP + 1u) * 2654435761u ^ start * 2246822519u;
    const unsigned wait = mixed >> 20; /* up to 4095 cycles */
    while ((unsigned)clock() - start < wait) {
    }
}
static __device__ __forceinline__ void wick_skewed_barrier(void)
{
    __syncthreads();
    wick_skew();
}
#define __syncthreads() wick_skewed_barrier()
#define WICK_ENTER_KERNEL wick_skew();
#else
#define WICK_ENTER_KERNEL
#endif

/* This thread's number in the grid, x alone, and how many there are. */
static __device__ __forceinline__ int64_t wick_thread(void)
{
    return (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
}
static __device__ __forceinline__ int64_t wick_threads(void)
{
    return (int64_t)gridDim.x * blockDim.x;
}

/* ---- 16 bytes ---- */

static __device__ __forceinline__ uint4 wick_load16(const void *from)
{
    return *(const uint4 *)from;
}
static __device__ __forceinline__ void wick_store16(void *to, uint4 v) { *(uint4 *)to = v; }
/* What is read once, or written and not read again soon, need not push other things out of the
 * caches. */
static __device__ __forceinline__ uint4 wick_load16_once(const void *from)
{
    return __ldcs((const uint4 *)from);
}
static __device__ __forceinline__ void wick_store16_once(void *to, uint4 v)
{
    __stcs((uint4 *)to, v);
}

#if WICK_T != 0

static __device__ __forceinline__ void wick_load(T *to, const T *from, int n)
{
    if (n == WICK_PACK) {
        uint4 v = wick_load16(from);
        memcpy(to, &v, sizeof v);
    } else {
#pragma unroll
        for (int k = 0; k < n; k++)
            to[k] = from[k];
    }
}

static __device__ __forceinline__ void wick_store(T *to, const T *from, int n)
{
    if (n == WICK_PACK) {
        uint4 v;
        memcpy(&v, from, sizeof v);
        wick_store16(to, v);
    } else {
#pragma unroll
        for (int k = 0; k < n; k++)
            to[k] = from[k];
    }
}

/* The same past the caches. */
static __device__ __forceinline__ void wick_load_once(T *to, const T *from, int n)
{
    if (n == WICK_PACK) {
        uint4 v = wick_load16_once(from);
        memcpy(to, &v, sizeof v);
    } else {
        wick_load(to, from, n);
    }
}

static __device__ __forceinline__ void wick_store_once(T *to, const T *from, int n)
{
    if (n == WICK_PACK) {
        uint4 v;
        memcpy(&v, from, sizeof v);
        wick_store16_once(to, v);
    } else {
        wick_store(to, from, n);
    }
}

#endif /* WICK_T != 0 */

/* ---- sums and maxima over a warp and over a block ----
 * wick_warp_sum_f32 and its like: every lane gets the result; all 32 lanes take part.
 * wick_block_sum_f32(v, shared): every thread gets the result; all threads of a one-dimensional
 * block take part, a multiple of 32 of them; `shared` has room for 32 and may be used again after a
 * __syncthreads(). A NaN anywhere makes maxima and minima NaN. */

#define WICK_COLLECTIVES(name, type, expression, nothing)                                          \
    static __device__ __forceinline__ type wick_warp_##name(type a)                                \
    {                                                                                              \
        for (int step = WICK_WARP / 2; step > 0; step /= 2) {                                      \
            type b = __shfl_xor_sync(0xffffffffu, a, step);                                        \
            a = (expression);                                                                      \
        }                                                                                          \
        return a;                                                                                  \
    }                                                                                              \
    static __device__ __forceinline__ type wick_block_##name(type a, type *shared)                 \
    {                                                                                              \
        int warp = (int)threadIdx.x / WICK_WARP, lane = (int)threadIdx.x % WICK_WARP;              \
        a = wick_warp_##name(a);                                                                   \
        if (lane == 0) shared[warp] = a;                                                           \
        __syncthreads();                                                                           \
        a = lane < (int)blockDim.x / WICK_WARP ? shared[lane] : (nothing);                         \
        return wick_warp_##name(a);                                                                \
    }

WICK_COLLECTIVES(sum_f32, float, a + b, 0)
WICK_COLLECTIVES(sum_f64, double, a + b, 0)
WICK_COLLECTIVES(sum_i32, int32_t, a + b, 0)
WICK_COLLECTIVES(sum_i64, int64_t, a + b, 0)
WICK_COLLECTIVES(max_f32, float, b > a || b != b ? b : a, -__int_as_float(0x7f800000))
WICK_COLLECTIVES(max_f64, double, b > a || b != b ? b : a,
                 -__longlong_as_double(0x7ff0000000000000))
WICK_COLLECTIVES(max_i32, int32_t, b > a ? b : a, INT32_MIN)
WICK_COLLECTIVES(max_i64, int64_t, b > a ? b : a, INT64_MIN)
WICK_COLLECTIVES(min_f32, float, b < a || b != b ? b : a, __int_as_float(0x7f800000))
WICK_COLLECTIVES(min_f64, double, b < a || b != b ? b : a, __longlong_as_double(0x7ff0000000000000))
WICK_COLLECTIVES(min_i32, int32_t, b < a ? b : a, INT32_MAX)
WICK_COLLECTIVES(min_i64, int64_t, b < a ? b : a, INT64_MAX)

/* The same for A. */
#if WICK_T == 4
#define WICK_A_NAME(name) name##_f64
#elif WICK_T >= 5
#define WICK_A_NAME(name) name##_i64
#else
#define WICK_A_NAME(name) name##_f32
#endif
#define wick_warp_sum WICK_A_NAME(wick_warp_sum)
#define wick_warp_max WICK_A_NAME(wick_warp_max)
#define wick_warp_min WICK_A_NAME(wick_warp_min)
#define wick_block_sum WICK_A_NAME(wick_block_sum)
#define wick_block_max WICK_A_NAME(wick_block_max)
#define wick_block_min WICK_A_NAME(wick_block_min)

#endif /* __CUDACC__ */

#endif /* WICK_DEVICE_H */
