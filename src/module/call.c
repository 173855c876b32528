/* call.c -- one call of an operator, whoever makes it
 *
 *   read_inputs   kinds, element types, devices          ─┐ nothing has been allocated yet, so a refusal
 *   bind          ranks and sizes, every dim             ─┘ costs and leaves nothing
 *   place_*       contiguous inputs, outputs, scratch       what is made here is released in finish
 *   run           the variant's entry, one slot per C parameter
 *   finish        results copied back, versions bumped, everything temporary released
 *
 * The signature decides all of it; no code is generated for checks, so a check is right for every operator or for none.
 */
#include "module.h"

#include <assert.h>
#include <string.h>

enum { MAX_SLOTS = WICK_MAX_PARAMS + WICK_MAX_NAMED, SCRATCH_ALIGNMENT = 64 };

/* A tensor argument's place in the call: what the caller gave, and what the operator is given. */
typedef struct place {
    wick_tensor given;
    wick_tensor used; /* `given`, or a contiguous stand-in for it */
    wick_view view;   /* of `used`, for strided parameters */
    bool present;
    bool stand_in;    /* `used` is ours to release */
    bool copy_back;   /* and to copy into `given` after the run */
    bool made;        /* a result that this call made, not one that it was given */
} place;

typedef struct frame {
    wick_ctx *ctx;
    const wick_op *op;
    wick_op_def *def;
    const wick_signature *sig;
    const wick_host *host;
    const wick_value *args;
    wick_value *results;
    wick_dtype types[WICK_MAX_TYPEVARS];
    const char *typed_by[WICK_MAX_TYPEVARS]; /* the argument that decided, for messages */
    const wick_tensor *first;                /* the tensor whose device the call runs on */
    const char *first_name;
    wick_binding binding;
    wick_slot slots[MAX_SLOTS];
    int n_slots;
    int n_outputs; /* outputs placed so far */
    int n_scratch;
    place in[WICK_MAX_PARAMS];
    place out[WICK_MAX_PARAMS];
    void *scratch_block[WICK_MAX_PARAMS];
    wick_tensor scratch[WICK_MAX_PARAMS];
} frame;

/* What a present but empty tensor points at: NULL is reserved for absent ones. */
static _Alignas(SCRATCH_ALIGNMENT) char nothing[SCRATCH_ALIGNMENT];

static const wick_param *input(const frame *f, int i) { return &f->sig->inputs[i]; }

/* ---- reading the arguments ---- */

static const char *dtype_word(const frame *f, const wick_tensor *t)
{
    if (t->dtype == WICK_NONE && f->host->dtype_name) return f->host->dtype_name(t);
    return wick_dtype_name(t->dtype);
}

static void device_word(char *out, size_t n, const wick_tensor *t)
{
    static const char *const names[] = {"cpu", "cuda", "meta", "another kind of device"};
    wick_text text = {0};
    wick_text_add(&text, names[t->device_type]);
    if (t->device_type == WICK_CUDA) wick_text_printf(&text, ":%d", t->device_index);
    strncpy(out, wick_text_str(&text), n - 1);
    out[n - 1] = 0;
    wick_text_free(&text);
}

static wick_status fail_dtype(frame *f, const wick_param *p, const wick_tensor *t)
{
    wick_text wanted = {0};
    wick_elem_print_types(&wanted, f->sig, &p->elem);
    wick_status s = wick_fail(f->ctx, WICK_EINVAL, "%s is %s, expected %s", p->name, dtype_word(f, t),
                              wick_text_str(&wanted));
    wick_text_free(&wanted);
    return s;
}

static wick_status check_variable(frame *f, const wick_param *p, const wick_tensor *t)
{
    int v = p->elem.variable;
    const wick_variable *variable = &f->sig->variables[v];
    if (f->types[v] != WICK_NONE) {
        if (t->dtype == (int32_t)f->types[v]) return WICK_OK;
        return wick_fail(f->ctx, WICK_EINVAL, "%s is %s, but %s is %s (as %s is)", p->name, dtype_word(f, t),
                         variable->name, wick_dtype_name(f->types[v]), f->typed_by[v]);
    }
    for (int i = 0; i < variable->n_types; i++)
        if (t->dtype == (int32_t)variable->types[i]) {
            f->types[v] = variable->types[i];
            f->typed_by[v] = p->name;
            return WICK_OK;
        }
    return fail_dtype(f, p, t);
}

