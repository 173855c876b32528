/* diagnose_launch.c -- a launch that does not fit its kernel
 *
 * WICK_LAUNCH is a call of a function that nobody wrote (launcher.c). What the compiler says of
 * that function is told of the kernel.
 */
#include "builder.h"

#include <stdlib.h>
#include <string.h>

static const char hidden[] = "wick_launch_";
enum { BEFORE_ARGUMENTS = 4 }; /* ctx, grid, block, shared bytes */

static const char *find(const char *words, size_t size, const char *what)
{
    size_t n = strlen(what);
    for (size_t i = 0; i + n <= size; i++)
        if (memcmp(words + i, what, n) == 0) return words + i;
    return NULL;
}

/* ---- which launch ---- */

/* From the name WICK_LAUNCH to its last parenthesis; the kernel's name in it. */
static int64_t read_launch(wick_lexer *lex, wick_token *kernel)
{
    int parentheses = 0, commas = 0;
    int64_t last = 0;
    *kernel = (wick_token){0};
    do {
        wick_token t = wick_lex_next(lex);
        if (t.kind == WICK_TOKEN_END) break;
        if (wick_token_is(&t, "(")) parentheses++;
        if (wick_token_is(&t, ")")) parentheses--;
        if (wick_token_is(&t, ",") && parentheses == 1) commas++;
        if (commas == 1 && t.kind == WICK_TOKEN_NAME && !kernel->start) *kernel = t;
        last = t.line;
    } while (parentheses > 0);
    return last;
}

/* The kernel that is launched on this line; false: none is. */
static bool launched_on(const wick_scan *scan, int64_t line, wick_token *kernel)
{
    wick_lexer lex;
    wick_lex_start(&lex, scan->text, scan->text_bytes);
    for (wick_token t = wick_lex_next(&lex); t.kind != WICK_TOKEN_END && t.line <= line;
         t = wick_lex_next(&lex)) {
        if (!wick_token_is(&t, "WICK_LAUNCH")) continue;
        if (read_launch(&lex, kernel) >= line) return kernel->start != NULL;
    }
    return false;
}

/* ---- in words ---- */

void wick_diagnose_launch(wick_text *out, const wick_scan *scan, int64_t line, const char *words,
                          size_t size)
{
    wick_token kernel;
    bool about =
        find(words, size, hidden) || find(words, size, "argument") || find(words, size, "passing ");
    if (!about || !launched_on(scan, line, &kernel)) return;
    for (int i = 0; i < scan->n_kernels; i++) {
        const wick_scan_kernel *k = &scan->kernels[i];
        if (!wick_token_is(&kernel, k->name)) continue;
        wick_text_printf(out,
                         "\nafter ctx, %s, grid, block and shared bytes, the launch takes what the "
                         "kernel on line %lld does\n    %s(%s)",
                         k->name, (long long)k->line, k->name, k->params);
        return;
    }
    wick_text_printf(out,
                     "\nthere is no kernel %.*s in this file: WICK_LAUNCH starts the __global__ "
                     "functions of the file that it is written in",
                     (int)kernel.size, kernel.start);
}

/* "... for argument 6 of '": counted as the kernel counts, not as the function does. */
static void add_counted(wick_text *out, const char *words, size_t size)
{
    static const char before[] = "argument ", after[] = " of '";
    size_t n = strlen(before), m = strlen(after), end = size < m ? 0 : size - m, digit = end;
    while (digit > 0 && words[digit - 1] >= '0' && words[digit - 1] <= '9')
        digit--;
    long number = digit < end ? strtol(words + digit, NULL, 10) : 0;
    if (number > BEFORE_ARGUMENTS && digit >= n && !memcmp(words + digit - n, before, n) &&
        !memcmp(words + end, after, m)) {
        wick_text_addn(out, words, digit);
        wick_text_printf(out, "%ld", number - BEFORE_ARGUMENTS);
        words += end;
        size -= end;
    }
    wick_text_addn(out, words, size);
}

void wick_diagnose_launch_words(wick_text *out, const char *words, size_t size)
{
    const char *end = words + size, *at;
    while ((at = find(words, (size_t)(end - words), hidden)) != NULL) {
        add_counted(out, words, (size_t)(at - words));
        words = at + strlen(hidden);
    }
    wick_text_addn(out, words, (size_t)(end - words));
}
