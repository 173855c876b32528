/* parse_type.c -- from text to tree: what stands after a colon
 *
 * A size is kept as a sum of products with like terms joined, so that H*4 and 4*H are one thing,
 * and beside it as it was written, for messages.
 */
#include "parser.h"

#include <string.h>

/* ---- names of dims and of element types ---- */

static wick_status take_dim(wick_parser *p, bool leading, int *out)
{
    wick_signature *sig = p->sig;
    int at = p->token.offset, i = 0;
    while (i < sig->n_dims && !wick_parser_is_word(p, sig->dims[i].name))
        i++;
    if (i == sig->n_dims) {
        if (i == WICK_MAX_NAMED)
            return wick_signature_fail(p->ctx, sig->text, at,
                                       "a signature has at most %d named dims", WICK_MAX_NAMED);
        wick_dim *dim = &sig->dims[i];
        dim->leading = leading;
        dim->from_int = -1;
        dim->offset = at;
        WICK_TRY(wick_parser_take_text(p, &dim->name));
        sig->n_dims++;
    } else {
        if (sig->dims[i].leading != leading)
            return wick_signature_fail(
                p->ctx, sig->text, at,
                leading ? "*%s is any number of leading dims here, but a single dim elsewhere"
                        : "%s is a single dim here, but any number of leading dims (*%s) elsewhere",
                sig->dims[i].name, sig->dims[i].name);
        WICK_TRY(wick_parser_advance(p));
    }
    *out = i;
    return WICK_OK;
}

static wick_status find_variable(wick_parser *p, const char *name, int offset, int *out)
{
    wick_signature *sig = p->sig;
    for (int i = 0; i < sig->n_variables; i++)
        if (strcmp(sig->variables[i].name, name) == 0) {
            *out = i;
            return WICK_OK;
        }
    if (sig->n_variables == WICK_MAX_TYPEVARS)
        return wick_signature_fail(p->ctx, sig->text, offset,
                                   "a signature has at most %d type variables", WICK_MAX_TYPEVARS);
    *out = sig->n_variables++;
    sig->variables[*out].name = name;
    sig->variables[*out].offset = offset;
    return WICK_OK;
}

static wick_status parse_elem(wick_parser *p, wick_elem *out)
{
    const char *text = p->sig->text, *name = text + p->token.offset;
    int at = p->token.offset;
    bool reserved = false;
    wick_dtype dtype = wick_dtype_parse(name, (size_t)p->token.length, &reserved);
    if (reserved)
        return wick_signature_fail(p->ctx, text, at, "%.*s is reserved for a later version",
                                   p->token.length, name);
    if (dtype != WICK_NONE) {
        *out = (wick_elem){WICK_ELEM_FIXED, dtype, 0};
        return wick_parser_advance(p);
    }
    if (*name < 'A' || *name > 'Z')
        return wick_signature_fail(
            p->ctx, text, at,
            "unknown type '%.*s' (elements: f16 bf16 f32 f64 i8 i16 i32 i64 u8 bool, or a type "
            "variable such as T; scalars: int float bool str)",
            p->token.length, name);
    out->kind = wick_parser_is_word(p, "A") ? WICK_ELEM_ACCUMULATE : WICK_ELEM_VARIABLE;
    WICK_TRY(wick_parser_take_text(p, &name));
    return find_variable(p, out->kind == WICK_ELEM_ACCUMULATE ? "T" : name, at, &out->variable);
}

/* ---- sizes ---- */

static wick_status parse_int(wick_parser *p, int64_t *out)
{
    const char *digits = p->sig->text + p->token.offset;
    int64_t value = 0;
    for (int i = 0; i < p->token.length; i++)
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, digits[i] - '0', &value))
            return wick_signature_fail(p->ctx, p->sig->text, p->token.offset,
                                       "this number does not fit 64 bits");
    *out = value;
    return wick_parser_advance(p);
}

/* names stay sorted, so that equal products are equal arrays. */
static void insert_name(wick_term *term, int name)
{
    int i = term->n_names++;
    for (; i > 0 && term->names[i - 1] > name; i--)
        term->names[i] = term->names[i - 1];
    term->names[i] = name;
}

