/* cli.h -- the verbs of the `wick` command and what they share
 *
 * Each verb is one cmd_*.c with one cli_verb: its help, the shell completions and the manual page
 * are all printed from that, so none of them can fall behind.
 *
 * Answers go to stdout, everything else to stderr, each line of it with the verb in front. Exit
 * codes: 0, 1 (it failed), 2 (it was asked wrongly).
 */
#ifndef WICK_CLI_H
#define WICK_CLI_H

#include "builder.h"

#include <argp.h>
#include <stdio.h>

enum { CLI_OK = 0, CLI_FAILED = 1, CLI_USAGE = 2 };

/* A word and what it means; lists end with a word of NULL. */
typedef struct cli_pair {
    const char *word, *meaning;
} cli_pair;

typedef struct cli_verb {
    const char *name;
    const char *called;                /* "wick build": what its messages begin with */
    const char *purpose;               /* one line */
    const char *operands;              /* "FILE..."; "" when it takes none */
    const char *description;           /* paragraphs, an empty line between them */
    const struct argp_option *options; /* NULL: none but --help */
    const cli_pair *words;             /* what the operand may be; NULL: anything */
    const cli_pair *environment;       /* the variables it reads; NULL: none */
    const cli_pair *examples;          /* a command, and what it is for */
    bool takes_files;                  /* the operands are files */
    int (*run)(const struct cli_verb *verb, int argc, char **argv); /* argv[0] is `called` */
} cli_verb;

extern const cli_verb cli_bench, cli_build, cli_cache, cli_check, cli_completion, cli_config,
    cli_doctor, cli_list, cli_man, cli_new, cli_show, cli_tune;

/* ---- main.c ---- */

/* In the order of the help; ends with NULL. */
extern const cli_verb *const cli_verbs[];
/* "wick build: MESSAGE" on stderr; returns CLI_FAILED. */
int cli_fail(const char *called, const char *message);
/* The nearest of the names, or NULL when none is near. */
const char *cli_nearest(const char *word, const char *const *names, int n);

/* ---- cmd_python.c ---- */

/* Runs a verb that is written in Python: wick/cli_VERB.py of the same installation. */
int cli_run_python(const cli_verb *verb, int argc, char **argv);

/* ---- help.c ---- */

void cli_help(FILE *out);
void cli_verb_help(FILE *out, const cli_verb *verb);
/* Parses a verb's command line with its own parser; --help and --usage are answered here and end
 * the program, and so does a wrong use. */
void cli_parse(const cli_verb *verb, argp_parser_t parser, int argc, char **argv, void *input);

/* ---- words.c: other people's names on a terminal and in JSON ---- */

/* Control characters become `?`: a name cannot move the cursor. */
void cli_put_name(FILE *out, const char *s);
/* A JSON string with its quotes. Bytes that are not UTF-8 become what Python's surrogateescape
 * makes of them, so that os.fsencode gives the name back. */
void cli_put_json(FILE *out, const char *s);
void cli_add_json(wick_text *out, const char *s);
/* "340 B", "12.3 kB", "1.5 GB". */
void cli_put_bytes(FILE *out, int64_t bytes);

/* ---- progress.c: how far a build is, once it takes longer than a second ---- */

typedef struct cli_progress cli_progress;

/* On a terminal one line that is rewritten, otherwise a line now and then. NULL when there is no
 * memory or thread for it: every function takes NULL. */
cli_progress *cli_progress_start(const char *called, bool every_step);
/* A wick_build_options.progress. */
void cli_progress_step(void *progress, int64_t done, int64_t total, const char *what);
/* Ends it, leaving the terminal's line empty; returns the largest total it was told. */
int64_t cli_progress_stop(cli_progress *progress);

/* ---- editor.c ---- */

/* Writes a file that Wick makes again and again; refuses to replace one in which `mark` is not
 * found. */
wick_status cli_write_ours(wick_ctx *ctx, const char *path, const char *mark,
                           const wick_text *content);

/* Writes DIR/compile_commands.json and DIR/.clangd for these sources. Refuses to replace files that
 * it did not write. */
wick_status cli_editor_write(wick_ctx *ctx, const wick_source *sources, int64_t n,
                             const wick_build_options *options, const char *dir);

/* ---- flags.c ---- */

/* Every flag and why, and what it comes to on this machine. */
wick_status cli_flags_print(wick_ctx *ctx, const char *compiler);

/* ---- stub.c: operators as a .pyi ---- */

/* Adds an operator's function, and that of its second name. */
wick_status cli_stub_add(wick_ctx *ctx, const wick_module_table *table, int64_t index,
                         wick_text *functions);
/* The whole file of these functions. */
wick_status cli_stub_print(wick_ctx *ctx, const wick_text *functions, wick_text *out);
/* The operators of these sources into FILE.pyi. */
wick_status cli_stub_write(wick_ctx *ctx, const wick_source *sources, int64_t n, const char *path);

/* ---- tables.c: the operators of a source or a module ---- */

typedef struct cli_table {
    const wick_module_table *table;
    bool from_source; /* made by wick_build_list */
} cli_table;

/* A .so is loaded and its table read; anything else is scanned as a source. A loaded module stays
 * loaded: the table is part of it. */
wick_status cli_table_open(wick_ctx *ctx, const char *path, cli_table *out);
void cli_table_close(cli_table *t);
/* The operators that come with Wick. */
wick_status cli_table_shipped(wick_ctx *ctx, cli_table *out);
/* A namespace that was named, or NULL, is Wick's own. */
bool cli_is_shipped(const char *ns);
/* The module with this operator, of the package `ns` that is installed beside Wick; a table without
 * operators when there is none. */
wick_status cli_table_installed(wick_ctx *ctx, const char *ns, const char *name, cli_table *out);

#endif /* WICK_CLI_H */
