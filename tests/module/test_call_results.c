/* test_call_results.c -- results that the caller gives, and what may share memory with what */
#include "support.h"

#include <string.h>

/* y[i] = x[N - 1 - i]: wrong as soon as y and x share memory */
static wick_status reverse(wick_ctx *ctx, const wick_slot *slot)
{
    const float *x = slot[0].p;
    float *y = slot[1].p;
    (void)ctx;
    for (int64_t i = 0; i < slot[2].i; i++)
        y[i] = x[slot[2].i - 1 - i];
    seen[1] = slot[1];
    return WICK_OK;
}

static wick_op *op_reverse(void)
{
    return define_op("reverse", "x: f32[*N] -> y: f32[*N]", reverse);
}

Test(results, a_given_tensor_is_written_where_it_lies)
{
    wick_op *op = op_reverse();
    float x[3] = {1, 2, 3}, y[3] = {0};
    wick_value args[] = {F32(x, 3)}, results[] = {F32(y, 3)};
    long live = wick_memory_live();
    cr_assert_call(op, args, results);
    cr_assert_eq(seen[1].p, y);
    cr_assert(y[0] == 3 && y[1] == 2 && y[2] == 1);
    cr_assert(!results[0].owned && results[0].as.tensor.data == y);
    cr_assert_null(results[0].as.tensor.stride, "the value is as the caller left it");
    wick_value_free(&results[0]); /* leaves the caller's memory alone */
    cr_assert_eq(wick_memory_live(), live);
}

Test(results, a_result_on_top_of_an_input_is_right)
{
    wick_op *op = op_reverse();
    float x[3] = {1, 2, 3};
    wick_value args[] = {F32(x, 3)}, results[] = {F32(x, 3)};
    long live = wick_memory_live();
    cr_assert_call(op, args, results);
    cr_assert(x[0] == 3 && x[1] == 2 && x[2] == 1);
    cr_assert_eq(wick_memory_live(), live);
}

Test(results, a_strided_result_is_filled_and_keeps_its_strides)
{
    wick_op *op = op_reverse();
    float x[3] = {1, 2, 3}, y[6] = {0};
    const int64_t stride[] = {2};
    wick_value args[] = {F32(x, 3)}, results[] = {with_stride(F32(y, 3), stride)};
    long live = wick_memory_live();
    cr_assert_call(op, args, results);
    cr_assert(y[0] == 3 && y[2] == 2 && y[4] == 1 && y[1] == 0 && y[3] == 0 && y[5] == 0);
    cr_assert_eq(results[0].as.tensor.stride, stride);
    cr_assert_eq(wick_memory_live(), live);
}

Test(results, what_a_call_made_may_be_given_to_the_next)
{
    wick_op *op = op_reverse();
    float x[3] = {1, 2, 3};
    long live = wick_memory_live();
    wick_value args[] = {F32(x, 3)}, results[1] = {0};
    cr_assert_call(op, args, results);
    void *data = results[0].as.tensor.data;
    cr_assert_call(op, args, results);
    cr_assert_eq(results[0].as.tensor.data, data);
    cr_assert(results[0].owned);
    args[0] = results[0]; /* its own input: still right, and nothing is lost */
    cr_assert_call(op, args, results);
    cr_assert_arr_eq(data, x, sizeof x);
    wick_value_free(&results[0]);
    cr_assert_eq(wick_memory_live(), live);
}

static wick_status fails(wick_ctx *ctx, const wick_slot *slot)
{
    (void)ctx, (void)slot;
    return WICK_EINVAL;
}

Test(results, a_failed_call_leaves_what_an_earlier_one_made)
{
    wick_op *op = op_reverse(),
            *bad = define_op("bad", "x: f32[*N] -> y: f32[*N], z: f32[*N]", fails);
    float x[3] = {1, 2, 3};
    long live = wick_memory_live();
    wick_value args[] = {F32(x, 3)}, results[2] = {0};
    cr_assert_eq(call(op, args, 1, results, 1), WICK_OK);
    cr_assert_eq(call(bad, args, 1, results, 2), WICK_EINVAL);
    cr_assert_eq(results[0].kind, WICK_VALUE_TENSOR);
    cr_assert_eq(*(float *)results[0].as.tensor.data, 3);
    cr_assert_eq(results[1].kind, WICK_VALUE_NONE, "what this call made is gone");
    wick_value_free(&results[0]);
    wick_ctx_clear(&test_ctx);
    cr_assert_eq(wick_memory_live(), live);
}