static wick_status parse_factor(wick_parser *p, wick_term *term)
{
    if (p->token.kind == WICK_TOKEN_INT) {
        int at = p->token.offset;
        int64_t value;
        WICK_TRY(parse_int(p, &value));
        if (__builtin_mul_overflow(term->coefficient, value, &term->coefficient))
            return wick_signature_fail(p->ctx, p->sig->text, at,
                                       "this product does not fit 64 bits");
        return WICK_OK;
    }
    if (p->token.kind != WICK_TOKEN_NAME)
        return wick_parser_expected(p, "a size (a name, a number, or a sum or product of them)");
    if (term->n_names == WICK_MAX_FACTORS)
        return wick_signature_fail(p->ctx, p->sig->text, p->token.offset,
                                   "at most %d names can be multiplied", WICK_MAX_FACTORS);
    int name;
    WICK_TRY(take_dim(p, false, &name));
    insert_name(term, name);
    return WICK_OK;
}

static wick_status parse_term(wick_parser *p, wick_term *term)
{
    WICK_TRY(parse_factor(p, term));
    while (wick_parser_is_mark(p, '*')) {
        WICK_TRY(wick_parser_advance(p));
        WICK_TRY(parse_factor(p, term));
    }
    return WICK_OK;
}

static wick_status add_term(wick_parser *p, wick_term *terms, int *n, const wick_term *term)
{
    const char *text = p->sig->text;
    for (int i = 0; i < *n; i++) {
        if (terms[i].n_names != term->n_names ||
            memcmp(terms[i].names, term->names, (size_t)term->n_names * sizeof(int)) != 0)
            continue;
        if (__builtin_add_overflow(terms[i].coefficient, term->coefficient, &terms[i].coefficient))
            return wick_signature_fail(p->ctx, text, p->token.offset,
                                       "this sum does not fit 64 bits");
        return WICK_OK;
    }
    if (*n == WICK_MAX_TERMS)
        return wick_signature_fail(p->ctx, text, p->token.offset, "a size has at most %d terms",
                                   WICK_MAX_TERMS);
    terms[(*n)++] = *term;
    return WICK_OK;
}

/* Copies the range without its spaces. */
static char *squeeze(wick_arena *arena, const char *text, int begin, int end)
{
    char *s = wick_arena_strndup(arena, text + begin, (size_t)(end - begin));
    int n = 0;
    if (!s) return NULL;
    for (int i = 0; s[i]; i++)
        if (s[i] != ' ' && s[i] != '\t' && s[i] != '\n' && s[i] != '\r') s[n++] = s[i];
    s[n] = '\0';
    return s;
}

static wick_status keep_size(wick_parser *p, const wick_term *terms, int n, int end, wick_size *out)
{
    out->text = squeeze(p->arena, p->sig->text, out->offset, end);
    out->terms = wick_arena_alloc(p->arena, (size_t)n * sizeof(wick_term));
    if (!out->text || !out->terms) return wick_fail(p->ctx, WICK_ENOMEM, "out of memory");
    out->n_terms = 0;
    for (int i = 0; i < n; i++)
        if (terms[i].coefficient != 0) out->terms[out->n_terms++] = terms[i];
    if (out->n_terms == 1 && out->terms[0].n_names == 0 && out->terms[0].coefficient < 0)
        return wick_signature_fail(p->ctx, p->sig->text, out->offset,
                                   "%s is %lld, but a size cannot be negative", out->text,
                                   (long long)out->terms[0].coefficient);
    out->alone = out->n_terms == 1 && out->terms[0].n_names == 1 && out->terms[0].coefficient == 1;
    return WICK_OK;
}

static wick_status parse_size(wick_parser *p, wick_size *out)
{
    wick_term terms[WICK_MAX_TERMS];
    int n = 0, end = 0;
    int64_t sign = 1;
    out->offset = p->token.offset;
    for (bool more = true; more;) {
        wick_term term = {.coefficient = sign};
        WICK_TRY(parse_term(p, &term));
        WICK_TRY(add_term(p, terms, &n, &term));
        end = p->token.offset;
        more = wick_parser_is_mark(p, '+') || wick_parser_is_mark(p, '-');
        sign = wick_parser_is_mark(p, '-') ? -1 : 1;
        if (more) WICK_TRY(wick_parser_advance(p));
    }
    if (wick_parser_is_mark(p, '/') || wick_parser_is_mark(p, '('))
        return wick_signature_fail(p->ctx, p->sig->text, p->token.offset,
                                   "sizes are sums, differences and products of names and numbers");
    return keep_size(p, terms, n, end, out);
}

