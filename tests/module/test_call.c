/* test_call.c -- every feature of a signature, as the operator's C function and the caller see it
 */
#include "support.h"

#include <string.h>

static void *const anywhere = (void *)~(uintptr_t)0; /* stale content that must not survive */

/* Records, and fills the scratch in slot 8: it must be as long as it says. */
static wick_status record_and_fill(wick_ctx *ctx, const wick_slot *slot)
{
    memset(slot[8].p, 0, 4 * sizeof(float));
    return record_slots(ctx, slot);
}

/* Records, and copies the view in slot 1 or 2, which is gone after the call. */
static wick_view seen_view;
static wick_status record_view_1(wick_ctx *ctx, const wick_slot *slot)
{
    if (slot[1].p) seen_view = *(const wick_view *)slot[1].p;
    return record_slots(ctx, slot);
}
static wick_status record_view_2(wick_ctx *ctx, const wick_slot *slot)
{
    if (slot[2].p) seen_view = *(const wick_view *)slot[2].p;
    return record_slots(ctx, slot);
}

Test(call, slots_are_in_the_order_of_the_c_prototype)
{
    wick_op *op = define_op(
        "order",
        "x: f32[*N, C], k: int, s: str, b: bool, f: float, m: 'sum'|'mean', g: shape[*N, D]"
        " -> y: f32[*N, k], n: int scratch w: f32[C+1]",
        record_and_fill);
    float x[12] = {0};
    wick_value args[] = {F32(x, 2, 2, 3),
                         wick_int(4),
                         wick_str("text"),
                         wick_bool(true),
                         wick_float(2.5),
                         wick_str("mean"),
                         shape_value(3, SIZES(2, 2, 7))};
    wick_value results[2] = {0};
    cr_assert_call(op, args, results);
    cr_assert_eq(seen[0].p, x);
    cr_assert_eq(seen[1].i, 4);
    cr_assert_str_eq(seen[2].s, "text");
    cr_assert_eq(seen[3].b, true);
    cr_assert_eq(seen[4].f, 2.5);
    cr_assert_eq(seen[5].i, 1, "the second choice");
    cr_assert_eq(seen[6].p, results[0].as.tensor.data);
    cr_assert_eq(seen[7].p, &results[1].as);
    cr_assert_eq((uintptr_t)seen[8].p % 64, 0, "scratch is aligned for any vector");
    cr_assert_eq(seen[9].i, 4, "the product of *N");
    cr_assert_eq(seen[10].i, 3);
    cr_assert_eq(seen[11].i, 7);

    const wick_tensor *y = &results[0].as.tensor;
    cr_assert(y->dim == 3 && y->size[0] == 2 && y->size[1] == 2 && y->size[2] == 4);
    cr_assert(y->stride[0] == 8 && y->stride[1] == 4 && y->stride[2] == 1);
    cr_assert_eq(y->dtype, WICK_F32);
    cr_assert(results[0].owned);
    cr_assert_eq((uintptr_t)y->data % 64, 0);
    memset(y->data, 0, 16 * sizeof(float));
    cr_assert_eq(results[1].kind, WICK_VALUE_INT);
    wick_value_free(&results[0]);
    cr_assert_eq(results[0].kind, WICK_VALUE_NONE);
}

Test(call, a_dim_that_an_argument_gives_is_passed_once)
{
    wick_op *op = define_op("given", "k: int, x: f32[k, C] -> y: f32[C]", record_slots);
    float x[6] = {0};
    wick_value args[] = {wick_int(2), F32(x, 2, 3)}, results[1] = {0};
    cr_assert_call(op, args, results);
    cr_assert(seen[0].i == 2 && seen[1].p == x && seen[3].i == 3);
    wick_value_free(&results[0]);
    args[0] = wick_int(3);
    cr_assert_refused(op, args, results, WICK_EINVAL, "given: x.shape[0] is 2, but k is 3");
}

