/* test_traffic.c -- bytes that must be moved */
#include "fixture.h"

#define SIZES(...) ((const int64_t[]){__VA_ARGS__})

static wick_status measure(fixture *f, const wick_input_shape *inputs, wick_dtype type,
                           wick_traffic *out)
{
    wick_binding binding;
    wick_dtype types[WICK_MAX_TYPEVARS] = {type, WICK_I64, WICK_NONE, WICK_NONE};
    cr_assert_eq(wick_signature_bind(&f->ctx, f->sig, inputs, &binding), WICK_OK, "%s",
                 wick_ctx_message(&f->ctx));
    return wick_signature_traffic(&f->ctx, f->sig, &binding, inputs, types, out);
}

Test(traffic, inputs_are_read_and_outputs_written_once)
{
    fixture f =
        fixture_of("x: T[*N, C], bias: T[C], k: int -> y: T[*N, C], s: A[], n: int where T: f16");
    wick_input_shape in[] = {
        {true, 3, SIZES(2, 3, 5), 0}, {true, 1, SIZES(5), 0}, {true, 0, NULL, 4}};
    wick_traffic t;
    cr_assert_eq(measure(&f, in, WICK_F16, &t), WICK_OK);
    cr_assert_eq(t.read_bytes, 2 * (30 + 5));
    cr_assert_eq(t.written_bytes, 2 * 30 + 4);
    fixture_free(&f);
}

Test(traffic, in_place_counts_twice_and_absent_or_shape_not_at_all)
{
    fixture f = fixture_of("x!: T[N], b?: T[N], s: shape[N], i: U[N] -> () where T: f64, U: i64");
    wick_input_shape in[] = {{true, 1, SIZES(10), 0},
                             {false, 0, NULL, 0},
                             {true, 1, SIZES(10), 0},
                             {true, 1, SIZES(10), 0}};
    wick_traffic t;
    cr_assert_eq(measure(&f, in, WICK_F64, &t), WICK_OK);
    cr_assert_eq(t.read_bytes, 80 + 80);
    cr_assert_eq(t.written_bytes, 80);
    fixture_free(&f);
}

Test(traffic, a_sum_that_does_not_fit_is_told)
{
    fixture f = fixture_of("x: T[N] -> y: T[N] where T: f64");
    wick_input_shape in[] = {{true, 1, SIZES(INT64_MAX / 8 + 1), 0}};
    wick_traffic t;
    cr_assert_eq(measure(&f, in, WICK_F64, &t), WICK_EINVAL);
    cr_assert_str_eq(wick_ctx_message(&f.ctx), "the bytes of x do not fit 63 bits");
    fixture_free(&f);
}
