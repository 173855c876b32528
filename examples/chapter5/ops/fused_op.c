/* fused_op -- relu(input * scale + bias) and its gradient, ported from a CUDA kernel and its C++
 * binding
 *
 * Bandwidth bound: reads input once, writes output once. NaN stays NaN, as in torch.relu. The
 * backward computes the sum again instead of saving it; dbias is summed down the rows in A, on the
 * GPU by one thread per column, so that it is the same on every run.
 */
#include <wick/op.h>

WICK_NAMESPACE(custom_ops);

WICK_OP(fused_op_forward, "input: T[*N, C], bias: T[C], scale: float = 1.0 -> output: T[*N, C]"
                          " where T: f16 bf16 f32 f64");

WICK_IMPL wick_status fused_op_forward_cpu(wick_ctx *ctx, const T *input, const T *bias,
                                           double scale, T *output, int64_t N, int64_t C)
{
    (void)ctx;
    for (int64_t n = 0; n < N; n++) {
        for (int64_t c = 0; c < C; c++) {
            A v = wick_A(input[n * C + c]) * (A)scale + wick_A(bias[c]);
            output[n * C + c] = wick_T(v < 0 ? 0 : v);
        }
    }
    return WICK_OK;
}

enum { THREADS = 256 };

static __global__ void fused_op_kernel(const T *input, const T *bias, A scale, T *output, int64_t N,
                                       int64_t C)
{
    for (int64_t i = wick_thread(); i < N * C; i += wick_threads()) {
        A v = wick_A(input[i]) * scale + wick_A(bias[i % C]);
        output[i] = wick_T(v < 0 ? 0 : v);
    }
}

WICK_IMPL wick_status fused_op_forward_cuda(wick_ctx *ctx, const T *input, const T *bias,
                                            double scale, T *output, int64_t N, int64_t C)
{
    wick_dim3 grid =
        wick_1d(wick_min(wick_ceil_div(N * C, THREADS), 8 * wick_multiprocessors(ctx)));
    return WICK_LAUNCH(ctx, fused_op_kernel, grid, wick_1d(THREADS), 0, input, bias, (A)scale,
                       output, N, C);
}

WICK_OP(fused_op_backward, "doutput: T[*N, C], input: T[*N, C], bias: T[C], scale: float"
                           " -> dinput: T[*N, C], dbias: T[C] scratch sums: A[C]");

WICK_IMPL wick_status fused_op_backward_cpu(wick_ctx *ctx, const T *doutput, const T *input,
                                            const T *bias, double scale, T *dinput, T *dbias,
                                            A *sums, int64_t N, int64_t C)
{
    (void)ctx;
    for (int64_t c = 0; c < C; c++)
        sums[c] = 0;
    for (int64_t n = 0; n < N; n++) {
        for (int64_t c = 0; c < C; c++) {
            A v = wick_A(input[n * C + c]) * (A)scale + wick_A(bias[c]);
            A d = v <= 0 ? 0 : wick_A(doutput[n * C + c]);
            dinput[n * C + c] = wick_T(d * (A)scale);
            sums[c] += d;
        }
    }
    for (int64_t c = 0; c < C; c++)
        dbias[c] = wick_T(sums[c]);
    return WICK_OK;
}

static __global__ void fused_op_backward_kernel(const T *doutput, const T *input, const T *bias,
                                                A scale, T *dinput, T *dbias, int64_t N, int64_t C)
{
    const int64_t c = wick_thread();
    A sum = 0;
    if (c >= C) return;
    for (int64_t n = 0; n < N; n++) {
        A v = wick_A(input[n * C + c]) * scale + wick_A(bias[c]);
        A d = v <= 0 ? 0 : wick_A(doutput[n * C + c]);
        dinput[n * C + c] = wick_T(d * scale);
        sum += d;
    }
    dbias[c] = wick_T(sum);
}

WICK_IMPL wick_status fused_op_backward_cuda(wick_ctx *ctx, const T *doutput, const T *input,
                                             const T *bias, double scale, T *dinput, T *dbias,
                                             A *sums, int64_t N, int64_t C)
{
    (void)sums;
    return WICK_LAUNCH(ctx, fused_op_backward_kernel, wick_1d(wick_ceil_div(C, THREADS)),
                       wick_1d(THREADS), 0, doutput, input, bias, (A)scale, dinput, dbias, N, C);
}
