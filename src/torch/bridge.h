/* bridge.h -- Wick's operators inside torch
 *
 *   shim.c        torch's C functions, found at run time
 *   internals.c   a few things torch does not offer in C, learnt from examples and checked
 *   layout.c      where torch keeps a tensor's parts, learnt likewise
 *   look.c        looking at tensors and threads with what was learnt
 *   host.c        tensors, memory, threads and version counters of torch, for src/module/call.c
 *   boxed.c       torch's calling convention: decode, call, release, encode; raising last
 *   register.c    schemas and kernels; the pool of trampolines
 *
 * The only folder that names torch's symbols. It knows nothing of Python: what needs Python comes
 * in as a hook.
 *
 * An operator has three kernels. The one for every device runs it. The one on the Autograd keys
 * (the gate) runs plain tensors that need no gradient at once and asks Python for everything else:
 * for the gradient, or for a way below autograd, which C does not have. The one for batched tensors
 * (vmap) always asks Python.
 */
#ifndef WICK_BRIDGE_H
#define WICK_BRIDGE_H

#include "module.h"
#include "shim.h"

/* Finds torch in the process. Fails in words when there is none or it is older than 2.10. Call
 * once, after torch was imported and before anything else here. */
wick_status wick_torch_init(wick_ctx *ctx);

/* ---- register.c ---- */

typedef struct wick_registration wick_registration;

/* Makes the operator known to torch, or brings torch up to date after it was loaded again: with the
 * same schema nothing changes (the new code is already behind it), with another one the old
 * operator leaves torch first. `*changed` says whether torch's own caches of the old one must be
 * dropped. */
wick_status wick_torch_register(wick_ctx *ctx, wick_op *op, bool *changed);
/* The operator behind a registration, as it was registered. */
const wick_op *wick_registration_op(const wick_registration *r);
const wick_signature *wick_registration_signature(const wick_registration *r);
const char *wick_registration_schema(const wick_registration *r);
/* What torch was told is what the operator means; NULL: it was loaded again. */
wick_op_def *wick_registration_unchanged(const wick_registration *r);
/* What the operator means now; NULL when it has another schema than torch was told: then the call
 * must be refused, with words. */
wick_op_def *wick_registration_current(wick_ctx *ctx, wick_registration *r);
/* The trampolines' way in. */
wick_registration *wick_registration_at(int index);
enum { WICK_MAX_REGISTRATIONS = 2048 };

/* ---- boxed.c ---- */

void wick_boxed_backend(torch_ivalue *stack, uint64_t n_args, uint64_t n_results, int slot);
void wick_boxed_gate(torch_ivalue *stack, uint64_t n_args, uint64_t n_results, int slot);
void wick_boxed_batch(torch_ivalue *stack, uint64_t n_args, uint64_t n_results, int slot);
/* For a hook: remembers the words to raise; always returns false. */
bool wick_boxed_fail(const char *message);

/* What Python is asked to do with a call. */
typedef enum wick_question {
    WICK_ASK_GRADIENT, /* grad mode is on and a tensor requires grad */
    WICK_ASK_BELOW,    /* a mode, a subclass, a transform: whoever stands below autograd decides */
    WICK_ASK_BATCH     /* a tensor is batched by vmap */
} wick_question;

/* Takes over the arguments on the stack as a kernel does, leaves the results, or returns false
 * after wick_boxed_fail. */
typedef bool (*wick_hook)(wick_registration *r, wick_question question, torch_ivalue *stack);
/* If the last hook of this thread failed with an exception of Python's: arranges that torch raises
 * it when it is next asked for aten::is_vulkan_available, so that it passes torch as itself and not
 * as its words. */
typedef bool (*wick_raiser)(void);
void wick_torch_set_hook(wick_hook hook, wick_raiser of_exceptions);

/* Optionals' boxes. */
torch_ivalue *torch_box_new(torch_ivalue value); /* NULL: out of memory */
void torch_box_free(torch_ivalue *box);

/* ---- host.c ---- */

extern const wick_services wick_torch_services;
extern const wick_host wick_torch_host;

