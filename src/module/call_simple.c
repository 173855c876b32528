/* call_simple.c -- the shortest way through a call, for operators over tensors of one shape
 *
 * Most calls of most operators are like this: required tensors of equal shape (T[*N] throughout),
 * contiguous, on the CPU, new results. For them the general way (call.c) asks many questions whose
 * answers are known, and its code, cold after torch's own, costs more than the questions. Here they
 * are asked in a few lines. Whatever is not as expected is left to the general way, which also has
 * the words for what is wrong: nothing is refused here.
 */
#include "call.h"

#include <string.h>

enum { MOST_INPUTS = 6, MOST_OUTPUTS = 2 };

static bool is_whole(const wick_param *p)
{
    return p->kind == WICK_KIND_TENSOR && !p->optional && !p->strided &&
           p->elem.kind != WICK_ELEM_ACCUMULATE && p->leading >= 0 && p->n_sizes == 0;
}

bool wick_call_is_simple(const wick_signature *sig)
{
    bool simple = sig->n_inputs > 0 && sig->n_inputs <= MOST_INPUTS &&
                  sig->n_outputs <= MOST_OUTPUTS && sig->n_scratch == 0 && sig->n_dims == 1 &&
                  is_whole(&sig->inputs[0]);
    for (int i = 0; i < sig->n_inputs && simple; i++) {
        const wick_param *p = &sig->inputs[i];
        bool number =
            p->kind == WICK_KIND_FLOAT || p->kind == WICK_KIND_INT || p->kind == WICK_KIND_BOOL;
        simple = is_whole(p) || (number && p->gives_dim < 0);
    }
    for (int i = 0; i < sig->n_outputs && simple; i++)
        simple = is_whole(&sig->outputs[i]);
    return simple;
}

static bool fits_type(const wick_elem *elem, int32_t dtype, wick_dtype *types)
{
    if (elem->kind == WICK_ELEM_FIXED) return dtype == (int32_t)elem->dtype;
    if (types[elem->variable] == WICK_NONE) types[elem->variable] = (wick_dtype)dtype;
    return dtype == (int32_t)types[elem->variable];
}

static bool same_shape(const wick_tensor *a, const wick_tensor *b)
{
    if (a->dim != b->dim) return false;
    for (int d = 0; d < a->dim; d++)
        if (a->size[d] != b->size[d]) return false;
    return true;
}

/* A tensor that is written shares all of its memory with another argument, or none. */
static bool is_apart(const wick_tensor *t, const wick_value *args, const wick_signature *sig,
                     int64_t n)
{
    size_t bytes = wick_dtype_size(t->dtype);
    uintptr_t start = (uintptr_t)t->data, end = start + (uintptr_t)n * bytes;
    for (int i = 0; i < sig->n_inputs; i++) {
        const wick_tensor *o = &args[i].as.tensor;
        if (sig->inputs[i].kind != WICK_KIND_TENSOR) continue;
        if (o->data == t->data && wick_dtype_size(o->dtype) == bytes) continue;
        uintptr_t other = (uintptr_t)o->data;
        if (other < end && other + (uintptr_t)n * wick_dtype_size(o->dtype) > start) return false;
    }
    return true;
}

static bool read_number(const wick_param *p, const wick_value *v, wick_slot *slot)
{
    switch (p->kind) {
    case WICK_KIND_FLOAT: slot->f = v->as.f; return v->kind == WICK_VALUE_FLOAT;
    case WICK_KIND_INT: slot->i = v->as.i; return v->kind == WICK_VALUE_INT;
    default: slot->b = v->as.b; return v->kind == WICK_VALUE_BOOL;
    }
}

/* The number of elements, or -1: not a call for this way. */
static int64_t read_all(const wick_signature *sig, const wick_value *args,
                        const wick_value *results, wick_dtype *types, wick_slot *slots)
{
    const wick_tensor *first = &args[0].as.tensor;
    int64_t n = args[0].kind == WICK_VALUE_TENSOR ? wick_shape_numel(first->dim, first->size) : -1;
    if (n <= 0 || first->device_type != WICK_CPU) return -1;
    for (int i = 0; i < sig->n_inputs; i++) {
        const wick_param *p = &sig->inputs[i];
        const wick_tensor *t = &args[i].as.tensor;
        if (p->kind != WICK_KIND_TENSOR) {
            if (!read_number(p, &args[i], &slots[i])) return -1;
            continue;
        }
        if (args[i].kind != WICK_VALUE_TENSOR || t->device_type != WICK_CPU || !t->data ||
            !fits_type(&p->elem, t->dtype, types) || !same_shape(t, first) ||
            !wick_shape_is_contiguous(t->dim, t->size, t->stride))
            return -1;
        slots[i].p = t->data;
    }
    for (int i = 0; i < sig->n_inputs; i++)
        if (sig->inputs[i].in_place && !is_apart(&args[i].as.tensor, args, sig, n)) return -1;
    for (int i = 0; i < sig->n_outputs; i++)
        if (results[i].kind != WICK_VALUE_NONE || results[i].unwanted) return -1;
    return n;
}

static wick_status make_results(wick_ctx *ctx, const wick_op_def *def, const wick_host *host,
                                const wick_tensor *like, const wick_dtype *types,
                                wick_value *results, wick_slot *slots)
{
    for (int i = 0; i < def->sig->n_outputs; i++) {
        wick_value *r = &results[i];
        WICK_TRY(host->empty(ctx, wick_elem_dtype(&def->sig->outputs[i].elem, types), WICK_CPU,
                             like->device_index, like->dim, like->size, &r->as.tensor));
        r->kind = WICK_VALUE_TENSOR;
        r->owned = true;
        slots[def->sig->n_inputs + i].p = r->as.tensor.data;
    }
    return WICK_OK;
}

static wick_status give_back(const wick_signature *sig, const wick_host *host, wick_value *results,
                             wick_status status)
{
    for (int i = 0; i < sig->n_outputs; i++)
        if (results[i].owned) {
            host->release(&results[i].as.tensor);
            results[i] = (wick_value){0};
        }
    return status;
}

wick_status wick_call_simple(wick_ctx *ctx, const wick_op_def *def, const wick_host *host,
                             const wick_value *args, wick_value *results, bool *done)
{
    const wick_signature *sig = def->sig;
    wick_dtype types[WICK_MAX_TYPEVARS] = {WICK_NONE};
    wick_slot slots[MOST_INPUTS + MOST_OUTPUTS + 1];
    int64_t n = read_all(sig, args, results, types, slots);
    const wick_variant *variant = n < 0 ? NULL : wick_op_def_variant(def, types);

    *done = variant && variant->cpu;
    if (!*done) return WICK_OK;
    wick_status s = make_results(ctx, def, host, &args[0].as.tensor, types, results, slots);
    if (s != WICK_OK) return give_back(sig, host, results, s);
    slots[sig->n_inputs + sig->n_outputs].i = n;
    s = variant->cpu(ctx, slots);
    if (s != WICK_OK && !ctx->failed)
        s = wick_fail(ctx, s, "the operator failed with status %d and no message", (int)s);
    for (int i = 0; i < sig->n_inputs && s == WICK_OK && host->written; i++)
        if (sig->inputs[i].in_place) s = host->written(ctx, &args[i].as.tensor);
    return s == WICK_OK ? s : give_back(sig, host, results, s);
}
