/* call.c -- one call of an operator, whoever makes it
 *
 *   call_read     kinds, element types, devices          ─┐ nothing has been allocated yet, so a
 * refusal bind          ranks and sizes, every dim             ─┘ costs and leaves nothing
 *   call_place    contiguous inputs, outputs, scratch       what is made here is released in finish
 *   run           the variant's entry, one slot per C parameter
 *   finish        results copied back, versions bumped, everything temporary released
 *
 * The signature decides all of it; no code is generated for checks, so a check is right for every
 * operator or for none.
 */
#include "call.h"
#include "tuned.h"

#include <assert.h>
#include <string.h>

/* What a present but empty tensor points at: NULL is reserved for absent ones. */
static _Alignas(CALL_ALIGNMENT) char nothing[CALL_ALIGNMENT];

/* ---- running ---- */

static void *pointer(const wick_call_place *at)
{
    if (!at->present) return NULL;
    return at->used.data ? at->used.data : nothing;
}

/* The C prototype's order: inputs, outputs, scratch, dims that no int argument has already given.
 */
static void fill_slots(wick_call_frame *f)
{
    int s = 0;
    for (int i = 0; i < f->sig->n_inputs; i++) {
        const wick_param *p = wick_call_input(f, i);
        if (p->kind == WICK_KIND_SHAPE) continue;
        if (p->kind == WICK_KIND_TENSOR && p->strided) {
            f->in[i].view = wick_call_view_of(&f->in[i].used);
            f->in[i].view.data = pointer(&f->in[i]);
            f->slots[s].p = f->in[i].present ? &f->in[i].view : NULL;
        } else if (p->kind == WICK_KIND_TENSOR) {
            f->slots[s].p = pointer(&f->in[i]);
        }
        s++;
    }
    for (int i = 0; i < f->sig->n_outputs; i++) {
        wick_value *r = &f->results[i];
        bool tensor = f->sig->outputs[i].kind == WICK_KIND_TENSOR;
        f->slots[s++].p = tensor ? pointer(&f->out[i]) : (void *)&r->as;
    }
    for (int i = 0; i < f->sig->n_scratch; i++)
        f->slots[s++].p = f->scratch[i].data ? f->scratch[i].data : nothing;
    for (int i = 0; i < f->sig->n_dims; i++)
        if (f->sig->dims[i].from_int < 0) f->slots[s++].i = f->binding.value[i];
    f->n_slots = s;
}

static wick_status find_entry(wick_call_frame *f, wick_entry *out)
{
    bool cuda = f->first && f->first->device_type == WICK_CUDA;
    const wick_variant *v = wick_op_def_variant(f->def, f->types);
    if (!v && f->def->resolve) {
        WICK_TRY(f->def->resolve(f->ctx, f->def->resolve_arg, f->def, f->types));
        v = wick_op_def_variant(f->def, f->types);
    }
    if (!v)
        return wick_fail(f->ctx, WICK_ENOTSUP,
                         "the module holds no code for these types on this CPU");
    *out = cuda ? v->cuda : v->cpu;
    if (*out) return WICK_OK;
    return wick_fail(f->ctx, WICK_ENOTSUP, "%s is on %s, but the operator has only a %s version",
                     f->first ? f->first_name : "the call", cuda ? "cuda" : "cpu",
                     cuda ? "CPU" : "CUDA");
}

static void set_scalar_kinds(wick_call_frame *f)
{
    for (int i = 0; i < f->sig->n_outputs; i++) {
        wick_kind kind = f->sig->outputs[i].kind;
        if (kind == WICK_KIND_TENSOR) continue;
        f->results[i].kind = kind == WICK_KIND_INT     ? WICK_VALUE_INT
                             : kind == WICK_KIND_FLOAT ? WICK_VALUE_FLOAT
                                                       : WICK_VALUE_BOOL;
    }
}

wick_status wick_call_on_cuda(wick_ctx *ctx, const wick_host *host, int32_t device,
                              wick_entry entry, const wick_slot *slots)
{
    void *outer_stream = ctx->stream;
    int32_t outer_device = ctx->device;
    wick_status s = host->stream(ctx, device, &ctx->stream);
    ctx->device = device;
    if (s == WICK_OK) s = entry(ctx, slots);
    ctx->stream = outer_stream;
    ctx->device = outer_device;
    return s;
}

static wick_status enter(wick_call_frame *f, wick_entry entry)
{
    if (!f->first || f->first->device_type != WICK_CUDA) return entry(f->ctx, f->slots);
    if (!f->host->stream)
        return wick_fail(f->ctx, WICK_ENOTSUP, "%s is on cuda, but this program has no CUDA",
                         f->first_name);
    int32_t device = f->first->device_index;
    if (f->def->tune)
        f->ctx->tuned = wick_tuned_find(f->op, f->def, device, f->types, f->binding.value);
    wick_status s = wick_call_on_cuda(f->ctx, f->host, device, entry, f->slots);
    f->ctx->tuned = NULL;
    return s;
}

