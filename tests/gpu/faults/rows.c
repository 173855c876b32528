/* rows -- y[n] = the sum of row n of x, a block for each; and what goes wrong on a GPU
 *
 * FAULT, a number, plants one of these; without it the file is sound:
 *
 *    1  stream     launched on the default stream
 *    2  forward    no barrier between the writing and the reading of shared memory
 *    3  memory     a block reads what another one writes, without waiting for it
 *    4  forward    the last row is left out where their number is odd
 *    5  memory     the element past the end is written
 *    6  memory     the last result is not written
 *    7  repeat     added up by atomics, in the order of arrival
 *    8  huge       the index of an element is kept in 32 bits
 *    9  forward    rows beyond 65535 are left out
 *   10  memory     a vector load that wants alignment
 *   11  forward    columns beyond the number of threads are left out
 *   12  forward    the sum is kept in T
 *   13  memory     y is added to, not set
 *   14  gradient   the gradient is that of the row before
 *   15  forward    only the first warp adds up
 *   16  leak       host memory is lost by every launch
 *   17  stream     the host waits for the device
 *   18  leak       memory of the device is lost by every call
 *   19  memory     the element before the start is written
 *   20  threads    a block that has more rows to do does not wait for all of its threads
 *   21  stream     y is cleared on the default stream, and added to on the current one
 *   22  threads    no barrier between the first writing to shared memory and the first reading
 *   23  memory     threads that have no column leave what shared memory held before
 *   24  huge       the index of an element is kept in 32 bits where a row is longer than the block
 */
#include <wick/op.h>

#include <dlfcn.h>
#include <stdlib.h>

#ifndef FAULT
#define FAULT 0
#endif

WICK_OP(rows, "x: T[N, C] -> y: A[N] where T: f16 f32");
WICK_OP(rows_backward, "dy: A[N], x: T[N, C] -> dx: T[N, C]");

enum { THREADS = 256 };

static A row_sum(const T *x, int64_t C)
{
    A sum = 0;
    for (int64_t c = 0; c < C; c++)
        sum += wick_A(x[c]);
    return sum;
}

WICK_IMPL wick_status rows_cpu(wick_ctx *ctx, const T *x, A *y, int64_t N, int64_t C)
{
    (void)ctx;
    for (int64_t n = 0; n < N; n++)
        y[n] = row_sum(x + n * C, C);
    return WICK_OK;
}

static __global__ void rows_sum(const T *x, A *y, int64_t N, int64_t C, A scale)
{
    __shared__ A part[THREADS];
    const int64_t step = gridDim.x;
    for (int64_t n = blockIdx.x; n < N; n += step) {
        A sum = 0;
#if FAULT == 8 || FAULT == 24
        for (int c = (int)threadIdx.x; c < (int)C; c += THREADS)
            sum += wick_A(x[FAULT == 24 && C <= THREADS ? n * C + c : (int)n * (int)C + c]);
#elif FAULT == 10
        for (int64_t c = (int64_t)threadIdx.x * 4; c + 4 <= C; c += THREADS * 4) {
            const uint2 pair = *(const uint2 *)(x + n * C + c);
            sum += wick_A(x[n * C + c]) + wick_A(x[n * C + c + 1]) + wick_A(x[n * C + c + 2]) +
                   wick_A(x[n * C + c + 3]) + (A)(pair.x == 1 && pair.y == 77);
        }
        for (int64_t c = C / 4 * 4 + threadIdx.x; c < C; c += THREADS)
            sum += wick_A(x[n * C + c]);
#else
        for (int64_t c = threadIdx.x; c < (FAULT == 11 && C > THREADS ? THREADS : C);
             c += THREADS) {
            sum += wick_A(x[n * C + c]);
            if (FAULT == 12) sum = wick_A(wick_T(sum));
        }
#endif
        if (FAULT == 7) {
            if (threadIdx.x == 0) y[n] = 0;
            __syncthreads();
            atomicAdd((float *)&y[n], (float)sum);
            __syncthreads();
            continue;
        }
        if (FAULT != 23 || threadIdx.x < C) part[threadIdx.x] = sum;
        if (FAULT != 2 && FAULT != 22) __syncthreads();
        for (int half = FAULT == 15 ? 16 : THREADS / 2; half > 0; half /= 2) {
            if (threadIdx.x < (unsigned)half) part[threadIdx.x] += part[threadIdx.x + half];
            if (FAULT != 2) __syncthreads();
        }
#if FAULT == 3 /* whose turn is next surely comes too early */
        for (volatile int pause = n % 2 ? 1000 : 0; pause < 1000; pause++)
            continue;
#endif
        const unsigned writer =
            FAULT == 20 ? THREADS - 1 : 0; /* the last warp reads the first's sum */
        if (threadIdx.x == writer && !(FAULT == 4 && N % 2 && n == N - 1) &&
            !(FAULT == 6 && n == N - 1))
            y[n] = (FAULT == 13 ? 0 * y[n] : FAULT == 21 ? y[n] : 0) + part[0] * scale;
        if (FAULT == 4 && threadIdx.x == 0 && N % 2 && n == N - 1) y[n] = 0;
        if (FAULT == 5 && threadIdx.x == 0 && n == N - 1) y[N] = 0;
        if (FAULT == 19 && threadIdx.x == 0 && n == 0) y[-1] = 0;
        if (FAULT == 3 && threadIdx.x == 0 && n > 0 && C > 100)
            y[n] += 0 * y[n - 1] + (y[n - 1] == 0);
        if (FAULT != 20) __syncthreads();
    }
}

