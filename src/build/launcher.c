/* launcher.c -- the C function behind WICK_LAUNCH
 *
 *   static __global__ void k(const T *x, T *y, int64_t N)
 *
 * becomes, on one line, a function wick_launch_k that takes ctx, grid, block, shared bytes and then
 * the kernel's own parameters, and hands their addresses to the driver: so the C compiler checks a
 * launch as it checks any call.
 */
#include "split.h"

#include <string.h>

/* ---- parameters ---- */

/* One parameter in the reading. */
typedef struct parameter {
    int n_words;      /* names that may be a type or the parameter's own */
    wick_token last;  /* the last of them */
    wick_token inner; /* `name` of (*name) */
} parameter;

static const char *const qualifiers[] = {
    "const", "volatile", "restrict", "__restrict__",      "__restrict", "register", "struct",
    "union", "enum",     "typename", "__grid_constant__", "static",     NULL};
static const char *const words_of_types[] = {"void",  "char",   "short",    "int",
                                             "long",  "float",  "double",   "bool",
                                             "_Bool", "signed", "unsigned", NULL};

/* The parameter's name: not one if it is all that there is of a type. */
static wick_span name_of(const parameter *p)
{
    if (p->inner.start) return wick_span_of(&p->inner);
    wick_span last = wick_span_of(&p->last);
    bool is_type = p->n_words < 2 || wick_span_in(last, words_of_types);
    return p->last.start && !is_type ? last : (wick_span){0};
}

static wick_status fail_unnamed(wick_ctx *ctx, const wick_scan *scan, const wick_chunk *kernel)
{
    return wick_fail(ctx, WICK_EINVAL,
                     "%s:%lld: a parameter of the kernel %.*s has no name: give it one, so that "
                     "WICK_LAUNCH can pass it on",
                     scan->file, (long long)kernel->line, (int)kernel->name.size,
                     kernel->name.start);
}

static void on_directive(void *arg, const char *start, size_t size, int64_t line)
{
    (void)start, (void)size, (void)line;
    *(bool *)arg = true;
}

/* Takes a token of a parameter in. */
static void read_word(parameter *p, const wick_token *t, const wick_token *before, int depth)
{
    if (t->kind != WICK_TOKEN_NAME) return;
    if (depth == 1 && wick_token_is(before, "*") && !p->inner.start) p->inner = *t;
    if (depth > 0 || wick_span_in(wick_span_of(t), qualifiers)) return;
    p->last = *t;
    p->n_words++;
}

static bool needs_space(const wick_token *before, const wick_token *t)
{
    bool name = before->kind == WICK_TOKEN_NAME;
    return wick_token_is(before, ",") ||
           (name && (t->kind == WICK_TOKEN_NAME || wick_token_is(t, "*")));
}

/* Adds the parameters on one line, and the addresses of them all to `args`. */
static wick_status add_parameters(wick_ctx *ctx, const wick_scan *scan, const wick_chunk *kernel,
                                  wick_text *out, wick_text *args)
{
    wick_lexer lex;
    wick_token t, before = {0};
    parameter p = {0};
    int depth = 0, n = 0;
    bool conditional = false;
    wick_lex_start(&lex, kernel->params.start, kernel->params.size);
    lex.directive = on_directive;
    lex.directive_arg = &conditional;
    do {
        t = wick_lex_next(&lex);
        bool end = t.kind == WICK_TOKEN_END, ends = end || (depth == 0 && wick_token_is(&t, ","));
        bool none = end && n == 0 && (!p.last.start || wick_token_is(&before, "void"));
        if (ends && !none) {
            wick_span name = name_of(&p);
            if (!name.start) return fail_unnamed(ctx, scan, kernel);
            wick_text_printf(args, "(void *)&%.*s, ", (int)name.size, name.start);
            p = (parameter){0};
            n++;
        }
        if (wick_token_is(&t, "(") || wick_token_is(&t, "[")) depth++;
        if (wick_token_is(&t, ")") || wick_token_is(&t, "]")) depth--;
        read_word(&p, &t, &before, depth);
        if (end || wick_token_is(&t, "__grid_constant__")) continue;
        wick_text_printf(out, "%s%.*s", needs_space(&before, &t) ? " " : "", (int)t.size, t.start);
        before = t;
    } while (t.kind != WICK_TOKEN_END);
    if (!conditional) return WICK_OK;
    return wick_fail(ctx, WICK_EINVAL,
                     "%s:%lld: the kernel %.*s has an #if among its parameters: write two kernels, "
                     "each with the #if around it",
                     scan->file, (long long)kernel->line, (int)kernel->name.size,
                     kernel->name.start);
}

