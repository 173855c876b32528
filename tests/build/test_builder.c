/* test_builder.c -- from a source to a module that runs, and what is said when there is none */
#define _GNU_SOURCE 1
#include "support.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <dlfcn.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static wick_ctx ctx;
static char *folder;

static void setup(void)
{
    unsetenv("CC");
    unsetenv("CFLAGS");
    wick_ctx_init(&ctx, NULL);
    folder = enter_folder();
    /* So that leftovers of a build are found. */
    setenv("TMPDIR", folder, 1);
}

static void teardown(void)
{
    glob_t left;
    cr_expect_eq(glob("wick-*", 0, NULL, &left), GLOB_NOMATCH, "a build left its folder behind");
    leave_folder(folder);
    wick_ctx_deinit(&ctx);
    cr_expect_eq(wick_memory_live(), 0);
}

TestSuite(builder, .init = setup, .fini = teardown);

static const wick_module_table *load(const char *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const wick_module_table *table;
    cr_assert_not_null(library, "%s", dlerror());
    table = dlsym(library, WICK_MODULE_SYMBOL);
    cr_assert_not_null(table);
    cr_assert_eq(table->magic, WICK_MODULE_MAGIC);
    cr_assert_eq(table->abi, WICK_ABI);
    return table;
}

static void build(const char *path, const char *text, const wick_build_options *options)
{
    wick_source source = {path, text};
    char *warnings = NULL;
    wick_status status = wick_build_module(&ctx, &source, 1, options, "out.so", &warnings);
    cr_assert_eq(status, WICK_OK, "%s", wick_ctx_message(&ctx));
    cr_expect_null(warnings, "%s", warnings);
    wick_string_free(warnings);
}

static const wick_variant *variant(const wick_op_entry *op, int t, int u, int isa)
{
    for (int64_t i = 0; i < op->n_variants; i++) {
        const wick_variant *v = op->variants[i];
        if (v->types[0] == t && v->types[1] == u && v->isa == isa) return v;
    }
    return NULL;
}

Test(builder, the_table_holds_every_operator_and_every_choice_of_its_types)
{
    wick_build_options options = plain_options(NULL);
    const wick_module_table *table;
    build("kinds.c", all_kinds, &options);
    table = load("./out.so");
    cr_assert_eq(table->n_ops, 4);
    cr_expect_str_eq(table->built_by, WICK_VERSION);
    cr_expect_str_eq(table->ops[0].ns, "acme");
    cr_expect_str_eq(table->ops[0].name, "pool");
    cr_expect_str_eq(table->ops[0].doc, "kinds -- one of each");
    cr_expect_str_eq(table->ops[0].file, "kinds.c");
    cr_expect_eq(table->ops[0].line, 4);
    cr_expect_eq(table->ops[0].n_variants, 4);
    cr_expect_eq(table->ops[1].n_variants, 2);
    cr_expect_eq(table->ops[2].n_variants, 2);
    cr_expect_eq(table->ops[3].n_variants, 1);
    cr_expect_not_null(variant(&table->ops[0], WICK_F32, WICK_I64, 0));
    cr_expect_not_null(variant(&table->ops[1], WICK_F32, 0, 0));
    cr_expect_not_null(variant(&table->ops[3], 0, 0, 0));
    cr_expect_not_null(strstr(table->ops[1].signature, "where T: f16 f32"), "%s",
                       table->ops[1].signature);
}

Test(builder, entries_take_their_slots_in_the_order_of_the_prototype)
{
    wick_build_options options = plain_options(NULL);
    const wick_module_table *table;
    float x[2] = {1, 2}, y[2] = {0, 0};
    int64_t b = 0;
    double c = 0;
    bool d = false;
    build("kinds.c", all_kinds, &options);
    table = load("./out.so");
    {
        wick_slot slots[3] = {{.p = x}, {.i = 2}};
        cr_assert_eq(variant(&table->ops[2], WICK_F32, 0, 0)->cpu(&ctx, slots), WICK_OK);
        cr_expect(x[0] == 2 && x[1] == 3);
    }
    {
        wick_slot slots[4] = {{.i = 41}, {.p = &b}, {.p = &c}, {.p = &d}};
        cr_assert_eq(variant(&table->ops[3], 0, 0, 0)->cpu(&ctx, slots), WICK_OK);
        cr_expect(b == 42 && c == 0.5 && d);
    }
    {
        /* x idx w mode k p | y m | tmp | B S; the choice is 'mean' */
        wick_slot slots[11] = {{.p = NULL}, {.p = NULL}, {.p = NULL}, {.i = 1},
                               {.i = 7},    {.f = 0.5},  {.p = NULL}, {.p = NULL},
                               {.p = NULL}, {.i = 2},    {.i = 3}};
        cr_expect_eq(variant(&table->ops[0], WICK_F32, WICK_I32, 0)->cpu(&ctx, slots), WICK_OK);
    }
    /* pick lists its choices in another order than pool: its index becomes the file's number */
    for (int i = 0; i < 3; i++) {
        wick_slot slots[6] = {{.p = x}, {.i = i}, {.b = true}, {.s = "s"}, {.p = y}, {.i = 1}};
        wick_status wanted[] = {WICK_EINVAL, WICK_ENOTSUP, WICK_OK};
        cr_expect_eq(variant(&table->ops[1], WICK_F32, 0, 0)->cpu(&ctx, slots), wanted[i]);
        cr_expect_eq(y[0], x[0]);
    }
}

