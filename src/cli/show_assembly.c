/* show_assembly.c -- the loops that the C compiler made of a source
 *
 * The unit is compiled once more, to assembly with line numbers (which change no instruction). A
 * loop is a jump back to a label; one that has no other inside is where the time goes. Of each
 * function the one with the widest registers is shown, of several the one with the largest share of
 * vector instructions:
 *
 *   relu_piece, relu.c:24-31: 9 instructions, 32 bytes wide
 *       .L4:
 *           vmovups (%rsi,%rax), %ymm0
 *           ...
 */
#include "show.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { NAME = 256, MAX_LOOPS = 512 };

/* ---- lines ---- */

typedef enum line_kind {
    LINE_OTHER, /* a directive, a comment, nothing */
    LINE_LABEL,
    LINE_CODE
} line_kind;

typedef struct asm_line {
    const char *text; /* without blanks in front; ends at `end` */
    const char *end;
    line_kind kind;
    int source; /* the author's line that it belongs to; 0: none */
} asm_line;

typedef struct asm_text {
    asm_line *lines;
    int64_t n;
} asm_text;

static size_t word_size(const asm_line *line)
{
    size_t n = 0;
    while (line->text + n < line->end && !isspace((unsigned char)line->text[n]))
        n++;
    return n;
}

static line_kind kind_of(const asm_line *line)
{
    size_t n = word_size(line);
    if (n == 0 || strchr("#/;@", line->text[0])) return LINE_OTHER;
    if (line->text[n - 1] == ':') return LINE_LABEL;
    return line->text[0] == '.' ? LINE_OTHER : LINE_CODE;
}

/* The number of the author's file among the assembler's: gcc writes .file 1 "relu.c", clang .file 1
 * "/folder" "relu.c" md5 ...; -1: it is not there. */
static long file_number(const char *text, const char *file)
{
    const char *slash = strrchr(file, '/');
    char quoted[NAME];
    size_t n = (size_t)snprintf(quoted, sizeof quoted, "%s\"", slash ? slash + 1 : file);
    for (const char *at = text; n < sizeof quoted && (at = strstr(at, "\t.file")) != NULL; at++) {
        const char *number = at + strlen("\t.file"), *end = at + strcspn(at, "\n"), *found;
        char *rest;
        long value = strtol(number, &rest, 10);
        found = rest == number ? NULL : strstr(rest, quoted);
        if (found && found < end && strchr("/\"", found[-1])) return value;
    }
    return -1;
}

static bool read_lines(const char *text, const char *file, asm_text *out)
{
    long number = file_number(text, file);
    int source = 0;
    int64_t n = 1;
    for (const char *at = text; (at = strchr(at, '\n')) != NULL; at++)
        n++;
    out->lines = wick_calloc((size_t)n, sizeof *out->lines);
    if (!out->lines) return false;
    while (*text) {
        asm_line *line = &out->lines[out->n++];
        line->text = text + strspn(text, " \t");
        line->end = text + strcspn(text, "\n");
        if (line->text > line->end) line->text = line->end;
        line->kind = kind_of(line);
        if (strncmp(line->text, ".loc", 4) == 0 && isspace((unsigned char)line->text[4])) {
            char *rest;
            bool ours = strtol(line->text + 4, &rest, 10) == number;
            source = ours ? (int)strtol(rest, NULL, 10) : 0;
        }
        line->source = source;
        text = *line->end ? line->end + 1 : line->end;
    }
    return true;
}

/* ---- loops ---- */

typedef struct loop {
    int64_t first, last; /* the label's line and the jump's */
    int instructions, memory, vectors, width;
} loop;

/* The label that a jump goes to: the last word of an instruction such as jne or b.ne; NULL: it is
 * no jump, or one to elsewhere. */
static const char *target_of(const asm_line *line, size_t *n)
{
    const char *label = line->end;
    if (line->kind != LINE_CODE || !strchr("jbct", line->text[0])) return NULL;
    while (label > line->text && !isspace((unsigned char)label[-1]) && label[-1] != ',')
        label--;
    *n = (size_t)(line->end - label);
    return *n >= 2 && label[0] == '.' ? label : NULL;
}

