/* test_torch_host.c -- torch's tensors, copies, versions and threads as an operator's host */
#include "bridge_support.h"

#include <stdatomic.h>
#include <string.h>

TestSuite(torch_host, .init = torch_begin);

static wick_status add_one(wick_ctx *ctx, const wick_slot *slot)
{
    (void)ctx;
    for (int64_t i = 0; i < slot[1].i; i++)
        ((float *)slot[0].p)[i] += 1;
    return WICK_OK;
}

/* A second handle on the tensor that the kernel will take, so that it can be looked at afterwards.
 */
static torch_handle also(torch_handle handle)
{
    torch_handle own = NULL;
    cr_assert_eq(shim.aoti_torch_new_tensor_handle(handle, &own), 0);
    return own;
}

static torch_handle transposed(void)
{
    torch_handle handle = fake_tensor(FAKE_F32, 2, SIZES(3, 2), SIZES(1, 3));
    for (int i = 0; i < 6; i++)
        ((float *)fake_data(handle))[i] = (float)i;
    return handle;
}

Test(torch_host, every_element_type_is_known_both_ways)
{
    static const int32_t codes[WICK_DTYPE_COUNT] = {-1,       FAKE_F16, FAKE_BF16, FAKE_F32,
                                                    FAKE_F64, FAKE_I8,  FAKE_I16,  FAKE_I32,
                                                    FAKE_I64, FAKE_U8,  FAKE_BOOL};
    for (int i = 1; i < WICK_DTYPE_COUNT; i++) {
        wick_tensor t;
        torch_handle handle = fake_tensor(codes[i], 1, SIZES(2), NULL);
        cr_assert_eq(wick_torch_dtype((wick_dtype)i), codes[i]);
        cr_assert_eq(wick_torch_read(&test_ctx, "x", handle, &t), WICK_OK);
        cr_assert_eq(t.dtype, i);
        drop(handle);
    }
}

Test(torch_host, a_tensor_is_read_completely)
{
    wick_tensor t;
    torch_handle handle = transposed();
    fake_set_device(handle, FAKE_CUDA, 3);
    cr_assert_eq(wick_torch_read(&test_ctx, "x", handle, &t), WICK_OK);
    cr_assert(t.dim == 2 && t.size[0] == 3 && t.size[1] == 2 && t.stride[0] == 1 &&
              t.stride[1] == 3);
    cr_assert(t.device_type == WICK_CUDA && t.device_index == 3);
    cr_assert(t.data == fake_data(handle) && t.handle == handle);
    drop(handle);
}

Test(torch_host, in_place_without_internals_bumps_the_version_once_by_the_public_way)
{
    static const int64_t size[] = {3};
    registered("bump", "x!: f32[*N] -> ()", add_one);
    for (int dim = 0; dim < 2; dim++) {
        torch_handle x = counting(dim, size), kept = also(x);
        torch_ivalue stack[1] = {put_tensor(x)};
        cr_assert_ran(run_backend("bump", stack));
        cr_assert_eq(((float *)fake_data(kept))[0], 2);
        cr_assert_eq(fake_version(kept), 1, "%d dimensions", dim);
        drop(kept);
        cr_assert_nothing_live();
    }
    cr_assert_eq(fake_dispatched("aten::zero_"), 2);
    cr_assert_eq(fake_dispatched("aten::unsqueeze"), 1, "only a 0-d tensor needs it");
    cr_assert(shim.aoti_torch_grad_mode_is_enabled(), "grad mode is as it was");
}

Test(torch_host, in_place_on_a_transposed_tensor_writes_it_through_torch)
{
    registered("bump", "x!: f32[*N] -> ()", add_one);
    torch_handle x = transposed(), kept = also(x);
    torch_ivalue stack[1] = {put_tensor(x)};
    cr_assert_ran(run_backend("bump", stack));
    for (int i = 0; i < 6; i++)
        cr_assert_eq(((float *)fake_data(kept))[i], (float)i + 1);
    cr_assert_geq(fake_version(kept), 1);
    cr_assert(shim.aoti_torch_grad_mode_is_enabled());
    drop(kept);
    cr_assert_nothing_live();
}

Test(torch_host, in_place_that_overlaps_itself_is_refused)
{
    registered("bump", "x!: f32[*N] -> ()", add_one);
    torch_ivalue stack[1] = {put_tensor(fake_tensor(FAKE_F32, 2, SIZES(3, 2), SIZES(0, 1)))};
    cr_assert_raises(run_backend("bump", stack), "bump: x is written in place, but several of its "
                                                 "elements share memory (an expanded tensor?): "
                                                 "clone it first");
    cr_assert_nothing_live();
}

