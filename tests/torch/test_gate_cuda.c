/* test_gate_cuda.c -- tensors on a GPU: met when the first one comes, then run as those on the CPU
 * are
 *
 * The stand-in's tensors are in the CPU's memory whatever device they say they are on, so what
 * stands for a CUDA function here can read and write them.
 */
#include "bridge_support.h"

#include <pthread.h>

static struct {
    int n;
    void *stream;
    int32_t device;
} ran;

static wick_status on_cpu(wick_ctx *ctx, const wick_slot *slot)
{
    (void)slot;
    return wick_fail(ctx, WICK_EINVAL, "the CPU's function runs");
}

static void note(const wick_ctx *ctx)
{
    ran.n++;
    ran.stream = ctx->stream;
    ran.device = ctx->device;
}

static wick_status plus_one(wick_ctx *ctx, const wick_slot *slot)
{
    note(ctx);
    for (int64_t i = 0; i < slot[2].i; i++)
        ((float *)slot[1].p)[i] = ((const float *)slot[0].p)[i] + 1;
    return WICK_OK;
}

static wick_status add_one(wick_ctx *ctx, const wick_slot *slot)
{
    note(ctx);
    for (int64_t i = 0; i < slot[1].i; i++)
        ((float *)slot[0].p)[i] += 1;
    return WICK_OK;
}

static int n_asked;

static bool hook(wick_registration *r, wick_question question, torch_ivalue *stack)
{
    (void)r;
    cr_assert_eq(question, WICK_ASK_BELOW);
    n_asked++;
    drop(get_tensor(stack[0]));
    return wick_boxed_fail("asked");
}

static bool raiser(void) { return false; }

static void begin(void)
{
    torch_begin_with_internals();
    wick_torch_set_hook(hook, raiser);
    registered_on("plus", "x: f32[*N] -> y: f32[*N]", on_cpu, plus_one);
    registered_on("rows", "x: f32[N] -> y: f32[N]", on_cpu, plus_one);
    registered_on("bump", "x!: f32[*N] -> ()", on_cpu, add_one);
}

TestSuite(gate_cuda, .init = begin);

static torch_handle on_gpu(torch_handle handle, int32_t index)
{
    fake_set_device(handle, FAKE_CUDA, index);
    return handle;
}

static void run_on(const char *name, int32_t index)
{
    torch_ivalue stack[1] = {put_tensor(on_gpu(COUNTING(3), index))};
    int before = ran.n;
    cr_assert_ran(run_gate(name, stack));
    cr_assert_eq(ran.n, before + 1);
    cr_assert_eq(ran.stream, fake_stream(index));
    cr_assert_eq(ran.device, index);
    torch_handle y = get_tensor(stack[0]);
    cr_assert_eq(((float *)fake_data(y))[2], 4);
    cr_assert(fake_facts_of(y)->device == FAKE_CUDA && fake_facts_of(y)->device_index == index);
    drop(y);
    cr_assert_nothing_live();
}

Test(gate_cuda, plain_tensors_are_run_at_once_on_torchs_stream)
{
    for (int32_t index = 0; index < 3; index++) {
        run_on("plus", index);
        run_on("rows", index);
    }
    cr_assert_eq(n_asked, 0);
}

Test(gate_cuda, a_glance_sees_what_torch_says)
{
    static const int64_t size[] = {2, 1, 3, 2, 1, 2, 2};
    wick_tensor glanced, asked;
    bool requires_grad = false;
    for (int dim = 7; dim >= 0; dim--) { /* the first ones cannot be read in place */
        torch_handle handle = on_gpu(fake_tensor(FAKE_F16, dim, size, NULL), dim % 3);
        fake_move(handle, dim % 2);
        cr_assert(wick_torch_glance(handle, &glanced, &requires_grad));
        wick_torch_read_publicly(handle, &asked);
        cr_assert(glanced.data == asked.data && glanced.dim == asked.dim &&
                  glanced.size == asked.size && glanced.stride == asked.stride &&
                  glanced.dtype == asked.dtype);
        cr_assert(glanced.device_type == WICK_CUDA && glanced.device_index == dim % 3);
        cr_assert_not(requires_grad);
        drop(handle);
    }
}

Test(gate_cuda, tensors_of_inference_mode_are_met_as_well)
{
    torch_handle handle = on_gpu(COUNTING(3), 0);
    fake_set_keys(handle, FAKE_KEYS_INFERENCE_CUDA);
    cr_assert_eq(wick_torch_kind(handle), WICK_TORCH_INFERENCE);
    drop(handle);
}

Test(gate_cuda, keys_that_mean_something_else_are_not_trusted)
{
    torch_handle other = COUNTING(3);
    fake_set_keys(other, FAKE_KEYS_PLAIN_CUDA); /* but it is on the CPU */
    cr_assert_eq(wick_torch_kind(other), WICK_TORCH_SPECIAL);
    drop(other);
    torch_ivalue stack[1] = {put_tensor(on_gpu(COUNTING(3), 0))};
    cr_assert_raises(run_gate("plus", stack), "asked");
    cr_assert_eq(ran.n, 0);
    cr_assert_nothing_live();
}

Test(gate_cuda, a_sparse_tensor_is_not_the_example)
{
    torch_handle sparse = on_gpu(COUNTING(3), 0);
    fake_facts_of(sparse)->layout = FAKE_SPARSE;
    cr_assert_eq(wick_torch_kind(sparse), WICK_TORCH_SPECIAL);
    drop(sparse);
}

