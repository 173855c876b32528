/* scan.c -- reads the operators out of a source
 *
 * WICK_OP, WICK_NAMESPACE and WICK_TUNE (scan_tune.c) are read from the text, never from the
 * preprocessor: hence literal and at the top level. Everything that can be said before a compiler
 * runs is said here, with the line it is about.
 */
#include "builder.h"

#include <ctype.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

static wick_status out_of_memory(wick_ctx *ctx)
{
    return wick_fail(ctx, WICK_ENOMEM, "out of memory");
}

static char *keep(wick_scan *scan, const char *s, size_t n)
{
    return wick_arena_strndup(&scan->arena, s, n);
}

/* ---- the source ---- */

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);
    return n >= m && strcmp(s + n - m, end) == 0;
}

/* Messages and #line name the file, so its name has to fit on a line. */
static wick_status check_name(wick_ctx *ctx, const char *file)
{
    static const char *const cpp[] = {".cpp", ".cc", ".cxx", ".C", ".c++", ".hpp"};
    for (const char *c = file; *c; c++) {
        if (iscntrl((unsigned char)*c)) {
            return wick_fail(ctx, WICK_EINVAL,
                             "source:1: a file whose name has a line break or another control "
                             "character in it cannot be built: rename it");
        }
    }
    if (!*file) return wick_fail(ctx, WICK_EINVAL, "source:1: the source has no name");
    for (int i = 0; i < WICK_COUNT(cpp); i++) {
        if (ends_with(file, cpp[i])) {
            return wick_fail(
                ctx, WICK_EINVAL,
                "%s:1: this is a C++ source; Wick builds operators from plain C: keep the "
                "loop, drop the at::Tensor around it, and name the file .c (docs/porting.md has a "
                "before and after for every style of extension)",
                file);
        }
    }
    return WICK_OK;
}

/* The folder is settled now: the process may be elsewhere when a further element type is compiled.
 */
static wick_status find_folder(wick_ctx *ctx, wick_scan *scan)
{
    const char *slash = strrchr(scan->file, '/');
    wick_text folder = {0};
    char here[PATH_MAX];
    if (scan->file[0] != '/' && getcwd(here, sizeof here)) wick_text_printf(&folder, "%s/", here);
    wick_text_addn(&folder, scan->file, slash ? (size_t)(slash - scan->file) + 1 : 0);
    if (!folder.failed) scan->folder = keep(scan, wick_text_str(&folder), folder.size);
    wick_text_free(&folder);
    return scan->folder ? WICK_OK : out_of_memory(ctx);
}

static wick_status read_source(wick_ctx *ctx, const wick_source *source, wick_scan *scan)
{
    char *bytes = NULL;
    size_t n = 0;
    WICK_TRY(check_name(ctx, source->path ? source->path : ""));
    scan->is_text = source->text != NULL;
    if (source->text) {
        n = strlen(source->text);
    } else {
        wick_status status = wick_file_read(ctx, source->path, &bytes, &n);
        if (status) {
            wick_ctx_prefix(ctx, "%s:1: ", source->path);
            return status;
        }
    }
    scan->file = keep(scan, source->path, strlen(source->path));
    scan->text = keep(scan, source->text ? source->text : bytes, n);
    scan->text_bytes = n;
    wick_free(bytes);
    if (!scan->file || !scan->text) return out_of_memory(ctx);
    if (strlen(scan->text) != n) {
        return wick_fail(ctx, WICK_EINVAL, "%s:1: this is not text: there is a NUL byte in it",
                         scan->file);
    }
    return WICK_OK;
}

/* ---- the comment at the head ---- */

static const char *skip_space(const char *at, const char *end)
{
    while (at < end && isspace((unsigned char)*at))
        at++;
    return at;
}

static const char *line_end(const char *at, const char *end)
{
    const char *newline = memchr(at, '\n', (size_t)(end - at));
    return newline ? newline : end;
}

