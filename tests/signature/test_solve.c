/* test_solve.c -- sizes of a call: dims found, results shaped, misfits told */
#include "fixture.h"

#define HUGE_SIZE ((int64_t)1 << 62)

/* A call in words: one entry per input; rank -1 is absent, rank -2 a scalar whose value is size[0].
 */
typedef struct call_input {
    int rank;
    int64_t size[6];
} call_input;

#define ABSENT                                                                                     \
    {                                                                                              \
        -1, { 0 }                                                                                  \
    }
#define NUMBER(n)                                                                                  \
    {                                                                                              \
        -2, { n }                                                                                  \
    }

static wick_status bind_call(fixture *f, const call_input *call, wick_binding *out)
{
    wick_input_shape inputs[WICK_MAX_PARAMS] = {{0}};
    for (int i = 0; i < f->sig->n_inputs; i++) {
        inputs[i].present = call[i].rank != -1;
        inputs[i].dim = call[i].rank > 0 ? call[i].rank : 0;
        inputs[i].size = call[i].rank > 0 ? call[i].size : NULL;
        inputs[i].number = call[i].rank == -2 ? call[i].size[0] : 0;
    }
    return wick_signature_bind(&f->ctx, f->sig, inputs, out);
}

/* ---- calls that fit ---- */

typedef struct good_call {
    const char *text;
    call_input inputs[6];
    int64_t value[4];   /* of the dims in order of appearance */
    const char *shapes; /* of outputs, then scratch */
} good_call;

static const good_call good_calls[] = {
    {"x: T[N, C], b: T[C] -> y: T[C, N]", {{2, {3, 5}}, {1, {5}}}, {3, 5}, "[5, 3]"},
    {"x: T[*N, C] -> y: T[*N]", {{1, {5}}}, {1, 5}, "[]"},
    {"x: T[*N, C] -> y: T[*N]", {{4, {2, 3, 4, 5}}}, {24, 5}, "[2, 3, 4]"},
    {"x: T[*N, C] -> y: T[*N]", {{3, {2, 0, 5}}}, {0, 5}, "[2, 0]"},
    {"x: T[*N], y: T[*N] -> z: T[*N, 2]", {{0, {0}}, {0, {0}}}, {1}, "[2]"},
    {"x: T[] -> y: T[]", {{0, {0}}}, {0}, "[]"},
    {" -> y: f32[3, 4]", {{0, {0}}}, {0}, "[3, 4]"},
    {"k: int -> y: f32[k, 2*k+1]", {NUMBER(4)}, {4}, "[4, 9]"},
    {"x: T[S+1] -> y: T[S]", {{1, {7}}}, {6}, "[6]"},
    {"x: T[S-1] -> y: T[S]", {{1, {7}}}, {8}, "[8]"},
    {"x: T[10-S] -> y: T[S]", {{1, {3}}}, {7}, "[7]"},
    {"w: T[H*4, H+I] -> y: T[I] scratch u: f32[H, I]", {{2, {12, 8}}}, {3, 5}, "[5] [3, 5]"},
    {"w: T[H+I, 4*H] -> y: T[I]", {{2, {8, 12}}}, {3, 5}, "[5]"},
    {"x: T[H*W], h: T[H] -> y: T[W]", {{1, {12}}, {1, {3}}}, {3, 4}, "[4]"},
    {"a: T[A+B], b: T[B+C], c: T[C] -> y: T[A]", {{1, {9}}, {1, {7}}, {1, {5}}}, {7, 2, 5}, "[7]"},
    {"x: T[H*W+H], w: T[W] -> y: T[H]", {{1, {12}}, {1, {3}}}, {3, 3}, "[3]"},
    {"x: T[S, S*S] -> y: T[S*S*S]", {{2, {3, 9}}}, {3}, "[27]"},
    {"x: T[N], b?: T[C] -> y: T[N]", {{1, {4}}, ABSENT}, {4, 0}, "[4]"},
    {"x: T[N], b?: T[C] -> y: T[N]", {{1, {4}}, {1, {3}}}, {4, 3}, "[4]"},
    {"x: T[N], b?: T[2*C] -> y: T[N]", {{1, {4}}, {1, {6}}}, {4, 3}, "[4]"},
    {"x: T[N], b?: T[*M] -> y: T[N]", {{1, {4}}, ABSENT}, {4, 0}, "[4]"},
    {"dy: T[], x: shape[*N] -> dx: T[*N]", {{0, {0}}, {2, {2, 3}}}, {6}, "[2, 3]"},
    {"x: T[B, S], S: int -> y: T[S]", {{2, {2, 3}}, NUMBER(3)}, {2, 3}, "[3]"},
    {"x: f32[L, 2, 2], n: int -> y: f32[L]", {{3, {7, 2, 2}}, NUMBER(-5)}, {7}, "[7]"},
    {"x: T[N] -> y: T[N-1]", {{1, {1}}}, {1}, "[0]"},
    {"x: T[4611686018427387904*H] -> y: T[H]", {{1, {HUGE_SIZE}}}, {1}, "[1]"},
    {"x: T[N] -> y: T[N]", {{1, {INT64_MAX}}}, {INT64_MAX}, "[9223372036854775807]"},
    {"x: T[N-1] -> y: T[]", {{1, {INT64_MAX - 1}}}, {INT64_MAX}, "[]"},
    {"h: T[H], x: T[H*W, W+1] -> y: T[W]", {{1, {0}}, {2, {0, 5}}}, {0, 4}, "[4]"},
};

