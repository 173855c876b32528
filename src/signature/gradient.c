/* gradient.c -- the names that tie a backward operator to its forward
 *
 *   foo(x: T[N], s: float) -> y: T[N]
 *   foo_backward(dy: T[N], x: T[N], s: float) -> dx: T[N]
 *                 │          └───┴─ saved from the call, and nothing else is
 *                 └─ the gradient of y                          dx: the gradient of x
 */
#include "signature.h"

#include <string.h>

static const wick_param *find(const wick_param *params, int n, const char *name)
{
    for (int i = 0; i < n; i++)
        if (!strcmp(params[i].name, name)) return &params[i];
    return NULL;
}

static const wick_param *find_input(const wick_signature *sig, const char *name)
{
    return find(sig->inputs, sig->n_inputs, name);
}

static const wick_param *find_output(const wick_signature *sig, const char *name)
{
    return find(sig->outputs, sig->n_outputs, name);
}

static wick_status fail_match(wick_ctx *ctx, const wick_signature *forward,
                              const wick_signature *backward, const char *name, const char *what)
{
    wick_text text = {0};
    wick_signature_print_call(&text, forward);
    wick_text_add(&text, "\n    ");
    wick_signature_print_call(&text, backward);
    wick_status s = wick_fail(ctx, WICK_EINVAL, "%s: %s %s\n    %s", backward->name, name, what,
                              wick_text_str(&text));
    wick_text_free(&text);
    return s;
}

/* `S: int` in a backward, named after a dim of the forward: where a call shows its size. */
static bool find_size(const wick_signature *forward, const char *name, wick_gradient_argument *out)
{
    for (int i = 0; i < forward->n_inputs; i++) {
        const wick_param *p = &forward->inputs[i];
        bool sized = (p->kind == WICK_KIND_TENSOR && !p->optional) || p->kind == WICK_KIND_SHAPE;
        for (int d = 0; sized && d < p->n_sizes; d++) {
            const wick_size *size = &p->sizes[d];
            if (!size->alone || strcmp(forward->dims[size->terms[0].names[0]].name, name) != 0)
                continue;
            *out = (wick_gradient_argument){WICK_FROM_SIZE, i, d - p->n_sizes};
            return true;
        }
    }
    return false;
}

/* A number stays a number and a tensor a tensor; of an input, the shape alone may be asked for. */
static wick_status match_saved(wick_ctx *ctx, const wick_signature *forward,
                               const wick_signature *backward, const wick_param *p,
                               const wick_param *from, bool shape)
{
    if (from->kind != p->kind && !shape)
        return fail_match(ctx, forward, backward, p->name, "is of another kind in the forward");
    if (from->optional && shape)
        return fail_match(ctx, forward, backward, p->name,
                          "may be absent in the forward, and has no shape then");
    if (from->optional && !p->optional)
        return fail_match(ctx, forward, backward, p->name,
                          "may be absent in the forward: write it with a ?");
    return WICK_OK;
}

static wick_status match_input(wick_ctx *ctx, const wick_signature *forward,
                               const wick_signature *backward, const wick_param *p,
                               wick_gradient_argument *out)
{
    const wick_param *in = find_input(forward, p->name), *saved = find_output(forward, p->name);
    const wick_param *of = p->name[0] == 'd' ? find_output(forward, p->name + 1) : NULL;

    if (in) {
        bool shape = p->kind == WICK_KIND_SHAPE && in->kind == WICK_KIND_TENSOR;
        out->source = shape ? WICK_FROM_SHAPE : WICK_FROM_INPUT;
        out->index = (int)(in - forward->inputs);
        return match_saved(ctx, forward, backward, p, in, shape);
    }
    if (saved) {
        out->source = WICK_FROM_OUTPUT;
        out->index = (int)(saved - forward->outputs);
        return match_saved(ctx, forward, backward, p, saved, false);
    }
    if (of && p->kind == WICK_KIND_TENSOR && of->kind == WICK_KIND_TENSOR) {
        out->source = WICK_FROM_GRADIENT;
        out->index = (int)(of - forward->outputs);
        if (!of->optional || p->optional) return WICK_OK;
        return fail_match(ctx, forward, backward, p->name,
                          "may be absent, as its output may in the forward: write it with a ?");
    }
    if (p->kind == WICK_KIND_INT && find_size(forward, p->name, out)) return WICK_OK;
    return fail_match(
        ctx, forward, backward, p->name,
        "is neither an input nor an output of the forward, nor d and the name of an output");
}

static wick_status match_output(wick_ctx *ctx, const wick_signature *forward,
                                const wick_signature *backward, const wick_param *p, int *out)
{
    const wick_param *in = p->name[0] == 'd' ? find_input(forward, p->name + 1) : NULL;
    if (!in || p->kind != WICK_KIND_TENSOR || in->kind != WICK_KIND_TENSOR)
        return fail_match(ctx, forward, backward, p->name,
                          "is not d and the name of a tensor that the forward takes");
    *out = (int)(in - forward->inputs);
    return WICK_OK;
}

wick_status wick_gradient_match(wick_ctx *ctx, const wick_signature *forward,
                                const wick_signature *backward, wick_gradient *out)
{
    for (int i = 0; i < backward->n_inputs; i++) {
        if (backward->inputs[i].in_place)
            return fail_match(ctx, forward, backward, backward->inputs[i].name,
                              "is written in place, which a backward may not");
        out->arguments[i].axis = 0;
        WICK_TRY(match_input(ctx, forward, backward, &backward->inputs[i], &out->arguments[i]));
    }
    for (int i = 0; i < backward->n_outputs; i++)
        WICK_TRY(match_output(ctx, forward, backward, &backward->outputs[i], &out->gives[i]));
    return WICK_OK;
}
