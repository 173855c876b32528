/* ragged -- where the rows of a ragged array begin and end, and which row an element belongs to
 *
 *   widths  2 0 3          starts  0 2 2          ends  2 2 5          inverse  0 0 2 2 2
 *
 * Rows of width 0 take part as any other. Widths that are negative, or that do not add up to the
 * number of elements, are refused.
 */
#include <wick/op.h>

WICK_NAMESPACE(testkernels);

WICK_OP(ragged_starts, "widths: i32[W] -> starts: i32[W]");
WICK_OP(ragged_ends, "widths: i32[W] -> ends: i32[W]");
WICK_OP(ragged_inverse, "widths: i32[W], V: int -> inverse: i32[V]");

/* The sum of the widths, which has to be an i32 itself. */
WICK_FN wick_status add_up(wick_ctx *ctx, const int32_t *widths, int64_t W, int64_t *sum)
{
    *sum = 0;
    for (int64_t i = 0; i < W; i++) {
        if (widths[i] < 0)
            return wick_fail(ctx, WICK_EINVAL, "widths[%lld] is %d, expected at least 0",
                             (long long)i, (int)widths[i]);
        *sum += widths[i];
    }
    if (*sum > INT32_MAX)
        return wick_fail(ctx, WICK_EINVAL, "widths add up to %lld, more than an i32 holds",
                         (long long)*sum);
    return WICK_OK;
}

WICK_IMPL wick_status ragged_starts_cpu(wick_ctx *ctx, const int32_t *widths, int32_t *starts,
                                        int64_t W)
{
    int64_t sum;
    wick_status status = add_up(ctx, widths, W, &sum);
    int32_t at = 0;
    for (int64_t i = 0; i < W && status == WICK_OK; at += widths[i++])
        starts[i] = at;
    return status;
}

WICK_IMPL wick_status ragged_ends_cpu(wick_ctx *ctx, const int32_t *widths, int32_t *ends,
                                      int64_t W)
{
    int64_t sum;
    wick_status status = add_up(ctx, widths, W, &sum);
    int32_t at = 0;
    for (int64_t i = 0; i < W && status == WICK_OK; i++)
        ends[i] = at += widths[i];
    return status;
}

WICK_IMPL wick_status ragged_inverse_cpu(wick_ctx *ctx, const int32_t *widths, int64_t V,
                                         int32_t *inverse, int64_t W)
{
    int64_t sum;
    wick_status status = add_up(ctx, widths, W, &sum);
    if (status != WICK_OK) return status;
    if (sum != V)
        return wick_fail(ctx, WICK_EINVAL, "widths add up to %lld, but V is %lld", (long long)sum,
                         (long long)V);
    for (int64_t i = 0, at = 0; i < W; i++)
        for (int32_t k = 0; k < widths[i]; k++)
            inverse[at++] = (int32_t)i;
    return WICK_OK;
}
