/* module.h -- operators as the runtime holds them: what was loaded, under which name, and how it is
 * called
 *
 *   load.c       opens a module, checks its table
 *   define.c     a table's operators take their names; gradients are matched
 *   registry.c   name ⇒ operator; replacing, and refusing a second owner
 *   call.c       one call: check, solve, allocate, run, release; the same for every host
 *   infer.c      a call's checks and results, without the call
 *   tuned.c      launch choices that were measured on a device
 *   plain.c      the host of a program without torch: memory from malloc
 *
 * An operator (wick_op) is a name that lives for ever; what it currently means (wick_op_def) is
 * swapped as a whole when its file is loaded again, so whoever holds the operator runs the new code
 * from the next call on.
 */
#ifndef WICK_MODULE_H
#define WICK_MODULE_H

#include "signature.h"

#include <wick/glue.h>
#include <wick/wick.h>

#include <stdatomic.h>

typedef struct wick_variant_node {
    wick_variant variant; /* a copy: calls read it right behind its types */
    struct wick_variant_node *next;
} wick_variant_node;

typedef struct wick_op_def wick_op_def;
typedef struct wick_tuned_device wick_tuned_device;

/* Compiles what is missing: must push a variant for `types` (wick_op_def_push) or fail. Called
 * without locks held, by any thread, possibly by two at once. */
typedef wick_status (*wick_resolver)(wick_ctx *ctx, void *arg, wick_op_def *def,
                                     const wick_dtype *types);

/* A signature whose tensors are all T[*N] and required, in the few bytes that a call over one shape
 * needs of it (call_simple.c). */
enum { WICK_SIMPLE_INPUTS = 6, WICK_SIMPLE_OUTPUTS = 2 };

typedef struct wick_simple_param {
    uint8_t kind;     /* wick_kind: a tensor or a number */
    uint8_t dtype;    /* of a tensor of fixed type; else WICK_NONE */
    uint8_t variable; /* of the others */
    bool in_place;
} wick_simple_param;

typedef struct wick_simple {
    uint8_t n_inputs; /* 0: the signature is not of that form */
    uint8_t n_outputs;
    uint8_t n_tensors; /* of the inputs */
    bool writes;       /* some input is written in place */
    wick_simple_param inputs[WICK_SIMPLE_INPUTS], outputs[WICK_SIMPLE_OUTPUTS];
} wick_simple;

/* What an operator currently means. Never changed once published, but for variants being added;
 * never freed while the process lives, since a call may be running it. */
struct wick_op_def {
    /* What every call reads stands in front, in one line of the processor's cache. */
    _Atomic(wick_variant_node *) variants;
    _Atomic(const char *)
        broken; /* the source was edited and does not build: what it said; NULL: sound */
    wick_op_def *stands_for; /* of `foo`, the second name of foo_forward: the meaning that has the
                                code; else NULL */
    wick_simple simple;
    wick_signature *sig;
    wick_arena arena; /* holds everything else */
    const char *text; /* the signature as the module gives it */
    const char *doc;
    const char *file;      /* the source */
    const char *origin;    /* who owns the name: the source's or else the module's absolute path */
    wick_resolver resolve; /* NULL: what is in `variants` is all there is */
    void *resolve_arg;
    const wick_gradient *gradient; /* how `backward` is fed; NULL: the operator has no gradient */
    wick_op *backward;
    const wick_tune *tune;              /* launch choices; NULL: none */
    _Atomic(wick_tuned_device *) tuned; /* those that were measured (tuned.c) */
    _Atomic(const int64_t *) forced;    /* one of these, while somebody measures */
    int64_t forced_values[2][WICK_MAX_KNOBS];
    wick_op_def *previous; /* what the operator meant before; kept for those still running it */
};

struct wick_op {
    char *ns;
    char *name;
    _Atomic(wick_op_def *) def;
    void *bridge; /* what src/torch knows about it; written once, by the thread that registers */
    void *anchor; /* and what it leaves in torch for those who hold an earlier meaning */
};

struct wick_module {
    wick_op **ops;
    int64_t n_ops;
};

/* ---- load.c ---- */

/* Opens a module and returns its table after checking that it is one, and of our ABI. Never closed
 * again. */
wick_status wick_module_open(wick_ctx *ctx, const char *path, const wick_module_table **out);

/* ---- define.c ---- */

/* Defines every operator of a table. `origin` NULL: from each entry's file, else from `path`.
 * `default_ns` is for entries without one. All or nothing: on a conflict no operator of the table
 * is changed. */
typedef struct wick_define {
    const wick_module_table *table;
    const char *path;
    const char *origin;
    const char *default_ns;
    wick_resolver resolve;
    void *resolve_arg;
} wick_define;
wick_status wick_module_define(wick_ctx *ctx, const wick_define *what, wick_module **out);
/* The entry that is the gradient of entry `index`, or -1. `*second`: where the pair is foo_forward
 * and foo_backward, the operator is also foo, which is so much of its name; else 0. */
