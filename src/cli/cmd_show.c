/* cmd_show.c -- `wick show`: what a signature means and what is made of it */
#include "cli.h"
#include "module.h"

#include <stdlib.h>
#include <string.h>

enum { KEY_GLUE = 256, KEY_SCHEMA, KEY_PROTOTYPE, KEY_STUB, KEY_TYPES, KEY_FLAGS, KEY_CC };

typedef struct arguments {
    const char *what; /* a file, or the name of a shipped operator */
    const char *types, *compiler;
    bool glue, flags, stub;
    int parts;
} arguments;

static const struct argp_option options[] = {
    {"schema", KEY_SCHEMA, NULL, 0, "the schema that torch registers", 0},
    {"prototype", KEY_PROTOTYPE, NULL, 0, "the C function to write", 0},
    {"stub", KEY_STUB, NULL, 0, "the Python functions, as a stub file (.pyi)", 0},
    {"glue", KEY_GLUE, NULL, 0, "the C code that is generated around a source", 0},
    {"types", KEY_TYPES, "TYPES", 0, "for --glue: the element types, as \"f32\" or \"f32 i64\"", 0},
    {"flags", KEY_FLAGS, NULL, 0, "every compiler switch that Wick passes, and why", 0},
    {"cc", KEY_CC, "CC", 0, "for --flags: the C compiler", 0},
    {0}};

