/* main.c -- the `wick` command: finds the verb and hands over */
#include "cli.h"

#include <errno.h>
#include <string.h>

const cli_verb *const cli_verbs[] = {
    &cli_new,   &cli_build,  &cli_list,   &cli_show,       &cli_check, &cli_bench, &cli_tune,
    &cli_cache, &cli_doctor, &cli_config, &cli_completion, &cli_man,   NULL};

enum { N_VERBS = WICK_COUNT(cli_verbs) - 1, MAX_WORD = 32 };

int cli_fail(const char *called, const char *message)
{
    fprintf(stderr, "%s: %s\n", called, message);
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

static const cli_verb *find_verb(const char *name)
{
    for (int i = 0; i < N_VERBS; i++) {
        if (strcmp(name, cli_verbs[i]->name) == 0) return cli_verbs[i];
    }
    return NULL;
}

static int unknown_verb(const char *word)
{
    const char *names[N_VERBS], *nearest;
    for (int i = 0; i < N_VERBS; i++) {
        names[i] = cli_verbs[i]->name;
    }
    nearest = cli_nearest(word, names, N_VERBS);
    fputs("wick: there is no verb \"", stderr);
    cli_put_name(stderr, word);
    fputs("\"", stderr);
    if (nearest) fprintf(stderr, "; did you mean \"%s\"?", nearest);
    fputs("\nTry `wick --help'.\n", stderr);
    return CLI_USAGE;
}

static int run_verb(const cli_verb *verb, int argc, char **argv)
{
    char called[MAX_WORD]; /* argp wants to be able to write to it */
    snprintf(called, sizeof called, "%s", verb->called);
    argv[0] = called;
    return verb->run(verb, argc, argv);
}

static bool is_one_of(const char *word, const char *a, const char *b, const char *c)
{
    return strcmp(word, a) == 0 || strcmp(word, b) == 0 || strcmp(word, c) == 0;
}

/* `wick help` and `wick help VERB`, as many expect. */
static int help(int argc, char **argv)
{
    const cli_verb *verb = argc > 2 ? find_verb(argv[2]) : NULL;
    if (argc > 2 && !verb) return unknown_verb(argv[2]);
    if (verb) {
        cli_verb_help(stdout, verb);
    } else {
        cli_help(stdout);
    }
    return CLI_OK;
}

static int run(int argc, char **argv)
{
    const cli_verb *verb = argc > 1 ? find_verb(argv[1]) : NULL;
    if (verb) return run_verb(verb, argc - 1, argv + 1);
    if (argc < 2) {
        fputs("wick: a verb is missing\nTry `wick --help'.\n", stderr);
        return CLI_USAGE;
    }
    if (is_one_of(argv[1], "--help", "-h", "-?")) return help(0, NULL);
    if (strcmp(argv[1], "help") == 0) return help(argc, argv);
    if (is_one_of(argv[1], "--version", "-V", "version")) {
        printf("wick %s\n", WICK_VERSION);
        return CLI_OK;
    }
    return unknown_verb(argv[1]);
}

int main(int argc, char **argv)
{
    int code;
    argp_err_exit_status = CLI_USAGE;
    code = run(argc, argv);
    /* A full disk behind `wick man > wick.1` is only seen here: what is still held back fails to
     * be written, or something before it has. */
    if (fflush(stdout) != 0) return cli_fail("wick", strerror(errno));
    return ferror(stdout) ? cli_fail("wick", "the answer cannot be written") : code;
}
