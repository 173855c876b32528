/* reduce_sum -- the sum of all elements, and its gradient: doutput, for each of them
 *
 * Summed in double, whatever the element type, so that the order hardly matters; on the GPU blocks
 * have a part each, and one more block adds those. The gradient needs the shape of the input and no
 * element of it, so nothing is saved.
 */
#include <wick/op.h>

WICK_NAMESPACE(custom_ops);

WICK_OP(reduce_sum_forward, "input: T[*N] -> output: T[] where T: f16 bf16 f32 f64"
                            " scratch part: f64[1024]");
WICK_OP(reduce_sum_backward, "doutput: T[], input: shape[*N] -> dinput: T[*N]");

enum { THREADS = 256, PARTS = 1024 };

WICK_IMPL wick_status reduce_sum_forward_cpu(wick_ctx *ctx, const T *input, T *output, double *part,
                                             int64_t N)
{
    (void)ctx, (void)part;
    double sum = 0;
    for (int64_t i = 0; i < N; i++)
        sum += wick_A(input[i]);
    *output = wick_T((A)sum);
    return WICK_OK;
}

WICK_IMPL wick_status reduce_sum_backward_cpu(wick_ctx *ctx, const T *doutput, T *dinput, int64_t N)
{
    (void)ctx;
    for (int64_t i = 0; i < N; i++)
        dinput[i] = *doutput;
    return WICK_OK;
}

static __global__ void sum_parts(const T *input, double *part, int64_t N)
{
    __shared__ double shared[WICK_WARP];
    double sum = 0;
    for (int64_t i = wick_thread(); i < N; i += wick_threads())
        sum += wick_A(input[i]);
    sum = wick_block_sum_f64(sum, shared);
    if (threadIdx.x == 0) part[blockIdx.x] = sum;
}

static __global__ void sum_of_parts(const double *part, int64_t parts, T *output)
{
    __shared__ double shared[WICK_WARP];
    double sum = 0;
    for (int64_t i = threadIdx.x; i < parts; i += blockDim.x)
        sum += part[i];
    sum = wick_block_sum_f64(sum, shared);
    if (threadIdx.x == 0) *output = wick_T((A)sum);
}

WICK_IMPL wick_status reduce_sum_forward_cuda(wick_ctx *ctx, const T *input, T *output,
                                              double *part, int64_t N)
{
    const int64_t parts = wick_min(wick_ceil_div(N, THREADS), PARTS);
    const wick_dim3 block = wick_1d(THREADS);
    wick_status status = WICK_LAUNCH(ctx, sum_parts, wick_1d(parts), block, 0, input, part, N);
    if (status != WICK_OK) return status;
    return WICK_LAUNCH(ctx, sum_of_parts, wick_1d(1), block, 0, part, parts, output);
}

static __global__ void fill(const T *doutput, T *dinput, int64_t N)
{
    for (int64_t i = wick_thread(); i < N; i += wick_threads())
        dinput[i] = *doutput;
}

WICK_IMPL wick_status reduce_sum_backward_cuda(wick_ctx *ctx, const T *doutput, T *dinput,
                                               int64_t N)
{
    const int64_t blocks = wick_min(wick_ceil_div(N, THREADS), 8 * wick_multiprocessors(ctx));
    return WICK_LAUNCH(ctx, fill, wick_1d(blocks), wick_1d(THREADS), 0, doutput, dinput, N);
}
