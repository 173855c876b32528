/* layout.c -- where torch keeps a tensor's sizes, strides, element type, memory and version
 *
 * torch does tell all of these in C, one call each: in a call of 100 ns those are half. They are
 * looked for in the examples (internals.c) with the public answers in hand, and what is not found,
 * or found in two places, goes on being asked for.
 */
#include "internals.h"

enum {
    MOST_INLINE = 64, /* bytes of sizes */
    FEWEST_RANKS = 4, /* among the examples: fewer would prove too little */
    FEWEST_DTYPES = 4,
    FEWEST_WITHOUT = 3,
    FEWEST_VERSIONS = 3
};

/* Asking a tensor that shares its memory where that is would give it memory of its own. */
bool torch_may_be_read(const wick_torch_example *e)
{
    return e->kind != WICK_TORCH_SPECIAL && !e->shared;
}

wick_tensor torch_read_example(const wick_torch_example *e)
{
    const void *impl = e->impl;
    wick_tensor t;
    wick_torch_read_publicly((torch_handle)(void *)&impl, &t);
    return t;
}

/* Sizes and strides of a tensor of few dims are inside it: the public answer points there. The
 * number of dims is the word in front. */
static bool learn_sizes(const wick_torch_example *examples, int n, torch_layout *out)
{
    unsigned ranks = 0;
    for (int i = 0; i < n; i++) {
        if (!torch_may_be_read(&examples[i])) continue;
        wick_tensor t = torch_read_example(&examples[i]);
        const char *impl = examples[i].impl;
        int64_t size = (int64_t)((uintptr_t)t.size - (uintptr_t)impl),
                stride = (int64_t)((uintptr_t)t.stride - (uintptr_t)impl);
        if (!out->size) { /* the first one says where, the others must agree */
            bool fits = size >= TORCH_FIRST_BYTE + TORCH_WORD && size < stride &&
                        stride < learnt.keys_at && stride - size <= MOST_INLINE;
            if (!fits) return false;
            out->n_inline = (uint8_t)((stride - size) / TORCH_WORD);
            out->dim = (uint16_t)(size - TORCH_WORD);
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
        if (torch_may_be_read(&examples[i]))
            seen |= UINT64_C(1) << torch_read_example(&examples[i]).dtype;
    if (__builtin_popcountll(seen) < FEWEST_DTYPES) return false;
    for (int at = TORCH_FIRST_BYTE; at < learnt.keys_at; at += (int)sizeof(uint16_t)) {
        bool fits = true;
        for (int i = 0; i < n && fits; i++)
            fits = !torch_may_be_read(&examples[i]) ||
                   code_at(examples[i].impl, at) ==
                       wick_torch_dtype((wick_dtype)torch_read_example(&examples[i]).dtype);
        if (fits && out->dtype) return false; /* two places: neither is certain */
        if (fits) out->dtype = (uint16_t)at;
    }
    return out->dtype != 0;
}

/* The one pair of bytes that are kind and number of the device in every example, of two kinds. */
static void learn_device(const wick_torch_example *examples, int n, torch_layout *out)
{
    uint16_t found = 0;
    for (int at = TORCH_FIRST_BYTE; at + 1 < learnt.keys_at; at++) {
        int32_t kind = -1, index = 0, first = -1;
        bool fits = true, two = false;
        for (int i = 0; i < n && fits; i++) {
            if (!torch_may_be_read(&examples[i])) continue;
            const char *impl = examples[i].impl;
            shim.aoti_torch_get_device_type((torch_handle)(void *)&impl, &kind);
            shim.aoti_torch_get_device_index((torch_handle)(void *)&impl, &index);
            fits = impl[at] == kind && (int8_t)impl[at + 1] == index;
            if (first < 0) first = kind;
            two = two || kind != first;
        }
        if (!fits || !two) continue;
        if (found) return;
        found = (uint16_t)at;
    }
    out->device = found;
}

/* It can be where an object is: not small, not too large, aligned. */
static bool is_address(uint64_t word)
{
    return word >> 16 && !(word >> 56) && word % TORCH_WORD == 0;
}

/* The one pointer that is set in every tensor that requires a gradient, and in few others. Tensors
 * of inference mode have no version counter either, so they show nothing here. */
static bool learn_autograd(const wick_torch_example *examples, int n, torch_layout *out)
{
    for (int at = TORCH_FIRST_BYTE; at < learnt.keys_at; at += TORCH_WORD) {
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
    for (int at = TORCH_FIRST_BYTE; at < learnt.keys_at; at += TORCH_WORD) {
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
        wick_tensor t = torch_read_example(&examples[i]);
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
    for (int owner = DATA + TORCH_WORD; storage && out->offset && owner <= LAST;
         owner += TORCH_WORD)
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
    for (int at = TORCH_FIRST_BYTE; at < learnt.keys_at; at += TORCH_WORD) {
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

void torch_learn_layout(const wick_torch_example *examples, int n)
{
    torch_layout layout = {0};
    layout.known = learn_sizes(examples, n, &layout) && learn_dtype(examples, n, &layout) &&
                   learn_autograd(examples, n, &layout);
    if (layout.known) {
        learn_device(examples, n, &layout);
        learn_memory(examples, n, &layout);
        learn_version(examples, n, &layout);
    }
    learnt.layout = layout;
    /* Sizes of a meta tensor may be symbols, which only torch can evaluate. */
    for (int i = 0; i < learnt.n_keys; i++)
        learnt.known[i].in_place = layout.known && learnt.known[i].device_type == WICK_CPU;
}