Test(gate_cuda, a_device_that_is_kept_elsewhere_is_asked_for)
{
    fake_hide(FAKE_DEVICE);
    cr_assert(learn_all());
    cr_assert(wick_torch_learn_state());
    cr_assert(wick_torch_what_is_known().layout && !wick_torch_what_is_known().devices);
    run_on("plus", 2);
    run_on("plus", 1);
}

Test(gate_cuda, what_is_not_expected_is_special)
{
    torch_handle a = COUNTING(2), b = COUNTING(3);
    wick_torch_example examples[] = {example_of(a, WICK_TORCH_PLAIN),
                                     example_of(b, WICK_TORCH_PLAIN)};
    cr_assert(wick_torch_learn(examples, 2));
    cr_assert_eq(wick_torch_kind(on_gpu(a, 0)), WICK_TORCH_SPECIAL);
    drop(a), drop(b);
}

Test(gate_cuda, in_place_counts_versions)
{
    torch_handle x = on_gpu(COUNTING(3), 1), kept = NULL;
    cr_assert_eq(shim.aoti_torch_new_tensor_handle(x, &kept), 0);
    torch_ivalue stack[1] = {put_tensor(x)};
    cr_assert_ran(run_gate("bump", stack));
    cr_assert_eq(fake_version(kept), 1);
    cr_assert_eq(((float *)fake_data(kept))[0], 2);
    drop(kept);
    cr_assert_nothing_live();
}

Test(gate_cuda, a_torch_without_cuda_says_so)
{
    torch_ivalue stack[1] = {put_tensor(on_gpu(COUNTING(3), 0))};
    shim.aoti_torch_get_current_cuda_stream = NULL;
    cr_assert_raises(run_gate("plus", stack), "plus: this torch is a build without CUDA");
    cr_assert_nothing_live();
}

/* ---- numbers that stay on the CPU ---- */

static wick_status scaled(wick_ctx *ctx, const wick_slot *slot)
{
    note(ctx);
    seen[0].f = *(const float *)slot[0].p;
    return WICK_OK;
}

static wick_status shifted(wick_ctx *ctx, const wick_slot *slot)
{
    note(ctx);
    seen[0].i = *(const int64_t *)slot[0].p;
    return WICK_OK;
}

Test(gate_cuda, a_number_on_the_cpu_becomes_an_argument_of_a_kernel)
{
    registered_on("scale", "s: f32[], x: f32[N] -> y: f32[N]", on_cpu, scaled);
    torch_handle three = fake_tensor(FAKE_F32, 0, NULL, NULL);
    *(float *)fake_data(three) = 3;
    torch_ivalue stack[2] = {put_tensor(three), put_tensor(on_gpu(COUNTING(3), 1))};
    cr_assert_ran(run_gate("scale", stack));
    cr_assert(seen[0].f == 3 && ran.device == 1);
    cr_assert_eq(fake_copies(), 0, "a copy would wait for the GPU");
    cr_assert(shim.aoti_torch_grad_mode_is_enabled(), "grad mode is as it was");
    drop(get_tensor(stack[0]));
    cr_assert_nothing_live();
}

Test(gate_cuda, an_integer_that_no_double_holds_is_copied)
{
    registered_on("shift", "s: i64[], x: f32[N] -> y: f32[N]", on_cpu, shifted);
    const int64_t values[] = {INT64_C(1) << 53, (INT64_C(1) << 53) + 1};
    for (int i = 0; i < 2; i++) {
        torch_handle number = fake_tensor(FAKE_I64, 0, NULL, NULL);
        *(int64_t *)fake_data(number) = values[i];
        torch_ivalue stack[2] = {put_tensor(number), put_tensor(on_gpu(COUNTING(3), 1))};
        cr_assert_ran(run_gate("shift", stack));
        cr_assert_eq(seen[0].i, values[i]);
        cr_assert_eq(fake_copies(), i);
        drop(get_tensor(stack[0]));
    }
    cr_assert_nothing_live();
}

Test(gate_cuda, whichever_step_fails_nothing_is_left)
{
    registered_on("scale", "s: f32[], x: f32[N] -> y: f32[N] scratch w: f32[N]", on_cpu, scaled);
    int n = 0;
    for (bool done = false; !done;) {
        torch_handle x = on_gpu(fake_tensor(FAKE_F32, 1, SIZES(3), SIZES(2)), 1);
        torch_ivalue stack[2] = {put_tensor(fake_tensor(FAKE_F32, 0, NULL, NULL)), put_tensor(x)};
        cr_assert_lt(++n, 30);
        fake_fail_after(n);
        const char *raised = run_gate("scale", stack);
        fake_fail_after(0);
        done = !raised && n > 8; /* that a number cannot be filled in is no failure: it is copied */
        if (!raised) drop(get_tensor(stack[0]));
        cr_assert(shim.aoti_torch_grad_mode_is_enabled());
        cr_assert_nothing_live();
    }
}

/* ---- threads ---- */

static void *meet(void *arg)
{
    wick_tensor t;
    bool requires_grad = false;
    for (int i = 0; i < 200; i++)
        if (!wick_torch_glance(arg, &t, &requires_grad) || t.device_index != 1) return arg;
    return NULL;
}

Test(gate_cuda, two_threads_may_meet_the_first_one)
{
    torch_handle x[2] = {on_gpu(COUNTING(3), 1), on_gpu(COUNTING(4), 1)};
    pthread_t threads[2];
    void *failed;
    for (int i = 0; i < 2; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, meet, x[i]), 0);
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(pthread_join(threads[i], &failed), 0);
        cr_assert_null(failed);
        drop(x[i]);
    }
}
