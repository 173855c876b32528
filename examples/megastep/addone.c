/* addone -- a number plus one, ported from a pybind11 module called testkernels
 *
 * The namespace takes the module's place: torch.ops.testkernels.addone.
 */
#include <wick/op.h>

WICK_NAMESPACE(testkernels);

WICK_OP(addone, "x: int -> y: int");

WICK_IMPL wick_status addone_cpu(wick_ctx *ctx, int64_t x, int64_t *y)
{
    if (x == INT64_MAX) return wick_fail(ctx, WICK_EINVAL, "x is the largest int");
    *y = x + 1;
    return WICK_OK;
}