/* One line of a comment without the blanks around it and the star or bar in front. */
static void add_doc_line(wick_text *out, const char *at, const char *end, char mark)
{
    const char *margin = at;
    while (margin < end && (*margin == ' ' || *margin == '\t'))
        margin++;
    while (margin < end && *margin == mark)
        at = ++margin;
    if (at < end && *at == ' ') at++;
    while (end > at && isspace((unsigned char)end[-1]))
        end--;
    if (out->size > 0) wick_text_add(out, "\n");
    wick_text_addn(out, at, (size_t)(end - at));
}

static void add_block_comment(wick_text *out, const char *at, const char *end)
{
    const char *close = strstr(at, "*/");
    if (close && close < end) end = close;
    while (at < end && *at == '*')
        at++;
    while (at < end) {
        const char *stop = line_end(at, end);
        add_doc_line(out, at, stop, '*');
        at = stop < end ? stop + 1 : end;
    }
}

static wick_status read_doc(wick_ctx *ctx, wick_scan *scan)
{
    const char *end = scan->text + scan->text_bytes, *at = skip_space(scan->text, end);
    wick_text doc = {0};
    size_t size;
    if (end - at >= 2 && at[0] == '/' && at[1] == '*') {
        add_block_comment(&doc, at + 2, end);
    } else {
        while (end - at >= 2 && at[0] == '/' && at[1] == '/') {
            add_doc_line(&doc, at, line_end(at, end), '/');
            at = skip_space(line_end(at, end), end);
        }
    }
    size = doc.size;
    while (size > 0 && isspace((unsigned char)doc.data[size - 1]))
        size--;
    scan->doc = doc.failed ? NULL : keep(scan, wick_text_str(&doc), size);
    wick_text_free(&doc);
    return scan->doc ? WICK_OK : out_of_memory(ctx);
}

/* ---- WICK_OP, WICK_NAMESPACE ---- */

wick_status wick_scan_fail(wick_ctx *ctx, const wick_scan *scan, const wick_scan_macro *macro,
                           const char *words)
{
    return wick_fail(ctx, WICK_EINVAL, "%s:%lld: %s(%.*s): %s", scan->file, (long long)macro->line,
                     macro->called, (int)macro->name.size,
                     macro->name.start ? macro->name.start : "", words);
}

static wick_status read_namespace(wick_ctx *ctx, wick_scan *scan, wick_lexer *lex, int64_t line)
{
    wick_token name = wick_lex_next(lex), close = wick_lex_next(lex);
    char *ns;
    if (name.kind != WICK_TOKEN_NAME || !wick_token_is(&close, ")")) {
        return wick_fail(
            ctx, WICK_EINVAL,
            "%s:%lld: WICK_NAMESPACE takes a C identifier, as in WICK_NAMESPACE(acme);", scan->file,
            (long long)line);
    }
    ns = keep(scan, name.start, name.size);
    if (!ns) return out_of_memory(ctx);
    if (scan->ns && strcmp(scan->ns, ns) != 0) {
        return wick_fail(
            ctx, WICK_EINVAL,
            "%s:%lld: WICK_NAMESPACE(%s), but line %lld says %s: a file has one namespace",
            scan->file, (long long)line, ns, (long long)scan->ns_line, scan->ns);
    }
    scan->ns = ns;
    scan->ns_line = line;
    return WICK_OK;
}

/* What is wrong with `what` the literal is. */
static wick_status fail_literal(wick_ctx *ctx, const wick_scan *scan, const wick_scan_macro *macro,
                                const char *before, const char *what, const char *after)
{
    wick_text all = {0};
    wick_text_printf(&all, "%s%s%s", before, what, after);
    wick_status status = wick_scan_fail(ctx, scan, macro, wick_text_str(&all));
    wick_text_free(&all);
    return status;
}

