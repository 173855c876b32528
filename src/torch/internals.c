/* internals.c -- what torch does not offer in C, learnt at start and never assumed
 *
 * Whether a tensor is plain, needs a gradient, or whether some mode is active are questions that
 * torch answers in C++ and Python only. Asking Python costs more than most small operators. So,
 * once, Python hands over example tensors with the right answers, and this file looks for the place
 * in memory that gives them: a tensor's dispatch keys are one 64-bit word of its implementation. A
 * place that does not explain every example is not used, and then every call takes the public way.
 *
 * There is no example of a CUDA tensor: making one would start CUDA, which an import must not do.
 * Python says what keys one will have; the first tensor that comes with them is the example.
 */
#include "internals.h"

enum {
    LAST_BYTE =
        200 /* a tensor's implementation is at least this long in every torch from 2.10 on */
};

_Alignas(64) torch_learnt learnt;

const void *torch_tangent_of(torch_handle handle)
{
    const void *impl;
    memcpy(
        &impl,
        shim._ZNK3c1010TensorImpl8_fw_gradEmRKN2at10TensorBaseE(torch_impl_of(handle), 0, handle),
        sizeof impl);
    return impl;
}

/* ---- dispatch keys ---- */

static bool explains(int offset, const wick_torch_example *examples, int n)
{
    for (int i = 0; i < n; i++)
        if (torch_word_at(examples[i].impl, offset) != examples[i].keys) return false;
    return true;
}

static void remember(const wick_torch_example *e)
{
    for (int i = 0; i < learnt.n_keys; i++)
        if (learnt.known[i].keys == e->keys) return;
    if (!torch_may_be_read(e) || learnt.n_keys == TORCH_MAX_KEYS) return;
    wick_tensor t = torch_read_example(e);
    learnt.known[learnt.n_keys++] = (torch_known_keys){
        .keys = e->keys,
        .kind = (uint8_t)e->kind,
        .device_type = (uint8_t)t.device_type,
    };
}

void wick_torch_expect(uint64_t keys, wick_torch_tensor_kind kind)
{
    if (learnt.n_keys == TORCH_MAX_KEYS) return;
    for (int i = 0; i < learnt.n_keys; i++)
        if (learnt.known[i].keys == keys) return;
    learnt.known[learnt.n_keys++] = (torch_known_keys){
        .keys = keys, .kind = (uint8_t)kind, .device_type = WICK_CUDA, .state = TORCH_EXPECTED};
}

static bool same_tensor(const wick_tensor *a, const wick_tensor *b)
{
    return a->data == b->data && a->dim == b->dim && a->dtype == b->dtype && a->size == b->size &&
           a->stride == b->stride && a->device_index == b->device_index;
}

/* Two threads may meet two tensors at once: both come to the same answer. */
WICK_COLD const torch_known_keys *torch_meet(torch_known_keys *k, torch_handle handle)
{
    wick_tensor asked, found;
    if (__atomic_load_n(&k->state, __ATOMIC_ACQUIRE) == TORCH_REFUSED) return NULL;
    wick_torch_read_publicly(handle, &asked);
    if (asked.device_type != k->device_type || !wick_torch_is_dense(handle)) {
        __atomic_store_n(&k->state, TORCH_REFUSED, __ATOMIC_RELEASE);
        return NULL;
    }
    bool in_place = learnt.layout.known && learnt.layout.device;
    /* One that cannot be read in place by itself leaves the question to the next. */
    if (in_place && !torch_read_in_place(k->device_type, handle, &found)) return k;
    __atomic_store_n(&k->in_place, in_place && same_tensor(&asked, &found), __ATOMIC_RELAXED);
    __atomic_store_n(&k->state, TORCH_MET, __ATOMIC_RELEASE);
    return k;
}

/* ---- all of it ---- */

static bool has_functions(void)
{
    return shim._ZNK3c1010TensorImpl13requires_gradEv &&
           shim._ZNK3c1010TensorImpl8_fw_gradEmRKN2at10TensorBaseE &&
           shim._ZN5torch8autograd4impl12bump_versionERKN2at6TensorE &&
           shim._ZN2at4impl27torch_function_mode_enabledEv && shim._ZN2at12hasCallbacksEv;
}

bool wick_torch_learn(const wick_torch_example *examples, int n)
{
    learnt = (torch_learnt){0};
    if (!has_functions() || n < 2) return false;
    for (int at = TORCH_FIRST_BYTE; at <= LAST_BYTE && !learnt.keys_at; at += TORCH_WORD)
        if (explains(at, examples, n)) learnt.keys_at = (uint16_t)at;
    if (!learnt.keys_at) return false;
    for (int i = 0; i < n; i++) {
        const void *impl = examples[i].impl, *none = torch_tangent_of((torch_handle)(void *)&impl);
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
            if (examples[i].keys == learnt.known[k].keys &&
                (int)examples[i].kind != learnt.known[k].kind)
                return false;
    torch_learn_layout(examples, n);
    learnt.usable = true;
    return true;
}

bool wick_torch_learn_tangent(torch_handle dual)
{
    bool seen = torch_tangent_of(dual) != learnt.no_tangent;
    /* A tangent that autograd's pointer does not show would be lost. */
    if (learnt.layout.known && !torch_word_at(torch_impl_of(dual), learnt.layout.autograd)) {
        learnt.layout.known = false;
        for (int i = 0; i < learnt.n_keys; i++)
            learnt.known[i].in_place = false;
    }
    return seen;
}

bool wick_torch_learn_state(void)
{
    const uint64_t *state = torch_thread_state();
    if (!state || learnt.n_states == TORCH_MAX_STATES) return learnt.usable = false;
    memcpy(learnt.states[learnt.n_states++], state, sizeof learnt.states[0]);
    return true;
}

bool wick_torch_learn_autocast(void)
{
    const uint64_t *state = torch_thread_state();
    if (!state || learnt.n_states == 0) return false;
    uint64_t bits[2] = {state[0] ^ learnt.states[0][0], state[1] ^ learnt.states[0][1]};
    if (__builtin_popcountll(bits[0]) + __builtin_popcountll(bits[1]) != 1) return false;
    learnt.autocast[0] |= bits[0];
    learnt.autocast[1] |= bits[1];
    return true;
}

bool wick_torch_internals_usable(void) { return learnt.usable && learnt.n_states > 0; }

wick_torch_known wick_torch_what_is_known(void)
{
    bool layout = learnt.usable && learnt.layout.known;
    return (wick_torch_known){.layout = layout,
                              .memory = layout && learnt.layout.storage,
                              .versions = layout && learnt.layout.version,
                              .devices = layout && learnt.layout.device};
}

void wick_torch_internals_disable(void) { learnt.usable = false; }
