/* test_tune.c -- the language of launch choices */
#include "signature.h"

#include <criterion/criterion.h>
#include <string.h>

static wick_ctx ctx;
static wick_arena arena;

static void setup(void) { wick_ctx_init(&ctx, NULL); }

static void teardown(void)
{
    wick_arena_free(&arena);
    wick_ctx_deinit(&ctx);
    cr_expect_eq(wick_memory_live(), 0);
}

TestSuite(tune, .init = setup, .fini = teardown);

static const wick_tune *parse(const char *text, bool empty_too)
{
    wick_tune *tune = NULL;
    cr_assert_eq(wick_tune_parse(&ctx, &arena, text, empty_too, &tune), WICK_OK, "%s: %s", text,
                 wick_ctx_message(&ctx));
    return tune;
}

static void expect_print(const wick_tune *tune, const char *expected)
{
    wick_text out = {0};
    wick_tune_print(&out, tune);
    cr_expect_str_eq(wick_text_str(&out), expected);
    wick_text_free(&out);
}

Test(tune, knobs_with_their_values)
{
    const wick_tune *t = parse("threads: 128 256 512, rows: 1 2 4", false);
    cr_assert_eq(t->n, 2);
    cr_expect_str_eq(t->knobs[0].name, "threads");
    cr_expect_eq(t->knobs[0].n, 3);
    cr_expect_eq(t->knobs[0].values[2], 512);
    cr_expect_eq(t->knobs[1].values[1], 2);
    expect_print(t, "threads: 128 256 512, rows: 1 2 4");
    expect_print(parse(" a1:1\n,\tb_:2147483647 7 ", false), "a1: 1, b_: 2147483647 7");
}

Test(tune, a_knob_of_another_operator_has_no_values)
{
    const wick_tune *t = parse("threads:, rows: 1 2, x:", true);
    cr_assert_eq(t->n, 3);
    cr_expect_eq(t->knobs[0].n, 0);
    cr_expect_eq(t->knobs[2].n, 0);
    expect_print(t, "threads:, rows: 1 2, x:");
}

Test(tune, what_is_refused)
{
    static const char *const cases[][2] = {
        {"", "the choices end where a knob's name, a C identifier, is due"},
        {"threads", "the choices end where a colon is due"},
        {"threads 128", "\"128\" stands where a colon is due"},
        {"threads:", "the choices end where a value of this knob is due"},
        {"threads: , rows: 1", "\",\" stands where a value of this knob is due"},
        {"threads: 128,", "the choices end where a knob's name, a C identifier, is due"},
        {"threads: 0", "\"0\" stands where a number from 1 to 2147483647 is due"},
        {"threads: -1", "\"-1\" stands where a number from 1 to 2147483647 is due"},
        {"threads: 2147483648", "\"2147483648\" stands where a number from 1 to 2147483647 is due"},
        {"threads: 99999999999999999999", "stands where a number from 1 to 2147483647 is due"},
        {"threads: 1.5", "\"1.5\" stands where a number from 1 to 2147483647 is due"},
        {"threads: 128 x", "\"x\" stands where a number from 1 to 2147483647 is due"},
        {"2x: 1", "\"2x\" stands where a knob's name, a C identifier, is due"},
        {"a-b: 1", "\"-b\" stands where a colon is due"},
        {"threads: 128 128", "threads lists 128 twice"},
        {"a: 1, b: 1, a: 2", "the knob a is listed twice"},
        {"a: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17", "a has more than 16 values"},
        {"a: 1, b: 1, c: 1, d: 1, e: 1, f: 1, g: 1, h: 1, i: 1", "there are more than 8 knobs"}};
    for (int i = 0; i < WICK_COUNT(cases); i++) {
        wick_tune *tune = NULL;
        wick_ctx_clear(&ctx);
        cr_expect_eq(wick_tune_parse(&ctx, &arena, cases[i][0], false, &tune), WICK_EINVAL);
        cr_expect(strstr(wick_ctx_message(&ctx), cases[i][1]), "%s: %s", cases[i][0],
                  wick_ctx_message(&ctx));
        cr_expect_null(tune);
    }
}
