/* internals.h -- what internals.c and layout.c have learnt of the running torch, for look.c to use
 */
#ifndef WICK_INTERNALS_H
#define WICK_INTERNALS_H

#include "bridge.h"

#include <string.h>

enum {
    TORCH_MAX_KEYS = 16,
    TORCH_MAX_STATES = 4,
    TORCH_FIRST_BYTE = 16, /* of what is of interest: behind the vtable and the reference count */
    TORCH_WORD = sizeof(uint64_t),
    TORCH_COUNTER = 16 /* in a version counter's object, likewise */
};

typedef enum torch_acquaintance {
    TORCH_MET,      /* an example has shown it */
    TORCH_EXPECTED, /* the first tensor with these keys will show it */
    TORCH_REFUSED   /* and it was something else */
} torch_acquaintance;

/* A set of dispatch keys that plain tensors have. */
typedef struct torch_known_keys {
    uint64_t keys;
    uint8_t kind;        /* wick_torch_tensor_kind */
    uint8_t device_type; /* wick_device_type */
    uint8_t state;       /* torch_acquaintance; atomic: any thread may meet the first one */
    bool in_place;       /* sizes are where `layout` says: they may be read there */
} torch_known_keys;

/* Offsets in bytes from the start of a tensor's implementation. */
typedef struct torch_layout {
    bool known;
    uint8_t n_inline; /* so many sizes and strides are inside, those of more dims elsewhere */
    uint16_t dim, size, stride, dtype;
    uint16_t device;     /* two bytes, kind and index; 0: not known, and only the CPU's are read */
    uint16_t autograd;   /* a pointer: NULL where autograd knows nothing of the tensor */
    uint16_t storage;    /* a pointer; 0: memory is asked for, and the next are of no use */
    uint16_t offset;     /* of the tensor in its storage, in elements */
    uint8_t data, owner; /* in the storage: where its memory is, and what will be freed. They are
                            one where nobody else has a part in it. */
    uint16_t version;    /* a pointer to the counter's object; 0: versions are counted by torch */
} torch_layout;

/* The parts that every call reads stand in front. */
typedef struct torch_learnt {
    bool usable;
    uint16_t keys_at; /* an offset, as in torch_layout */
    torch_layout layout;
    int n_keys, n_states;
    uint64_t states[TORCH_MAX_STATES][2];
    uint64_t autocast[2]; /* the bits of a state that say that autocast is on */
    torch_known_keys known[TORCH_MAX_KEYS];
    const void *no_tangent; /* what a tensor without a forward gradient answers */
} torch_learnt;

/* Written at import, read-only afterwards but for the state of what is expected. */
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

/* ---- internals.c ---- */

/* What is known of a tensor whose keys were expected, if it is as expected; else NULL. */
const torch_known_keys *torch_meet(torch_known_keys *k, torch_handle handle);
/* The implementation behind what a tensor answers when asked for its forward gradient. */
const void *torch_tangent_of(torch_handle handle);

/* ---- layout.c ---- */

/* Finds `learnt.layout`, once the keys are known. */
void torch_learn_layout(const wick_torch_example *examples, int n);
/* Not special, and nothing happens to it when it is asked. */
bool torch_may_be_read(const wick_torch_example *e);
wick_tensor torch_read_example(const wick_torch_example *e);

/* ---- look.c ---- */

/* Reads a tensor of few dims without asking torch anything; false: torch must be asked. */
bool torch_read_in_place(int device_type, torch_handle handle, wick_tensor *out);
/* The thread's dispatch state: two words; NULL where torch has none. */
const uint64_t *torch_thread_state(void);

#endif /* WICK_INTERNALS_H */