wick_status wick_scan_macro_read(wick_ctx *ctx, const wick_scan *scan, wick_lexer *lex,
                                 const wick_token *called, const char *what, wick_scan_macro *out)
{
    wick_token t;
    *out = (wick_scan_macro){.line = called->line};
    out->called = wick_token_is(called, "WICK_OP") ? "WICK_OP" : "WICK_TUNE";
    wick_token name = wick_lex_next(lex);
    if (name.kind != WICK_TOKEN_NAME)
        return wick_scan_fail(ctx, scan, out, "expected the operator's name, a C identifier");
    out->name = name;
    if (called->braces > 0)
        return wick_scan_fail(ctx, scan, out, "stands inside braces; write it at the top level");
    t = wick_lex_next(lex);
    bool comma = wick_token_is(&t, ",");
    if (comma) t = wick_lex_next(lex);
    if (!comma) return fail_literal(ctx, scan, out, "a comma and the ", what, " are missing");
    if (t.kind != WICK_TOKEN_STRING)
        return fail_literal(ctx, scan, out, "the ", what,
                            " must be a string literal: it is read from the text, before macros "
                            "are expanded");
    for (; t.kind == WICK_TOKEN_STRING; t = wick_lex_next(lex))
        if (!wick_token_decode(&t, &out->text))
            return fail_literal(ctx, scan, out, "the ", what, "'s string literal is malformed");
    if (!wick_token_is(&t, ")"))
        return fail_literal(ctx, scan, out, "expected a string literal or ) after the ", what, "");
    return out->text.failed ? out_of_memory(ctx) : WICK_OK;
}

/* Room for one more operator: the array doubles inside the arena at powers of two. */
static wick_scan_op *new_op(wick_scan *scan)
{
    int n = scan->n_ops;
    if ((n & (n - 1)) == 0) {
        size_t capacity = n ? (size_t)n * 2 : 1;
        wick_scan_op *ops = wick_arena_alloc(&scan->arena, capacity * sizeof *ops);
        if (!ops) return NULL;
        if (n) memcpy(ops, scan->ops, (size_t)n * sizeof *ops);
        scan->ops = ops;
    }
    return &scan->ops[scan->n_ops++];
}

static wick_status check_duplicate(wick_ctx *ctx, const wick_scan *scan, const wick_scan_op *op)
{
    for (const wick_scan_op *other = scan->ops; other < op; other++) {
        if (strcmp(other->name, op->name) == 0) {
            return wick_fail(ctx, WICK_EINVAL,
                             "%s:%lld: operator %s is defined twice: here and on line %lld "
                             "(#if and #else are not looked at)",
                             scan->file, (long long)op->line, op->name, (long long)other->line);
        }
    }
    return WICK_OK;
}

static wick_status add_op(wick_ctx *ctx, wick_scan *scan, const wick_scan_macro *macro)
{
    wick_scan_op *op = new_op(scan);
    if (op) op->name = keep(scan, macro->name.start, macro->name.size);
    if (!op || !op->name) return out_of_memory(ctx);
    op->line = macro->line;
    WICK_TRY(check_duplicate(ctx, scan, op));
    wick_status status = wick_signature_parse(ctx, &scan->arena, op->name,
                                              wick_text_str(&macro->text), &op->signature);
    if (status) wick_ctx_prefix(ctx, "%s:%lld: ", scan->file, (long long)op->line);
    return status;
}

static wick_status read_op(wick_ctx *ctx, wick_scan *scan, wick_lexer *lex,
                           const wick_token *called)
{
    wick_scan_macro macro;
    wick_status status = wick_scan_macro_read(ctx, scan, lex, called, "signature", &macro);
    if (status == WICK_OK) status = add_op(ctx, scan, &macro);
    wick_text_free(&macro.text);
    return status;
}