static wick_status parse_leading(wick_parser *p, wick_param *param, int n_sizes)
{
    if (n_sizes > 0 || param->leading >= 0)
        return wick_signature_fail(
            p->ctx, p->sig->text, p->token.offset,
            "only the first place between the brackets can be any number of dims");
    WICK_TRY(wick_parser_advance(p));
    if (p->token.kind != WICK_TOKEN_NAME)
        return wick_parser_expected(p, "the name of the leading dims");
    return take_dim(p, true, &param->leading);
}

/* The '[' is taken already. */
static wick_status parse_sizes(wick_parser *p, wick_param *param)
{
    wick_size sizes[WICK_MAX_RANK];
    int n = 0;
    bool more = !wick_parser_is_mark(p, ']');
    memset(sizes, 0, sizeof sizes);
    while (more) {
        if (n == WICK_MAX_RANK)
            return wick_signature_fail(p->ctx, p->sig->text, p->token.offset,
                                       "a tensor has at most %d dims", WICK_MAX_RANK);
        if (wick_parser_is_mark(p, '*'))
            WICK_TRY(parse_leading(p, param, n));
        else
            WICK_TRY(parse_size(p, &sizes[n++]));
        more = wick_parser_is_mark(p, ',');
        if (more) WICK_TRY(wick_parser_advance(p));
    }
    WICK_TRY(wick_parser_take_mark(p, ']', "',' or ']'"));
    if (wick_parser_is_mark(p, '['))
        return wick_signature_fail(p->ctx, p->sig->text, p->token.offset,
                                   "lists of tensors are reserved for a later version");
    param->n_sizes = n;
    param->sizes = wick_arena_alloc(p->arena, (size_t)n * sizeof(wick_size));
    if (!param->sizes) return wick_fail(p->ctx, WICK_ENOMEM, "out of memory");
    memcpy(param->sizes, sizes, (size_t)n * sizeof(wick_size));
    return WICK_OK;
}

/* ---- choices and literals ---- */

static wick_status take_quoted(wick_parser *p, const char **out)
{
    const char *inside = p->sig->text + p->token.offset + 1;
    *out = wick_arena_strndup(p->arena, inside, (size_t)p->token.length - 2);
    if (!*out) return wick_fail(p->ctx, WICK_ENOMEM, "out of memory");
    return wick_parser_advance(p);
}

static bool is_identifier(const char *s)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
    return *s != '\0' && !(*s >= '0' && *s <= '9') && s[strspn(s, letters)] == '\0' &&
           strlen(s) <= WICK_MAX_NAME;
}

static wick_status parse_choices(wick_parser *p, wick_param *param)
{
    const char *choices[WICK_MAX_CHOICES];
    int n = 0;
    for (bool more = true; more;) {
        int at = p->token.offset;
        if (p->token.kind != WICK_TOKEN_STRING)
            return wick_parser_expected(p, "a choice such as 'sum'");
        if (n == WICK_MAX_CHOICES)
            return wick_signature_fail(p->ctx, p->sig->text, at, "there are at most %d choices",
                                       WICK_MAX_CHOICES);
        WICK_TRY(take_quoted(p, &choices[n]));
        if (!is_identifier(choices[n]))
            return wick_signature_fail(
                p->ctx, p->sig->text, at,
                "a choice becomes a C constant, so it consists of letters, digits and _");
        for (int i = 0; i < n; i++)
            if (strcmp(choices[i], choices[n]) == 0)
                return wick_signature_fail(p->ctx, p->sig->text, at, "'%s' is listed twice",
                                           choices[n]);
        n++;
        more = wick_parser_is_mark(p, '|');
        if (more) WICK_TRY(wick_parser_advance(p));
    }
    param->kind = WICK_KIND_CHOICE;
    param->n_choices = n;
    param->choices = wick_arena_alloc(p->arena, (size_t)n * sizeof *choices);
    if (!param->choices) return wick_fail(p->ctx, WICK_ENOMEM, "out of memory");
    memcpy(param->choices, choices, (size_t)n * sizeof *choices);
    return WICK_OK;
}

