/* test_gate.c -- the kernel in front of autograd: what it runs itself, and what it asks Python for;
 * the kernel for batched tensors, which always asks */
#include "bridge_support.h"

#include <string.h>

static wick_status copy_f32(wick_ctx *ctx, const wick_slot *slot)
{
    const float *x = slot[0].p;
    n_calls++;
    if (x[0] == 99) return wick_fail(ctx, WICK_EINVAL, "x begins with 99");
    memcpy(slot[2].p, x, (size_t)slot[3].i * sizeof(float));
    return WICK_OK;
}

static int n_asked[3]; /* by question */
static bool hook_fails;

/* Takes over the arguments: here it hands x back as the result. */
static bool hook(wick_registration *r, wick_question question, torch_ivalue *stack)
{
    n_asked[question]++;
    cr_assert_str_eq(wick_registration_op(r)->name, "dup");
    cr_assert_str_eq(wick_registration_schema(r), "dup(Tensor x, Tensor? o=None) -> Tensor");
    if (stack[1]) drop(get_boxed(stack[1]));
    if (!hook_fails) return true;
    drop(get_tensor(stack[0]));
    return wick_boxed_fail("no gradient today");
}

static bool has_exception;
static bool raiser(void) { return has_exception; }

static void begin(void)
{
    torch_begin_with_internals();
    wick_torch_set_hook(hook, raiser);
    registered("dup", "x: f32[N], o?: f32[N] -> y: f32[N]", copy_f32);
}

TestSuite(gate, .init = begin);

static int sent_on(void) { return n_asked[WICK_ASK_BELOW]; }
static int n_gradients(void) { return n_asked[WICK_ASK_GRADIENT]; }

static void fill(torch_ivalue *stack)
{
    stack[0] = put_tensor(COUNTING(3));
    stack[1] = put_box(put_tensor(COUNTING(3)));
}

static void run_and_drop(torch_ivalue *stack)
{
    cr_assert_ran(run_gate("dup", stack));
    cr_assert_eq(((float *)fake_data(get_tensor(stack[0])))[2], 3);
    drop(get_tensor(stack[0]));
    cr_assert_nothing_live();
}

Test(gate, plain_tensors_are_run_at_once)
{
    torch_ivalue stack[2];
    fill(stack);
    run_and_drop(stack);
    stack[0] = put_tensor(COUNTING(3));
    stack[1] = 0;
    run_and_drop(stack);
    fill(stack);
    fake_set_keys(get_tensor(stack[0]), FAKE_KEYS_INFERENCE);
    run_and_drop(stack);
    cr_assert_eq(n_calls, 3);
    cr_assert_eq(sent_on(), 0);
    cr_assert_eq(n_gradients(), 0);
}

Test(gate, special_tensors_are_sent_below_autograd)
{
    torch_ivalue stack[2], *box;
    fill(stack);
    fake_set_keys(get_tensor(stack[0]), FAKE_KEYS_SUBCLASS);
    run_and_drop(stack);
    cr_assert_eq(sent_on(), 1);
    fill(stack);
    memcpy(&box, &stack[1], sizeof box);
    fake_set_keys(get_tensor(*box), FAKE_KEYS_SUBCLASS);
    run_and_drop(stack);
    cr_assert_eq(sent_on(), 2, "also for an optional");
}

Test(gate, forward_mode_is_refused_and_nothing_leaks)
{
    torch_ivalue stack[2];
    fill(stack);
    fake_set_tangent(get_tensor(stack[0]), true);
    cr_assert_raises(run_gate("dup", stack),
                     "dup: x carries a forward-mode gradient (torch.func.jvp, forward_ad), and the "
                     "operator has none: use reverse mode, or detach the argument");
    cr_assert_eq(sent_on(), 0);
}

Test(gate, an_active_mode_is_sent_below_autograd)
{
    torch_ivalue stack[2];
    for (int word = 0; word < 2; word++) {
        fill(stack);
        fake_state()[word] = 4;
        run_and_drop(stack);
        fake_state()[word] = 0;
        cr_assert_eq(sent_on(), word + 1);
    }
    fill(stack);
    fake_set_function_mode(true);
    run_and_drop(stack);
    cr_assert_eq(sent_on(), 2, "torch.ops has asked function modes before the gate");
    fake_set_function_mode(false);
    fill(stack);
    run_and_drop(stack);
    cr_assert_eq(sent_on(), 2);
}

Test(gate, a_state_that_was_learnt_counts_as_plain)
{
    torch_ivalue stack[2];
    fake_state()[1] = 4; /* inference mode */
    cr_assert(wick_torch_learn_state());
    fill(stack);
    run_and_drop(stack);
    cr_assert_eq(sent_on(), 0);
    fake_state()[1] = 5;
    fill(stack);
    run_and_drop(stack);
    cr_assert_eq(sent_on(), 1);
}

Test(gate, autocast_is_no_reason_to_ask)
{
    torch_ivalue stack[2];
    fake_state()[1] = 8 | 2;
    cr_assert(!wick_torch_learn_autocast(), "two bits: something else is on, too");
    fake_state()[1] = 0;
    cr_assert(!wick_torch_learn_autocast(), "nothing is on");
    fake_state()[1] = 8;
    cr_assert(wick_torch_learn_autocast());
    cr_assert(wick_torch_autocast_is_on());
    cr_assert(wick_torch_state_is_plain());
    fill(stack);
    run_and_drop(stack);
    cr_assert_eq(sent_on(), 0);
    fake_state()[1] = 8 | 4;
    fill(stack);
    run_and_drop(stack);
    cr_assert_eq(sent_on(), 1);
    fake_state()[1] = 0;
    cr_assert(!wick_torch_autocast_is_on());
}

