/* chunks.c -- a C text as pieces at the top level
 *
 *   static const float table[] = {...};      a variable
 *   static __global__ void k(const T *x) {}  a function, marked as a kernel
 *   enum { THREADS = 256 };                  something else
 *
 * No more of C is understood than where such a piece begins and ends, what it is called and how it
 * is marked: names are looked at, never what they mean.
 */
#include "split.h"

#include <string.h>

bool wick_span_is(wick_span span, const char *text)
{
    return span.start && span.size == strlen(text) && memcmp(span.start, text, span.size) == 0;
}

static wick_span span_of(const wick_token *t) { return (wick_span){t->start, t->size}; }

static bool is_one_of(wick_span span, const char *const *words)
{
    for (; *words; words++)
        if (wick_span_is(span, *words)) return true;
    return false;
}

/* Room for one more in an array that doubles inside the arena; NULL when out of memory. */
static void *grow(wick_chunks *c, void *items, int n, int *capacity, size_t bytes)
{
    if (n < *capacity) return items;
    int larger = *capacity ? *capacity * 2 : 16;
    void *room = wick_arena_alloc(c->arena, (size_t)larger * bytes);
    if (!room) {
        c->failed = true;
        return NULL;
    }
    if (n) memcpy(room, items, (size_t)n * bytes);
    *capacity = larger;
    return room;
}

static void add_chunk(wick_chunks *c, const wick_chunk *chunk)
{
    wick_chunk *items = grow(c, c->items, c->n, &c->capacity, sizeof *items);
    if (!items) return;
    c->items = items;
    items[c->n++] = *chunk;
}

/* ---- directives ---- */

static wick_span word_after(wick_span line, wick_span word)
{
    const char *at = word.start ? word.start + word.size : line.start + 1;
    const char *end = line.start + line.size;
    wick_span out;
    while (at < end && (*at == ' ' || *at == '\t'))
        at++;
    out.start = at;
    while (at < end && (*at == '_' || (*at >= '0' && *at <= '9') || (*at >= 'a' && *at <= 'z') ||
                        (*at >= 'A' && *at <= 'Z')))
        at++;
    out.size = (size_t)(at - out.start);
    return out;
}

static void on_directive(void *arg, const char *start, size_t size, int64_t line)
{
    wick_chunks *c = arg;
    wick_directive d = {WICK_DIRECTIVE_OTHER, {start, size}};
    wick_span word = word_after(d.text, (wick_span){0});
    if (word.size >= 2 && memcmp(word.start, "if", 2) == 0) d.kind = WICK_DIRECTIVE_IF;
    if (word.size >= 2 && memcmp(word.start, "el", 2) == 0) d.kind = WICK_DIRECTIVE_ELSE;
    if (wick_span_is(word, "endif")) d.kind = WICK_DIRECTIVE_ENDIF;
    if (wick_span_is(word, "include")) d.kind = WICK_DIRECTIVE_INCLUDE;
    if (wick_span_is(word, "define")) {
        wick_span name = word_after(d.text, word);
        wick_span text = {name.start, (size_t)(start + size - name.start)};
        add_chunk(
            c, &(wick_chunk){.kind = WICK_CHUNK_MACRO, .text = text, .name = name, .line = line});
    }
    wick_directive *items =
        grow(c, c->directives, c->n_directives, &c->directives_capacity, sizeof *items);
    if (!items) return;
    c->directives = items;
    items[c->n_directives++] = d;
}

/* ---- pieces ---- */

/* A piece in the reading. */
typedef struct reading {
    wick_chunk chunk;
    wick_token before;    /* the token before this one */
    wick_span group_name; /* of the parentheses that are open */
    const char *group;
    wick_span bracketed; /* the name in front of the first [ */
    int parentheses;
    bool open, assigned, function;
} reading;

static void mark(wick_chunk *chunk, wick_span word)
{
    chunk->kernel = chunk->kernel || wick_span_is(word, "__global__");
    chunk->device = chunk->device || wick_span_is(word, "__device__");
    chunk->host = chunk->host || wick_span_is(word, "__host__");
    chunk->constant =
        chunk->constant || wick_span_is(word, "__constant__") || wick_span_is(word, "__managed__");
}