static void print_shapes(fixture *f, const wick_binding *binding, wick_text *out)
{
    for (int i = 0; i < f->sig->n_outputs + f->sig->n_scratch; i++) {
        int64_t size[WICK_MAX_RANK];
        int dim;
        const wick_param *param = &f->sig->outputs[i];
        cr_assert_eq(wick_signature_shape(&f->ctx, f->sig, param, binding, &dim, size), WICK_OK,
                     "%s", wick_ctx_message(&f->ctx));
        if (i) wick_text_add(out, " ");
        wick_shape_print(out, dim, size);
    }
}

Test(solve, calls_that_fit)
{
    for (int i = 0; i < WICK_COUNT(good_calls); i++) {
        const good_call *c = &good_calls[i];
        fixture f = fixture_of(c->text);
        wick_binding binding;
        wick_text shapes = {0};
        cr_assert_eq(bind_call(&f, c->inputs, &binding), WICK_OK, "%s: %s", c->text,
                     wick_ctx_message(&f.ctx));
        for (int d = 0; d < f.sig->n_dims; d++)
            cr_assert_eq(binding.value[d], c->value[d], "%s: %s is %lld", c->text,
                         f.sig->dims[d].name, (long long)binding.value[d]);
        print_shapes(&f, &binding, &shapes);
        cr_assert_str_eq(wick_text_str(&shapes), c->shapes, "%s", c->text);
        wick_text_free(&shapes);
        fixture_free(&f);
    }
}

Test(solve, absent_dims_are_not_bound)
{
    fixture f = fixture_of("x: T[N], b?: T[C] -> y: T[N]");
    wick_binding binding;
    cr_assert_eq(bind_call(&f, (call_input[]){{1, {4}}, ABSENT}, &binding), WICK_OK);
    cr_assert(binding.bound[0] && !binding.bound[1]);
    fixture_free(&f);
}

/* ---- calls that do not ---- */

typedef struct bad_call {
    const char *text;
    call_input inputs[4];
    const char *words;
} bad_call;

