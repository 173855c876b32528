/* bridge_support.c -- operators registered with the stand-in, and stacks to call them with */
#include "bridge_support.h"

#include <stdio.h>
#include <string.h>

void torch_begin(void)
{
    cr_assert_eq(wick_torch_init(&test_ctx), WICK_OK, "%s", wick_ctx_message(&test_ctx));
}

wick_torch_example example_of(torch_handle handle, wick_torch_tensor_kind kind)
{
    return (wick_torch_example){
        .impl = fake_impl_of(handle),
        .keys = fake_keys(handle),
        .kind = kind,
        .requires_grad = fake_requires_grad(handle),
        .storage = fake_facts_of(handle)->device == FAKE_CPU ? fake_storage_of(handle) : NULL,
        .shared = fake_is_shared(handle),
        .version = (uint32_t)fake_version(handle)};
}

/* Of several ranks, element types, offsets and versions; two that require a gradient, one that
 * shares its memory, one on meta, one of inference mode, a subclass. */
enum { N_EXAMPLES = 13, META = 9, INFERENCE = 10, SUBCLASS = 11 };

static void make_examples(torch_handle *out)
{
    static const int64_t size[] = {2, 3, 1, 2, 2, 2};
    static const int32_t dtypes[] = {FAKE_F32, FAKE_F16, FAKE_F64, FAKE_I8, FAKE_BOOL, FAKE_I64};
    for (int i = 0; i < N_EXAMPLES; i++)
        out[i] = fake_tensor(dtypes[i % 6], i % 7 < 6 ? i % 7 : 6, size, NULL);
    fake_set_requires_grad(out[1], true);
    fake_set_requires_grad(out[2], true);
    fake_move(out[3], 1);
    fake_move(out[4], 2);
    for (int i = 0; i < 3; i++)
        fake_bump(out[5]), fake_bump(out[6 + i % 2]);
    fake_share(out[8]);
    fake_set_device(out[META], FAKE_META, -1);
    fake_set_keys(out[INFERENCE], FAKE_KEYS_INFERENCE);
    fake_set_keys(out[SUBCLASS], FAKE_KEYS_SUBCLASS);
}

bool learn_all(void)
{
    torch_handle handles[N_EXAMPLES];
    wick_torch_example examples[N_EXAMPLES];
    make_examples(handles);
    for (int i = 0; i < N_EXAMPLES; i++)
        examples[i] = example_of(handles[i], i == INFERENCE  ? WICK_TORCH_INFERENCE
                                             : i == SUBCLASS ? WICK_TORCH_SPECIAL
                                                             : WICK_TORCH_PLAIN);
    bool learnt = wick_torch_learn(examples, N_EXAMPLES);
    wick_torch_expect(FAKE_KEYS_PLAIN_CUDA, WICK_TORCH_PLAIN);
    wick_torch_expect(FAKE_KEYS_INFERENCE_CUDA, WICK_TORCH_INFERENCE);
    for (int i = 0; i < N_EXAMPLES; i++)
        drop(handles[i]);
    return learnt;
}

void torch_begin_with_internals(void)
{
    torch_begin();
    cr_assert(learn_all());
    cr_assert(!wick_torch_internals_usable(), "not before a state was learnt");
    cr_assert(wick_torch_learn_state());
    cr_assert(wick_torch_internals_usable());
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
    return registered_on(name, signature, cpu, NULL);
}

wick_op *registered_on(const char *name, const char *signature, wick_entry cpu, wick_entry cuda)
{
    wick_op *op = define_on(name, signature, cpu, cuda);
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
