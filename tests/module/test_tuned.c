/* test_tuned.c -- launch choices that were measured, found again by types, sizes and device */
#define _GNU_SOURCE 1
#include "support.h"

#include "cuda.h"
#include "tuned.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* What the operator saw: its choices, and whether there were any. */
static int64_t tuned[3];
static bool any;

static wick_status look(wick_ctx *ctx, const wick_slot *slot)
{
    (void)slot;
    any = ctx->tuned != NULL;
    for (int i = 0; i < 3; i++)
        tuned[i] = any ? ctx->tuned[i] : -1;
    return WICK_OK;
}

static wick_status give_stream(wick_ctx *ctx, int device_index, void **out)
{
    (void)ctx, (void)device_index;
    *out = NULL;
    return WICK_OK;
}

static const wick_host host = {.stream = give_stream};
static char *folder;

static void setup(void)
{
    wick_ctx ctx;
    wick_ctx_init(&ctx, NULL);
    cr_assert_eq(wick_dir_temporary(&ctx, "wick-test", &folder), WICK_OK);
    wick_ctx_deinit(&ctx);
    setenv("WICK_CACHE_DIR", folder, 1);
    setenv("WICK_CUDA_DRIVER", WICK_TEST_BUILD "/fake/libfake_cuda.so", 1);
    unsetenv("WICK_TUNED");
}

static void teardown(void)
{
    wick_dir_remove(folder);
    wick_free(folder);
}

TestSuite(tuned, .init = setup, .fini = teardown);

#define CHOICES "threads: 128 256, rows: 1 2 4, other:"

/* local::NAME over x!: T[R, C], in place, with code for the GPU. */
static wick_op *define(const char *name, const char *choices)
{
    static const wick_variant f32 = {.types = {WICK_F32}, .cpu = look, .cuda = look},
                              f64 = {.types = {WICK_F64}, .cpu = look, .cuda = look};
    static const wick_variant *const variants[] = {&f32, &f64};
    wick_op_entry entry = {.name = name,
                           .signature = "x!: T[R, C] -> () where T: f32 f64",
                           .doc = "",
                           .file = "tuned.c",
                           .line = 1,
                           .variants = variants,
                           .n_variants = 2,
                           .tune = choices};
    wick_module *module = NULL;
    cr_assert_eq(define_table("/tuned.c", &entry, 1, &module), WICK_OK, "%s",
                 wick_ctx_message(&test_ctx));
    return wick_op_find("local", name);
}

/* Writes the file of an operator for a device of that name. */
static void write_file(const char *device, const char *name, const char *text)
{
    wick_ctx ctx;
    wick_text path = {0};
    wick_ctx_init(&ctx, NULL);
    wick_tuned_path(&path, device, "local", name);
    for (char *slash = path.data + strlen(folder); (slash = strchr(slash + 1, '/')) != NULL;) {
        *slash = '\0';
        mkdir(path.data, 0700);
        *slash = '/';
    }
    cr_assert_eq(wick_file_write(&ctx, path.data, text, strlen(text)), WICK_OK, "%s",
                 wick_ctx_message(&ctx));
    wick_text_free(&path);
    wick_ctx_deinit(&ctx);
}

static void call_on(wick_op *op, int device_type, wick_dtype type, int64_t rows, int64_t cols)
{
    static double data[4];
    int64_t size[] = {rows, cols}, stride[] = {cols, 1};
    wick_value x = {.kind = WICK_VALUE_TENSOR};
    x.as.tensor = (wick_tensor){.data = data,
                                .dim = 2,
                                .dtype = (int32_t)type,
                                .device_type = device_type,
                                .size = size,
                                .stride = stride};
    wick_ctx_clear(&test_ctx);
    any = false;
    cr_assert_eq(wick_op_invoke(&test_ctx, op, wick_op_current(op), &host, &x, NULL), WICK_OK, "%s",
                 wick_ctx_message(&test_ctx));
    cr_expect_null(test_ctx.tuned, "only while the operator runs");
}