/* ---- the function ---- */

/* Kernels that cannot be known from the text. */
static wick_status check_kernel(wick_ctx *ctx, const wick_scan *scan, const wick_chunk *kernel)
{
    int n = (int)kernel->name.size;
    long long line = (long long)kernel->line;
    if (kernel->from_macro)
        return wick_fail(ctx, WICK_EINVAL,
                         "%s:%lld: the macro %.*s makes a kernel, but kernels are read from the "
                         "text, before macros are expanded: write the kernel's head out, and let "
                         "the macro be its body",
                         scan->file, line, n, kernel->name.start);
    if (wick_span_is(kernel->first, "template"))
        return wick_fail(ctx, WICK_EINVAL,
                         "%s:%lld: the kernel %.*s is a template, which WICK_LAUNCH cannot start: "
                         "write it for T, the element type that the file is compiled with, or "
                         "launch it with <<<>>>, for nvcc",
                         scan->file, line, n, kernel->name.start);
    return WICK_OK;
}

static void print_head(wick_text *out, const wick_chunk *kernel, const char *params)
{
    wick_text_printf(out,
                     "static WICK_UNUSED wick_status wick_launch_%.*s(wick_ctx *wick_ctx_, "
                     "wick_dim3 wick_grid_, wick_dim3 wick_block_, int64_t wick_shared_%s%s)",
                     (int)kernel->name.size, kernel->name.start, *params ? ", " : "", params);
}

static void print_body(wick_text *out, const wick_chunk *kernel, const char *args)
{
    int n = (int)kernel->name.size;
    wick_text_printf(out,
                     " { static wick_kernel wick_kernel_ = {\"%.*s\", &wick_this_device, 0}; "
                     "void *wick_args_[] = {%s(void *)0}; "
                     "return wick_this_device.launch(wick_ctx_, &wick_kernel_, wick_grid_, "
                     "wick_block_, wick_shared_, wick_args_); }",
                     n, kernel->name.start, args);
}

wick_status wick_launcher_make(wick_ctx *ctx, wick_scan *scan, const wick_chunk *kernel,
                               const char **out, wick_scan_kernel *about)
{
    wick_text params = {0}, args = {0}, text = {0};
    wick_status status = check_kernel(ctx, scan, kernel);
    if (status == WICK_OK) status = add_parameters(ctx, scan, kernel, &params, &args);
    print_head(&text, kernel, args.size ? wick_text_str(&params) : "");
    if (kernel->kind == WICK_CHUNK_FUNCTION)
        print_body(&text, kernel, wick_text_str(&args));
    else
        wick_text_add(&text, ";");
    bool failed = text.failed || params.failed || args.failed;
    *out = failed ? NULL : wick_arena_strndup(&scan->arena, text.data, text.size);
    *about = (wick_scan_kernel){
        .name = wick_arena_strndup(&scan->arena, kernel->name.start, kernel->name.size),
        .params = wick_arena_strndup(&scan->arena, wick_text_str(&params), params.size),
        .line = kernel->line};
    wick_text_free(&params);
    wick_text_free(&args);
    wick_text_free(&text);
    if (status == WICK_OK && (!*out || !about->name || !about->params))
        status = wick_fail(ctx, WICK_ENOMEM, "out of memory");
    return status;
}

/* ---- CUDA's own types ---- */

