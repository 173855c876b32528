/* split.c -- one operator file, two compilers
 *
 *   C compiler   everything but kernels and what is marked __device__; in a kernel's place stands
 *                the function behind WICK_LAUNCH. `#ifdef __CUDACC__` hides no launcher: it is C
 *   NVRTC        kernels (as extern "C"), __device__ things, types, macros, and of the rest what
 *                these reach by name: a kernel may call any plain function of the file
 *   nvcc         for files with <<<>>>: the same and the `_cuda` functions; the C compiler then
 *                sees only what the `_cpu` functions reach
 *
 * What is left out leaves its line breaks, so lines keep their numbers, and its #if, #define and
 * the like, so that those of the rest mean what they meant.
 */
#include "split.h"

#include <string.h>

static wick_status out_of_memory(wick_ctx *ctx)
{
    return wick_fail(ctx, WICK_ENOMEM, "out of memory");
}

/* ---- what a piece is ---- */

static bool ends_with(wick_span name, const char *suffix)
{
    size_t n = strlen(suffix);
    return name.start && name.size > n && memcmp(name.start + name.size - n, suffix, n) == 0;
}

bool wick_chunk_implements(const wick_scan *scan, const wick_chunk *c, const char *suffix)
{
    if (c->kind != WICK_CHUNK_FUNCTION || !ends_with(c->name, suffix)) return false;
    for (int i = 0; i < scan->n_ops; i++) {
        size_t n = strlen(scan->ops[i].name);
        if (c->name.size == n + strlen(suffix) && !memcmp(c->name.start, scan->ops[i].name, n))
            return true;
    }
    return false;
}

static bool is_for_device(const wick_chunk *c) { return c->kernel || c->device || c->constant; }

/* Has a body or a value, so that a compiler that does not need it may choke on it. */
static bool may_go(const wick_chunk *c)
{
    return c->kind == WICK_CHUNK_FUNCTION || c->kind == WICK_CHUNK_PROTOTYPE ||
           c->kind == WICK_CHUNK_VARIABLE;
}

/* A type with functions in it, a template: C++ in a place where C may have something, too. */
static bool is_cpp(const wick_chunk *c)
{
    static const char *const words[] = {"template", "using",     "namespace",  "class",
                                        "operator", "constexpr", "__device__", "__host__",
                                        "public",   "private",   "virtual",    NULL};
    wick_lexer lex;
    wick_token before = {0};
    if (c->kind != WICK_CHUNK_OTHER) return false;
    wick_lex_start(&lex, c->text.start, c->text.size);
    for (wick_token t = wick_lex_next(&lex); t.kind != WICK_TOKEN_END; t = wick_lex_next(&lex)) {
        if (wick_span_in(wick_span_of(&t), words)) return true;
        if (wick_token_is(&t, ":") && wick_token_is(&before, ":")) return true;
        before = t;
    }
    return false;
}

/* ---- the texts ---- */

static wick_status keep_from(wick_ctx *ctx, wick_chunks *c, const wick_scan *scan, bool kernels,
                             const char *suffix)
{
    for (int i = 0; i < c->n; i++) {
        wick_chunk *k = &c->items[i];
        k->kept =
            (kernels && is_for_device(k)) || (suffix && wick_chunk_implements(scan, k, suffix));
        k->followed = false;
    }
    return wick_chunks_reach(ctx, c);
}

static void drop_unkept(const wick_chunks *c, wick_edits *e)
{
    for (int i = 0; i < c->n; i++)
        if (may_go(&c->items[i]) && !c->items[i].kept) wick_edits_replace(e, c->items[i].text, "");
}

/* `extern "C"` in front of a piece, both words; none: it has none. */
static wick_span linkage_of(const wick_chunk *c)
{
    wick_lexer lex;
    wick_lex_start(&lex, c->text.start, c->text.size);
    wick_token word = wick_lex_next(&lex), language = wick_lex_next(&lex);
    if (!wick_token_is(&word, "extern") || language.kind != WICK_TOKEN_STRING)
        return (wick_span){0};
    return (wick_span){word.start, (size_t)(language.start + language.size - word.start)};
}

/* C knows nothing of C++'s linkage, in which the text may put its functions for nvcc. */
static void edit_linkage(const wick_chunks *c, wick_edits *e)
{
    for (int i = 0; i < c->n; i++) {
        wick_span linkage = linkage_of(&c->items[i]);
        if (c->items[i].kind == WICK_CHUNK_LINKAGE)
            wick_edits_replace(e, c->items[i].text, "");
        else if (linkage.start)
            wick_edits_reword(e, linkage, "extern");
    }
}

static wick_status host_text(wick_ctx *ctx, wick_scan *scan, const wick_chunks *c)
{
    wick_edits e = {.chunks = c};
    wick_scan_kernel *kernels = wick_arena_alloc(&scan->arena, (size_t)c->n * sizeof *kernels);
    if (!kernels) return out_of_memory(ctx);
    scan->kernels = kernels;
    for (int i = 0; i < c->n; i++) {
        const wick_chunk *k = &c->items[i];
        const char *with = "";
        if (k->kind == WICK_CHUNK_MACRO || !is_for_device(k)) continue;
        if (!k->kernel && k->host && !k->constant) continue;
        if (k->kernel) WICK_TRY(wick_launcher_make(ctx, scan, k, &with, &kernels[scan->n_kernels]));
        scan->n_kernels += k->kernel && k->kind == WICK_CHUNK_FUNCTION;
        wick_edits_replace(&e, k->text, with);
    }
    edit_linkage(c, &e);
    wick_directives_for_host(scan, c, &e);
    scan->host_text = wick_edits_apply(&e, scan);
    return scan->host_text ? wick_launcher_types(ctx, scan, c) : out_of_memory(ctx);
}

