/* solve.c -- from the sizes of a call to the value of every dim
 *
 *   x: T[*N, C]   bias: T[C]   w: T[H*4, H+C]
 *     1. ints that give a dim, names that stand alone, and `*N`, in order
 *     2. sizes with one name left are solved for it, until nothing changes:   H*4 = 12  =>  H = 3
 *     3. every size is compared
 *
 * This runs in front of every call, so it allocates nothing and step 2 is skipped where step 1
 * found everything. No sum or product here may overflow unseen: sizes come from outside.
 */
#include "signature_internal.h"

#include <string.h>

/* ---- arithmetic ---- */

static bool multiply_names(const wick_term *term, const int64_t *value, int skip, int64_t *out)
{
    int64_t product = term->coefficient;
    for (int i = 0; i < term->n_names; i++)
        if (term->names[i] != skip &&
            __builtin_mul_overflow(product, value[term->names[i]], &product))
            return false;
    *out = product;
    return true;
}

bool wick_size_evaluate(const wick_size *size, const int64_t *value, int64_t *out)
{
    int64_t sum = 0, product;
    for (int t = 0; t < size->n_terms; t++)
        if (!multiply_names(&size->terms[t], value, -1, &product) ||
            __builtin_add_overflow(sum, product, &sum))
            return false;
    *out = sum;
    return true;
}

int wick_size_unknown(const wick_size *size, const bool *known)
{
    int unknown = -1;
    for (int t = 0; t < size->n_terms; t++) {
        int power = 0;
        for (int i = 0; i < size->terms[t].n_names; i++) {
            int name = size->terms[t].names[i];
            if (known[name]) continue;
            if ((unknown >= 0 && name != unknown) || ++power > 1) return -1;
            unknown = name;
        }
    }
    return unknown;
}

typedef enum solution { SOLVED, IMPOSSIBLE, ANYTHING } solution;

/* size = factor * name + rest, for the name that is not known. */
static solution solve_size(const wick_size *size, const int64_t *value, int name, int64_t is,
                           int64_t *out)
{
    int64_t factor = 0, rest = 0, product;
    for (int t = 0; t < size->n_terms; t++) {
        const wick_term *term = &size->terms[t];
        bool has = false;
        for (int i = 0; i < term->n_names; i++)
            has |= term->names[i] == name;
        if (!multiply_names(term, value, name, &product)) return IMPOSSIBLE;
        if (__builtin_add_overflow(*(has ? &factor : &rest), product, has ? &factor : &rest))
            return IMPOSSIBLE;
    }
    if (__builtin_sub_overflow(is, rest, &rest)) return IMPOSSIBLE;
    if (factor == 0) return rest == 0 ? ANYTHING : IMPOSSIBLE;
    if (factor == -1) { /* apart, since INT64_MIN / -1 traps */
        if (rest > 0 || rest == INT64_MIN) return IMPOSSIBLE;
        *out = -rest;
        return SOLVED;
    }
    if (rest % factor != 0 || rest / factor < 0) return IMPOSSIBLE;
    *out = rest / factor;
    return SOLVED;
}

/* ---- failures: away from the path of a call that fits ---- */

static wick_status fail_with(wick_ctx *ctx, wick_text *message)
{
    wick_status status = message->failed ? WICK_ENOMEM : WICK_EINVAL;
    wick_fail(ctx, status, "%s", message->failed ? "out of memory" : wick_text_str(message));
    wick_text_free(message);
    return status;
}

static wick_status fail_rank(wick_ctx *ctx, const wick_signature *sig, const wick_param *param,
                             const wick_input_shape *in)
{
    wick_text m = {0};
    wick_text_printf(&m, "%s has %d dimension%s (", param->name, in->dim, in->dim == 1 ? "" : "s");
    wick_shape_print(&m, in->dim, in->size);
    wick_text_printf(&m, "), expected %d%s: ", param->n_sizes,
                     param->leading >= 0 ? " or more" : "");
    wick_param_print_type(&m, sig, param);
    return fail_with(ctx, &m);
}