Test(gate, a_gradient_is_asked_for_when_it_is_needed)
{
    torch_ivalue stack[2], *box;
    fill(stack);
    fake_set_requires_grad(get_tensor(stack[0]), true);
    run_and_drop(stack);
    cr_assert_eq(n_gradients(), 1);
    fill(stack);
    memcpy(&box, &stack[1], sizeof box);
    fake_set_requires_grad(get_tensor(*box), true);
    run_and_drop(stack);
    cr_assert_eq(n_gradients(), 2);
    cr_assert_eq(n_calls, 0);

    fill(stack);
    fake_set_requires_grad(get_tensor(stack[0]), true);
    shim.aoti_torch_grad_mode_set_enabled(false);
    run_and_drop(stack);
    cr_assert_eq(n_gradients(), 2, "not without grad mode");
    cr_assert_eq(n_calls, 1);
}

Test(gate, the_hooks_words_are_raised)
{
    torch_ivalue stack[2];
    hook_fails = true;
    fill(stack);
    fake_set_requires_grad(get_tensor(stack[0]), true);
    cr_assert_raises(run_gate("dup", stack), "no gradient today");
    cr_assert_nothing_live();
}

Test(gate, an_exception_is_raised_by_an_operator_that_python_has_prepared)
{
    torch_ivalue stack[2];
    hook_fails = true;
    for (int i = 0; i < 3; i++) {
        has_exception = i > 0;
        if (i == 2) shim._ZN2at4_ops19is_vulkan_available4callEv = NULL; /* only the words, then */
        fill(stack);
        fake_set_requires_grad(get_tensor(stack[0]), true);
        cr_assert_raises(run_gate("dup", stack), "no gradient today");
        cr_assert_eq(fake_dispatched("aten::is_vulkan_available"), i > 0);
    }
    cr_assert_nothing_live();
}

Test(gate, failures_keep_their_words)
{
    torch_ivalue stack[2];
    fill(stack);
    *(float *)fake_data(get_tensor(stack[0])) = 99;
    cr_assert_raises(run_gate("dup", stack), "dup: x begins with 99");
    cr_assert_nothing_live();
}

Test(gate, batched_tensors_are_pythons)
{
    torch_ivalue stack[2];
    fill(stack);
    cr_assert_ran(run_batch("dup", stack));
    drop(get_tensor(stack[0]));
    cr_assert_eq(n_asked[WICK_ASK_BATCH], 1);
    hook_fails = true;
    fill(stack);
    cr_assert_raises(run_batch("dup", stack), "no gradient today");
    cr_assert_eq(n_calls, 0);
    cr_assert_nothing_live();
}

Test(gate, an_undefined_tensor_is_refused_in_words)
{
    torch_ivalue stack[2] = {put_tensor(fake_undefined()), 0};
    cr_assert_raises(run_gate("dup", stack), "dup: x is None, expected a tensor");
    cr_assert_nothing_live();
}

/* ---- learning ---- */

Test(gate, what_does_not_explain_every_example_is_not_used)
{
    torch_handle a = COUNTING(2), b = COUNTING(3);
    wick_torch_example examples[] = {example_of(a, WICK_TORCH_PLAIN),
                                     example_of(b, WICK_TORCH_PLAIN)};
    cr_assert(wick_torch_learn(examples, 2));
    cr_assert(!wick_torch_learn(examples, 1), "one example proves nothing");
    cr_assert(!wick_torch_internals_usable());
    examples[1].keys = FAKE_KEYS_SUBCLASS; /* not what is in memory */
    cr_assert(!wick_torch_learn(examples, 2));
    fake_set_keys(b, FAKE_KEYS_SUBCLASS);
    cr_assert(wick_torch_learn(examples, 2));
    fake_set_keys(b, FAKE_KEYS_PLAIN);
    examples[1].keys = FAKE_KEYS_PLAIN;
    examples[1].kind = WICK_TORCH_SPECIAL; /* a special one that looks plain */
    cr_assert(!wick_torch_learn(examples, 2));
    examples[1].kind = WICK_TORCH_PLAIN;
    fake_lie_about_gradients(true);
    cr_assert(!wick_torch_learn(examples, 2));
    fake_lie_about_gradients(false);
    shim._ZN2at12hasCallbacksEv = NULL;
    cr_assert(!wick_torch_learn(examples, 2), "a torch without one of the functions");
    cr_assert_eq(wick_torch_kind(a), WICK_TORCH_SPECIAL, "and then nothing is plain");
    drop(a), drop(b);
}

Test(gate, too_many_states_or_a_wish_turn_the_internals_off)
{
    cr_assert(wick_torch_internals_usable());
    for (int i = 1; i < 4; i++)
        cr_assert(wick_torch_learn_state());
    cr_assert(!wick_torch_learn_state());
    cr_assert(!wick_torch_internals_usable());
    torch_begin_with_internals();
    wick_torch_internals_disable();
    cr_assert(!wick_torch_internals_usable());
}

Test(gate, without_internals_there_is_no_gate)
{
    wick_torch_internals_disable();
    registered("other", "x: f32[N], o?: f32[N] -> y: f32[N]", copy_f32);
    torch_ivalue stack[2];
    fill(stack);
    cr_assert(!fake_run("local::other", "AutogradCPU", stack));
    cr_assert(!fake_run("local::other", "FuncTorchBatched", stack));
    cr_assert_ran(run_backend("other", stack));
    drop(get_tensor(stack[0]));
    cr_assert_nothing_live();
}