Test(call, absent_optionals_are_null_and_unwanted_results_stay_absent)
{
    wick_op *op = define_op(
        "maybe", "x: f32[N], w?: f32[N], v?: strided f32[N] -> y: f32[N], z?: f32[N], q?: f32[N]",
        record_view_2);
    float x[2] = {1, 2};
    wick_value args[] = {F32(x, 2), NO_VALUE, NO_VALUE};
    wick_value results[3] = {{0}, {.unwanted = true}, {0}};
    seen[1].p = seen[2].p = seen[4].p = anywhere;
    cr_assert_call(op, args, results);
    cr_assert_null(seen[1].p);
    cr_assert_null(seen[2].p);
    cr_assert_not_null(seen[3].p);
    cr_assert_null(seen[4].p);
    cr_assert_not_null(seen[5].p);
    cr_assert_eq(seen[6].i, 2);
    cr_assert_eq(results[1].kind, WICK_VALUE_NONE);
    cr_assert_eq(results[2].kind, WICK_VALUE_TENSOR);
    wick_value_free(&results[0]);
    wick_value_free(&results[1]);
    wick_value_free(&results[2]);

    wick_value given[] = {F32(x, 2), F32(x, 2), F32(x, 2)};
    cr_assert_call(op, given, results);
    cr_assert_eq(seen[1].p, x);
    cr_assert_eq(seen_view.data, x);
    for (int i = 0; i < 3; i++)
        wick_value_free(&results[i]);
}

Test(call, a_dim_of_an_absent_optional_is_zero)
{
    wick_op *op = define_op("vacant", "x: f32[N], w?: f32[M] -> y: f32[N]", record_slots);
    float x[2] = {1, 2};
    wick_value args[] = {F32(x, 2), NO_VALUE}, results[1] = {0};
    cr_assert_call(op, args, results);
    cr_assert_eq(seen[3].i, 2);
    cr_assert_eq(seen[4].i, 0);
    wick_value_free(&results[0]);
}

/* x[i] += 1 */
static wick_status add_one(wick_ctx *ctx, const wick_slot *slot)
{
    float *x = slot[0].p;
    (void)ctx;
    for (int64_t i = 0; i < slot[1].i; i++)
        x[i] += 1;
    seen[0] = slot[0];
    return WICK_OK;
}

Test(call, in_place_on_a_contiguous_tensor_works_where_it_lies)
{
    wick_op *op = define_op("bump", "x!: f32[*N] -> ()", add_one);
    float x[4] = {1, 2, 3, 4};
    wick_value args[] = {F32(x, 2, 2)};
    cr_assert_eq(call(op, args, 1, NULL, 0), WICK_OK);
    cr_assert_eq(seen[0].p, x);
    cr_assert(x[0] == 2 && x[3] == 5);
}

Test(call, in_place_on_a_transposed_or_sliced_tensor_is_copied_and_copied_back)
{
    wick_op *op = define_op("bump", "x!: f32[*N] -> ()", add_one);
    float x[6] = {0, 1, 2, 3, 4, 5};
    long live = wick_memory_live();
    wick_value transposed[] = {with_stride(F32(x, 3, 2), SIZES(1, 3))};
    cr_assert_eq(call(op, transposed, 1, NULL, 0), WICK_OK);
    cr_assert_neq(seen[0].p, x);
    for (int i = 0; i < 6; i++)
        cr_assert_eq(x[i], (float)i + 1);
    wick_value every_other[] = {with_stride(F32(x, 3), SIZES(2))};
    cr_assert_eq(call(op, every_other, 1, NULL, 0), WICK_OK);
    cr_assert(x[0] == 2 && x[1] == 2 && x[2] == 4 && x[3] == 4 && x[4] == 6 && x[5] == 6);
    cr_assert_eq(wick_memory_live(), live);
}

Test(call, in_place_twice_on_the_same_tensor_is_allowed)
{
    wick_op *op = define_op("both", "x!: f32[N], y: f32[N] -> ()", record_slots);
    float x[3] = {0};
    wick_value args[] = {F32(x, 3), F32(x, 3)};
    cr_assert_eq(call(op, args, 2, NULL, 0), WICK_OK, "%s", wick_ctx_message(&test_ctx));
    cr_assert(seen[0].p == x && seen[1].p == x);
}

/* y[i] = x[i], N numbers */
static wick_status copy_f32(wick_ctx *ctx, const wick_slot *slot)
{
    (void)ctx;
    memcpy(slot[1].p, slot[0].p, (size_t)slot[2].i * sizeof(float));
    return WICK_OK;
}

