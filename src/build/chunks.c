/* chunks.c -- a C text as pieces at the top level
 *
 *   static const float table[] = {...};      a variable
 *   static __global__ void k(const T *x) {}  a function, marked as a kernel
 *   enum { THREADS = 256 };                  something else
 *
 * No more of C is understood than where such a piece begins and ends, what it is called and how it
 * is marked: names are looked at, never what they mean. Of the file's macros it is known which ones
 * hold a mark or a body.
 */
#include "split.h"

#include <string.h>

bool wick_span_is(wick_span span, const char *text)
{
    return span.start && span.size == strlen(text) && memcmp(span.start, text, span.size) == 0;
}

bool wick_span_same(wick_span a, wick_span b)
{
    return a.start && b.start && a.size == b.size && memcmp(a.start, b.start, a.size) == 0;
}

wick_span wick_span_of(const wick_token *token) { return (wick_span){token->start, token->size}; }

bool wick_span_in(wick_span span, const char *const *words)
{
    for (; *words; words++)
        if (wick_span_is(span, *words)) return true;
    return false;
}

bool wick_span_says(wick_span text, const char *word)
{
    wick_lexer lex;
    wick_lex_start(&lex, text.start, text.size);
    lex.line_start = false;
    for (wick_token t = wick_lex_next(&lex); t.kind != WICK_TOKEN_END; t = wick_lex_next(&lex))
        if (t.kind == WICK_TOKEN_NAME && wick_token_is(&t, word)) return true;
    return false;
}

void *wick_chunks_grow(wick_arena *arena, void *items, int n, int *capacity, size_t bytes)
{
    if (n < *capacity) return items;
    int larger = *capacity ? *capacity * 2 : 16;
    void *room = wick_arena_alloc(arena, (size_t)larger * bytes);
    if (room && n) memcpy(room, items, (size_t)n * bytes);
    if (room) *capacity = larger;
    return room;
}

static void add_chunk(wick_chunks *c, const wick_chunk *chunk)
{
    wick_chunk *items = wick_chunks_grow(c->arena, c->items, c->n, &c->capacity, sizeof *items);
    if (!items) {
        c->failed = true;
        return;
    }
    c->items = items;
    items[c->n++] = *chunk;
}

/* ---- directives ---- */

