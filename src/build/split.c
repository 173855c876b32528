/* split.c -- one operator file, two compilers
 *
 *   C compiler    everything but kernels and what is marked __device__; in a kernel's place stands
 * the function behind WICK_LAUNCH, with the kernel's own parameters:
 *                 `#ifdef __CUDACC__` without an #else hides nothing, the launchers in it are C
 *   NVRTC         kernels (as extern "C"), __device__ things, types, macros, and of the rest what
 * these reach by name: a kernel may call any plain function of the file nvcc          for files
 * with <<<>>>: the same and the `_cuda` functions; the C compiler then sees only what the `_cpu`
 * functions reach
 *
 * What is left out leaves its line breaks, so lines keep their numbers.
 */
#include "split.h"

#include <stdlib.h>
#include <string.h>

/* ---- edits ---- */

typedef struct edit {
    wick_span where;
    const char *with;
} edit;

typedef struct edits {
    wick_arena *arena;
    edit *items;
    int n, capacity;
    bool failed;
} edits;

static void add_edit(edits *e, wick_span where, const char *with)
{
    if (!with) e->failed = true;
    if (e->n == e->capacity) {
        int larger = e->capacity ? e->capacity * 2 : 32;
        edit *items = wick_arena_alloc(e->arena, (size_t)larger * sizeof *items);
        if (!items) {
            e->failed = true;
            return;
        }
        if (e->n) memcpy(items, e->items, (size_t)e->n * sizeof *items);
        e->items = items;
        e->capacity = larger;
    }
    e->items[e->n++] = (edit){where, with};
}

static int by_place(const void *a, const void *b)
{
    const edit *x = a, *y = b;
    if (x->where.start != y->where.start) return x->where.start < y->where.start ? -1 : 1;
    return x->where.size < y->where.size ? -1 : x->where.size > y->where.size;
}

static void add_line_breaks(wick_text *out, wick_span text)
{
    for (size_t i = 0; i < text.size; i++)
        if (text.start[i] == '\n') wick_text_add(out, "\n");
}

/* The text with its edits, in the arena; what lies inside of a part that is gone already is not
 * edited. */
static const char *apply(edits *e, const char *text, size_t bytes)
{
    wick_text out = {0};
    const char *at = text, *kept;
    if (e->n) qsort(e->items, (size_t)e->n, sizeof *e->items, by_place);
    for (int i = 0; i < e->n; i++) {
        wick_span where = e->items[i].where;
        if (where.start < at) continue;
        wick_text_addn(&out, at, (size_t)(where.start - at));
        wick_text_add(&out, e->items[i].with ? e->items[i].with : "");
        add_line_breaks(&out, where);
        at = where.start + where.size;
    }
    wick_text_addn(&out, at, (size_t)(text + bytes - at));
    kept = out.failed || e->failed ? NULL
                                   : wick_arena_strndup(e->arena, wick_text_str(&out), out.size);
    wick_text_free(&out);
    return kept;
}

/* ---- what reaches what ---- */

static bool same(wick_span a, wick_span b)
{
    return a.start && b.start && a.size == b.size && memcmp(a.start, b.start, a.size) == 0;
}

/* Keeps the pieces that the names in `text` stand for; true: there was a new one. */
static bool reach_from(wick_chunks *c, wick_span text)
{
    wick_lexer lex;
    bool grew = false;
    wick_lex_start(&lex, text.start, text.size);
    lex.line_start = false;
    for (wick_token t = wick_lex_next(&lex); t.kind != WICK_TOKEN_END; t = wick_lex_next(&lex)) {
        wick_span word = {t.start, t.size};
        if (t.kind != WICK_TOKEN_NAME) continue;
        for (int i = 0; i < c->n; i++) {
            if (c->items[i].kept || !same(c->items[i].name, word)) continue;
            c->items[i].kept = grew = true;
        }
    }
    return grew;
}