static const bad_call bad_calls[] = {
    {"x: T[N, C] -> y: T[N]", {{1, {3}}}, "x has 1 dimension ([3]), expected 2: T[N, C]"},
    {"x: T[N, C] -> y: T[N]", {{0, {0}}}, "x has 0 dimensions ([]), expected 2: T[N, C]"},
    {"x: T[*N, C] -> y: T[*N]",
     {{0, {0}}},
     "x has 0 dimensions ([]), expected 1 or more: T[*N, C]"},
    {"x: f32[] -> y: f32[]", {{2, {2, 3}}}, "x has 2 dimensions ([2, 3]), expected 0: f32[]"},
    {"x: T[N, C], bias: T[C] -> y: T[N]",
     {{2, {3, 5}}, {1, {4}}},
     "bias.shape[0] is 4, but C is 5"},
    {"x: T[*N, C], bias: T[C] -> y: T[C]",
     {{3, {2, 3, 5}}, {1, {4}}},
     "bias.shape[0] is 4, but C is 5"},
    {"b: T[C], x: T[*N, C] -> y: T[C]", {{1, {5}}, {3, {2, 3, 4}}}, "x.shape[2] is 4, but C is 5"},
    {"s: T[S], y: T[2, S+1] -> z: T[S]", {{1, {5}}, {2, {2, 7}}}, "y.shape[1] is 7, but S+1 is 6"},
    {"w: T[4*H] -> y: T[H]", {{1, {7}}}, "w.shape[0] is 7, which is not 4*H for any H"},
    {"w: T[H*W], h: T[H] -> y: T[W]",
     {{1, {7}}, {1, {2}}},
     "w.shape[0] is 7, which is not H*W for any W (H is 2)"},
    {"w: T[H*W], h: T[H] -> y: T[W]",
     {{1, {7}}, {1, {0}}},
     "w.shape[0] is 7, which is not H*W for any W (H is 0)"},
    {"w: T[H*W], h: T[H] -> y: T[W]",
     {{1, {0}}, {1, {0}}},
     "the sizes do not tell W: in w it is multiplied by 0 (H*W)"},
    {"x: T[S+1] -> y: T[S]", {{1, {0}}}, "x.shape[0] is 0, which is not S+1 for any S"},
    {"x: T[5-S] -> y: T[S]", {{1, {6}}}, "x.shape[0] is 6, which is not 5-S for any S"},
    {"lines: f32[L, 2] -> y: f32[L]", {{2, {7, 3}}}, "lines.shape[1] is 3, expected 2"},
    {"a: T[*N], b: T[*N] -> y: T[*N]",
     {{2, {2, 3}}, {2, {2, 4}}},
     "b begins with [2, 4], but *N is [2, 3]"},
    {"a: T[*N], b: T[*N, C] -> y: T[*N]",
     {{2, {2, 3}}, {2, {2, 4}}},
     "b begins with [2], but *N is [2, 3]"},
    {"a: T[*N], b: T[*N] -> y: T[*N]",
     {{2, {2, 3}}, {1, {6}}},
     "b begins with [6], but *N is [2, 3]"},
    {"k: int -> y: f32[k]", {NUMBER(-1)}, "k is -1, but a size cannot be negative"},
    {"x: T[S], S: int -> y: T[S]", {{1, {4}}, NUMBER(5)}, "x.shape[0] is 4, but S is 5"},
    {"x: T[N], b?: T[N] -> y: T[N]", {{1, {4}}, {1, {5}}}, "b.shape[0] is 5, but N is 4"},
    {"x: T[N], s: shape[N] -> y: T[N]", {{1, {4}}, {1, {5}}}, "s.shape[0] is 5, but N is 4"},
    {"x: T[N] -> y: T[N]", {ABSENT}, "x is missing"},
    {"x: T[N] -> y: T[N]", {{1, {-3}}}, "x.shape[0] is -3, but a size cannot be negative"},
    {"x: strided T[N, C] -> y: T[N]",
     {{1, {3}}},
     "x has 1 dimension ([3]), expected 2: strided T[N, C]"},
    {"x: T[*N] -> y: T[*N]",
     {{2, {HUGE_SIZE, 2}}},
     "the product of the leading dimensions of x does not fit 63 bits"},
    {"a: T[H], b: T[W], x: T[H*W] -> y: T[H]",
     {{1, {HUGE_SIZE}}, {1, {4}}, {1, {7}}},
     "x.shape[0] is 7, but H*W does not fit 63 bits"},
    {"a: T[H], x: T[H*4*W] -> y: T[W]",
     {{1, {HUGE_SIZE}}, {1, {7}}},
     "x.shape[0] is 7, which is not H*4*W for any W (H is 4611686018427387904)"},
};

