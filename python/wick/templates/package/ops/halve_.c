/* halve_ -- x = x / 2, in place; it uses no header of the package */
#include <wick/op.h>

WICK_NAMESPACE(my_package);
WICK_OP(halve_, "x!: T[*N] -> () where T: f16 bf16 f32 f64");

WICK_IMPL wick_status halve__cpu(wick_ctx *ctx, T *x, int64_t N)
{
    (void)ctx;
    for (int64_t i = 0; i < N; i++)
        x[i] = wick_T(wick_A(x[i]) / 2);
    return WICK_OK;
}