static wick_status check_device(frame *f, const wick_param *p, const wick_tensor *t)
{
    char here[64], there[64];
    if (!f->first) {
        f->first = t;
        f->first_name = p->name;
        if (t->device_type != WICK_OTHER) return WICK_OK;
        return wick_fail(f->ctx, WICK_ENOTSUP, "%s is on a device that Wick has no operators for, expected cpu or cuda",
                         p->name);
    }
    if (t->device_type == f->first->device_type && t->device_index == f->first->device_index) return WICK_OK;
    device_word(here, sizeof here, t);
    device_word(there, sizeof there, f->first);
    return wick_fail(f->ctx, WICK_EINVAL, "%s is on %s, but %s is on %s", p->name, here, f->first_name, there);
}

/* A tensor may have sizes and no memory: its storage was freed. An operator would read whatever lies at 0. */
static wick_status check_memory(frame *f, const char *name, const wick_tensor *t)
{
    if (t->data || t->device_type == WICK_META || wick_shape_numel(t->dim, t->size) == 0) return WICK_OK;
    return wick_fail(f->ctx, WICK_EINVAL, "%s has no memory (its storage was freed), expected a tensor with data", name);
}

static wick_status read_tensor(frame *f, int i)
{
    const wick_param *p = input(f, i);
    const wick_value *v = &f->args[i];
    place *at = &f->in[i];

    at->stand_in = at->copy_back = false;
    at->present = v->kind == WICK_VALUE_TENSOR;
    if (v->kind == WICK_VALUE_NONE && p->optional) return WICK_OK;
    if (!at->present) return wick_fail(f->ctx, WICK_EINVAL, "%s is missing, expected a tensor", p->name);
    at->given = v->as.tensor;
    WICK_TRY(check_memory(f, p->name, &at->given));
    WICK_TRY(check_device(f, p, &at->given));
    if (p->elem.kind == WICK_ELEM_VARIABLE) return check_variable(f, p, &at->given);
    if (p->elem.kind == WICK_ELEM_FIXED && at->given.dtype != (int32_t)p->elem.dtype)
        return fail_dtype(f, p, &at->given);
    return WICK_OK;
}

static wick_status read_choice(frame *f, const wick_param *p, const char *given, wick_slot *slot)
{
    wick_text wanted = {0};
    for (int i = 0; i < p->n_choices; i++)
        if (!strcmp(p->choices[i], given)) {
            slot->i = i;
            return WICK_OK;
        }
    for (int i = 0; i < p->n_choices; i++)
        wick_text_printf(&wanted, "%s'%s'", !i ? "" : i + 1 < p->n_choices ? ", " : " or ", p->choices[i]);
    wick_status s = wick_fail(f->ctx, WICK_EINVAL, "%s is '%s', expected %s", p->name, given, wick_text_str(&wanted));
    wick_text_free(&wanted);
    return s;
}

static wick_status read_scalar(frame *f, int i, wick_slot *slot)
{
    static const char *const kinds[] = {"absent", "a tensor", "an int", "a float", "a bool", "a str", "a shape"};
    const wick_param *p = input(f, i);
    const wick_value *v = &f->args[i];
    bool is_int = v->kind == WICK_VALUE_INT, is_bool = v->kind == WICK_VALUE_BOOL;
    const char *wanted = "a str";

    switch (p->kind) {
    case WICK_KIND_INT:
        wanted = "an int";
        slot->i = is_bool ? v->as.b : v->as.i;
        if (is_int || is_bool) return WICK_OK;
        break;
    case WICK_KIND_FLOAT:
        wanted = "a float";
        slot->f = is_int ? (double)v->as.i : is_bool ? (double)v->as.b : v->as.f;
        if (is_int || is_bool || v->kind == WICK_VALUE_FLOAT) return WICK_OK;
        break;
    case WICK_KIND_BOOL:
        wanted = "a bool";
        slot->b = v->as.b;
        if (is_bool) return WICK_OK;
        break;
    case WICK_KIND_CHOICE:
        if (v->kind == WICK_VALUE_STR) return read_choice(f, p, v->as.s, slot);
        break;
    default:
        slot->s = v->as.s;
        if (v->kind == WICK_VALUE_STR) return WICK_OK;
        break;
    }
    return wick_fail(f->ctx, WICK_EINVAL, "%s is %s, expected %s", p->name, kinds[v->kind], wanted);
}

