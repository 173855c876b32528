/* internals.h -- what internals.c has learnt of the running torch, for look.c to use */
#ifndef WICK_INTERNALS_H
#define WICK_INTERNALS_H

#include "bridge.h"

#include <string.h>

enum { TORCH_MAX_KEYS = 16, TORCH_MAX_STATES = 4 };

/* A set of dispatch keys that plain tensors have. */
typedef struct torch_known_keys {
    uint64_t keys;
    uint8_t kind;        /* wick_torch_tensor_kind */
    uint8_t device_type; /* wick_device_type */
    bool in_place;       /* sizes are where `layout` says: they may be read there */
} torch_known_keys;

/* Offsets in bytes from the start of a tensor's implementation. */
typedef struct torch_layout {
    bool known;
    uint8_t
        n_inline; /* sizes and strides of so many dims are inside, those of more are elsewhere */
    uint16_t dim, size, stride, dtype;
    uint16_t autograd;   /* a pointer: NULL where autograd knows nothing of the tensor */
    uint16_t storage;    /* a pointer; 0: memory is asked for, and so with the next two */
    uint16_t offset;     /* of the tensor in its storage, in elements */
    uint16_t version;    /* a pointer to the counter's object; 0: versions are counted by torch */
    uint8_t data, owner; /* in the storage: where its memory is, and what will be freed. They are
                            one where nobody else has a part in it. */
} torch_layout;

enum { TORCH_COUNTER = 16 }; /* in the counter's object, behind its vtable and reference count */

/* The parts that every call reads stand in front. */
typedef struct torch_learnt {
    bool usable;
    uint16_t keys_at; /* an offset, as in torch_layout */
    torch_layout layout;
    int n_keys, n_states;
    uint64_t states[TORCH_MAX_STATES][2];
    torch_known_keys known[TORCH_MAX_KEYS];
    const void *no_tangent; /* what a tensor without a forward gradient answers */
} torch_learnt;

/* Written at import, read-only afterwards. */
extern torch_learnt learnt;

static inline const char *torch_impl_of(torch_handle handle)
{
    const char *impl; /* a tensor is a pointer to its implementation */
    memcpy(&impl, (const void *)handle, sizeof impl);
    return impl;
}

static inline uint64_t torch_word_at(const char *impl, int offset)
{
    uint64_t word;
    memcpy(&word, impl + offset, sizeof word);
    return word;
}

/* The counter of writes, in the object that the word at `offset` points to. */
static inline uint32_t *torch_counter_at(const char *impl, int offset)
{
    uint64_t word = torch_word_at(impl, offset);
    char *object;
    memcpy(&object, &word, sizeof object);
    return (uint32_t *)(void *)(object + TORCH_COUNTER);
}

/* The implementation behind what a tensor answers when asked for its forward gradient. */
const void *torch_tangent_of(torch_handle handle);
/* The thread's dispatch state: two words; NULL where torch has none. */
const uint64_t *torch_thread_state(void);

#endif /* WICK_INTERNALS_H */