static wick_status read_macros(wick_ctx *ctx, wick_scan *scan)
{
    wick_lexer lex;
    wick_lex_start(&lex, scan->text, scan->text_bytes);
    for (wick_token t = wick_lex_next(&lex); t.kind != WICK_TOKEN_END; t = wick_lex_next(&lex)) {
        bool is_op = wick_token_is(&t, "WICK_OP");
        wick_lexer ahead = lex;
        wick_token open;
        if (!is_op && !wick_token_is(&t, "WICK_NAMESPACE")) continue;
        open = wick_lex_next(&ahead);
        if (!wick_token_is(&open, "(")) continue;
        lex = ahead;
        WICK_TRY(is_op ? read_op(ctx, scan, &lex, &t) : read_namespace(ctx, scan, &lex, t.line));
    }
    if (scan->n_ops == 0) {
        return wick_fail(
            ctx, WICK_EINVAL,
            "%s:1: no operator here: write WICK_OP(name, \"x: T[*N] -> y: T[*N] where T: "
            "f32\"); and a function name_cpu",
            scan->file);
    }
    return WICK_OK;
}

/* ---- type variables: one list per file ---- */

static void print_types(wick_text *out, const wick_variable *v)
{
    for (int i = 0; i < v->n_types; i++) {
        wick_text_printf(out, "%s%s", i ? " " : "", wick_dtype_name((int)v->types[i]));
    }
}

/* The order counts for what is compiled first, not for what is meant. */
static bool same_types(const wick_variable *a, const wick_variable *b)
{
    for (int i = 0; i < a->n_types; i++) {
        bool found = false;
        for (int k = 0; k < b->n_types; k++) {
            found = found || a->types[i] == b->types[k];
        }
        if (!found) return false;
    }
    return a->n_types == b->n_types;
}

static wick_status fail_types(wick_ctx *ctx, const wick_scan *scan, const wick_scan_op *op,
                              const wick_variable *mine, const wick_variable *file)
{
    wick_text a = {0}, b = {0};
    print_types(&a, mine);
    print_types(&b, file);
    wick_fail(
        ctx, WICK_EINVAL,
        "%s:%lld: operator %s says where %s: %s, but this file has %s: %s: a file has one list "
        "of types; put operators over different types in different files",
        scan->file, (long long)op->line, op->name, mine->name, wick_text_str(&a), mine->name,
        wick_text_str(&b));
    wick_text_free(&a);
    wick_text_free(&b);
    return WICK_EINVAL;
}

static int find_variable(const wick_scan *scan, const char *name)
{
    for (int i = 0; i < scan->n_variables; i++) {
        if (strcmp(scan->variables[i].name, name) == 0) return i;
    }
    return -1;
}

static wick_status gather_types(wick_ctx *ctx, wick_scan *scan, wick_scan_op *op)
{
    for (int i = 0; i < op->signature->n_variables; i++) {
        const wick_variable *mine = &op->signature->variables[i];
        int k = find_variable(scan, mine->name);
        if (k < 0 && scan->n_variables == WICK_MAX_VARIABLES) {
            return wick_fail(
                ctx, WICK_EINVAL,
                "%s:%lld: operator %s brings a fifth type variable, %s, into this file; "
                "put it in a file of its own",
                scan->file, (long long)op->line, op->name, mine->name);
        }
        if (k < 0) {
            k = scan->n_variables++;
            scan->variables[k] = *mine;
        }
        op->variables[i] = k;
        if (mine->n_types == 0) continue;
        if (scan->variables[k].n_types == 0) scan->variables[k] = *mine;
        if (!same_types(mine, &scan->variables[k])) {
            return fail_types(ctx, scan, op, mine, &scan->variables[k]);
        }
    }
    return WICK_OK;
}

