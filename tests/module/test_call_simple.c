/* test_call_simple.c -- the short way: what it must leave to the general one, and what it runs
 * itself */
#include "support.h"

#include <criterion/criterion.h>

static wick_status add_one(wick_ctx *ctx, const wick_slot *slot)
{
    const float *x = slot[0].p;
    float *y = slot[1].p;
    (void)ctx;
    for (int64_t i = 0; i < slot[2].i; i++)
        y[i] = x[i] + 1;
    return WICK_OK;
}

static wick_op *op_into(void)
{
    return define_op("into", "x: f32[*N], y!: f32[*N] -> ()", add_one);
}

Test(simple, the_signature_takes_the_short_way)
{
    cr_assert(wick_op_current(op_into())->simple.n_inputs);
    cr_assert_not(
        wick_op_current(define_op("rows", "x: f32[*N, C] -> ()", add_one))->simple.n_inputs);
    cr_assert_not(wick_op_current(define_op("maybe", "x: f32[*N], y?: f32[*N] -> ()", add_one))
                      ->simple.n_inputs);
}

Test(simple, partial_overlap_is_refused_either_way_round)
{
    wick_op *op = op_into();
    float x[5] = {1, 2, 3, 4, 5};
    for (int shift = 0; shift < 2; shift++) {
        wick_value args[] = {F32(x + shift, 4), F32(x + 1 - shift, 4)};
        cr_assert_eq(call(op, args, 2, NULL, 0), WICK_EINVAL);
        cr_assert_str_eq(wick_ctx_message(&test_ctx),
                         "into: y is written in place, but partly overlaps x in memory");
    }
    cr_assert(x[0] == 1 && x[4] == 5, "nothing was written");
}

Test(simple, exact_aliasing_and_neighbours_are_fine)
{
    wick_op *op = op_into();
    float x[4] = {1, 2, 0, 0};
    wick_value same[] = {F32(x, 2), F32(x, 2)}, beside[] = {F32(x, 2), F32(x + 2, 2)};
    cr_assert_eq(call(op, same, 2, NULL, 0), WICK_OK);
    cr_assert_eq(call(op, beside, 2, NULL, 0), WICK_OK);
    cr_assert(x[0] == 2 && x[1] == 3 && x[2] == 3 && x[3] == 4);
}

Test(simple, one_address_with_two_element_sizes_is_refused)
{
    wick_op *op = define_op("mixed", "x: f64[*N], y!: f32[*N] -> ()", record_slots);
    double x[2] = {1, 2};
    int64_t size[] = {2};
    wick_value args[] = {wick_tensor_of(x, WICK_F64, 1, size),
                         wick_tensor_of(x, WICK_F32, 1, size)};
    cr_assert_eq(call(op, args, 2, NULL, 0), WICK_EINVAL);
}

Test(simple, other_shapes_and_types_are_refused_in_words)
{
    wick_op *op = op_into();
    float x[3] = {0};
    double d[3] = {0};
    int64_t size[] = {3};
    wick_value shapes[] = {F32(x, 3), F32(x, 2)};
    wick_value types[] = {wick_tensor_of(d, WICK_F64, 1, size), F32(x, 3)};
    cr_assert_eq(call(op, shapes, 2, NULL, 0), WICK_EINVAL);
    cr_assert_eq(call(op, types, 2, NULL, 0), WICK_EINVAL);
    cr_assert_str_eq(wick_ctx_message(&test_ctx), "into: x is f64, expected f32");
}

Test(simple, a_type_that_wick_does_not_know_decides_nothing)
{
    wick_op *op =
        define_op("sum2", "a: T[*N], b: T[*N] -> y: T[*N] where T: f32 f64", record_slots);
    float x[2] = {0};
    int64_t size[] = {2};
    wick_value args[] = {wick_tensor_of(x, WICK_NONE, 1, size), F32(x, 2)}, result = {0};
    n_calls = 0;
    cr_assert(wick_op_current(op)->simple.n_inputs > 0);
    cr_assert_eq(call(op, args, 2, &result, 1), WICK_EINVAL);
    cr_assert_str_eq(wick_ctx_message(&test_ctx), "sum2: a is none, expected f32 or f64");
    cr_assert_eq(n_calls, 0);
}