Test(builder, exports_the_table_and_nothing_else)
{
    wick_build_options options = plain_options(NULL);
    void *library;
    build("op.c",
          "int shared_name(void);\n" HEAD BODY
          "#if WICK_T == 3\nint shared_name(void) { return 1; }\n#endif\n",
          &options);
    library = dlopen("./out.so", RTLD_NOW);
    cr_assert_not_null(library, "%s", dlerror());
    cr_expect_not_null(dlsym(library, "wick_module"));
    cr_expect_null(dlsym(library, "shared_name"));
    cr_expect_null(dlsym(library, "wick_variants_0"));
}

#if defined(__x86_64__)
Test(builder, portable_modules_have_two_levels_of_every_variant)
{
    wick_build_options options = plain_options(NULL);
    const wick_module_table *table;
    options.portable = true;
    build("op.c", HEAD BODY, &options);
    table = load("./out.so");
    cr_expect_eq(table->ops[0].n_variants, 4);
    cr_expect_not_null(variant(&table->ops[0], WICK_F64, 0, WICK_ISA_BASELINE));
    cr_expect_not_null(variant(&table->ops[0], WICK_F64, 0, WICK_ISA_X86_64_V3));
}
#endif

Test(builder, several_sources_make_one_module)
{
    wick_build_options options = plain_options(NULL);
    wick_source sources[] = {{"kinds.c", all_kinds}, {"op.c", HEAD BODY}};
    const wick_module_table *table;
    float x = 1, y = 0;
    wick_slot slots[] = {{.p = &x}, {.p = &y}, {.i = 1}};
    cr_assert_eq(wick_build_module(&ctx, sources, 2, &options, "out.so", NULL), WICK_OK, "%s",
                 wick_ctx_message(&ctx));
    table = load("./out.so");
    cr_assert_eq(table->n_ops, 5);
    cr_expect_null(table->ops[4].ns);
    cr_assert_eq(variant(&table->ops[4], WICK_F32, 0, 0)->cpu(&ctx, slots), WICK_OK);
    cr_expect_eq(y, 2);
}

Test(builder, two_sources_with_one_operator_are_both_named)
{
    wick_build_options options = plain_options(NULL);
    wick_source sources[] = {{"a.c", HEAD BODY}, {"b.c", "\n" HEAD BODY}};
    cr_expect_eq(wick_build_module(&ctx, sources, 2, &options, "out.so", NULL), WICK_EINVAL);
    cr_expect_str_eq(wick_ctx_message(&ctx), "b.c:3: operator f is also defined at a.c:2");
}