WICK_IMPL wick_status rows_cuda(wick_ctx *ctx, const T *x, A *y, int64_t N, int64_t C)
{
    wick_ctx other = *ctx;
    const int64_t blocks = FAULT == 9 ? N : wick_min(N, FAULT == 20 ? 264 : 65535);
    if (FAULT == 1) other.stream = NULL;
#if FAULT == 16
    static void *volatile lost;
    lost = malloc(100);
#elif FAULT == 21
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (!driver) return wick_fail(ctx, WICK_ECUDA, "no driver");
    int (*clear)(uint64_t, unsigned char, size_t, void *) =
        (int (*)(uint64_t, unsigned char, size_t, void *))dlsym(driver, "cuMemsetD8Async");
    const int said = N == 0 ? 0 : clear((uint64_t)(uintptr_t)y, 0, (size_t)N * sizeof(A), NULL);
    dlclose(driver);
    if (said != 0) return wick_fail(ctx, WICK_ECUDA, "the driver says %d", said);
#elif FAULT == 17 || FAULT == 18
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (!driver) return wick_fail(ctx, WICK_ECUDA, "no driver");
    int (*wait)(void *) = (int (*)(void *))dlsym(driver, "cuStreamSynchronize");
    int (*take)(uint64_t *, size_t) = (int (*)(uint64_t *, size_t))dlsym(driver, "cuMemAlloc_v2");
    uint64_t lost = 0;
    const int said = FAULT == 17 ? wait(ctx->stream) : take(&lost, 8192);
    dlclose(driver);
    if (said != 0) return wick_fail(ctx, WICK_ECUDA, "the driver says %d", said);
#endif
#if FAULT == 9
    return WICK_LAUNCH(&other, rows_sum, wick_1d(wick_min(blocks, 65535)), wick_1d(THREADS), 0, x,
                       y, wick_min(N, 65535), C, 1);
#endif
    return WICK_LAUNCH(&other, rows_sum, wick_1d(blocks), wick_1d(THREADS), 0, x, y, N, C, 1);
}

/* ---- the gradient ---- */

WICK_IMPL wick_status rows_backward_cpu(wick_ctx *ctx, const A *dy, const T *x, T *dx, int64_t N,
                                        int64_t C)
{
    (void)ctx, (void)x;
    for (int64_t n = 0; n < N; n++)
        for (int64_t c = 0; c < C; c++)
            dx[n * C + c] = wick_T(dy[n]);
    return WICK_OK;
}

static __global__ void rows_spread(const A *dy, T *dx, int64_t N, int64_t C)
{
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < N * C; i += step) {
        const int64_t n = i / C;
        dx[i] = wick_T(dy[FAULT == 14 && n > 0 ? n - 1 : n]);
    }
}

WICK_IMPL wick_status rows_backward_cuda(wick_ctx *ctx, const A *dy, const T *x, T *dx, int64_t N,
                                         int64_t C)
{
    (void)x;
    const int64_t blocks = wick_min(wick_ceil_div(N * C, THREADS), 65535);
    return WICK_LAUNCH(ctx, rows_spread, wick_1d(blocks), wick_1d(THREADS), 0, dy, dx, N, C);
}
