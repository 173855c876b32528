/* test_call_cuda.c -- calls on a GPU: which function runs, on which stream, and where memory is
 * made
 *
 * The host's tensors are in the CPU's memory whatever device they say they are on, so what stands
 * for a CUDA function here can read and write them.
 */
#include "world.h"

static struct {
    int n_cpu, n_cuda;
    void *stream;
    int32_t device;
} ran;

static wick_status on_cpu(wick_ctx *ctx, const wick_slot *slot)
{
    (void)ctx, (void)slot;
    ran.n_cpu++;
    return WICK_OK;
}

/* x, y -> z: z = x + y over the first of the dims. */
static wick_status on_cuda(wick_ctx *ctx, const wick_slot *slot)
{
    const float *x = slot[0].p, *y = slot[1].p;
    ran.n_cuda++;
    ran.stream = ctx->stream;
    ran.device = ctx->device;
    if (x[0] == 99) return wick_fail(ctx, WICK_ECUDA, "the driver said no");
    for (int64_t i = 0; i < slot[3].i; i++)
        ((float *)slot[2].p)[i] = x[i] + y[i];
    return WICK_OK;
}

/* The two forms: all tensors of one shape, and any other. */
static const char *const signatures[] = {"x: f32[*N], y: f32[*N] -> z: f32[*N]",
                                         "x: f32[N], y: f32[N] -> z: f32[N]"};
enum { N_FORMS = 2 };

static float a[] = {1, 2, 3, 4}, b[] = {10, 20, 30, 40};

static void cr_assert_ran_on(int device)
{
    cr_assert_eq(ran.n_cuda, 1);
    cr_assert_eq(ran.n_cpu, 0);
    cr_assert_eq(ran.stream, stream_of(device));
    cr_assert_eq(ran.device, device);
    cr_assert_null(test_ctx.stream, "the context is as it was");
    cr_assert_eq(test_ctx.device, -1);
    ran.n_cuda = 0;
}

Test(cuda, the_cuda_function_runs_on_the_hosts_stream)
{
    for (int form = 0; form < N_FORMS; form++) {
        wick_op *op = define_on("add", signatures[form], on_cpu, on_cuda);
        for (int device = 0; device < 2; device++) {
            wick_value args[] = {on(F32(a, 4), WICK_CUDA, device),
                                 on(F32(b, 4), WICK_CUDA, device)},
                       results[1] = {0};
            cr_assert_eq(invoke(op, args, results), WICK_OK, "%s", wick_ctx_message(&test_ctx));
            cr_assert_ran_on(device);
            const wick_tensor *z = &results[0].as.tensor;
            cr_assert(z->device_type == WICK_CUDA && z->device_index == device);
            cr_assert_eq(((float *)z->data)[3], 44);
            world_host.release(&results[0].as.tensor);
        }
        cr_assert_eq(world.live, 0);
    }
}

Test(cuda, the_context_is_as_it_was_also_after_a_failure)
{
    float bad[] = {99, 0};
    for (int form = 0; form < N_FORMS; form++) {
        wick_op *op = define_on("add", signatures[form], on_cpu, on_cuda);
        wick_value args[] = {on(F32(bad, 2), WICK_CUDA, 1), on(F32(b, 2), WICK_CUDA, 1)},
                   results[1] = {0};
        cr_assert_invoke_refused(op, args, results, WICK_ECUDA, "add: the driver said no");
        cr_assert_ran_on(1);
        world.fail_at = 2; /* an output, then the stream */
        cr_assert_invoke_refused(op, args, results, WICK_ETORCH, "add: the host has no stream");
        cr_assert(ran.n_cuda == 0 && !test_ctx.stream && test_ctx.device == -1);
    }
}

Test(cuda, without_a_version_or_a_stream_it_is_refused_in_words)
{
    wick_host none = world_host;
    none.stream = NULL;
    for (int form = 0; form < N_FORMS; form++) {
        wick_value args[] = {on(F32(a, 2), WICK_CUDA, 0), on(F32(b, 2), WICK_CUDA, 0)},
                   results[1] = {0};
        wick_op *op = define_on("add", signatures[form], on_cpu, NULL);
        cr_assert_invoke_refused(op, args, results, WICK_ENOTSUP,
                                 "add: x is on cuda, but the operator has only a CPU version");
        op = define_on("add", signatures[form], on_cpu, on_cuda);
        cr_assert_eq(invoke_in(&none, op, args, results), WICK_ENOTSUP);
        cr_assert_str_eq(wick_ctx_message(&test_ctx),
                         "add: x is on cuda, but this program has no CUDA");
        cr_assert_eq(world.live, 0);
    }
    cr_assert(ran.n_cpu == 0 && ran.n_cuda == 0);
}

