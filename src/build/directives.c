/* directives.c -- what #if and #include become for each compiler
 *
 * Launchers are C, also behind an #ifdef __CUDACC__; NVRTC has none of libc's headers, and the C
 * compiler none of CUDA's.
 */
#include "split.h"

#include <string.h>

/* ---- #ifdef __CUDACC__ ---- */

/* An #if and what belongs to it, as indices of directives. */
typedef struct guard {
    int start, middle, end; /* middle: the #else; -1: there is none, or several */
} guard;

static bool find_guard(const wick_chunks *c, int at, guard *out)
{
    int depth = 0, n_else = 0;
    *out = (guard){at, -1, -1};
    for (int i = at + 1; i < c->n_directives && out->end < 0; i++) {
        wick_directive_kind kind = c->directives[i].kind;
        if (kind == WICK_DIRECTIVE_IF) depth++;
        if (kind == WICK_DIRECTIVE_ELSE && depth == 0) {
            out->middle = i;
            n_else++;
        }
        if (kind == WICK_DIRECTIVE_ENDIF && depth-- == 0) out->end = i;
    }
    if (n_else > 1) out->middle = -1;
    return out->end >= 0 && n_else < 2;
}

/* 1: `#ifdef __CUDACC__` or `#if defined(__CUDACC__)`, nothing else in it; -1: the opposite; 0:
 * neither. */
static int asks_for_cuda(wick_span text)
{
    static const struct {
        const char *words;
        int meaning;
    } known[] = {{"ifdef __CUDACC__ ", 1},
                 {"if defined __CUDACC__ ", 1},
                 {"if __CUDACC__ ", 1},
                 {"ifndef __CUDACC__ ", -1},
                 {"if ! defined __CUDACC__ ", -1}};
    wick_lexer lex;
    char seen[64] = "";
    size_t n = 0;
    wick_lex_start(&lex, text.start + 1, text.size - 1);
    lex.line_start = false;
    for (wick_token t = wick_lex_next(&lex); t.kind != WICK_TOKEN_END; t = wick_lex_next(&lex)) {
        if (wick_token_is(&t, "(") || wick_token_is(&t, ")")) continue;
        if (n + t.size + 2 > sizeof seen) return 0;
        memcpy(seen + n, t.start, t.size);
        n += t.size;
        seen[n++] = ' ';
        seen[n] = '\0';
    }
    for (int i = 0; i < WICK_COUNT(known); i++)
        if (!strcmp(seen, known[i].words)) return known[i].meaning;
    return 0;
}

/* A kernel, or an operator's function. */
static bool is_essential(const wick_scan *scan, const wick_chunk *c)
{
    return (c->kernel && c->kind == WICK_CHUNK_FUNCTION) ||
           wick_chunk_implements(scan, c, "_cuda") || wick_chunk_implements(scan, c, "_cpu");
}

static bool lies_between(const wick_chunks *c, const wick_chunk *what, int from, int to)
{
    return what->text.start > c->directives[from].text.start &&
           what->text.start < c->directives[to].text.start;
}

/* Between two directives there is something essential that is not between two others as well. */
static bool has_own(const wick_scan *scan, const wick_chunks *c, int from, int to, int other_from,
                    int other_to)
{
    for (int i = 0; i < c->n; i++) {
        const wick_chunk *k = &c->items[i];
        bool again = false;
        if (!lies_between(c, k, from, to) || !is_essential(scan, k)) continue;
        for (int j = 0; j < c->n; j++)
            again = again || (lies_between(c, &c->items[j], other_from, other_to) &&
                              wick_span_same(c->items[j].name, k->name));
        if (!again) return true;
    }
    return false;
}

static bool has_kernels(const wick_scan *scan, const wick_chunks *c, int from, int to)
{
    for (int i = 0; i < c->n; i++) {
        const wick_chunk *k = &c->items[i];
        if (lies_between(c, k, from, to) && (wick_chunk_implements(scan, k, "_cuda") ||
                                             (k->kernel && k->kind == WICK_CHUNK_FUNCTION)))
            return true;
    }
    return false;
}

/* The C compiler sees the branch for CUDA, where there are launchers in it; and the other one as
 * well, where it has something that the first has not. */
static void edit_guard(const wick_scan *scan, const wick_chunks *c, guard g, int meaning,
                       wick_edits *e)
{
    wick_span start = c->directives[g.start].text;
    if (g.middle < 0) {
        if (meaning > 0) wick_edits_reword(e, start, "#if 1");
        return;
    }
    int cuda_from = meaning > 0 ? g.start : g.middle, cuda_to = meaning > 0 ? g.middle : g.end;
    int c_from = meaning > 0 ? g.middle : g.start, c_to = meaning > 0 ? g.end : g.middle;
    if (!has_kernels(scan, c, cuda_from, cuda_to)) return;
    bool both = has_own(scan, c, c_from, c_to, cuda_from, cuda_to);
    wick_edits_reword(e, start, both || meaning > 0 ? "#if 1" : "#if 0");
    if (both) wick_edits_reword(e, c->directives[g.middle].text, "");
}

/* ---- headers ---- */

/* What a directive includes by <...>, without the brackets; none for "...". */
static wick_span system_header(const wick_directive *d)
{
    const char *end = d->text.start + d->text.size;
    const char *open = memchr(d->text.start, '<', d->text.size);
    const char *close = open ? memchr(open, '>', (size_t)(end - open)) : NULL;
    const char *quote = memchr(d->text.start, '"', d->text.size);
    if (d->kind != WICK_DIRECTIVE_INCLUDE || !close || (quote && quote < open))
        return (wick_span){0};
    return (wick_span){open + 1, (size_t)(close - open - 1)};
}