Test(solve, calls_that_do_not_fit)
{
    for (int i = 0; i < WICK_COUNT(bad_calls); i++) {
        fixture f = fixture_of(bad_calls[i].text);
        wick_binding binding;
        cr_assert_eq(bind_call(&f, bad_calls[i].inputs, &binding), WICK_EINVAL, "%s",
                     bad_calls[i].text);
        cr_assert_str_eq(wick_ctx_message(&f.ctx), bad_calls[i].words);
        fixture_free(&f);
    }
}

/* ---- results that cannot be ---- */

static const bad_call bad_results[] = {
    {"x: T[S] -> y: T[2, S-3]",
     {{1, {2}}},
     "y.shape[1] would be S-3, which is -1, but a size cannot be negative"},
    {"x: T[S] -> y: T[2*S]",
     {{1, {HUGE_SIZE}}},
     "y.shape[0] would be 2*S, which does not fit 63 bits"},
    {"x: T[S], z: T[*N] -> y: T[*N, S*S*S*S]",
     {{1, {1000000}}, {1, {1}}},
     "y.shape[1] would be S*S*S*S, which does not fit 63 bits"},
    {"x: T[S] -> y: T[S, 2]",
     {{1, {HUGE_SIZE}}},
     "y would be [4611686018427387904, 2], whose number of elements does not fit 63 bits"},
};

Test(solve, results_that_cannot_be)
{
    for (int i = 0; i < WICK_COUNT(bad_results); i++) {
        fixture f = fixture_of(bad_results[i].text);
        wick_binding binding;
        int64_t size[WICK_MAX_RANK];
        int dim;
        cr_assert_eq(bind_call(&f, bad_results[i].inputs, &binding), WICK_OK);
        cr_assert_eq(wick_signature_shape(&f.ctx, f.sig, &f.sig->outputs[0], &binding, &dim, size),
                     WICK_EINVAL);
        cr_assert_str_eq(wick_ctx_message(&f.ctx), bad_results[i].words);
        fixture_free(&f);
    }
}

Test(solve, a_result_of_too_many_dims_is_refused)
{
    fixture f = fixture_of("x: T[*N] -> y: T[*N, 2, 3]");
    int64_t ones[WICK_MAX_RANK], size[WICK_MAX_RANK];
    wick_input_shape in = {true, WICK_MAX_RANK - 1, ones, 0};
    wick_binding binding;
    int dim;
    for (int i = 0; i < WICK_MAX_RANK; i++)
        ones[i] = 1;
    cr_assert_eq(wick_signature_bind(&f.ctx, f.sig, &in, &binding), WICK_OK);
    cr_assert_eq(wick_signature_shape(&f.ctx, f.sig, &f.sig->outputs[0], &binding, &dim, size),
                 WICK_EINVAL);
    cr_assert_str_eq(wick_ctx_message(&f.ctx),
                     "y would have 65 dimensions, but a tensor has at most 64");
    fixture_free(&f);
}

Test(solve, element_types)
{
    fixture f = fixture_of("x: T[N], i: U[N], a: A[N] -> y: i8[N] where T: f16, U: i32");
    const wick_dtype half[] = {WICK_F16, WICK_I32}, whole[] = {WICK_BOOL, WICK_I32};
    cr_assert_eq(wick_elem_dtype(&f.sig->inputs[0].elem, half), WICK_F16);
    cr_assert_eq(wick_elem_dtype(&f.sig->inputs[1].elem, half), WICK_I32);
    cr_assert_eq(wick_elem_dtype(&f.sig->inputs[2].elem, half), WICK_F32);
    cr_assert_eq(wick_elem_dtype(&f.sig->inputs[2].elem, whole), WICK_I64);
    cr_assert_eq(wick_elem_dtype(&f.sig->outputs[0].elem, half), WICK_I8);
    fixture_free(&f);
}
