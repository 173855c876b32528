/* test_boxed.c -- torch's calling convention: every kind decoded and encoded, everything given
 * back, also on failure */
#include "bridge_support.h"

#include <string.h>

#define KINDS                                                                                      \
    "x: f32[N], o?: f32[N], g: shape[N, M], i: int, f: float, b: bool, s: str, m: 'sum'|'mean'"    \
    " -> y: f32[N], z?: f32[N], n: int, q: float, r: bool"

/* What `all_kinds` shall do after it has looked at its arguments. */
static wick_status verdict;
static bool had_o, had_z;

/* Slots: x o i f b s m | y z n q r | N M */
static wick_status all_kinds(wick_ctx *ctx, const wick_slot *slot)
{
    const float *x = slot[0].p, *o = slot[1].p;
    float *y = slot[7].p, *z = slot[8].p;
    bool right = slot[2].i == -5 && slot[3].f == 2.5 && slot[4].b && !strcmp(slot[5].s, "words") &&
                 slot[6].i == 1 && slot[12].i == 3 && slot[13].i == 7;
    had_o = o != NULL;
    had_z = z != NULL;
    n_calls++;
    for (int64_t i = 0; i < slot[12].i; i++) {
        y[i] = x[i] + (o ? o[i] : 0);
        if (z) z[i] = -x[i];
    }
    *(int64_t *)slot[9].p = slot[2].i * 2;
    *(double *)slot[10].p = slot[3].f * 2;
    *(bool *)slot[11].p = slot[4].b;
    if (!right) return wick_fail(ctx, WICK_EINVAL, "an argument did not arrive");
    return verdict == WICK_OK ? WICK_OK : wick_fail(ctx, verdict, "refused");
}

/* A stack for it; want_z follows the inputs. */
static void fill(torch_ivalue *stack, bool with_o, bool want_z)
{
    stack[0] = put_tensor(COUNTING(3));
    stack[1] = with_o ? put_box(put_tensor(COUNTING(3))) : 0;
    stack[2] = put_sizes(2, SIZES(3, 7));
    stack[3] = (torch_ivalue)-5;
    stack[4] = put_float(2.5);
    stack[5] = true;
    stack[6] = put_string("words");
    stack[7] = put_string("mean");
    stack[8] = want_z;
}

static void check_and_drop_results(const torch_ivalue *stack, bool with_o, bool want_z)
{
    torch_handle y = get_tensor(stack[0]);
    cr_assert_eq(((float *)fake_data(y))[2], with_o ? 6 : 3);
    drop(y);
    cr_assert_eq(stack[1] != 0, want_z);
    if (want_z) {
        torch_handle z = get_boxed(stack[1]);
        cr_assert_eq(((float *)fake_data(z))[2], -3);
        drop(z);
    }
    cr_assert_eq((int64_t)stack[2], -10);
    cr_assert_eq(get_float(stack[3]), 5.0);
    cr_assert_eq(stack[4], 1);
}

static void run_all_combinations(void)
{
    for (int i = 0; i < 4; i++) {
        bool with_o = i & 1, want_z = i & 2;
        torch_ivalue stack[9];
        fill(stack, with_o, want_z);
        cr_assert_ran(run_backend("kinds", stack));
        cr_assert(had_o == with_o && had_z == want_z);
        check_and_drop_results(stack, with_o, want_z);
        cr_assert_nothing_live();
    }
}

TestSuite(boxed, .init = torch_begin);

Test(boxed, every_kind_arrives_and_comes_back)
{
    registered("kinds", KINDS, all_kinds);
    cr_assert_str_eq(fake_schema("local::kinds"),
                     "kinds(Tensor x, Tensor? o, SymInt[] g, SymInt i, float f, bool b, str s, str "
                     "m, *, bool want_z=True)"
                     " -> (Tensor, Tensor?, int, float, bool)");
    run_all_combinations();
}

Test(boxed, torch_before_2_13_has_boxes_from_operator_new)
{
    use_old_boxes();
    registered("kinds", KINDS, all_kinds);
    run_all_combinations();
}

Test(boxed, a_bool_is_its_lowest_byte)
{
    registered("kinds", KINDS, all_kinds);
    torch_ivalue stack[9];
    fill(stack, false, true);
    stack[5] = 0xdeadbeef00000001u;
    stack[8] = 0xdeadbeef00000000u;
    cr_assert_ran(run_backend("kinds", stack));
    check_and_drop_results(stack, false, false);
    cr_assert_nothing_live();
}