static wick_status fail_leading(wick_ctx *ctx, const wick_signature *sig, const wick_param *param,
                                const wick_input_shape *in, const wick_binding *b)
{
    wick_text m = {0};
    wick_text_printf(&m, "%s begins with ", param->name);
    wick_shape_print(&m, in->dim - param->n_sizes, in->size);
    wick_text_printf(&m, ", but *%s is ", sig->dims[param->leading].name);
    wick_shape_print(&m, b->n_leading[param->leading], b->leading[param->leading]);
    return fail_with(ctx, &m);
}

/* "w.shape[0] is 7, which is not H*W for any W (H is 2)" */
static wick_status fail_unsolved(wick_ctx *ctx, const wick_signature *sig, const wick_param *param,
                                 const wick_input_shape *in, int index, int name,
                                 const wick_binding *b)
{
    wick_text m = {0};
    const wick_size *size = &param->sizes[index];
    int at = in->dim - param->n_sizes + index;
    bool told[WICK_MAX_NAMED] = {false};
    const char *before = " (";
    wick_text_printf(&m, "%s.shape[%d] is %lld, which is not %s for any %s", param->name, at,
                     (long long)in->size[at], size->text, sig->dims[name].name);
    told[name] = true;
    for (int t = 0; t < size->n_terms; t++)
        for (int i = 0; i < size->terms[t].n_names; i++) {
            int other = size->terms[t].names[i];
            if (told[other]) continue;
            wick_text_printf(&m, "%s%s is %lld", before, sig->dims[other].name,
                             (long long)b->value[other]);
            told[other] = true;
            before = ", ";
        }
    if (before[0] == ',') wick_text_add(&m, ")");
    return fail_with(ctx, &m);
}

static wick_status fail_size(wick_ctx *ctx, const wick_param *param, const wick_input_shape *in,
                             int index, const wick_binding *b)
{
    const wick_size *size = &param->sizes[index];
    int at = in->dim - param->n_sizes + index;
    int64_t expected;
    bool constant = size->n_terms == 0 || (size->n_terms == 1 && size->terms[0].n_names == 0);
    if (!wick_size_evaluate(size, b->value, &expected))
        return wick_fail(ctx, WICK_EINVAL, "%s.shape[%d] is %lld, but %s does not fit 63 bits",
                         param->name, at, (long long)in->size[at], size->text);
    if (constant)
        return wick_fail(ctx, WICK_EINVAL, "%s.shape[%d] is %lld, expected %lld", param->name, at,
                         (long long)in->size[at], (long long)expected);
    return wick_fail(ctx, WICK_EINVAL, "%s.shape[%d] is %lld, but %s is %lld", param->name, at,
                     (long long)in->size[at], size->text, (long long)expected);
}

/* ---- 1: what stands alone ---- */

static wick_status bind_leading(wick_ctx *ctx, const wick_signature *sig, const wick_param *param,
                                const wick_input_shape *in, wick_binding *b)
{
    int name = param->leading, n = in->dim - param->n_sizes;
    if (b->bound[name]) {
        bool same = b->n_leading[name] == n;
        for (int i = 0; same && i < n; i++)
            same = in->size[i] == b->leading[name][i];
        return same ? WICK_OK : fail_leading(ctx, sig, param, in, b);
    }
    b->value[name] = wick_shape_numel(n, in->size);
    if (b->value[name] < 0)
        return wick_fail(ctx, WICK_EINVAL,
                         "the product of the leading dimensions of %s does not fit 63 bits",
                         param->name);
    b->bound[name] = true;
    b->leading[name] = in->size;
    b->n_leading[name] = n;
    return WICK_OK;
}

