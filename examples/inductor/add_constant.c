/* add_constant -- values + x, what TorchInductor makes of torch.tensor([2, 4, ...]) + x
 *
 * x is a single number on the device, which every element of the result adds.
 */
#include <wick/op.h>

WICK_NAMESPACE(graph);

WICK_OP(add_constant, "values: i64[K], x: f32[1] -> y: f32[K]");

WICK_IMPL wick_status add_constant_cpu(wick_ctx *ctx, const int64_t *values, const float *x,
                                       float *y, int64_t K)
{
    (void)ctx;
    for (int64_t k = 0; k < K; k++) {
        y[k] = (float)values[k] + x[0];
    }
    return WICK_OK;
}