static bool is_word(char c)
{
    return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static wick_span word_after(wick_span line, wick_span word)
{
    const char *at = word.start ? word.start + word.size : line.start + 1;
    const char *end = line.start + line.size;
    wick_span out;
    while (at < end && (*at == ' ' || *at == '\t'))
        at++;
    out.start = at;
    while (at < end && is_word(*at))
        at++;
    out.size = (size_t)(at - out.start);
    return out;
}

static wick_directive_kind directive_kind(wick_span word)
{
    static const char *const defines[] = {"define", "undef", NULL};
    if (word.size >= 2 && memcmp(word.start, "if", 2) == 0) return WICK_DIRECTIVE_IF;
    if (word.size >= 2 && memcmp(word.start, "el", 2) == 0) return WICK_DIRECTIVE_ELSE;
    if (wick_span_is(word, "endif")) return WICK_DIRECTIVE_ENDIF;
    if (wick_span_is(word, "include")) return WICK_DIRECTIVE_INCLUDE;
    return wick_span_in(word, defines) ? WICK_DIRECTIVE_DEFINE : WICK_DIRECTIVE_OTHER;
}

/* A launch inside of a macro is one as well. */
static bool has_launch(wick_span text)
{
    wick_lexer lex;
    int angles = 0;
    wick_lex_start(&lex, text.start, text.size);
    lex.line_start = false;
    for (wick_token t = wick_lex_next(&lex); t.kind != WICK_TOKEN_END; t = wick_lex_next(&lex)) {
        angles = wick_token_is(&t, "<") ? angles + 1 : 0;
        if (angles == 3) return true;
    }
    return false;
}

static void on_directive(void *arg, const char *start, size_t size, int64_t line)
{
    wick_chunks *c = arg;
    wick_directive d = {WICK_DIRECTIVE_OTHER, {start, size}};
    wick_span word = word_after(d.text, (wick_span){0});
    d.kind = directive_kind(word);
    if (wick_span_is(word, "define")) {
        wick_span name = word_after(d.text, word);
        wick_span text = {name.start, (size_t)(start + size - name.start)};
        add_chunk(
            c, &(wick_chunk){.kind = WICK_CHUNK_MACRO, .text = text, .name = name, .line = line});
        c->launches = c->launches || has_launch(text);
    }
    wick_directive *items = wick_chunks_grow(c->arena, c->directives, c->n_directives,
                                             &c->directives_capacity, sizeof *items);
    if (!items) {
        c->failed = true;
        return;
    }
    c->directives = items;
    items[c->n_directives++] = d;
}

/* ---- pieces ---- */

/* A piece in the reading. */
typedef struct reading {
    wick_chunks *all;
    wick_chunk chunk;
    wick_token before;    /* the token before this one */
    wick_span group_name; /* of the parentheses that are open */
    const char *group;
    int parentheses;
    int linkages; /* braces of `extern "C" {` that are open */
    int angles;   /* of `template <...>` */
    bool open, assigned, function;
    bool value; /* right of a = */
} reading;

static const char *const types[] = {"typedef",   "struct",         "union",
                                    "enum",      "WICK_OP",        "WICK_NAMESPACE",
                                    "WICK_TUNE", "WICK_FAST_MATH", NULL};

/* The latest macro of that name so far. */
static const wick_chunk *find_macro(const wick_chunks *c, wick_span name)
{
    for (int i = c->n - 1; i >= 0; i--)
        if (c->items[i].kind == WICK_CHUNK_MACRO && wick_span_same(c->items[i].name, name))
            return &c->items[i];
    return NULL;
}

static void mark_word(wick_chunk *chunk, wick_span word)
{
    chunk->kernel = chunk->kernel || wick_span_is(word, "__global__");
    chunk->device = chunk->device || wick_span_is(word, "__device__");
    chunk->host = chunk->host || wick_span_is(word, "__host__");
    chunk->constant =
        chunk->constant || wick_span_is(word, "__constant__") || wick_span_is(word, "__managed__");
}

/* A mark may come out of a macro, and that out of another. */
static void mark(const wick_chunks *c, wick_chunk *chunk, wick_span word, int depth)
{
    enum { DEEPEST = 4 };
    const wick_chunk *macro = depth < DEEPEST ? find_macro(c, word) : NULL;
    wick_lexer lex;
    mark_word(chunk, word);
    if (!macro) return;
    wick_lex_start(&lex, macro->text.start, macro->text.size);
    lex.line_start = false;
    for (wick_token t = wick_lex_next(&lex); t.kind != WICK_TOKEN_END; t = wick_lex_next(&lex))
        if (t.kind == WICK_TOKEN_NAME && !wick_token_is(&t, "defined"))
            mark(c, chunk, wick_span_of(&t), depth + 1);
}

/* `DEFINE_HELPER(twice, 2 * x)` without a semicolon: the macro has a body of its own. */
static bool is_macro_call(const reading *r)
{
    const wick_chunk *macro;
    if (r->group_name.start != r->chunk.text.start) return false;
    macro = find_macro(r->all, r->group_name);
    return macro && memchr(macro->text.start, '{', macro->text.size);
}

/* Parentheses outside of braces: the last that follow a name hold the parameters. True: this ends
 * the piece. */
static bool read_group(reading *r, const wick_token *t)
{
    static const char *const decorations[] = {"__launch_bounds__", "__attribute__", "__declspec",
                                              "__cluster_dims__",  "__maxnreg__",   "__align__",
                                              "_Alignas",          "alignas",       "__typeof__",
                                              "decltype",          "noexcept",      NULL};
    if (wick_token_is(t, "(")) {
        if (r->parentheses++ > 0) return false;
        r->group = t->start + 1;
        r->group_name = (wick_span){0};
        if (r->before.kind == WICK_TOKEN_NAME) r->group_name = wick_span_of(&r->before);
        return false;
    }
    if (r->parentheses == 0 || --r->parentheses > 0) return false;
    if (!r->group_name.start || r->assigned || wick_span_in(r->group_name, decorations))
        return false;
    r->chunk.name = r->group_name;
    r->chunk.params = (wick_span){r->group, (size_t)(t->start - r->group)};
    r->chunk.from_macro = is_macro_call(r);
    return r->chunk.from_macro;
}

static void add_name(reading *r, wick_span name)
{
    wick_chunk *c = &r->chunk;
    wick_span *names =
        wick_chunks_grow(r->all->arena, c->names, c->n_names, &c->names_capacity, sizeof *names);
    if (!names) {
        r->all->failed = true;
        return;
    }
    c->names = names;
    names[c->n_names++] = name;
}

static void settle_kind(reading *r)
{
    wick_chunk *c = &r->chunk;
    bool is_type = wick_span_in(c->first, types);
    bool is_call = c->name.start == c->first.start; /* MACRO(...); */
    if (r->function) {
        c->kind = WICK_CHUNK_FUNCTION;
    } else if (c->from_macro || wick_span_is(c->first, "using")) {
        c->kind = WICK_CHUNK_OTHER;
    } else if (r->assigned || (c->n_names && !c->params.start && !is_type &&
                               c->names[0].start != c->first.start)) {
        c->kind = WICK_CHUNK_VARIABLE;
        c->name = c->n_names ? c->names[0] : (wick_span){0};
    } else if (c->params.start && !is_type && !is_call) {
        c->kind = WICK_CHUNK_PROTOTYPE;
    }
}

static void begin(reading *r, const wick_token *t)
{
    *r = (reading){.open = true, .all = r->all, .linkages = r->linkages};
    r->chunk.text.start = t->start;
    r->chunk.first = wick_span_of(t);
    r->chunk.line = t->line;
}

static bool is_kernel(const wick_chunk *c)
{
    return c->from_macro || c->kind == WICK_CHUNK_FUNCTION || c->kind == WICK_CHUNK_PROTOTYPE;
}

static void finish(reading *r, const wick_token *last)
{
    r->chunk.text.size = (size_t)(last->start + last->size - r->chunk.text.start);
    if (r->chunk.kind != WICK_CHUNK_LINKAGE) settle_kind(r);
    if (r->chunk.kernel && !is_kernel(&r->chunk)) { /* no CUDA at all: its compiler may say so */
        r->chunk.kernel = false;
        r->chunk.device = true;
    }
    add_chunk(r->all, &r->chunk);
    r->open = false;
    r->before = (wick_token){0};
}

/* Inside the <...> of a template. */
static bool is_template_parameter(reading *r, const wick_token *t)
{
    if (!wick_span_is(r->chunk.first, "template")) return false;
    if (wick_token_is(t, "<")) r->angles++;
    if (wick_token_is(t, ">") && r->angles > 0) r->angles--;
    return r->angles > 0;
}

/* One token that stands outside of braces; true: it ends the piece. */
static bool read_outside(reading *r, const wick_token *t)
{
    bool ends = false, separates = wick_token_is(t, ",") || wick_token_is(t, ";");
    if (is_template_parameter(r, t) && !wick_token_is(t, ";")) return false;
    if (t->kind == WICK_TOKEN_NAME) mark(r->all, &r->chunk, wick_span_of(t), 0);
    if (wick_token_is(t, "(") || wick_token_is(t, ")")) ends = read_group(r, t);
    if (ends || r->parentheses > 0) return ends;
    if ((separates || wick_token_is(t, "[") || wick_token_is(t, "=")) && !r->value &&
        r->before.kind == WICK_TOKEN_NAME)
        add_name(r, wick_span_of(&r->before));
    if (wick_token_is(t, "=")) r->assigned = r->value = true;
    if (separates) r->value = false;
    return wick_token_is(t, ";");
}

/* A brace at the top level; true: it ends the piece. */
static bool read_brace(reading *r, const wick_token *t, bool linkage)
{
    bool alone = r->chunk.text.start == t->start;
    if (wick_token_is(t, "{")) {
        if (linkage) {
            r->chunk.kind = WICK_CHUNK_LINKAGE;
            r->linkages++;
            return true;
        }
        /* A word may stand between the parameters and the body, but struct ALIGN(16) pair { ... */
        bool is_body = wick_token_is(&r->before, ")") || !wick_span_in(r->chunk.first, types);
        if (r->chunk.params.start && !r->assigned && !r->parentheses) r->function = is_body;
        return false;
    }
    if (alone && r->linkages > 0) {
        r->chunk.kind = WICK_CHUNK_LINKAGE;
        r->linkages--;
    }
    return r->function || alone;
}

void wick_chunks_read(wick_chunks *out, wick_arena *arena, const char *text, size_t bytes)
{
    wick_lexer lex;
    reading r = {.all = out};
    int angles = 0;
    *out = (wick_chunks){.arena = arena};
    wick_lex_start(&lex, text, bytes);
    lex.directive = on_directive;
    lex.directive_arg = out;
    for (wick_token t = wick_lex_next(&lex); t.kind != WICK_TOKEN_END; t = wick_lex_next(&lex)) {
        bool brace = wick_token_is(&t, "{") || wick_token_is(&t, "}"), ends = false;
        angles = wick_token_is(&t, "<") ? angles + 1 : 0;
        out->launches = out->launches || angles == 3;
        if (!r.open) begin(&r, &t);
        if (t.braces == 0)
            ends = brace ? read_brace(&r, &t, lex.braces == 0) : read_outside(&r, &t);
        if (ends)
            finish(&r, &t);
        else
            r.before = t;
    }
}