static wick_status bind_alone(wick_ctx *ctx, const wick_signature *sig, const wick_param *param,
                              const wick_input_shape *in, wick_binding *b)
{
    if (in->dim < param->n_sizes || (in->dim > param->n_sizes && param->leading < 0))
        return fail_rank(ctx, sig, param, in);
    for (int i = 0; i < in->dim; i++)
        if (in->size[i] < 0)
            return wick_fail(ctx, WICK_EINVAL,
                             "%s.shape[%d] is %lld, but a size cannot be negative", param->name, i,
                             (long long)in->size[i]);
    if (param->leading >= 0) WICK_TRY(bind_leading(ctx, sig, param, in, b));
    for (int i = 0; i < param->n_sizes; i++) {
        if (!param->sizes[i].alone) continue;
        int name = param->sizes[i].terms[0].names[0];
        if (b->bound[name]) continue;
        b->value[name] = in->size[in->dim - param->n_sizes + i];
        b->bound[name] = true;
    }
    return WICK_OK;
}

static wick_status bind_ints(wick_ctx *ctx, const wick_signature *sig,
                             const wick_input_shape *inputs, wick_binding *b)
{
    for (int i = 0; i < sig->n_inputs; i++) {
        int name = sig->inputs[i].gives_dim;
        if (name < 0) continue;
        if (inputs[i].number < 0)
            return wick_fail(ctx, WICK_EINVAL, "%s is %lld, but a size cannot be negative",
                             sig->inputs[i].name, (long long)inputs[i].number);
        b->value[name] = inputs[i].number;
        b->bound[name] = true;
    }
    return WICK_OK;
}

/* ---- 2: what has to be solved ---- */

static wick_status solve_param(wick_ctx *ctx, const wick_signature *sig, const wick_param *param,
                               const wick_input_shape *in, wick_binding *b, bool *news)
{
    for (int i = 0; i < param->n_sizes; i++) {
        int name = wick_size_unknown(&param->sizes[i], b->bound);
        if (name < 0) continue;
        int64_t is = in->size[in->dim - param->n_sizes + i];
        switch (solve_size(&param->sizes[i], b->value, name, is, &b->value[name])) {
        case SOLVED: b->bound[name] = *news = true; break;
        case IMPOSSIBLE: return fail_unsolved(ctx, sig, param, in, i, name, b);
        case ANYTHING: break; /* another size may tell it */
        }
    }
    return WICK_OK;
}

static bool has_sizes(const wick_param *param, const wick_input_shape *in)
{
    return param->kind <= WICK_KIND_SHAPE && (in->present || !param->optional);
}

static wick_status solve_rest(wick_ctx *ctx, const wick_signature *sig,
                              const wick_input_shape *inputs, wick_binding *b)
{
    for (bool news = true; news;) {
        news = false;
        for (int i = 0; i < sig->n_inputs; i++)
            if (has_sizes(&sig->inputs[i], &inputs[i]))
                WICK_TRY(solve_param(ctx, sig, &sig->inputs[i], &inputs[i], b, &news));
    }
    return WICK_OK;
}

/* ---- 3: everything is compared ---- */

/* check.c has seen to it that a name of a present input is solved, unless its factor happened to be
 * 0. */
static wick_status check_determined(wick_ctx *ctx, const wick_signature *sig,
                                    const wick_param *param, const wick_size *size,
                                    const wick_binding *b)
{
    for (int t = 0; t < size->n_terms; t++)
        for (int i = 0; i < size->terms[t].n_names; i++) {
            int name = size->terms[t].names[i];
            if (!b->bound[name])
                return wick_fail(ctx, WICK_EINVAL,
                                 "the sizes do not tell %s: in %s it is multiplied by 0 (%s)",
                                 sig->dims[name].name, param->name, size->text);
        }
    return WICK_OK;
}