/* Parentheses outside of braces: the last that follow a name hold the parameters. */
static void read_group(reading *r, const wick_token *t)
{
    static const char *const decorations[] = {
        "__launch_bounds__", "__attribute__", "__declspec", "__cluster_dims__", "__maxnreg__",
        "__align__",         "_Alignas",      "alignas",    "__typeof__",       NULL};
    if (wick_token_is(t, "(")) {
        if (r->parentheses++ > 0) return;
        r->group = t->start + 1;
        r->group_name = (wick_span){0};
        if (r->before.kind == WICK_TOKEN_NAME) r->group_name = span_of(&r->before);
        return;
    }
    if (r->parentheses == 0 || --r->parentheses > 0) return;
    if (!r->group_name.start || r->assigned || is_one_of(r->group_name, decorations)) return;
    r->chunk.name = r->group_name;
    r->chunk.params = (wick_span){r->group, (size_t)(t->start - r->group)};
}

static void settle_kind(reading *r)
{
    static const char *const types[] = {"typedef",   "struct",         "union",
                                        "enum",      "WICK_OP",        "WICK_NAMESPACE",
                                        "WICK_TUNE", "WICK_FAST_MATH", NULL};
    wick_chunk *c = &r->chunk;
    bool is_type = is_one_of(c->first, types);
    if (r->function) {
        c->kind = WICK_CHUNK_FUNCTION;
    } else if (r->assigned || ((c->device || c->constant) && !c->params.start)) {
        c->kind = WICK_CHUNK_VARIABLE;
        c->name = r->bracketed;
    } else if (c->params.start && !is_type) {
        c->kind = WICK_CHUNK_PROTOTYPE;
    }
}

static void finish(wick_chunks *c, reading *r, const wick_token *last)
{
    r->chunk.text.size = (size_t)(last->start + last->size - r->chunk.text.start);
    settle_kind(r);
    add_chunk(c, &r->chunk);
    *r = (reading){0};
}

static void begin(reading *r, const wick_token *t)
{
    *r = (reading){.open = true};
    r->chunk.text.start = t->start;
    r->chunk.first = span_of(t);
    r->chunk.line = t->line;
}

/* One token that stands outside of braces; true: it ends the piece. */
static bool read_outside(reading *r, const wick_token *t)
{
    if (t->kind == WICK_TOKEN_NAME) mark(&r->chunk, span_of(t));
    if (wick_token_is(t, "(") || wick_token_is(t, ")")) read_group(r, t);
    if (r->parentheses > 0) return false;
    bool ends_name = wick_token_is(t, "[") || wick_token_is(t, "=") || wick_token_is(t, ";");
    if (ends_name && !r->bracketed.start && r->before.kind == WICK_TOKEN_NAME)
        r->bracketed = span_of(&r->before);
    if (wick_token_is(t, "=")) r->assigned = true;
    return wick_token_is(t, ";");
}

void wick_chunks_read(wick_chunks *out, wick_arena *arena, const char *text, size_t bytes)
{
    wick_lexer lex;
    reading r = {0};
    int angles = 0;
    *out = (wick_chunks){.arena = arena};
    wick_lex_start(&lex, text, bytes);
    lex.directive = on_directive;
    lex.directive_arg = out;
    for (wick_token t = wick_lex_next(&lex); t.kind != WICK_TOKEN_END; t = wick_lex_next(&lex)) {
        bool linkage = wick_token_is(&t, "{") && lex.braces == t.braces;
        bool ends;
        angles = wick_token_is(&t, "<") ? angles + 1 : 0;
        out->launches = out->launches || angles == 3;
        if (!r.open) begin(&r, &t);
        if (wick_token_is(&t, "}")) {
            /* One that opened nothing closes an extern "C" {. */
            ends = t.braces == 0 && (r.function || r.chunk.text.start == t.start);
        } else if (wick_token_is(&t, "{")) {
            if (t.braces == 0 && wick_token_is(&r.before, ")") && !r.assigned && !r.parentheses)
                r.function = r.chunk.params.start != NULL;
            ends = linkage;
        } else {
            ends = t.braces == 0 && read_outside(&r, &t);
        }
        if (ends)
            finish(out, &r, &t);
        else
            r.before = t;
    }
}
