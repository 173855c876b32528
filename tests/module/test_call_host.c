/* test_call_host.c -- what a call asks of its host: tensors on other devices, copies, versions, and
 * hosts that fail */
#include "world.h"

#include <string.h>

static float data[16];

Test(host, devices_must_agree)
{
    wick_op *op = define_op("add", "x: f32[N], y: f32[N] -> z: f32[N]", record_slots);
    wick_value cpu = on(F32(data, 2), WICK_CPU, 0), cuda0 = on(F32(data, 2), WICK_CUDA, 0);
    wick_value cuda1 = on(F32(data, 2), WICK_CUDA, 1), meta = on(F32(NULL, 2), WICK_META, 0);
    wick_value other = on(F32(data, 2), WICK_OTHER, 0), results[1] = {0};
    wick_value a[] = {cpu, cuda0}, b[] = {cuda0, cuda1}, c[] = {cuda1, cpu}, d[] = {cpu, meta},
               e[] = {other, cpu};
    wick_value f[] = {cpu, other}, g[] = {cuda0, cuda0};
    cr_assert_invoke_refused(op, a, results, WICK_EINVAL, "add: y is on cuda:0, but x is on cpu");
    cr_assert_invoke_refused(op, b, results, WICK_EINVAL,
                             "add: y is on cuda:1, but x is on cuda:0");
    cr_assert_invoke_refused(op, c, results, WICK_EINVAL, "add: y is on cpu, but x is on cuda:1");
    cr_assert_invoke_refused(op, d, results, WICK_EINVAL, "add: y is on meta, but x is on cpu");
    cr_assert_invoke_refused(
        op, e, results, WICK_ENOTSUP,
        "add: x is on a device that Wick has no operators for, expected cpu or cuda");
    cr_assert_invoke_refused(op, f, results, WICK_EINVAL,
                             "add: y is on another kind of device, but x is on cpu");
    cr_assert_invoke_refused(op, g, results, WICK_ENOTSUP,
                             "add: x is on cuda, but the operator has only a CPU version");
}

Test(host, a_tensor_whose_storage_was_freed_is_refused)
{
    wick_op *op = define_op("read", "x: f32[N] -> y: f32[N]", record_slots);
    wick_value freed[] = {on(F32(NULL, 2), WICK_CPU, 0)}, results[1] = {0};
    wick_value args[] = {on(F32(data, 2), WICK_CPU, 0)}, given[] = {on(F32(NULL, 2), WICK_CPU, 0)};
    cr_assert_invoke_refused(
        op, freed, results, WICK_EINVAL,
        "read: x has no memory (its storage was freed), expected a tensor with data");
    cr_assert_invoke_refused(
        op, args, given, WICK_EINVAL,
        "read: out has no memory (its storage was freed), expected a tensor with data");
    cr_assert_eq(n_calls, 0);
}

Test(host, an_operator_without_a_cpu_version_says_so)
{
    static const test_variant none = {{WICK_NONE}, NULL, NULL};
    wick_op *op = define_variants("gpu", "x?: f32[N] -> y: f32[]", &none, 1);
    wick_value with[] = {on(F32(data, 2), WICK_CPU, 0)}, without[] = {NO_VALUE}, results[1] = {0};
    cr_assert_invoke_refused(op, with, results, WICK_ENOTSUP,
                             "gpu: x is on cpu, but the operator has only a CUDA version");
    cr_assert_invoke_refused(op, without, results, WICK_ENOTSUP,
                             "gpu: the call is on cpu, but the operator has only a CUDA version");
}

Test(host, a_type_it_does_not_know_is_in_the_hosts_words)
{
    wick_op *op = define_op("neg", "x: T[N] -> y: T[N] where T: f32 f64", record_slots);
    wick_value args[] = {on(TENSOR(data, WICK_NONE, 2), WICK_CPU, 0)}, results[1] = {0};
    cr_assert_invoke_refused(op, args, results, WICK_EINVAL,
                             "neg: x is complex64, expected f32 or f64");
}

Test(host, meta_tensors_get_shapes_and_nothing_runs)
{
    wick_op *op = define_op(
        "shape", "x: T[N, C], w!: T[C] -> y: A[C, N], m?: T[N] scratch s: f32[N] where T: f16 f32",
        record_slots);
    wick_value args[] = {on(TENSOR(NULL, WICK_F16, 2, 3), WICK_META, 0),
                         on(TENSOR(NULL, WICK_F16, 3), WICK_META, 0)};
    wick_value results[2] = {{0}, {.unwanted = true}};
    cr_assert_eq(invoke(op, args, results), WICK_OK, "%s", wick_ctx_message(&test_ctx));
    cr_assert_eq(n_calls, 0);
    cr_assert(results[0].as.tensor.size[0] == 3 && results[0].as.tensor.size[1] == 2);
    cr_assert_eq(results[0].as.tensor.dtype, WICK_F32);
    cr_assert_eq(results[0].as.tensor.device_type, WICK_META);
    cr_assert_eq(results[1].kind, WICK_VALUE_NONE);
    cr_assert_eq(world.live, 1);
    world_host.release(&results[0].as.tensor);

    wick_op *number = define_op("number", "x: f32[N] -> y: f32[N], n: int", record_slots);
    wick_value meta[] = {on(F32(NULL, 2), WICK_META, 0)}, two[2] = {0};
    cr_assert_invoke_refused(number, meta, two, WICK_ENOTSUP,
                             "number: x is on meta, but the operator returns a plain number (n)");
}