Test(cuda, devices_that_differ_are_named)
{
    for (int form = 0; form < N_FORMS; form++) {
        wick_op *op = define_on("add", signatures[form], on_cpu, on_cuda);
        wick_value cpu = on(F32(a, 2), WICK_CPU, 0), cuda0 = on(F32(a, 2), WICK_CUDA, 0),
                   cuda1 = on(F32(b, 2), WICK_CUDA, 1), results[1] = {0};
        wick_value two[] = {cuda0, cuda1}, mixed[] = {cuda0, cpu}, other[] = {cpu, cuda1};
        cr_assert_invoke_refused(op, two, results, WICK_EINVAL,
                                 "add: y is on cuda:1, but x is on cuda:0");
        cr_assert_invoke_refused(op, mixed, results, WICK_EINVAL,
                                 "add: y is on cpu, but x is on cuda:0");
        cr_assert_invoke_refused(op, other, results, WICK_EINVAL,
                                 "add: y is on cuda:1, but x is on cpu");
        wick_value args[] = {cuda0, cuda0}, out[] = {on(F32(b, 2), WICK_CUDA, 1)};
        cr_assert_invoke_refused(op, args, out, WICK_EINVAL,
                                 "add: out for z is on cuda:1, but x is on cuda:0");
    }
}

/* ---- numbers that stay on the CPU ---- */

static wick_status scale(wick_ctx *ctx, const wick_slot *slot)
{
    ran.n_cuda++;
    ran.stream = ctx->stream;
    ran.device = ctx->device;
    for (int64_t i = 0; i < slot[3].i; i++)
        ((float *)slot[2].p)[i] = *(const float *)slot[0].p * ((const float *)slot[1].p)[i];
    return WICK_OK;
}

static wick_value number_of(float *value)
{
    return on(wick_tensor_of(value, WICK_F32, 0, NULL), WICK_CPU, 0);
}

Test(cuda, a_number_on_the_cpu_is_taken_along)
{
    wick_op *op = define_on("scale", "s: f32[], x: f32[N] -> y: f32[N]", on_cpu, scale);
    float three = 3;
    wick_value args[] = {number_of(&three), on(F32(a, 4), WICK_CUDA, 1)}, results[1] = {0};
    cr_assert_eq(invoke(op, args, results), WICK_OK, "%s", wick_ctx_message(&test_ctx));
    cr_assert_ran_on(1);
    cr_assert_eq(((float *)results[0].as.tensor.data)[3], 12);
    cr_assert_eq(results[0].as.tensor.device_type, WICK_CUDA);
    cr_assert_eq(world.n_copied, 1, "the number, to the device");
    cr_assert_eq(world.live, 1);
    world_host.release(&results[0].as.tensor);
}

Test(cuda, a_tensor_of_one_shape_may_be_such_a_number)
{
    wick_op *op = define_on("add", signatures[0], on_cpu, on_cuda);
    float three = 3, four[] = {4};
    wick_value zero_d = on(wick_tensor_of(four, WICK_F32, 0, NULL), WICK_CUDA, 0), results[1] = {0};
    wick_value args[] = {zero_d, number_of(&three)};
    cr_assert_eq(invoke(op, args, results), WICK_OK, "%s", wick_ctx_message(&test_ctx));
    cr_assert_ran_on(0);
    cr_assert_eq(*(float *)results[0].as.tensor.data, 7);
    cr_assert_eq(results[0].as.tensor.device_type, WICK_CUDA);
    world_host.release(&results[0].as.tensor);
}