static void expect(wick_op *op, wick_dtype type, int64_t rows, int64_t cols, int64_t threads,
                   int64_t n_rows)
{
    call_on(op, WICK_CUDA, type, rows, cols);
    cr_expect_eq(any, threads > 0, "%lldx%lld", (long long)rows, (long long)cols);
    if (threads <= 0) return;
    cr_expect_eq(tuned[0], threads);
    cr_expect_eq(tuned[1], n_rows);
    cr_expect_eq(tuned[2], 0, "another operator's knob");
}

/* The stand-in's devices have names of their own. */
static const char *device_name(void)
{
    static char name[128];
    const wick_cuda_facts *facts = NULL;
    cr_assert_eq(wick_cuda_device_facts(&test_ctx, 0, &facts), WICK_OK, "%s",
                 wick_ctx_message(&test_ctx));
    strncpy(name, facts->name, sizeof name - 1);
    return name;
}

Test(tuned, values_are_found_by_types_and_sizes)
{
    write_file(device_name(), "f",
               CHOICES "\nf32 10,5 128,4,0\nf32 10,6 256,1,0\nf64 0,0 256,2,0\n");
    wick_op *op = define("f", CHOICES);
    expect(op, WICK_F32, 1024, 32, 128, 4);
    expect(op, WICK_F32, 2047, 63, 128, 4);
    expect(op, WICK_F32, 1500, 64, 256, 1);
    expect(op, WICK_F32, 2048, 32, 0, 0);
    expect(op, WICK_F32, 1023, 32, 0, 0);
    expect(op, WICK_F64, 1024, 32, 0, 0);
    expect(op, WICK_F64, 1, 1, 256, 2);
}

Test(tuned, without_a_file_the_rule_holds)
{
    expect(define("f", CHOICES), WICK_F32, 1024, 32, 0, 0);
}

Test(tuned, on_the_cpu_there_is_nothing_to_choose)
{
    write_file(device_name(), "f", CHOICES "\nf32 10,5 128,4,0\n");
    wick_op *op = define("f", CHOICES);
    call_on(op, WICK_CPU, WICK_F32, 1024, 32);
    cr_expect(!any);
}

Test(tuned, another_device_has_files_of_its_own)
{
    write_file("Another GPU", "f", CHOICES "\nf32 10,5 128,4,0\n");
    expect(define("f", CHOICES), WICK_F32, 1024, 32, 0, 0);
}

Test(tuned, a_file_of_other_choices_counts_for_nothing)
{
    write_file(device_name(), "f", "threads: 128 256, rows: 1 2, other:\nf32 10,5 128,2,0\n");
    expect(define("f", CHOICES), WICK_F32, 1024, 32, 0, 0);
}

Test(tuned, lines_that_do_not_fit_are_passed_over)
{
    static const char *const lines[] = {"f32 10,5 64,4,0",
                                        "f32 10,5 128,4",
                                        "f32 10,5 128,4,1",
                                        "f32 10 128,4,0",
                                        "f32 10,5,1 128,4,0",
                                        "f16+f32 10,5 128,4,0",
                                        "- 10,5 128,4,0",
                                        "f32 10,5 128,4,0 more",
                                        "f32 10,5 -128,4,0",
                                        "f32 10,5",
                                        "f32",
                                        "",
                                        "f32 10,5 99999999999999999999,4,0",
                                        "f32 a,b 128,4,0",
                                        "\xff\xfe"};
    for (int i = 0; i < WICK_COUNT(lines); i++) {
        wick_text text = {0};
        wick_text_printf(&text, CHOICES "\n%s\nf32 3,3 256,1,0", lines[i]);
        write_file(device_name(), "f", wick_text_str(&text));
        wick_op *op = define("f", CHOICES); /* loaded again: read again */
        expect(op, WICK_F32, 1024, 32, 0, 0);
        expect(op, WICK_F32, 8, 8, 256, 1);
        wick_text_free(&text);
    }
}

