/* test_register.c -- operators enter torch and leave it: schemas, replacing, refusals, and the end
 * of the pool */
#include "bridge_support.h"

#include <pthread.h>
#include <stdio.h>

TestSuite(bridge, .init = torch_begin);

static wick_status one(wick_ctx *ctx, const wick_slot *slot)
{
    return (void)ctx, *(int64_t *)slot[1].p = 1, WICK_OK;
}
static wick_status two(wick_ctx *ctx, const wick_slot *slot)
{
    return (void)ctx, *(int64_t *)slot[1].p = 2, WICK_OK;
}

static int64_t run(void)
{
    torch_ivalue stack[1] = {7};
    cr_assert_ran(run_backend("f", stack));
    return (int64_t)stack[0];
}

Test(bridge, an_operator_has_a_schema_and_a_kernel)
{
    registered("f", "a: int -> n: int", one);
    cr_assert_str_eq(fake_schema("local::f"), "f(SymInt a) -> int");
    cr_assert_eq(fake_live().libraries, 2);
    torch_ivalue stack[1] = {7};
    cr_assert(!fake_run("local::f", "AutogradCPU", stack));
}

Test(bridge, with_internals_there_are_gates_and_a_kernel_for_vmap)
{
    torch_begin_with_internals();
    registered("f", "a: int -> n: int", one);
    cr_assert_eq(fake_live().libraries, 7);
    static const char *const keys[] = {"AutogradCPU", "AutogradCUDA", "AutogradMeta"};
    for (int i = 0; i < 3; i++) {
        torch_ivalue stack[1] = {7};
        cr_assert(fake_run("local::f", keys[i], stack), "%s", keys[i]);
        cr_assert_eq(stack[0], 1);
    }
    torch_ivalue stack[1] = {7};
    cr_assert(!fake_run("local::f", "Autograd", stack), "that is for gradients written by hand");
}

Test(bridge, an_old_torch_without_tags_is_served_too)
{
    shim.torch_library_def_with_tags = NULL;
    registered("f", "a: int -> n: int", one);
    cr_assert_str_eq(fake_schema("local::f"), "f(SymInt a) -> int");
}

Test(bridge, the_same_schema_again_changes_nothing_for_torch)
{
    bool changed = true;
    wick_op *op = registered("f", "a: int -> n: int", one);
    void *bridge = op->bridge;
    cr_assert_eq(run(), 1);
    define_op("f", "a: int -> n: int", two);
    cr_assert_eq(run(), 2, "the new code is behind the old registration at once");
    cr_assert_eq(wick_torch_register(&test_ctx, op, &changed), WICK_OK);
    cr_assert(!changed);
    cr_assert_eq(op->bridge, bridge);
    cr_assert_eq(fake_live().libraries, 2);
    cr_assert_eq(run(), 2);
}

Test(bridge, another_schema_replaces_the_old_one)
{
    bool changed = false;
    wick_op *op = registered("f", "a: int -> n: int", one);
    define_op("f", "a: int, b: float -> n: int", two);
    torch_ivalue stack[2] = {7, 0};
    cr_assert_raises(run_backend("f", stack), "local::f was loaded again with another signature: "
                                              "it was f(SymInt a) -> int, it is f(SymInt a, "
                                              "float b) -> int; compile or trace the caller again");
    long live = wick_memory_live();
    cr_assert_eq(wick_torch_register(&test_ctx, op, &changed), WICK_OK);
    cr_assert(changed);
    cr_assert_str_eq(fake_schema("local::f"), "f(SymInt a, float b) -> int");
    cr_assert_eq(fake_live().libraries, 3, "the third keeps torch's entry for those who hold it");
    cr_assert_eq(wick_memory_live(), live + 2,
                 "the old registration waits for its slot's next owner");
}

Test(bridge, slots_of_replaced_operators_are_used_again)
{
    bool changed = false;
    wick_op *op = registered("f", "a: int -> n: int", one);
    for (int i = 0; i < 2 * WICK_MAX_REGISTRATIONS; i++) {
        define_op("f", i % 2 ? "a: int -> n: int" : "a: int, b: float -> n: int",
                  i % 2 ? one : two);
        cr_assert_eq(wick_torch_register(&test_ctx, op, &changed), WICK_OK, "%s",
                     wick_ctx_message(&test_ctx));
        cr_assert(changed);
    }
    cr_assert_eq(fake_live().libraries, 3);
}

Test(bridge, tensors_of_a_call_with_the_old_schema_are_given_back)
{
    registered("f", "x: f32[N], s: str -> n: int", one);
    define_op("f", "x: f32[N], y: f32[N] -> n: int", two);
    torch_ivalue stack[2] = {put_tensor(COUNTING(3)), put_string("a")};
    cr_assert_not_null(run_backend("f", stack));
    cr_assert_nothing_live();
}

