/* addone -- a number plus one: the smallest operator there is
 *
 * No tensor, so nothing to allocate and no element type. A number is refused where the sum would
 * overflow.
 */
#include <wick/op.h>

WICK_OP(addone, "x: int -> y: int");

WICK_IMPL wick_status addone_cpu(wick_ctx *ctx, int64_t x, int64_t *y)
{
    if (x == INT64_MAX)
        return wick_fail(ctx, WICK_EINVAL, "x is %lld, the largest int", (long long)x);
    *y = x + 1;
    return WICK_OK;
}