/* A variable that no present input decides (it is only in an absent optional, or behind A) takes the first type of its
 * list that agrees with the accumulation types seen. */
static wick_status settle_types(frame *f)
{
    for (int v = 0; v < f->sig->n_variables; v++)
        if (f->types[v] == WICK_NONE) {
            f->types[v] = f->sig->variables[v].types[0];
            f->typed_by[v] = "its first type";
            for (int i = 0; i < f->sig->n_inputs; i++) {
                const wick_param *p = input(f, i);
                bool sums = p->kind == WICK_KIND_TENSOR && p->elem.kind == WICK_ELEM_ACCUMULATE && p->elem.variable == v;
                if (!sums || !f->in[i].present) continue;
                for (int k = f->sig->variables[v].n_types; k-- > 0;)
                    if ((int32_t)wick_dtype_accumulate(f->sig->variables[v].types[k]) == f->in[i].given.dtype)
                        f->types[v] = f->sig->variables[v].types[k];
            }
        }
    for (int i = 0; i < f->sig->n_inputs; i++) {
        const wick_param *p = input(f, i);
        if (p->kind != WICK_KIND_TENSOR || p->elem.kind != WICK_ELEM_ACCUMULATE || !f->in[i].present) continue;
        wick_dtype wanted = wick_dtype_accumulate(f->types[p->elem.variable]);
        if (f->in[i].given.dtype != (int32_t)wanted)
            return wick_fail(f->ctx, WICK_EINVAL, "%s is %s, expected %s (what %s, %s here, is summed in)", p->name,
                             dtype_word(f, &f->in[i].given), wick_dtype_name(wanted),
                             f->sig->variables[p->elem.variable].name,
                             wick_dtype_name(f->types[p->elem.variable]));
    }
    return WICK_OK;
}

/* Reads every argument; scalars go straight to their slots (tensors follow once they are placed). */
static wick_status read_inputs(frame *f)
{
    wick_input_shape shapes[WICK_MAX_PARAMS];
    for (int i = 0; i < f->sig->n_inputs; i++) {
        const wick_param *p = input(f, i);
        wick_input_shape *shape = &shapes[i];
        if (p->kind == WICK_KIND_TENSOR) {
            WICK_TRY(read_tensor(f, i));
            shape->present = f->in[i].present;
            shape->dim = shape->present ? f->in[i].given.dim : 0;
            shape->size = shape->present ? f->in[i].given.size : NULL;
            f->n_slots++;
        } else if (p->kind == WICK_KIND_SHAPE) {
            bool given = f->args[i].kind == WICK_VALUE_SHAPE || f->args[i].kind == WICK_VALUE_TENSOR;
            if (!given) return wick_fail(f->ctx, WICK_EINVAL, "%s is missing, expected a shape", p->name);
            shape->present = true;
            shape->dim = f->args[i].as.tensor.dim;
            shape->size = f->args[i].as.tensor.size;
            for (int d = 0; d < shape->dim; d++)
                if (shape->size[d] < 0)
                    return wick_fail(f->ctx, WICK_EINVAL, "%s[%d] is %lld, but a size cannot be negative", p->name, d,
                                     (long long)shape->size[d]);
        } else {
            wick_slot *slot = &f->slots[f->n_slots++];
            WICK_TRY(read_scalar(f, i, slot));
            shape->present = true;
            shape->number = slot->i;
        }
    }
    WICK_TRY(settle_types(f));
    return wick_signature_bind(f->ctx, f->sig, shapes, &f->binding);
}

/* ---- placing tensors ---- */

static wick_status make_like(frame *f, const wick_tensor *like, wick_tensor *out)
{
    return f->host->empty(f->ctx, (wick_dtype)like->dtype, like->device_type, like->device_index, like->dim, like->size,
                          out);
}

/* A contiguous tensor for an argument that is not; filled from it when the operator will read it. */
static wick_status stand_in_for(frame *f, place *at, bool fill)
{
    WICK_TRY(make_like(f, &at->given, &at->used));
    at->stand_in = true;
    return fill ? f->host->copy(f->ctx, &at->used, &at->given) : WICK_OK;
}