Test(tuned, may_be_switched_off)
{
    write_file(device_name(), "f", CHOICES "\nf32 10,5 128,4,0\n");
    setenv("WICK_TUNED", "0", 1);
    expect(define("f", CHOICES), WICK_F32, 1024, 32, 0, 0);
}

Test(tuned, a_file_is_read_once_until_it_is_forgotten)
{
    write_file(device_name(), "f", CHOICES "\nf32 10,5 128,4,0\n");
    wick_op *op = define("f", CHOICES);
    expect(op, WICK_F32, 1024, 32, 128, 4);
    write_file(device_name(), "f", CHOICES "\nf32 10,5 256,2,0\n");
    expect(op, WICK_F32, 1024, 32, 128, 4);
    wick_tuned_forget(wick_op_current(op));
    expect(op, WICK_F32, 1024, 32, 256, 2);
}

Test(tuned, who_measures_says_which_values_are_used)
{
    wick_op *op = define("f", CHOICES);
    wick_op_def *def = wick_op_current(op);
    static const int64_t first[WICK_MAX_KNOBS] = {128, 4}, second[WICK_MAX_KNOBS] = {256, 1},
                         wrong[WICK_MAX_KNOBS] = {512, 1};
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(wick_tuned_force(&test_ctx, def, i % 2 ? second : first), WICK_OK);
        expect(op, WICK_F32, 7, 7, i % 2 ? 256 : 128, i % 2 ? 1 : 4);
    }
    cr_expect_eq(wick_tuned_force(&test_ctx, def, wrong), WICK_EINVAL);
    wick_ctx_clear(&test_ctx);
    cr_assert_eq(wick_tuned_force(&test_ctx, def, NULL), WICK_OK);
    expect(op, WICK_F32, 7, 7, 0, 0);
    op = define("plain", NULL);
    cr_expect_eq(wick_tuned_force(&test_ctx, wick_op_current(op), first), WICK_EINVAL);
    expect(op, WICK_F32, 7, 7, 0, 0);
}

Test(tuned, keys_and_paths)
{
    wick_op *op = define("f", CHOICES);
    wick_text out = {0};
    static const wick_dtype types[WICK_MAX_TYPEVARS] = {WICK_F32};
    static const int64_t dims[] = {1024, 63};
    wick_tuned_print_key(&out, wick_op_current(op)->sig, types, dims);
    cr_expect_str_eq(wick_text_str(&out), "f32 10,5");
    wick_text_free(&out);
    setenv("WICK_CACHE_DIR", "/cache", 1);
    wick_tuned_path(&out, "NVIDIA H200 (80 GB)/../x", "acme", "f");
    cr_expect_str_eq(wick_text_str(&out), "/cache/tune/NVIDIA_H200__80_GB_____x/acme.f.txt");
    wick_text_free(&out);
    cr_expect_eq(wick_tuned_class(0), 0);
    cr_expect_eq(wick_tuned_class(1), 0);
    cr_expect_eq(wick_tuned_class(INT64_MAX), 62);
}

Test(tuned, choices_that_a_module_cannot_have)
{
    static const wick_variant v = {.types = {WICK_F32}, .cuda = look};
    static const wick_variant *const variants[] = {&v};
    wick_op_entry entry = {.name = "bad",
                           .signature = "x!: T[N] -> () where T: f32",
                           .doc = "",
                           .file = "bad.c",
                           .variants = variants,
                           .n_variants = 1,
                           .tune = "threads 1"};
    wick_module *module = NULL;
    long live = wick_memory_live();
    cr_expect_eq(define_table("/bad.c", &entry, 1, &module), WICK_EINVAL);
    wick_ctx_clear(&test_ctx);
    cr_expect_eq(wick_memory_live(), live);
}