Test(results, one_that_does_not_fit_is_refused)
{
    wick_op *op = op_reverse();
    float x[6] = {0}, y[6] = {0};
    wick_value args[] = {F32(x, 2, 3)};
    wick_value shape[] = {F32(y, 3, 2)}, rank[] = {F32(y, 6)}, type[] = {TENSOR(y, WICK_I32, 2, 3)};
    wick_value expanded[] = {with_stride(F32(y, 2, 3), SIZES(0, 1))};
    cr_assert_refused(op, args, shape, WICK_EINVAL,
                      "reverse: out for y has shape [3, 2], expected [2, 3]");
    cr_assert_refused(op, args, rank, WICK_EINVAL,
                      "reverse: out for y has shape [6], expected [2, 3]");
    cr_assert_refused(op, args, type, WICK_EINVAL, "reverse: out for y is i32, expected f32");
    cr_assert_refused(
        op, args, expanded, WICK_EINVAL,
        "reverse: out is written in place, but several of its elements share memory (an expanded "
        "tensor?): clone it first");
}

Test(results, partial_overlap_is_refused)
{
    wick_op *op = op_reverse();
    float x[4] = {0};
    wick_value args[] = {F32(x, 3)}, results[] = {F32(x + 1, 3)};
    cr_assert_refused(op, args, results, WICK_EINVAL,
                      "reverse: out is written in place, but partly overlaps x in memory");

    wick_op *add = define_op("into", "x!: f32[N], y: f32[N] -> ()", record_slots);
    wick_value both[] = {F32(x, 3), F32(x + 1, 3)};
    cr_assert_eq(call(add, both, 2, NULL, 0), WICK_EINVAL);
    cr_assert_str_eq(wick_ctx_message(&test_ctx),
                     "into: x is written in place, but partly overlaps y in memory");

    float apart[3] = {0};
    wick_value expanded[] = {with_stride(F32(x, 3), SIZES(0)), F32(apart, 3)};
    cr_assert_eq(call(add, expanded, 2, NULL, 0), WICK_EINVAL);
    cr_assert_str_eq(wick_ctx_message(&test_ctx),
                     "into: x is written in place, but several of its elements share memory "
                     "(an expanded tensor?): clone it first");
}

Test(results, interleaved_tensors_do_not_overlap)
{
    wick_op *op = op_reverse();
    float x[6] = {1, 0, 2, 0, 3, 0};
    wick_value args[] = {with_stride(F32(x, 3), SIZES(2))},
               results[] = {with_stride(F32(x + 1, 3), SIZES(2))};
    cr_assert_call(op, args, results);
    cr_assert(x[1] == 3 && x[3] == 2 && x[5] == 1 && x[0] == 1);
}

/* y = x, z = 2 x */
static wick_status two(wick_ctx *ctx, const wick_slot *slot)
{
    (void)ctx;
    memcpy(slot[1].p, slot[0].p, (size_t)slot[3].i * sizeof(float));
    for (int64_t i = 0; i < slot[3].i; i++)
        ((float *)slot[2].p)[i] = 2 * ((const float *)slot[0].p)[i];
    return WICK_OK;
}

Test(results, two_results_in_one_place_are_refused)
{
    wick_op *op = define_op("two", "x: f32[N] -> y: f32[N], z: f32[N]", two);
    float x[3] = {1, 2, 3}, y[6] = {0};
    wick_value args[] = {F32(x, 3)};
    wick_value apart[] = {F32(y, 3), F32(y + 3, 3)}, partly[] = {F32(y, 3), F32(y + 1, 3)};
    wick_value same[] = {F32(y, 3), F32(y, 3)};
    cr_assert_call(op, args, apart);
    cr_assert(y[0] == 1 && y[3] == 2 && y[5] == 6);
    cr_assert_refused(op, args, partly, WICK_EINVAL, "two: out for z overlaps out for y in memory");
    cr_assert_refused(op, args, same, WICK_EINVAL, "two: out for z overlaps out for y in memory");
}
