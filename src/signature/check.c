/* check.c -- what the grammar cannot say: names that C and Python can bear, types and dims that a
 * call determines
 *
 * After this, every call that fits the inputs' shapes has exactly one value for each dim that a
 * result needs. Which dims are determined is found as solve.c will find them, with "known" in place
 * of values.
 */
#include "signature_internal.h"

#include <string.h>

/* ---- names ---- */

/* Keywords of C11 and of gcc, what <stdbool.h> and <stddef.h> define, and the types that prototypes
 * are written in. */
static const char *const c_words[] = {
    "asm",      "auto",   "bool",     "break",    "case",    "char",    "const",   "continue",
    "default",  "do",     "double",   "else",     "enum",    "extern",  "false",   "float",
    "for",      "goto",   "if",       "inline",   "int",     "int16_t", "int32_t", "int64_t",
    "int8_t",   "long",   "register", "restrict", "return",  "short",   "signed",  "sizeof",
    "static",   "struct", "switch",   "true",     "typedef", "typeof",  "uint8_t", "union",
    "unsigned", "void",   "volatile", "while",    "NULL",
};

/* Keywords of Python, and two words that torch's schema parser does not take as names. */
static const char *const python_words[] = {
    "False",  "None", "True",  "and",      "as",       "assert",   "async",   "await",
    "class",  "def",  "del",   "elif",     "from",     "except",   "finally", "global",
    "import", "in",   "is",    "lambda",   "not",      "or",       "pass",    "raise",
    "try",    "with", "yield", "nonlocal", "Ellipsis", "NoneType",
};

static bool is_among(const char *name, const char *const *words, int n)
{
    for (int i = 0; i < n; i++)
        if (strcmp(name, words[i]) == 0) return true;
    return false;
}

static wick_status check_c_name(wick_ctx *ctx, const wick_signature *sig, const char *name,
                                int offset)
{
    if (is_among(name, c_words, WICK_COUNT(c_words)))
        return wick_signature_fail(ctx, sig->text, offset,
                                   "%s is a word of C and cannot be a name%s", name,
                                   strcmp(name, "do") == 0 ? ": what it is the gradient of needs "
                                                             "another name than o"
                                                           : "");
    if (strncmp(name, "wick_", 5) == 0 || strncmp(name, "WICK_", 5) == 0 ||
        strncmp(name, "__", 2) == 0)
        return wick_signature_fail(ctx, sig->text, offset, "names beginning with %.*s are taken",
                                   name[0] == '_' ? 2 : 5, name);
    if (strcmp(name, "ctx") == 0)
        return wick_signature_fail(ctx, sig->text, offset, "ctx is the name of the context");
    return WICK_OK;
}

static int n_params(const wick_signature *sig)
{
    return sig->n_inputs + sig->n_outputs + sig->n_scratch;
}

static int find_dim(const wick_signature *sig, const char *name)
{
    for (int i = 0; i < sig->n_dims; i++)
        if (strcmp(sig->dims[i].name, name) == 0) return i;
    return -1;
}

/* An int input named like a dim gives it its value; any other name is used once. */
static wick_status link_dim(wick_ctx *ctx, wick_signature *sig, int index, int dim)
{
    wick_param *param = &sig->inputs[index];
    if (index >= sig->n_inputs || param->kind != WICK_KIND_INT)
        return wick_signature_fail(ctx, sig->text, param->offset, "%s is also the name of a dim",
                                   param->name);
    if (sig->dims[dim].leading)
        return wick_signature_fail(ctx, sig->text, param->offset,
                                   "*%s is any number of dims, so an int cannot give it",
                                   param->name);
    param->gives_dim = dim;
    sig->dims[dim].from_int = index;
    return WICK_OK;
}

static wick_status check_param_name(wick_ctx *ctx, wick_signature *sig, int index)
{
    const wick_param *param = &sig->inputs[index]; /* inputs, outputs and scratch are one array */
    int dim = find_dim(sig, param->name);
    WICK_TRY(check_c_name(ctx, sig, param->name, param->offset));
    if (index < sig->n_inputs && is_among(param->name, python_words, WICK_COUNT(python_words)))
        return wick_signature_fail(ctx, sig->text, param->offset,
                                   "%s is a word of Python and cannot be a name", param->name);
    for (int i = 0; i < index; i++)
        if (strcmp(sig->inputs[i].name, param->name) == 0)
            return wick_signature_fail(ctx, sig->text, param->offset, "the name %s is used twice",
                                       param->name);
    for (int i = 0; i < sig->n_variables; i++)
        if (strcmp(sig->variables[i].name, param->name) == 0)
            return wick_signature_fail(ctx, sig->text, param->offset,
                                       "%s is also the name of a type", param->name);
    if (dim >= 0) WICK_TRY(link_dim(ctx, sig, index, dim));
    return WICK_OK;
}

