/* my_op -- y = scale * x / (1 + |x|), on the CPU and on the GPU
 *
 * Bandwidth bound: x is read once and y written once. Arithmetic is in A (f32 for the halves), with
 * one rounding at the end. NaN stays NaN; an infinite x gives NaN, as inf / inf does.
 *
 * Begin here: change the formula, the signature and the reference beside this file (my_op.py),
 * and run its test (test_my_op.py). A function that does not match its signature does not compile,
 * nor does a launch that does not match its kernel. my_op.md has the commands.
 */
#include <wick/op.h>

WICK_OP(my_op, "x: T[*N], scale: float = 1.0 -> y: T[*N] where T: f16 bf16 f32 f64");

/* The gradient, by its name: dy is the gradient of y, dx that of x. Only what it takes is kept. */
WICK_OP(my_op_backward, "dy: T[*N], x: T[*N], scale: float -> dx: T[*N]");

/* ---- what both halves share: one formula ---- */

WICK_FN A magnitude(A v) { return v < 0 ? -v : v; }

WICK_FN T forward_of(T x, A scale)
{
    const A v = wick_A(x);
    return wick_T(scale * v / (1 + magnitude(v)));
}

WICK_FN T backward_of(T dy, T x, A scale)
{
    const A below = 1 + magnitude(wick_A(x));
    return wick_T(wick_A(dy) * scale / (below * below));
}

/* ---- CPU: what the operator means ---- */

enum { GRAIN = 32768 }; /* elements that are worth a thread */

typedef struct job {
    const T *dy, *x;
    A scale;
    T *out;
} job;

/* The elements [begin, end); several pieces run at once, on torch's threads. */
static wick_status forward_piece(void *arg, int64_t begin, int64_t end)
{
    const job *j = (const job *)arg;
    for (int64_t i = begin; i < end; i++)
        j->out[i] = forward_of(j->x[i], j->scale);
    return WICK_OK;
}

static wick_status backward_piece(void *arg, int64_t begin, int64_t end)
{
    const job *j = (const job *)arg;
    for (int64_t i = begin; i < end; i++)
        j->out[i] = backward_of(j->dy[i], j->x[i], j->scale);
    return WICK_OK;
}

static wick_status check_scale(wick_ctx *ctx, double scale)
{
    if (scale > 0) return WICK_OK;
    return wick_fail(ctx, WICK_EINVAL, "scale is %g, expected > 0", scale);
}

WICK_IMPL wick_status my_op_cpu(wick_ctx *ctx, const T *x, double scale, T *y, int64_t N)
{
    job j = {NULL, x, (A)scale, y};
    wick_status status = check_scale(ctx, scale);
    return status ? status : wick_parallel(ctx, N, GRAIN, forward_piece, &j);
}

WICK_IMPL wick_status my_op_backward_cpu(wick_ctx *ctx, const T *dy, const T *x, double scale,
                                         T *dx, int64_t N)
{
    job j = {dy, x, (A)scale, dx};
    return wick_parallel(ctx, N, GRAIN, backward_piece, &j);
}

/* ---- GPU ---- */

enum { THREADS = 256, BLOCKS = 8 }; /* in a block; for each multiprocessor */

/* Every thread takes packs, far apart from each other: neighbours read neighbours. `pack` is a
 * literal where this is called, so that the loops over it have a fixed size. The thread whose pack
 * would reach past the end takes what is left, one by one. */
static __device__ __forceinline__ void forward_walk(const T *x, A scale, T *y, int64_t N, int pack)
{
    T v[WICK_PACK];
    int64_t i = wick_thread() * pack;
    for (; i + pack <= N; i += wick_threads() * pack) {
        wick_load(v, x + i, pack);
        for (int k = 0; k < pack; k++)
            v[k] = forward_of(v[k], scale);
        wick_store(y + i, v, pack);
    }
    for (; i < N; i++)
        y[i] = forward_of(x[i], scale);
}

static __global__ void __launch_bounds__(THREADS) my_op_packed(const T *x, A scale, T *y, int64_t N)
{
    forward_walk(x, scale, y, N, WICK_PACK);
}

static __global__ void __launch_bounds__(THREADS) my_op_scalar(const T *x, A scale, T *y, int64_t N)
{
    forward_walk(x, scale, y, N, 1);
}

static __device__ __forceinline__ void backward_walk(const T *dy, const T *x, A scale, T *dx,
                                                     int64_t N, int pack)
{
    T d[WICK_PACK], v[WICK_PACK];
    int64_t i = wick_thread() * pack;
    for (; i + pack <= N; i += wick_threads() * pack) {
        wick_load(d, dy + i, pack);
        wick_load(v, x + i, pack);
        for (int k = 0; k < pack; k++)
            v[k] = backward_of(d[k], v[k], scale);
        wick_store(dx + i, v, pack);
    }
    for (; i < N; i++)
        dx[i] = backward_of(dy[i], x[i], scale);
}

static __global__ void __launch_bounds__(THREADS)
    my_op_backward_packed(const T *dy, const T *x, A scale, T *dx, int64_t N)
{
    backward_walk(dy, x, scale, dx, N, WICK_PACK);
}

static __global__ void __launch_bounds__(THREADS)
    my_op_backward_scalar(const T *dy, const T *x, A scale, T *dx, int64_t N)
{
    backward_walk(dy, x, scale, dx, N, 1);
}

/* As many blocks as there is work for, and no more than the GPU runs at once. */
static wick_dim3 grid_for(wick_ctx *ctx, int64_t threads)
{
    return wick_1d(wick_min(wick_ceil_div(threads, THREADS), BLOCKS * wick_multiprocessors(ctx)));
}

/* Host code, in C: it only decides what to launch. Tensors may begin anywhere, so packs are for
 * those that begin at a multiple of 16 bytes. */
WICK_IMPL wick_status my_op_cuda(wick_ctx *ctx, const T *x, double scale, T *y, int64_t N)
{
    wick_status status = check_scale(ctx, scale);
    if (status) return status;
    if (!wick_aligned16(x) || !wick_aligned16(y))
        return WICK_LAUNCH(ctx, my_op_scalar, grid_for(ctx, N), wick_1d(THREADS), 0, x, scale, y,
                           N);
    return WICK_LAUNCH(ctx, my_op_packed, grid_for(ctx, wick_ceil_div(N, WICK_PACK)),
                       wick_1d(THREADS), 0, x, scale, y, N);
}

WICK_IMPL wick_status my_op_backward_cuda(wick_ctx *ctx, const T *dy, const T *x, double scale,
                                          T *dx, int64_t N)
{
    if (!wick_aligned16(dy) || !wick_aligned16(x) || !wick_aligned16(dx))
        return WICK_LAUNCH(ctx, my_op_backward_scalar, grid_for(ctx, N), wick_1d(THREADS), 0, dy, x,
                           scale, dx, N);
    return WICK_LAUNCH(ctx, my_op_backward_packed, grid_for(ctx, wick_ceil_div(N, WICK_PACK)),
                       wick_1d(THREADS), 0, dy, x, scale, dx, N);
}
