/* print.c -- a signature as its authors write it: canonical text, the line for documents, types for
 * messages */
#include "signature_internal.h"

static void print_sizes(wick_text *out, const wick_signature *sig, const wick_param *param)
{
    const char *before = "";
    wick_text_add(out, "[");
    if (param->leading >= 0) {
        wick_text_printf(out, "*%s", sig->dims[param->leading].name);
        before = ", ";
    }
    for (int i = 0; i < param->n_sizes; i++) {
        wick_text_printf(out, "%s%s", before, param->sizes[i].text);
        before = ", ";
    }
    wick_text_add(out, "]");
}

static const char *elem_name(const wick_signature *sig, const wick_elem *elem)
{
    switch (elem->kind) {
    case WICK_ELEM_FIXED: return wick_dtype_name((int)elem->dtype);
    case WICK_ELEM_VARIABLE: return sig->variables[elem->variable].name;
    default: return "A";
    }
}

void wick_param_print_type(wick_text *out, const wick_signature *sig, const wick_param *param)
{
    switch (param->kind) {
    case WICK_KIND_TENSOR:
        wick_text_printf(out, "%s%s", param->strided ? "strided " : "",
                         elem_name(sig, &param->elem));
        print_sizes(out, sig, param);
        break;
    case WICK_KIND_SHAPE:
        wick_text_add(out, "shape");
        print_sizes(out, sig, param);
        break;
    case WICK_KIND_INT: wick_text_add(out, "int"); break;
    case WICK_KIND_FLOAT: wick_text_add(out, "float"); break;
    case WICK_KIND_BOOL: wick_text_add(out, "bool"); break;
    case WICK_KIND_STR: wick_text_add(out, "str"); break;
    case WICK_KIND_CHOICE:
        for (int i = 0; i < param->n_choices; i++)
            wick_text_printf(out, "%s'%s'", i ? "|" : "", param->choices[i]);
        break;
    }
}

/* One type once, in the order of the variable's list. */
void wick_elem_print_types(wick_text *out, const wick_signature *sig, const wick_elem *elem)
{
    wick_dtype types[WICK_DTYPE_COUNT];
    int n = 0;
    if (elem->kind == WICK_ELEM_FIXED) {
        types[n++] = elem->dtype;
    } else {
        const wick_variable *variable = &sig->variables[elem->variable];
        bool given[WICK_DTYPE_COUNT] = {false};
        for (int i = 0; i < variable->n_types; i++) {
            wick_dtype dtype = variable->types[i];
            if (elem->kind == WICK_ELEM_ACCUMULATE) dtype = wick_dtype_accumulate((int)dtype);
            if (!given[dtype]) types[n++] = dtype;
            given[dtype] = true;
        }
    }
    for (int i = 0; i < n; i++)
        wick_text_printf(out, "%s%s",
                         i == 0       ? ""
                         : i == n - 1 ? " or "
                                      : ", ",
                         wick_dtype_name((int)types[i]));
}

static void print_default(wick_text *out, const wick_param *param)
{
    wick_text_add(out, " = ");
    switch (param->kind) {
    case WICK_KIND_INT: wick_text_printf(out, "%lld", (long long)param->default_int); break;
    case WICK_KIND_FLOAT: wick_number_print(out, param->default_float); break;
    case WICK_KIND_BOOL: wick_text_add(out, param->default_int ? "true" : "false"); break;
    case WICK_KIND_CHOICE: wick_text_printf(out, "'%s'", param->choices[param->default_int]); break;
    default: wick_text_printf(out, "'%s'", param->default_str); break;
    }
}

static void print_params(wick_text *out, const wick_signature *sig, const wick_param *params, int n)
{
    for (int i = 0; i < n; i++) {
        const wick_param *param = &params[i];
        wick_text_printf(out, "%s%s%s: ", i ? ", " : "", param->name,
                         param->optional   ? "?"
                         : param->in_place ? "!"
                                           : "");
        wick_param_print_type(out, sig, param);
        if (param->has_default && param->kind >= WICK_KIND_INT) print_default(out, param);
    }
}

static void print_results(wick_text *out, const wick_signature *sig)
{
    wick_text_add(out, "-> ");
    if (sig->n_outputs == 0) wick_text_add(out, "()");
    print_params(out, sig, sig->outputs, sig->n_outputs);
}

static void print_where(wick_text *out, const wick_signature *sig)
{
    const char *before = " where ";
    for (int i = 0; i < sig->n_variables; i++) {
        const wick_variable *variable = &sig->variables[i];
        if (variable->n_types == 0) continue;
        wick_text_printf(out, "%s%s:", before, variable->name);
        for (int k = 0; k < variable->n_types; k++)
            wick_text_printf(out, " %s", wick_dtype_name((int)variable->types[k]));
        before = ", ";
    }
}

void wick_signature_print(wick_text *out, const wick_signature *sig)
{
    static const char *const autocast[] = {"keep", "f32", "follow"};
    const char *before = " batch ";
    print_params(out, sig, sig->inputs, sig->n_inputs);
    if (sig->n_inputs > 0) wick_text_add(out, " ");
    print_results(out, sig);
    print_where(out, sig);
    if (sig->n_scratch > 0) wick_text_add(out, " scratch ");
    print_params(out, sig, sig->scratch, sig->n_scratch);
    for (int i = 0; i < sig->n_dims; i++) {
        if (!sig->dims[i].batch) continue;
        wick_text_printf(out, "%s%s", before, sig->dims[i].name);
        before = ", ";
    }
    if (sig->autocast_given) wick_text_printf(out, " autocast %s", autocast[sig->autocast]);
}

void wick_signature_print_call(wick_text *out, const wick_signature *sig)
{
    wick_text_printf(out, "%s(", sig->name);
    print_params(out, sig, sig->inputs, sig->n_inputs);
    wick_text_add(out, ") ");
    print_results(out, sig);
}