static wick_view view_of(const wick_tensor *t)
{
    wick_view v = {.data = t->data, .dim = t->dim, .size = t->size, .stride = t->stride};
    return v;
}

static wick_overlap overlap(const wick_tensor *a, const wick_tensor *b)
{
    wick_view va = view_of(a), vb = view_of(b);
    return wick_shape_overlap(&va, wick_dtype_size(a->dtype), &vb, wick_dtype_size(b->dtype));
}

static bool is_contiguous(const wick_tensor *t)
{
    return wick_shape_is_contiguous(t->dim, t->size, t->stride);
}

/* A tensor that is written must have its elements to itself; sharing all of them with another argument is fine. */
static wick_status check_written(frame *f, const char *name, const wick_tensor *t, const place *self)
{
    if (t->device_type == WICK_META) return WICK_OK;
    if (!is_contiguous(t) && wick_shape_overlaps_itself(t->dim, t->size, t->stride))
        return wick_fail(f->ctx, WICK_EINVAL,
                         "%s is written in place, but several of its elements share memory (an expanded tensor?): "
                         "clone it first",
                         name);
    for (int i = 0; i < f->sig->n_inputs; i++) {
        if (input(f, i)->kind != WICK_KIND_TENSOR || !f->in[i].present || &f->in[i] == self) continue;
        if (overlap(t, &f->in[i].given) == WICK_OVERLAP_PARTIAL)
            return wick_fail(f->ctx, WICK_EINVAL, "%s is written in place, but partly overlaps %s in memory", name,
                             input(f, i)->name);
    }
    return WICK_OK;
}

static wick_status place_input(frame *f, int i)
{
    const wick_param *p = input(f, i);
    place *at = &f->in[i];
    if (!at->present) return WICK_OK;
    at->used = at->given;
    if (p->in_place) WICK_TRY(check_written(f, p->name, &at->given, at));
    if (p->strided || is_contiguous(&at->given)) return WICK_OK;
    at->copy_back = p->in_place;
    return stand_in_for(f, at, true);
}

/* Two results in one place: the first would be lost. */
static wick_status check_other_outs(frame *f, const wick_param *p, const wick_tensor *t)
{
    for (int i = 0; i < f->n_outputs; i++)
        if (f->out[i].present && !f->out[i].made && overlap(t, &f->out[i].given))
            return wick_fail(f->ctx, WICK_EINVAL, "out for %s overlaps out for %s in memory", p->name,
                             f->sig->outputs[i].name);
    return WICK_OK;
}

/* A result that the caller wants in a tensor of theirs. If it shares memory with an input, the operator might read what
 * it has already overwritten: it then writes beside it and the result is copied. */
static wick_status place_given(frame *f, const wick_param *p, place *at, int dim, const int64_t *size, wick_dtype dtype)
{
    const wick_tensor *t = &at->given;
    wick_text got = {0}, wanted = {0};
    wick_status s = WICK_OK;

    if (t->dim != dim || memcmp(t->size, size, (size_t)dim * sizeof *size) != 0) {
        wick_shape_print(&got, t->dim, t->size);
        wick_shape_print(&wanted, dim, size);
        s = wick_fail(f->ctx, WICK_EINVAL, "out for %s has shape %s, expected %s", p->name, wick_text_str(&got),
                      wick_text_str(&wanted));
    } else if (t->dtype != (int32_t)dtype) {
        s = wick_fail(f->ctx, WICK_EINVAL, "out for %s is %s, expected %s", p->name, dtype_word(f, t),
                      wick_dtype_name(dtype));
    } else if (f->first && (t->device_type != f->first->device_type || t->device_index != f->first->device_index)) {
        s = wick_fail(f->ctx, WICK_EINVAL, "out for %s is on another device than %s", p->name, f->first_name);
    } else if (!f->first && t->device_type != WICK_CPU) {
        s = wick_fail(f->ctx, WICK_EINVAL, "out for %s is on another device than cpu", p->name);
    } else {
        s = check_memory(f, "out", t);
        if (s == WICK_OK) s = check_written(f, "out", t, NULL);
        if (s == WICK_OK) s = check_other_outs(f, p, t);
    }
    wick_text_free(&got);
    wick_text_free(&wanted);
    if (s != WICK_OK) return s;

    at->used = at->given;
    bool shared = !is_contiguous(t);
    for (int i = 0; i < f->sig->n_inputs && !shared; i++)
        shared = input(f, i)->kind == WICK_KIND_TENSOR && f->in[i].present && overlap(t, &f->in[i].given);
    at->copy_back = shared;
    return shared ? stand_in_for(f, at, false) : WICK_OK;
}