Test(boxed, a_kernel_that_fails_gives_everything_back)
{
    registered("kinds", KINDS, all_kinds);
    torch_ivalue stack[9];
    verdict = WICK_EINVAL;
    fill(stack, true, true);
    cr_assert_raises(run_backend("kinds", stack), "kinds: refused");
    cr_assert_nothing_live();
    fill(stack, true, true);
    stack[3] = 6;
    cr_assert_raises(run_backend("kinds", stack), "kinds: an argument did not arrive");
    cr_assert_nothing_live();
}

/* ---- arguments that are refused ---- */

static void replace(torch_ivalue *at, torch_handle with)
{
    drop(get_tensor(*at));
    *at = put_tensor(with);
}

static void replace_string(torch_ivalue *at, const char *with)
{
    torch_string_handle old;
    memcpy(&old, at, sizeof old);
    shim.torch_delete_string(old);
    *at = put_string(with);
}

Test(boxed, tensors_that_no_operator_can_take_are_refused)
{
    int64_t many[70];
    torch_ivalue stack[9], *box;
    registered("kinds", KINDS, all_kinds);
    for (int i = 0; i < WICK_COUNT(many); i++)
        many[i] = 1;

    fill(stack, true, true);
    replace(&stack[0], fake_undefined());
    cr_assert_raises(run_backend("kinds", stack), "kinds: x is None, expected a tensor");
    cr_assert_nothing_live();

    fill(stack, true, true);
    memcpy(&box, &stack[1], sizeof box);
    replace(box, fake_undefined());
    cr_assert_raises(run_backend("kinds", stack), "kinds: o is None, expected a tensor");
    cr_assert_nothing_live();

    fill(stack, true, true);
    fake_facts_of(get_tensor(stack[0]))->layout = FAKE_SPARSE;
    cr_assert_raises(run_backend("kinds", stack),
                     "kinds: x is sparse or packed, expected a dense (strided) tensor");
    cr_assert_nothing_live();

    fill(stack, true, true);
    replace(&stack[0], fake_tensor(FAKE_F32, 65, many, NULL));
    cr_assert_raises(run_backend("kinds", stack),
                     "kinds: x has 65 dimensions, expected at most 64");
    cr_assert_nothing_live();
}

Test(boxed, types_are_named_in_torchs_words)
{
    static const struct {
        int32_t dtype;
        const char *words;
    } cases[] = {
        {FAKE_F64, "kinds: x is f64, expected f32"},
        {FAKE_BF16, "kinds: x is bf16, expected f32"},
        {FAKE_BOOL, "kinds: x is bool, expected f32"},
        {FAKE_COMPLEX64, "kinds: x is complex64 (complex numbers are not supported), expected f32"},
        {FAKE_COMPLEX128,
         "kinds: x is complex128 (complex numbers are not supported), expected f32"},
        {FAKE_U64, "kinds: x is of a type that Wick does not know, expected f32"},
        {77, "kinds: x is of a type that Wick does not know, expected f32"}};
    torch_ivalue stack[9];
    registered("kinds", KINDS, all_kinds);
    for (int i = 0; i < WICK_COUNT(cases); i++) {
        fill(stack, true, true);
        replace(&stack[0], fake_tensor(cases[i].dtype, 1, SIZES(3), NULL));
        cr_assert_raises(run_backend("kinds", stack), cases[i].words);
        cr_assert_nothing_live();
    }
}

