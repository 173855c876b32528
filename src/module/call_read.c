/* call_read.c -- what the caller gave, checked against the signature
 *
 * Nothing has been allocated yet, so a refusal costs and leaves nothing. Every message names the
 * argument, what it got and what it wanted.
 */
#include "call.h"

#include <string.h>

const char *wick_call_dtype_word(const wick_call_frame *f, const wick_tensor *t)
{
    if (t->dtype == WICK_NONE && f->host->dtype_name) return f->host->dtype_name(t);
    return wick_dtype_name(t->dtype);
}

void wick_call_device_word(char *out, size_t n, const wick_tensor *t)
{
    static const char *const names[] = {"cpu", "cuda", "meta", "another kind of device"};
    wick_text text = {0};
    wick_text_add(&text, names[t->device_type]);
    if (t->device_type == WICK_CUDA) wick_text_printf(&text, ":%d", t->device_index);
    strncpy(out, wick_text_str(&text), n - 1);
    out[n - 1] = 0;
    wick_text_free(&text);
}

static wick_status fail_dtype(wick_call_frame *f, const wick_param *p, const wick_tensor *t)
{
    wick_text wanted = {0};
    wick_elem_print_types(&wanted, f->sig, &p->elem);
    wick_status s = wick_fail(f->ctx, WICK_EINVAL, "%s is %s, expected %s", p->name,
                              wick_call_dtype_word(f, t), wick_text_str(&wanted));
    wick_text_free(&wanted);
    return s;
}

static wick_status check_variable(wick_call_frame *f, const wick_param *p, const wick_tensor *t)
{
    int v = p->elem.variable;
    const wick_variable *variable = &f->sig->variables[v];
    if (f->types[v] != WICK_NONE) {
        if (t->dtype == (int32_t)f->types[v]) return WICK_OK;
        return wick_fail(f->ctx, WICK_EINVAL, "%s is %s, but %s is %s (as %s is)", p->name,
                         wick_call_dtype_word(f, t), variable->name, wick_dtype_name(f->types[v]),
                         f->typed_by[v]);
    }
    for (int i = 0; i < variable->n_types; i++)
        if (t->dtype == (int32_t)variable->types[i]) {
            f->types[v] = variable->types[i];
            f->typed_by[v] = p->name;
            return WICK_OK;
        }
    return fail_dtype(f, p, t);
}

/* A number in the form of a tensor: as with torch's own operators it may stay on the CPU while the
 * others are on a GPU. */
static bool is_number(const wick_tensor *t) { return t->device_type == WICK_CPU && t->dim == 0; }

static wick_status check_device(wick_call_frame *f, const wick_param *p, const wick_tensor *t)
{
    char here[64], there[64];
    if (!f->first) {
        f->first = t;
        f->first_name = p->name;
        f->only_numbers = is_number(t) && !p->in_place;
        if (t->device_type != WICK_OTHER) return WICK_OK;
        return wick_fail(f->ctx, WICK_ENOTSUP,
                         "%s is on a device that Wick has no operators for, expected cpu or cuda",
                         p->name);
    }
    if (t->device_type == f->first->device_type && t->device_index == f->first->device_index) {
        f->only_numbers = f->only_numbers && is_number(t) && !p->in_place;
        return WICK_OK;
    }
    if (f->first->device_type == WICK_CUDA && is_number(t) && !p->in_place) return WICK_OK;
    if (t->device_type == WICK_CUDA && f->only_numbers) {
        f->first = t;
        f->first_name = p->name;
        f->only_numbers = false;
        return WICK_OK;
    }
    wick_call_device_word(here, sizeof here, t);
    wick_call_device_word(there, sizeof there, f->first);
    return wick_fail(f->ctx, WICK_EINVAL, "%s is on %s, but %s is on %s", p->name, here,
                     f->first_name, there);
}

/* A tensor may have sizes and no memory: its storage was freed. An operator would read whatever
 * lies at 0. */
wick_status wick_call_check_memory(wick_call_frame *f, const char *name, const wick_tensor *t)
{
    if (t->data || t->device_type == WICK_META || wick_shape_numel(t->dim, t->size) == 0)
        return WICK_OK;
    return wick_fail(f->ctx, WICK_EINVAL,
                     "%s has no memory (its storage was freed), expected a tensor with data", name);
}

static wick_status read_tensor(wick_call_frame *f, int i)
{
    const wick_param *p = wick_call_input(f, i);
    const wick_value *v = &f->args[i];
    wick_call_place *at = &f->in[i];

    at->stand_in = at->copy_back = false;
    at->present = v->kind == WICK_VALUE_TENSOR;
    if (v->kind == WICK_VALUE_NONE && p->optional) return WICK_OK;
    if (!at->present)
        return wick_fail(f->ctx, WICK_EINVAL, "%s is missing, expected a tensor", p->name);
    at->given = v->as.tensor;
    WICK_TRY(wick_call_check_memory(f, p->name, &at->given));
    WICK_TRY(check_device(f, p, &at->given));
    if (p->elem.kind == WICK_ELEM_VARIABLE) return check_variable(f, p, &at->given);
    if (p->elem.kind == WICK_ELEM_FIXED && at->given.dtype != (int32_t)p->elem.dtype)
        return fail_dtype(f, p, &at->given);
    return WICK_OK;
}