static wick_status check_param(wick_ctx *ctx, const wick_signature *sig, const wick_param *param,
                               const wick_input_shape *in, const wick_binding *b)
{
    int first = in->dim - param->n_sizes;
    for (int i = 0; i < param->n_sizes; i++) {
        const wick_size *size = &param->sizes[i];
        int64_t expected;
        if (!size->alone) WICK_TRY(check_determined(ctx, sig, param, size, b));
        if (!wick_size_evaluate(size, b->value, &expected) || expected != in->size[first + i])
            return fail_size(ctx, param, in, i, b);
    }
    return WICK_OK;
}

wick_status wick_signature_bind(wick_ctx *ctx, const wick_signature *sig,
                                const wick_input_shape *inputs, wick_binding *out)
{
    bool all = true;
    for (int i = 0; i < sig->n_dims;
         i++) { /* not the whole of it: most signatures name two or three */
        out->value[i] = 0;
        out->bound[i] = false;
        out->leading[i] = NULL;
        out->n_leading[i] = 0;
    }
    WICK_TRY(bind_ints(ctx, sig, inputs, out));
    for (int i = 0; i < sig->n_inputs; i++) {
        if (!has_sizes(&sig->inputs[i], &inputs[i])) continue;
        if (!inputs[i].present)
            return wick_fail(ctx, WICK_EINVAL, "%s is missing", sig->inputs[i].name);
        WICK_TRY(bind_alone(ctx, sig, &sig->inputs[i], &inputs[i], out));
    }
    for (int i = 0; i < sig->n_dims; i++)
        all &= out->bound[i];
    if (!all) WICK_TRY(solve_rest(ctx, sig, inputs, out));
    for (int i = 0; i < sig->n_inputs; i++)
        if (has_sizes(&sig->inputs[i], &inputs[i]))
            WICK_TRY(check_param(ctx, sig, &sig->inputs[i], &inputs[i], out));
    return WICK_OK;
}

/* ---- what follows from a binding ---- */

static wick_status size_of_result(wick_ctx *ctx, const wick_param *param, const wick_size *size,
                                  int at, const wick_binding *binding, int64_t *out)
{
    if (!wick_size_evaluate(size, binding->value, out))
        return wick_fail(ctx, WICK_EINVAL, "%s.shape[%d] would be %s, which does not fit 63 bits",
                         param->name, at, size->text);
    if (*out < 0)
        return wick_fail(ctx, WICK_EINVAL,
                         "%s.shape[%d] would be %s, which is %lld, but a size cannot be negative",
                         param->name, at, size->text, (long long)*out);
    return WICK_OK;
}

wick_status wick_signature_shape(wick_ctx *ctx, const wick_signature *sig, const wick_param *param,
                                 const wick_binding *binding, int *dim, int64_t *size)
{
    int n = param->leading >= 0 ? binding->n_leading[param->leading] : 0;
    (void)sig;
    if (n + param->n_sizes > WICK_MAX_RANK)
        return wick_fail(ctx, WICK_EINVAL,
                         "%s would have %d dimensions, but a tensor has at most %d", param->name,
                         n + param->n_sizes, WICK_MAX_RANK);
    if (n > 0) memcpy(size, binding->leading[param->leading], (size_t)n * sizeof *size);
    for (int i = 0; i < param->n_sizes; i++)
        WICK_TRY(size_of_result(ctx, param, &param->sizes[i], n + i, binding, &size[n + i]));
    *dim = n + param->n_sizes;
    if (wick_shape_numel(*dim, size) < 0) {
        wick_text m = {0};
        wick_text_printf(&m, "%s would be ", param->name);
        wick_shape_print(&m, *dim, size);
        wick_text_add(&m, ", whose number of elements does not fit 63 bits");
        return fail_with(ctx, &m);
    }
    return WICK_OK;
}

wick_dtype wick_elem_dtype(const wick_elem *elem, const wick_dtype *types)
{
    switch (elem->kind) {
    case WICK_ELEM_FIXED: return elem->dtype;
    case WICK_ELEM_VARIABLE: return types[elem->variable];
    default: return wick_dtype_accumulate((int)types[elem->variable]);
    }
}
