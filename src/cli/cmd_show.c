/* cmd_show.c -- `wick show`: what a signature means and what is made of it */
#include "module.h"
#include "show.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    KEY_GLUE = 256,
    KEY_SCHEMA,
    KEY_PROTOTYPE,
    KEY_STUB,
    KEY_COMMAND,
    KEY_CACHE,
    KEY_ASSEMBLY,
    KEY_SASS,
    KEY_RESOURCES,
    KEY_TYPES,
    KEY_ARCH,
    KEY_FLAGS,
    KEY_CC
};

enum { PROTOTYPES = WICK_DESCRIBE_PROTOTYPE | WICK_DESCRIBE_CUDA_PROTOTYPE };

typedef struct arguments {
    char *what;     /* a file, or the name of an operator */
    const char *ns; /* of the operator; NULL: none was named, or it is a file */
    bool file;
    const char *types, *compiler;
    bool glue, flags, stub, command, cache, assembly;
    show_device_request device;
    int parts; /* of wick_description */
} arguments;

static const struct argp_option options[] = {
    {"schema", KEY_SCHEMA, NULL, 0, "the schema that torch registers", 0},
    {"prototype", KEY_PROTOTYPE, NULL, 0, "the C functions to write, for the CPU and for GPUs", 0},
    {"stub", KEY_STUB, NULL, 0, "the Python functions, as a stub file (.pyi)", 0},
    {"glue", KEY_GLUE, NULL, 0, "the C code that is generated around a source", 0},
    {"command", KEY_COMMAND, NULL, 0,
     "how wick.load calls the C compiler on that code, and the flags for kernels", 0},
    {"cache", KEY_CACHE, NULL, 0, "where the modules lie that wick.load has built", 0},
    {"assembly", KEY_ASSEMBLY, NULL, 0, "the loops that the C compiler made of it", 0},
    {"sass", KEY_SASS, NULL, 0, "the instructions of its kernels", 0},
    {"resources", KEY_RESOURCES, NULL, 0,
     "registers, stack and shared memory of its kernels, as ptxas gave them; this and --sass need "
     "cuobjdump, of the CUDA toolkit or of triton",
     0},
    {"types", KEY_TYPES, "TYPES", 0,
     "for what is made of a source: the element types, as \"f32\" or \"f32 i64\"", 0},
    {"arch", KEY_ARCH, "ARCH", 0, "for --sass and --resources: the GPU, as sm_90", 0},
    {"flags", KEY_FLAGS, NULL, 0, "every compiler switch that Wick passes, and why", 0},
    {"cc", KEY_CC, "CC", 0, "the C compiler", 0},
    {0}};