Test(call, other_inputs_arrive_contiguous_whatever_their_strides)
{
    wick_op *op = define_op("dup", "x: f32[*N] -> y: f32[*N]", copy_f32);
    float x[6] = {0, 1, 2, 3, 4, 5};
    static const float transposed[6] = {0, 3, 1, 4, 2, 5}, expanded[6] = {0, 0, 0, 1, 1, 1},
                       backward[3] = {5, 4, 3};
    static const struct {
        int64_t size[2], stride[2];
        int from;
        const float *expected;
        int n;
    } cases[] = {{{3, 2}, {1, 3}, 0, transposed, 6},
                 {{2, 3}, {1, 0}, 0, expanded, 6},
                 {{3, 1}, {-1, 9}, 5, backward, 3}};
    for (int i = 0; i < WICK_COUNT(cases); i++) {
        wick_value args[] = {with_stride(
            wick_tensor_of(x + cases[i].from, WICK_F32, 2, cases[i].size), cases[i].stride)};
        wick_value results[1] = {0};
        cr_assert_call(op, args, results);
        cr_assert_arr_eq(results[0].as.tensor.data, cases[i].expected,
                         (size_t)cases[i].n * sizeof(float), "case %d", i);
        wick_value_free(&results[0]);
    }
}

/* Sums a strided matrix; remembers the view. */
static wick_status sum_strided(wick_ctx *ctx, const wick_slot *slot)
{
    const wick_view *v = slot[0].p;
    float *y = slot[1].p;
    (void)ctx;
    seen_view = *v;
    *y = 0;
    for (int64_t i = 0; i < v->size[0]; i++)
        for (int64_t j = 0; j < v->size[1]; j++)
            *y += ((const float *)v->data)[i * v->stride[0] + j * v->stride[1]] * (float)(i + 1);
    return WICK_OK;
}

Test(call, strided_inputs_come_as_they_are)
{
    wick_op *op = define_op("walk", "x: strided f32[N, M] -> y: f32[]", sum_strided);
    float x[6] = {0, 1, 2, 3, 4, 5};
    wick_value args[] = {with_stride(F32(x, 3, 2), SIZES(1, 3))}, results[1] = {0};
    cr_assert_call(op, args, results);
    cr_assert_eq(seen_view.data, x);
    cr_assert_eq(seen_view.dim, 2);
    cr_assert_eq(*(float *)results[0].as.tensor.data, (0 + 3) + 2 * (1 + 4) + 3 * (2 + 5));
    cr_assert_eq(results[0].as.tensor.dim, 0);
    wick_value_free(&results[0]);

    args[0] = F32(x, 2, 3); /* without strides: those of a contiguous tensor */
    cr_assert_call(op, args, results);
    cr_assert_eq(*(float *)results[0].as.tensor.data, 3 + 2 * 12);
    wick_value_free(&results[0]);
}

Test(call, leading_dims_may_be_none_or_many)
{
    wick_op *op = define_op("lead", "x: f32[*N, C] -> y: f32[*N]", record_slots);
    float x[24] = {0};
    wick_value results[1] = {0};
    wick_value one[] = {F32(x, 3)}, four[] = {F32(x, 1, 2, 3, 4)};
    cr_assert_call(op, one, results);
    cr_assert(seen[2].i == 1 && seen[3].i == 3 && results[0].as.tensor.dim == 0);
    wick_value_free(&results[0]);
    cr_assert_call(op, four, results);
    cr_assert(seen[2].i == 6 && seen[3].i == 4 && results[0].as.tensor.dim == 3);
    wick_value_free(&results[0]);
}

Test(call, empty_tensors_are_present)
{
    wick_op *op = define_op(
        "none",
        "x: f32[N, C], v: strided f32[N], z!: f32[N] -> y: f32[N], u: f32[C] scratch w: f32[N]",
        record_view_1);
    wick_value args[] = {F32(NULL, 0, 3), F32(NULL, 0), F32(NULL, 0)}, results[2] = {0};
    cr_assert_call(op, args, results);
    for (int i = 0; i < 6; i++)
        cr_assert_not_null(seen[i].p, "slot %d", i);
    cr_assert_not_null(seen_view.data);
    cr_assert(seen[6].i == 0 && seen[7].i == 3);
    cr_assert_eq(results[0].as.tensor.size[0], 0);
    wick_value_free(&results[0]);
    wick_value_free(&results[1]);
}

static wick_status in_f32(wick_ctx *ctx, const wick_slot *slot)
{
    return record_slots(ctx, slot), n_calls = 32, WICK_OK;
}
static wick_status in_f64(wick_ctx *ctx, const wick_slot *slot)
{
    return record_slots(ctx, slot), n_calls = 64, WICK_OK;
}
static wick_status in_i8(wick_ctx *ctx, const wick_slot *slot)
{
    return record_slots(ctx, slot), n_calls = 8, WICK_OK;
}

