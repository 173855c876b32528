/* test_call_errors.c -- what a caller did wrong, in words: operator, argument, what it got, what it
 * wanted */
#include "support.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

static float data[64];

typedef struct refusal {
    wick_value args[3];
    const char *message;
} refusal;

/* Every refusal leaves nothing and does not run the operator. */
static void check(wick_op *op, int n_args, int n_results, const refusal *cases, int n)
{
    wick_value results[4] = {0};
    for (int i = 0; i < n; i++) {
        wick_ctx_clear(&test_ctx);
        long live = wick_memory_live();
        n_calls = 0;
        cr_assert_eq(call(op, cases[i].args, n_args, results, n_results), WICK_EINVAL, "case %d",
                     i);
        cr_assert_str_eq(wick_ctx_message(&test_ctx), cases[i].message);
        cr_assert_eq(n_calls, 0);
        wick_ctx_clear(&test_ctx);
        cr_assert_eq(wick_memory_live(), live, "case %d", i);
        for (int r = 0; r < n_results; r++)
            cr_assert_eq(results[r].kind, WICK_VALUE_NONE);
    }
}

Test(errors, tensors)
{
    wick_op *op =
        define_op("bias", "x: T[*N, C], b: T[C], w?: f32[C] -> y: T[*N, C] where T: f16 f32 f64",
                  record_slots);
    const refusal cases[] = {
        {{F32(data, 2, 3), F32(data, 4)}, "bias: b.shape[0] is 4, but C is 3"},
        {{wick_tensor_of(data, WICK_F32, 0, NULL), F32(data, 4)},
         "bias: x has 0 dimensions ([]), expected 1 or more: T[*N, C]"},
        {{F32(data, 3), F32(data, 1, 3)}, "bias: b has 2 dimensions ([1, 3]), expected 1: T[C]"},
        {{TENSOR(data, WICK_I32, 3), F32(data, 3)}, "bias: x is i32, expected f16, f32 or f64"},
        {{TENSOR(data, WICK_NONE, 3), F32(data, 3)}, "bias: x is none, expected f16, f32 or f64"},
        {{F32(data, 3), TENSOR(data, WICK_F64, 3)}, "bias: b is f64, but T is f32 (as x is)"},
        {{F32(data, 3), F32(data, 3), TENSOR(data, WICK_F16, 3)}, "bias: w is f16, expected f32"},
        {{NO_VALUE, F32(data, 3)}, "bias: x is missing, expected a tensor"},
        {{wick_int(3), F32(data, 3)}, "bias: x is missing, expected a tensor"},
        {{F32(data, 3), F32(data, 3), wick_int(1)}, "bias: w is missing, expected a tensor"},
        {{F32(NULL, 3), F32(data, 3)}, "bias: x has no data"},
        {{F32(data, 2, -3), F32(data, 3)}, "bias: x.shape[1] is negative"},
        {{wick_tensor_of(data, WICK_F32, -1, NULL), F32(data, 3)}, "bias: x has no usable shape"},
        {{wick_tensor_of(data, WICK_F32, 65, SIZES(1)), F32(data, 3)},
         "bias: x has no usable shape"},
        {{wick_tensor_of(data, WICK_F32, 1, NULL), F32(data, 3)}, "bias: x has no usable shape"},
    };
    check(op, 3, 1, cases, WICK_COUNT(cases));
}

Test(errors, sums)
{
    wick_op *op = define_op("acc", "x: T[N], a: A[N] -> y: A[] where T: f16 i8", record_slots);
    const refusal cases[] = {
        {{TENSOR(data, WICK_F16, 3), TENSOR(data, WICK_F64, 3)},
         "acc: a is f64, expected f32 (what T, f16 here, is summed in)"},
        {{TENSOR(data, WICK_I8, 3), TENSOR(data, WICK_F32, 3)},
         "acc: a is f32, expected i64 (what T, i8 here, is summed in)"},
    };
    check(op, 2, 1, cases, WICK_COUNT(cases));
}

