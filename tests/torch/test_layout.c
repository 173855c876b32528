/* test_layout.c -- where torch keeps a tensor's parts: learnt, or asked for */
#include "bridge_support.h"

#include <string.h>

static wick_status add_one(wick_ctx *ctx, const wick_slot *slot)
{
    (void)ctx;
    n_calls++;
    for (int64_t i = 0; i < slot[1].i; i++)
        ((float *)slot[0].p)[i] += 1;
    return WICK_OK;
}

TestSuite(layout, .init = torch_begin_with_internals);

static bool same(const wick_tensor *a, const wick_tensor *b)
{
    return a->data == b->data && a->dim == b->dim && a->dtype == b->dtype &&
           a->device_type == b->device_type && a->device_index == b->device_index &&
           a->handle == b->handle && a->size == b->size && a->stride == b->stride;
}

Test(layout, everything_is_learnt_where_it_is_as_expected)
{
    wick_torch_known known = wick_torch_what_is_known();
    cr_assert(known.layout && known.memory && known.versions && known.devices);
    wick_torch_internals_disable();
    known = wick_torch_what_is_known();
    cr_assert(!known.layout && !known.memory && !known.versions && !known.devices);
}

Test(layout, a_glance_sees_what_torch_says)
{
    static const int64_t size[] = {2, 1, 3, 2, 1, 2, 2};
    static const int32_t dtypes[] = {FAKE_F32,  FAKE_F16, FAKE_BF16, FAKE_U8,
                                     FAKE_BOOL, FAKE_I16, FAKE_F64,  FAKE_U64};
    for (int dim = 0; dim < 8; dim++) {
        wick_tensor glanced, asked;
        bool requires_grad = false;
        torch_handle handle = fake_tensor(dtypes[dim], dim < 7 ? dim : 7, size, NULL);
        fake_move(handle, dim % 3);
        cr_assert(wick_torch_glance(handle, &glanced, &requires_grad));
        wick_torch_read_publicly(handle, &asked);
        cr_assert(same(&glanced, &asked), "%d dims", dim);
        cr_assert_not(requires_grad);
        fake_set_requires_grad(handle, true);
        cr_assert(wick_torch_glance(handle, &glanced, &requires_grad));
        cr_assert(same(&glanced, &asked), "%d dims", dim);
        cr_assert(requires_grad);
        drop(handle);
    }
}

Test(layout, a_tensor_with_a_tangent_is_left_to_the_longer_way)
{
    wick_tensor t;
    bool requires_grad = false;
    torch_handle handle = COUNTING(3);
    fake_set_tangent(handle, true);
    cr_assert_not(wick_torch_glance(handle, &t, &requires_grad));
    drop(handle);
}

Test(layout, memory_that_is_shared_is_asked_for)
{
    wick_tensor t;
    bool requires_grad = false;
    torch_handle handle = COUNTING(3);
    fake_share(handle);
    cr_assert(wick_torch_glance(handle, &t, &requires_grad));
    cr_assert_not(fake_is_shared(handle), "torch has given it memory of its own");
    cr_assert_eq(t.data, fake_data(handle));
    drop(handle);
}

/* A call, in place, of a torch that keeps some parts elsewhere. */
static void call_with(unsigned hidden, bool layout, bool memory, bool versions)
{
    fake_hide(hidden);
    cr_assert(learn_all());
    cr_assert(wick_torch_learn_state());
    wick_torch_known known = wick_torch_what_is_known();
    cr_assert_eq(known.layout, layout, "layout, with %u hidden", hidden);
    cr_assert_eq(known.memory, memory, "memory, with %u hidden", hidden);
    cr_assert_eq(known.versions, versions, "versions, with %u hidden", hidden);
    torch_handle x = COUNTING(3), kept = NULL;
    cr_assert_eq(shim.aoti_torch_new_tensor_handle(x, &kept), 0);
    torch_ivalue stack[1] = {put_tensor(x)};
    int before = n_calls;
    cr_assert_ran(run_gate("bump", stack));
    cr_assert_eq(n_calls, before + 1);
    cr_assert_eq(((float *)fake_data(kept))[2], 4);
    cr_assert_eq(fake_version(kept), 1);
    cr_assert_eq(fake_dispatched("wick_raw::local__bump"), 0);
    drop(kept);
    cr_assert_nothing_live();
}

Test(layout, what_is_elsewhere_is_asked_for)
{
    registered("bump", "x!: f32[*N] -> ()", add_one);
    call_with(0, true, true, true);
    call_with(FAKE_RANK, false, false, false);
    call_with(FAKE_SIZES, false, false, false);
    call_with(FAKE_DTYPE, false, false, false);
    call_with(FAKE_AUTOGRAD, false, false, false);
    call_with(FAKE_STORAGE, true, false, true);
    call_with(FAKE_COUNTER, true, true, false);
}

Test(layout, a_tangent_that_does_not_show_turns_it_off)
{
    torch_handle dual = COUNTING(2);
    fake_hide(FAKE_AUTOGRAD);
    fake_set_tangent(dual, true); /* where a gradient shows, this one does not */
    cr_assert(wick_torch_what_is_known().layout);
    cr_assert(wick_torch_learn_tangent(dual));
    cr_assert_not(wick_torch_what_is_known().layout);
    wick_tensor t;
    bool requires_grad = false;
    cr_assert_not(wick_torch_glance(dual, &t, &requires_grad), "and it is seen all the same");
    fake_set_tangent(dual, false);
    cr_assert_not(wick_torch_learn_tangent(dual));
    drop(dual);
}

Test(layout, meta_tensors_are_always_asked)
{
    torch_handle handle = COUNTING(3);
    fake_set_device(handle, FAKE_META, -1);
    wick_torch_example examples[] = {example_of(handle, WICK_TORCH_PLAIN),
                                     example_of(handle, WICK_TORCH_PLAIN)};
    cr_assert(wick_torch_learn(examples, 2));
    wick_tensor t;
    bool requires_grad = false;
    cr_assert(wick_torch_glance(handle, &t, &requires_grad));
    cr_assert(t.device_type == WICK_META && t.data == NULL && t.size[0] == 3);
    drop(handle);
}
