/* print_schema.c -- a signature as PyTorch and Python read it: torch schema, stub, text signature
 */
#include "signature_internal.h"

#include <string.h>

/* ---- what all three share ---- */

/* A literal of Python, which torch's schema language shares but for the quotes of a text. */
static void print_literal(wick_text *out, const wick_param *param, char quote)
{
    switch (param->kind) {
    case WICK_KIND_TENSOR: wick_text_add(out, "None"); break;
    case WICK_KIND_INT: wick_text_printf(out, "%lld", (long long)param->default_int); break;
    case WICK_KIND_FLOAT: wick_number_print(out, param->default_float); break;
    case WICK_KIND_BOOL: wick_text_add(out, param->default_int ? "True" : "False"); break;
    case WICK_KIND_CHOICE:
        wick_text_printf(out, "%c%s%c", quote, param->choices[param->default_int], quote);
        break;
    default: wick_text_printf(out, "%c%s%c", quote, param->default_str, quote); break;
    }
}

static int n_tensor_outputs(const wick_signature *sig)
{
    int n = 0;
    for (int i = 0; i < sig->n_outputs; i++)
        n += sig->outputs[i].kind == WICK_KIND_TENSOR;
    return n;
}

/* Python's `out=`: there is something to write into, and the name is free. */
static bool takes_out(const wick_signature *sig)
{
    for (int i = 0; i < sig->n_inputs; i++)
        if (strcmp(sig->inputs[i].name, "out") == 0) return false;
    return n_tensor_outputs(sig) > 0;
}

/* ---- torch schema ---- */

/* (a!), (b!), ... (z!), (ba!), ... */
static void print_alias(wick_text *out, int n)
{
    if (n < 26)
        wick_text_printf(out, "(%c!)", 'a' + n);
    else
        wick_text_printf(out, "(%c%c!)", 'a' + n / 26, 'a' + n % 26);
}

static void print_schema_input(wick_text *out, const wick_param *param, int *n_written)
{
    switch (param->kind) {
    case WICK_KIND_TENSOR:
        wick_text_add(out, "Tensor");
        if (param->in_place) print_alias(out, (*n_written)++);
        if (param->optional) wick_text_add(out, "?");
        break;
    case WICK_KIND_SHAPE: wick_text_add(out, "SymInt[]"); break;
    case WICK_KIND_INT: wick_text_add(out, "SymInt"); break;
    case WICK_KIND_FLOAT: wick_text_add(out, "float"); break;
    case WICK_KIND_BOOL: wick_text_add(out, "bool"); break;
    default: wick_text_add(out, "str"); break;
    }
    wick_text_printf(out, " %s", param->name);
    if (!param->has_default) return;
    wick_text_add(out, "=");
    print_literal(out, param, '"');
}

static const char *schema_result(const wick_param *param)
{
    switch (param->kind) {
    case WICK_KIND_INT: return "int";
    case WICK_KIND_FLOAT: return "float";
    case WICK_KIND_BOOL: return "bool";
    default: return param->optional ? "Tensor?" : "Tensor";
    }
}

void wick_signature_print_schema(wick_text *out, const wick_signature *sig)
{
    int n_written = 0;
    const char *before = "";
    wick_text_printf(out, "%s(", sig->name);
    for (int i = 0; i < sig->n_inputs; i++) {
        wick_text_add(out, before);
        print_schema_input(out, &sig->inputs[i], &n_written);
        before = ", ";
    }
    for (int i = 0, star = 1; i < sig->n_outputs; i++) {
        if (!sig->outputs[i].optional) continue;
        wick_text_printf(out, "%s%sbool want_%s=True", before, star ? "*, " : "",
                         sig->outputs[i].name);
        before = ", ";
        star = 0;
    }
    wick_text_add(out, ") -> ");
    if (sig->n_outputs != 1) wick_text_add(out, "(");
    for (int i = 0; i < sig->n_outputs; i++)
        wick_text_printf(out, "%s%s", i ? ", " : "", schema_result(&sig->outputs[i]));
    if (sig->n_outputs != 1) wick_text_add(out, ")");
}