/* The type is argp's. NOLINTNEXTLINE(readability-non-const-parameter) */
static error_t parse(int key, char *value, struct argp_state *state)
{
    arguments *a = state->input;
    switch (key) {
    case KEY_SCHEMA: a->parts |= WICK_DESCRIBE_SCHEMA; break;
    case KEY_PROTOTYPE: a->parts |= WICK_DESCRIBE_PROTOTYPE; break;
    case KEY_STUB: a->stub = true; break;
    case KEY_GLUE: a->glue = true; break;
    case KEY_TYPES: a->types = value; break;
    case KEY_FLAGS: a->flags = true; break;
    case KEY_CC: a->compiler = value; break;
    case ARGP_KEY_ARG:
        if (a->what) argp_error(state, "one file or operator at a time");
        a->what = value;
        break;
    case ARGP_KEY_END:
        if (!a->what && !a->flags) argp_error(state, "which file or operator?");
        break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static int show_glue(wick_ctx *ctx, const arguments *a, const char *called)
{
    wick_source source = {a->what, NULL};
    char *code = NULL;
    if (wick_build_show(ctx, &source, NULL, a->types, &code))
        return cli_fail(called, wick_ctx_message(ctx));
    fputs(code, stdout);
    wick_string_free(code);
    return CLI_OK;
}

static int describe(wick_ctx *ctx, const wick_op_entry *op, int parts, const char *called)
{
    char *text = NULL;
    if (wick_build_describe(ctx, op->name, op->signature, parts, &text)) {
        return cli_fail(called, wick_ctx_message(ctx));
    }
    fputs(text, stdout);
    wick_string_free(text);
    return CLI_OK;
}

static int show_op(wick_ctx *ctx, const wick_module_table *table, int64_t index, int parts,
                   const char *called)
{
    const wick_op_entry *op = &table->ops[index];
    size_t second = 0;
    if (parts) return describe(ctx, op, parts, called);
    if (describe(ctx, op, WICK_DESCRIBE_WORDS, called)) return CLI_FAILED;
    wick_table_backward(table, index, &second);
    if (second) printf("  also     %.*s\n", (int)second, op->name);
    return describe(ctx, op, WICK_DESCRIBE_SCHEMA | WICK_DESCRIBE_PROTOTYPE, called);
}

static bool is_file(const char *what) { return strpbrk(what, "./") != NULL; }

static int no_such_op(const cli_table *t, const char *name, const char *called)
{
    const char *nearest = NULL;
    const char **names = calloc((size_t)t->table->n_ops + 1, sizeof *names);
    for (int64_t i = 0; names && i < t->table->n_ops; i++) {
        names[i] = t->table->ops[i].name;
    }
    if (names) nearest = cli_nearest(name, names, (int)t->table->n_ops);
    fprintf(stderr, "%s: Wick ships no operator \"", called);
    cli_put_name(stderr, name);
    fputs("\"", stderr);
    if (nearest) fprintf(stderr, "; did you mean \"%s\"?", nearest);
    fputs("\n", stderr);
    free(names);
    return CLI_FAILED;
}

static bool is_wanted(const arguments *a, const wick_op_entry *op)
{
    return is_file(a->what) || !strcmp(op->name, a->what);
}

static int show_stub(wick_ctx *ctx, const cli_table *t, const arguments *a, const char *called)
{
    wick_text functions = {0}, file = {0};
    wick_status status = WICK_OK;
    for (int64_t i = 0; !status && i < t->table->n_ops; i++)
        if (is_wanted(a, &t->table->ops[i])) status = cli_stub_add(ctx, t->table, i, &functions);
    bool none = !status && functions.size == 0 && !is_file(a->what);
    if (!status) status = cli_stub_print(ctx, &functions, &file);
    if (!status && !none) fputs(wick_text_str(&file), stdout);
    wick_text_free(&functions);
    wick_text_free(&file);
    if (none) return no_such_op(t, a->what, called);
    return status ? cli_fail(called, wick_ctx_message(ctx)) : CLI_OK;
}

static int show_table(wick_ctx *ctx, const cli_table *t, const arguments *a, const char *called)
{
    int shown = 0;
    for (int64_t i = 0; i < t->table->n_ops; i++) {
        const wick_op_entry *op = &t->table->ops[i];
        if (!is_wanted(a, op)) continue;
        /* The doc is a file's: once, in front of the first of its operators. */
        if (!a->parts && op->doc[0] && (!shown || strcmp(op->file, op[-1].file) != 0))
            printf("%s\n", op->doc);
        if (!a->parts) puts("");
        shown++;
        if (show_op(ctx, t->table, i, a->parts, called)) return CLI_FAILED;
    }
    return shown ? CLI_OK : no_such_op(t, a->what, called);
}

static int show(wick_ctx *ctx, const arguments *a, const char *called)
{
    cli_table t = {0};
    wick_status status;
    int code;
    if (a->flags) {
        status = cli_flags_print(ctx, a->compiler);
        return status ? cli_fail(called, wick_ctx_message(ctx)) : CLI_OK;
    }
    if (a->glue) return show_glue(ctx, a, called);
    status = is_file(a->what) ? cli_table_open(ctx, a->what, &t) : cli_table_shipped(ctx, &t);
    if (status) return cli_fail(called, wick_ctx_message(ctx));
    code = a->stub ? show_stub(ctx, &t, a, called) : show_table(ctx, &t, a, called);
    cli_table_close(&t);
    return code;
}

static int run(const cli_verb *verb, int argc, char **argv)
{
    arguments a = {0};
    wick_ctx *ctx;
    int code;
    cli_parse(verb, parse, argc, argv, &a);
    ctx = wick_ctx_new();
    if (!ctx) return cli_fail(verb->called, "out of memory");
    code = show(ctx, &a, verb->called);
    wick_ctx_free(ctx);
    return code;
}

static const cli_pair examples[] = {
    {"wick show scale_bias_relu", "a shipped operator: arguments, schema, C prototype"},
    {"wick show my_op.c --stub > my_op.pyi", "for editors and type checkers"},
    {"wick show my_op.c --glue --types f64", "the C that is generated around a source"},
    {"wick show --flags", "how the compiler is called, flag by flag"},
    {0}};

const cli_verb cli_show = {
    .name = "show",
    .called = "wick show",
    .purpose = "say what an operator takes and returns, and what is made of it",
    .operands = "FILE.c|MODULE.so|OPERATOR",
    .description = "Say what operators take and return, and what Wick makes of them.",
    .options = options,
    .examples = examples,
    .takes_files = true,
    .run = run};
