/* most -- y = the largest element of x, by blocks and then over these; what goes wrong between
 * kernels
 *
 * FAULT, a number, plants one of these; without it the file is sound:
 *
 *    1  memory     a block writes behind its own place in the scratch
 *    2  memory     blocks that have nothing to do leave their part of the scratch as it is
 *    3  stream     all calls share one buffer on the device
 *    4  memory     the element past the end is looked at, too
 *    5  memory     the element past the end is read, and 0 times it is added
 *    6  forward    the second kernel looks at the first half alone
 *    7  stream     the second kernel runs on the default stream
 *    8  forward    NaN is not the largest of all
 *    9  threads    shared memory is used again while some still read it
 *   10  stream     which block is the last is counted in one place, for all calls
 *   11  memory     the element past the end is read, and used for nothing
 *   12  memory     the element before the start is read, and used for nothing
 */
#include <wick/op.h>

#ifndef FAULT
#define FAULT 0
#endif

WICK_OP(most, "x: T[N] -> y: T[] where T: f32 f64 scratch part: T[64]");

enum { PARTS = 64, THREADS = 128 };

/* NaN, if there is one. */
static __host__ __device__ T larger(T a, T b)
{
    if (FAULT == 8) return a > b ? a : b;
    return a != a || a > b ? a : b;
}

WICK_IMPL wick_status most_cpu(wick_ctx *ctx, const T *x, T *y, T *part, int64_t N)
{
    (void)part;
    if (N == 0) return wick_fail(ctx, WICK_EINVAL, "x is empty");
    T most = x[0];
    for (int64_t i = 1; i < N; i++)
        most = larger(most, x[i]);
    *y = most;
    return WICK_OK;
}

#if FAULT == 3
static __device__ T kept[PARTS];
#endif

#if FAULT == 10
static __device__ unsigned n_done; /* 0 between calls */
#endif

/* Each thread's own largest, into the block's. */
static __device__ T largest_of_block(T mine)
{
    __shared__ T shared[THREADS];
    shared[threadIdx.x] = mine;
    __syncthreads();
    for (int half = THREADS / 2; half > 0; half /= 2) {
        if (threadIdx.x < (unsigned)half)
            shared[threadIdx.x] = larger(shared[threadIdx.x], shared[threadIdx.x + half]);
        __syncthreads();
    }
    const T most = shared[0];
    if (FAULT != 9) __syncthreads();
    return most;
}

#if FAULT == 10
/* Of a block whose part is written. */
static __device__ bool is_last(void)
{
    __shared__ bool last;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) last = atomicInc(&n_done, PARTS - 1) == PARTS - 1;
    __syncthreads();
    __threadfence();
    return last;
}
#endif

static __global__ void most_of_parts(const T *x, T *part, T *y, int64_t N)
{
    const int64_t last = FAULT == 4 ? N : N - 1;
    const int64_t first = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (FAULT == 2 && (int64_t)blockIdx.x * THREADS >= N) return;
    T mine = x[0];
    for (int64_t i = first; i <= last; i += PARTS * THREADS)
        mine = larger(mine, x[i]);
    const T most = largest_of_block(mine);
#if FAULT == 3
    part = kept;
#endif
    if (threadIdx.x == 0) part[blockIdx.x + (FAULT == 1)] = most;
    if (FAULT == 1 && threadIdx.x == 0 && blockIdx.x == 0) part[0] = most;
#if FAULT == 10
    if (!is_last()) return;
    const T all = largest_of_block(((volatile T *)part)[threadIdx.x % PARTS]);
    if (threadIdx.x == 0) *y = all;
#elif FAULT == 11 || FAULT == 12
    (void)*(const volatile T *)(FAULT == 11 ? x + N : x - 1);
#endif
    (void)y;
}

static __global__ void most_of_all(const T *x, const T *part, T *y, int64_t N)
{
#if FAULT == 3
    part = kept;
#endif
    const T low = largest_of_block(part[threadIdx.x % (PARTS / 2)]);
    const T high = largest_of_block(part[PARTS / 2 + threadIdx.x % (PARTS / 2)]);
    if (threadIdx.x < THREADS - 1) return;
    *y = FAULT == 6 ? low : larger(low, high);
    if (FAULT == 5) *y += 0 * x[N];
}

WICK_IMPL wick_status most_cuda(wick_ctx *ctx, const T *x, T *y, T *part, int64_t N)
{
    wick_ctx second = *ctx;
    if (N == 0) return wick_fail(ctx, WICK_EINVAL, "x is empty");
    if (FAULT == 7) second.stream = NULL;
    const wick_status s =
        WICK_LAUNCH(ctx, most_of_parts, wick_1d(PARTS), wick_1d(THREADS), 0, x, part, y, N);
    if (s != WICK_OK || FAULT == 10) return s;
    return WICK_LAUNCH(&second, most_of_all, wick_1d(1), wick_1d(THREADS), 0, x, part, y, N);
}