int64_t wick_table_backward(const wick_module_table *table, int64_t index, size_t *second);
/* The source that defined these operators no longer builds: calling them fails with these words
 * from now on. */
void wick_module_break(const char *origin, const char *message);

/* ---- registry.c ---- */

/* The operator of that name, made if there is none; NULL when out of memory. */
wick_op *wick_registry_intern(const char *ns, const char *name);
/* Holds the registry's lock over a check and the change that follows from it. */
void wick_registry_lock(void);
void wick_registry_unlock(void);
/* The i-th operator, in the order of first definition; NULL past the end. */
wick_op *wick_registry_at(int64_t i);
/* Names of the namespace that look like `name`, the nearest first, as "relu, reduce_sum"; "" if
 * none does. */
void wick_registry_suggest(wick_text *out, const char *ns, const char *name);

wick_op_def *wick_op_current(const wick_op *op); /* NULL for a name without a definition */
wick_status wick_op_def_push(wick_ctx *ctx, wick_op_def *def, const wick_variant *variant);
/* The best variant of these types (one per variable, the rest of the four WICK_NONE) that this CPU
 * can run, or NULL. */
const wick_variant *wick_op_def_variant(const wick_op_def *def, const wick_dtype *types);

/* ---- plain.c ---- */

/* Bytes of a contiguous tensor; UINT64_MAX when they cannot be counted. */
uint64_t wick_shape_bytes(int dim, const int64_t *size, wick_dtype dtype);

/* ---- call.c ---- */

/* What a call needs of the world it runs in. Tensors that `empty` makes have handle, data, size and
 * stride set and are given back with `release`. */
typedef struct wick_host {
    wick_status (*empty)(wick_ctx *ctx, wick_dtype dtype, int device_type, int device_index,
                         int dim, const int64_t *size, wick_tensor *out);
    wick_status (*copy)(wick_ctx *ctx, wick_tensor *to, const wick_tensor *from);
    void (*release)(wick_tensor *tensor);
    /* The tensor was written in place: whoever saved it must be able to notice. May be NULL. */
    wick_status (*written)(wick_ctx *ctx, const wick_tensor *tensor);
    /* The host's word for an element type that Wick does not know ("complex64"). May be NULL. */
    const char *(*dtype_name)(const wick_tensor *tensor);
    /* The CUDA stream to launch on, of a device. NULL: this host has no CUDA. */
    wick_status (*stream)(wick_ctx *ctx, int device_index, void **out);
    bool scratch_too; /* scratch on the CPU comes from `empty` as well, not from the heap */
} wick_host;

/* One call of the meaning that the arguments were read for: an operator may be loaded again
 * meanwhile. args: one value per input. results: one per output; NONE asks for a new tensor (owned
 * by the results on success), TENSOR is written in place, `unwanted` is skipped. On failure nothing
 * is owned and the message names the operator. The context's services, stream and device are the
 * host's. */
wick_status wick_op_invoke(wick_ctx *ctx, const wick_op *op, wick_op_def *def,
                           const wick_host *host, const wick_value *args, wick_value *results);
/* The same, for an operator whose `simple` is set and that is not broken, if it is a call for the
 * short way; else *done is false and nothing has happened. The message lacks the operator's name.
 */
wick_status wick_call_simple(wick_ctx *ctx, const wick_op_def *def, const wick_host *host,
                             const wick_value *args, wick_value *results, bool *done);

/* ---- call_place.c ---- */

/* Memory for an operator's scratch on a device: of that name and so many bytes. */
typedef wick_status (*wick_scratch_source)(wick_ctx *ctx, const char *name, int device_index,
                                           uint64_t bytes, void **out);
/* Scratch on devices comes from there and not from the host, so that somebody can look at what lies
 * in it and around it. It is not given back: who made it knows when. NULL: from the host again. */
void wick_call_scratch_from(wick_scratch_source source);

/* ---- infer.c ---- */

/* A result that a call would make. */
typedef struct wick_inferred {
    wick_dtype dtype; /* WICK_NONE: a plain number */
    int dim;
    int64_t size[WICK_MAX_RANK];
} wick_inferred;

/* Every check of a call, with its words, and what it would return: one entry per output. Tensors
 * need no memory. Without `sizes` the sizes are not looked at, and only the element types are
 * inferred. out_device: the input on whose device the results are; -1: there is none, and they are
 * on the CPU. */
wick_status wick_op_infer(wick_ctx *ctx, const wick_op *op, wick_op_def *def, const wick_host *host,
                          const wick_value *args, bool sizes, wick_inferred *out, int *out_device);

#endif /* WICK_MODULE_H */
