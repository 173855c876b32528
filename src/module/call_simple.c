/* call_simple.c -- the shortest way through a call, for operators over tensors of one shape
 *
 * Most calls of most operators are like this: required tensors of equal shape (T[*N] throughout),
 * contiguous, on one device, new results. For them the general way (call.c) asks many questions
 * whose answers are known, and its code, cold after torch's own, costs more than the questions.
 * Here they are asked in a few lines, of a plan that is a few bytes long. Whatever is not as
 * expected is left to the general way, which also has the words for what is wrong: nothing is
 * refused here.
 */
#include "call.h"

#include <string.h>

static bool is_whole(const wick_param *p)
{
    return p->kind == WICK_KIND_TENSOR && !p->optional && !p->strided &&
           p->elem.kind != WICK_ELEM_ACCUMULATE && p->leading >= 0 && p->n_sizes == 0;
}

static bool is_simple(const wick_signature *sig)
{
    bool simple = sig->n_inputs > 0 && sig->n_inputs <= WICK_SIMPLE_INPUTS &&
                  sig->n_outputs <= WICK_SIMPLE_OUTPUTS && sig->n_scratch == 0 &&
                  sig->n_dims == 1 && is_whole(&sig->inputs[0]);
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

static wick_simple_param plan_param(const wick_param *p)
{
    bool fixed = p->elem.kind == WICK_ELEM_FIXED;
    return (wick_simple_param){.kind = (uint8_t)p->kind,
                               .dtype = (uint8_t)(fixed ? p->elem.dtype : WICK_NONE),
                               .variable = (uint8_t)(fixed ? 0 : p->elem.variable),
                               .in_place = p->in_place};
}

wick_simple wick_call_plan(const wick_signature *sig)
{
    wick_simple plan = {0};
    if (!is_simple(sig)) return plan;
    for (int i = 0; i < sig->n_inputs; i++) {
        plan.inputs[i] = plan_param(&sig->inputs[i]);
        plan.n_tensors = (uint8_t)(plan.n_tensors + (sig->inputs[i].kind == WICK_KIND_TENSOR));
        plan.writes = plan.writes || sig->inputs[i].in_place;
    }
    for (int i = 0; i < sig->n_outputs; i++)
        plan.outputs[i] = plan_param(&sig->outputs[i]);
    plan.n_inputs = (uint8_t)sig->n_inputs;
    plan.n_outputs = (uint8_t)sig->n_outputs;
    return plan;
}

static bool fits_type(wick_simple_param p, int32_t dtype, wick_dtype *types)
{
    if (dtype == WICK_NONE) return false; /* a type that Wick does not know decides nothing */
    if (p.dtype != WICK_NONE) return dtype == p.dtype;
    if (types[p.variable] == WICK_NONE) types[p.variable] = (wick_dtype)dtype;
    return dtype == (int32_t)types[p.variable];
}

/* How many elements a contiguous tensor of the same sizes has; -1: it is not one, or empty, or too
 * large to count. */
static inline int64_t count_like(const wick_tensor *t, const wick_tensor *like)
{
    int64_t n = 1;
    if (t->dim != like->dim) return -1;
    for (int d = t->dim; d-- > 0;) {
        int64_t size = t->size[d];
        if (size != like->size[d] || size <= 0) return -1;
        if (t->stride && t->stride[d] != n && size != 1) return -1;
        if (__builtin_mul_overflow(n, size, &n)) return -1;
    }
    return n;
}

static inline bool on_device_of(const wick_tensor *t, const wick_tensor *first)
{
    if (t->device_type != first->device_type) return false;
    return t->device_type == WICK_CPU || t->device_index == first->device_index;
}

/* A tensor that is written shares all of its memory with another argument, or none. */
static bool is_apart(const wick_tensor *t, const wick_value *args, const wick_simple *plan,
                     int64_t n)
{
    size_t bytes = wick_dtype_size(t->dtype);
    uintptr_t start = (uintptr_t)t->data, end = start + (uintptr_t)n * bytes;
    for (int i = 0; i < plan->n_inputs; i++) {
        const wick_tensor *o = &args[i].as.tensor;
        if (plan->inputs[i].kind != WICK_KIND_TENSOR) continue;
        if (o->data == t->data && o->dtype == t->dtype) continue;
        uintptr_t other = (uintptr_t)o->data;
        if (other < end && other + (uintptr_t)n * wick_dtype_size(o->dtype) > start) return false;
    }
    return true;
}

static WICK_OUTLINE bool are_apart(const wick_value *args, const wick_simple *plan, int64_t n)
{
    for (int i = 0; i < plan->n_inputs; i++)
        if (plan->inputs[i].in_place && !is_apart(&args[i].as.tensor, args, plan, n)) return false;
    return true;
}

static inline bool are_new(const wick_simple *plan, const wick_value *results)
{
    for (int i = 0; i < plan->n_outputs; i++)
        if (results[i].kind != WICK_VALUE_NONE || results[i].unwanted) return false;
    return true;
}

static WICK_OUTLINE bool read_number(wick_kind kind, const wick_value *v, wick_slot *slot)
{
    switch (kind) {
    case WICK_KIND_FLOAT: slot->f = v->as.f; return v->kind == WICK_VALUE_FLOAT;
    case WICK_KIND_INT: slot->i = v->as.i; return v->kind == WICK_VALUE_INT;
    default: slot->b = v->as.b; return v->kind == WICK_VALUE_BOOL;
    }
}

/* The number of elements, or -1: not a call for this way. */
static int64_t read_all(const wick_simple *plan, const wick_value *args, const wick_value *results,
                        wick_dtype *types, wick_slot *slots)
{
    const wick_tensor *first = &args[0].as.tensor;
    int64_t n = -1;
    if (args[0].kind != WICK_VALUE_TENSOR) return -1;
    for (int i = 0; i < plan->n_inputs; i++) {
        wick_simple_param p = plan->inputs[i];
        const wick_tensor *t = &args[i].as.tensor;
        if (p.kind != WICK_KIND_TENSOR) {
            if (!read_number(p.kind, &args[i], &slots[i])) return -1;
            continue;
        }
        if (args[i].kind != WICK_VALUE_TENSOR || !t->data || !on_device_of(t, first) ||
            !fits_type(p, t->dtype, types))
            return -1;
        n = count_like(t, first);
        if (n < 0) return -1;
        slots[i].p = t->data;
    }
    if (plan->writes && plan->n_tensors > 1 && !are_apart(args, plan, n)) return -1;
    if (plan->n_outputs && !are_new(plan, results)) return -1;
    return n;
}

static WICK_OUTLINE wick_status make_results(wick_ctx *ctx, const wick_simple *plan,
                                             const wick_host *host, const wick_tensor *like,
                                             const wick_dtype *types, wick_value *results,
                                             wick_slot *slots)
{
    for (int i = 0; i < plan->n_outputs; i++) {
        wick_simple_param p = plan->outputs[i];
        wick_dtype dtype = p.dtype != WICK_NONE ? (wick_dtype)p.dtype : types[p.variable];
        wick_value *r = &results[i];
        WICK_TRY(host->empty(ctx, dtype, like->device_type, like->device_index, like->dim,
                             like->size, &r->as.tensor));
        r->kind = WICK_VALUE_TENSOR;
        r->owned = true;
        slots[plan->n_inputs + i].p = r->as.tensor.data;
    }
    return WICK_OK;
}

/* Every input that was written in place is counted as written. */
static wick_status count_writes(wick_ctx *ctx, const wick_simple *plan, const wick_host *host,
                                const wick_value *args)
{
    for (int i = 0; i < plan->n_inputs && host->written; i++)
        if (plan->inputs[i].in_place) WICK_TRY(host->written(ctx, &args[i].as.tensor));
    return WICK_OK;
}

WICK_COLD static wick_status give_back(const wick_simple *plan, const wick_host *host,
                                       wick_value *results, wick_status status)
{
    for (int i = 0; i < plan->n_outputs; i++)
        if (results[i].owned) {
            host->release(&results[i].as.tensor);
            results[i] = (wick_value){0};
        }
    return status;
}

WICK_HOT wick_status wick_call_simple(wick_ctx *ctx, const wick_op_def *def, const wick_host *host,
                                      const wick_value *args, wick_value *results, bool *done)
{
    const wick_simple *plan = &def->simple;
    wick_dtype types[WICK_MAX_TYPEVARS] = {WICK_NONE};
    wick_slot slots[WICK_SIMPLE_INPUTS + WICK_SIMPLE_OUTPUTS + 1];
    int64_t n = read_all(plan, args, results, types, slots);
    const wick_variant *variant = n < 0 ? NULL : wick_op_def_variant(def, types);
    const wick_tensor *first = &args[0].as.tensor;
    bool cuda = first->device_type == WICK_CUDA;
    wick_entry entry = !variant ? NULL : cuda ? variant->cuda : variant->cpu;

    *done = entry && (cuda ? host->stream != NULL : first->device_type == WICK_CPU);
    if (!*done) return WICK_OK;
    wick_status s = WICK_OK;
    if (plan->n_outputs) s = make_results(ctx, plan, host, first, types, results, slots);
    if (s != WICK_OK) return give_back(plan, host, results, s);
    slots[plan->n_inputs + plan->n_outputs].i = n;
    s = cuda ? wick_call_on_cuda(ctx, host, first->device_index, entry, slots) : entry(ctx, slots);
    if (s == WICK_OK && plan->writes) s = count_writes(ctx, plan, host, args);
    if (s == WICK_OK) return s;
    if (!ctx->failed)
        s = wick_fail(ctx, s, "the operator failed with status %d and no message", (int)s);
    return give_back(plan, host, results, s);
}
