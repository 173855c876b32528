/* parse.c -- from text to tree: arguments, results and clauses
 *
 * Recursive descent with one token of look-ahead; docs/signature.md has the grammar, and each
 * function here is one rule of it. Depth does not depend on the text. All that is built lives in
 * the caller's arena, so nothing here owns anything and a failure simply returns.
 */
#include "parser.h"

#include <string.h>

wick_status wick_parser_advance(wick_parser *p)
{
    return wick_token_read(p->ctx, p->sig->text, p->token.offset + p->token.length, &p->token);
}

bool wick_parser_is_mark(const wick_parser *p, char c)
{
    return p->token.kind == WICK_TOKEN_MARK && p->sig->text[p->token.offset] == c;
}

bool wick_parser_is_word(const wick_parser *p, const char *word)
{
    return p->token.kind == WICK_TOKEN_NAME && (int)strlen(word) == p->token.length &&
           memcmp(p->sig->text + p->token.offset, word, (size_t)p->token.length) == 0;
}

wick_status wick_parser_expected(wick_parser *p, const char *what)
{
    const char *text = p->sig->text;
    int length = p->token.length < 40 ? p->token.length : 40;
    if (p->token.kind == WICK_TOKEN_END)
        return wick_signature_fail(p->ctx, text, p->token.offset, "expected %s, found the end",
                                   what);
    if (p->token.kind == WICK_TOKEN_STRING)
        return wick_signature_fail(p->ctx, text, p->token.offset, "expected %s, found a text",
                                   what);
    return wick_signature_fail(p->ctx, text, p->token.offset, "expected %s, found '%.*s'", what,
                               length, text + p->token.offset);
}

wick_status wick_parser_take_mark(wick_parser *p, char c, const char *what)
{
    if (!wick_parser_is_mark(p, c)) return wick_parser_expected(p, what);
    return wick_parser_advance(p);
}

wick_status wick_parser_take_text(wick_parser *p, const char **out)
{
    *out = wick_arena_strndup(p->arena, p->sig->text + p->token.offset, (size_t)p->token.length);
    if (!*out) return wick_fail(p->ctx, WICK_ENOMEM, "out of memory");
    return wick_parser_advance(p);
}

/* ---- one argument ---- */

static wick_status parse_marks(wick_parser *p, wick_param *param, wick_section section)
{
    const char *text = p->sig->text;
    while (wick_parser_is_mark(p, '?') || wick_parser_is_mark(p, '!')) {
        bool optional = wick_parser_is_mark(p, '?');
        int at = p->token.offset;
        if (section == WICK_SECTION_SCRATCH)
            return wick_signature_fail(p->ctx, text, at, "a scratch buffer has neither ? nor !");
        if (!optional && section == WICK_SECTION_OUTPUT)
            return wick_signature_fail(
                p->ctx, text, at, "%s is a result: only an input is written in place", param->name);
        if (param->optional || param->in_place)
            return wick_signature_fail(p->ctx, text, at, "%s cannot have more than one of ? and !",
                                       param->name);
        param->optional = optional;
        param->in_place = !optional;
        WICK_TRY(wick_parser_advance(p));
    }
    return WICK_OK;
}

/* What may follow the name depends on where the argument stands. `at`: where its type begins. */
static wick_status check_kind(wick_parser *p, const wick_param *param, wick_section section, int at)
{
    const char *text = p->sig->text;
    bool tensor = param->kind == WICK_KIND_TENSOR;
    bool number = param->kind == WICK_KIND_INT || param->kind == WICK_KIND_FLOAT ||
                  param->kind == WICK_KIND_BOOL;
    if (param->optional && param->kind == WICK_KIND_SHAPE)
        return wick_signature_fail(p->ctx, text, at, "%s is a shape, which cannot be optional",
                                   param->name);
    if (param->optional && !tensor)
        return wick_signature_fail(p->ctx, text, at,
                                   "optional scalars are reserved for a later version");
    if (param->in_place && !tensor)
        return wick_signature_fail(p->ctx, text, at, "only a tensor is written in place");
    if (param->in_place && param->strided)
        return wick_signature_fail(p->ctx, text, at, "%s is written in place and cannot be strided",
                                   param->name);
    if (section == WICK_SECTION_SCRATCH && (!tensor || param->strided))
        return wick_signature_fail(p->ctx, text, at, "a scratch buffer is a tensor, as in f32[N]");
    if (section == WICK_SECTION_OUTPUT && param->strided)
        return wick_signature_fail(p->ctx, text, at, "%s is a result: only an input can be strided",
                                   param->name);
    if (section == WICK_SECTION_OUTPUT && !tensor && !number)
        return wick_signature_fail(p->ctx, text, at, "a result is a tensor, int, float or bool");
    return WICK_OK;
}