/* A vector of CUDA as C has it; `size` 1: the type itself. */
typedef struct vector {
    const char *name, *element;
    int size, align;
} vector;

static const vector vectors[] = {{"char2", "signed char", 2, 2},
                                 {"char4", "signed char", 4, 4},
                                 {"uchar2", "unsigned char", 2, 2},
                                 {"uchar4", "unsigned char", 4, 4},
                                 {"short2", "short", 2, 4},
                                 {"short4", "short", 4, 8},
                                 {"ushort2", "unsigned short", 2, 4},
                                 {"ushort4", "unsigned short", 4, 8},
                                 {"int2", "int", 2, 8},
                                 {"int3", "int", 3, 4},
                                 {"int4", "int", 4, 16},
                                 {"uint2", "unsigned", 2, 8},
                                 {"uint3", "unsigned", 3, 4},
                                 {"uint4", "unsigned", 4, 16},
                                 {"longlong2", "long long", 2, 16},
                                 {"ulonglong2", "unsigned long long", 2, 16},
                                 {"float2", "float", 2, 8},
                                 {"float3", "float", 3, 4},
                                 {"float4", "float", 4, 16},
                                 {"double2", "double", 2, 16},
                                 {"double3", "double", 3, 8},
                                 {"__half", "wick_f16", 1, 0},
                                 {"half", "wick_f16", 1, 0},
                                 {"__nv_bfloat16", "wick_bf16", 1, 0},
                                 {"nv_bfloat16", "wick_bf16", 1, 0}};

typedef enum mention { NOT_SAID, SAID, DEFINED } mention;

/* Whether a text says a name, or that it is a type's. */
static mention look_for(wick_span text, const char *name)
{
    wick_lexer lex;
    mention found = NOT_SAID;
    wick_lex_start(&lex, text.start, text.size);
    for (wick_token t = wick_lex_next(&lex); t.kind != WICK_TOKEN_END;) {
        wick_token next = wick_lex_next(&lex);
        if (t.kind == WICK_TOKEN_NAME && wick_token_is(&t, name)) {
            bool defined = wick_token_is(&next, "{") || (wick_token_is(&next, ";") && !t.braces);
            found = defined || found == DEFINED ? DEFINED : SAID;
        }
        t = next;
    }
    return found;
}

/* A kernel takes one, or a struct of the file holds one, and the file does not say what it is. */
static bool is_wanted(const wick_chunks *chunks, const char *name)
{
    bool said = false;
    for (int i = 0; i < chunks->n; i++) {
        const wick_chunk *c = &chunks->items[i];
        mention found = NOT_SAID;
        if (c->kind == WICK_CHUNK_OTHER) found = look_for(c->text, name);
        if (c->kernel && c->params.start) found = look_for(c->params, name);
        if (found == DEFINED) return false;
        said = said || found == SAID;
    }
    return said;
}

wick_status wick_launcher_types(wick_ctx *ctx, wick_scan *scan, const wick_chunks *chunks)
{
    static const char members[] = "xyzw";
    wick_text out = {0};
    for (int i = 0; i < WICK_COUNT(vectors); i++) {
        const vector *v = &vectors[i];
        if (!is_wanted(chunks, v->name)) continue;
        if (v->size == 1) {
            wick_text_printf(&out, "typedef %s %s;\n", v->element, v->name);
            continue;
        }
        wick_text_printf(&out, "typedef struct %s { _Alignas(%d) %s x; %s ", v->name, v->align,
                         v->element, v->element);
        for (int k = 1; k < v->size; k++)
            wick_text_printf(&out, "%s%c", k > 1 ? ", " : "", members[k]);
        wick_text_printf(&out, "; } %s;\n", v->name);
    }
    scan->host_types =
        out.failed ? NULL : wick_arena_strndup(&scan->arena, wick_text_str(&out), out.size);
    wick_text_free(&out);
    return scan->host_types ? WICK_OK : wick_fail(ctx, WICK_ENOMEM, "out of memory");
}
