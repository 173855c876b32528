/* call_place.c -- where an operator reads and writes
 *
 * Operators are given contiguous memory unless they ask for strides. What is not contiguous gets a
 * stand-in, and what was written to a stand-in is copied back at the end (call.c).
 */
#include "call.h"

#include <stdatomic.h>
#include <string.h>

static _Atomic(wick_scratch_source) scratch_source;

void wick_call_scratch_from(wick_scratch_source source) { atomic_store(&scratch_source, source); }

/* On the device that the call runs on. */
static wick_status make_like(wick_call_frame *f, const wick_tensor *like, wick_tensor *out)
{
    const wick_tensor *at = f->first ? f->first : like;
    return f->host->empty(f->ctx, (wick_dtype)like->dtype, at->device_type, at->device_index,
                          like->dim, like->size, out);
}

/* A contiguous tensor for an argument that is not; filled from it when the operator will read it.
 */
static wick_status stand_in_for(wick_call_frame *f, wick_call_place *at, bool fill)
{
    WICK_TRY(make_like(f, &at->given, &at->used));
    at->stand_in = true;
    return fill ? f->host->copy(f->ctx, &at->used, &at->given) : WICK_OK;
}

wick_view wick_call_view_of(const wick_tensor *t)
{
    wick_view v = {.data = t->data, .dim = t->dim, .size = t->size, .stride = t->stride};
    return v;
}

static wick_overlap overlap(const wick_tensor *a, const wick_tensor *b)
{
    wick_view va = wick_call_view_of(a), vb = wick_call_view_of(b);
    return wick_shape_overlap(&va, wick_dtype_size(a->dtype), &vb, wick_dtype_size(b->dtype));
}

static bool is_contiguous(const wick_tensor *t)
{
    return wick_shape_is_contiguous(t->dim, t->size, t->stride);
}

/* A tensor that is written must have its elements to itself; sharing all of them with another
 * argument is fine. */
static wick_status check_written(wick_call_frame *f, const char *name, const wick_tensor *t,
                                 bool contiguous, const wick_call_place *self)
{
    if (t->device_type == WICK_META) return WICK_OK;
    if (!contiguous && wick_shape_overlaps_itself(t->dim, t->size, t->stride))
        return wick_fail(f->ctx, WICK_EINVAL,
                         "%s is written in place, but several of its elements share memory (an "
                         "expanded tensor?): "
                         "clone it first",
                         name);
    for (int i = 0; i < f->sig->n_inputs; i++) {
        if (wick_call_input(f, i)->kind != WICK_KIND_TENSOR || !f->in[i].present ||
            &f->in[i] == self)
            continue;
        if (overlap(t, &f->in[i].given) == WICK_OVERLAP_PARTIAL)
            return wick_fail(f->ctx, WICK_EINVAL,
                             "%s is written in place, but partly overlaps %s in memory", name,
                             wick_call_input(f, i)->name);
    }
    return WICK_OK;
}

wick_status wick_call_place_input(wick_call_frame *f, int i)
{
    const wick_param *p = wick_call_input(f, i);
    wick_call_place *at = &f->in[i];
    if (!at->present) return WICK_OK;
    at->used = at->given;
    bool contiguous = is_contiguous(&at->given);
    if (p->in_place) WICK_TRY(check_written(f, p->name, &at->given, contiguous, at));
    bool here = at->given.device_type == f->first->device_type;
    if (here && (p->strided || contiguous)) return WICK_OK;
    at->copy_back = p->in_place;
    return stand_in_for(f, at, true);
}

/* Two results in one place: the first would be lost. */
static wick_status check_other_outs(wick_call_frame *f, const wick_param *p, const wick_tensor *t)
{
    for (int i = 0; i < f->n_outputs; i++)
        if (f->out[i].present && !f->out[i].made && overlap(t, &f->out[i].given))
            return wick_fail(f->ctx, WICK_EINVAL, "out for %s overlaps out for %s in memory",
                             p->name, f->sig->outputs[i].name);
    return WICK_OK;
}

/* A result that the caller wants in a tensor of theirs. If it shares memory with an input, the
 * operator might read what it has already overwritten: it then writes beside it and the result is
 * copied. */