Test(errors, scalars)
{
    wick_op *ints = define_op("ints", "i: int -> y: f32[i]", record_slots);
    wick_op *floats = define_op("floats", "f: float -> y: f32[]", record_slots);
    wick_op *bools = define_op("bools", "b: bool -> y: f32[]", record_slots);
    wick_op *texts = define_op("texts", "s: str -> y: f32[]", record_slots);
    wick_op *modes = define_op("modes", "m: 'sum'|'mean'|'max' -> y: f32[]", record_slots);
    wick_op *shapes = define_op("shapes", "s: shape[N] -> y: f32[N]", record_slots);
    const refusal int_cases[] = {{{wick_float(1.5)}, "ints: i is a float, expected an int"},
                                 {{wick_str("1")}, "ints: i is a str, expected an int"},
                                 {{NO_VALUE}, "ints: i is absent, expected an int"},
                                 {{F32(data, 1)}, "ints: i is a tensor, expected an int"},
                                 {{wick_int(-2)}, "ints: i is -2, but a size cannot be negative"}};
    const refusal float_cases[] = {
        {{wick_str("1")}, "floats: f is a str, expected a float"},
        {{shape_value(0, NULL)}, "floats: f is a shape, expected a float"}};
    const refusal bool_cases[] = {{{wick_int(1)}, "bools: b is an int, expected a bool"}};
    const refusal text_cases[] = {{{wick_bool(true)}, "texts: s is a bool, expected a str"}};
    const refusal mode_cases[] = {
        {{wick_str("min")}, "modes: m is 'min', expected 'sum', 'mean' or 'max'"},
        {{wick_str("")}, "modes: m is '', expected 'sum', 'mean' or 'max'"},
        {{wick_int(0)}, "modes: m is an int, expected a str"}};
    const refusal shape_cases[] = {
        {{wick_int(3)}, "shapes: s is missing, expected a shape"},
        {{shape_value(1, SIZES(-1))}, "shapes: s[0] is -1, but a size cannot be negative"}};
    check(ints, 1, 1, int_cases, WICK_COUNT(int_cases));
    check(floats, 1, 1, float_cases, WICK_COUNT(float_cases));
    check(bools, 1, 1, bool_cases, WICK_COUNT(bool_cases));
    check(texts, 1, 1, text_cases, WICK_COUNT(text_cases));
    check(modes, 1, 1, mode_cases, WICK_COUNT(mode_cases));
    check(shapes, 1, 1, shape_cases, WICK_COUNT(shape_cases));
}

Test(errors, counts)
{
    wick_op *op = define_op("one", "x: f32[N] -> y: f32[N]", record_slots);
    wick_value args[] = {F32(data, 3), F32(data, 3)}, results[2] = {0};
    cr_assert_eq(call(op, args, 2, results, 1), WICK_EINVAL);
    cr_assert_str_eq(wick_ctx_message(&test_ctx), "one: got 2 arguments, expected 1");
    cr_assert_eq(call(op, args, 0, results, 1), WICK_EINVAL);
    cr_assert_str_eq(wick_ctx_message(&test_ctx), "one: got 0 arguments, expected 1");
    cr_assert_eq(call(op, args, 1, results, 2), WICK_EINVAL);
    cr_assert_str_eq(wick_ctx_message(&test_ctx), "one: got room for 2 results, expected 1");
}

Test(errors, a_program_without_torch_has_cpu_and_cuda)
{
    wick_op *op = define_op("one", "x: f32[N] -> y: f32[N]", record_slots);
    wick_value args[] = {F32(data, 3)}, results[1] = {0};
    args[0].as.tensor.device_type = WICK_META;
    cr_assert_refused(op, args, results, WICK_ENOTSUP,
                      "one: x is neither on the CPU nor on a CUDA device");
}

Test(errors, operators_whose_source_broke_say_so)
{
    wick_op *op = define_op("one", "x: f32[N] -> y: f32[N]", record_slots);
    wick_value args[] = {F32(data, 3)}, results[1] = {0};
    wick_module_break("/another.c", "another.c:1: error");
    cr_assert_call(op, args, results);
    wick_value_free(&results[0]);
    wick_module_break("/one.c", "one.c:3: error: nonsense");
    cr_assert_refused(op, args, results, WICK_ECOMPILE, "one.c:3: error: nonsense");
    define_op("one", "x: f32[N] -> y: f32[N]", record_slots);
    cr_assert_call(op, args, results);
    wick_value_free(&results[0]);
}

Test(errors, results_too_large_for_any_memory)
{
    wick_op *op = define_op("huge", "k: int, m: int -> y: f64[k], z: f64[k, m]", record_slots);
    wick_value results[2] = {0};
    wick_value fits_63_bits[] = {wick_int((int64_t)1 << 61), wick_int(1)};
    wick_value product[] = {wick_int(3), wick_int(INT64_MAX)};
    long live = wick_memory_live();
    cr_assert_refused(op, fits_63_bits, results, WICK_ENOMEM,
                      "huge: out of memory for 18446744073709551615 bytes");
    cr_assert_neq(call(op, product, 2, results, 2), WICK_OK);
    cr_assert_eq(results[0].kind, WICK_VALUE_NONE);
    wick_ctx_clear(&test_ctx);
    cr_assert_eq(wick_memory_live(), live);
}

Test(errors, scratch_too_large_for_any_memory)
{
    wick_op *op = define_op("temp", "k: int -> n: int scratch w: f64[k]", record_slots);
    wick_value args[] = {wick_int((int64_t)1 << 61)}, results[1] = {0};
    cr_assert_refused(op, args, results, WICK_ENOMEM,
                      "temp: out of memory for scratch w (18446744073709551615 bytes)");
    cr_assert_eq(n_calls, 0);
}