Test(boxed, devices_sizes_and_choices_are_refused_in_words)
{
    torch_ivalue stack[9];
    int64_t many[70] = {0};
    torch_list_handle list;
    registered("kinds", KINDS, all_kinds);

    fill(stack, true, true);
    fake_set_device(get_tensor(stack[0]), FAKE_XLA, 0);
    cr_assert_raises(
        run_backend("kinds", stack),
        "kinds: x is on a device that Wick has no operators for, expected cpu or cuda");
    cr_assert_nothing_live();

    fill(stack, false, true);
    fake_set_device(get_tensor(stack[0]), FAKE_CUDA, 0);
    cr_assert_raises(run_backend("kinds", stack),
                     "kinds: x is on cuda, but the operator has only a CPU version");
    cr_assert_nothing_live();

    fill(stack, true, true);
    replace(&stack[0], COUNTING(4));
    cr_assert_raises(run_backend("kinds", stack), "kinds: o.shape[0] is 3, but N is 4");
    cr_assert_nothing_live();

    fill(stack, true, true);
    memcpy(&list, &stack[2], sizeof list);
    shim.torch_delete_list(list);
    stack[2] = put_sizes(70, many);
    cr_assert_raises(run_backend("kinds", stack),
                     "kinds: g has 70 dimensions, expected at most 64");
    cr_assert_nothing_live();

    fill(stack, true, true);
    replace_string(&stack[7], "median");
    cr_assert_raises(run_backend("kinds", stack), "kinds: m is 'median', expected 'sum' or 'mean'");
    cr_assert_nothing_live();
}

/* ---- whatever torch or the heap refuses ---- */

/* One call; true when it succeeded. Everything must have been given back either way. */
static bool call_once(void (*inject)(long), long n)
{
    torch_ivalue stack[9];
    fill(stack, true, true);
    long live = wick_memory_live();
    inject(n);
    const char *raised = run_backend("kinds", stack);
    inject(0);
    if (!raised) check_and_drop_results(stack, true, true);
    cr_assert_nothing_live();
    cr_assert_eq(wick_memory_live(), live, "failure %ld", n);
    if (raised) cr_assert_gt(strlen(raised), 0);
    return !raised;
}

static long walk(void (*inject)(long))
{
    long n = 1;
    while (!call_once(inject, n))
        cr_assert_lt(++n, 100);
    return n - 1;
}

Test(boxed, whichever_call_of_torch_fails_nothing_is_left)
{
    registered("kinds", KINDS, all_kinds);
    cr_assert_eq(walk(fake_fail_after), 5, "two strings, two tensors, a box");
    use_old_boxes();
    cr_assert_eq(walk(fake_fail_after), 5);
}

Test(boxed, whichever_allocation_fails_nothing_is_left)
{
    registered("kinds", KINDS, all_kinds);
    cr_assert_geq(walk(wick_memory_fail_after), 1);
}

Test(boxed, a_box_that_cannot_be_had_is_an_error)
{
    registered("kinds", KINDS, all_kinds);
    torch_ivalue stack[9];
    fill(stack, false, true);
    fake_fail_after(5);
    cr_assert_raises(run_backend("kinds", stack), "kinds: out of memory");
    cr_assert_nothing_live();
}

Test(boxed, torch_says_why_it_has_no_memory)
{
    registered("dup", "x: f32[N] -> y: f32[N]", record_slots);
    torch_ivalue stack[1] = {put_tensor(COUNTING(3))};
    fake_fail_after(1);
    cr_assert_raises(run_backend("dup", stack),
                     "dup: no memory for a tensor of shape [3] and type f32: injected");
    shim.torch_exception_get_what_without_backtrace = NULL;
    stack[0] = put_tensor(COUNTING(3));
    fake_fail_after(1);
    cr_assert_raises(run_backend("dup", stack),
                     "dup: no memory for a tensor of shape [3] and type f32: torch gave no reason"
                     " (see the error output)");
    cr_assert_nothing_live();
}

Test(boxed, long_messages_are_cut_and_not_lost)
{
    wick_text text = {0};
    registered("modes", "m: 'sum'|'mean' -> n: int", record_slots);
    for (int i = 0; i < 600; i++)
        wick_text_add(&text, "0123456789");
    torch_ivalue stack[1] = {put_string(wick_text_str(&text))};
    const char *raised = run_backend("modes", stack);
    cr_assert(raised && strlen(raised) == 4095 && !strncmp(raised, "modes: m is '0123", 17));
    cr_assert_nothing_live();
    wick_text_free(&text);
}

Test(boxed, messages_are_utf8_whatever_an_argument_is)
{
    registered("modes", "m: 'sum'|'mean' -> n: int", record_slots);
    torch_ivalue stack[1] = {put_string("\xfd me")};
    const char *raised = run_backend("modes", stack);
    cr_assert(raised && !strncmp(raised, "modes: m is '? me'", 18), "%s", raised);
    cr_assert_nothing_live();
}
