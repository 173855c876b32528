/* test_infer.c -- what a call would return, and what it would say */
#include "support.h"

static wick_status never(wick_ctx *ctx, const wick_slot *slot)
{
    (void)slot;
    return wick_fail(ctx, WICK_EINVAL, "it was run");
}

static const char *word(const wick_tensor *tensor) { return tensor->handle; }
static const wick_host host = {.dtype_name = word};

static wick_value described(wick_dtype dtype, int dim, const int64_t *size)
{
    wick_value v = wick_tensor_of(NULL, dtype, dim, size);
    v.as.tensor.handle = "of a strange type";
    return v;
}

static int device_of;

static wick_status infer(const char *signature, const wick_value *args, bool sizes,
                         wick_inferred *out)
{
    wick_op *op = define_op("f", signature, never);
    wick_ctx_clear(&test_ctx);
    return wick_op_infer(&test_ctx, op, wick_op_current(op), &host, args, sizes, out, &device_of);
}

Test(infer, shapes_and_types_follow_from_descriptions)
{
    wick_inferred out[2];
    wick_value args[] = {described(WICK_F16, 3, SIZES(2, 5, 7)), wick_int(4)};
    cr_assert_eq(infer("x: T[*N, S], k: int -> y: T[*N, S+1], z: A[k, 2*S] where T: f16 f32", args,
                       true, out),
                 WICK_OK, "%s", wick_ctx_message(&test_ctx));
    cr_assert_eq(out[0].dtype, WICK_F16);
    cr_assert_eq(out[0].dim, 3);
    cr_assert_eq(out[0].size[2], 8);
    cr_assert_eq(out[1].dtype, WICK_F32);
    cr_assert_eq(out[1].size[0], 4);
    cr_assert_eq(out[1].size[1], 14);
    cr_assert_eq(device_of, 0);
}

Test(infer, the_device_is_that_of_what_is_no_number)
{
    wick_inferred out[1];
    wick_value args[] = {described(WICK_F32, 0, NULL), described(WICK_F32, 1, SIZES(3))};
    const char *signature = "a: f32[], b: f32[N] -> y: f32[N]";
    args[1].as.tensor.device_type = WICK_CUDA;
    cr_assert_eq(infer(signature, args, true, out), WICK_OK);
    cr_assert_eq(device_of, 1);
    args[0] = wick_int(3);
    cr_assert_eq(infer("k: int -> y: f32[k]", args, true, out), WICK_OK);
    cr_assert_eq(device_of, -1);
}

Test(infer, a_plain_number_has_no_type)
{
    wick_inferred out[1];
    wick_value args[] = {described(WICK_F32, 1, SIZES(3))};
    cr_assert_eq(infer("x: f32[N] -> n: int", args, true, out), WICK_OK);
    cr_assert_eq(out[0].dtype, WICK_NONE);
}

Test(infer, the_words_are_those_of_a_call)
{
    wick_inferred out[1];
    wick_value args[] = {described(WICK_F32, 1, SIZES(3)), described(WICK_F32, 1, SIZES(4))};
    const char *signature = "a: T[N], b: T[N] -> y: T[N] where T: f32 f64";
    cr_assert_eq(infer(signature, args, true, out), WICK_EINVAL);
    cr_assert_str_eq(wick_ctx_message(&test_ctx), "f: b.shape[0] is 4, but N is 3");
    args[1] = described(WICK_NONE, 1, SIZES(3));
    cr_assert_eq(infer(signature, args, true, out), WICK_EINVAL);
    cr_assert_str_eq(wick_ctx_message(&test_ctx),
                     "f: b is of a strange type, but T is f32 (as a is)");
    args[1] = described(WICK_F32, 1, SIZES(3));
    args[1].as.tensor.device_type = WICK_CUDA;
    cr_assert_eq(infer(signature, args, true, out), WICK_EINVAL);
    cr_assert_str_eq(wick_ctx_message(&test_ctx), "f: b is on cuda:0, but a is on cpu");
}

Test(infer, sizes_that_nobody_knows_are_not_looked_at)
{
    wick_inferred out[1];
    wick_value args[] = {described(WICK_F64, 1, SIZES(3)), described(WICK_F64, 2, SIZES(4, 4))};
    const char *signature = "a: T[N], b: T[N] -> y: T[N] where T: f32 f64";
    cr_assert_eq(infer(signature, args, false, out), WICK_OK);
    cr_assert_eq(out[0].dtype, WICK_F64);
    args[1] = described(WICK_F32, 1, SIZES(3));
    cr_assert_eq(infer(signature, args, false, out), WICK_EINVAL);
    cr_assert_str_eq(wick_ctx_message(&test_ctx), "f: b is f32, but T is f64 (as a is)");
}
