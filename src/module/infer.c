/* infer.c -- what a call would return, without making it
 *
 * For whoever knows tensors only by their description: the checks are those of a call, by the same
 * code and in the same words.
 */
#include "call.h"

/* Absent memory is for real calls to notice. */
static void lend_memory(const wick_signature *sig, const wick_value *args, wick_value *out)
{
    for (int i = 0; i < sig->n_inputs; i++) {
        out[i] = args[i];
        if (out[i].kind == WICK_VALUE_TENSOR) out[i].as.tensor.data = out;
    }
}

static wick_status infer_output(wick_call_frame *f, const wick_param *p, bool sizes,
                                wick_inferred *out)
{
    out->dim = 0;
    out->dtype = p->kind == WICK_KIND_TENSOR ? wick_elem_dtype(&p->elem, f->types) : WICK_NONE;
    if (p->kind != WICK_KIND_TENSOR || !sizes) return WICK_OK;
    return wick_signature_shape(f->ctx, f->sig, p, &f->binding, &out->dim, out->size);
}

wick_status wick_op_infer(wick_ctx *ctx, const wick_op *op, wick_op_def *def, const wick_host *host,
                          const wick_value *args, bool sizes, wick_inferred *out, int *out_device)
{
    wick_call_frame f;
    wick_input_shape shapes[WICK_MAX_PARAMS];
    wick_value lent[WICK_MAX_PARAMS];

    wick_call_begin(&f, ctx, op, def);
    lend_memory(f.sig, args, lent);
    f.host = host;
    f.args = lent;
    wick_status s = sizes ? wick_call_read(&f) : wick_call_read_kinds(&f, shapes);
    for (int i = 0; i < f.sig->n_outputs && s == WICK_OK; i++)
        s = infer_output(&f, &f.sig->outputs[i], sizes, &out[i]);
    *out_device = -1;
    for (int i = 0; i < f.sig->n_inputs && s == WICK_OK; i++)
        if (f.sig->inputs[i].kind == WICK_KIND_TENSOR && f.first == &f.in[i].given) *out_device = i;
    if (s != WICK_OK) wick_ctx_prefix(ctx, "%s: ", op->name);
    return s;
}
