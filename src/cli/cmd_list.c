/* cmd_list.c -- `wick list`: names and signatures in columns */
#include "cli.h"
#include "module.h"

#include <stdlib.h>
#include <string.h>

typedef struct arguments {
    const char **files;
    int n_files;
} arguments;

/* The type is argp's. NOLINTNEXTLINE(readability-non-const-parameter) */
static error_t parse(int key, char *value, struct argp_state *state)
{
    arguments *a = state->input;
    if (key != ARGP_KEY_ARG) return ARGP_ERR_UNKNOWN;
    a->files[a->n_files++] = value;
    return 0;
}

static const char *namespace_of(const wick_op_entry *op) { return op->ns ? op->ns : "local"; }

static void print_table(const wick_module_table *table)
{
    int width = 0;
    for (int64_t i = 0; i < table->n_ops; i++) {
        int n = (int)(strlen(namespace_of(&table->ops[i])) + 1 + strlen(table->ops[i].name));
        if (n > width) width = n;
    }
    for (int64_t i = 0; i < table->n_ops; i++) {
        const wick_op_entry *op = &table->ops[i];
        int n = (int)strlen(namespace_of(op)) + 1;
        size_t second = 0;
        printf("%s.%-*s  %s\n", namespace_of(op), width - n, op->name, op->signature);
        wick_table_backward(table, i, &second);
        if (second)
            printf("%s.%-*.*s  is %s\n", namespace_of(op), width - n, (int)second, op->name,
                   op->name);
    }
}

static int list(wick_ctx *ctx, const char *file, const char *called)
{
    cli_table t = {0};
    wick_status status = file ? cli_table_open(ctx, file, &t) : cli_table_shipped(ctx, &t);
    if (status) return cli_fail(called, wick_ctx_message(ctx));
    print_table(t.table);
    cli_table_close(&t);
    return CLI_OK;
}

static int run(const cli_verb *verb, int argc, char **argv)
{
    arguments a = {calloc((size_t)argc + 1, sizeof *a.files), 0};
    int code = CLI_OK;
    if (!a.files) return cli_fail(verb->called, "out of memory");
    cli_parse(verb, parse, argc, argv, &a);
    /* A context keeps its first failure, so each file has its own. */
    for (int i = 0; i < (a.n_files ? a.n_files : 1); i++) {
        wick_ctx *ctx = wick_ctx_new();
        int listed = ctx ? list(ctx, a.n_files ? a.files[i] : NULL, verb->called)
                         : cli_fail(verb->called, "out of memory");
        if (listed) code = listed;
        wick_ctx_free(ctx);
    }
    free(a.files);
    return code;
}

static const cli_pair examples[] = {
    {"wick list", "the operators that come with Wick"},
    {"wick list my_ops.c acme_ops.so", "those of a source and of a module"},
    {0}};

const cli_verb cli_list = {
    .name = "list",
    .called = "wick list",
    .purpose = "list operators: the shipped ones, a file's, or a module's",
    .operands = "[FILE.c|MODULE.so...]",
    .description = "List operators and their signatures: those that come with Wick, or those of "
                   "files and modules. Nothing is built.",
    .examples = examples,
    .takes_files = true,
    .run = run};
