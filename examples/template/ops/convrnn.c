/* convrnn -- a recurrence with a circular convolution over the features, and its gradient
 *
 *   y[0] = hidden          y[s+1] = tanh(x[s] + y[s] * kernel)
 *
 * where (y * k)[i] = sum over j of k[j] y[(i + j - K/2) mod N]. Each batch is independent and is a
 * piece of the parallel loop; the steps of one are sequential. The backward needs y alone: tanh'
 * is 1 - y^2. Sums are taken in A, in an order that depends on the sizes alone.
 */
#include <wick/op.h>

#include <math.h>

WICK_NAMESPACE(extension_cpp);

WICK_OP(convrnn_forward, "x: T[B, S, N], kernel: T[1, 1, K], hidden: T[B, N] -> y: T[B, S+1, N]"
                         " where T: f16 bf16 f32 f64");

/* The column that j of the kernel sees from column i; any K, also K > N. */
WICK_FN int64_t seen(int64_t i, int64_t j, int64_t K, int64_t N)
{
    int64_t at = (i + j - K / 2) % N;
    return at < 0 ? at + N : at;
}

typedef struct forward_job {
    const T *x, *kernel, *hidden;
    T *y;
    int64_t S, N, K;
} forward_job;

WICK_FN void step(const T *x, const T *kernel, const T *h, T *y, int64_t N, int64_t K)
{
    for (int64_t i = 0; i < N; i++) {
        A sum = wick_A(x[i]);
        for (int64_t j = 0; j < K; j++)
            sum += wick_A(kernel[j]) * wick_A(h[seen(i, j, K, N)]);
        y[i] = wick_T((A)tanh((double)sum));
    }
}

WICK_FN wick_status forward_batches(void *arg, int64_t begin, int64_t end)
{
    const forward_job *w = (const forward_job *)arg;
    int64_t S = w->S, N = w->N;
    for (int64_t b = begin; b < end; b++) {
        T *y = w->y + b * (S + 1) * N;
        for (int64_t i = 0; i < N; i++)
            y[i] = w->hidden[b * N + i];
        for (int64_t s = 0; s < S; s++)
            step(w->x + (b * S + s) * N, w->kernel, y + s * N, y + (s + 1) * N, N, w->K);
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

WICK_OP(convrnn_backward, "dy: T[B, S+1, N], kernel: T[1, 1, K], y: T[B, S+1, N]"
                          " -> dx: T[B, S, N], dkernel: T[1, 1, K], dhidden: T[B, N]"
                          " scratch delta: A[B, N], carried: A[B, N], partial: A[B, K]");

typedef struct backward_job {
    const T *dy, *kernel, *y;
    T *dx, *dhidden;
    A *delta, *carried, *partial;
    int64_t S, N, K;
} backward_job;

/* One step back: delta from what arrives, then what goes on to the step before. */
WICK_FN void step_back(const backward_job *w, const T *dy, const T *y, const T *h, T *dx, A *delta,
                       A *carried, A *partial)
{
    int64_t N = w->N, K = w->K;
    for (int64_t i = 0; i < N; i++) {
        A v = wick_A(y[i]);
        delta[i] = (wick_A(dy[i]) + carried[i]) * (1 - v * v);
        dx[i] = wick_T(delta[i]);
        carried[i] = 0;
    }
    for (int64_t i = 0; i < N; i++) {
        for (int64_t j = 0; j < K; j++) {
            int64_t at = seen(i, j, K, N);
            partial[j] += delta[i] * wick_A(h[at]);
            carried[at] += delta[i] * wick_A(w->kernel[j]);
        }
    }
}

WICK_FN wick_status backward_batches(void *arg, int64_t begin, int64_t end)
{
    const backward_job *w = (const backward_job *)arg;
    int64_t S = w->S, N = w->N, K = w->K;
    for (int64_t b = begin; b < end; b++) {
        const T *dy = w->dy + b * (S + 1) * N, *y = w->y + b * (S + 1) * N;
        A *carried = w->carried + b * N, *partial = w->partial + b * K;
        for (int64_t i = 0; i < N; i++)
            carried[i] = 0;
        for (int64_t j = 0; j < K; j++)
            partial[j] = 0;
        for (int64_t s = S; s-- > 0;)
            step_back(w, dy + (s + 1) * N, y + (s + 1) * N, y + s * N, w->dx + (b * S + s) * N,
                      w->delta + b * N, carried, partial);
        for (int64_t i = 0; i < N; i++)
            w->dhidden[b * N + i] = wick_T(wick_A(dy[i]) + carried[i]);
    }
    return WICK_OK;
}

WICK_IMPL wick_status convrnn_backward_cpu(wick_ctx *ctx, const T *dy, const T *kernel, const T *y,
                                           T *dx, T *dkernel, T *dhidden, A *delta, A *carried,
                                           A *partial, int64_t B, int64_t S, int64_t N, int64_t K)
{
    backward_job w = {dy, kernel, y, dx, dhidden, delta, carried, partial, S, N, K};
    wick_status status = wick_parallel(ctx, B, 1, backward_batches, &w);
    for (int64_t j = 0; j < K && status == WICK_OK; j++) {
        A sum = 0;
        for (int64_t b = 0; b < B; b++)
            sum += partial[b * K + j];
        dkernel[j] = wick_T(sum);
    }
    return status;
}