Test(torch_host, whichever_step_of_an_in_place_call_fails_nothing_is_left)
{
    registered("bump", "x!: f32[*N] -> ()", add_one);
    int n = 0;
    for (bool done = false; !done;) {
        torch_ivalue stack[1] = {put_tensor(transposed())};
        cr_assert_lt(++n, 30);
        fake_fail_after(n);
        const char *raised = run_backend("bump", stack);
        fake_fail_after(0);
        done = !raised;
        if (raised) cr_assert_not_null(strstr(raised, "injected"), "%s", raised);
        cr_assert(shim.aoti_torch_grad_mode_is_enabled());
        cr_assert_nothing_live();
    }
    cr_assert_eq(n - 1, 6, "a tensor, two copies, a handle, two operators");
}

Test(torch_host, with_internals_a_plain_tensor_is_bumped_directly)
{
    torch_begin_with_internals();
    registered("bump", "x!: f32[*N] -> ()", add_one);
    torch_handle x = COUNTING(3), kept = also(x);
    torch_ivalue stack[1] = {put_tensor(x)};
    cr_assert_ran(run_backend("bump", stack));
    cr_assert_eq(fake_version(kept), 1);
    cr_assert_eq(fake_dispatched("aten::zero_"), 0);

    fake_set_keys(kept, FAKE_KEYS_INFERENCE); /* made in inference mode: there is no version */
    stack[0] = put_tensor(also(kept));
    cr_assert_ran(run_backend("bump", stack));
    cr_assert_eq(fake_version(kept), 1);

    fake_set_keys(kept, FAKE_KEYS_SUBCLASS);
    stack[0] = put_tensor(also(kept));
    cr_assert_ran(run_backend("bump", stack));
    cr_assert_eq(fake_version(kept), 2);
    cr_assert_eq(fake_dispatched("aten::zero_"), 1);
    drop(kept);
    cr_assert_nothing_live();
}

Test(torch_host, meta_tensors_get_shapes)
{
    registered("wide", "x: f32[N], w!: f32[N] -> y: f64[N, N]", record_slots);
    torch_ivalue stack[2] = {put_tensor(COUNTING(3)), put_tensor(COUNTING(3))};
    for (int i = 0; i < 2; i++)
        fake_set_device(get_tensor(stack[i]), FAKE_META, -1);
    cr_assert_ran(run_backend("wide", stack));
    cr_assert_eq(n_calls, 0);
    wick_tensor y;
    cr_assert_eq(wick_torch_read(&test_ctx, "y", get_tensor(stack[0]), &y), WICK_OK);
    cr_assert(y.dim == 2 && y.size[1] == 3 && y.dtype == WICK_F64 && y.device_type == WICK_META);
    drop(get_tensor(stack[0]));
    cr_assert_nothing_live();
}

/* ---- threads ---- */

typedef struct job {
    wick_ctx *ctx;
    float *y;
    bool fail;
} job;

static wick_status fill_piece(void *arg, int64_t begin, int64_t end)
{
    job *j = arg;
    if (j->fail) return wick_fail(j->ctx, WICK_EINVAL, "item %lld is bad", (long long)begin);
    for (int64_t i = begin; i < end; i++)
        j->y[i] = (float)i;
    return WICK_OK;
}

static bool fail_pieces;

static wick_status fill_in_parallel(wick_ctx *ctx, const wick_slot *slot)
{
    job j = {ctx, slot[1].p, fail_pieces};
    return ctx->services->parallel(ctx, slot[0].i, 0, fill_piece, &j);
}

Test(torch_host, loops_run_on_torchs_threads)
{
    registered("fill", "k: int -> y: f32[k]", fill_in_parallel);
    torch_ivalue stack[1] = {100};
    cr_assert_ran(run_backend("fill", stack));
    for (int i = 0; i < 100; i++)
        cr_assert_eq(((float *)fake_data(get_tensor(stack[0])))[i], (float)i);
    drop(get_tensor(stack[0]));
    fail_pieces = true;
    for (int i = 0; i < 20; i++) {
        stack[0] = 100;
        const char *raised = run_backend("fill", stack);
        cr_assert(raised && (!strcmp(raised, "fill: item 0 is bad") ||
                             !strcmp(raised, "fill: item 50 is bad")),
                  "%s", raised ? raised : "nothing was raised");
        cr_assert_nothing_live();
    }
    fail_pieces = false;
    stack[0] = 100;
    fake_fail_after(2);
    cr_assert_raises(run_backend("fill", stack), "fill: torch's thread pool failed: injected");
    cr_assert_nothing_live();
}
