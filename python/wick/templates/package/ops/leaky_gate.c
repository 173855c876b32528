/* leaky_gate -- y = leaky(x) * gate
 *
 * Bandwidth bound: both inputs are read once and y written once.
 */
#include <my_package/gates.h>
#include <wick/op.h>

WICK_NAMESPACE(my_package);
WICK_OP(leaky_gate, "x: T[*N], gate: T[*N], slope: float = 0.01 -> y: T[*N]"
                    " where T: f16 bf16 f32 f64");

typedef struct job {
    const T *x, *gate;
    A slope;
    T *y;
} job;

static wick_status piece(void *arg, int64_t begin, int64_t end)
{
    const job *j = (const job *)arg;
    for (int64_t i = begin; i < end; i++)
        j->y[i] = wick_T(leaky(wick_A(j->x[i]), j->slope) * wick_A(j->gate[i]));
    return WICK_OK;
}

WICK_IMPL wick_status leaky_gate_cpu(wick_ctx *ctx, const T *x, const T *gate, double slope, T *y,
                                     int64_t N)
{
    job j = {x, gate, (A)slope, y};
    return wick_parallel(ctx, N, 32768, piece, &j);
}