/* ---- Python ---- */

static void print_python_type(wick_text *out, const wick_param *param)
{
    switch (param->kind) {
    case WICK_KIND_TENSOR: wick_text_add(out, param->optional ? "Tensor | None" : "Tensor"); break;
    case WICK_KIND_SHAPE: wick_text_add(out, "Sequence[int]"); break;
    case WICK_KIND_INT: wick_text_add(out, "int"); break;
    case WICK_KIND_FLOAT: wick_text_add(out, "float"); break;
    case WICK_KIND_BOOL: wick_text_add(out, "bool"); break;
    case WICK_KIND_STR: wick_text_add(out, "str"); break;
    case WICK_KIND_CHOICE:
        wick_text_add(out, "Literal[");
        for (int i = 0; i < param->n_choices; i++)
            wick_text_printf(out, "%s'%s'", i ? ", " : "", param->choices[i]);
        wick_text_add(out, "]");
        break;
    }
}

/* "Tensor" or "tuple[Tensor, int]"; with `tensors` the tensors alone, as out= takes them. */
static void print_result_type(wick_text *out, const wick_signature *sig, bool tensors)
{
    int n = tensors ? n_tensor_outputs(sig) : sig->n_outputs;
    const char *before = "";
    if (n > 1) wick_text_add(out, "tuple[");
    for (int i = 0; i < sig->n_outputs; i++) {
        if (tensors && sig->outputs[i].kind != WICK_KIND_TENSOR) continue;
        wick_text_add(out, before);
        print_python_type(out, &sig->outputs[i]);
        before = ", ";
    }
    if (n > 1) wick_text_add(out, "]");
    if (n == 0) wick_text_add(out, "None");
}

static void print_python_input(wick_text *out, const wick_param *param, bool types)
{
    wick_text_add(out, param->name);
    if (types) {
        wick_text_add(out, ": ");
        print_python_type(out, param);
    }
    if (!param->has_default) return;
    wick_text_add(out, types ? " = " : "=");
    print_literal(out, param, '\'');
}

static void print_out(wick_text *out, const wick_signature *sig, bool types)
{
    bool nullable = n_tensor_outputs(sig) == 1;
    for (int i = 0; nullable && i < sig->n_outputs; i++)
        if (sig->outputs[i].kind == WICK_KIND_TENSOR) nullable = sig->outputs[i].optional;
    wick_text_add(out, "out");
    if (types) {
        wick_text_add(out, ": ");
        print_result_type(out, sig, true);
        if (!nullable) wick_text_add(out, " | None");
    }
    wick_text_add(out, types ? " = None" : "=None");
}

static void print_python(wick_text *out, const wick_signature *sig, bool types)
{
    const char *before = "", *star = "*, ";
    wick_text_printf(out, "%s(", sig->name);
    for (int i = 0; i < sig->n_inputs; i++) {
        wick_text_add(out, before);
        print_python_input(out, &sig->inputs[i], types);
        before = ", ";
    }
    if (takes_out(sig)) {
        wick_text_printf(out, "%s%s", before, star);
        print_out(out, sig, types);
        before = ", ";
        star = "";
    }
    for (int i = 0; i < sig->n_outputs; i++) {
        if (!sig->outputs[i].optional) continue;
        wick_text_printf(out, "%s%swant_%s%s", before, star, sig->outputs[i].name,
                         types ? ": bool = True" : "=True");
        before = ", ";
        star = "";
    }
    wick_text_add(out, ")");
}

void wick_signature_print_python(wick_text *out, const wick_signature *sig)
{
    print_python(out, sig, false);
}

void wick_signature_print_stub(wick_text *out, const wick_signature *sig)
{
    wick_text_add(out, "def ");
    print_python(out, sig, true);
    wick_text_add(out, " -> ");
    print_result_type(out, sig, false);
    wick_text_add(out, ": ...");
}
