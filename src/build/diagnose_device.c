/* diagnose_device.c -- what a compiler of CUDA said, told about the author's file
 *
 *   op.c(12): error: identifier "y" is undefined     NVRTC, and nvcc of device code
 *   op.c:12:5: error: 'y' was not declared           nvcc's host compiler
 *   ptxas error : Entry function 'k' uses too ...    the assembler, which knows no lines
 *
 * Each becomes FILE:LINE: words, as the C compiler's do.
 */
#include "device.h"

#include <stdlib.h>
#include <string.h>

/* A place in a line of a log: the path is in front of `path_end`. */
typedef struct place {
    const char *path_end, *words;
    long line;
} place;

static const char *digits_before(const char *at, const char *start)
{
    while (at > start && at[-1] >= '0' && at[-1] <= '9')
        at--;
    return at;
}

/* PATH(LINE): words */
static bool is_in_parentheses(const char *at, const char *colon, place *out)
{
    if (colon == at || colon[-1] != ')') return false;
    const char *digit = digits_before(colon - 1, at);
    if (digit == colon - 1 || digit == at || digit[-1] != '(') return false;
    *out = (place){digit - 1, colon + 2, strtol(digit, NULL, 10)};
    return out->path_end > at;
}

/* PATH:LINE:COLUMN: words, or PATH:LINE: words */
static bool is_behind_colons(const char *at, const char *colon, place *out)
{
    const char *last = digits_before(colon, at);
    if (last == colon || last == at || last[-1] != ':') return false;
    const char *first = digits_before(last - 1, at);
    bool column = first < last - 1 && first > at && first[-1] == ':';
    const char *digit = column ? first : last;
    *out = (place){digit - 1, colon + 2, strtol(digit, NULL, 10)};
    return out->path_end > at;
}

static bool begins(const char *s, const char *with) { return !strncmp(s, with, strlen(with)); }

/* The place in the line that begins at `at`. A path may hold colons and brackets itself: what
 * follows is one of these words. */
static bool read_place(const char *at, place *out)
{
    static const char *const kinds[] = {"error",   "fatal error", "catastrophic error",
                                        "warning", "note",        "remark"};
    const char *end = at + strcspn(at, "\n");
    for (const char *colon = at; (colon = strstr(colon, ": ")) != NULL && colon < end; colon++) {
        if (!is_in_parentheses(at, colon, out) && !is_behind_colons(at, colon, out)) continue;
        for (int i = 0; i < WICK_COUNT(kinds); i++)
            if (begins(out->words, kinds[i])) return true;
    }
    return false;
}

static bool is_error(const char *words)
{
    return begins(words, "error") || begins(words, "fatal error") ||
           begins(words, "catastrophic error");
}

static const char *next_line(const char *at)
{
    at += strcspn(at, "\n");
    return at + (*at == '\n');
}

/* Up to the blank line that ends a message of CUDA's; those of a host compiler end with the next.
 */
static const char *message_end(const char *at)
{
    const char *line = next_line(at);
    place p;
    while (*line && *line != '\n' && !(read_place(line, &p) && is_error(p.words)))
        line = next_line(line);
    while (line > at && line[-1] == '\n')
        line--;
    return line;
}

/* The words, with further places in them spelt as ours. */
static void add_words(wick_text *out, const char *at, const char *end)
{
    while (at < end) {
        const char *stop = at + strcspn(at, "\n");
        place p;
        if (stop > end) stop = end;
        if (read_place(at, &p) && p.words <= stop && *p.path_end == '(') {
            wick_text_addn(out, at, (size_t)(p.path_end - at));
            wick_text_printf(out, ":%ld: ", p.line);
            at = p.words;
        }
        wick_text_addn(out, at, (size_t)(stop - at));
        at = stop;
        if (at < end) wick_text_addn(out, at++, 1);
    }
}

/* The first line that CUDA's own headers and ours are not to blame for. */
static wick_status fail_at(wick_ctx *ctx, const wick_scan *scan, const char *at, const place *p)
{
    size_t path = (size_t)(p->path_end - at);
    bool own = path == strlen(scan->file) && memcmp(at, scan->file, path) == 0;
    wick_text words = {0};
    add_words(&words, p->words, message_end(at));
    if (own)
        wick_fail(ctx, WICK_ECOMPILE, "%s:%ld: %s", scan->file, p->line, wick_text_str(&words));
    else
        wick_fail(ctx, WICK_ECOMPILE, "%s:1: in %.*s:%ld: %s", scan->file, (int)path, at, p->line,
                  wick_text_str(&words));
    wick_text_free(&words);
    return WICK_ECOMPILE;
}

/* The assembler speaks of kernels. */
static wick_status fail_assembler(wick_ctx *ctx, const wick_scan *scan, const char *log)
{
    const char *error = strstr(log, "ptxas error"), *name = NULL;
    const char *colon = error ? strchr(error, ':') : NULL;
    int64_t line = 1;
    if (!colon) return WICK_OK;
    name = strchr(colon, '\'');
    for (int i = 0; name && i < scan->n_kernels; i++) {
        size_t n = strlen(scan->kernels[i].name);
        if (!strncmp(name + 1, scan->kernels[i].name, n) && name[n + 1] == '\'')
            line = scan->kernels[i].line;
    }
    colon += 1 + strspn(colon + 1, " ");
    return wick_fail(ctx, WICK_ECOMPILE, "%s:%lld: error: %.*s", scan->file, (long long)line,
                     (int)strcspn(colon, "\n"), colon);
}

static wick_status diagnose(wick_ctx *ctx, const wick_scan *scan, const char *log)
{
    for (const char *at = log; *at; at = next_line(at)) {
        place p;
        if (read_place(at, &p) && is_error(p.words)) return fail_at(ctx, scan, at, &p);
    }
    wick_status status = fail_assembler(ctx, scan, log);
    if (status != WICK_OK) return status;
    return wick_fail(ctx, WICK_ECOMPILE, "%s:1: the device code does not compile: %s", scan->file,
                     *log ? log : "the compiler gave no reason");
}

wick_status wick_device_diagnose(wick_ctx *ctx, const wick_scan *scan, const char *log)
{
    wick_status status = diagnose(ctx, scan, log);
    wick_remedy_words(ctx, log);
    return status;
}

void wick_device_warnings(wick_text *out, const char *log)
{
    for (const char *at = log; out && *at; at = next_line(at)) {
        place p;
        if (!read_place(at, &p) || !begins(p.words, "warning")) continue;
        wick_text message = {0};
        wick_text_printf(&message, "%.*s:%ld: ", (int)(p.path_end - at), at, p.line);
        add_words(&message, p.words, message_end(at));
        wick_text_add(&message, "\n");
        if (!strstr(wick_text_str(out), wick_text_str(&message)))
            wick_text_add(out, wick_text_str(&message));
        wick_text_free(&message);
    }
}
