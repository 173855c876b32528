/* test_gradient.c -- which call a backward's arguments come from, and names that do not fit */
#include "fixture.h"

typedef struct pair {
    fixture forward, backward;
    wick_ctx ctx;
    wick_gradient gradient;
    wick_status status;
} pair;

/* Matches foo(...) with foo_backward(...). */
static pair match(const char *forward, const char *backward)
{
    pair p = {.status = WICK_OK};
    cr_assert_eq(fixture_parse(&p.forward, "foo", forward), WICK_OK, "%s",
                 wick_ctx_message(&p.forward.ctx));
    cr_assert_eq(fixture_parse(&p.backward, "foo_backward", backward), WICK_OK, "%s",
                 wick_ctx_message(&p.backward.ctx));
    wick_ctx_init(&p.ctx, NULL);
    p.status = wick_gradient_match(&p.ctx, p.forward.sig, p.backward.sig, &p.gradient);
    return p;
}

static void pair_free(pair *p)
{
    fixture_free(&p->forward);
    fixture_free(&p->backward);
    wick_ctx_deinit(&p->ctx);
}

static pair match_well(const char *forward, const char *backward)
{
    pair p = match(forward, backward);
    cr_assert_eq(p.status, WICK_OK, "%s", wick_ctx_message(&p.ctx));
    return p;
}

static void assert_argument(const pair *p, int i, wick_gradient_source source, int index, int axis)
{
    const wick_gradient_argument *a = &p->gradient.arguments[i];
    cr_expect_eq(a->source, source, "argument %d has source %d", i, (int)a->source);
    cr_expect_eq(a->index, index, "argument %d has index %d", i, a->index);
    cr_expect_eq(a->axis, axis, "argument %d has axis %d", i, a->axis);
}

static void assert_refused(const char *forward, const char *backward, const char *words)
{
    pair p = match(forward, backward);
    cr_expect_eq(p.status, WICK_EINVAL, "%s\n%s", forward, backward);
    const char *message = p.status == WICK_OK ? "" : wick_ctx_message(&p.ctx);
    cr_expect(strstr(message, words), "%s\nis not in\n%s", words, message);
    cr_expect(strstr(message, "\n    foo("), "the forward is not shown:\n%s", message);
    cr_expect(strstr(message, "\n    foo_backward("), "the backward is not shown:\n%s", message);
    pair_free(&p);
}

Test(gradient, inputs_outputs_and_gradients_are_told_apart_by_name)
{
    pair p = match_well("x: T[N], w: T[N], s: float = 2.0, mode: 'a'|'b' = 'a' -> y: T[N], z: T[N]",
                        "dz: T[N], y: T[N], mode: 'a'|'b', w: T[N], s: float, dy?: T[N]"
                        " -> dw?: T[N], dx: T[N]");
    assert_argument(&p, 0, WICK_FROM_GRADIENT, 1, 0);
    assert_argument(&p, 1, WICK_FROM_OUTPUT, 0, 0);
    assert_argument(&p, 2, WICK_FROM_INPUT, 3, 0);
    assert_argument(&p, 3, WICK_FROM_INPUT, 1, 0);
    assert_argument(&p, 4, WICK_FROM_INPUT, 2, 0);
    assert_argument(&p, 5, WICK_FROM_GRADIENT, 0, 0);
    cr_expect_eq(p.gradient.gives[0], 1);
    cr_expect_eq(p.gradient.gives[1], 0);
    pair_free(&p);
}

Test(gradient, only_the_shape_of_an_input)
{
    pair p = match_well("x: T[*N, C] -> y: T[C]", "dy: T[C], x: shape[*N, C] -> dx: T[*N, C]");
    assert_argument(&p, 1, WICK_FROM_SHAPE, 0, 0);
    pair_free(&p);
    p = match_well("x: shape[N], w: T[N] -> y: T[N]", "dy: T[N], x: shape[N] -> dw: T[N]");
    assert_argument(&p, 1, WICK_FROM_INPUT, 0, 0);
    pair_free(&p);
}

Test(gradient, a_dim_of_the_forward_counted_from_the_end)
{
    pair p = match_well("a?: T[S], f: T[*B, S, H], g: T[U, H] -> y: T[*B, S, U]",
                        "dy: T[*B, S, U], U: int, S: int, H: int -> df: T[*B, S, H]");
    assert_argument(&p, 1, WICK_FROM_SIZE, 2, -2);
    assert_argument(&p, 2, WICK_FROM_SIZE, 1, -2); /* not a's: it may be absent */
    assert_argument(&p, 3, WICK_FROM_SIZE, 1, -1);
    pair_free(&p);
}

