/* test_scan_tune.c -- WICK_TUNE, as the build reads it */
#include "support.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static wick_ctx ctx;
static wick_scan scan;

static void setup(void) { wick_ctx_init(&ctx, NULL); }

static void teardown(void)
{
    wick_scan_free(&scan);
    wick_ctx_deinit(&ctx);
    cr_expect_eq(wick_memory_live(), 0);
}

TestSuite(scan_tune, .init = setup, .fini = teardown);

#define CUDA(op)                                                                                   \
    "WICK_IMPL wick_status " op "_cuda(wick_ctx *ctx, const T *x, T *y, int64_t N)\n"              \
    "{ return WICK_LAUNCH(ctx, k, wick_1d(N), wick_1d(wick_tuned(ctx, threads, 256)), 0, x, y); "  \
    "}\n"
#define KERNEL "static __global__ void k(const T *x, T *y) { y[0] = x[0]; }\n"

Test(scan_tune, knobs_have_one_place_in_the_file)
{
    wick_source source = {"op.c", HEAD "WICK_TUNE(f, \"threads: 128 256, \"\n  \"rows: 1 2\");\n"
                                       "WICK_OP(g, \"x: T[*N] -> y: T[*N]\");\n"
                                       "WICK_TUNE(g, \"width: 1 2 4, threads: 64\");\n"
                                       "WICK_OP(h, \"x: T[*N] -> y: T[*N]\");\n" KERNEL CUDA("f")
                                           CUDA("g") CUDA("h")};
    wick_text out = {0};
    cr_assert_eq(wick_scan_source(&ctx, &source, &scan), WICK_OK, "%s", wick_ctx_message(&ctx));
    cr_assert_eq(scan.n_knobs, 3);
    wick_scan_print_tune(&out, &scan, &scan.ops[0]);
    cr_expect_str_eq(wick_text_str(&out), "threads: 128 256, rows: 1 2, width:");
    wick_text_free(&out);
    wick_scan_print_tune(&out, &scan, &scan.ops[1]);
    cr_expect_str_eq(wick_text_str(&out), "threads: 64, rows:, width: 1 2 4");
    wick_text_free(&out);
    cr_expect_null(scan.ops[2].tune);
    wick_unit unit = {.scan = &scan, .types = {WICK_F32}, .cuda = true};
    wick_glue_write(&out, &unit, 1, 0, false);
    cr_expect(strstr(wick_text_str(&out), "enum { WICK_TUNE_threads = 0 };\n"
                                          "enum { WICK_TUNE_rows = 1 };\n"
                                          "enum { WICK_TUNE_width = 2 };\n"));
    cr_expect(strstr(wick_text_str(&out), ", \"threads: 128 256, rows: 1 2, width:\"},\n"));
    cr_expect(strstr(wick_text_str(&out), "wick_op_2, 1, NULL},\n"));
    wick_text_free(&out);
}

Test(scan_tune, what_is_refused)
{
    static const char *const cases[][2] = {
        {"WICK_TUNE(g, \"threads: 1\");\n",
         "op.c:3: WICK_TUNE(g): there is no operator of that name here"},
        {"WICK_TUNE(f, \"threads: 0\");\n",
         "op.c:3: WICK_TUNE(f): \"0\" stands where a number from 1 to 2147483647 is due"},
        {"WICK_TUNE(f, \"threads: 1\");\nWICK_TUNE(f, \"rows: 1\");\n",
         "op.c:4: WICK_TUNE(f): the operator's choices are listed already"},
        {"WICK_TUNE(f);\n", "op.c:3: WICK_TUNE(f): a comma and the list are missing"},
        {"WICK_TUNE(f, CHOICES);\n", "op.c:3: WICK_TUNE(f): the list must be a string literal"},
        {"WICK_TUNE(\"f\");\n", "op.c:3: WICK_TUNE(): expected the operator's name"},
        {"static int z(void) { WICK_TUNE(f, \"threads: 1\"); }\n",
         "op.c:3: WICK_TUNE(f): stands inside braces"}};
    for (int i = 0; i < WICK_COUNT(cases); i++) {
        wick_text text = {0};
        wick_text_printf(&text, HEAD "%s" KERNEL CUDA("f"), cases[i][0]);
        char *message = scan_message(wick_text_str(&text));
        cr_expect(!strncmp(message, cases[i][1], strlen(cases[i][1])), "%s", message);
        free(message);
        wick_text_free(&text);
    }
    char *message = scan_message(HEAD BODY "WICK_TUNE(f, \"threads: 1\");\n");
    cr_expect(strstr(message, "WICK_TUNE(f): the operator has no CUDA version"), "%s", message);
    free(message);
    message =
        scan_message(HEAD "WICK_TUNE(f, \"a: 1, b: 1, c: 1, d: 1, e: 1\");\n"
                          "WICK_OP(g, \"x: T[*N] -> y: T[*N]\");\n"
                          "WICK_TUNE(g, \"p: 1, q: 1, r: 1, s: 1\");\n" KERNEL CUDA("f") CUDA("g"));
    cr_expect(strstr(message, "op.c:4: this file has more than 8 knobs"), "%s", message);
    free(message);
}