static wick_status parse_param(wick_parser *p, wick_section section)
{
    static const char *const what[] = {"the name of an argument", "the name of a result",
                                       "the name of a scratch buffer"};
    if (p->token.kind != WICK_TOKEN_NAME) return wick_parser_expected(p, what[section]);
    if (p->n_params == WICK_MAX_PARAMS)
        return wick_signature_fail(
            p->ctx, p->sig->text, p->token.offset,
            "an operator has at most %d arguments, results and scratch buffers", WICK_MAX_PARAMS);
    wick_param *param = &p->params[p->n_params];
    param->leading = -1;
    param->gives_dim = -1;
    param->offset = p->token.offset;
    WICK_TRY(wick_parser_take_text(p, &param->name));
    WICK_TRY(parse_marks(p, param, section));
    WICK_TRY(wick_parser_take_mark(p, ':', "':' and a type"));
    int at = p->token.offset;
    WICK_TRY(wick_parser_type(p, param));
    WICK_TRY(check_kind(p, param, section, at));
    if (wick_parser_is_mark(p, '=')) {
        if (section != WICK_SECTION_INPUT)
            return wick_signature_fail(p->ctx, p->sig->text, p->token.offset,
                                       "only an input can have a default");
        WICK_TRY(wick_parser_advance(p));
        WICK_TRY(wick_parser_default(p, param));
    }
    p->n_params++;
    return WICK_OK;
}

static wick_status parse_params(wick_parser *p, wick_section section)
{
    WICK_TRY(parse_param(p, section));
    while (wick_parser_is_mark(p, ',')) {
        WICK_TRY(wick_parser_advance(p));
        WICK_TRY(parse_param(p, section));
    }
    return WICK_OK;
}

/* ---- clauses ---- */

static bool is_clause(const wick_parser *p)
{
    return wick_parser_is_word(p, "where") || wick_parser_is_word(p, "scratch") ||
           wick_parser_is_word(p, "batch") || wick_parser_is_word(p, "autocast");
}

static wick_status parse_type_list(wick_parser *p, wick_variable *variable)
{
    const char *text = p->sig->text;
    bool given[WICK_DTYPE_COUNT] = {false};
    do {
        bool reserved = false;
        if (p->token.kind != WICK_TOKEN_NAME) return wick_parser_expected(p, "an element type");
        wick_dtype dtype =
            wick_dtype_parse(text + p->token.offset, (size_t)p->token.length, &reserved);
        if (reserved)
            return wick_signature_fail(p->ctx, text, p->token.offset,
                                       "%.*s is reserved for a later version", p->token.length,
                                       text + p->token.offset);
        if (dtype == WICK_NONE)
            return wick_parser_expected(
                p, "an element type (f16 bf16 f32 f64 i8 i16 i32 i64 u8 bool)");
        if (given[dtype])
            return wick_signature_fail(p->ctx, text, p->token.offset, "%s is listed twice",
                                       wick_dtype_name((int)dtype));
        given[dtype] = true;
        variable->types[variable->n_types++] = dtype;
        WICK_TRY(wick_parser_advance(p));
    } while (p->token.kind == WICK_TOKEN_NAME && !is_clause(p));
    return WICK_OK;
}

