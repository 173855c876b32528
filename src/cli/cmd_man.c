/* cmd_man.c -- `wick man`: the manual page, from the same tables as the help */
#include "cli.h"

#include <string.h>

/* roff gives a meaning to a backslash anywhere, and to a dot or quote at the start of a line; a
 * plain `-` may be set as a hyphen, which cannot be pasted into a shell. */
static void put_roff(const char *s)
{
    bool start = true;
    for (; *s; s++) {
        if (*s == '\\') {
            printf("\\e");
        } else if (*s == '-') {
            printf("\\-");
        } else {
            if (start && (*s == '.' || *s == '\'')) printf("\\&");
            putchar(*s);
        }
        start = *s == '\n';
    }
}

static void put_item(const char *bold, const char *text)
{
    printf(".TP\n\\fB");
    put_roff(bold);
    printf("\\fR\n");
    put_roff(text);
    puts("");
}

static void put_option(const struct argp_option *o)
{
    printf(".TP\n\\fB");
    if (o->key > ' ' && o->key < 127) printf("\\-%c\\fR, \\fB", o->key);
    printf("\\-\\-");
    put_roff(o->name);
    printf("\\fR");
    if (o->arg) {
        printf("=\\fI");
        put_roff(o->arg);
        printf("\\fR");
    }
    puts("");
    put_roff(o->doc);
    puts("");
}

static void put_pairs(const char *title, const cli_pair *pairs)
{
    if (!pairs) return;
    printf(".PP\n%s:\n", title);
    for (; pairs->word; pairs++) {
        put_item(pairs->word, pairs->meaning);
    }
}

/* An empty line ends a paragraph in our texts, .PP begins one in roff's. */
static void put_paragraphs(const char *text)
{
    while (*text) {
        const char *end = strstr(text, "\n\n");
        char paragraph[2048];
        int n = end ? (int)(end - text) : (int)strlen(text);
        snprintf(paragraph, sizeof paragraph, "%.*s", n, text);
        puts(".PP");
        put_roff(paragraph);
        puts("");
        text += n + (end ? 2 : 0);
    }
}

static void put_verb(const cli_verb *verb)
{
    printf(".SS \"%s", verb->called);
    if (*verb->operands) printf(" %s", verb->operands);
    puts("\"");
    put_paragraphs(verb->description);
    put_pairs("What", verb->words);
    if (verb->options) puts(".PP\nOptions:");
    for (const struct argp_option *o = verb->options; o && o->name; o++) {
        put_option(o);
    }
    put_pairs("Environment", verb->environment);
    puts(".PP\nExamples:");
    for (const cli_pair *example = verb->examples; example->word; example++) {
        put_item(example->word, example->meaning);
    }
}

static void print_page(void)
{
    printf(".TH WICK 1 \"\" \"Wick %s\" \"User Commands\"\n"
           ".SH NAME\nwick \\- PyTorch operators in plain C\n"
           ".SH SYNOPSIS\n.B wick\n\\fIVERB\\fR [\\fIOPTION\\fR...]\n"
           ".SH DESCRIPTION\n"
           "An operator is one C file with one line that says what it takes and returns. "
           "\\fBwick\\fR starts such files, builds them into modules that PyTorch, Python and C "
           "programs load, and says what is wrong when that fails. From Python, "
           "\\fBwick.load\\fR does the same.\n"
           ".SH VERBS\n",
           WICK_VERSION);
    for (const cli_verb *const *verb = cli_verbs; *verb; verb++) {
        put_verb(*verb);
    }
    puts(".SH EXIT STATUS\n"
         "0, 1 (it failed; the reason is on standard error) or 2 (it was asked wrongly).\n"
         ".SH SEE ALSO\n.BR cc (1),\n.BR clangd (1)");
}

/* The type is argp's. NOLINTNEXTLINE(readability-non-const-parameter) */
static error_t parse(int key, char *value, struct argp_state *state)
{
    (void)key;
    (void)value;
    (void)state;
    return ARGP_ERR_UNKNOWN;
}

static int run(const cli_verb *verb, int argc, char **argv)
{
    cli_parse(verb, parse, argc, argv, NULL);
    print_page();
    return CLI_OK;
}

static const cli_pair examples[] = {
    {"wick man | man -l -", "to read it"},
    {"wick man > ~/.local/share/man/man1/wick.1", "so that `man wick' finds it"},
    {0}};

const cli_verb cli_man = {.name = "man",
                          .called = "wick man",
                          .purpose = "print the manual page",
                          .operands = "",
                          .description =
                              "Print the manual page, made from the same text as the help. "
                              "It is installed with the command.",
                          .examples = examples,
                          .run = run};
