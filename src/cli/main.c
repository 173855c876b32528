/* main.c -- the `wick` command: finds the verb and hands over */
#include "cli.h"

#include <argp.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *called; /* argv[0] of the verb: what its messages begin with */
    const char *help;
} verbs[] = {
    {"build", cmd_build, "wick build", "turn operator files into a module"},
    {"list", cmd_list, "wick list", "list operators: the shipped ones, a file's, or a module's"},
    {"show", cmd_show, "wick show",
     "say what an operator takes and returns, and what is made of it"},
};

enum { N_VERBS = sizeof verbs / sizeof verbs[0], MAX_WORD = 32 };

int cli_fail(const char *verb, const char *message)
{
    fprintf(stderr, "%s: %s\n", verb, message);
    return CLI_FAILED;
}

/* Insertions, deletions and changes that make one word the other; words longer than MAX_WORD are
 * far from all. */
static int distance(const char *a, const char *b)
{
    int row[MAX_WORD + 1];
    int n = (int)strlen(b);
    if (strlen(a) > MAX_WORD || n > MAX_WORD) return MAX_WORD;
    for (int k = 0; k <= n; k++) {
        row[k] = k;
    }
    for (int i = 0; a[i]; i++) {
        int diagonal = row[0]++;
        for (int k = 0; k < n; k++) {
            int change = diagonal + (a[i] != b[k]),
                shift = (row[k] < row[k + 1] ? row[k] : row[k + 1]) + 1;
            diagonal = row[k + 1];
            row[k + 1] = change < shift ? change : shift;
        }
    }
    return row[n];
}

const char *cli_nearest(const char *word, const char *const *names, int n)
{
    const char *nearest = NULL;
    int best = (int)strlen(word) / 2 + 1;
    for (int i = 0; i < n; i++) {
        int d = distance(word, names[i]);
        if (d >= best) continue;
        best = d;
        nearest = names[i];
    }
    return nearest;
}

static void print_help(void)
{
    puts("Usage: wick VERB [OPTION...]\n"
         "PyTorch operators in plain C.\n");
    for (int i = 0; i < N_VERBS; i++) {
        printf("  %-8s %s\n", verbs[i].name, verbs[i].help);
    }
    puts("\n  --help     this text; `wick VERB --help` has the verb's options and an example\n"
         "  --version  the version\n\n"
         "Example:\n  wick build relu.c -o relu.so && wick list relu.so");
}

static int unknown_verb(const char *word)
{
    const char *names[N_VERBS], *nearest;
    for (int i = 0; i < N_VERBS; i++) {
        names[i] = verbs[i].name;
    }
    nearest = cli_nearest(word, names, N_VERBS);
    fprintf(stderr, "wick: there is no verb \"%s\"", word);
    if (nearest) fprintf(stderr, "; did you mean \"%s\"?", nearest);
    fputs("\nTry `wick --help'.\n", stderr);
    return CLI_USAGE;
}

int main(int argc, char **argv)
{
    char called[MAX_WORD];
    argp_err_exit_status = CLI_USAGE;
    if (argc < 2) {
        fputs("wick: a verb is missing\nTry `wick --help'.\n", stderr);
        return CLI_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "-?") == 0) {
        print_help();
        return CLI_OK;
    }
    if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0) {
        printf("wick %s\n", WICK_VERSION);
        return CLI_OK;
    }
    for (int i = 0; i < N_VERBS; i++) {
        if (strcmp(argv[1], verbs[i].name) != 0) continue;
        snprintf(called, sizeof called, "%s", verbs[i].called);
        argv[1] = called;
        return verbs[i].run(argc - 1, argv + 1);
    }
    return unknown_verb(argv[1]);
}
