/* my_op -- y = scale * x / (1 + |x|)
 *
 * Bandwidth bound: x is read once and y written once. Arithmetic is in A (f32 for the halves), with
 * one rounding at the end. NaN stays NaN; an infinite x gives NaN, as inf / inf does.
 *
 * Begin here: change the formula, the signature and the reference beside this file (my_op.py),
 * and run its test (test_my_op.py). A function that does not match its signature does not compile.
 */
#include <wick/op.h>

WICK_OP(my_op, "x: T[*N], scale: float = 1.0 -> y: T[*N] where T: f16 bf16 f32 f64");

enum { GRAIN = 32768 }; /* elements that are worth a thread */

WICK_FN A magnitude(A v) { return v < 0 ? -v : v; }

typedef struct forward_job {
    const T *x;
    A scale;
    T *y;
} forward_job;

/* The elements [begin, end); several pieces run at once, on torch's threads. The job is copied: what
 * is written to y cannot change the copy, and the loop becomes one of vectors. */
static wick_status forward_piece(void *arg, int64_t begin, int64_t end)
{
    const forward_job job = *(const forward_job *)arg;
    for (int64_t i = begin; i < end; i++) {
        const A x = wick_A(job.x[i]);
        job.y[i] = wick_T(job.scale * x / (1 + magnitude(x)));
    }
    return WICK_OK;
}

WICK_IMPL wick_status my_op_cpu(wick_ctx *ctx, const T *x, double scale, T *y, int64_t N)
{
    forward_job job = {x, (A)scale, y};
    if (!(scale > 0)) return wick_fail(ctx, WICK_EINVAL, "scale is %g, expected > 0", scale);
    return wick_parallel(ctx, N, GRAIN, forward_piece, &job);
}

/* The gradient, by its name: dy is the gradient of y, dx that of x. Only what it takes is kept. */
WICK_OP(my_op_backward, "dy: T[*N], x: T[*N], scale: float -> dx: T[*N]");

typedef struct backward_job {
    const T *dy, *x;
    A scale;
    T *dx;
} backward_job;

static wick_status backward_piece(void *arg, int64_t begin, int64_t end)
{
    const backward_job job = *(const backward_job *)arg;
    for (int64_t i = begin; i < end; i++) {
        const A below = 1 + magnitude(wick_A(job.x[i]));
        job.dx[i] = wick_T(wick_A(job.dy[i]) * job.scale / (below * below));
    }
    return WICK_OK;
}

WICK_IMPL wick_status my_op_backward_cpu(wick_ctx *ctx, const T *dy, const T *x, double scale,
                                         T *dx, int64_t N)
{
    backward_job job = {dy, x, (A)scale, dx};
    return wick_parallel(ctx, N, GRAIN, backward_piece, &job);
}
