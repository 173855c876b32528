/* help.c -- the help, printed from the verbs' own descriptions
 *
 * argp parses, but does not print: its layout follows the terminal and the environment, and the
 * manual page and completions need the same text anyway.
 */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

enum { WIDTH = 80, OPTION_COLUMN = 30, PAIR_COLUMN = 19, KEY_USAGE = 1000 };

/* ---- layout ---- */

/* The first `size` bytes as words from column `at` on, broken before WIDTH; further lines begin at
 * `indent`. */
static void put_part(FILE *out, const char *text, size_t size, int at, int indent)
{
    const char *end = text + size;
    bool first = true;
    while ((text += strspn(text, " ")) < end) {
        int n = (int)strcspn(text, " \n");
        if (!first && at + 1 + n > WIDTH) {
            fprintf(out, "\n%*s", indent, "");
            at = indent;
            first = true;
        }
        fprintf(out, "%s%.*s", first ? "" : " ", n, text);
        at += n + !first;
        first = false;
        text += n;
    }
    fputs("\n", out);
}

static void put_words(FILE *out, const char *text, int at, int indent)
{
    put_part(out, text, strlen(text), at, indent);
}

/* Lines of the text, each broken on its own. */
static void put_lines(FILE *out, const char *text)
{
    while (*text) {
        size_t n = strcspn(text, "\n");
        put_part(out, text, n, 0, 0);
        text += n + (text[n] == '\n');
    }
}

static void put_row(FILE *out, const char *left, const char *right, int column)
{
    int at = fprintf(out, "  %s", left);
    if (at > column - 2) {
        fprintf(out, "\n%*s", column, "");
    } else {
        fprintf(out, "%*s", column - at, "");
    }
    put_words(out, right, column, column);
}

static void put_option(FILE *out, const char *name, int key, const char *value, const char *doc)
{
    char left[64], letter[8] = "    ";
    if (key > ' ' && key < 127) snprintf(letter, sizeof letter, "-%c, ", key);
    snprintf(left, sizeof left, "%s--%s%s%s", letter, name, value ? "=" : "", value ? value : "");
    put_row(out, left, doc, OPTION_COLUMN);
}

static void put_pairs(FILE *out, const char *title, const cli_pair *pairs)
{
    if (!pairs) return;
    fprintf(out, "\n%s:\n", title);
    for (; pairs->word; pairs++) {
        put_row(out, pairs->word, pairs->meaning, PAIR_COLUMN);
    }
}

/* ---- the texts ---- */

static void put_usage(FILE *out, const cli_verb *verb)
{
    fprintf(out, "Usage: %s [OPTION...]%s%s\n", verb->called, *verb->operands ? " " : "",
            verb->operands);
}

static void put_examples(FILE *out, const cli_pair *examples)
{
    fputs("\nExamples:\n", out);
    for (; examples->word; examples++) {
        fprintf(out, "  %s\n      ", examples->word);
        put_words(out, examples->meaning, 6, 6);
    }
}

void cli_verb_help(FILE *out, const cli_verb *verb)
{
    put_usage(out, verb);
    fputs("\n", out);
    put_lines(out, verb->description);
    put_pairs(out, "What", verb->words);
    fputs("\nOptions:\n", out);
    for (const struct argp_option *o = verb->options; o && o->name; o++) {
        put_option(out, o->name, o->key, o->arg, o->doc);
    }
    put_option(out, "help", 'h', NULL, "this text");
    put_pairs(out, "Environment", verb->environment);
    put_examples(out, verb->examples);
}

void cli_help(FILE *out)
{
    static const cli_pair examples[] = {
        {"wick new scale", "starts an operator: scale.c, its reference and a test"},
        {"wick build scale.c -o scale.so", "turns it into a module that PyTorch and C can load"},
        {"wick show scale.c", "says what it takes and returns"},
        {0}};
    fputs("Usage: wick VERB [OPTION...]\n\nPyTorch operators in plain C.\n\nVerbs:\n", out);
    for (const cli_verb *const *verb = cli_verbs; *verb; verb++) {
        put_row(out, (*verb)->name, (*verb)->purpose, 14);
    }
    fputs("\nOptions:\n", out);
    put_option(out, "help", 'h', NULL, "this text; `wick VERB --help' explains a verb");
    put_option(out, "version", 'V', NULL, "the version");
    put_examples(out, examples);
}

/* ---- parsing ---- */

typedef struct parsing {
    const cli_verb *verb;
    void *input;
} parsing;

static void leave(void)
{
    exit(fflush(stdout) == 0 && !ferror(stdout) ? CLI_OK
                                                : cli_fail("wick", "the answer cannot be written"));
}

/* The type is argp's. NOLINTNEXTLINE(readability-non-const-parameter) */
static error_t parse_common(int key, char *value, struct argp_state *state)
{
    parsing *p = state->input;
    (void)value;
    switch (key) {
    case ARGP_KEY_INIT: state->child_inputs[0] = p->input; return 0;
    case 'h':
    case '?':
        cli_verb_help(stdout, p->verb);
        leave();
        return 0;
    case KEY_USAGE:
        put_usage(stdout, p->verb);
        leave();
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

void cli_parse(const cli_verb *verb, argp_parser_t parser, int argc, char **argv, void *input)
{
    static const struct argp_option common_options[] = {
        {"help", 'h', NULL, 0, NULL, 0}, {"usage", KEY_USAGE, NULL, 0, NULL, 0}, {0}};
    const struct argp own = {.options = verb->options, .parser = parser};
    const struct argp_child children[] = {{&own, 0, NULL, 0}, {0}};
    const struct argp common = {
        .options = common_options, .parser = parse_common, .children = children};
    parsing p = {verb, input};
    argp_parse(&common, argc, argv, ARGP_NO_HELP, NULL, &p);
}
