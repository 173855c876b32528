/* diagnose.c -- what the compiler said, told about the author's file
 *
 * A failure is the first error alone: those after it mostly follow from it. Its place is the
 * author's file as the author named it, never the generated unit; where the compiler speaks of a
 * header, the line that includes it. A linker knows no lines, so its symbols are looked up in the
 * text.
 */
#include "builder.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

typedef struct span {
    const char *start;
    size_t size;
} span;

typedef struct diagnostic {
    span path, words; /* words: "error: ..." */
    int64_t line, column;
    span rest; /* source line and caret as the compiler shows them */
    int64_t
        included_at; /* line of the author's file that leads here through #include; 0: unknown */
} diagnostic;

/* ---- lines ---- */

static bool next_line(const char **at, span *out)
{
    if (!**at) return false;
    out->start = *at;
    out->size = strcspn(*at, "\n");
    *at += out->size + ((*at)[out->size] == '\n');
    return true;
}

static const char *find_in(span where, const char *what)
{
    size_t n = strlen(what);
    for (size_t i = 0; i + n <= where.size; i++) {
        if (memcmp(where.start + i, what, n) == 0) return where.start + i;
    }
    return NULL;
}

static bool begins(span line, const char *with)
{
    return line.size >= strlen(with) && memcmp(line.start, with, strlen(with)) == 0;
}

static bool is_path(span path, const char *name)
{
    return path.size == strlen(name) && memcmp(path.start, name, path.size) == 0;
}

/* Takes `:digits` off the end; 0 when there are none. */
static int64_t take_number(span *s)
{
    size_t n = s->size;
    while (n > 0 && isdigit((unsigned char)s->start[n - 1]))
        n--;
    if (n == s->size || n == 0 || s->start[n - 1] != ':') return 0;
    s->size = n - 1;
    return strtoll(s->start + n, NULL, 10);
}

/* PATH:LINE:COLUMN: kind words. A path may hold the kind itself: what counts is the number in front
 * of it. */
static bool read_place(span line, const char *kind, diagnostic *out)
{
    const char *end = line.start + line.size, *colon = line.start;
    while ((colon = find_in((span){colon, (size_t)(end - colon)}, kind)) != NULL) {
        int64_t last, first;
        out->path = (span){line.start, (size_t)(colon - line.start)};
        last = take_number(&out->path);
        first = take_number(&out->path);
        colon += 2;
        if (last == 0 || out->path.size == 0) continue;
        out->line = first ? first : last;
        out->column = first ? last : 0;
        out->words = (span){colon, (size_t)(end - colon)};
        return true;
    }
    return false;
}

static bool is_error(span line, diagnostic *out)
{
    return read_place(line, ": error: ", out) || read_place(line, ": fatal error: ", out);
}

/* Where the compiler begins to speak of something else. */
static bool is_next(span line)
{
    diagnostic d;
    return is_error(line, &d) || read_place(line, ": warning: ", &d) ||
           read_place(line, ": note: ", &d) || begins(line, "In file included from ") ||
           find_in(line, ": In function ") || find_in(line, ": At top level:") ||
           begins(line, "compilation terminated") || begins(line, "cc1: ") ||
           find_in(line, " generated.");
}

/* "In file included from PATH:12," and "                 from PATH:12:" tell how a header was
 * reached. */
static void follow_include(span line, const char *file, int64_t *at)
{
    const char *from = find_in(line, "from ");
    span place;
    int64_t number;
    if (begins(line, "In file included from ")) *at = 0;
    if (!from || (!begins(line, "In file included from ") && !begins(line, "    "))) return;
    place = (span){from + 5, line.size - (size_t)(from + 5 - line.start)};
    while (place.size > 0 && strchr(",:", place.start[place.size - 1]))
        place.size--;
    number = take_number(&place);
    if (!is_path(place, file)) { /* gcc adds a column */
        int64_t before = take_number(&place);
        if (before) number = before;
    }
    if (is_path(place, file)) *at = number;
}

/* An error inside of a macro of ours is the author's where the macro is called. */
static void follow_macro(const char *at, const char *file, diagnostic *out)
{
    span line;
    diagnostic note, error;
    while (next_line(&at, &line) && !is_error(line, &error)) {
        bool expands = read_place(line, ": note: ", &note) && is_path(note.path, file) &&
                       find_in(note.words, "in expansion of macro");
        if (!expands) continue;
        out->path = note.path;
        out->line = note.line;
        out->column = note.column;
        out->rest = (span){NULL, 0}; /* it shows the macro */
        return;
    }
}

static bool first_error(const char *output, const char *file, diagnostic *out)
{
    const char *at = output;
    span line;
    int64_t included_at = 0;
    while (next_line(&at, &line)) {
        follow_include(line, file, &included_at);
        if (!is_error(line, out)) continue;
        out->included_at = included_at;
        out->rest = (span){at, 0};
        while (next_line(&at, &line) && !is_next(line)) {
            out->rest.size = (size_t)(line.start + line.size - out->rest.start);
        }
        if (!is_path(out->path, file)) follow_macro(out->rest.start, file, out);
        return true;
    }
    return false;
}