/* The type is argp's. NOLINTNEXTLINE(readability-non-const-parameter) */
static error_t parse(int key, char *value, struct argp_state *state)
{
    arguments *a = state->input;
    switch (key) {
    case KEY_SCHEMA: a->parts |= WICK_DESCRIBE_SCHEMA; break;
    case KEY_PROTOTYPE: a->parts |= PROTOTYPES; break;
    case KEY_STUB: a->stub = true; break;
    case KEY_GLUE: a->glue = true; break;
    case KEY_COMMAND: a->command = true; break;
    case KEY_CACHE: a->cache = true; break;
    case KEY_ASSEMBLY: a->assembly = true; break;
    case KEY_SASS: a->device.sass = true; break;
    case KEY_RESOURCES: a->device.resources = true; break;
    case KEY_TYPES: a->types = value; break;
    case KEY_ARCH: a->device.archs = value; break;
    case KEY_FLAGS: a->flags = true; break;
    case KEY_CC: a->compiler = value; break;
    case ARGP_KEY_ARG:
        if (a->what) argp_error(state, "one file or operator at a time");
        a->what = value;
        break;
    case ARGP_KEY_END:
        if (!a->what && !a->flags) argp_error(state, "which file or operator?");
        if (a->device.archs && !a->device.sass && !a->device.resources)
            argp_error(state, "--arch is for --sass and --resources");
        break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

/* ---- of a source ---- */

static wick_status show_glue(wick_ctx *ctx, const char *path, const char *types)
{
    wick_source source = {path, NULL};
    char *code = NULL;
    WICK_TRY(wick_build_show(ctx, &source, NULL, types, &code));
    fputs(code, stdout);
    wick_string_free(code);
    return WICK_OK;
}

/* What is made of a source, in the order of the making. */
static wick_status show_made(wick_ctx *ctx, const char *path, const arguments *a)
{
    show_source s;
    bool device = a->device.sass || a->device.resources;
    wick_status status = a->glue ? show_glue(ctx, path, a->types) : WICK_OK;
    if (status || !(a->command || a->cache || a->assembly || device)) return status;
    status = show_source_open(ctx, path, a->types, a->compiler, &s);
    if (!status && a->command) status = show_command(ctx, &s);
    if (!status && a->cache) status = show_cached(ctx, &s);
    if (!status && a->assembly) status = show_assembly(ctx, &s);
    if (!status && device) status = show_device_source(ctx, &s, &a->device);
    show_source_close(&s);
    return status;
}

/* At the end of everything about a source: how it is compiled, and where it lies. */
static wick_status show_whereabouts(wick_ctx *ctx, const char *path, const arguments *a)
{
    show_source s;
    wick_status status = show_source_open(ctx, path, a->types, a->compiler, &s);
    if (!status) {
        puts("\ncompiled by (unit.c is what --glue prints)");
        status = show_command(ctx, &s);
    }
    if (!status) {
        puts("\nbuilt by wick.load");
        status = show_cached(ctx, &s);
    }
    show_source_close(&s);
    return status;
}

/* ---- of operators ---- */

static wick_status describe(wick_ctx *ctx, const wick_op_entry *op, int parts)
{
    char *text = NULL;
    WICK_TRY(wick_build_describe(ctx, op, parts, &text));
    fputs(text, stdout);
    wick_string_free(text);
    return WICK_OK;
}

static wick_status show_op(wick_ctx *ctx, const wick_module_table *table, int64_t index, int parts)
{
    const wick_op_entry *op = &table->ops[index];
    size_t second = 0;
    if (parts) return describe(ctx, op, parts);
    WICK_TRY(describe(ctx, op, WICK_DESCRIBE_WORDS));
    int64_t backward = wick_table_backward(table, index, &second);
    if (backward >= 0) {
        wick_text line = {0};
        wick_status status = wick_explain_gradient(ctx, op, &table->ops[backward], &line);
        fputs(wick_text_str(&line), stdout);
        wick_text_free(&line);
        if (status) return status;
    }
    if (second) printf("  also     %.*s\n", (int)second, op->name);
    fputs("  schema   ", stdout);
    WICK_TRY(describe(ctx, op, WICK_DESCRIBE_SCHEMA));
    if (wick_build_has(op, false)) fputs("  in C     ", stdout);
    WICK_TRY(describe(ctx, op, WICK_DESCRIBE_PROTOTYPE));
    if (wick_build_has(op, true)) fputs("  on a GPU ", stdout);
    return describe(ctx, op, WICK_DESCRIBE_CUDA_PROTOTYPE);
}

static int no_such_op(const cli_table *t, const arguments *a, const char *called)
{
    const char *nearest = NULL;
    const char **names = calloc((size_t)t->table->n_ops + 1, sizeof *names);
    for (int64_t i = 0; names && i < t->table->n_ops; i++) {
        names[i] = t->table->ops[i].name;
    }
    if (names && cli_is_shipped(a->ns)) nearest = cli_nearest(a->what, names, (int)t->table->n_ops);
    fprintf(stderr, "%s: %s \"", called,
            cli_is_shipped(a->ns) ? "Wick ships no operator" : "no package has an operator");
    if (a->ns) {
        cli_put_name(stderr, a->ns);
        fputs(".", stderr);
    }
    cli_put_name(stderr, a->what);
    fputs("\"", stderr);
    if (nearest) fprintf(stderr, "; did you mean \"%s\"?", nearest);
    fputs("\n", stderr);
    free(names);
    return CLI_FAILED;
}

static bool is_wanted(const arguments *a, const wick_op_entry *op)
{
    return a->file || !strcmp(op->name, a->what);
}

static int show_stub(wick_ctx *ctx, const cli_table *t, const arguments *a, const char *called)
{
    wick_text functions = {0}, file = {0};
    wick_status status = WICK_OK;
    for (int64_t i = 0; !status && i < t->table->n_ops; i++)
        if (is_wanted(a, &t->table->ops[i])) status = cli_stub_add(ctx, t->table, i, &functions);
    if (!status) status = cli_stub_print(ctx, &functions, &file);
    if (!status) fputs(wick_text_str(&file), stdout);
    wick_text_free(&functions);
    wick_text_free(&file);
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
        if (show_op(ctx, t->table, i, a->parts)) return cli_fail(called, wick_ctx_message(ctx));
    }
    return CLI_OK;
}

/* The source of a shipped operator, as it lies in the package: "ops/reduce/x.c" is
 * sources/reduce/x.c. Owned; NULL when there is no such operator. */
static wick_status shipped_source(wick_ctx *ctx, const cli_table *t, const char *name, char **out)
{
    wick_text path = {0};
    char *found = NULL;
    wick_status status = WICK_OK;
    *out = NULL;
    for (int64_t i = 0; i < t->table->n_ops; i++) {
        const char *slash = strchr(t->table->ops[i].file, '/');
        if (strcmp(t->table->ops[i].name, name) != 0 || !slash) continue;
        wick_text_printf(&path, "sources%s", slash);
        status = wick_build_package_file(ctx, wick_text_str(&path), &found);
        if (!status) status = wick_path_absolute(ctx, found, out);
        break;
    }
    wick_free(found);
    wick_text_free(&path);
    return status;
}

/* Where a shipped operator is: the cache has only what was built of its source again. */
static wick_status put_shipped(wick_ctx *ctx)
{
    char *path = NULL;
    WICK_TRY(wick_build_package_file(ctx, "wick_ops.so", &path));
    printf("shipped  %s\n", path);
    wick_free(path);
    return WICK_OK;
}

/* Everything that needs a source: of a module it is said that there is none. */
static int show_from_source(wick_ctx *ctx, const cli_table *t, const arguments *a,
                            const char *called)
{
    bool file = a->file, device = a->device.sass || a->device.resources;
    bool whole = !a->parts && !a->glue && !a->command && !a->cache && !a->assembly && !device;
    char *path = NULL;
    wick_status status = WICK_OK;
    if (device && !t->from_source) {
        status = show_device_module(ctx, t->table, file ? NULL : a->what, a->types, &a->device);
        return status ? cli_fail(called, wick_ctx_message(ctx)) : CLI_OK;
    }
    if (!t->from_source && !whole && (file || !cli_is_shipped(a->ns)))
        status = wick_fail(ctx, WICK_EINVAL, "%s is a module: name its source for this", a->what);
    if (!status && !whole && !file) status = shipped_source(ctx, t, a->what, &path);
    if (!status && path && a->cache) status = put_shipped(ctx);
    if (!status && whole && t->from_source) status = show_whereabouts(ctx, a->what, a);
    if (!status && !whole) status = show_made(ctx, file ? a->what : path, a);
    wick_free(path);
    return status ? cli_fail(called, wick_ctx_message(ctx)) : CLI_OK;
}

static bool is_about_making(const arguments *a)
{
    return a->glue || a->command || a->cache || a->assembly || a->device.sass ||
           a->device.resources;
}

static bool has_op(const cli_table *t, const char *name)
{
    for (int64_t i = 0; i < t->table->n_ops; i++) {
        if (strcmp(t->table->ops[i].name, name) == 0) return true;
    }
    return false;
}

/* Before anything is printed: a wrong choice of types, or one that nothing is made of. */
static int check_types(wick_ctx *ctx, const cli_table *t, const arguments *a, const char *called)
{
    show_source s;
    if (!a->types) return CLI_OK;
    if (!t->from_source && !is_about_making(a)) {
        fprintf(stderr, "%s: --types is for what is made of a source, and ", called);
        cli_put_name(stderr, a->what);
        fputs(a->file ? " is a module\n" : " is only described here\n", stderr);
        return CLI_USAGE;
    }
    if (!t->from_source) return CLI_OK;
    wick_status status = show_source_open(ctx, a->what, a->types, a->compiler, &s);
    show_source_close(&s);
    return status ? cli_fail(called, wick_ctx_message(ctx)) : CLI_OK;
}

static wick_status open_table(wick_ctx *ctx, const arguments *a, cli_table *out)
{
    if (a->file) return cli_table_open(ctx, a->what, out);
    if (!cli_is_shipped(a->ns)) return cli_table_installed(ctx, a->ns, a->what, out);
    return cli_table_shipped(ctx, out);
}

static int show(wick_ctx *ctx, const arguments *a, const char *called)
{
    cli_table t = {0};
    bool described = a->parts || a->stub;
    if (a->flags) {
        wick_status status = cli_flags_print(ctx, a->compiler);
        return status ? cli_fail(called, wick_ctx_message(ctx)) : CLI_OK;
    }
    if (open_table(ctx, a, &t)) return cli_fail(called, wick_ctx_message(ctx));
    int code = a->file || has_op(&t, a->what) ? check_types(ctx, &t, a, called)
                                              : no_such_op(&t, a, called);
    if (!code && (a->parts || !(a->stub || is_about_making(a))))
        code = show_table(ctx, &t, a, called);
    if (!code && a->stub) code = show_stub(ctx, &t, a, called);
    if (!code && (is_about_making(a) || !described)) code = show_from_source(ctx, &t, a, called);
    cli_table_close(&t);
    return code;
}

/* "acme.gate" is an operator, as Python shows it, unless there is such a file; "gate.c" is a file
 * in any case. */
static bool is_qualified(const char *what)
{
    static const char *const endings[] = {".c", ".cu", ".so"};
    const char *dot = strchr(what, '.');
    if (!dot || dot == what || !dot[1] || strpbrk(dot + 1, "./") || strchr(what, '/')) return false;
    for (int i = 0; i < WICK_COUNT(endings); i++)
        if (strcmp(dot, endings[i]) == 0) return false;
    return access(what, F_OK) != 0;
}

static void read_operand(arguments *a)
{
    if (!a->what) return;
    a->file = strpbrk(a->what, "./") && !is_qualified(a->what);
    if (a->file || !strchr(a->what, '.')) return;
    *strchr(a->what, '.') = '\0';
    a->ns = a->what;
    a->what += strlen(a->what) + 1;
}

static int run(const cli_verb *verb, int argc, char **argv)
{
    arguments a = {0};
    wick_ctx *ctx;
    int code;
    cli_parse(verb, parse, argc, argv, &a);
    read_operand(&a);
    ctx = wick_ctx_new();
    if (!ctx) return cli_fail(verb->called, "out of memory");
    code = show(ctx, &a, verb->called);
    wick_ctx_free(ctx);
    return code;
}

static const cli_pair examples[] = {
    {"wick show scale_bias_relu", "a shipped operator: arguments, schema, C prototype"},
    {"wick show acme.leaky_bias --schema", "an operator of an installed package"},
    {"wick show my_op.c --stub > my_op.pyi", "for editors and type checkers"},
    {"wick show my_op.c --glue --types f64", "the C that is generated around a source"},
    {"wick show my_op.c --assembly", "whether its loops were vectorised"},
    {"wick show my_op.cu --resources --arch sm_90", "what a GPU needs for its kernels"},
    {"wick show --flags", "how the compiler is called, flag by flag"},
    {0}};

const cli_verb cli_show = {
    .name = "show",
    .called = "wick show",
    .purpose = "say what an operator takes and returns, and what is made of it",
    .operands = "FILE.c|MODULE.so|[NAMESPACE.]OPERATOR",
    .description =
        "Say what operators take and return, and what Wick makes of them: of a source, by default, "
        "each signature in words, torch's schema, the C prototype, the compiler's command and "
        "where "
        "what was built from it lies.",
    .options = options,
    .examples = examples,
    .takes_files = true,
    .run = run};
