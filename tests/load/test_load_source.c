/* test_load_source.c -- a source becomes operators: at once, lazily for other types, again after a
 * change */
#include "builder.h"
#include "module.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HEAD(signature) "#include <wick/op.h>\nWICK_OP(f, \"" signature "\");\n"
#define ADD(number)                                                                                \
    "WICK_IMPL wick_status f_cpu(wick_ctx *ctx, const T *x, T *y, int64_t N)\n"                    \
    "{\n    (void)ctx;\n    for (int64_t i = 0; i < N; i++) y[i] = wick_T(wick_A(x[i]) + " number  \
    ");\n    return WICK_OK;\n}\n"
#define SOURCE(number) HEAD("x: T[*N] -> y: T[*N] where T: f64 f32 i32") ADD(number)

static wick_ctx ctx;
static const int64_t three[] = {3};

static char *cache;

/* Each test has a cache of its own. */
static void begin(void)
{
    wick_ctx_init(&ctx, NULL);
    cr_assert_eq(wick_dir_temporary(&ctx, "wick-test", &cache), WICK_OK);
    cr_assert_eq(setenv("WICK_CACHE_DIR", cache, 1), 0);
}

static void end(void)
{
    wick_dir_remove(cache);
    wick_free(cache);
    wick_ctx_deinit(&ctx);
}

TestSuite(load_source, .init = begin, .fini = end);

static wick_status load_as(const char *name, const char *text)
{
    static wick_module *modules[16]; /* they stay until the process ends */
    static int n_modules;
    wick_source source = {name, text};
    wick_build_options options = {.include_dir = WICK_TEST_ROOT "/include"};
    cr_assert_lt(n_modules, 16);
    return wick_load_source(&ctx, &source, &options, &modules[n_modules++], NULL);
}

static wick_op *load(const char *name, const char *text)
{
    cr_assert_eq(load_as(name, text), WICK_OK, "%s", wick_ctx_message(&ctx));
    return wick_op_find("local", "f");
}

/* The last of f(1, 2, 3), or -1 after a failure; `dtype` f32, f64 or i32. */
static double call_with(wick_ctx *c, wick_op *op, wick_dtype dtype)
{
    float f32[] = {1, 2, 3};
    double f64[] = {1, 2, 3}, last;
    int32_t i32[] = {1, 2, 3};
    void *data = dtype == WICK_F32 ? (void *)f32 : dtype == WICK_F64 ? (void *)f64 : (void *)i32;
    wick_value arg = wick_tensor_of(data, dtype, 1, three), result = {0};
    if (wick_op_call(c, op, &arg, 1, &result, 1) != WICK_OK) return -1;
    const void *y = result.as.tensor.data;
    last = dtype == WICK_F32   ? ((const float *)y)[2]
           : dtype == WICK_F64 ? ((const double *)y)[2]
                               : ((const int32_t *)y)[2];
    wick_value_free(&result);
    return last;
}

static int64_t n_variants(const wick_op *op)
{
    int64_t n = 0;
    for (wick_variant_node *v = atomic_load(&wick_op_current(op)->variants); v; v = v->next)
        n++;
    return n;
}

Test(load_source, text_is_loaded_with_f32_first_and_the_others_at_their_first_call)
{
    wick_op *op = load("<cell 1>", SOURCE("1"));
    cr_assert_eq(n_variants(op), 1);
    cr_assert_eq(call_with(&ctx, op, WICK_F32), 4);
    cr_assert_eq(n_variants(op), 1, "f32 was there already");
    cr_assert_eq(call_with(&ctx, op, WICK_F64), 4);
    cr_assert_eq(n_variants(op), 2);
    cr_assert_eq(call_with(&ctx, op, WICK_I32), 4);
    cr_assert_eq(call_with(&ctx, op, WICK_F64), 4);
    cr_assert_eq(n_variants(op), 3);
    cr_assert_str_eq(wick_op_file(op), "<cell 1>");
}

typedef struct caller {
    pthread_t thread;
    wick_op *op;
    pthread_barrier_t *start;
    double answer;
} caller;

