/* convrnn -- a recurrence with a circular convolution over the features, and its gradient
 *
 *   y[0] = hidden          y[s+1] = tanh(x[s] + y[s] * kernel)
 *
 * where (y * k)[i] = sum over j of k[j] y[(i + j - K/2) mod N]. Each batch is independent: a piece
 * of the parallel loop, or a block on the GPU, whose threads share the columns of a step. The steps
 * of one batch are sequential. The backward needs y alone: tanh' is 1 - y^2. Sums are taken in A,
 * in an order that depends on the sizes alone.
 */
#include <wick/op.h>

#include <math.h>

WICK_NAMESPACE(extension_cpp);

WICK_OP(convrnn_forward, "x: T[B, S, N], kernel: T[1, 1, K], hidden: T[B, N] -> y: T[B, S+1, N]"
                         " where T: f16 bf16 f32 f64");

WICK_OP(convrnn_backward, "dy: T[B, S+1, N], kernel: T[1, 1, K], y: T[B, S+1, N]"
                          " -> dx: T[B, S, N], dkernel: T[1, 1, K], dhidden: T[B, N]"
                          " scratch delta: A[B, N], carried: A[B, N], partial: A[B, K]");

enum { THREADS = 128 };

/* ---- what both halves compute ---- */

/* A column, counted around: any K, also K > N. */
WICK_FN int64_t around(int64_t i, int64_t N)
{
    int64_t at = i % N;
    return at < 0 ? at + N : at;
}

WICK_FN T next(T x, const T *kernel, const T *h, int64_t i, int64_t N, int64_t K)
{
    A sum = wick_A(x);
    for (int64_t j = 0; j < K; j++)
        sum += wick_A(kernel[j]) * wick_A(h[around(i + j - K / 2, N)]);
    return wick_T((A)tanh((double)sum));
}

WICK_FN A through_tanh(A d, T y)
{
    A v = wick_A(y);
    return d * (1 - v * v);
}

/* What column i of the step before gets of this step's delta. */
WICK_FN A carry(const A *delta, const T *kernel, int64_t i, int64_t N, int64_t K)
{
    A sum = 0;
    for (int64_t j = 0; j < K; j++)
        sum += delta[around(i - j + K / 2, N)] * wick_A(kernel[j]);
    return sum;
}

/* A step's part of dkernel[j]. */
WICK_FN A of_kernel(const A *delta, const T *h, int64_t j, int64_t N, int64_t K)
{
    A sum = 0;
    for (int64_t i = 0; i < N; i++)
        sum += delta[i] * wick_A(h[around(i + j - K / 2, N)]);
    return sum;
}

WICK_FN T over_batches(const A *partial, int64_t j, int64_t B, int64_t K)
{
    A sum = 0;
    for (int64_t b = 0; b < B; b++)
        sum += partial[b * K + j];
    return wick_T(sum);
}

typedef struct forward_job {
    const T *x, *kernel, *hidden;
    T *y;
    int64_t S, N, K;
} forward_job;

typedef struct backward_job {
    const T *dy, *kernel, *y;
    T *dx, *dhidden;
    A *delta, *carried, *partial;
    int64_t S, N, K;
} backward_job;

/* The job of batch b alone. */
WICK_FN backward_job one_batch(backward_job w, int64_t b)
{
    const int64_t all = (w.S + 1) * w.N;
    w.dy += b * all, w.y += b * all, w.dx += b * w.S * w.N, w.dhidden += b * w.N;
    w.delta += b * w.N, w.carried += b * w.N, w.partial += b * w.K;
    return w;
}

/* ---- on the CPU ---- */

WICK_FN wick_status forward_batches(void *arg, int64_t begin, int64_t end)
{
    const forward_job *w = (const forward_job *)arg;
    int64_t S = w->S, N = w->N;
    for (int64_t b = begin; b < end; b++) {
        T *y = w->y + b * (S + 1) * N;
        for (int64_t i = 0; i < N; i++)
            y[i] = w->hidden[b * N + i];
        for (int64_t s = 0; s < S; s++)
            for (int64_t i = 0; i < N; i++)
                y[(s + 1) * N + i] =
                    next(w->x[(b * S + s) * N + i], w->kernel, y + s * N, i, N, w->K);
    }
    return WICK_OK;
}

WICK_IMPL wick_status convrnn_forward_cpu(wick_ctx *ctx, const T *x, const T *kernel,
                                          const T *hidden, T *y, int64_t B, int64_t S, int64_t N,
                                          int64_t K)
{
    forward_job w = {x, kernel, hidden, y, S, N, K};
    return wick_parallel(ctx, B, 1, forward_batches, &w);
}