static wick_status unify_types(wick_ctx *ctx, wick_scan *scan)
{
    for (int i = 0; i < scan->n_ops; i++) {
        WICK_TRY(gather_types(ctx, scan, &scan->ops[i]));
    }
    for (int i = 0; i < scan->n_ops; i++) {
        wick_signature *sig = scan->ops[i].signature;
        wick_status status;
        for (int k = 0; k < sig->n_variables; k++) {
            sig->variables[k] = scan->variables[scan->ops[i].variables[k]];
        }
        status = wick_signature_require_types(ctx, sig);
        if (status) {
            wick_ctx_prefix(ctx, "%s:%lld: ", scan->file, (long long)scan->ops[i].line);
            return status;
        }
    }
    return WICK_OK;
}

/* ---- implementations ---- */

static bool is_implementation(const wick_token *t, const char *op, const char *suffix)
{
    size_t n = strlen(op);
    return t->size == n + strlen(suffix) && memcmp(t->start, op, n) == 0 &&
           memcmp(t->start + n, suffix, strlen(suffix)) == 0;
}

/* A parameter list follows, and then a body rather than a semicolon. */
static bool is_definition(wick_lexer lex)
{
    int parentheses = 0;
    wick_token t = wick_lex_next(&lex);
    if (!wick_token_is(&t, "(")) return false;
    for (; t.kind != WICK_TOKEN_END; t = wick_lex_next(&lex)) {
        if (wick_token_is(&t, "(")) parentheses++;
        if (wick_token_is(&t, ")")) parentheses--;
        if (parentheses == 0 && wick_token_is(&t, "{")) return true;
        if (parentheses == 0 && wick_token_is(&t, ";")) return false;
    }
    return false;
}

static wick_status fail_missing(wick_ctx *ctx, const wick_scan *scan, const wick_scan_op *op)
{
    wick_text prototype = {0};
    wick_signature_print_prototype(&prototype, op->signature, "cpu", true);
    wick_fail(ctx, WICK_EINVAL,
              "%s:%lld: operator %s has no implementation: define %s_cpu (or %s_cuda)\n"
              "    WICK_IMPL %s",
              scan->file, (long long)op->line, op->name, op->name, op->name,
              wick_text_str(&prototype));
    wick_text_free(&prototype);
    return WICK_EINVAL;
}

static wick_status find_implementations(wick_ctx *ctx, wick_scan *scan)
{
    wick_lexer lex;
    wick_lex_start(&lex, scan->text, scan->text_bytes);
    for (wick_token t = wick_lex_next(&lex); t.kind != WICK_TOKEN_END; t = wick_lex_next(&lex)) {
        if (t.kind != WICK_TOKEN_NAME || t.braces > 0) continue;
        for (int i = 0; i < scan->n_ops; i++) {
            wick_scan_op *op = &scan->ops[i];
            bool cpu = is_implementation(&t, op->name, "_cpu");
            bool cuda = is_implementation(&t, op->name, "_cuda");
            if ((!cpu && !cuda) || !is_definition(lex)) continue;
            op->has_cpu = op->has_cpu || cpu;
            op->has_cuda = op->has_cuda || cuda;
        }
    }
    for (int i = 0; i < scan->n_ops; i++) {
        if (!scan->ops[i].has_cpu && !scan->ops[i].has_cuda) {
            return fail_missing(ctx, scan, &scan->ops[i]);
        }
    }
    return WICK_OK;
}

wick_status wick_scan_source(wick_ctx *ctx, const wick_source *source, wick_scan *out)
{
    memset(out, 0, sizeof *out);
    WICK_TRY(read_source(ctx, source, out));
    WICK_TRY(find_folder(ctx, out));
    WICK_TRY(wick_scan_package(ctx, out));
    WICK_TRY(read_doc(ctx, out));
    WICK_TRY(read_macros(ctx, out));
    WICK_TRY(unify_types(ctx, out));
    WICK_TRY(find_implementations(ctx, out));
    WICK_TRY(wick_scan_tune(ctx, out));
    return wick_scan_split(ctx, out);
}

void wick_scan_free(wick_scan *scan)
{
    wick_arena_free(&scan->arena);
    memset(scan, 0, sizeof *scan);
}
