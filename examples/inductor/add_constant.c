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

static __global__ void add_constant_kernel(const int64_t *values, const float *x, float *y,
                                           int64_t K)
{
    const int64_t k = wick_thread();
    if (k < K) y[k] = (float)values[k] + x[0];
}

WICK_IMPL wick_status add_constant_cuda(wick_ctx *ctx, const int64_t *values, const float *x,
                                        float *y, int64_t K)
{
    return WICK_LAUNCH(ctx, add_constant_kernel, wick_1d(wick_ceil_div(K, 128)), wick_1d(128), 0,
                       values, x, y, K);
}