static wick_status place_given(wick_call_frame *f, const wick_param *p, wick_call_place *at,
                               int dim, const int64_t *size, wick_dtype dtype)
{
    static const wick_tensor cpu = {.device_type = WICK_CPU};
    const wick_tensor *t = &at->given, *first = f->first ? f->first : &cpu;
    char here[64], there[64];
    wick_text got = {0}, wanted = {0};
    wick_status s = WICK_OK;

    if (t->dim != dim || memcmp(t->size, size, (size_t)dim * sizeof *size) != 0) {
        wick_shape_print(&got, t->dim, t->size);
        wick_shape_print(&wanted, dim, size);
        s = wick_fail(f->ctx, WICK_EINVAL, "out for %s has shape %s, expected %s", p->name,
                      wick_text_str(&got), wick_text_str(&wanted));
    } else if (t->dtype != (int32_t)dtype) {
        s = wick_fail(f->ctx, WICK_EINVAL, "out for %s is %s, expected %s", p->name,
                      wick_call_dtype_word(f, t), wick_dtype_name(dtype));
    } else if (t->device_type != first->device_type ||
               (t->device_type == WICK_CUDA && t->device_index != first->device_index)) {
        wick_call_device_word(here, sizeof here, t);
        wick_call_device_word(there, sizeof there, first);
        s = wick_fail(f->ctx, WICK_EINVAL, "out for %s is on %s, but %s is on %s", p->name, here,
                      f->first ? f->first_name : "the call", there);
    } else {
        s = wick_call_check_memory(f, "out", t);
        if (s == WICK_OK) s = check_written(f, "out", t, is_contiguous(t), NULL);
        if (s == WICK_OK) s = check_other_outs(f, p, t);
    }
    wick_text_free(&got);
    wick_text_free(&wanted);
    if (s != WICK_OK) return s;

    at->used = at->given;
    bool shared = !is_contiguous(t);
    for (int i = 0; i < f->sig->n_inputs && !shared; i++)
        shared = wick_call_input(f, i)->kind == WICK_KIND_TENSOR && f->in[i].present &&
                 overlap(t, &f->in[i].given);
    at->copy_back = shared;
    return shared ? stand_in_for(f, at, false) : WICK_OK;
}

wick_status wick_call_place_output(wick_call_frame *f, int i)
{
    const wick_param *p = &f->sig->outputs[i];
    wick_value *r = &f->results[i];
    wick_call_place *at = &f->out[i];
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

/* Scratch on the CPU is plain memory: a tensor would cost more than most operators that want a few
 * bytes. */
wick_status wick_call_place_scratch(wick_call_frame *f, int i)
{
    const wick_param *p = &f->sig->scratch[i];
    wick_dtype dtype = wick_elem_dtype(&p->elem, f->types);
    int64_t size[WICK_MAX_RANK];
    int dim;

    f->scratch_block[i] = NULL;
    f->scratch[i].handle = NULL;
    WICK_TRY(wick_signature_shape(f->ctx, f->sig, p, &f->binding, &dim, size));
    uint64_t bytes = wick_shape_bytes(dim, size, dtype);
    const wick_tensor *on = f->first && f->first->device_type != WICK_CPU ? f->first : NULL;
    wick_scratch_source source = on ? atomic_load(&scratch_source) : NULL;
    if (source) return source(f->ctx, p->name, on->device_index, bytes, &f->scratch[i].data);
    if (f->host->scratch_too || on)
        return f->host->empty(f->ctx, dtype, on ? on->device_type : WICK_CPU,
                              on ? on->device_index : 0, dim, size, &f->scratch[i]);
    if (bytes < SIZE_MAX - CALL_ALIGNMENT)
        f->scratch_block[i] = wick_malloc((size_t)bytes + CALL_ALIGNMENT);
    if (!f->scratch_block[i])
        return wick_fail(f->ctx, WICK_ENOMEM, "out of memory for scratch %s (%llu bytes)", p->name,
                         (unsigned long long)bytes);
    uintptr_t at = (uintptr_t)f->scratch_block[i];
    f->scratch[i].data = (char *)f->scratch_block[i] + (CALL_ALIGNMENT - at % CALL_ALIGNMENT);
    return WICK_OK;
}
