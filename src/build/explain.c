/* explain.c -- a signature in words, line by line: what is taken and returned, what the dims are
 *
 *   takes    x            T[*N, C]             tensor of f32 or f64
 *   dim      C            x.shape[-1], bias.shape[0]
 *   gradient scale_backward                    saves x
 */
#include "builder.h"

#include <string.h>

/* ---- arguments and results ---- */

static void add_default(wick_text *out, const wick_param *param)
{
    switch (param->kind) {
    case WICK_KIND_INT:
        wick_text_printf(out, ", %lld if left out", (long long)param->default_int);
        break;
    case WICK_KIND_FLOAT: wick_text_printf(out, ", %g if left out", param->default_float); break;
    case WICK_KIND_BOOL:
        wick_text_printf(out, ", %s if left out", param->default_int ? "true" : "false");
        break;
    case WICK_KIND_STR: wick_text_printf(out, ", '%s' if left out", param->default_str); break;
    case WICK_KIND_CHOICE:
        wick_text_printf(out, ", '%s' if left out", param->choices[param->default_int]);
        break;
    case WICK_KIND_TENSOR:
    case WICK_KIND_SHAPE: wick_text_add(out, ", may be left out"); break;
    }
}

static void add_tensor(wick_text *out, const wick_signature *sig, const wick_param *param)
{
    wick_text_add(out, " of ");
    wick_elem_print_types(out, sig, &param->elem);
    if (param->in_place) wick_text_add(out, ", written in place");
    if (param->strided) wick_text_add(out, ", with its strides");
}

static void add_param(wick_text *out, const wick_signature *sig, const wick_param *param,
                      const char *role)
{
    wick_text type = {0};
    wick_param_print_type(&type, sig, param);
    wick_text_printf(out, "  %-8s %-12s %-20s", role, param->name, wick_text_str(&type));
    wick_text_free(&type);
    if (param->kind == WICK_KIND_TENSOR) {
        wick_text_add(out, " tensor");
        add_tensor(out, sig, param);
    } else if (param->kind == WICK_KIND_SHAPE) {
        wick_text_add(out, " only its sizes");
    } else {
        wick_text_add(out, " a plain value");
    }
    if (param->optional) wick_text_add(out, ", optional");
    if (param->has_default) add_default(out, param);
    wick_text_add(out, "\n");
}

/* ---- dims ---- */

/* "x.shape[-1]": places are counted from the end where leading dims stand in front. */
static void add_place(wick_text *out, const wick_param *param, int size, const char *comma)
{
    int at = param->leading >= 0 ? size - param->n_sizes : size;
    wick_text_printf(out, "%s%s.shape[%d]", comma, param->name, at);
}

static bool names_it(const wick_size *size, int dim)
{
    for (int t = 0; t < size->n_terms; t++) {
        for (int i = 0; i < size->terms[t].n_names; i++) {
            if (size->terms[t].names[i] == dim) return true;
        }
    }
    return false;
}

/* Where the dim stands by itself; false when it does nowhere. */
static bool add_places(wick_text *out, const wick_signature *sig, int dim)
{
    const char *comma = "";
    for (int i = 0; i < sig->n_inputs + sig->n_outputs; i++) {
        const wick_param *param = &sig->inputs[i]; /* the outputs follow */
        for (int k = 0; param->kind <= WICK_KIND_SHAPE && k < param->n_sizes; k++) {
            if (!param->sizes[k].alone || !names_it(&param->sizes[k], dim)) continue;
            add_place(out, param, k, comma);
            comma = ", ";
        }
    }
    return *comma != '\0';
}

/* A dim that stands nowhere by itself is solved from one of these. */
static void add_sums(wick_text *out, const wick_signature *sig, int dim)
{
    for (int i = 0; i < sig->n_inputs; i++) {
        const wick_param *param = &sig->inputs[i];
        for (int k = 0; param->kind <= WICK_KIND_SHAPE && k < param->n_sizes; k++) {
            if (!names_it(&param->sizes[k], dim)) continue;
            wick_text_printf(out, "solved from %s = ", param->sizes[k].text);
            add_place(out, param, k, "");
            return;
        }
    }
}