WICK_FN wick_status backward_batches(void *arg, int64_t begin, int64_t end)
{
    for (int64_t b = begin; b < end; b++) {
        const backward_job w = one_batch(*(const backward_job *)arg, b);
        const int64_t N = w.N, K = w.K;
        for (int64_t i = 0; i < N; i++)
            w.carried[i] = 0;
        for (int64_t j = 0; j < K; j++)
            w.partial[j] = 0;
        for (int64_t s = w.S; s-- > 0;) {
            for (int64_t i = 0; i < N; i++) {
                const int64_t at = (s + 1) * N + i;
                w.delta[i] = through_tanh(wick_A(w.dy[at]) + w.carried[i], w.y[at]);
                w.dx[s * N + i] = wick_T(w.delta[i]);
            }
            for (int64_t i = 0; i < N; i++)
                w.carried[i] = carry(w.delta, w.kernel, i, N, K);
            for (int64_t j = 0; j < K; j++)
                w.partial[j] += of_kernel(w.delta, w.y + s * N, j, N, K);
        }
        for (int64_t i = 0; i < N; i++)
            w.dhidden[i] = wick_T(wick_A(w.dy[i]) + w.carried[i]);
    }
    return WICK_OK;
}

WICK_IMPL wick_status convrnn_backward_cpu(wick_ctx *ctx, const T *dy, const T *kernel, const T *y,
                                           T *dx, T *dkernel, T *dhidden, A *delta, A *carried,
                                           A *partial, int64_t B, int64_t S, int64_t N, int64_t K)
{
    backward_job w = {dy, kernel, y, dx, dhidden, delta, carried, partial, S, N, K};
    wick_status status = wick_parallel(ctx, B, 1, backward_batches, &w);
    for (int64_t j = 0; j < K && status == WICK_OK; j++)
        dkernel[j] = over_batches(partial, j, B, K);
    return status;
}

/* ---- on the GPU ---- */

static __global__ void convrnn_kernel(forward_job w)
{
    const int64_t b = blockIdx.x, S = w.S, N = w.N;
    T *y = w.y + b * (S + 1) * N;
    for (int64_t i = threadIdx.x; i < N; i += THREADS)
        y[i] = w.hidden[b * N + i];
    for (int64_t s = 0; s < S; s++) {
        __syncthreads(); /* the step before is complete */
        for (int64_t i = threadIdx.x; i < N; i += THREADS)
            y[(s + 1) * N + i] = next(w.x[(b * S + s) * N + i], w.kernel, y + s * N, i, N, w.K);
    }
}

WICK_IMPL wick_status convrnn_forward_cuda(wick_ctx *ctx, const T *x, const T *kernel,
                                           const T *hidden, T *y, int64_t B, int64_t S, int64_t N,
                                           int64_t K)
{
    forward_job w = {x, kernel, hidden, y, S, N, K};
    return WICK_LAUNCH(ctx, convrnn_kernel, wick_1d(B), wick_1d(THREADS), 0, w);
}

static __global__ void convrnn_backward_kernel(backward_job all)
{
    const backward_job w = one_batch(all, blockIdx.x);
    const int64_t N = w.N, K = w.K;
    for (int64_t i = threadIdx.x; i < N; i += THREADS)
        w.carried[i] = 0;
    for (int64_t j = threadIdx.x; j < K; j += THREADS)
        w.partial[j] = 0;
    for (int64_t s = w.S; s-- > 0;) {
        for (int64_t i = threadIdx.x; i < N; i += THREADS) {
            const int64_t at = (s + 1) * N + i;
            w.delta[i] = through_tanh(wick_A(w.dy[at]) + w.carried[i], w.y[at]);
            w.dx[s * N + i] = wick_T(w.delta[i]);
        }
        __syncthreads(); /* delta is complete */
        for (int64_t i = threadIdx.x; i < N; i += THREADS)
            w.carried[i] = carry(w.delta, w.kernel, i, N, K);
        for (int64_t j = threadIdx.x; j < K; j += THREADS)
            w.partial[j] += of_kernel(w.delta, w.y + s * N, j, N, K);
        __syncthreads(); /* and read */
    }
    for (int64_t i = threadIdx.x; i < N; i += THREADS)
        w.dhidden[i] = wick_T(wick_A(w.dy[i]) + w.carried[i]);
}

static __global__ void convrnn_dkernel(const A *partial, T *dkernel, int64_t B, int64_t K)
{
    const int64_t j = wick_thread();
    if (j < K) dkernel[j] = over_batches(partial, j, B, K);
}

WICK_IMPL wick_status convrnn_backward_cuda(wick_ctx *ctx, const T *dy, const T *kernel, const T *y,
                                            T *dx, T *dkernel, T *dhidden, A *delta, A *carried,
                                            A *partial, int64_t B, int64_t S, int64_t N, int64_t K)
{
    backward_job w = {dy, kernel, y, dx, dhidden, delta, carried, partial, S, N, K};
    wick_status status =
        WICK_LAUNCH(ctx, convrnn_backward_kernel, wick_1d(B), wick_1d(THREADS), 0, w);
    if (status != WICK_OK) return status;
    return WICK_LAUNCH(ctx, convrnn_dkernel, wick_1d(wick_ceil_div(K, THREADS)), wick_1d(THREADS),
                       0, partial, dkernel, B, K);
}