/* Names; or beginnings of names, where they end with a slash. */
static bool is_header(wick_span header, const char *const *list)
{
    for (; header.start && *list; list++) {
        size_t n = strlen(*list);
        bool folder = (*list)[n - 1] == '/';
        if (wick_span_is(header, *list)) return true;
        if (folder && header.size > n && !memcmp(header.start, *list, n)) return true;
    }
    return false;
}

/* CUDA's for host code: what they hold for kernels is known to NVRTC by itself. */
static const char *const runtime_headers[] = {"cuda.h",
                                              "cuda_runtime.h",
                                              "cuda_runtime_api.h",
                                              "device_launch_parameters.h",
                                              "device_functions.h",
                                              "device_atomic_functions.h",
                                              "vector_types.h",
                                              "vector_functions.h",
                                              "nvtx3/",
                                              NULL};
/* CUDA's for kernels. */
static const char *const kernel_headers[] = {"cuda_fp16.h",
                                             "cuda_bf16.h",
                                             "cuda_fp8.h",
                                             "cuda_fp6.h",
                                             "cuda_fp4.h",
                                             "cuda_pipeline.h",
                                             "cuda_pipeline_primitives.h",
                                             "cuda_awbarrier.h",
                                             "cooperative_groups.h",
                                             "cooperative_groups/",
                                             "math_constants.h",
                                             "mma.h",
                                             "curand_kernel.h",
                                             "cuda/",
                                             "cub/",
                                             "nv/",
                                             NULL};
/* Those that the build has for NVRTC (device.c), and ours. */
static const char *const known_headers[] = {"wick/",    "stdint.h", "stdbool.h", "stddef.h",
                                            "math.h",   "float.h",  "limits.h",  "string.h",
                                            "stdarg.h", "assert.h", NULL};

void wick_directives_for_host(const wick_scan *scan, const wick_chunks *c, wick_edits *e)
{
    for (int i = 0; i < c->n_directives; i++) {
        const wick_directive *d = &c->directives[i];
        wick_span header = system_header(d);
        guard g;
        if (header.start &&
            (is_header(header, runtime_headers) || is_header(header, kernel_headers)))
            wick_edits_reword(e, d->text, "");
        int meaning = d->kind == WICK_DIRECTIVE_IF ? asks_for_cuda(d->text) : 0;
        if (meaning && find_guard(c, i, &g)) edit_guard(scan, c, g, meaning, e);
    }
}

/* <vector>, "reduce.cuh": no name for a header of C. */
static bool is_of_c(const wick_directive *d)
{
    const char *end = d->text.start + d->text.size;
    const char *at = d->text.start;
    while (at < end && *at != '<' && *at != '"')
        at++;
    if (at == end) return true; /* the name of a macro */
    const char *close = memchr(at + 1, *at == '<' ? '>' : '"', (size_t)(end - at - 1));
    return close && close - at > 3 && !memcmp(close - 2, ".h", 2);
}

void wick_directives_beside_nvcc(const wick_scan *scan, const wick_chunks *c, wick_edits *e)
{
    static const char *const ours[] = {"wick/", NULL};
    bool any = false; /* something that C is needed for */
    for (int i = 0; i < scan->n_ops; i++)
        any = any || scan->ops[i].has_cpu;
    for (int i = 0; i < c->n_directives; i++) {
        const wick_directive *d = &c->directives[i];
        wick_span header = system_header(d);
        bool cuda = is_header(header, runtime_headers) || is_header(header, kernel_headers);
        if (d->kind != WICK_DIRECTIVE_INCLUDE || is_header(header, ours)) continue;
        if (!any || cuda || !is_of_c(d)) wick_edits_reword(e, d->text, "");
    }
}

/* A header that may be of the author's own folders or of the system, which NVRTC has no part of:
 * whether it is there is known when it is compiled. */
static void guess_header(wick_scan *scan, wick_span header, int number, wick_edits *e,
                         wick_span where, wick_text *prelude)
{
    wick_text with = {0};
    wick_text_printf(prelude,
                     "#if __has_include(<%.*s>)\n#define WICK_HEADER_%d <%.*s>\n#else\n"
                     "#define WICK_HEADER_%d <wick/types.h>\n#endif\n",
                     (int)header.size, header.start, number, (int)header.size, header.start,
                     number);
    wick_text_printf(&with, "#include WICK_HEADER_%d", number);
    wick_edits_reword(e, where,
                      with.failed ? NULL : wick_arena_strndup(&scan->arena, with.data, with.size));
    wick_text_free(&with);
}

wick_status wick_directives_for_device(wick_ctx *ctx, wick_scan *scan, const wick_chunks *c,
                                       wick_edits *e)
{
    wick_text prelude = {0};
    for (int i = 0; i < c->n_directives; i++) {
        const wick_directive *d = &c->directives[i];
        wick_span header = system_header(d);
        if (!header.start || is_header(header, known_headers)) continue;
        if (is_header(header, runtime_headers)) {
            wick_edits_reword(e, d->text, "");
        } else if (is_header(header, kernel_headers)) {
            scan->needs_cuda_headers = true;
        } else {
            guess_header(scan, header, i, e, d->text, &prelude);
        }
    }
    scan->device_prelude =
        prelude.failed ? NULL
                       : wick_arena_strndup(&scan->arena, wick_text_str(&prelude), prelude.size);
    wick_text_free(&prelude);
    return scan->device_prelude ? WICK_OK : wick_fail(ctx, WICK_ENOMEM, "out of memory");
}
