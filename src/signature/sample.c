/* sample.c -- inputs for tests: a value for every dim and scalar, such that the signature fits
 *
 * Every size of a signature is a formula over the names, so a choice of the names gives all shapes;
 * it fails only where a difference becomes negative, a product too large, or a 0 hides a name from
 * the solver. A difference is repaired by larger or smaller names; else another choice is tried,
 * from a slightly larger range. What is handed out has passed wick_signature_bind.
 */
#include "signature_internal.h"

#include <string.h>

enum { MAX_LEADING = WICK_SAMPLE_LEADING, ATTEMPTS = 64, REPAIRS = 200, DEFAULT_BUDGET = 1 << 20 };

typedef struct choice {
    int64_t value[WICK_MAX_NAMED]; /* of a `*N`: the product of its dims */
    int n_leading[WICK_MAX_NAMED];
    int64_t leading[WICK_MAX_NAMED][MAX_LEADING];
} choice;

typedef struct sampler {
    const wick_signature *sig;
    wick_sample_kind kind;
    int64_t budget;
    uint64_t state;
    int attempt;
} sampler;

/* splitmix64: any seed is good, and the sequence is the same on every machine. */
static uint64_t next(sampler *s)
{
    uint64_t z = s->state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static int64_t between(sampler *s, int64_t low, int64_t high)
{
    return low + (int64_t)(next(s) % (uint64_t)(high - low + 1));
}

/* ---- one choice ---- */

static int64_t choose_size(sampler *s)
{
    static const int64_t odd[] = {1,  2,  3,  5,  7,  8,  9,  13,  15,  16, 17,
                                  31, 32, 33, 61, 63, 64, 65, 127, 129, 257};
    switch (s->kind) {
    case WICK_SAMPLE_ONE: return 1 + s->attempt;
    case WICK_SAMPLE_ODD: return odd[between(s, 0, WICK_COUNT(odd) - 1)] + s->attempt / 8;
    case WICK_SAMPLE_LARGE: return between(s, 4, 11); /* a weight */
    default: return between(s, 2, 7 + ((int64_t)1 << (s->attempt / 4)));
    }
}

static void multiply_leading(choice *c, int name)
{
    c->value[name] = wick_shape_numel(c->n_leading[name], c->leading[name]);
}

/* The default of a name that an int argument gives: a padding, a dilation. -1 of others. */
static int64_t usual_value(const wick_signature *sig, int name)
{
    for (int i = 0; i < sig->n_inputs; i++)
        if (sig->inputs[i].gives_dim == name && sig->inputs[i].kind == WICK_KIND_INT &&
            sig->inputs[i].has_default)
            return sig->inputs[i].default_int;
    return -1;
}

static int64_t choose_value(sampler *s, int name)
{
    int64_t usual = usual_value(s->sig, name);
    if (usual < 0) return choose_size(s);
    bool plain = s->kind == WICK_SAMPLE_ONE || s->kind == WICK_SAMPLE_LARGE;
    return plain || between(s, 0, 1) ? usual : between(s, 1, 4);
}

static void choose_names(sampler *s, choice *c)
{
    memset(c, 0, sizeof *c);
    for (int i = 0; i < s->sig->n_dims; i++) {
        c->value[i] = choose_value(s, i);
        if (!s->sig->dims[i].leading) continue;
        bool single = s->kind == WICK_SAMPLE_ONE || s->kind == WICK_SAMPLE_LARGE;
        c->n_leading[i] = single ? 1 : (int)between(s, 0, MAX_LEADING);
        for (int k = 0; k < c->n_leading[i]; k++)
            c->leading[i][k] = k == 0 ? c->value[i] : between(s, 1, 4);
        multiply_leading(c, i);
    }
    /* Where no name can be 0 (S-1 alone, say), an ordinary choice has to do. */
    if (s->kind == WICK_SAMPLE_EMPTY && s->sig->n_dims > 0 && s->attempt < ATTEMPTS / 2) {
        int i = (int)((next(s) + (uint64_t)s->attempt) % (uint64_t)s->sig->n_dims);
        if (s->sig->dims[i].leading && c->n_leading[i] == 0) c->n_leading[i] = 1;
        c->leading[i][0] = c->value[i] = 0;
    }
}

static bool shape_of(const wick_param *param, const choice *c, int *dim, int64_t *size)
{
    int n = param->leading >= 0 ? c->n_leading[param->leading] : 0;
    if (n + param->n_sizes > WICK_MAX_RANK) return false;
    for (int i = 0; i < n; i++)
        size[i] = c->leading[param->leading][i];
    for (int i = 0; i < param->n_sizes; i++)
        if (!wick_size_evaluate(&param->sizes[i], c->value, &size[n + i]) || size[n + i] < 0)
            return false;
    *dim = n + param->n_sizes;
    return true;
}

/* Elements of the largest tensor, scratch included; -1 when the choice does not fit. */
static int64_t largest(const wick_signature *sig, const choice *c)
{
    int64_t most = 0;
    for (int i = 0; i < sig->n_inputs + sig->n_outputs + sig->n_scratch; i++) {
        const wick_param *param =
            &sig->inputs[i]; /* outputs and scratch follow in the same array */
        int64_t size[WICK_MAX_RANK], numel;
        int dim;
        if (param->kind > WICK_KIND_SHAPE) continue;
        if (!shape_of(param, c, &dim, size)) return -1;
        numel = wick_shape_numel(dim, size);
        if (numel < 0) return -1;
        if (numel > most) most = numel;
    }
    return most;
}

/* What is missing where differences are negative, over all sizes. */
static int64_t missing(const wick_signature *sig, const choice *c)
{
    int64_t sum = 0;
    for (int i = 0; i < sig->n_inputs + sig->n_outputs + sig->n_scratch; i++) {
        const wick_param *param = &sig->inputs[i];
        for (int k = 0; param->kind <= WICK_KIND_SHAPE && k < param->n_sizes; k++) {
            int64_t size = 0;
            if (!wick_size_evaluate(&param->sizes[k], c->value, &size)) return INT64_MAX;
            if (size < 0 && __builtin_sub_overflow(sum, size, &sum)) return INT64_MAX;
        }
    }
    return sum;
}

/* A name at a time becomes about twice as large, or half, if that helps. What an argument gives
 * does not grow: a larger padding makes up for anything. */
static void repair(sampler *s, choice *c)
{
    int64_t lack = missing(s->sig, c);
    for (int step = 0; step < REPAIRS && lack > 0 && s->sig->n_dims > 0; step++) {
        int name = (int)between(s, 0, s->sig->n_dims - 1);
        int64_t was = c->value[name];
        bool larger = between(s, 0, 1);
        if (s->sig->dims[name].leading || (larger && usual_value(s->sig, name) >= 0)) continue;
        c->value[name] = larger ? was + was / 2 + 1 : was / 2;
        int64_t now = missing(s->sig, c);
        if (now < lack && c->value[name] > 0)
            lack = now;
        else
            c->value[name] = was;
    }
}

/* Halves one name, the largest that can be, if everything fits afterwards as well. */
static bool halve_one(const sampler *s, choice *c)
{
    for (int64_t below = INT64_MAX;;) {
        int64_t *victim = NULL;
        int owner = 0;
        for (int i = 0; i < s->sig->n_dims; i++) {
            int n = s->sig->dims[i].leading ? c->n_leading[i] : 1;
            for (int k = 0; k < n; k++) {
                int64_t *v = s->sig->dims[i].leading ? &c->leading[i][k] : &c->value[i];
                if (*v > 1 && *v < below && (!victim || *v > *victim)) victim = v, owner = i;
            }
        }
        if (!victim) return false;
        choice before = *c;
        below = *victim;
        *victim /= 2;
        if (s->sig->dims[owner].leading) multiply_leading(c, owner);
        if (largest(s->sig, c) >= 0) return true;
        *c = before;
    }
}

/* Brings everything within the budget, or as near as fixed sizes allow. */
static bool shrink(sampler *s, choice *c)
{
    repair(s, c);
    while (largest(s->sig, c) > s->budget && halve_one(s, c)) {
    }
    return largest(s->sig, c) >= 0;
}

/* The weights times `scale`, in eighths. */
static void scale_names(const sampler *s, const choice *weights, int64_t scale, choice *out)
{
    *out = *weights;
    for (int i = 0; i < s->sig->n_dims; i++) {
        if (usual_value(s->sig, i) >= 0) continue;
        int64_t value = weights->value[i] * scale / 8;
        out->value[i] = out->leading[i][0] = value > 0 ? value : 1;
    }
}

static bool within_budget(const sampler *s, const choice *weights, int64_t scale)
{
    choice c;
    scale_names(s, weights, scale, &c);
    int64_t most = largest(s->sig, &c);
    return most >= 0 && most <= s->budget;
}

/* The largest power of two that fits, then bisection above it: a difference may refuse small scales
 * as well. */
static bool grow(const sampler *s, choice *c)
{
    choice weights = *c;
    int64_t low = 1 + s->attempt, high;
    for (int bit = 0; bit < 40; bit++)
        if (within_budget(s, &weights, (int64_t)1 << bit)) low = (int64_t)1 << bit;
    for (high = 2 * low; low + 1 < high;) {
        int64_t middle = low + (high - low) / 2;
        *(within_budget(s, &weights, middle) ? &low : &high) = middle;
    }
    scale_names(s, &weights, low, c);
    return largest(s->sig, c) >= 0;
}

/* ---- from a choice to inputs ---- */

static void choose_scalar(sampler *s, const wick_param *param, const choice *c,
                          wick_input_shape *in, double *number)
{
    in->present = true;
    in->number = param->default_int;
    *number = param->default_float;
    switch (param->kind) {
    case WICK_KIND_INT:
        if (param->gives_dim >= 0)
            in->number = c->value[param->gives_dim];
        else if (!param->has_default)
            in->number = between(s, 0, 1); /* small enough to be an index */
        break;
    case WICK_KIND_FLOAT:
        if (!param->has_default || between(s, 0, 1)) *number = (double)between(s, 2, 8) / 4.0;
        break;
    case WICK_KIND_BOOL: in->number = between(s, 0, 1); break;
    case WICK_KIND_CHOICE: in->number = between(s, 0, param->n_choices - 1); break;
    default: break;
    }
}

static bool fill_inputs(sampler *s, const choice *c, int64_t *const *sizes, wick_sample *out)
{
    bool all =
        s->kind == WICK_SAMPLE_EMPTY || s->kind == WICK_SAMPLE_ONE || s->kind == WICK_SAMPLE_LARGE;
    for (int i = 0; i < s->sig->n_inputs; i++) {
        const wick_param *param = &s->sig->inputs[i];
        wick_input_shape *in = &out->inputs[i];
        if (param->kind > WICK_KIND_SHAPE) {
            choose_scalar(s, param, c, in, &out->floats[i]);
            continue;
        }
        bool present = !param->optional || all || between(s, 0, 1);
        *in = (wick_input_shape){.present = present, .size = sizes[i]};
        if (present && !shape_of(param, c, &in->dim, sizes[i])) return false;
    }
    return true;
}

static bool try_sample(sampler *s, int64_t *const *sizes, wick_sample *out)
{
    wick_binding binding;
    wick_ctx quiet; /* a choice that does not fit is no failure of the caller's */
    choice c;
    choose_names(s, &c);
    if (!(s->kind == WICK_SAMPLE_LARGE ? grow(s, &c) : shrink(s, &c))) return false;
    if (!fill_inputs(s, &c, sizes, out)) return false;
    wick_ctx_init(&quiet, NULL);
    bool fits = wick_signature_bind(&quiet, s->sig, out->inputs, &binding) == WICK_OK;
    wick_ctx_deinit(&quiet);
    if (!fits) return false;
    memcpy(out->dims, binding.value, sizeof out->dims);
    memcpy(out->n_leading, c.n_leading, sizeof out->n_leading);
    memcpy(out->leading, c.leading, sizeof out->leading);
    return true;
}

wick_status wick_signature_sample(wick_ctx *ctx, wick_arena *arena, const wick_signature *sig,
                                  wick_sample_kind kind, uint64_t seed, int64_t budget,
                                  wick_sample *out)
{
    sampler s = {
        .sig = sig, .kind = kind, .budget = budget > 0 ? budget : DEFAULT_BUDGET, .state = seed};
    wick_sample sample = {0};
    int64_t *sizes[WICK_MAX_PARAMS] = {NULL};
    size_t n = (size_t)sig->n_inputs;
    sample.inputs = wick_arena_alloc(arena, n * sizeof *sample.inputs);
    sample.floats = wick_arena_alloc(arena, n * sizeof *sample.floats);
    if (!sample.inputs || !sample.floats) return wick_fail(ctx, WICK_ENOMEM, "out of memory");
    for (size_t i = 0; i < n; i++) {
        sizes[i] = wick_arena_alloc(arena, ((size_t)sig->inputs[i].n_sizes + MAX_LEADING) *
                                               sizeof **sizes);
        if (!sizes[i]) return wick_fail(ctx, WICK_ENOMEM, "out of memory");
    }
    for (s.attempt = 0; s.attempt < ATTEMPTS; s.attempt++) {
        if (!try_sample(&s, sizes, &sample)) continue;
        *out = sample;
        return WICK_OK;
    }
    return wick_fail(ctx, WICK_EINVAL, "%s: found no sizes that fit the signature", sig->name);
}