Test(call, the_variant_is_chosen_by_all_type_variables)
{
    static const test_variant variants[] = {{{WICK_F32, WICK_I32}, in_f32, NULL},
                                            {{WICK_F64, WICK_I32}, in_f64, NULL},
                                            {{WICK_F64, WICK_I64}, in_i8, NULL}};
    wick_op *op = define_variants(
        "pair", "x: T[N], i: U[M] -> y: T[M] where T: f32 f64, U: i32 i64", variants, 3);
    double x[2] = {0};
    int64_t i[3] = {0};
    static const struct {
        wick_dtype t, u;
        int ran;
    } cases[] = {{WICK_F32, WICK_I32, 32}, {WICK_F64, WICK_I32, 64}, {WICK_F64, WICK_I64, 8}};
    for (int c = 0; c < WICK_COUNT(cases); c++) {
        wick_value args[] = {TENSOR(x, cases[c].t, 2), TENSOR(i, cases[c].u, 3)}, results[1] = {0};
        cr_assert_call(op, args, results);
        cr_assert_eq(n_calls, cases[c].ran);
        cr_assert_eq(results[0].as.tensor.dtype, (int32_t)cases[c].t);
        wick_value_free(&results[0]);
    }
    wick_value args[] = {TENSOR(x, WICK_F32, 2), TENSOR(i, WICK_I64, 3)}, results[1] = {0};
    cr_assert_refused(op, args, results, WICK_ENOTSUP,
                      "pair: the module holds no code for these types on this CPU");
}

Test(call, a_is_what_t_is_summed_in)
{
    static const struct {
        wick_dtype t, a;
    } cases[] = {{WICK_F16, WICK_F32}, {WICK_BF16, WICK_F32}, {WICK_F32, WICK_F32},
                 {WICK_F64, WICK_F64}, {WICK_I8, WICK_I64},   {WICK_U8, WICK_I64},
                 {WICK_BOOL, WICK_I64}};
    wick_op *op = define_op(
        "sums", "x: T[N], a: A[N] -> y: A[] where T: f16 bf16 f32 f64 i8 u8 bool", record_slots);
    double x[2] = {0};
    for (int c = 0; c < WICK_COUNT(cases); c++) {
        wick_value args[] = {TENSOR(x, cases[c].t, 2), TENSOR(x, cases[c].a, 2)}, results[1] = {0};
        cr_assert_call(op, args, results);
        cr_assert_eq(results[0].as.tensor.dtype, (int32_t)cases[c].a);
        wick_value_free(&results[0]);
    }
}

Test(call, without_tensors_the_call_runs_on_the_cpu)
{
    wick_op *op = define_op("fill", "k: int, v: float -> y: f32[k]", record_slots);
    wick_value args[] = {wick_bool(true), wick_int(3)},
               results[1] = {0}; /* a bool is an int, an int a float */
    cr_assert_call(op, args, results);
    cr_assert_eq(seen[0].i, 1);
    cr_assert_eq(seen[1].f, 3.0);
    cr_assert_eq(results[0].as.tensor.size[0], 1);
    wick_value_free(&results[0]);
    args[1] = wick_bool(true);
    cr_assert_call(op, args, results);
    cr_assert_eq(seen[1].f, 1.0);
    wick_value_free(&results[0]);
}

static wick_status count_words(wick_ctx *ctx, const wick_slot *slot)
{
    (void)ctx;
    *(int64_t *)slot[1].p = slot[0].i + 1;
    *(double *)slot[2].p = 0.5;
    *(bool *)slot[3].p = true;
    return WICK_OK;
}

Test(call, plain_numbers_come_back_by_value)
{
    wick_op *op = define_op("count", "a: int -> b: int, c: float, d: bool", count_words);
    wick_value args[] = {wick_int(-3)}, results[3] = {0};
    cr_assert_call(op, args, results);
    cr_assert(results[0].kind == WICK_VALUE_INT && results[0].as.i == -2);
    cr_assert(results[1].kind == WICK_VALUE_FLOAT && results[1].as.f == 0.5);
    cr_assert(results[2].kind == WICK_VALUE_BOOL && results[2].as.b);
    cr_assert(!results[0].owned && !results[1].owned && !results[2].owned);
}
