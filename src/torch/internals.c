/* internals.c -- what torch does not offer in C, learnt at start and never assumed
 *
 * Whether a tensor is plain, needs a gradient, or whether some mode is active are questions that
 * torch answers in C++ and Python only. Asking Python costs more than most small operators. So,
 * once, Python hands over example tensors with the right answers, and this file looks for the place
 * in memory that gives them: a tensor's dispatch keys are one 64-bit word of its implementation. A
 * place that does not explain every example is not used, and then every call takes the public way.
 *
 * The same holds for sizes, strides and element type, which torch does tell in C, one call each: in
 * a call of 100 ns those are half. They are looked for with the public answers to the same examples
 * in hand, and where they are not found the public functions go on being asked.
 */
#include "internals.h"

enum {
    FIRST_BYTE = 16, /* behind the vtable and the reference count */
    LAST_BYTE =
        200, /* a tensor's implementation is at least this long in every torch from 2.10 on */
    WORD = sizeof(uint64_t),
    MOST_INLINE = 64, /* bytes of sizes */
    FEWEST_RANKS = 4, /* among the examples: fewer would prove too little */
    FEWEST_DTYPES = 4,
    FEWEST_WITHOUT = 3,
    FEWEST_VERSIONS = 3
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

/* Asking a tensor that shares its memory where that is would give it memory of its own. */
static bool may_be_read(const wick_torch_example *e)
{
    return e->kind != WICK_TORCH_SPECIAL && !e->shared;
}

static wick_tensor read_publicly(const wick_torch_example *e)
{
    const void *impl = e->impl;
    wick_tensor t;
    wick_torch_read_publicly((torch_handle)(void *)&impl,
                             &t); /* a tensor is a pointer to its impl */
    return t;
}

static void remember(const wick_torch_example *e)
{
    for (int i = 0; i < learnt.n_keys; i++)
        if (learnt.known[i].keys == e->keys) return;
    if (!may_be_read(e) || learnt.n_keys == TORCH_MAX_KEYS) return;
    wick_tensor t = read_publicly(e);
    learnt.known[learnt.n_keys++] = (torch_known_keys){
        .keys = e->keys,
        .kind = (uint8_t)e->kind,
        .device_type = (uint8_t)t.device_type,
    };
}

/* ---- layout ---- */

/* Sizes and strides of a tensor of few dims are inside it: the public answer points there. The
 * number of dims is the word in front. */
static bool learn_sizes(const wick_torch_example *examples, int n, torch_layout *out)
{
    unsigned ranks = 0;
    for (int i = 0; i < n; i++) {
        if (!may_be_read(&examples[i])) continue;
        wick_tensor t = read_publicly(&examples[i]);
        const char *impl = examples[i].impl;
        int64_t size = (int64_t)((uintptr_t)t.size - (uintptr_t)impl),
                stride = (int64_t)((uintptr_t)t.stride - (uintptr_t)impl);
        if (!out->size) { /* the first one says where, the others must agree */
            bool fits = size >= FIRST_BYTE + WORD && size < stride && stride < learnt.keys_at &&
                        stride - size <= MOST_INLINE;
            if (!fits) return false;
            out->n_inline = (uint8_t)((stride - size) / WORD);
            out->dim = (uint16_t)(size - WORD);
            out->size = (uint16_t)size;
            out->stride = (uint16_t)stride;
        }
        if (torch_word_at(impl, out->dim) != (uint64_t)t.dim) return false;
        bool inside = size == out->size && stride == out->stride;
        if (inside != (t.dim <= out->n_inline)) return false;
        ranks |= 1u << (t.dim < 31 ? t.dim : 31);
    }
    return __builtin_popcount(ranks) >= FEWEST_RANKS;
}

static int32_t code_at(const char *impl, int offset)
{
    uint16_t code;
    memcpy(&code, impl + offset, sizeof code);
    return code;
}

/* The one place that holds the element type's number in every example. */
static bool learn_dtype(const wick_torch_example *examples, int n, torch_layout *out)
{
    uint64_t seen = 0;
    for (int i = 0; i < n; i++)
        if (may_be_read(&examples[i])) seen |= UINT64_C(1) << read_publicly(&examples[i]).dtype;
    if (__builtin_popcountll(seen) < FEWEST_DTYPES) return false;
    for (int at = FIRST_BYTE; at < learnt.keys_at; at += (int)sizeof(uint16_t)) {
        bool fits = true;
        for (int i = 0; i < n && fits; i++)
            fits = !may_be_read(&examples[i]) ||
                   code_at(examples[i].impl, at) ==
                       wick_torch_dtype((wick_dtype)read_publicly(&examples[i]).dtype);
        if (fits && out->dtype) return false; /* two places: neither is certain */
        if (fits) out->dtype = (uint16_t)at;
    }
    return out->dtype != 0;
}

/* It can be where an object is: not small, not too large, aligned. */
static bool is_address(uint64_t word) { return word >> 16 && !(word >> 56) && word % WORD == 0; }

/* The one pointer that is set in every tensor that requires a gradient, and in few others. Tensors
 * of inference mode have no version counter either, so they show nothing here. */
static bool learn_autograd(const wick_torch_example *examples, int n, torch_layout *out)
{
    for (int at = FIRST_BYTE; at < learnt.keys_at; at += WORD) {
        int n_null = 0, n_requiring = 0;
        bool fits = true;
        for (int i = 0; i < n && fits; i++) {
            if (examples[i].kind != WICK_TORCH_PLAIN) continue;
            uint64_t word = torch_word_at(examples[i].impl, at);
            fits = is_address(word) || (word == 0 && !examples[i].requires_grad);
            n_null += word == 0;
            n_requiring += examples[i].requires_grad;
        }
        if (!fits || n_null < FEWEST_WITHOUT || n_requiring < 2) continue;
        if (out->autograd) return false;
        out->autograd = (uint16_t)at;
    }
    return out->autograd != 0;
}

static bool has_memory(const wick_torch_example *e)
{
    return e->kind != WICK_TORCH_SPECIAL && e->storage;
}

/* The one word that is what the example says of it, in all examples that it concerns; or 0. */
static uint16_t find_word(const wick_torch_example *examples, int n,
                          uint64_t (*what)(const wick_torch_example *e),
                          bool (*concerns)(const wick_torch_example *e))
{
    uint16_t found = 0;
    for (int at = FIRST_BYTE; at < learnt.keys_at; at += WORD) {
        bool fits = true;
        for (int i = 0; i < n && fits; i++)
            fits = !concerns(&examples[i]) ||
                   torch_word_at(examples[i].impl, at) == what(&examples[i]);
        if (fits && found) return 0;
        if (fits) found = (uint16_t)at;
    }
    return found;
}

static uint64_t storage_of(const wick_torch_example *e) { return (uintptr_t)e->storage; }

static uint64_t offset_of(const wick_torch_example *e)
{
    const void *impl = e->impl;
    int64_t offset = -1;
    shim.aoti_torch_get_storage_offset((torch_handle)(void *)&impl, &offset);
    return (uint64_t)offset;
}

/* In a storage that is a tensor's own, the address of its memory stands twice: as such, and as what
 * is to be freed. A storage that shares its memory until it is written owns something else. */
static bool learn_owner(const wick_torch_example *examples, int n, int data, int owner)
{
    int n_own = 0, n_shared = 0;
    for (int i = 0; i < n; i++) {
        if (!has_memory(&examples[i])) continue;
        uint64_t at = torch_word_at(examples[i].storage, data),
                 owned = torch_word_at(examples[i].storage, owner);
        if (examples[i].shared ? at == owned : at != owned) return false;
        n_own += !examples[i].shared;
        n_shared += examples[i].shared;
        if (examples[i].shared) continue;
        wick_tensor t = read_publicly(&examples[i]);
        uint64_t start =
            (uintptr_t)t.data - offset_of(&examples[i]) * wick_dtype_size((wick_dtype)t.dtype);
        if (at != start || !at) return false;
    }
    return n_own >= 4 && n_shared >= 1;
}

static void learn_memory(const wick_torch_example *examples, int n, torch_layout *out)
{
    enum {
        DATA = 16,
        LAST = 32
    }; /* a storage is at least this long: a place, a pointer, its end */
    uint16_t storage = find_word(examples, n, storage_of, has_memory);
    out->offset = find_word(examples, n, offset_of, has_memory);
    for (int owner = DATA + WORD; storage && out->offset && owner <= LAST; owner += WORD)
        if (learn_owner(examples, n, DATA, owner)) {
            out->storage = storage;
            out->data = DATA;
            out->owner = (uint8_t)owner;
            return;
        }
}

/* The one pointer that plain tensors have and those of inference mode have not. What it points at
 * is looked into only if it can be an object's address in every example. */
static uint16_t find_counter(const wick_torch_example *examples, int n)
{
    uint16_t found = 0;
    for (int at = FIRST_BYTE; at < learnt.keys_at; at += WORD) {
        int n_with = 0, n_without = 0;
        bool fits = true;
        for (int i = 0; i < n && fits; i++) {
            if (!has_memory(&examples[i])) continue;
            uint64_t word = torch_word_at(examples[i].impl, at);
            bool counted = examples[i].kind == WICK_TORCH_PLAIN;
            fits = counted ? is_address(word) : word == 0;
            n_with += counted;
            n_without += !counted;
        }
        if (!fits || n_with < 4 || n_without < 1) continue;
        if (found) return 0;
        found = (uint16_t)at;
    }
    return found;
}

/* The counters must be at what Python says they are, and count what torch's own function counts. */
static void learn_version(const wick_torch_example *examples, int n, torch_layout *out)
{
    uint16_t at = find_counter(examples, n);
    unsigned seen = 0;
    if (!at) return;
    for (int i = 0; i < n; i++) {
        if (!has_memory(&examples[i]) || examples[i].kind != WICK_TORCH_PLAIN) continue;
        const void *impl = examples[i].impl;
        const uint32_t *counter = torch_counter_at(impl, at);
        if (*counter != examples[i].version) return;
        shim._ZN5torch8autograd4impl12bump_versionERKN2at6TensorE((torch_handle)(void *)&impl);
        if (*counter != examples[i].version + 1) return;
        seen |= 1u << (examples[i].version < 31 ? examples[i].version : 31);
    }
    if (__builtin_popcount(seen) >= FEWEST_VERSIONS) out->version = at;
}

static void learn_layout(const wick_torch_example *examples, int n)
{
    torch_layout layout = {0};
    layout.known = learn_sizes(examples, n, &layout) && learn_dtype(examples, n, &layout) &&
                   learn_autograd(examples, n, &layout);
    if (layout.known) {
        learn_memory(examples, n, &layout);
        learn_version(examples, n, &layout);
    }
    learnt.layout = layout;
    /* Sizes of a meta tensor may be symbols, which only torch can evaluate. */
    for (int i = 0; i < learnt.n_keys; i++)
        learnt.known[i].in_place = layout.known && learnt.known[i].device_type == WICK_CPU;
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
    for (int at = FIRST_BYTE; at <= LAST_BYTE && !learnt.keys_at; at += WORD)
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
    learn_layout(examples, n);
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

bool wick_torch_internals_usable(void) { return learnt.usable && learnt.n_states > 0; }

wick_torch_known wick_torch_what_is_known(void)
{
    bool layout = learnt.usable && learnt.layout.known;
    return (wick_torch_known){.layout = layout,
                              .memory = layout && learnt.layout.storage,
                              .versions = layout && learnt.layout.version};
}

void wick_torch_internals_disable(void) { learnt.usable = false; }