Test(builder, one_choice_is_built_while_the_others_are_checked)
{
    wick_build_options options = plain_options(NULL);
    wick_source source = {"op.c", HEAD BODY},
                broken = {"op.c", HEAD "#if WICK_T == 4\n#error no doubles\n#endif\n" BODY};
    wick_scan scan;
    wick_dtype types[WICK_MAX_VARIABLES] = {WICK_F64};
    cr_assert_eq(wick_scan_source(&ctx, &source, &scan), WICK_OK);
    cr_assert_eq(wick_build_first(&ctx, &scan, 0, &options, "first.so", NULL), WICK_OK, "%s",
                 wick_ctx_message(&ctx));
    cr_expect_eq(load("./first.so")->ops[0].n_variants, 1);
    cr_expect_eq(load("./first.so")->ops[0].variants[0]->types[0], WICK_F32);
    cr_assert_eq(wick_build_types(&ctx, &scan, types, &options, "types.so", NULL), WICK_OK);
    cr_expect_eq(load("./types.so")->ops[0].variants[0]->types[0], WICK_F64);
    wick_scan_free(&scan);
    cr_assert_eq(wick_scan_source(&ctx, &broken, &scan), WICK_OK);
    cr_expect_eq(wick_build_first(&ctx, &scan, 0, &options, "broken.so", NULL), WICK_ECOMPILE);
    cr_expect_eq(strncmp(wick_ctx_message(&ctx), "op.c:4:", 7), 0, "%s", wick_ctx_message(&ctx));
    cr_expect(!wick_file_exists("broken.so"));
    wick_ctx_clear(&ctx);
    cr_expect_eq(wick_build_check(&ctx, &scan, 1, &options, NULL), WICK_OK);
    cr_expect_eq(wick_build_check(&ctx, &scan, 0, &options, NULL), WICK_ECOMPILE);
    wick_scan_free(&scan);
}

Test(builder, operators_without_a_variant_stay_in_the_table)
{
    wick_build_options options = plain_options(NULL);
    wick_source source = {"kinds.c", all_kinds};
    wick_scan scan;
    const wick_module_table *table;
    cr_assert_eq(wick_scan_source(&ctx, &source, &scan), WICK_OK);
    cr_assert_eq(wick_build_first(&ctx, &scan, 3, &options, "out.so", NULL), WICK_OK, "%s",
                 wick_ctx_message(&ctx));
    table = load("./out.so");
    cr_assert_eq(table->n_ops, 4);
    cr_expect_eq(table->ops[0].n_variants, 1);
    cr_expect_eq(table->ops[3].n_variants, 0);
    wick_scan_free(&scan);
}

/* The text that was scanned is what is compiled, also when the file changes and the process moves
 * meanwhile. */
Test(builder, compiles_what_was_scanned)
{
    wick_build_options options = plain_options(NULL);
    wick_source source = {"op.c", NULL};
    wick_dtype types[WICK_MAX_VARIABLES] = {WICK_F32};
    wick_scan scan;
    char output[4096];
    write_text("one.h", "enum { ONE = 1 };\n");
    write_text("op.c", "#include \"one.h\"\n" HEAD "static int one(void) { return ONE; }\n" BODY);
    cr_assert_eq(wick_scan_source(&ctx, &source, &scan), WICK_OK);
    write_text("op.c", "this is not C\n");
    cr_assert_eq(chdir("/"), 0);
    snprintf(output, sizeof output, "%s/out.so", folder);
    cr_expect_eq(wick_build_types(&ctx, &scan, types, &options, output, NULL), WICK_OK, "%s",
                 wick_ctx_message(&ctx));
    cr_assert_eq(chdir(folder), 0);
    wick_scan_free(&scan);
}

/* ---- what is said ---- */

struct bad {
    char code[300]; /* after HEAD, which has two lines */
    char begins[100];
    char has[100]; /* somewhere in the message */
};

ParameterizedTestParameters(builder, failures_begin_with_file_and_line)
{
#define F(body)                                                                                    \
    "WICK_IMPL wick_status f_cpu(wick_ctx *ctx, const T *x, T *y, int64_t N) { " body " }\n"
    static struct bad cases[] = {
        {"\n" F("y[0] = zz; return WICK_OK;"), "op.c:4:", "y[0] = zz;"},
        {"WICK_IMPL wick_status f_cpu(wick_ctx *ctx, const T *x, T *y, int N) { return WICK_OK; "
         "}\n",
         "op.c:3:", "\n    wick_status f_cpu(wick_ctx *ctx, const T *x, T *y, int64_t N)"},
        {F("return nobody(x[0]);"), "op.c:3:", "nobody"},
        {F("int *p = x; return *p;"), "op.c:3:", "int *p = x;"},
        {F("int64_t i = x; return (wick_status)i;"), "op.c:3:", "int64_t i = x;"},
        {F(""), "op.c:3:", "return"},
        {"int mystery(int);\n" F("return (wick_status)mystery(1);"),
         "op.c:3: undefined symbol mystery", "libm"},
        {"#if 0\n" BODY "#endif\n", "op.c:2: operator f: f_cpu is in the text", "#if"},
        {"int helper(int v) { return v; }\n" F("return (wick_status)helper(0);"),
         "op.c:3: helper is not static", "WICK_FN"},
        {"#include <no/such/header.h>\n" BODY, "op.c:3:", "no/such/header.h"},
        {"#include \"broken.h\"\n" BODY, "op.c:3: in ", "broken.h:2: error:"},
        {F("return WICK_OK; ") "static int g(void) {\n", "op.c:", "error:"},
    };
    return cr_make_param_array(struct bad, cases, sizeof cases / sizeof cases[0]);
}