static wick_status parse_where(wick_parser *p)
{
    const char *text = p->sig->text;
    for (bool more = true; more;) {
        wick_variable *variable = NULL;
        if (p->token.kind != WICK_TOKEN_NAME) return wick_parser_expected(p, "a type variable");
        for (int i = 0; i < p->sig->n_variables; i++)
            if (wick_parser_is_word(p, p->sig->variables[i].name)) variable = &p->sig->variables[i];
        if (wick_parser_is_word(p, "A"))
            return wick_signature_fail(p->ctx, text, p->token.offset,
                                       "A follows from T and has no list of its own");
        if (!variable)
            return wick_signature_fail(p->ctx, text, p->token.offset,
                                       "no argument has the type %.*s", p->token.length,
                                       text + p->token.offset);
        if (variable->n_types > 0)
            return wick_signature_fail(p->ctx, text, p->token.offset,
                                       "the types of %s are listed twice", variable->name);
        WICK_TRY(wick_parser_advance(p));
        WICK_TRY(wick_parser_take_mark(p, ':', "':' and a list of types"));
        WICK_TRY(parse_type_list(p, variable));
        more = wick_parser_is_mark(p, ',');
        if (more) WICK_TRY(wick_parser_advance(p));
    }
    return WICK_OK;
}

static wick_status parse_batch(wick_parser *p)
{
    for (bool more = true; more;) {
        wick_dim *dim = NULL;
        if (p->token.kind != WICK_TOKEN_NAME) return wick_parser_expected(p, "the name of a dim");
        for (int i = 0; i < p->sig->n_dims; i++)
            if (wick_parser_is_word(p, p->sig->dims[i].name)) dim = &p->sig->dims[i];
        if (!dim || dim->batch)
            return wick_signature_fail(p->ctx, p->sig->text, p->token.offset,
                                       dim ? "%.*s is named twice"
                                           : "%.*s is not a dim of this signature",
                                       p->token.length, p->sig->text + p->token.offset);
        dim->batch = true;
        WICK_TRY(wick_parser_advance(p));
        more = wick_parser_is_mark(p, ',');
        if (more) WICK_TRY(wick_parser_advance(p));
        if (p->token.kind == WICK_TOKEN_NAME && !is_clause(p)) more = true;
    }
    return WICK_OK;
}

static wick_status parse_autocast(wick_parser *p)
{
    static const char *const words[] = {"keep", "f32", "follow"};
    for (int i = 0; i < WICK_COUNT(words); i++) {
        if (!wick_parser_is_word(p, words[i])) continue;
        if (p->sig->autocast_given)
            return wick_signature_fail(p->ctx, p->sig->text, p->token.offset,
                                       "autocast is given twice");
        p->sig->autocast_given = true;
        p->sig->autocast = (wick_autocast)i;
        return wick_parser_advance(p);
    }
    return wick_parser_expected(p, "keep, f32 or follow");
}

static wick_status parse_clauses(wick_parser *p)
{
    while (p->token.kind != WICK_TOKEN_END) {
        if (!is_clause(p))
            return wick_parser_expected(p, "',' or one of where, scratch, batch, autocast");
        char clause = p->sig->text[p->token.offset];
        WICK_TRY(wick_parser_advance(p));
        switch (clause) {
        case 'w': WICK_TRY(parse_where(p)); break;
        case 's': WICK_TRY(parse_params(p, WICK_SECTION_SCRATCH)); break;
        case 'b': WICK_TRY(parse_batch(p)); break;
        default: WICK_TRY(parse_autocast(p)); break;
        }
    }
    return WICK_OK;
}

/* ---- the whole ---- */

static wick_status parse_inputs(wick_parser *p)
{
    bool named = p->sig->name == NULL;
    if (named) {
        if (p->token.kind != WICK_TOKEN_NAME) return wick_parser_expected(p, "the operator's name");
        WICK_TRY(wick_parser_take_text(p, &p->sig->name));
        WICK_TRY(wick_parser_take_mark(p, '(', "'(' and the arguments"));
    }
    if (p->token.kind == WICK_TOKEN_END) return wick_parser_expected(p, "arguments or '->'");
    if (p->token.kind != WICK_TOKEN_ARROW && !wick_parser_is_mark(p, ')'))
        WICK_TRY(parse_params(p, WICK_SECTION_INPUT));
    if (named) WICK_TRY(wick_parser_take_mark(p, ')', "',' or ')'"));
    if (p->token.kind != WICK_TOKEN_ARROW)
        return wick_parser_expected(p, p->n_params == 0 || named ? "'->'" : "',' or '->'");
    p->sig->n_inputs = p->n_params;
    return wick_parser_advance(p);
}

