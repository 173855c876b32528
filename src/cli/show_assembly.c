/* show_assembly.c -- the loops that the C compiler made of a source
 *
 * The unit is compiled once more, to assembly with line numbers (which change no instruction). A
 * loop is a jump back to a label; one that has no other inside is where the time goes. First there
 * is a line for each of them, then their instructions:
 *
 *   rows_cpu, rows.c:15: 22 instructions, 32 bytes wide, 8 of them on one element
 *   rows_cpu, rows.c:28: 7 instructions, 32 bytes wide
 *   rows_cpu, rows.c:27-28: 6 instructions, one element at a time, the rest of a wider one
 *
 *   rows_cpu, rows.c:15: 22 instructions, 32 bytes wide, 8 of them on one element
 *       .L4:
 *           vmovups (%rsi), %ymm1
 *           ...
 *
 * The rest is what a compiler makes of the same loop for the elements that no full vector is left
 * for, or for arrays that overlap. A sum in the order of its elements is wide where it reads, and
 * adds one element after the other.
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
    int instructions, memory, width;
    int scalars; /* that compute a scalar of floating point */
    bool rest;   /* of a wider loop */
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

static bool begins_with_one_of(const char *code, size_t n, const char *const *stems)
{
    for (; *stems; stems++)
        if (n >= strlen(*stems) && strncmp(code, *stems, strlen(*stems)) == 0) return true;
    return false;
}

static bool touches_memory(const asm_line *line)
{
    size_t n = (size_t)(line->end - line->text);
    return memchr(line->text, '(', n) != NULL || memchr(line->text, '[', n) != NULL;
}

/* With what instructions on numbers of floating point begin. */
static const char *const arithmetic[] = {"add", "sub", "mul", "div",  "max",
                                         "min", "fm",  "fnm", "sqrt", NULL};

/* A 16-byte register also holds a scalar of floating point, and scalars are copied, masked and
 * selected by instructions for vectors: only what loads, stores or computes several elements says
 * that a loop is vectorised. */
static bool is_packed(const asm_line *line)
{
    static const char *const moves[] = {"movup", "movap", "movdq", NULL}, *const integers[] = {
                                                                              "padd", "psub",
                                                                              "pmul", "pmax",
                                                                              "pmin", "pmad",
                                                                              NULL};
    const char *code = line->text + (line->text[0] == 'v');
    size_t n = word_size(line) - (size_t)(code - line->text);
    if (begins_with_one_of(code, n, moves)) return touches_memory(line);
    if (begins_with_one_of(code, n, arithmetic)) return n > 2 && code[n - 2] == 'p';
    return begins_with_one_of(code, n, integers);
}

/* addss, vfmadd231sd, divss; a scalar that is only moved, converted or compared is no work. */
static bool is_scalar(const asm_line *line)
{
    const char *code = line->text + (line->text[0] == 'v');
    size_t n = word_size(line) - (size_t)(code - line->text);
    return n > 2 && begins_with_one_of(code, n, arithmetic) && code[n - 2] == 's' &&
           (code[n - 1] == 's' || code[n - 1] == 'd');
}

/* The bytes of the widest vector that an instruction works on, of x86-64 and of ARM; 0: none. */
static int width_of(const asm_line *line)
{
    int width = 0;
    for (const char *at = line->text; at + 4 < line->end; at++) {
        if (strncmp(at, "%zmm", 4) == 0 && width < 64) width = 64;
        if (strncmp(at, "%ymm", 4) == 0 && width < 32) width = 32;
        if (strncmp(at, "%xmm", 4) == 0 && width < 16 && is_packed(line)) width = 16;
        if (at[0] == 'v' && isdigit((unsigned char)at[1]) && memchr(at, '.', 5) && width < 16)
            width = 16;
    }
    return width;
}

static void weigh(const asm_text *t, loop *l)
{
    for (int64_t i = l->first; i <= l->last; i++) {
        const asm_line *line = &t->lines[i];
        int width = line->kind == LINE_CODE ? width_of(line) : 0;
        if (line->kind != LINE_CODE) continue;
        l->instructions++;
        l->memory += touches_memory(line);
        l->scalars += is_scalar(line);
        if (width > l->width) l->width = width;
    }
}

static bool has_source(const asm_text *t, const loop *l, int source)
{
    for (int64_t i = l->first; i <= l->last; i++)
        if (t->lines[i].kind == LINE_CODE && t->lines[i].source == source) return true;
    return false;
}

/* It has all lines of the author's that the wider one has. */
static bool is_rest_of(const asm_text *t, const loop *l, const loop *wider)
{
    bool any = false;
    if (l->width >= wider->width) return false;
    for (int64_t i = wider->first; i <= wider->last; i++) {
        if (t->lines[i].kind != LINE_CODE || t->lines[i].source == 0) continue;
        if (!has_source(t, l, t->lines[i].source)) return false;
        any = true;
    }
    return any;
}

/* The loops without another inside that touch memory, in their order; returns how many. */
static int find_loops(const asm_text *t, int64_t start, int64_t end, loop *out)
{
    loop found[MAX_LOOPS];
    int n = 0, kept = 0;
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
        if (found[i].memory > 0) out[kept++] = found[i];
    }
    for (int i = 0; i < kept; i++)
        for (int k = 0; k < kept; k++)
            out[i].rest = out[i].rest || is_rest_of(t, &out[i], &out[k]);
    return kept;
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

static void put_summary(const asm_text *t, const loop *l, const asm_line *name, const char *file)
{
    printf("%.*s", (int)word_size(name) - 1, name->text);
    put_places(t, l, file);
    printf(": %d instructions, ", l->instructions);
    if (l->width > 0)
        printf("%d bytes wide", l->width);
    else
        printf("one element at a time");
    if (l->width > 0 && l->scalars > 0) printf(", %d of them on one element", l->scalars);
    puts(l->rest ? ", the rest of a wider one" : "");
}

static void put_instructions(const asm_text *t, const loop *l)
{
    for (int64_t i = l->first; i <= l->last; i++) {
        const asm_line *line = &t->lines[i];
        if (line->kind == LINE_OTHER || (line->kind == LINE_LABEL && !is_target(t, l, i))) continue;
        printf("%s%.*s\n", line->kind == LINE_LABEL ? "    " : "        ",
               (int)(line->end - line->text), line->text);
    }
}

/* A line per loop, or the loops as a whole; returns how many there are. */
static int print_loops(const asm_text *t, const char *file, bool whole)
{
    int shown = 0;
    for (int64_t i = 0; i < t->n; i++) {
        const asm_line *line = &t->lines[i];
        int64_t end = i + 1;
        loop loops[MAX_LOOPS];
        if (line->kind != LINE_LABEL || line->text[0] == '.') continue;
        while (end < t->n && !(t->lines[end].kind == LINE_LABEL && t->lines[end].text[0] != '.'))
            end++;
        int n = find_loops(t, i, end, loops);
        for (int k = 0; k < n; k++) {
            if (whole) puts("");
            put_summary(t, &loops[k], line, file);
            if (whole) put_instructions(t, &loops[k]);
        }
        shown += n;
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
    if (!status) show_head(s, 0);
    if (!status && print_loops(&t, s->scan.file, false) == 0)
        puts("no loop that touches memory: what there was is unrolled, or a call");
    if (!status) print_loops(&t, s->scan.file, true);
    wick_free(t.lines);
    wick_free(text);
    if (folder) wick_dir_remove(folder);
    wick_free(folder);
    return status;
}