static wick_status parse_number_default(wick_parser *p, wick_param *param)
{
    int at = p->token.offset;
    bool negative = wick_parser_is_mark(p, '-'), is_int = param->kind == WICK_KIND_INT;
    if (negative) WICK_TRY(wick_parser_advance(p));
    if (p->token.kind != WICK_TOKEN_INT && (is_int || p->token.kind != WICK_TOKEN_FLOAT))
        return wick_parser_expected(p, is_int ? "an integer such as 1 or -1"
                                              : "a number such as 1.0 or 1e-5");
    if (is_int) {
        WICK_TRY(parse_int(p, &param->default_int));
        if (negative) param->default_int = -param->default_int;
        return WICK_OK;
    }
    if (!wick_number_parse(p->sig->text + p->token.offset, p->token.length, &param->default_float))
        return wick_signature_fail(p->ctx, p->sig->text, at, "this number does not fit a double");
    if (negative) param->default_float = -param->default_float;
    return wick_parser_advance(p);
}

static wick_status parse_text_default(wick_parser *p, wick_param *param)
{
    int at = p->token.offset;
    const char *text;
    if (p->token.kind != WICK_TOKEN_STRING)
        return wick_parser_expected(p, "a text in single quotes");
    WICK_TRY(take_quoted(p, &text));
    if (param->kind == WICK_KIND_STR) {
        param->default_str = text;
        return WICK_OK;
    }
    for (int i = 0; i < param->n_choices; i++)
        if (strcmp(param->choices[i], text) == 0) {
            param->default_int = i;
            return WICK_OK;
        }
    return wick_signature_fail(p->ctx, p->sig->text, at, "'%s' is not one of the choices", text);
}

wick_status wick_parser_default(wick_parser *p, wick_param *param)
{
    param->has_default = true;
    switch (param->kind) {
    case WICK_KIND_INT:
    case WICK_KIND_FLOAT: return parse_number_default(p, param);
    case WICK_KIND_STR:
    case WICK_KIND_CHOICE: return parse_text_default(p, param);
    case WICK_KIND_BOOL:
        if (!wick_parser_is_word(p, "true") && !wick_parser_is_word(p, "false"))
            return wick_parser_expected(p, "true or false");
        param->default_int = wick_parser_is_word(p, "true");
        return wick_parser_advance(p);
    default:
        return wick_signature_fail(p->ctx, p->sig->text, p->token.offset,
                                   "a tensor has no default: %s?: makes it optional", param->name);
    }
}

/* ---- the type ---- */

static wick_status parse_tensor(wick_parser *p, wick_param *param)
{
    param->kind = WICK_KIND_TENSOR;
    if (p->token.kind != WICK_TOKEN_NAME) return wick_parser_expected(p, "an element type");
    WICK_TRY(parse_elem(p, &param->elem));
    WICK_TRY(wick_parser_take_mark(p, '[', "'[' and sizes (a 0-d tensor is T[])"));
    return parse_sizes(p, param);
}

static wick_status parse_scalar(wick_parser *p, wick_param *param, const char *name, wick_kind kind)
{
    int at = p->token.offset;
    WICK_TRY(wick_parser_advance(p));
    param->kind = kind;
    if (!wick_parser_is_mark(p, '[')) return WICK_OK;
    if (kind == WICK_KIND_BOOL) { /* as an element it is a tensor */
        param->kind = WICK_KIND_TENSOR;
        param->elem = (wick_elem){WICK_ELEM_FIXED, WICK_BOOL, 0};
        WICK_TRY(wick_parser_advance(p));
        return parse_sizes(p, param);
    }
    return wick_signature_fail(p->ctx, p->sig->text, at,
                               "lists (%s[]) are reserved for a later version", name);
}

wick_status wick_parser_type(wick_parser *p, wick_param *param)
{
    static const char *const scalars[] = {"int", "float", "bool",
                                          "str"}; /* in the order of wick_kind */
    if (p->token.kind == WICK_TOKEN_STRING) return parse_choices(p, param);
    if (p->token.kind != WICK_TOKEN_NAME)
        return wick_parser_expected(
            p, "a type such as T[N], f32[], int, float, bool, str or 'sum'|'mean'");
    for (int i = 0; i < WICK_COUNT(scalars); i++)
        if (wick_parser_is_word(p, scalars[i]))
            return parse_scalar(p, param, scalars[i], (wick_kind)(WICK_KIND_INT + i));
    if (wick_parser_is_word(p, "shape")) {
        param->kind = WICK_KIND_SHAPE;
        WICK_TRY(wick_parser_advance(p));
        WICK_TRY(wick_parser_take_mark(p, '[', "'[' and sizes"));
        return parse_sizes(p, param);
    }
    if (wick_parser_is_word(p, "strided")) {
        param->strided = true;
        WICK_TRY(wick_parser_advance(p));
    }
    return parse_tensor(p, param);
}
