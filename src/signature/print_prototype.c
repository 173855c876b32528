/* print_prototype.c -- the C function that a signature implies
 *
 * ctx, inputs, outputs and scratch in order, then every named dim in order of first appearance,
 * except those that an int argument gives. The build declares this in front of the author's file,
 * so a function that disagrees does not compile.
 */
#include "signature_internal.h"

static void print_elem(wick_text *out, const wick_signature *sig, const wick_elem *elem)
{
    switch (elem->kind) {
    case WICK_ELEM_FIXED: wick_text_add(out, wick_dtype_c_type((int)elem->dtype)); break;
    case WICK_ELEM_VARIABLE: wick_text_add(out, sig->variables[elem->variable].name); break;
    case WICK_ELEM_ACCUMULATE: wick_text_add(out, "A"); break;
    }
}

void wick_param_print_c_type(wick_text *out, const wick_signature *sig, const wick_param *param,
                             bool written)
{
    const char *star = written ? " *" : "";
    switch (param->kind) {
    case WICK_KIND_SHAPE: break;
    case WICK_KIND_INT: wick_text_printf(out, "int64_t%s", star); break;
    case WICK_KIND_FLOAT: wick_text_printf(out, "double%s", star); break;
    case WICK_KIND_BOOL: wick_text_printf(out, "bool%s", star); break;
    case WICK_KIND_STR: wick_text_add(out, "const char *"); break;
    case WICK_KIND_CHOICE: wick_text_printf(out, "int%s", star); break;
    default:
        if (!written && !param->in_place) wick_text_add(out, "const ");
        if (param->strided)
            wick_text_add(out, "wick_view");
        else
            print_elem(out, sig, &param->elem);
        wick_text_add(out, " *");
        break;
    }
}

static void print_param(wick_text *out, const wick_signature *sig, const wick_param *param,
                        bool written, bool names)
{
    if (param->kind == WICK_KIND_SHAPE) return;
    wick_text_add(out, ", ");
    wick_param_print_c_type(out, sig, param, written);
    if (!names) return;
    if (out->size > 0 && out->data[out->size - 1] != '*') wick_text_add(out, " ");
    wick_text_add(out, param->name);
}

void wick_signature_print_prototype(wick_text *out, const wick_signature *sig, const char *suffix,
                                    bool names)
{
    wick_text_printf(out, "wick_status %s_%s(wick_ctx *%s", sig->name, suffix, names ? "ctx" : "");
    for (int i = 0; i < sig->n_inputs; i++)
        print_param(out, sig, &sig->inputs[i], false, names);
    for (int i = 0; i < sig->n_outputs; i++)
        print_param(out, sig, &sig->outputs[i], true, names);
    for (int i = 0; i < sig->n_scratch; i++)
        print_param(out, sig, &sig->scratch[i], true, names);
    for (int i = 0; i < sig->n_dims; i++)
        if (sig->dims[i].from_int < 0)
            wick_text_printf(out, ", int64_t%s%s", names ? " " : "",
                             names ? sig->dims[i].name : "");
    wick_text_add(out, ")");
}