Test(gradient, a_parameter_of_that_name_comes_before_a_dim_or_a_gradient)
{
    pair p = match_well("x: T[N], N: int -> y: T[N]", "dy: T[N], N: int -> dx: T[N]");
    assert_argument(&p, 1, WICK_FROM_INPUT, 1, 0);
    pair_free(&p);
    /* dy is an input of this forward; what arrives for y is not asked for. */
    p = match_well("x: T[N], dy: T[N] -> y: T[N]", "dy: T[N] -> dx: T[N]");
    assert_argument(&p, 0, WICK_FROM_INPUT, 1, 0);
    pair_free(&p);
}

Test(gradient, what_may_be_absent)
{
    pair p = match_well("x: T[N], w?: T[N] -> y: T[N], z?: T[N]",
                        "dy: T[N], dz?: T[N], w?: T[N], z?: T[N] -> dx?: T[N], dw?: T[N]");
    assert_argument(&p, 1, WICK_FROM_GRADIENT, 1, 0);
    assert_argument(&p, 2, WICK_FROM_INPUT, 1, 0);
    assert_argument(&p, 3, WICK_FROM_OUTPUT, 1, 0);
    pair_free(&p);

    const char *forward = "x: T[N], w?: T[N] -> y: T[N], z?: T[N]";
    assert_refused(forward, "dy: T[N], w: T[N] -> dx: T[N]",
                   "w may be absent in the forward: write it with a ?");
    assert_refused(forward, "dy: T[N], z: T[N] -> dx: T[N]",
                   "z may be absent in the forward: write it with a ?");
    assert_refused(forward, "dy: T[N], dz: T[N] -> dx: T[N]",
                   "dz may be absent, as its output may in the forward: write it with a ?");
    assert_refused(forward, "dy: T[N], w: shape[N] -> dx: T[N]",
                   "w may be absent in the forward, and has no shape then");
}

Test(gradient, names_that_do_not_fit)
{
    const char *forward = "x: T[N], s: float, w: T[*M] -> y: T[N], n: int";
    const char *neither =
        " is neither an input nor an output of the forward, nor d and the name of "
        "an output";
    const char *inputs[][2] = {
        {"g", "g: T[N] -> dx: T[N]"},       /* no such name */
        {"dq", "dq: T[N] -> dx: T[N]"},     /* no such output */
        {"dx", "dx: T[N] -> dw: T[N]"},     /* not an output */
        {"dn", "dn: i64[3] -> dx: i64[3]"}, /* a number has no gradient */
        {"dy", "dy: float -> dx: f32[3]"},  /* a gradient is a tensor */
        {"K", "K: int -> dx: f32[K]"},      /* no such dim */
        {"M", "M: int -> dw: f32[M]"},      /* any number of dims */
        {"N", "N: float -> dx: f32[3]"},    /* a dim is an int */
    };
    const char *result = " is not d and the name of a tensor that the forward takes";
    const char *outputs[][2] = {
        {"x", "dy: T[N] -> x: T[N]"},     {"y", "dy: T[N] -> y: T[N]"},
        {"dy", "s: float -> dy: f32[3]"}, {"ds", "dy: T[N] -> ds: T[]"},
        {"dn", "dy: T[N] -> dn: T[]"},    {"dx", "dy: T[N] -> dx: float"},
    };
    wick_text words = {0};
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++) {
        wick_text_free(&words);
        wick_text_printf(&words, "foo_backward: %s%s", inputs[i][0], neither);
        assert_refused(forward, inputs[i][1], wick_text_str(&words));
    }
    for (size_t i = 0; i < sizeof outputs / sizeof *outputs; i++) {
        wick_text_free(&words);
        wick_text_printf(&words, "foo_backward: %s%s", outputs[i][0], result);
        assert_refused(forward, outputs[i][1], wick_text_str(&words));
    }
    wick_text_free(&words);
}

Test(gradient, kinds_that_differ)
{
    const char *forward = "x: T[N], s: float -> y: T[N], n: int";
    const char *kinds = "is of another kind in the forward";
    assert_refused(forward, "dy: T[N], s: int -> dx: T[N]", kinds);
    assert_refused(forward, "dy: T[N], x: int -> dx: T[N]", kinds);
    assert_refused(forward, "dy: T[N], s: shape[N] -> dx: T[N]", kinds);
    assert_refused(forward, "dy: T[N], n: T[N] -> dx: T[N]", kinds);
    assert_refused(forward, "dy: T[N], y: shape[N] -> dx: T[N]", kinds); /* of inputs only */
    assert_refused(forward, "dy: T[N], x!: T[N] -> dx: T[N]",
                   "x is written in place, which a backward may not");
}