Test(host, what_is_written_is_told_once)
{
    wick_op *op = define_op("bump", "x!: f32[N], y: f32[N] -> z: f32[N]", record_slots);
    wick_value args[] = {on(F32(data, 2), WICK_CPU, 0), on(F32(data + 4, 2), WICK_CPU, 0)},
               results[1] = {0};
    cr_assert_eq(invoke(op, args, results), WICK_OK);
    cr_assert_eq(world.n_written, 1, "a new result has no past");
    cr_assert_eq(world.written_tensor.data, data);
    world_host.release(&results[0].as.tensor);

    wick_value given[] = {on(F32(data + 8, 2), WICK_CPU, 0)};
    cr_assert_eq(invoke(op, args, given), WICK_OK);
    cr_assert_eq(world.n_written, 3, "a given one has");
    cr_assert_eq(world.written_tensor.data, data + 8);

    args[0] = on(with_stride(F32(data, 2), SIZES(2)), WICK_CPU, 0);
    cr_assert_eq(invoke(op, args, given), WICK_OK);
    cr_assert_eq(world.n_written, 5);
    cr_assert_eq(world.n_copied, 2, "there and back");
    cr_assert_eq(world.live, 0);
}

static wick_status refuse(wick_ctx *ctx, const wick_slot *slot)
{
    (void)slot;
    return wick_fail(ctx, WICK_EINVAL, "no");
}

Test(host, a_failed_operator_writes_nothing)
{
    wick_op *op = define_op("bad", "x!: f32[N] -> z: f32[N]", refuse);
    wick_value args[] = {on(with_stride(F32(data, 2), SIZES(2)), WICK_CPU, 0)}, results[1] = {0};
    cr_assert_invoke_refused(op, args, results, WICK_EINVAL, "bad: no");
    cr_assert_eq(world.n_written, 0);
    cr_assert_eq(world.n_copied, 1);
}

Test(host, a_result_on_another_device_is_refused)
{
    wick_op *op = define_op("copy", "x: f32[N] -> y: f32[N]", record_slots);
    wick_value args[] = {on(F32(data, 2), WICK_CPU, 0)},
               results[] = {on(F32(data + 4, 2), WICK_CUDA, 0)};
    cr_assert_invoke_refused(op, args, results, WICK_EINVAL,
                             "copy: out for y is on cuda:0, but x is on cpu");
    wick_op *fill = define_op("fill", "k: int -> y: f32[k]", record_slots);
    wick_value k[] = {wick_int(2)};
    cr_assert_invoke_refused(fill, k, results, WICK_EINVAL,
                             "fill: out for y is on cuda:0, but the call is on cpu");
}

Test(host, whatever_the_host_refuses_nothing_is_left)
{
    wick_op *op = define_op(
        "all", "x: f32[N], w!: f32[N] -> y: f32[N], z: f32[N] scratch s: f32[N]", record_slots);
    float x[8] = {0}, w[8] = {0};
    int n = 0;
    wick_status s = WICK_ENOMEM;
    while (s != WICK_OK) {
        wick_value args[] = {on(with_stride(F32(x, 2), SIZES(2)), WICK_CPU, 0),
                             on(with_stride(F32(w, 2), SIZES(2)), WICK_CPU, 0)};
        wick_value results[] = {on(with_stride(F32(data, 2), SIZES(2)), WICK_CPU, 0), {0}};
        world.fail_at = ++n;
        cr_assert_lt(n, 30);
        s = invoke(op, args, results);
        world.fail_at = 0;
        if (s == WICK_OK) {
            world_host.release(&results[1].as.tensor);
        } else {
            cr_assert_eq(strncmp(wick_ctx_message(&test_ctx), "all: the host ", 14), 0, "%s",
                         wick_ctx_message(&test_ctx));
            cr_assert_eq(results[1].kind, WICK_VALUE_NONE);
        }
        cr_assert_eq(world.live, 0, "refusal %d", n);
    }
    cr_assert_eq(n - 1, 10, "4 new, 4 copied, 2 written");
}