/* ---- operators that fail ---- */

static wick_status fails_silently(wick_ctx *ctx, const wick_slot *slot)
{
    (void)ctx, (void)slot;
    return WICK_ENOTSUP;
}

static wick_status fails_in_words(wick_ctx *ctx, const wick_slot *slot)
{
    return wick_fail(ctx, WICK_EINVAL, "k is %lld, which is odd", (long long)slot[0].i);
}

Test(errors, an_operator_that_fails_is_named)
{
    wick_op *silent = define_op("silent", "k: int -> y: f32[k]", fails_silently);
    wick_op *spoken = define_op("spoken", "k: int -> y: f32[k]", fails_in_words);
    wick_value args[] = {wick_int(3)}, results[1] = {0};
    long live = wick_memory_live();
    cr_assert_refused(silent, args, results, WICK_ENOTSUP,
                      "silent: the operator failed with status 2 and no message");
    cr_assert_refused(spoken, args, results, WICK_EINVAL, "spoken: k is 3, which is odd");
    wick_ctx_clear(&test_ctx);
    cr_assert_eq(results[0].kind, WICK_VALUE_NONE);
    cr_assert_eq(wick_memory_live(), live);
}

static wick_status write_and_fail(wick_ctx *ctx, const wick_slot *slot)
{
    ((float *)slot[0].p)[0] = 99;
    return wick_fail(ctx, WICK_EINVAL, "no");
}

Test(errors, a_failed_call_in_place_copies_nothing_back)
{
    wick_op *op = define_op("half", "x!: f32[N, M] -> ()", write_and_fail);
    float x[6] = {0, 1, 2, 3, 4, 5};
    wick_value args[] = {with_stride(F32(x, 3, 2), SIZES(1, 3))};
    cr_assert_eq(call(op, args, 1, NULL, 0), WICK_EINVAL);
    for (int i = 0; i < 6; i++)
        cr_assert_eq(x[i], (float)i);
}

/* ---- from several threads at once ---- */

enum { PIECES = 16 };

static wick_status fail_piece(void *arg, int64_t begin, int64_t end)
{
    (void)end;
    return wick_fail(arg, begin % 2 ? WICK_EINVAL : WICK_ENOTSUP, "piece %lld is bad",
                     (long long)begin);
}

static wick_status fail_in_parallel(wick_ctx *ctx, const wick_slot *slot)
{
    (void)slot;
    return ctx->services->parallel(ctx, PIECES, 1, fail_piece, ctx);
}

Test(errors, of_several_threads_that_fail_one_is_reported)
{
    wick_op *op = define_op("crowd", "x: f32[N] -> y: f32[N]", fail_in_parallel);
    wick_value args[] = {F32(data, 3)}, results[1] = {0};
    wick_set_threads(PIECES);
    for (int i = 0; i < 20; i++) {
        int piece = -1;
        wick_status s = call(op, args, 1, results, 1);
        cr_assert(s == WICK_EINVAL || s == WICK_ENOTSUP);
        cr_assert_eq(sscanf(wick_ctx_message(&test_ctx), "crowd: piece %d is bad", &piece), 1);
        cr_assert(piece >= 0 && piece < PIECES);
    }
}

static wick_op *shared_op;

static void *call_often(void *arg)
{
    wick_ctx ctx;
    wick_ctx_init(&ctx, NULL);
    for (int i = 0; i < 200; i++) {
        wick_value args[] = {F32(data, 3)}, results[1] = {0};
        if (i % 2) args[0].as.tensor.dtype = WICK_I8;
        wick_status s = wick_op_call(&ctx, shared_op, args, 1, results, 1);
        if (s != (i % 2 ? WICK_EINVAL : WICK_OK)) *(bool *)arg = true;
        if (s != WICK_OK && strcmp(wick_ctx_message(&ctx), "many: x is i8, expected f32") != 0)
            *(bool *)arg = true;
        wick_value_free(&results[0]);
    }
    wick_ctx_deinit(&ctx);
    return NULL;
}

static wick_status copy_three(wick_ctx *ctx, const wick_slot *slot)
{
    (void)ctx;
    memcpy(slot[1].p, slot[0].p, 3 * sizeof(float));
    return WICK_OK;
}

Test(errors, threads_with_contexts_of_their_own_do_not_meet)
{
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    bool wrong[THREADS] = {0};
    shared_op = define_op("many", "x: f32[N] -> y: f32[N]", copy_three);
    long live = wick_memory_live();
    for (int i = 0; i < THREADS; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, call_often, &wrong[i]), 0);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        cr_assert(!wrong[i]);
    }
    cr_assert_eq(wick_memory_live(), live);
}
