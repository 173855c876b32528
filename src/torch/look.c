/* look.c -- looking at a tensor and at the thread, with what internals.c has learnt
 *
 * These few functions run in every call, right after torch's own code has filled the processor's
 * caches with other things: what counts is how little memory they touch.
 */
#include "internals.h"

static inline const torch_known_keys *find_keys(torch_handle handle, const char *impl)
{
    if (!learnt.usable) return NULL;
    uint64_t keys = torch_word_at(impl, learnt.keys_at);
    for (int i = 0; i < learnt.n_keys; i++) {
        torch_known_keys *k = &learnt.known[i];
        if (k->keys != keys) continue;
        bool met = __atomic_load_n(&k->state, __ATOMIC_ACQUIRE) == TORCH_MET;
        return met ? k : torch_meet(k, handle);
    }
    return NULL;
}

WICK_HOT wick_torch_tensor_kind wick_torch_kind(torch_handle handle)
{
    const torch_known_keys *k = find_keys(handle, torch_impl_of(handle));
    return k ? (wick_torch_tensor_kind)k->kind : WICK_TORCH_SPECIAL;
}

bool wick_torch_requires_grad(torch_handle handle)
{
    return shim._ZNK3c1010TensorImpl13requires_gradEv(torch_impl_of(handle));
}

bool wick_torch_has_tangent(torch_handle handle)
{
    return torch_tangent_of(handle) != learnt.no_tangent;
}

/* Where a tensor's elements are, if its memory is its storage's alone; else NULL: torch must be
 * asked, and may have to copy it first. */
static inline void *memory_of(const char *impl, wick_dtype dtype)
{
    if (!learnt.layout.storage) return NULL;
    uint64_t at = torch_word_at(impl, learnt.layout.storage), offset;
    const char *storage;
    char *data;
    memcpy(&storage, &at, sizeof storage);
    at = torch_word_at(storage, learnt.layout.data);
    if (at != torch_word_at(storage, learnt.layout.owner)) return NULL;
    offset = torch_word_at(impl, learnt.layout.offset);
    memcpy(&data, &at, sizeof data);
    return data && offset ? data + offset * wick_dtype_size(dtype) : data;
}

static inline bool read_in_place(int device_type, const char *impl, torch_handle handle,
                                 wick_tensor *out)
{
    uint64_t dim = torch_word_at(impl, learnt.layout.dim);
    uint16_t code;
    if (dim > learnt.layout.n_inline) return false;
    memcpy(&code, impl + learnt.layout.dtype, sizeof code);
    wick_dtype dtype = wick_torch_dtype_of(code);
    out->data = memory_of(impl, dtype);
    out->dim = (int32_t)dim;
    out->dtype = (int32_t)dtype;
    out->device_type = device_type;
    out->device_index = -1;
    if (device_type != WICK_CPU) /* there are several */
        out->device_index = (uint8_t)impl[learnt.layout.device + 1];
    out->size = (const int64_t *)(const void *)(impl + learnt.layout.size);
    out->stride = (const int64_t *)(const void *)(impl + learnt.layout.stride);
    out->handle = handle;
    return out->data != NULL;
}

bool torch_read_in_place(int device_type, torch_handle handle, wick_tensor *out)
{
    return read_in_place(device_type, torch_impl_of(handle), handle, out);
}

static WICK_OUTLINE bool glance_in_full(torch_handle handle, wick_tensor *out, bool *requires_grad)
{
    if (wick_torch_has_tangent(handle)) return false;
    if (wick_torch_requires_grad(handle)) *requires_grad = true;
    wick_torch_read_dense(handle, out);
    return out->dim <= WICK_MAX_RANK;
}

WICK_HOT bool wick_torch_glance(torch_handle handle, wick_tensor *out, bool *requires_grad)
{
    const char *impl = torch_impl_of(handle);
    const torch_known_keys *k = find_keys(handle, impl);
    if (!k) return false;
    if (k->in_place && !torch_word_at(impl, learnt.layout.autograd) &&
        read_in_place(k->device_type, impl, handle, out))
        return true;
    return glance_in_full(handle, out, requires_grad);
}

WICK_HOT void wick_torch_read_dense(torch_handle handle, wick_tensor *out)
{
    const char *impl = torch_impl_of(handle);
    const torch_known_keys *k = find_keys(handle, impl);
    if (!k || !k->in_place || !read_in_place(k->device_type, impl, handle, out))
        wick_torch_read_publicly(handle, out);
}

WICK_HOT bool wick_torch_count_write(torch_handle handle)
{
    const char *impl = torch_impl_of(handle);
    const torch_known_keys *k = find_keys(handle, impl);
    if (!k) return false;
    if (k->kind == WICK_TORCH_INFERENCE) return true; /* those have no counter */
    if (k->in_place && learnt.layout.version)
        __atomic_fetch_add(torch_counter_at(impl, learnt.layout.version), 1, __ATOMIC_SEQ_CST);
    else
        shim._ZN5torch8autograd4impl12bump_versionERKN2at6TensorE(handle);
    return true;
}

/* The symbol is thread-local, so its address is looked up once per thread. */
const uint64_t *torch_thread_state(void)
{
    static _Thread_local const uint64_t *state;
    if (!state) state = torch_shim_symbol("_ZN3c104impl26raw_local_dispatch_key_setE");
    return state;
}

WICK_HOT bool wick_torch_keys_are_plain(void)
{
    const uint64_t *now = torch_thread_state();
    for (int i = 0; i < learnt.n_states; i++)
        if (!((now[0] ^ learnt.states[i][0]) & ~learnt.autocast[0]) &&
            !((now[1] ^ learnt.states[i][1]) & ~learnt.autocast[1]))
            return true;
    return false;
}

bool wick_torch_autocast_is_on(void)
{
    const uint64_t *now = torch_thread_state();
    return ((now[0] ^ learnt.states[0][0]) & learnt.autocast[0]) ||
           ((now[1] ^ learnt.states[0][1]) & learnt.autocast[1]);
}

bool wick_torch_state_is_plain(void)
{
    return wick_torch_keys_are_plain() && !shim._ZN2at4impl27torch_function_mode_enabledEv();
}