static wick_status run(wick_call_frame *f)
{
    wick_entry entry;
    WICK_TRY(find_entry(f, &entry));
    for (int i = 0; i < f->sig->n_inputs; i++)
        if (wick_call_input(f, i)->kind == WICK_KIND_TENSOR) WICK_TRY(wick_call_place_input(f, i));
    for (; f->n_outputs < f->sig->n_outputs; f->n_outputs++)
        WICK_TRY(wick_call_place_output(f, f->n_outputs));
    for (; f->n_scratch < f->sig->n_scratch; f->n_scratch++)
        WICK_TRY(wick_call_place_scratch(f, f->n_scratch));
    fill_slots(f);
    set_scalar_kinds(f);
    wick_status s = enter(f, entry);
    if (s == WICK_OK || f->ctx->failed) return s;
    return wick_fail(f->ctx, s, "the operator failed with status %d and no message", (int)s);
}

/* A call on meta tensors computes shapes and nothing else. */
static wick_status run_meta(wick_call_frame *f)
{
    for (; f->n_outputs < f->sig->n_outputs; f->n_outputs++) {
        if (f->sig->outputs[f->n_outputs].kind != WICK_KIND_TENSOR)
            return wick_fail(f->ctx, WICK_ENOTSUP,
                             "%s is on meta, but the operator returns a plain number (%s)",
                             f->first_name, f->sig->outputs[f->n_outputs].name);
        WICK_TRY(wick_call_place_output(f, f->n_outputs));
    }
    return WICK_OK;
}

/* ---- the end of a call ---- */

static wick_status finish_place(wick_call_frame *f, wick_call_place *at, bool written, bool run_ok)
{
    wick_status s = WICK_OK;
    if (!at->present) return s;
    if (at->stand_in && at->copy_back && run_ok) s = f->host->copy(f->ctx, &at->given, &at->used);
    if (at->stand_in) f->host->release(&at->used);
    if (s == WICK_OK && written && f->host->written && run_ok)
        s = f->host->written(f->ctx, &at->given);
    return s;
}

static wick_status finish(wick_call_frame *f, wick_status status)
{
    bool ok = status == WICK_OK;
    for (int i = 0; i < f->sig->n_inputs; i++) {
        if (wick_call_input(f, i)->kind != WICK_KIND_TENSOR) continue;
        wick_status s = finish_place(f, &f->in[i], wick_call_input(f, i)->in_place, ok);
        if (status == WICK_OK) status = s;
    }
    for (int i = 0; i < f->n_outputs; i++) {
        if (f->sig->outputs[i].kind != WICK_KIND_TENSOR || f->out[i].made) continue;
        wick_status s = finish_place(f, &f->out[i], true, ok);
        if (status == WICK_OK) status = s;
    }
    for (int i = 0; i < f->n_scratch; i++) {
        wick_free(f->scratch_block[i]);
        if (f->scratch[i].handle) f->host->release(&f->scratch[i]);
    }
    if (status == WICK_OK) return status;
    for (int i = 0; i < f->n_outputs; i++)
        if (f->out[i].made) {
            f->host->release(&f->results[i].as.tensor);
            f->results[i] = (wick_value){0};
        }
    return status;
}

void wick_call_begin(wick_call_frame *f, wick_ctx *ctx, const wick_op *op, wick_op_def *def)
{
    f->ctx = ctx;
    f->op = op;
    f->def = def;
    f->sig = def->sig;
    f->first = NULL;
    f->n_slots = f->n_outputs = f->n_scratch = 0;
    memset(f->types, 0, sizeof f->types);
}

static wick_status call_in_full(wick_ctx *ctx, const wick_op *op, wick_op_def *def,
                                const wick_host *host, const wick_value *args, wick_value *results)
{
    wick_call_frame f; /* not zeroed: it is large, and every part is set before it is read */

    wick_call_begin(&f, ctx, op, def);
    f.host = host;
    f.args = args;
    f.results = results;
    wick_status status = wick_call_read(&f);
    if (status == WICK_OK) {
        bool meta = f.first && f.first->device_type == WICK_META;
        status = finish(&f, meta ? run_meta(&f) : run(&f));
    }
    return status;
}

wick_status wick_op_invoke(wick_ctx *ctx, const wick_op *op, wick_op_def *def,
                           const wick_host *host, const wick_value *args, wick_value *results)
{
    bool done = false;
    wick_status status = WICK_OK;

    assert(def);
    const char *broken = atomic_load_explicit(&def->broken, memory_order_acquire);
    if (broken) return wick_fail(ctx, WICK_ECOMPILE, "%s", broken);
    if (def->simple.n_inputs) status = wick_call_simple(ctx, def, host, args, results, &done);
    if (!done) status = call_in_full(ctx, op, def, host, args, results);
    /* A compiler's words begin with file and line, and stay so. */
    if (status != WICK_OK && status != WICK_ECOMPILE) wick_ctx_prefix(ctx, "%s: ", op->name);
    return status;
}