/* ---- the author's line ---- */

/* Shown by us where the compiler has no file to show it from. */
static void add_source_line(wick_text *out, const wick_scan *scan, const diagnostic *d)
{
    const char *at = scan->text;
    span line = {at, 0};
    for (int64_t i = 0; i < d->line; i++) {
        if (!next_line(&at, &line)) return;
    }
    wick_text_printf(out, "\n%5lld | %.*s", (long long)d->line, (int)line.size, line.start);
    /* Compilers do not agree on how wide a tab is. */
    if (d->column < 1 || memchr(line.start, '\t', line.size)) return;
    wick_text_printf(out, "\n      | %*s", (int)d->column, "^");
}

/* The prototype that the signature implies, when a function disagrees with it. */
static void add_prototype(wick_text *out, const wick_scan *scan, const diagnostic *d)
{
    for (int i = 0; i < 2 * scan->n_ops; i++) {
        const wick_scan_op *op = &scan->ops[i / 2];
        const char *suffix = i % 2 ? "cuda" : "cpu";
        wick_text quoted = {0};
        wick_text_printf(&quoted, "conflicting types for '%s_%s'", op->name, suffix);
        if (!quoted.failed && find_in(d->words, wick_text_str(&quoted))) {
            wick_text_printf(out, "\nthe signature on line %lld implies\n    ",
                             (long long)op->line);
            wick_signature_print_prototype(out, op->signature, suffix, true);
        }
        wick_text_free(&quoted);
    }
}

static wick_status fail_compile(wick_ctx *ctx, const wick_scan *scan, const diagnostic *d,
                                const char *folder)
{
    wick_text message = {0};
    if (is_path(d->path, scan->file)) {
        wick_text_printf(&message, "%s:%lld:", scan->file, (long long)d->line);
        if (d->column) wick_text_printf(&message, "%lld:", (long long)d->column);
        wick_text_add(&message, " ");
        wick_diagnose_launch_words(&message, d->words.start, d->words.size);
        if (d->rest.size && !scan->is_text) {
            wick_text_printf(&message, "\n%.*s", (int)d->rest.size, d->rest.start);
        } else {
            add_source_line(&message, scan, d);
        }
        add_prototype(&message, scan, d);
        wick_diagnose_launch(&message, scan, d->line, d->words.start, d->words.size);
    } else if (begins(d->path, folder)) {
        wick_text_printf(&message,
                         "%s:%lld: the code made from this signature does not compile: %.*s\n%.*s",
                         scan->file, (long long)scan->ops[0].line, (int)d->words.size,
                         d->words.start, (int)d->rest.size, d->rest.start);
    } else {
        wick_text_printf(&message, "%s:%lld: in %.*s:%lld: %.*s\n%.*s", scan->file,
                         (long long)(d->included_at ? d->included_at : 1), (int)d->path.size,
                         d->path.start, (long long)d->line, (int)d->words.size, d->words.start,
                         (int)d->rest.size, d->rest.start);
    }
    wick_fail(ctx, message.failed ? WICK_ENOMEM : WICK_ECOMPILE, "%s",
              message.failed ? "out of memory" : wick_text_str(&message));
    wick_text_free(&message);
    return WICK_ECOMPILE;
}

/* ---- the linker ---- */