static wick_status parse_outputs(wick_parser *p)
{
    if (wick_parser_is_mark(p, '(')) {
        WICK_TRY(wick_parser_advance(p));
        WICK_TRY(
            wick_parser_take_mark(p, ')', "')' (an operator without result is written -> ())"));
    } else {
        WICK_TRY(parse_params(p, WICK_SECTION_OUTPUT));
    }
    p->sig->n_outputs = p->n_params - p->sig->n_inputs;
    return WICK_OK;
}

static wick_status parse_signature(wick_parser *p)
{
    wick_signature *sig = p->sig;
    WICK_TRY(wick_parser_advance(p));
    WICK_TRY(parse_inputs(p));
    WICK_TRY(parse_outputs(p));
    WICK_TRY(parse_clauses(p));
    sig->n_scratch = p->n_params - sig->n_inputs - sig->n_outputs;
    size_t bytes = (size_t)p->n_params * sizeof(wick_param);
    sig->inputs = wick_arena_alloc(p->arena, bytes);
    if (!sig->inputs) return wick_fail(p->ctx, WICK_ENOMEM, "out of memory");
    memcpy(sig->inputs, p->params, bytes);
    sig->outputs = sig->inputs + sig->n_inputs;
    sig->scratch = sig->outputs + sig->n_outputs;
    return wick_signature_check(p->ctx, sig);
}

wick_status wick_signature_parse(wick_ctx *ctx, wick_arena *arena, const char *name,
                                 const char *text, wick_signature **out)
{
    wick_parser p;
    size_t length = strlen(text);
    if (length > WICK_MAX_TEXT)
        return wick_fail(ctx, WICK_EINVAL,
                         "a signature has at most %d characters, this one has %zu", WICK_MAX_TEXT,
                         length);
    memset(&p, 0, sizeof p);
    p.ctx = ctx;
    p.arena = arena;
    p.sig = wick_arena_alloc(arena, sizeof *p.sig);
    if (!p.sig) return wick_fail(ctx, WICK_ENOMEM, "out of memory");
    p.sig->text = wick_arena_strndup(arena, text, length);
    p.sig->name = name ? wick_arena_strndup(arena, name, strlen(name)) : NULL;
    p.sig->dims = wick_arena_alloc(arena, WICK_MAX_NAMED * sizeof(wick_dim));
    p.sig->variables = wick_arena_alloc(arena, WICK_MAX_TYPEVARS * sizeof(wick_variable));
    if (!p.sig->text || (name && !p.sig->name) || !p.sig->dims || !p.sig->variables)
        return wick_fail(ctx, WICK_ENOMEM, "out of memory");
    WICK_TRY(parse_signature(&p));
    *out = p.sig;
    return WICK_OK;
}

/* ---- one type list for all operators of a file ---- */

static bool lists_alike(const wick_variable *a, const wick_variable *b)
{
    int found = 0;
    for (int i = 0; i < a->n_types; i++)
        for (int j = 0; j < b->n_types; j++)
            found += a->types[i] == b->types[j];
    return found == a->n_types && found == b->n_types;
}

wick_status wick_signature_adopt_types(wick_ctx *ctx, wick_signature *sig,
                                       const wick_signature *from)
{
    for (int i = 0; i < sig->n_variables; i++) {
        wick_variable *mine = &sig->variables[i];
        for (int j = 0; j < from->n_variables; j++) {
            const wick_variable *theirs = &from->variables[j];
            if (strcmp(mine->name, theirs->name) != 0 || theirs->n_types == 0) continue;
            if (mine->n_types == 0) {
                mine->n_types = theirs->n_types;
                memcpy(mine->types, theirs->types, sizeof mine->types);
            } else if (!lists_alike(mine, theirs)) {
                return wick_fail(
                    ctx, WICK_EINVAL,
                    "the types of %s differ between %s and %s: a file has one list for each type "
                    "variable, and operators over other types live in another file",
                    mine->name, from->name, sig->name);
            }
        }
    }
    return WICK_OK;
}

wick_status wick_signature_require_types(wick_ctx *ctx, const wick_signature *sig)
{
    for (int i = 0; i < sig->n_variables; i++)
        if (sig->variables[i].n_types == 0)
            return wick_fail(ctx, WICK_EINVAL,
                             "the types of %s are not listed: add `where %s: f32 f64` or the like",
                             sig->variables[i].name, sig->variables[i].name);
    return WICK_OK;
}
