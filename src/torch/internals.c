/* internals.c -- what torch does not offer in C, learnt at start and never assumed
 *
 * Whether a tensor is plain, needs a gradient, or whether some mode is active are questions that
 * torch answers in C++ and Python only. Asking Python costs more than most small operators. So,
 * once, Python hands over example tensors with the right answers, and this file looks for the place
 * in memory that gives them: a tensor's dispatch keys are one 64-bit word of its implementation. A
 * place that does not explain every example is not used, and then every call takes the public way.
 */
#include "bridge.h"

#include <string.h>

enum {
    FIRST_WORD = 2, /* behind the vtable and the reference count */
    LAST_WORD =
        25, /* a tensor's implementation is at least this long in every torch from 2.10 on */
    MAX_KEYS = 16,
    MAX_STATES = 4
};

static struct {
    bool usable;
    int word;
    int n_keys;
    uint64_t keys[MAX_KEYS];
    wick_torch_tensor_kind kinds[MAX_KEYS];
    int32_t devices[MAX_KEYS]; /* torch's number of the device, where there is one of its kind; else
                                  -1 */
    const void *no_tangent;    /* what a tensor without a forward gradient answers */
    int n_states;
    uint64_t states[MAX_STATES][2];
} learnt;

static uint64_t word_of(const void *impl, int word)
{
    uint64_t w;
    memcpy(&w, (const char *)impl + (size_t)word * sizeof w, sizeof w);
    return w;
}

static bool explains(int word, const wick_torch_example *examples, int n)
{
    for (int i = 0; i < n; i++)
        if (word_of(examples[i].impl, word) != examples[i].keys) return false;
    return true;
}

/* CPU and meta tensors need not be asked for their device: their keys tell. */
static int32_t device_of(const void *impl)
{
    int32_t device = -1;
    shim.aoti_torch_get_device_type((torch_handle)(void *)&impl,
                                    &device); /* a tensor is a pointer to its impl */
    bool single =
        device == shim.aoti_torch_device_type_cpu() || device == shim.aoti_torch_device_type_meta();
    return single ? device : -1;
}

static void remember(const wick_torch_example *e)
{
    for (int i = 0; i < learnt.n_keys; i++)
        if (learnt.keys[i] == e->keys) return;
    if (e->kind == WICK_TORCH_SPECIAL || learnt.n_keys == MAX_KEYS) return;
    learnt.keys[learnt.n_keys] = e->keys;
    learnt.devices[learnt.n_keys] = device_of(e->impl);
    learnt.kinds[learnt.n_keys++] = e->kind;
}

static const void *impl_of(torch_handle handle)
{
    const void *impl;
    memcpy(&impl, (const void *)handle, sizeof impl);
    return impl;
}

/* The implementation behind what a tensor answers when asked for its forward gradient. */
static const void *tangent_of(torch_handle handle)
{
    const void *impl;
    memcpy(&impl,
           shim._ZNK3c1010TensorImpl8_fw_gradEmRKN2at10TensorBaseE(impl_of(handle), 0, handle),
           sizeof impl);
    return impl;
}

bool wick_torch_has_tangent(torch_handle handle) { return tangent_of(handle) != learnt.no_tangent; }

bool wick_torch_learn(const wick_torch_example *examples, int n)
{
    learnt.usable = false;
    learnt.word = -1;
    learnt.n_keys = learnt.n_states = 0;
    bool have = shim._ZNK3c1010TensorImpl13requires_gradEv &&
                shim._ZNK3c1010TensorImpl8_fw_gradEmRKN2at10TensorBaseE &&
                shim._ZN5torch8autograd4impl12bump_versionERKN2at6TensorE &&
                shim._ZN2at4impl27torch_function_mode_enabledEv && shim._ZN2at12hasCallbacksEv;
    if (!have || n < 2) return false;
    for (int w = FIRST_WORD; w <= LAST_WORD && learnt.word < 0; w++)
        if (explains(w, examples, n)) learnt.word = w;
    if (learnt.word < 0) return false;
    for (int i = 0; i < n; i++) {
        const void *impl = examples[i].impl, *none = tangent_of((torch_handle)(void *)&impl);
        if (i == 0) learnt.no_tangent = none;
        if (none != learnt.no_tangent) return false;
        if (shim._ZNK3c1010TensorImpl13requires_gradEv(examples[i].impl) !=
            examples[i].requires_grad)
            return false;
        remember(&examples[i]);
    }
    /* A special tensor that looks like a plain one would be run as if it were. */
    for (int i = 0; i < n; i++)
        for (int k = 0; k < learnt.n_keys; k++)
            if (examples[i].keys == learnt.keys[k] && examples[i].kind != learnt.kinds[k])
                return false;
    learnt.usable = true;
    return true;
}

/* The thread's dispatch state: two words, zero when nothing is active. The symbol is thread-local,
 * so its address is looked up once per thread. */
static const uint64_t *thread_state(void)
{
    static _Thread_local const uint64_t *state;
    if (!state) state = torch_shim_symbol("_ZN3c104impl26raw_local_dispatch_key_setE");
    return state;
}

bool wick_torch_learn_state(void)
{
    const uint64_t *state = thread_state();
    if (!state || learnt.n_states == MAX_STATES) return learnt.usable = false;
    memcpy(learnt.states[learnt.n_states++], state, sizeof learnt.states[0]);
    return true;
}

bool wick_torch_internals_usable(void) { return learnt.usable && learnt.n_states > 0; }
void wick_torch_internals_disable(void) { learnt.usable = false; }

static int find_keys(torch_handle handle)
{
    if (!learnt.usable) return -1;
    uint64_t keys = word_of(impl_of(handle), learnt.word);
    for (int i = 0; i < learnt.n_keys; i++)
        if (learnt.keys[i] == keys) return i;
    return -1;
}

wick_torch_tensor_kind wick_torch_kind(torch_handle handle)
{
    int i = find_keys(handle);
    return i < 0 ? WICK_TORCH_SPECIAL : learnt.kinds[i];
}

int32_t wick_torch_known_device(torch_handle handle)
{
    int i = find_keys(handle);
    return i < 0 ? -1 : learnt.devices[i];
}

bool wick_torch_requires_grad(torch_handle handle)
{
    return shim._ZNK3c1010TensorImpl13requires_gradEv(impl_of(handle));
}

bool wick_torch_keys_are_plain(void)
{
    const uint64_t *now = thread_state();
    for (int i = 0; i < learnt.n_states; i++)
        if (now[0] == learnt.states[i][0] && now[1] == learnt.states[i][1]) return true;
    return false;
}

bool wick_torch_state_is_plain(void)
{
    return wick_torch_keys_are_plain() && !shim._ZN2at4impl27torch_function_mode_enabledEv();
}
