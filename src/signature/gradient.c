/* gradient.c -- the names that tie a backward operator to its forward
 *
 *   foo(x: T[N], s: float) -> y: T[N]
 *   foo_backward(dy: T[N], x: T[N], s: float) -> dx: T[N]
 *                 │          └───┴─ saved from the call, and nothing else is
 *                 └─ the gradient of y                          dx: the gradient of x
 */
#include "signature.h"

#include <string.h>

static int find(const wick_param *params, int n, const char *name)
{
    for (int i = 0; i < n; i++)
        if (!strcmp(params[i].name, name)) return i;
    return -1;
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

/* A number stays a number and a tensor a tensor; of a tensor, the shape alone may be asked for. */
static bool same_kind(const wick_param *theirs, const wick_param *ours)
{
    if (ours->kind == WICK_KIND_SHAPE)
        return theirs->kind == WICK_KIND_TENSOR || theirs->kind == WICK_KIND_SHAPE;
    return theirs->kind == ours->kind;
}

static wick_status match_input(wick_ctx *ctx, const wick_signature *forward,
                               const wick_signature *backward, const wick_param *p,
                               wick_gradient_argument *out)
{
    int i = find(forward->inputs, forward->n_inputs, p->name);
    int o = find(forward->outputs, forward->n_outputs, p->name);
    int d = p->name[0] == 'd' ? find(forward->outputs, forward->n_outputs, p->name + 1) : -1;
    const wick_param *from = i >= 0 ? &forward->inputs[i] : o >= 0 ? &forward->outputs[o] : NULL;

    if (from) {
        if (!same_kind(from, p))
            return fail_match(ctx, forward, backward, p->name, "is of another kind in the forward");
        if (from->optional && !p->optional && p->kind == WICK_KIND_TENSOR)
            return fail_match(ctx, forward, backward, p->name,
                              "may be absent in the forward: write it with a ?");
        wick_gradient_source saved = i >= 0 ? WICK_FROM_INPUT : WICK_FROM_OUTPUT;
        bool shape = i >= 0 && p->kind == WICK_KIND_SHAPE && from->kind == WICK_KIND_TENSOR;
        *out = (wick_gradient_argument){shape ? WICK_FROM_SHAPE : saved, i >= 0 ? i : o, 0};
        return WICK_OK;
    }
    if (d >= 0 && p->kind == WICK_KIND_TENSOR && forward->outputs[d].kind == WICK_KIND_TENSOR) {
        *out = (wick_gradient_argument){WICK_FROM_GRADIENT, d, 0};
        return WICK_OK;
    }
    if (p->kind == WICK_KIND_INT && find_size(forward, p->name, out)) return WICK_OK;
    return fail_match(
        ctx, forward, backward, p->name,
        "is neither an input nor an output of the forward, nor d and the name of an output");
}

static wick_status match_output(wick_ctx *ctx, const wick_signature *forward,
                                const wick_signature *backward, const wick_param *p, int *out)
{
    *out = p->name[0] == 'd' ? find(forward->inputs, forward->n_inputs, p->name + 1) : -1;
    if (p->kind == WICK_KIND_TENSOR && *out >= 0 && forward->inputs[*out].kind == WICK_KIND_TENSOR)
        return WICK_OK;
    return fail_match(ctx, forward, backward, p->name,
                      "is not d and the name of a tensor that the forward takes");
}

wick_status wick_gradient_match(wick_ctx *ctx, const wick_signature *forward,
                                const wick_signature *backward, wick_gradient *out)
{
    for (int i = 0; i < backward->n_inputs; i++) {
        if (backward->inputs[i].in_place)
            return fail_match(ctx, forward, backward, backward->inputs[i].name,
                              "is written in place, which a backward may not");
        WICK_TRY(match_input(ctx, forward, backward, &backward->inputs[i], &out->arguments[i]));
    }
    for (int i = 0; i < backward->n_outputs; i++)
        WICK_TRY(match_output(ctx, forward, backward, &backward->outputs[i], &out->gives[i]));
    return WICK_OK;
}