static void expect_failure(const struct bad *bad, const char *compiler, bool as_text)
{
    wick_build_options options = plain_options(compiler);
    char text[1024], *message;
    snprintf(text, sizeof text, "%s%s", HEAD, bad->code);
    write_text("broken.h", "\nint broken( {\n");
    write_text("op.c", text);
    message = build_message("op.c", as_text ? text : NULL, &options);
    cr_expect_eq(strncmp(message, bad->begins, strlen(bad->begins)), 0, "%s", message);
    cr_expect_not_null(strstr(message, bad->has), "%s", message);
    cr_expect_null(strstr(message, "unit0"), "%s", message);
    cr_expect(!wick_file_exists("out.so"));
    free(message);
}

ParameterizedTest(struct bad *bad, builder, failures_begin_with_file_and_line)
{
    expect_failure(bad, NULL, false);
    expect_failure(bad, NULL, true);
    if (access("/usr/bin/clang-14", X_OK) == 0) expect_failure(bad, "clang-14", false);
}

Test(builder, a_text_shows_its_own_line_and_not_that_of_a_file_of_its_name)
{
    wick_build_options options = plain_options(NULL);
    char *message;
    write_text("cell", "not\nthe\nsame\ntext\n");
    message = build_message("cell", HEAD "int zz = yy;\n" BODY, &options);
    cr_expect_eq(strncmp(message, "cell:3:10: error: ", 18), 0, "%s", message);
    cr_expect_not_null(strstr(message, "\n    3 | int zz = yy;\n      |          ^"), "%s",
                       message);
    free(message);
}

Test(builder, warnings_are_handed_over_once_and_are_never_fatal)
{
    wick_build_options options = plain_options(NULL);
    wick_source source = {"op.c", HEAD "WICK_FN int g(void) { int unused; return 1; }\n" BODY};
    char *warnings = NULL, *first;
    cr_assert_eq(wick_build_module(&ctx, &source, 1, &options, "out.so", &warnings), WICK_OK);
    cr_assert_not_null(warnings);
    first = strstr(warnings, "op.c:3:");
    cr_expect_not_null(first, "%s", warnings);
    cr_expect_null(strstr(first + 1, "op.c:3:"), "%s", warnings);
    wick_string_free(warnings);
}

Test(builder, a_missing_compiler_is_named_with_the_remedy)
{
    wick_build_options options = plain_options("no-such-cc -m64");
    char *message = build_message("op.c", HEAD BODY, &options);
    cr_expect_eq(strncmp(message, "op.c:1: the C compiler \"no-such-cc\"", 35), 0, "%s", message);
    free(message);
    options.compiler = NULL;
    setenv("CC", "nor-this", 1);
    message = build_message("op.c", HEAD BODY, &options);
    cr_expect_not_null(strstr(message, "\"nor-this\" (from $CC)"), "%s", message);
    free(message);
    unsetenv("CC");
    setenv("PATH", "/nowhere", 1);
    message = build_message("op.c", HEAD BODY, &options);
    cr_expect_not_null(strstr(message, "apt install gcc"), "%s", message);
    free(message);
}

Test(builder, the_environments_compiler_and_flags_are_used)
{
    wick_build_options options = plain_options(NULL);
    const char *const flags[] = {"-UHALF", "-DHALF=2", NULL};
    setenv("CC", "gcc  -DCOMPILER=1", 1);
    setenv("CFLAGS", " -DFLAG=1\t-DHALF=1 -Wno-all", 1);
    options.flags = flags;
    build("op.c", HEAD "#if COMPILER != 1 || FLAG != 1 || HALF != 2\n#error flags\n#endif\n" BODY,
          &options);
}

Test(builder, debug_code_is_not_optimised)
{
    wick_build_options options = plain_options(NULL);
    options.debug = true;
    build("op.c", HEAD "#ifdef __OPTIMIZE__\n#error optimised\n#endif\n" BODY, &options);
    options.debug = false;
    build("op.c", HEAD "#ifndef __OPTIMIZE__\n#error not optimised\n#endif\n" BODY, &options);
}