/* An optional output `mask` adds the keyword `want_mask` in Python. */
static wick_status check_wanted_names(wick_ctx *ctx, const wick_signature *sig)
{
    for (int i = 0; i < sig->n_outputs; i++)
        for (int j = 0; j < sig->n_inputs && sig->outputs[i].optional; j++)
            if (strncmp(sig->inputs[j].name, "want_", 5) == 0 &&
                strcmp(sig->inputs[j].name + 5, sig->outputs[i].name) == 0)
                return wick_signature_fail(ctx, sig->text, sig->inputs[j].offset,
                                           "%s is the keyword that asks for the optional result %s",
                                           sig->inputs[j].name, sig->outputs[i].name);
    return WICK_OK;
}

static wick_status check_names(wick_ctx *ctx, wick_signature *sig)
{
    if (is_among(sig->name, python_words, WICK_COUNT(python_words)))
        return wick_signature_fail(ctx, sig->text, 0,
                                   "%s is a word of Python and cannot name an operator", sig->name);
    for (int i = 0; i < sig->n_dims; i++) {
        const wick_dim *dim = &sig->dims[i];
        WICK_TRY(check_c_name(ctx, sig, dim->name, dim->offset));
        for (int j = 0; j < sig->n_variables; j++)
            if (strcmp(sig->variables[j].name, dim->name) == 0)
                return wick_signature_fail(ctx, sig->text, dim->offset,
                                           "%s is both a dim and a type", dim->name);
    }
    for (int i = 0; i < sig->n_variables; i++)
        WICK_TRY(check_c_name(ctx, sig, sig->variables[i].name, sig->variables[i].offset));
    for (int i = 0; i < n_params(sig); i++)
        WICK_TRY(check_param_name(ctx, sig, i));
    return check_wanted_names(ctx, sig);
}

/* ---- types ---- */

static bool has_variable(const wick_param *param, int variable)
{
    return param->kind == WICK_KIND_TENSOR && param->elem.kind == WICK_ELEM_VARIABLE &&
           param->elem.variable == variable;
}

/* T is the first variable wherever A appears, so that whoever sees A need not search. */
static void put_first(wick_signature *sig, int variable)
{
    wick_variable moved = sig->variables[variable];
    memmove(sig->variables + 1, sig->variables, (size_t)variable * sizeof moved);
    sig->variables[0] = moved;
    for (int i = 0; i < n_params(sig); i++) {
        int *v = &sig->inputs[i].elem.variable;
        if (*v == variable)
            *v = 0;
        else if (*v < variable)
            (*v)++;
    }
}

static wick_status check_accumulate(wick_ctx *ctx, wick_signature *sig)
{
    const wick_param *first = NULL;
    for (int i = n_params(sig) - 1; i >= 0; i--)
        if (sig->inputs[i].kind == WICK_KIND_TENSOR &&
            sig->inputs[i].elem.kind == WICK_ELEM_ACCUMULATE)
            first = &sig->inputs[i];
    if (!first) return WICK_OK;
    int variable = first->elem.variable, dim = find_dim(sig, "A");
    if (dim >= 0)
        return wick_signature_fail(ctx, sig->text, sig->dims[dim].offset,
                                   "A is both a dim and a type");
    for (int i = 0; i < n_params(sig); i++)
        if (strcmp(sig->inputs[i].name, "A") == 0)
            return wick_signature_fail(ctx, sig->text, sig->inputs[i].offset,
                                       "A is also the name of a type");
    for (int i = 0; i < n_params(sig); i++) {
        if (!has_variable(&sig->inputs[i], variable)) continue;
        put_first(sig, variable);
        return WICK_OK;
    }
    return wick_signature_fail(ctx, sig->text, first->offset,
                               "%s has type A, the accumulation type of T, but nothing has type T",
                               first->name);
}

/* An output's type is needed even when every optional input is absent. */
static bool is_output_type(const wick_signature *sig, int variable)
{
    for (int i = 0; i < sig->n_outputs; i++) {
        const wick_param *p = &sig->outputs[i];
        bool typed = p->kind == WICK_KIND_TENSOR && p->elem.kind != WICK_ELEM_FIXED;
        if (typed && p->elem.variable == variable) return true;
    }
    return false;
}

/* A call tells the element types by its tensors, so one that cannot be absent must carry each
 * variable that an output has. One that only optional inputs have is at its first type when all of
 * them are absent. */
static wick_status check_variables(wick_ctx *ctx, const wick_signature *sig)
{
    for (int i = 0; i < sig->n_variables; i++) {
        const wick_param *absent = NULL;
        bool told = false;
        for (int j = 0; j < sig->n_inputs; j++) {
            if (!has_variable(&sig->inputs[j], i)) continue;
            told |= !sig->inputs[j].optional;
            absent = &sig->inputs[j];
        }
        if (told || (absent && !is_output_type(sig, i))) continue;
        if (absent)
            return wick_signature_fail(ctx, sig->text, absent->offset,
                                       "%s can be told only from %s, which may be absent",
                                       sig->variables[i].name, absent->name);
        return wick_signature_fail(
            ctx, sig->text, sig->variables[i].offset,
            "no input has type %s, so a call cannot tell it: name the element type itself",
            sig->variables[i].name);
    }
    return WICK_OK;
}

/* ---- defaults ---- */