static void *call_at_once(void *arg)
{
    caller *c = arg;
    wick_ctx own;
    wick_ctx_init(&own, NULL);
    pthread_barrier_wait(c->start);
    c->answer = call_with(&own, c->op, WICK_F64);
    wick_ctx_deinit(&own);
    return NULL;
}

Test(load_source, four_threads_that_need_a_type_at_once_get_it_built_once)
{
    enum { THREADS = 4 };
    caller callers[THREADS];
    pthread_barrier_t start;
    wick_op *op = load("<cell 1>", SOURCE("1"));
    cr_assert_eq(pthread_barrier_init(&start, NULL, THREADS), 0);
    for (int i = 0; i < THREADS; i++) {
        callers[i] = (caller){.op = op, .start = &start};
        cr_assert_eq(pthread_create(&callers[i].thread, NULL, call_at_once, &callers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(callers[i].thread, NULL);
        cr_assert_eq(callers[i].answer, 4);
    }
    cr_assert_eq(n_variants(op), 2);
    pthread_barrier_destroy(&start);
}

Test(load_source, loading_again_swaps_the_code)
{
    wick_op *op = load("<cell 1>", SOURCE("1"));
    cr_assert_eq(call_with(&ctx, op, WICK_F64), 4);
    cr_assert_eq(load("<cell 1>", SOURCE("10")), op);
    cr_assert_eq(call_with(&ctx, op, WICK_F32), 13);
    cr_assert_eq(call_with(&ctx, op, WICK_F64), 13, "also of a type that was compiled before");
}

Test(load_source, loading_again_with_another_signature_changes_the_operator)
{
    wick_op *op = load("<cell 1>", SOURCE("1"));
    load("<cell 1>",
         HEAD("x: T[*N], by: float -> y: T[*N] where T: f32") "WICK_IMPL wick_status "
                                                              "f_cpu(wick_ctx *ctx, const T *x, "
                                                              "double by, T *y, int64_t N)\n"
                                                              "{\n    (void)ctx;\n    for (int64_t "
                                                              "i = 0; i < N; i++) y[i] = x[i] * "
                                                              "(T)by;\n    return WICK_OK;\n}\n");
    float x[] = {1, 2, 3};
    wick_value args[] = {wick_tensor_of(x, WICK_F32, 1, three), wick_float(2)}, result = {0};
    cr_assert_eq(wick_op_call(&ctx, op, args, 2, &result, 1), WICK_OK, "%s",
                 wick_ctx_message(&ctx));
    cr_assert_eq(((float *)result.as.tensor.data)[2], 6);
    wick_value_free(&result);
    cr_assert_eq(wick_op_call(&ctx, op, args, 1, &result, 1), WICK_EINVAL);
    cr_assert_str_eq(wick_ctx_message(&ctx), "f: got 1 arguments, expected 2");
}

Test(load_source, loading_again_without_a_change_does_nothing)
{
    wick_op *op = load("<cell 1>", SOURCE("1"));
    const wick_op_def *def = wick_op_current(op);
    cr_assert_eq(load("<cell 1>", SOURCE("1")), op);
    cr_assert_eq(wick_op_current(op), def);
}

Test(load_source, another_name_for_the_same_operator_is_refused)
{
    wick_op *op = load("<cell 1>", SOURCE("1"));
    cr_assert_eq(load_as("<cell 2>", SOURCE("10")), WICK_EINVAL);
    cr_assert_str_eq(
        wick_ctx_message(&ctx),
        "<cell 2>:2: operator local::f is already defined by <cell 1>: rename one of them, or put "
        "WICK_NAMESPACE(...) into one of the files");
    cr_assert_eq(call_with(&ctx, op, WICK_F32), 4);
}

static void first_line(char *out, size_t n)
{
    snprintf(out, n, "%s", wick_ctx_message(&ctx));
    out[strcspn(out, "\n")] = '\0';
}

Test(load_source, what_does_not_compile_is_told_with_file_and_line)
{
    char line[256];
    wick_op *op = load("<cell 1>", SOURCE("1"));
    cr_assert_eq(load_as("<cell 1>", SOURCE("nonsense")), WICK_ECOMPILE);
    first_line(line, sizeof line);
    cr_assert_eq(strncmp(line, "<cell 1>:6:", 11), 0, "%s", line);
    cr_assert_not_null(strstr(line, "nonsense"), "%s", line);
    char said[256];
    cr_assert_eq(call_with(&ctx, op, WICK_F32), -1,
                 "the old code is not run behind the author's back");
    first_line(said, sizeof said);
    cr_assert_str_eq(said, line);
    load("<cell 1>", SOURCE("10"));
    cr_assert_eq(call_with(&ctx, op, WICK_F32), 13);
}

Test(load_source, an_error_in_a_type_that_is_not_built_yet_is_told_at_once)
{
    char line[256];
    cr_assert_eq(
        load_as("<cell 1>", SOURCE("1") "_Static_assert((T)0.5 != 0, \"not for integers\");\n"),
        WICK_ECOMPILE);
    first_line(line, sizeof line);
    cr_assert_eq(strncmp(line, "<cell 1>:", 9), 0, "%s", line);
    cr_assert_not_null(strstr(line, "not for integers"), "%s", line);
    cr_assert_null(wick_op_find("local", "f"));
}

Test(load_source, a_bad_signature_and_a_missing_file_are_told)
{
    cr_assert_eq(load_as("<cell 1>", HEAD("x: T[ -> y") ADD("1")), WICK_EINVAL);
    cr_assert_eq(strncmp(wick_ctx_message(&ctx), "<cell 1>:2:", 11), 0, "%s",
                 wick_ctx_message(&ctx));
    cr_assert_eq(load_as("/nowhere/op.c", NULL), WICK_EIO);
    cr_assert_not_null(strstr(wick_ctx_message(&ctx), "/nowhere/op.c"));
}

static void write_source(const char *path, const char *text)
{
    cr_assert_eq(wick_file_write(&ctx, path, text, strlen(text)), WICK_OK, "%s",
                 wick_ctx_message(&ctx));
}

Test(load_source, a_file_is_known_by_its_absolute_path)
{
    char *folder = NULL, *absolute = NULL;
    cr_assert_eq(wick_dir_temporary(&ctx, "wick-test", &folder), WICK_OK);
    cr_assert_eq(chdir(folder), 0);
    write_source("op.c", SOURCE("1"));
    wick_op *op = load("op.c", NULL);
    cr_assert_eq(wick_path_absolute(&ctx, "op.c", &absolute), WICK_OK);
    cr_assert_str_eq(wick_op_current(op)->origin, absolute);
    write_source("op.c", SOURCE("10"));
    cr_assert_eq(call_with(&ctx, op, WICK_F64), 4,
                 "what is compiled later is the source as it was when loaded");
    cr_assert_eq(load(absolute, NULL), op, "the same file under another name");
    cr_assert_eq(call_with(&ctx, op, WICK_F64), 13);
    cr_assert_eq(chdir("/"), 0);
    wick_dir_remove(folder);
    wick_free(folder);
    wick_free(absolute);
}

Test(load_source, warnings_are_handed_over)
{
    wick_source source = {
        "<cell 1>", HEAD("x: T[*N] -> y: T[*N] where T: f32") "#warning look here\n" ADD("1")};
    wick_build_options options = {.include_dir = WICK_TEST_ROOT "/include"};
    wick_module *module = NULL;
    char *warnings = NULL;
    cr_assert_eq(wick_load_source(&ctx, &source, &options, &module, &warnings), WICK_OK, "%s",
                 wick_ctx_message(&ctx));
    cr_assert(warnings && strstr(warnings, "look here"), "%s", warnings ? warnings : "none");
    wick_string_free(warnings);
}

/* Failures before the compiler runs; the compiler itself is too slow to be walked through. */
Test(load_source, lack_of_memory_leaves_nothing)
{
    wick_source source = {"<cell 1>", HEAD("x: T[*N] -> y: T[*N] where T: f32") ADD("1")};
    wick_build_options options = {.include_dir = "/nowhere"};
    wick_module *module = NULL;
    long live = wick_memory_live();
    for (long n = 1; n < 40; n++) {
        wick_memory_fail_after(n);
        cr_assert_neq(wick_load_source(&ctx, &source, &options, &module, NULL), WICK_OK);
        wick_memory_fail_after(0);
        wick_ctx_clear(&ctx);
        cr_assert_eq(wick_memory_live(), live, "allocation %ld", n);
    }
}