static const char *const storage[] = {"static", "inline", "extern", "__inline__", NULL};

/* Takes `static` and the like out. */
static void edit_storage(wick_span text, wick_edits *e)
{
    wick_lexer lex;
    wick_token before = {0};
    wick_lex_start(&lex, text.start, text.size);
    lex.line_start = false;
    for (wick_token t = wick_lex_next(&lex); t.kind != WICK_TOKEN_END; t = wick_lex_next(&lex)) {
        bool language = t.kind == WICK_TOKEN_STRING && wick_token_is(&before, "extern");
        if (language || wick_span_in(wick_span_of(&t), storage))
            wick_edits_reword(e, wick_span_of(&t), "");
        before = t;
    }
}

/* <wick/device.h> says what a kernel does first. */
static void enter_kernels(const wick_chunks *c, wick_edits *e)
{
    for (int i = 0; i < c->n; i++) {
        const wick_chunk *k = &c->items[i];
        if (!k->kernel || k->kind != WICK_CHUNK_FUNCTION || !k->params.start) continue;
        const char *end = k->text.start + k->text.size;
        wick_lexer lex;
        wick_token t;
        const char *behind = k->params.start + k->params.size;
        wick_lex_start(&lex, behind, (size_t)(end - behind));
        do {
            t = wick_lex_next(&lex);
        } while (t.kind != WICK_TOKEN_END && !wick_token_is(&t, "{"));
        if (t.kind == WICK_TOKEN_END) continue;
        wick_edits_insert(e, (wick_span){t.start + t.size, 0}, " WICK_ENTER_KERNEL");
    }
}

/* Kernels get a name that can be asked for: C's. */
static void edit_kernels(const wick_chunks *c, wick_edits *e)
{
    for (int i = 0; i < c->n; i++) {
        const wick_chunk *k = &c->items[i];
        wick_span front = {k->text.start, (size_t)(k->name.start - k->text.start)};
        if (k->kernel) {
            wick_edits_insert(e, k->text, "extern \"C\" ");
            edit_storage(front, e);
        }
        if (k->kind == WICK_CHUNK_MACRO && wick_span_says(k->text, "__global__"))
            edit_storage(k->text, e);
    }
}

static wick_status device_text(wick_ctx *ctx, wick_scan *scan, wick_chunks *c)
{
    wick_edits e = {.chunks = c};
    WICK_TRY(keep_from(ctx, c, scan, true, NULL));
    edit_kernels(c, &e);
    enter_kernels(c, &e);
    for (int i = 0; i < c->n; i++) {
        const wick_chunk *k = &c->items[i];
        if (k->kept && may_go(k) && !is_for_device(k))
            wick_edits_insert(&e, k->text, "__device__ ");
    }
    drop_unkept(c, &e);
    WICK_TRY(wick_directives_for_device(ctx, scan, c, &e));
    scan->device_text = wick_edits_apply(&e, scan);
    return scan->device_text ? WICK_OK : out_of_memory(ctx);
}

static wick_status nvcc_texts(wick_ctx *ctx, wick_scan *scan, wick_chunks *c)
{
    wick_edits for_nvcc = {.chunks = c}, for_cc = {.chunks = c};
    WICK_TRY(keep_from(ctx, c, scan, true, "_cuda"));
    drop_unkept(c, &for_nvcc);
    enter_kernels(c, &for_nvcc);
    scan->device_text = wick_edits_apply(&for_nvcc, scan);
    WICK_TRY(keep_from(ctx, c, scan, false, "_cpu"));
    drop_unkept(c, &for_cc);
    for (int i = 0; i < c->n; i++)
        if (is_cpp(&c->items[i])) wick_edits_replace(&for_cc, c->items[i].text, "");
    edit_linkage(c, &for_cc);
    wick_directives_beside_nvcc(scan, c, &for_cc);
    scan->host_text = wick_edits_apply(&for_cc, scan);
    bool ok = scan->host_text && scan->device_text;
    return ok ? WICK_OK : out_of_memory(ctx);
}

wick_status wick_scan_split(wick_ctx *ctx, wick_scan *scan)
{
    wick_chunks c;
    bool any = false;
    scan->host_text = scan->text;
    scan->host_types = scan->device_prelude = "";
    wick_chunks_read(&c, &scan->arena, scan->text, scan->text_bytes);
    if (c.failed) return out_of_memory(ctx);
    for (int i = 0; i < c.n; i++) {
        any = any || is_for_device(&c.items[i]);
        scan->fast_math = scan->fast_math || wick_span_is(c.items[i].first, "WICK_FAST_MATH");
    }
    scan->needs_nvcc = c.launches;
    if (c.launches) return nvcc_texts(ctx, scan, &c);
    if (!any) return WICK_OK;
    WICK_TRY(host_text(ctx, scan, &c));
    return device_text(ctx, scan, &c);
}