Test(builder, kept_files_are_named)
{
    wick_build_options options = plain_options(NULL);
    wick_source source = {"op.c", HEAD BODY};
    char *words = NULL, *at;
    options.keep = true;
    cr_assert_eq(wick_build_module(&ctx, &source, 1, &options, "out.so", &words), WICK_OK);
    at = words ? strstr(words, "the generated files are in ") : NULL;
    cr_assert_not_null(at);
    at += strlen("the generated files are in ");
    at[strcspn(at, "\n")] = '\0';
    cr_expect(wick_file_exists(at));
    wick_dir_remove(at);
    wick_string_free(words);
}

struct name {
    char path[40];
};

ParameterizedTestParameters(builder, hostile_file_names_work)
{
    static struct name cases[] = {{"a b.c"},         {"a\"b.c"}, {"a\\b.c"},       {"-o.c"},
                                  {"%s%n.c"},        {"a'b.c"},  {"$(touch x).c"}, {"\?\?!.c"},
                                  {"@x.c"},          {"a*/b.c"}, {"a;b.c"},        {"\xc3\xa9.c"},
                                  {"a: error: b.c"}, {"*.c"},    {"#.c"}};
    return cr_make_param_array(struct name, cases, sizeof cases / sizeof cases[0]);
}

static void build_named(const char *path)
{
    wick_build_options options = plain_options(NULL);
    wick_source source = {path, NULL};
    char begins[64], *message;
    if (strchr(path, '/')) cr_assert_eq(mkdir("a*", 0777), 0);
    write_text(path, HEAD BODY);
    cr_expect_eq(wick_build_module(&ctx, &source, 1, &options, "-@ out.so", NULL), WICK_OK, "%s",
                 wick_ctx_message(&ctx));
    cr_expect_str_eq(load("./-@ out.so")->ops[0].file, path);
    write_text(path, HEAD "int zz = yy;\n" BODY);
    message = build_message(path, NULL, &options);
    snprintf(begins, sizeof begins, "%s:3:", path);
    cr_expect_eq(strncmp(message, begins, strlen(begins)), 0, "%s", message);
    cr_expect(!wick_file_exists("x"));
    free(message);
}

ParameterizedTest(struct name *name, builder, hostile_file_names_work) { build_named(name->path); }

Test(builder, an_output_that_cannot_be_written_is_an_error)
{
    wick_build_options options = plain_options(NULL);
    wick_source source = {"op.c", HEAD BODY};
    cr_expect_eq(wick_build_module(&ctx, &source, 1, &options, "no/such/folder/out.so", NULL),
                 WICK_EIO);
    cr_expect_not_null(strstr(wick_ctx_message(&ctx), "no/such/folder/out.so"));
    wick_ctx_clear(&ctx);
    cr_expect_eq(wick_build_module(&ctx, &source, 0, &options, "out.so", NULL), WICK_EINVAL);
}

static void count_step(void *arg, int64_t done, int64_t total, const char *what)
{
    int *steps = arg;
    cr_expect_leq(done, total);
    cr_expect_not_null(what);
    ++*steps;
}

Test(builder, progress_is_told_per_unit)
{
    wick_build_options options = plain_options(NULL);
    int steps = 0;
    options.progress = count_step;
    options.progress_arg = &steps;
    build("op.c", HEAD BODY, &options);
    cr_expect_geq(steps, 3);
}

Test(builder, survives_the_failure_of_each_allocation)
{
    wick_build_options options = plain_options(NULL);
    wick_source source = {
        "op.c", "#include <wick/op.h>\nWICK_OP(f, \"x: i32[N] -> ()\");\n"
                "WICK_IMPL wick_status f_cpu(wick_ctx *ctx, const int32_t *x, int64_t N)\n"
                "{ (void)ctx, (void)x, (void)N; return WICK_OK; }\n"};
    long live = wick_memory_live();
    /* true instead of a compiler: the commands are made and run, the last step finds no module. */
    options.compiler = "true";
    for (long n = 1;; n++) {
        wick_status status;
        wick_memory_fail_after(n);
        status = wick_build_module(&ctx, &source, 1, &options, "out.so", NULL);
        wick_memory_fail_after(0);
        wick_ctx_clear(&ctx);
        cr_assert_eq(wick_memory_live(), live, "allocation %ld leaks", n);
        if (status == WICK_EIO) break;
        cr_assert(status == WICK_ENOMEM || status == WICK_ECOMPILE, "allocation %ld: %d", n,
                  (int)status);
        cr_assert_lt(n, 5000);
    }
}