static bool is_label(const asm_line *line, const char *label, size_t n)
{
    return line->kind == LINE_LABEL && word_size(line) == n + 1 &&
           strncmp(line->text, label, n) == 0;
}

/* The line that a jump goes back to; -1: it does not. */
static int64_t jumps_to(const asm_text *t, int64_t start, int64_t at)
{
    size_t n;
    const char *label = target_of(&t->lines[at], &n);
    for (int64_t i = at - 1; label && i >= start; i--) {
        if (is_label(&t->lines[i], label, n)) return i;
    }
    return -1;
}

/* Some jump of the loop goes there: other labels are the debugger's. */
static bool is_target(const asm_text *t, const loop *l, int64_t at)
{
    for (int64_t i = l->first; i <= l->last; i++) {
        size_t n;
        const char *label = target_of(&t->lines[i], &n);
        if (label && is_label(&t->lines[at], label, n)) return true;
    }
    return false;
}

/* The bytes of the widest vector that an instruction works on; of x86-64 and of ARM. A scalar of
 * floating point is in the same registers and counts as its own size. */
static int width_of(const asm_line *line)
{
    size_t n = word_size(line);
    const char *code = line->text;
    int width = 0;
    for (const char *at = code; at + 4 < line->end; at++) {
        if (strncmp(at, "%zmm", 4) == 0 && width < 64) width = 64;
        if (strncmp(at, "%ymm", 4) == 0 && width < 32) width = 32;
        if (strncmp(at, "%xmm", 4) == 0 && width < 16) width = 16;
        if (at[0] == 'v' && isdigit((unsigned char)at[1]) && memchr(at, '.', 5) && width < 16)
            width = 16;
    }
    if (width == 16 && n > 2 && code[n - 2] == 's' && (code[n - 1] == 's' || code[n - 1] == 'd'))
        return code[n - 1] == 's' ? 4 : 8;
    return width;
}

static void weigh(const asm_text *t, loop *l)
{
    for (int64_t i = l->first; i <= l->last; i++) {
        const asm_line *line = &t->lines[i];
        int width = line->kind == LINE_CODE ? width_of(line) : 0;
        if (line->kind != LINE_CODE) continue;
        l->instructions++;
        l->memory += memchr(line->text, '(', (size_t)(line->end - line->text)) != NULL ||
                     memchr(line->text, '[', (size_t)(line->end - line->text)) != NULL;
        l->vectors += width > 8;
        if (width > l->width) l->width = width;
    }
}

static bool is_better(const loop *a, const loop *b)
{
    int64_t ours = (int64_t)a->vectors * b->instructions,
            theirs = (int64_t)b->vectors * a->instructions;
    if (a->width != b->width) return a->width > b->width;
    return ours != theirs ? ours > theirs : a->memory > b->memory;
}

/* Of the loops without another inside, the busiest that touches memory; false: there is none. */
static bool find_loop(const asm_text *t, int64_t start, int64_t end, loop *out)
{
    loop found[MAX_LOOPS];
    int n = 0;
    bool any = false;
    for (int64_t i = start; i < end && n < MAX_LOOPS; i++) {
        int64_t label = jumps_to(t, start, i);
        if (label >= 0) found[n++] = (loop){.first = label, .last = i};
    }
    for (int i = 0; i < n; i++) {
        bool innermost = true;
        for (int k = 0; innermost && k < n; k++)
            innermost = k == i || found[k].first < found[i].first || found[k].last > found[i].last;
        if (!innermost) continue;
        weigh(t, &found[i]);
        if (found[i].memory == 0 || (any && !is_better(&found[i], out))) continue;
        *out = found[i];
        any = true;
    }
    return any;
}

/* ---- printing ---- */