/* From the pieces that are kept to all that they need. */
static void reach(wick_chunks *c)
{
    for (bool grew = true; grew;) {
        grew = false;
        for (int i = 0; i < c->n; i++)
            if (c->items[i].kept) grew = reach_from(c, c->items[i].text) || grew;
    }
}

static bool ends_with(wick_span name, const char *suffix)
{
    size_t n = strlen(suffix);
    return name.start && name.size > n && memcmp(name.start + name.size - n, suffix, n) == 0;
}

static bool is_implementation(const wick_scan *scan, const wick_chunk *c, const char *suffix)
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

/* ---- the function behind WICK_LAUNCH ---- */

/* Adds the parameters on one line, and the addresses of them all to `args`. */
static wick_status add_parameters(wick_ctx *ctx, const wick_scan *scan, const wick_chunk *kernel,
                                  wick_text *out, wick_text *args)
{
    wick_lexer lex;
    wick_token name = {0};
    int depth = 0, n = 0;
    bool named = true;
    wick_lex_start(&lex, kernel->params.start, kernel->params.size);
    for (;;) {
        wick_token t = wick_lex_next(&lex);
        bool ends = t.kind == WICK_TOKEN_END || (depth == 0 && wick_token_is(&t, ","));
        if (ends && name.start && !(n == 0 && wick_token_is(&name, "void"))) {
            wick_text_printf(args, "(void *)&%.*s, ", (int)name.size, name.start);
            n++;
        }
        if (ends && !name.start && (n || t.kind != WICK_TOKEN_END)) named = false;
        if (t.kind == WICK_TOKEN_END) break;
        if (ends) name = (wick_token){0};
        if (wick_token_is(&t, "(") || wick_token_is(&t, "[")) depth++;
        if (wick_token_is(&t, ")") || wick_token_is(&t, "]")) depth--;
        if (t.kind == WICK_TOKEN_NAME && depth == 0) name = t;
        if (wick_token_is(&t, "__grid_constant__")) continue;
        wick_text_printf(out, "%s%.*s", t.kind == WICK_TOKEN_NAME ? " " : "", (int)t.size, t.start);
    }
    if (named) return WICK_OK;
    return wick_fail(ctx, WICK_EINVAL, "%s:%lld: a parameter of the kernel %.*s has no name",
                     scan->file, (long long)kernel->line, (int)kernel->name.size,
                     kernel->name.start);
}

static wick_status make_launcher(wick_ctx *ctx, wick_scan *scan, const wick_chunk *kernel,
                                 const char **out)
{
    wick_text params = {0}, args = {0}, text = {0};
    int n = (int)kernel->name.size;
    const char *name = kernel->name.start;
    wick_status status = add_parameters(ctx, scan, kernel, &params, &args);
    bool none = args.size == 0;
    wick_text_printf(&text,
                     "static wick_kernel wick_kernel_%.*s = {\"%.*s\", &wick_this_device, 0}; "
                     "static WICK_UNUSED wick_status wick_launch_%.*s(wick_ctx *wick_ctx_, "
                     "wick_dim3 wick_grid_, wick_dim3 wick_block_, int64_t wick_shared_%s%s) "
                     "{ void *wick_args_[] = {%s(void *)0}; "
                     "return wick_this_device.launch(wick_ctx_, &wick_kernel_%.*s, wick_grid_, "
                     "wick_block_, wick_shared_, wick_args_); }",
                     n, name, n, name, n, name, none ? "" : ",", none ? "" : wick_text_str(&params),
                     wick_text_str(&args), n, name);
    bool failed = text.failed || params.failed || args.failed;
    *out = failed ? NULL : wick_arena_strndup(&scan->arena, text.data, text.size);
    wick_text_free(&params);
    wick_text_free(&args);
    wick_text_free(&text);
    if (status == WICK_OK && !*out) status = wick_fail(ctx, WICK_ENOMEM, "out of memory");
    return status;
}

/* ---- directives ---- */