static wick_status read_choice(wick_call_frame *f, const wick_param *p, const char *given,
                               wick_slot *slot)
{
    wick_text wanted = {0};
    for (int i = 0; i < p->n_choices; i++)
        if (!strcmp(p->choices[i], given)) {
            slot->i = i;
            return WICK_OK;
        }
    for (int i = 0; i < p->n_choices; i++)
        wick_text_printf(&wanted, "%s'%s'",
                         !i                     ? ""
                         : i + 1 < p->n_choices ? ", "
                                                : " or ",
                         p->choices[i]);
    wick_status s = wick_fail(f->ctx, WICK_EINVAL, "%s is '%s', expected %s", p->name, given,
                              wick_text_str(&wanted));
    wick_text_free(&wanted);
    return s;
}

static wick_status read_scalar(wick_call_frame *f, int i, wick_slot *slot)
{
    static const char *const kinds[] = {"absent", "a tensor", "an int", "a float",
                                        "a bool", "a str",    "a shape"};
    const wick_param *p = wick_call_input(f, i);
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

/* A variable that no present input decides (it is only in an absent optional, or behind A) takes
 * the first type of its list that agrees with the accumulation types seen. */
static wick_status settle_types(wick_call_frame *f)
{
    for (int v = 0; v < f->sig->n_variables; v++)
        if (f->types[v] == WICK_NONE) {
            f->types[v] = f->sig->variables[v].types[0];
            f->typed_by[v] = "its first type";
            for (int i = 0; i < f->sig->n_inputs; i++) {
                const wick_param *p = wick_call_input(f, i);
                bool sums = p->kind == WICK_KIND_TENSOR && p->elem.kind == WICK_ELEM_ACCUMULATE &&
                            p->elem.variable == v;
                if (!sums || !f->in[i].present) continue;
                for (int k = f->sig->variables[v].n_types; k-- > 0;)
                    if ((int32_t)wick_dtype_accumulate(f->sig->variables[v].types[k]) ==
                        f->in[i].given.dtype)
                        f->types[v] = f->sig->variables[v].types[k];
            }
        }
    for (int i = 0; i < f->sig->n_inputs; i++) {
        const wick_param *p = wick_call_input(f, i);
        if (p->kind != WICK_KIND_TENSOR || p->elem.kind != WICK_ELEM_ACCUMULATE ||
            !f->in[i].present)
            continue;
        wick_dtype wanted = wick_dtype_accumulate(f->types[p->elem.variable]);
        if (f->in[i].given.dtype != (int32_t)wanted)
            return wick_fail(f->ctx, WICK_EINVAL,
                             "%s is %s, expected %s (what %s, %s here, is summed in)", p->name,
                             wick_call_dtype_word(f, &f->in[i].given), wick_dtype_name(wanted),
                             f->sig->variables[p->elem.variable].name,
                             wick_dtype_name(f->types[p->elem.variable]));
    }
    return WICK_OK;
}

/* Reads every argument; scalars go straight to their slots (tensors follow once they are placed).
 */
wick_status wick_call_read_kinds(wick_call_frame *f, wick_input_shape *shapes)
{
    for (int i = 0; i < f->sig->n_inputs; i++) {
        const wick_param *p = wick_call_input(f, i);
        wick_input_shape *shape = &shapes[i];
        if (p->kind == WICK_KIND_TENSOR) {
            WICK_TRY(read_tensor(f, i));
            shape->present = f->in[i].present;
            shape->dim = shape->present ? f->in[i].given.dim : 0;
            shape->size = shape->present ? f->in[i].given.size : NULL;
            f->n_slots++;
        } else if (p->kind == WICK_KIND_SHAPE) {
            bool given =
                f->args[i].kind == WICK_VALUE_SHAPE || f->args[i].kind == WICK_VALUE_TENSOR;
            if (!given)
                return wick_fail(f->ctx, WICK_EINVAL, "%s is missing, expected a shape", p->name);
            shape->present = true;
            shape->dim = f->args[i].as.tensor.dim;
            shape->size = f->args[i].as.tensor.size;
            for (int d = 0; d < shape->dim; d++)
                if (shape->size[d] < 0)
                    return wick_fail(f->ctx, WICK_EINVAL,
                                     "%s[%d] is %lld, but a size cannot be negative", p->name, d,
                                     (long long)shape->size[d]);
        } else {
            wick_slot *slot = &f->slots[f->n_slots++];
            WICK_TRY(read_scalar(f, i, slot));
            shape->present = true;
            shape->number = slot->i;
        }
    }
    return settle_types(f);
}

wick_status wick_call_read(wick_call_frame *f)
{
    wick_input_shape shapes[WICK_MAX_PARAMS];
    WICK_TRY(wick_call_read_kinds(f, shapes));
    return wick_signature_bind(f->ctx, f->sig, shapes, &f->binding);
}
