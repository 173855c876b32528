/* leaky_bias -- y = leaky(x + bias), bias along the last dimension
 *
 * Bandwidth bound: x is read once and y written once. Arithmetic is in A, rounded once at the end.
 */
#include <my_package/gates.h>
#include <wick/op.h>

WICK_NAMESPACE(my_package);
WICK_OP(leaky_bias, "x: T[*N, C], bias: T[C], slope: float = 0.01 -> y: T[*N, C]"
                    " where T: f16 bf16 f32 f64");

typedef struct job {
    const T *x, *bias;
    A slope;
    T *y;
    int64_t C;
} job;

/* The rows [begin, end). */
static wick_status rows(void *arg, int64_t begin, int64_t end)
{
    const job *j = (const job *)arg;
    for (int64_t n = begin; n < end; n++) {
        for (int64_t c = 0; c < j->C; c++) {
            const int64_t i = n * j->C + c;
            j->y[i] = wick_T(leaky(wick_A(j->x[i]) + wick_A(j->bias[c]), j->slope));
        }
    }
    return WICK_OK;
}

WICK_IMPL wick_status leaky_bias_cpu(wick_ctx *ctx, const T *x, const T *bias, double slope, T *y,
                                     int64_t N, int64_t C)
{
    job j = {x, bias, (A)slope, y, C};
    return wick_parallel(ctx, N, 1 + 32768 / wick_max(C, 1), rows, &j);
}