/* `#ifdef __CUDACC__` or `#if defined(__CUDACC__)`, nothing else in it. */
static bool asks_for_cuda(wick_span text)
{
    wick_lexer lex;
    char seen[64] = "";
    wick_lex_start(&lex, text.start + 1, text.size - 1);
    lex.line_start = false;
    for (wick_token t = wick_lex_next(&lex); t.kind != WICK_TOKEN_END; t = wick_lex_next(&lex)) {
        if (wick_token_is(&t, "(") || wick_token_is(&t, ")")) continue;
        if (strlen(seen) + t.size + 2 > sizeof seen) return false;
        strncat(seen, t.start, t.size);
        strcat(seen, " ");
    }
    return !strcmp(seen, "ifdef __CUDACC__ ") || !strcmp(seen, "if defined __CUDACC__ ");
}

/* The #if at `at` has an #else or #elif of its own. */
static bool has_else(const wick_chunks *c, int at)
{
    int depth = 0;
    for (int i = at + 1; i < c->n_directives; i++) {
        wick_directive_kind kind = c->directives[i].kind;
        if (kind == WICK_DIRECTIVE_IF) depth++;
        if (kind == WICK_DIRECTIVE_ELSE && depth == 0) return true;
        if (kind == WICK_DIRECTIVE_ENDIF && depth-- == 0) return false;
    }
    return false;
}

static bool includes(wick_span directive, const char *const *prefixes)
{
    const char *end = directive.start + directive.size;
    const char *at = memchr(directive.start, '<', directive.size);
    for (; at && *prefixes; prefixes++) {
        size_t n = strlen(*prefixes);
        if ((size_t)(end - at - 1) >= n && memcmp(at + 1, *prefixes, n) == 0) return true;
    }
    return false;
}

static const char *const cuda_headers[] = {"cuda",
                                           "cooperative_groups",
                                           "mma.h>",
                                           "cub/",
                                           "thrust/",
                                           "nv/",
                                           "curand",
                                           "vector_types.h>",
                                           "vector_functions.h>",
                                           "math_constants.h>",
                                           "device_",
                                           "sm_",
                                           "texture_",
                                           "surface_",
                                           NULL};

/* The rest of libc has no meaning in a kernel. */
static const char *const device_headers[] = {"wick/",     "stdint.h>", "stdbool.h>", "stddef.h>",
                                             "math.h>",   "float.h>",  "limits.h>",  "string.h>",
                                             "stdarg.h>", "assert.h>", NULL};

static void edit_host_directives(const wick_chunks *c, bool guards_too, edits *e)
{
    for (int i = 0; i < c->n_directives; i++) {
        const wick_directive *d = &c->directives[i];
        if (d->kind == WICK_DIRECTIVE_INCLUDE && includes(d->text, cuda_headers))
            add_edit(e, d->text, "");
        if (guards_too && d->kind == WICK_DIRECTIVE_IF && asks_for_cuda(d->text) && !has_else(c, i))
            add_edit(e, d->text, "#if 1");
    }
}

static void edit_device_directives(const wick_chunks *c, edits *e)
{
    for (int i = 0; i < c->n_directives; i++) {
        const wick_directive *d = &c->directives[i];
        if (d->kind != WICK_DIRECTIVE_INCLUDE || !memchr(d->text.start, '<', d->text.size))
            continue;
        if (!includes(d->text, cuda_headers) && !includes(d->text, device_headers))
            add_edit(e, d->text, "");
    }
}

/* ---- the three texts ---- */

static void keep_from(wick_chunks *c, const wick_scan *scan, bool kernels, const char *suffix)
{
    for (int i = 0; i < c->n; i++) {
        wick_chunk *k = &c->items[i];
        k->kept = (kernels && is_for_device(k)) || (suffix && is_implementation(scan, k, suffix));
    }
    reach(c);
}