/* The name after `before`, in whatever quotes; owned. */
static char *symbol_after(const char *output, const char *before)
{
    const char *at = strstr(output, before);
    wick_text name = {0};
    if (!at) return NULL;
    at += strlen(before);
    at += strspn(at, " `'\"");
    wick_text_addn(&name, at,
                   strspn(at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"));
    if (name.failed || name.size == 0) {
        wick_text_free(&name);
        return NULL;
    }
    return name.data;
}

static const wick_scan_op *op_of(const wick_scan *scan, const char *symbol)
{
    for (int i = 0; i < scan->n_ops; i++) {
        size_t n = strlen(scan->ops[i].name);
        if (strncmp(symbol, scan->ops[i].name, n) == 0 && strcmp(symbol + n, "_cpu") == 0) {
            return &scan->ops[i];
        }
    }
    return NULL;
}

static wick_status fail_undefined(wick_ctx *ctx, const wick_scan *scan, const char *symbol,
                                  int64_t line)
{
    const wick_scan_op *op = op_of(scan, symbol);
    if (op) {
        return wick_fail(ctx, WICK_ECOMPILE,
                         "%s:%lld: operator %s: %s is in the text, but the compiler does not get "
                         "to see it (is it "
                         "inside an #if?)",
                         scan->file, (long long)op->line, op->name, symbol);
    }
    return wick_fail(
        ctx, WICK_ECOMPILE,
        "%s:%lld: undefined symbol %s: it is declared, but defined neither here nor in libc or "
        "libm, which is all that a module links unless a flag names more",
        scan->file, (long long)line, symbol);
}

static wick_status fail_duplicate(wick_ctx *ctx, const wick_scan *scan, const char *symbol,
                                  int64_t line)
{
    return wick_fail(
        ctx, WICK_ECOMPILE,
        "%s:%lld: %s is not static, and the file is compiled once per element type: write static "
        "(for a function, WICK_FN) in front of it",
        scan->file, (long long)line, symbol);
}

/* WICK_OK: the linker did not speak of a symbol that the text has. */
static wick_status fail_link(wick_ctx *ctx, const wick_unit *units, int64_t n, const char *output)
{
    static const char *const undefined[] = {"undefined reference to ", "undefined symbol: "};
    static const char *const duplicate[] = {"multiple definition of ", "duplicate symbol: "};
    wick_status status = WICK_OK;
    for (int i = 0; !status && i < 4; i++) {
        char *symbol = symbol_after(output, i < 2 ? undefined[i] : duplicate[i - 2]);
        for (int64_t u = 0; symbol && !status && u < n; u++) {
            const wick_scan *scan = units[u].scan;
            const wick_scan_op *op = op_of(scan, symbol);
            int64_t line = wick_lex_find(scan->text, scan->text_bytes, symbol);
            if (line == 0 && !op) continue;
            status = i < 2 ? fail_undefined(ctx, scan, symbol, line)
                           : fail_duplicate(ctx, scan, symbol, line);
        }
        wick_free(symbol);
    }
    return status;
}

/* ---- both ---- */

static wick_status fail_whole(wick_ctx *ctx, const wick_scan *scan, const wick_process *result)
{
    if (result->exit_code > 128) {
        return wick_fail(ctx, WICK_ECOMPILE, "%s:1: the compiler was ended by signal %d%s\n%s",
                         scan->file, result->exit_code - 128,
                         result->exit_code == 137 ? " (out of memory?)" : "",
                         wick_text_str(&result->output));
    }
    return wick_fail(ctx, WICK_ECOMPILE, "%s:1: the compiler failed with exit code %d\n%s",
                     scan->file, result->exit_code, wick_text_str(&result->output));
}

wick_status wick_diagnose_failure(wick_ctx *ctx, const wick_unit *units, int64_t n_units,
                                  int64_t which, const wick_process *result, const char *folder)
{
    const wick_scan *scan = units[which < 0 ? 0 : which].scan;
    const char *output = wick_text_str(&result->output);
    diagnostic d;
    wick_status status;
    if (first_error(output, scan->file, &d)) {
        status = fail_compile(ctx, scan, &d, folder);
    } else {
        status = fail_link(ctx, units, n_units, output);
        if (!status) status = fail_whole(ctx, scan, result);
    }
    wick_remedy_add(ctx, result);
    return status;
}

/* "In file included from PATH," and the lines "from PATH:" after it, which differ from unit to
 * unit.
 */
static bool is_chain(span line)
{
    return begins(line, "In file included from ") || begins(line, "                 from ");
}

/* In which function the next one is, and what that was inlined into. */
static bool is_head(span line)
{
    return find_in(line, ": In function ") || find_in(line, ": At top level:") ||
           begins(line, "In function ") || begins(line, "    inlined from ");
}

static void add_line(wick_text *out, span line)
{
    wick_text_addn(out, line.start, line.size);
    wick_text_add(out, "\n");
}

/* The same warning comes once per element type, and once per place that it was inlined into. */
static bool is_told(const wick_text *out, span line)
{
    wick_text words = {0};
    bool told;
    add_line(&words, line);
    told = strstr(wick_text_str(out), wick_text_str(&words));
    wick_text_free(&words);
    return told;
}

void wick_diagnose_warnings(wick_text *out, const wick_process *result, const char *folder)
{
    const char *at = wick_text_str(&result->output);
    wick_text chain = {0}, head = {0};
    diagnostic d;
    span line;
    bool skipped = false; /* a warning about the unit itself or told before, with all its lines */
    bool hidden = false;  /* a note of one that is told, about the unit itself */
    if (!out) return;
    while (next_line(&at, &line)) {
        if (is_chain(line)) {
            add_line(&chain, line);
            continue;
        }
        if (!strstr(wick_text_str(&chain), folder)) wick_text_add(&head, wick_text_str(&chain));
        wick_text_free(&chain);
        if (is_head(line)) {
            if (!find_in(line, folder)) add_line(&head, line);
            continue;
        }
        if (read_place(line, ": note: ", &d)) {
            hidden = find_in(line, folder);
        } else if (is_next(line)) {
            skipped = find_in(line, folder) || find_in(line, " generated.") || is_told(out, line);
            hidden = false;
        }
        if (!skipped && !hidden) {
            wick_text_add(out, wick_text_str(&head));
            add_line(out, line);
        }
        wick_text_free(&head);
    }
    wick_text_free(&chain);
    wick_text_free(&head);
}