static wick_status place_output(frame *f, int i)
{
    const wick_param *p = &f->sig->outputs[i];
    wick_value *r = &f->results[i];
    place *at = &f->out[i];
    int64_t size[WICK_MAX_RANK];
    int dim;

    at->present = at->stand_in = at->copy_back = at->made = false;
    if (p->kind != WICK_KIND_TENSOR || r->unwanted) return WICK_OK;
    wick_dtype dtype = wick_elem_dtype(&p->elem, f->types);
    WICK_TRY(wick_signature_shape(f->ctx, f->sig, p, &f->binding, &dim, size));
    if (r->kind == WICK_VALUE_TENSOR) {
        at->given = r->as.tensor;
        at->present = true;
        return place_given(f, p, at, dim, size, dtype);
    }
    WICK_TRY(f->host->empty(f->ctx, dtype, f->first ? f->first->device_type : WICK_CPU,
                            f->first ? f->first->device_index : 0, dim, size, &at->used));
    at->present = at->made = true;
    r->kind = WICK_VALUE_TENSOR;
    r->owned = true;
    r->as.tensor = at->used;
    return WICK_OK;
}

/* Scratch on the CPU is plain memory: a tensor would cost more than most operators that want a few bytes. */
static wick_status place_scratch(frame *f, int i)
{
    const wick_param *p = &f->sig->scratch[i];
    wick_dtype dtype = wick_elem_dtype(&p->elem, f->types);
    int64_t size[WICK_MAX_RANK];
    int dim;

    f->scratch_block[i] = NULL;
    f->scratch[i].handle = NULL;
    WICK_TRY(wick_signature_shape(f->ctx, f->sig, p, &f->binding, &dim, size));
    if (f->first && f->first->device_type != WICK_CPU)
        return f->host->empty(f->ctx, dtype, f->first->device_type, f->first->device_index, dim, size, &f->scratch[i]);
    uint64_t bytes = wick_shape_bytes(dim, size, dtype);
    if (bytes < SIZE_MAX - SCRATCH_ALIGNMENT) f->scratch_block[i] = wick_malloc((size_t)bytes + SCRATCH_ALIGNMENT);
    if (!f->scratch_block[i])
        return wick_fail(f->ctx, WICK_ENOMEM, "out of memory for scratch %s (%llu bytes)", p->name,
                         (unsigned long long)bytes);
    uintptr_t at = (uintptr_t)f->scratch_block[i];
    f->scratch[i].data = (char *)f->scratch_block[i] + (SCRATCH_ALIGNMENT - at % SCRATCH_ALIGNMENT);
    return WICK_OK;
}

/* ---- running ---- */

static void *pointer(const place *at)
{
    if (!at->present) return NULL;
    return at->used.data ? at->used.data : nothing;
}