static void drop_unkept(const wick_chunks *c, edits *e)
{
    for (int i = 0; i < c->n; i++)
        if (may_go(&c->items[i]) && !c->items[i].kept) add_edit(e, c->items[i].text, "");
}

static wick_status host_text(wick_ctx *ctx, wick_scan *scan, wick_chunks *c)
{
    edits e = {.arena = &scan->arena};
    for (int i = 0; i < c->n; i++) {
        const wick_chunk *k = &c->items[i];
        const char *with = "";
        if (!k->kernel && !((k->device || k->constant) && !k->host)) continue;
        if (k->kernel && k->kind == WICK_CHUNK_FUNCTION) {
            WICK_TRY(make_launcher(ctx, scan, k, &with));
            scan->n_kernels++;
        }
        add_edit(&e, k->text, with);
    }
    edit_host_directives(c, true, &e);
    scan->host_text = apply(&e, scan->text, scan->text_bytes);
    return scan->host_text ? WICK_OK : wick_fail(ctx, WICK_ENOMEM, "out of memory");
}

/* Kernels get a name that can be asked for: C's. */
static void edit_kernel(const wick_chunk *k, edits *e)
{
    static const char *const linkage[] = {"static", "inline", "extern", NULL};
    wick_lexer lex;
    wick_lex_start(&lex, k->text.start, k->text.size);
    add_edit(e, (wick_span){k->text.start, 0}, "extern \"C\" ");
    for (wick_token t = wick_lex_next(&lex); t.kind == WICK_TOKEN_NAME; t = wick_lex_next(&lex))
        for (const char *const *word = linkage; *word; word++)
            if (wick_token_is(&t, *word)) add_edit(e, (wick_span){t.start, t.size}, "");
}

static wick_status device_text(wick_ctx *ctx, wick_scan *scan, wick_chunks *c)
{
    edits e = {.arena = &scan->arena};
    keep_from(c, scan, true, NULL);
    for (int i = 0; i < c->n; i++) {
        const wick_chunk *k = &c->items[i];
        if (k->kernel) edit_kernel(k, &e);
        if (k->kept && may_go(k) && !is_for_device(k))
            add_edit(&e, (wick_span){k->text.start, 0}, "__device__ ");
    }
    drop_unkept(c, &e);
    edit_device_directives(c, &e);
    scan->device_text = apply(&e, scan->text, scan->text_bytes);
    return scan->device_text ? WICK_OK : wick_fail(ctx, WICK_ENOMEM, "out of memory");
}

static bool is_cpp(const wick_chunk *c)
{
    return wick_span_is(c->first, "template") || wick_span_is(c->first, "using") ||
           wick_span_is(c->first, "namespace") || wick_span_is(c->first, "class");
}

static wick_status nvcc_texts(wick_ctx *ctx, wick_scan *scan, wick_chunks *c)
{
    edits for_nvcc = {.arena = &scan->arena}, for_cc = {.arena = &scan->arena};
    keep_from(c, scan, true, "_cuda");
    drop_unkept(c, &for_nvcc);
    scan->device_text = apply(&for_nvcc, scan->text, scan->text_bytes);
    keep_from(c, scan, false, "_cpu");
    drop_unkept(c, &for_cc);
    for (int i = 0; i < c->n; i++)
        if (is_cpp(&c->items[i])) add_edit(&for_cc, c->items[i].text, "");
    edit_host_directives(c, false, &for_cc);
    scan->host_text = apply(&for_cc, scan->text, scan->text_bytes);
    bool ok = scan->host_text && scan->device_text;
    return ok ? WICK_OK : wick_fail(ctx, WICK_ENOMEM, "out of memory");
}

wick_status wick_scan_split(wick_ctx *ctx, wick_scan *scan)
{
    wick_chunks c;
    bool any = false;
    scan->host_text = scan->text;
    wick_chunks_read(&c, &scan->arena, scan->text, scan->text_bytes);
    if (c.failed) return wick_fail(ctx, WICK_ENOMEM, "out of memory");
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
