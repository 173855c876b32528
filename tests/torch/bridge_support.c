/* bridge_support.c -- operators registered with the stand-in, and stacks to call them with */
#include "bridge_support.h"

#include <stdio.h>
#include <string.h>

void torch_begin(void)
{
    cr_assert_eq(wick_torch_init(&test_ctx), WICK_OK, "%s", wick_ctx_message(&test_ctx));
}

void torch_begin_with_internals(void)
{
    torch_begin();
    torch_handle plain = COUNTING(2), other = COUNTING(3, 2), inference = COUNTING(1),
                 special = COUNTING(4);
    torch_handle learned = COUNTING(2);
    fake_set_keys(inference, FAKE_KEYS_INFERENCE);
    fake_set_keys(special, FAKE_KEYS_SUBCLASS);
    fake_facts_of(learned)->requires_grad = true;
    const wick_torch_example examples[] = {
        {fake_impl_of(plain), FAKE_KEYS_PLAIN, WICK_TORCH_PLAIN, false},
        {fake_impl_of(other), FAKE_KEYS_PLAIN, WICK_TORCH_PLAIN, false},
        {fake_impl_of(inference), FAKE_KEYS_INFERENCE, WICK_TORCH_INFERENCE, false},
        {fake_impl_of(special), FAKE_KEYS_SUBCLASS, WICK_TORCH_SPECIAL, false},
        {fake_impl_of(learned), FAKE_KEYS_PLAIN, WICK_TORCH_PLAIN, true},
    };
    cr_assert(wick_torch_learn(examples, WICK_COUNT(examples)));
    cr_assert(!wick_torch_internals_usable(), "not before a state was learnt");
    cr_assert(wick_torch_learn_state());
    cr_assert(wick_torch_internals_usable());
    drop(plain), drop(other), drop(inference), drop(special), drop(learned);
}

void use_old_boxes(void)
{
    shim.torch_new_stable_ivalue = NULL;
    shim.torch_delete_stable_ivalue = NULL;
    shim._Znwm = fake_new; /* dlsym has found those of libstdc++, if it is in the process */
    shim._ZdlPv = fake_delete;
}

void register_op(wick_op *op)
{
    bool changed;
    wick_ctx_clear(&test_ctx);
    cr_assert_eq(wick_torch_register(&test_ctx, op, &changed), WICK_OK, "%s",
                 wick_ctx_message(&test_ctx));
}

wick_op *registered(const char *name, const char *signature, wick_entry cpu)
{
    wick_op *op = define_op(name, signature, cpu);
    register_op(op);
    return op;
}

torch_ivalue put_tensor(torch_handle handle)
{
    torch_ivalue v = 0;
    memcpy(&v, &handle, sizeof handle);
    return v;
}

torch_handle get_tensor(torch_ivalue value)
{
    torch_handle handle;
    memcpy(&handle, &value, sizeof handle);
    return handle;
}

torch_ivalue put_box(torch_ivalue value)
{
    torch_ivalue *box = torch_box_new(value), v = 0;
    memcpy(&v, &box, sizeof box);
    return v;
}

torch_handle get_boxed(torch_ivalue value)
{
    torch_ivalue *box;
    memcpy(&box, &value, sizeof box);
    torch_handle handle = get_tensor(*box);
    torch_box_free(box);
    return handle;
}

torch_ivalue put_float(double f)
{
    torch_ivalue v;
    memcpy(&v, &f, sizeof v);
    return v;
}

double get_float(torch_ivalue value)
{
    double f;
    memcpy(&f, &value, sizeof f);
    return f;
}

torch_ivalue put_string(const char *text)
{
    torch_string_handle string;
    torch_ivalue v = 0;
    cr_assert_eq(shim.torch_new_string_handle(text, strlen(text), &string), 0);
    memcpy(&v, &string, sizeof string);
    return v;
}

torch_ivalue put_sizes(int n, const int64_t *sizes)
{
    torch_list_handle list;
    torch_ivalue v = 0;
    cr_assert_eq(shim.torch_new_list_reserve_size((size_t)n, &list), 0);
    for (int i = 0; i < n; i++)
        cr_assert_eq(shim.torch_list_push_back(list, (torch_ivalue)sizes[i]), 0);
    memcpy(&v, &list, sizeof list);
    return v;
}

torch_handle counting(int dim, const int64_t *size)
{
    torch_handle handle = fake_tensor(FAKE_F32, dim, size, NULL);
    float *data = fake_data(handle);
    for (int64_t i = 0; i < wick_shape_numel(dim, size); i++)
        data[i] = (float)(i + 1);
    return handle;
}

void drop(torch_handle handle) { shim.aoti_torch_delete_tensor_object(handle); }

static const char *run_on(const char *name, const char *key, torch_ivalue *stack)
{
    char qualified[128];
    snprintf(qualified, sizeof qualified, "local::%s", name);
    cr_assert_null(fake_raised());
    cr_assert(fake_run(qualified, key, stack), "no %s kernel for %s", key, qualified);
    return fake_raised();
}

const char *run_backend(const char *name, torch_ivalue *stack)
{
    return run_on(name, "CompositeExplicitAutograd", stack);
}

const char *run_gate(const char *name, torch_ivalue *stack)
{
    return run_on(name, "AutogradCPU", stack);
}

const char *run_batch(const char *name, torch_ivalue *stack)
{
    return run_on(name, "FuncTorchBatched", stack);
}