static void add_leading(wick_text *out, const wick_signature *sig, int dim)
{
    const char *comma = "";
    wick_text_add(out, "the leading dims of ");
    for (int i = 0; i < sig->n_inputs + sig->n_outputs; i++) {
        if (sig->inputs[i].kind > WICK_KIND_SHAPE || sig->inputs[i].leading != dim) continue;
        wick_text_printf(out, "%s%s", comma, sig->inputs[i].name);
        comma = ", ";
    }
    wick_text_add(out, ", any number of them; in C their product");
}

static void add_dim(wick_text *out, const wick_signature *sig, int dim)
{
    const wick_dim *d = &sig->dims[dim];
    wick_text_printf(out, "  %-8s %-12s ", "dim", d->name);
    if (d->leading) {
        add_leading(out, sig, dim);
    } else if (d->from_int >= 0) {
        wick_text_printf(out, "the value of %s", sig->inputs[d->from_int].name);
    } else if (!add_places(out, sig, dim)) {
        add_sums(out, sig, dim);
    }
    wick_text_add(out, d->batch ? "; each is computed by itself\n" : "\n");
}

/* ---- the whole ---- */

static void add_autocast(wick_text *out, const wick_signature *sig)
{
    static const char *const meanings[] = {
        [WICK_AUTOCAST_KEEP] = "keep: the types that come are used",
        [WICK_AUTOCAST_F32] = "f32: floats of fewer bits arrive as f32",
        [WICK_AUTOCAST_FOLLOW] = "follow: floats arrive as autocast's type"};
    if (!sig->autocast_given) return;
    wick_text_printf(out, "  %-8s %s\n", "autocast", meanings[sig->autocast]);
}

void wick_explain_signature(wick_text *out, const wick_signature *sig)
{
    wick_signature_print_call(out, sig);
    wick_text_add(out, "\n");
    for (int i = 0; i < sig->n_inputs; i++) {
        add_param(out, sig, &sig->inputs[i], "takes");
    }
    for (int i = 0; i < sig->n_outputs; i++) {
        add_param(out, sig, &sig->outputs[i], "returns");
    }
    for (int i = 0; i < sig->n_scratch; i++) {
        add_param(out, sig, &sig->scratch[i], "scratch");
    }
    for (int i = 0; i < sig->n_dims; i++) {
        add_dim(out, sig, i);
    }
    add_autocast(out, sig);
}

/* What a backward pass keeps of the forward call. */
static void add_saved(wick_text *out, const wick_signature *forward, const wick_signature *backward,
                      const wick_gradient *gradient)
{
    const char *comma = "";
    wick_text_add(out, "saves ");
    for (int i = 0; i < backward->n_inputs; i++) {
        const wick_gradient_argument *a = &gradient->arguments[i];
        bool output = a->source == WICK_FROM_OUTPUT;
        const wick_param *p = output ? &forward->outputs[a->index] : &forward->inputs[a->index];
        if (!output && a->source != WICK_FROM_INPUT) continue;
        if (p->kind != WICK_KIND_TENSOR) continue;
        wick_text_printf(out, "%s%s", comma, p->name);
        comma = ", ";
    }
    wick_text_add(out, *comma ? "" : "no tensor");
}

wick_status wick_explain_gradient(wick_ctx *ctx, const wick_op_entry *forward,
                                  const wick_op_entry *backward, wick_text *out)
{
    wick_arena arena = {0};
    wick_signature *sigs[2] = {NULL, NULL};
    wick_gradient gradient;
    wick_status status =
        wick_signature_parse(ctx, &arena, forward->name, forward->signature, &sigs[0]);
    if (!status)
        status = wick_signature_parse(ctx, &arena, backward->name, backward->signature, &sigs[1]);
    if (!status) status = wick_gradient_match(ctx, sigs[0], sigs[1], &gradient);
    if (!status) {
        wick_text_printf(out, "  %-8s %-33s ", "gradient", backward->name);
        add_saved(out, sigs[0], sigs[1], &gradient);
        wick_text_add(out, "\n");
    }
    wick_arena_free(&arena);
    return status;
}
