/* reach.c -- which pieces of a file need which others
 *
 * By name: a kernel that says `twice` needs what the file calls so, be it a function, a variable or
 * a macro, and what those need in turn. A name that is a member, or that the function itself
 * declares, means something else: a parameter `rows` does not bring in the function `rows`, which
 * is host code that a device compiler would refuse.
 */
#include "split.h"

#include <string.h>

typedef struct names {
    wick_arena *arena;
    wick_span *items;
    int n, capacity;
    bool failed;
} names;

static void add_name(names *out, const wick_token *name)
{
    wick_span *items =
        wick_chunks_grow(out->arena, out->items, out->n, &out->capacity, sizeof *items);
    out->failed = out->failed || !items;
    if (!items) return;
    out->items = items;
    items[out->n++] = wick_span_of(name);
}

static bool has_name(const names *all, wick_span name)
{
    for (int i = 0; i < all->n; i++)
        if (wick_span_same(all->items[i], name)) return true;
    return false;
}

static void start(wick_lexer *lex, wick_span text)
{
    wick_lex_start(lex, text.start, text.size);
    lex->line_start = false;
}

/* Parameters: the name in front of a comma, a bracket or the end. */
static void add_parameters(names *out, wick_span params)
{
    wick_lexer lex;
    wick_token before = {0}, t;
    start(&lex, params);
    do {
        t = wick_lex_next(&lex);
        bool ends = t.kind == WICK_TOKEN_END || wick_token_is(&t, ",") || wick_token_is(&t, "[");
        if (ends && before.kind == WICK_TOKEN_NAME) add_name(out, &before);
        before = t;
    } while (t.kind != WICK_TOKEN_END);
}

/* Locals: a name behind a name, `int64_t rows`. Of `T *rows` nobody can tell that it is no product.
 */
static void add_locals(names *out, wick_span body)
{
    static const char *const no_types[] = {"return", "else", "do", "case", "goto", "sizeof", NULL};
    wick_lexer lex;
    wick_token before = {0};
    start(&lex, body);
    for (wick_token t = wick_lex_next(&lex); t.kind != WICK_TOKEN_END; t = wick_lex_next(&lex)) {
        if (t.kind == WICK_TOKEN_NAME && before.kind == WICK_TOKEN_NAME &&
            !wick_span_in(wick_span_of(&before), no_types))
            add_name(out, &t);
        before = t;
    }
}

static void add_own(names *out, const wick_chunk *c)
{
    if (c->kind != WICK_CHUNK_FUNCTION || !c->params.start) return;
    const char *body = c->params.start + c->params.size, *end = c->text.start + c->text.size;
    add_parameters(out, c->params);
    add_locals(out, (wick_span){body, (size_t)(end - body)});
}

static bool is_called(const wick_chunk *c, wick_span word)
{
    if (c->kind != WICK_CHUNK_VARIABLE) return wick_span_same(c->name, word);
    for (int i = 0; i < c->n_names; i++)
        if (wick_span_same(c->names[i], word)) return true;
    return false;
}

static void keep(wick_chunks *c, wick_span word)
{
    for (int i = 0; i < c->n; i++)
        c->items[i].kept = c->items[i].kept || is_called(&c->items[i], word);
}

/* Keeps what the names in a piece stand for; false: out of memory. */
static bool follow(wick_chunks *c, const wick_chunk *from)
{
    names own = {.arena = c->arena};
    wick_lexer lex;
    wick_token before = {0}, second = {0};
    add_own(&own, from);
    start(&lex, from->text);
    for (wick_token t = wick_lex_next(&lex); t.kind != WICK_TOKEN_END; t = wick_lex_next(&lex)) {
        bool member = wick_token_is(&before, ".") ||
                      (wick_token_is(&before, ">") && wick_token_is(&second, "-"));
        if (t.kind == WICK_TOKEN_NAME && !member && !has_name(&own, wick_span_of(&t)))
            keep(c, wick_span_of(&t));
        second = before;
        before = t;
    }
    return !own.failed;
}

wick_status wick_chunks_reach(wick_ctx *ctx, wick_chunks *chunks)
{
    for (bool grew = true; grew;) {
        grew = false;
        for (int i = 0; i < chunks->n; i++) {
            wick_chunk *c = &chunks->items[i];
            if (!c->kept || c->followed) continue;
            c->followed = grew = true;
            if (!follow(chunks, c)) return wick_fail(ctx, WICK_ENOMEM, "out of memory");
        }
    }
    return WICK_OK;
}