static void put_places(const asm_text *t, const loop *l, const char *file)
{
    int low = 0, high = 0;
    for (int64_t i = l->first; i <= l->last; i++) {
        int source = t->lines[i].source;
        if (t->lines[i].kind != LINE_CODE || source == 0) continue;
        if (low == 0 || source < low) low = source;
        if (source > high) high = source;
    }
    if (low == 0) return;
    printf(", ");
    cli_put_name(stdout, file);
    printf(low == high ? ":%d" : ":%d-%d", low, high);
}

static void put_loop(const asm_text *t, const loop *l, const char *name, size_t n, const char *file)
{
    printf("\n%.*s", (int)n, name);
    put_places(t, l, file);
    printf(": %d instructions, ", l->instructions);
    if (l->width > 8)
        printf("%d bytes wide\n", l->width);
    else
        puts("one element at a time");
    for (int64_t i = l->first; i <= l->last; i++) {
        const asm_line *line = &t->lines[i];
        if (line->kind == LINE_OTHER || (line->kind == LINE_LABEL && !is_target(t, l, i))) continue;
        printf("%s%.*s\n", line->kind == LINE_LABEL ? "    " : "        ",
               (int)(line->end - line->text), line->text);
    }
}

static int print_loops(const asm_text *t, const char *file)
{
    int shown = 0;
    for (int64_t i = 0; i < t->n; i++) {
        const asm_line *line = &t->lines[i];
        int64_t end = i + 1;
        loop best;
        if (line->kind != LINE_LABEL || line->text[0] == '.') continue;
        while (end < t->n && !(t->lines[end].kind == LINE_LABEL && t->lines[end].text[0] != '.'))
            end++;
        if (!find_loop(t, i, end, &best)) continue;
        put_loop(t, &best, line->text, word_size(line) - 1, file);
        shown++;
    }
    return shown;
}

/* ---- the compiler ---- */

static wick_status compile(wick_ctx *ctx, const show_source *s, const char *folder, char **out)
{
    wick_arena arena = {0};
    wick_args args = {.arena = &arena};
    wick_text unit_path = {0}, made_path = {0}, code = {0};
    wick_unit unit = {.scan = &s->scan};
    wick_process result = {0};
    wick_text_printf(&unit_path, "%s/unit.c", folder);
    wick_text_printf(&made_path, "%s/unit.s", folder);
    memcpy(unit.types, s->types, sizeof unit.types);
    wick_glue_write(&code, &unit, 1, 0, false);
    wick_status status = show_source_compiler(ctx, s, &args);
    wick_toolchain_user_flags(&s->options, &args);
    wick_args_split(&args, "-g1 -S -o");
    wick_args_add(&args, wick_text_str(&made_path));
    wick_args_add(&args, wick_text_str(&unit_path));
    if (!status && (args.failed || code.failed || unit_path.failed || made_path.failed))
        status = wick_fail(ctx, WICK_ENOMEM, "out of memory");
    if (!status) status = wick_file_write(ctx, unit_path.data, code.data, code.size);
    if (!status) status = wick_process_run(ctx, args.items, &result);
    if (!status && result.exit_code != 0)
        status = wick_diagnose_failure(ctx, &unit, 1, 0, &result, folder);
    if (!status) status = wick_file_read(ctx, made_path.data, out, NULL);
    wick_process_free(&result);
    wick_text_free(&code);
    wick_text_free(&made_path);
    wick_text_free(&unit_path);
    wick_arena_free(&arena);
    return status;
}

wick_status show_assembly(wick_ctx *ctx, const show_source *s)
{
    char *folder = NULL, *text = NULL;
    asm_text t = {0};
    wick_status status = wick_dir_temporary(ctx, "wick", &folder);
    if (!status) status = compile(ctx, s, folder, &text);
    if (!status && !read_lines(text, s->scan.file, &t))
        status = wick_fail(ctx, WICK_ENOMEM, "out of memory");
    if (!status && print_loops(&t, s->scan.file) == 0)
        puts("\nno loop that touches memory: what there was is unrolled, or a call");
    wick_free(t.lines);
    wick_free(text);
    if (folder) wick_dir_remove(folder);
    wick_free(folder);
    return status;
}
