/* cli.h -- the verbs of the `wick` command and what they share
 *
 * Answers go to stdout, everything else to stderr, each line of it with the verb in front. Exit
 * codes: 0, 1 (it failed), 2 (it was asked wrongly).
 */
#ifndef WICK_CLI_H
#define WICK_CLI_H

#include <wick/build.h>
#include <wick/glue.h>

enum { CLI_OK = 0, CLI_FAILED = 1, CLI_USAGE = 2 };

/* Each takes argv[0] = "wick VERB". */
int cmd_build(int argc, char **argv);
int cmd_list(int argc, char **argv);
int cmd_show(int argc, char **argv);

/* "wick build: MESSAGE" on stderr; returns CLI_FAILED. */
int cli_fail(const char *verb, const char *message);
/* The nearest of the names, or NULL when none is near. */
const char *cli_nearest(const char *word, const char *const *names, int n);

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

/* ---- src/build/builder.h says what these do ---- */

wick_status wick_build_list(wick_ctx *ctx, const wick_source *source,
                            const wick_module_table **out);
void wick_build_list_free(const wick_module_table *table);
enum { CLI_WORDS = 1, CLI_SCHEMA = 2, CLI_PROTOTYPE = 4, CLI_STUB = 8 };
wick_status wick_build_describe(wick_ctx *ctx, const char *name, const char *signature, int what,
                                char **out);
wick_status wick_build_package_file(wick_ctx *ctx, const char *name, char **out);

#endif /* WICK_CLI_H */