Test(bridge, a_name_that_torch_already_has_is_refused)
{
    bool changed;
    torch_library_handle library;
    cr_assert_eq(shim.aoti_torch_library_init_fragment("local", "x", 0, &library), 0);
    cr_assert_eq(shim.aoti_torch_library_def(library, "f(Tensor x) -> Tensor"), 0);
    wick_op *op = define_op("f", "a: int -> n: int", one);
    cr_assert_eq(wick_torch_register(&test_ctx, op, &changed), WICK_ETORCH);
    cr_assert_str_eq(
        wick_ctx_message(&test_ctx),
        "torch refuses operator local::f with schema f(SymInt a) -> int: the name is taken");
    cr_assert_null(op->bridge);
    cr_assert_eq(fake_live().libraries, 1);
    shim.torch_exception_get_what_without_backtrace = NULL;
    wick_ctx_clear(&test_ctx);
    cr_assert_eq(wick_torch_register(&test_ctx, op, &changed), WICK_ETORCH);
    cr_assert_str_eq(wick_ctx_message(&test_ctx),
                     "torch refuses operator local::f with schema f(SymInt a) -> int: is the "
                     "name taken by another library?");
    shim.aoti_torch_delete_library_object(library);
    register_op(op);
    cr_assert_eq(run(), 1);
}

static long walk(wick_op *op, void (*inject)(long), wick_status status)
{
    long n = 0;
    for (bool done = false; !done;) {
        bool changed;
        long live = wick_memory_live();
        cr_assert_lt(++n, 50);
        inject(n);
        wick_status s = wick_torch_register(&test_ctx, op, &changed);
        inject(0);
        wick_ctx_clear(&test_ctx);
        done = s == WICK_OK;
        if (done) break;
        cr_assert_eq(s, status, "failure %ld", n);
        cr_assert_null(op->bridge);
        cr_assert_eq(fake_live().libraries, 0, "failure %ld", n);
        cr_assert_eq(wick_memory_live(), live, "failure %ld", n);
    }
    cr_assert_geq(fake_live().libraries, 6); /* the last one, for the older vmap, may be missing */
    cr_assert_eq(run(), 1);
    return n - 1;
}

Test(bridge, whichever_step_torch_refuses_nothing_is_left)
{
    torch_begin_with_internals();
    wick_op *op = define_op("f", "a: int -> n: int", one);
    cr_assert_eq(walk(op, fake_fail_after, WICK_ETORCH), 12);
}

Test(bridge, whichever_allocation_fails_nothing_is_left)
{
    torch_begin_with_internals();
    wick_op *op = define_op("f", "a: int -> n: int", one);
    cr_assert_geq(walk(op, wick_memory_fail_after, WICK_ENOMEM), 3);
}

/* ---- threads ---- */

static void *keep_calling(void *arg)
{
    long *wrong = arg;
    for (int i = 0; i < 300; i++) {
        torch_ivalue stack[1] = {7};
        bool ran = fake_run("local::f", "CompositeExplicitAutograd", stack);
        if (!ran || fake_raised() || (stack[0] != 1 && stack[0] != 2)) ++*wrong;
    }
    return NULL;
}

Test(bridge, an_operator_is_loaded_again_while_others_call_it)
{
    pthread_t threads[3];
    long wrong[3] = {0};
    wick_op *op = registered("f", "a: int -> n: int", one);
    for (int i = 0; i < 3; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, keep_calling, &wrong[i]), 0);
    for (int i = 0; i < 30; i++) {
        define_op("f", "a: int -> n: int", i % 2 ? one : two);
        register_op(op);
    }
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], NULL);
        cr_assert_eq(wrong[i], 0);
    }
}

/* ---- the pool ---- */

static wick_op *define_number(int i)
{
    char name[32];
    snprintf(name, sizeof name, "op%d", i);
    return define_op(name, "a: int -> n: int", one);
}

Test(bridge, the_pool_ends_with_an_error_and_its_slots_are_used_again, .timeout = 60)
{
    bool changed;
    wick_op *second = NULL;
    for (int i = 0; i < WICK_MAX_REGISTRATIONS; i++) {
        wick_op *op = define_number(i);
        register_op(op);
        if (i == 1) second = op;
    }
    wick_op *extra = define_op("extra", "a: int -> n: int", two);
    long live = wick_memory_live();
    cr_assert_eq(wick_torch_register(&test_ctx, extra, &changed), WICK_ENOTSUP);
    cr_assert_str_eq(wick_ctx_message(&test_ctx),
                     "local::extra: 2048 operators are loaded, and there is room for no more");
    wick_ctx_clear(&test_ctx);
    cr_assert_null(extra->bridge);
    cr_assert_eq(wick_memory_live(), live);
    cr_assert_eq(fake_live().libraries, 2 * WICK_MAX_REGISTRATIONS);

    torch_ivalue stack[2] = {7};
    cr_assert_ran(
        run_backend("op2047", stack)); /* the last trampoline leads to the last operator */
    cr_assert_eq(stack[0], 1);
    define_op("op1", "a: int, b: int -> n: int", two);
    register_op(second); /* leaves and enters again: in the slot that it left */
    cr_assert_eq(fake_live().libraries, 2 * WICK_MAX_REGISTRATIONS + 1);
}
