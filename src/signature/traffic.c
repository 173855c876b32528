/* traffic.c -- the least number of bytes that an operator must move, for the benchmark's roofline
 */
#include "signature_internal.h"

static wick_status add_bytes(wick_ctx *ctx, const wick_param *param, int dim, const int64_t *size,
                             const wick_dtype *types, int64_t *sum)
{
    int64_t bytes = wick_shape_numel(dim, size);
    int64_t each = (int64_t)wick_dtype_size((int)wick_elem_dtype(&param->elem, types));
    if (bytes < 0 || __builtin_mul_overflow(bytes, each, &bytes) ||
        __builtin_add_overflow(*sum, bytes, sum))
        return wick_fail(ctx, WICK_EINVAL, "the bytes of %s do not fit 63 bits", param->name);
    return WICK_OK;
}

wick_status wick_signature_traffic(wick_ctx *ctx, const wick_signature *sig,
                                   const wick_binding *binding, const wick_input_shape *inputs,
                                   const wick_dtype *types, wick_traffic *out)
{
    wick_traffic sum = {0, 0};
    for (int i = 0; i < sig->n_inputs; i++) {
        const wick_param *param = &sig->inputs[i];
        if (param->kind != WICK_KIND_TENSOR || !inputs[i].present) continue;
        WICK_TRY(add_bytes(ctx, param, inputs[i].dim, inputs[i].size, types, &sum.read_bytes));
        if (param->in_place)
            WICK_TRY(
                add_bytes(ctx, param, inputs[i].dim, inputs[i].size, types, &sum.written_bytes));
    }
    for (int i = 0; i < sig->n_outputs; i++) {
        int64_t size[WICK_MAX_RANK];
        int dim;
        if (sig->outputs[i].kind != WICK_KIND_TENSOR) continue;
        WICK_TRY(wick_signature_shape(ctx, sig, &sig->outputs[i], binding, &dim, size));
        WICK_TRY(add_bytes(ctx, &sig->outputs[i], dim, size, types, &sum.written_bytes));
    }
    *out = sum;
    return WICK_OK;
}