/* Reads a dense tensor by asking torch for each of its properties. */
void wick_torch_read_publicly(torch_handle handle, wick_tensor *out);
/* Reads any tensor; refuses undefined and sparse ones, naming the argument. */
wick_status wick_torch_read(wick_ctx *ctx, const char *name, torch_handle handle, wick_tensor *out);
/* Neither sparse nor packed. */
bool wick_torch_is_dense(torch_handle handle);
/* The element type's number in torch, and back (WICK_NONE for one that Wick does not know). */
int32_t wick_torch_dtype(wick_dtype dtype);
wick_dtype wick_torch_dtype_of(int32_t code);

/* ---- internals.c ---- */

/* What a tensor is, judged by its dispatch keys. */
typedef enum wick_torch_tensor_kind {
    WICK_TORCH_SPECIAL,  /* a view to be resolved, a subclass, sparse, traced, transformed ... */
    WICK_TORCH_PLAIN,    /* dense, on a device Wick knows, nothing else */
    WICK_TORCH_INFERENCE /* the same, made in inference mode: no version counter */
} wick_torch_tensor_kind;

/* One tensor to learn from: the address of its implementation and its dispatch keys, as Python
 * reports them. */
typedef struct wick_torch_example {
    const void *impl;
    uint64_t keys;
    wick_torch_tensor_kind kind;
    bool requires_grad;
    const void *storage; /* the address of its storage's implementation; NULL: not known */
    bool shared;         /* its memory is another tensor's too until one of them is written */
    uint32_t version;    /* how often it was written in place; of tensors that count it */
} wick_torch_example;

/* Finds out where the running torch keeps a tensor's dispatch keys, and checks what requires_grad
 * answers. `normal` and `inference` are calls that read the thread's dispatch state in the two
 * modes. False: not as expected, so the internals stay unused and every call takes the public way.
 */
bool wick_torch_learn(const wick_torch_example *examples, int n);
/* Plain tensors on a GPU will have these keys: from the first one with them the bridge learns the
 * rest. Call after wick_torch_learn. */
void wick_torch_expect(uint64_t keys, wick_torch_tensor_kind kind);
/* Whether a tensor with a forward gradient is seen as one. */
bool wick_torch_learn_tangent(torch_handle dual);
/* Remembers the thread's current dispatch state as one in which plain calls may be run directly. */
bool wick_torch_learn_state(void);
/* Autocast is on right now, and the state is otherwise the first that was learnt. */
bool wick_torch_learn_autocast(void);
bool wick_torch_internals_usable(void);
/* What is read where torch keeps it; what is not is asked for, a little slower. */
typedef struct wick_torch_known {
    bool layout;   /* sizes, strides, element type, whether autograd knows the tensor */
    bool memory;   /* the address of the elements */
    bool versions; /* the counters of writes in place */
    bool devices;  /* which of several devices a tensor is on */
} wick_torch_known;
wick_torch_known wick_torch_what_is_known(void);
void wick_torch_internals_disable(void);

/* ---- look.c ---- */

wick_torch_tensor_kind wick_torch_kind(torch_handle handle);
bool wick_torch_requires_grad(torch_handle handle);
/* It carries a forward-mode gradient, for which Wick has no rule. */
bool wick_torch_has_tangent(torch_handle handle);
/* Counts a write in place to a tensor of kind `plain` or `inference`; false: of another kind. */
bool wick_torch_count_write(torch_handle handle);
/* Reads a dense tensor by the shortest way there is. */
void wick_torch_read_dense(torch_handle handle, wick_tensor *out);
/* Reads a plain tensor without a forward-mode gradient; sets *requires_grad if it requires one.
 * False for every other tensor: it takes the longer way. */
bool wick_torch_glance(torch_handle handle, wick_tensor *out, bool *requires_grad);
/* No dispatch mode, tracer or transform is active in this thread. Autocast may be: the dispatcher
 * asks it before any kernel of ours. */
bool wick_torch_keys_are_plain(void);
/* And no function mode either, which only a call from Python meets. */
bool wick_torch_state_is_plain(void);
/* Whether it is: an operator with an autocast rule of its own must then pass the dispatcher. */
bool wick_torch_autocast_is_on(void);

#endif /* WICK_BRIDGE_H */