static wick_status check_defaults(wick_ctx *ctx, wick_signature *sig)
{
    const wick_param *before = NULL;
    for (int i = 0; i < sig->n_inputs; i++) {
        const wick_param *param = &sig->inputs[i];
        if (before && !param->has_default && !param->optional)
            return wick_signature_fail(ctx, sig->text, param->offset,
                                       "%s has no default, but follows %s, which has one",
                                       param->name, before->name);
        if (param->has_default) before = param;
    }
    for (int i = sig->n_inputs - 1; i >= 0; i--) {
        wick_param *param = &sig->inputs[i];
        if (!param->has_default && !param->optional) break;
        param->has_default = true; /* nothing required comes after it */
    }
    return WICK_OK;
}

/* ---- dims ---- */

/* What the sizes of one input tell, given what is known already. True when that was something new.
 */
static bool learn(const wick_param *param, bool *known)
{
    bool news = false;
    if (param->leading >= 0 && !known[param->leading]) known[param->leading] = news = true;
    for (int i = 0; i < param->n_sizes; i++) {
        int name = wick_size_unknown(&param->sizes[i], known);
        if (name >= 0) known[name] = news = true;
    }
    return news;
}

static void learn_required(const wick_signature *sig, bool *known)
{
    for (int i = 0; i < sig->n_dims; i++)
        known[i] = sig->dims[i].from_int >= 0;
    for (bool news = true; news;) {
        news = false;
        for (int i = 0; i < sig->n_inputs; i++)
            if (!sig->inputs[i].optional) news |= learn(&sig->inputs[i], known);
    }
}

/* The first name of a size that is not known, or -1. */
static int first_unknown(const wick_size *size, const bool *known)
{
    for (int t = 0; t < size->n_terms; t++)
        for (int i = 0; i < size->terms[t].n_names; i++)
            if (!known[size->terms[t].names[i]]) return size->terms[t].names[i];
    return -1;
}

static wick_status check_input_dims(wick_ctx *ctx, const wick_signature *sig,
                                    const wick_param *param, const bool *known)
{
    for (int i = 0; i < param->n_sizes; i++) {
        const wick_size *size = &param->sizes[i];
        int name = first_unknown(size, known);
        if (name >= 0)
            return wick_signature_fail(
                ctx, sig->text, size->offset,
                "%s cannot be told from %s: let it stand alone in an input%s, or add an argument "
                "%s: int",
                sig->dims[name].name, size->text, param->optional ? " that is never absent" : "",
                sig->dims[name].name);
    }
    return WICK_OK;
}

static const wick_param *optional_with_dim(const wick_signature *sig, int dim)
{
    for (int i = 0; i < sig->n_inputs; i++) {
        bool known[WICK_MAX_NAMED];
        memset(known, true, sizeof known);
        known[dim] = false;
        if (sig->inputs[i].leading == dim) return &sig->inputs[i];
        for (int k = 0; k < sig->inputs[i].n_sizes; k++)
            if (first_unknown(&sig->inputs[i].sizes[k], known) >= 0) return &sig->inputs[i];
    }
    return NULL;
}

static wick_status unknown_result_dim(wick_ctx *ctx, const wick_signature *sig,
                                      const wick_param *param, int dim, int offset)
{
    const char *name = sig->dims[dim].name;
    const wick_param *optional = optional_with_dim(sig, dim);
    if (optional)
        return wick_signature_fail(
            ctx, sig->text, offset,
            "%s needs %s, which is known only from %s, and that may be absent", param->name, name,
            optional->name);
    if (sig->dims[dim].leading)
        return wick_signature_fail(ctx, sig->text, offset, "%s needs *%s, but no input has it",
                                   param->name, name);
    return wick_signature_fail(ctx, sig->text, offset,
                               "%s needs %s, but no input has it: add an argument %s: int",
                               param->name, name, name);
}

static wick_status check_dims(wick_ctx *ctx, const wick_signature *sig)
{
    bool known[WICK_MAX_NAMED];
    learn_required(sig, known);
    for (int i = 0; i < sig->n_inputs; i++) {
        bool with[WICK_MAX_NAMED]; /* what is known when this one is present */
        memcpy(with, known, sizeof with);
        while (sig->inputs[i].optional && learn(&sig->inputs[i], with)) {
        }
        WICK_TRY(check_input_dims(ctx, sig, &sig->inputs[i], with));
    }
    for (int i = sig->n_inputs; i < n_params(sig); i++) {
        const wick_param *param = &sig->inputs[i];
        if (param->leading >= 0 && !known[param->leading])
            return unknown_result_dim(ctx, sig, param, param->leading, param->offset);
        for (int k = 0; k < param->n_sizes; k++) {
            int name = first_unknown(&param->sizes[k], known);
            if (name >= 0) return unknown_result_dim(ctx, sig, param, name, param->sizes[k].offset);
        }
    }
    return WICK_OK;
}

wick_status wick_signature_check(wick_ctx *ctx, wick_signature *sig)
{
    WICK_TRY(check_names(ctx, sig));
    WICK_TRY(check_accumulate(ctx, sig));
    WICK_TRY(check_variables(ctx, sig));
    WICK_TRY(check_defaults(ctx, sig));
    return check_dims(ctx, sig);
}