Test(cuda, numbers_alone_are_the_cpus)
{
    wick_op *op = define_on("add", "x: f32[], y: f32[] -> z: f32[]", on_cpu, on_cuda);
    float three = 3, four = 4;
    wick_value args[] = {number_of(&three), number_of(&four)}, results[1] = {0};
    cr_assert_eq(invoke(op, args, results), WICK_OK, "%s", wick_ctx_message(&test_ctx));
    cr_assert(ran.n_cpu == 1 && ran.n_cuda == 0);
    cr_assert_eq(results[0].as.tensor.device_type, WICK_CPU);
    world_host.release(&results[0].as.tensor);
}

Test(cuda, a_number_that_is_written_must_be_there)
{
    wick_op *op = define_on("count", "x: f32[N], n!: f32[] -> ()", on_cpu, on_cuda);
    float three = 3;
    wick_value args[] = {on(F32(a, 4), WICK_CUDA, 0), number_of(&three)};
    cr_assert_invoke_refused(op, args, NULL, WICK_EINVAL, "count: n is on cpu, but x is on cuda:0");
}

/* ---- memory ---- */

static wick_status with_scratch(wick_ctx *ctx, const wick_slot *slot)
{
    (void)ctx;
    ran.n_cuda++;
    seen[0] = slot[2];
    return WICK_OK;
}

Test(cuda, scratch_is_on_the_device)
{
    wick_op *op =
        define_on("work", "x: f32[N] -> y: f32[N] scratch w: f64[N]", on_cpu, with_scratch);
    wick_value args[] = {on(F32(a, 4), WICK_CUDA, 1)}, results[1] = {0};
    cr_assert_eq(invoke(op, args, results), WICK_OK, "%s", wick_ctx_message(&test_ctx));
    cr_assert_eq(world.n_empty, 2);
    cr_assert(world.last_empty.device_type == WICK_CUDA && world.last_empty.device_index == 1);
    cr_assert_eq(seen[0].p, world.last_empty.data);
    cr_assert_eq(world.live, 1, "the result");
    world_host.release(&results[0].as.tensor);
}

static char own_scratch[64];

static wick_status from_own(wick_ctx *ctx, const char *name, int device_index, uint64_t bytes,
                            void **out)
{
    if (bytes > sizeof own_scratch)
        return wick_fail(ctx, WICK_ENOMEM, "%s on %d is too large", name, device_index);
    *out = own_scratch;
    return WICK_OK;
}

Test(cuda, scratch_comes_from_whoever_looks_at_it)
{
    wick_op *op =
        define_on("work", "x: f32[N] -> y: f32[N] scratch w: f64[N]", on_cpu, with_scratch);
    wick_value args[] = {on(F32(a, 4), WICK_CUDA, 1)}, results[1] = {0};
    wick_call_scratch_from(from_own);
    cr_assert_eq(invoke(op, args, results), WICK_OK, "%s", wick_ctx_message(&test_ctx));
    cr_assert_eq(world.n_empty, 1, "the result");
    cr_assert_eq(seen[0].p, (void *)own_scratch);
    world_host.release(&results[0].as.tensor);

    float many[9] = {0};
    wick_value larger[] = {on(F32(many, 9), WICK_CUDA, 1)};
    results[0] = (wick_value){0};
    cr_assert_eq(invoke(op, larger, results), WICK_ENOMEM);
    cr_assert_str_eq(wick_ctx_message(&test_ctx), "work: w on 1 is too large");
    cr_assert_eq(world.live, 0);
}

static wick_status double_it(wick_ctx *ctx, const wick_slot *slot)
{
    (void)ctx;
    for (int64_t i = 0; i < slot[1].i; i++)
        ((float *)slot[0].p)[i] *= 2;
    return WICK_OK;
}

Test(cuda, what_is_not_contiguous_is_copied_on_the_device_and_back)
{
    wick_op *op = define_on("twice", "x!: f32[*N] -> ()", on_cpu, double_it);
    float data[] = {1, -1, 2, -1, 3, -1};
    wick_value args[] = {on(with_stride(F32(data, 3), SIZES(2)), WICK_CUDA, 1)};
    cr_assert_eq(invoke(op, args, NULL), WICK_OK, "%s", wick_ctx_message(&test_ctx));
    cr_assert(data[0] == 2 && data[2] == 4 && data[4] == 6 && data[1] == -1);
    cr_assert(world.last_empty.device_type == WICK_CUDA && world.last_empty.device_index == 1);
    cr_assert_eq(world.n_written, 1);
    cr_assert_eq(world.live, 0);
}