/* The C prototype's order: inputs, outputs, scratch, dims that no int argument has already given. */
static void fill_slots(frame *f)
{
    int s = 0;
    for (int i = 0; i < f->sig->n_inputs; i++) {
        const wick_param *p = input(f, i);
        if (p->kind == WICK_KIND_SHAPE) continue;
        if (p->kind == WICK_KIND_TENSOR && p->strided) {
            f->in[i].view = view_of(&f->in[i].used);
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

static wick_status find_entry(frame *f, wick_entry *out)
{
    bool cuda = f->first && f->first->device_type == WICK_CUDA;
    const wick_variant *v = wick_op_def_variant(f->def, f->types);
    if (!v && f->def->resolve) {
        WICK_TRY(f->def->resolve(f->ctx, f->def->resolve_arg, f->def, f->types));
        v = wick_op_def_variant(f->def, f->types);
    }
    if (!v) return wick_fail(f->ctx, WICK_ENOTSUP, "the module holds no code for these types on this CPU");
    *out = cuda ? v->cuda : v->cpu;
    if (*out) return WICK_OK;
    return wick_fail(f->ctx, WICK_ENOTSUP, "%s is on %s, but the operator has only a %s version",
                     f->first ? f->first_name : "the call", cuda ? "cuda" : "cpu", cuda ? "CPU" : "CUDA");
}

static void set_scalar_kinds(frame *f)
{
    for (int i = 0; i < f->sig->n_outputs; i++) {
        wick_kind kind = f->sig->outputs[i].kind;
        if (kind == WICK_KIND_TENSOR) continue;
        f->results[i].kind = kind == WICK_KIND_INT     ? WICK_VALUE_INT
                             : kind == WICK_KIND_FLOAT ? WICK_VALUE_FLOAT
                                                       : WICK_VALUE_BOOL;
    }
}

static wick_status run(frame *f)
{
    wick_entry entry;
    WICK_TRY(find_entry(f, &entry));
    for (int i = 0; i < f->sig->n_inputs; i++)
        if (input(f, i)->kind == WICK_KIND_TENSOR) WICK_TRY(place_input(f, i));
    for (; f->n_outputs < f->sig->n_outputs; f->n_outputs++)
        WICK_TRY(place_output(f, f->n_outputs));
    for (; f->n_scratch < f->sig->n_scratch; f->n_scratch++)
        WICK_TRY(place_scratch(f, f->n_scratch));
    fill_slots(f);
    set_scalar_kinds(f);
    wick_status s = entry(f->ctx, f->slots);
    if (s == WICK_OK || f->ctx->failed) return s;
    return wick_fail(f->ctx, s, "the operator failed with status %d and no message", (int)s);
}

/* A call on meta tensors computes shapes and nothing else. */
static wick_status run_meta(frame *f)
{
    for (; f->n_outputs < f->sig->n_outputs; f->n_outputs++) {
        if (f->sig->outputs[f->n_outputs].kind != WICK_KIND_TENSOR)
            return wick_fail(f->ctx, WICK_ENOTSUP, "%s is on meta, but the operator returns a plain number (%s)",
                             f->first_name, f->sig->outputs[f->n_outputs].name);
        WICK_TRY(place_output(f, f->n_outputs));
    }
    return WICK_OK;
}

/* ---- the end of a call ---- */

static wick_status finish_place(frame *f, place *at, bool written, bool run_ok)
{
    wick_status s = WICK_OK;
    if (!at->present) return s;
    if (at->stand_in && at->copy_back && run_ok) s = f->host->copy(f->ctx, &at->given, &at->used);
    if (at->stand_in) f->host->release(&at->used);
    if (s == WICK_OK && written && f->host->written && run_ok) s = f->host->written(f->ctx, &at->given);
    return s;
}

static wick_status finish(frame *f, wick_status status)
{
    bool ok = status == WICK_OK;
    for (int i = 0; i < f->sig->n_inputs; i++) {
        if (input(f, i)->kind != WICK_KIND_TENSOR) continue;
        wick_status s = finish_place(f, &f->in[i], input(f, i)->in_place, ok);
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

static void init_frame(frame *f, wick_ctx *ctx, const wick_op *op, wick_op_def *def)
{
    f->ctx = ctx;
    f->op = op;
    f->def = def;
    f->sig = def->sig;
    f->first = NULL;
    f->n_slots = f->n_outputs = f->n_scratch = 0;
    memset(f->types, 0, sizeof f->types);
}

wick_status wick_op_invoke(wick_ctx *ctx, const wick_op *op, const wick_host *host, const wick_value *args,
                           wick_value *results)
{
    frame f; /* not zeroed: it is large, and every part is set before it is read */
    wick_op_def *def = wick_op_current(op);

    assert(def);
    init_frame(&f, ctx, op, def);
    f.host = host;
    f.args = args;
    f.results = results;
    const char *broken = atomic_load_explicit(&def->broken, memory_order_acquire);
    if (broken) return wick_fail(ctx, WICK_ECOMPILE, "%s", broken);
    wick_status status = read_inputs(&f);
    if (status == WICK_OK) {
        bool meta = f.first && f.first->device_type == WICK_META;
        status = finish(&f, meta ? run_meta(&f) : run(&f));
    }
    /* A compiler's words begin with file and line, and stay so. */
    if (status != WICK_OK && status != WICK_ECOMPILE) wick_ctx_prefix(ctx, "%s: ", op->name);
    return status;
}
