/* call.h -- one call in the making, for the files that carry it out
 *
 *   call_read.c    what the caller gave: kinds, element types, devices, sizes
 *   call_place.c   where the operator reads and writes: contiguous inputs, outputs, scratch
 *   call_simple.c  all of it at once, where every tensor has one shape
 *   call.c         the order of it all, the run itself, and the end
 *   infer.c        a call that is not made: its checks and what it would return
 */
#ifndef WICK_CALL_H
#define WICK_CALL_H

#include "module.h"

enum { CALL_MAX_SLOTS = WICK_MAX_PARAMS + WICK_MAX_NAMED, CALL_ALIGNMENT = 64 };

/* A tensor argument's place in the call: what the caller gave, and what the operator is given. */
typedef struct wick_call_place {
    wick_tensor given;
    wick_tensor used; /* `given`, or a contiguous stand-in for it */
    wick_view view;   /* of `used`, for strided parameters */
    bool present;
    bool stand_in;  /* `used` is ours to release */
    bool copy_back; /* and to copy into `given` after the run */
    bool made;      /* a result that this call made, not one that it was given */
} wick_call_place;

typedef struct wick_call_frame {
    wick_ctx *ctx;
    const wick_op *op;
    wick_op_def *def;
    const wick_signature *sig;
    const wick_host *host;
    const wick_value *args;
    wick_value *results;
    wick_dtype types[WICK_MAX_TYPEVARS];
    const char *typed_by[WICK_MAX_TYPEVARS]; /* the argument that decided, for messages */
    const wick_tensor *first;                /* the tensor whose device the call runs on */
    const char *first_name;
    bool only_numbers; /* all tensors so far are 0-d on the CPU: one on a GPU may still decide */
    wick_binding binding;
    wick_slot slots[CALL_MAX_SLOTS];
    int n_slots;
    int n_outputs; /* outputs placed so far */
    int n_scratch;
    wick_call_place in[WICK_MAX_PARAMS];
    wick_call_place out[WICK_MAX_PARAMS];
    void *scratch_block[WICK_MAX_PARAMS];
    wick_tensor scratch[WICK_MAX_PARAMS];
} wick_call_frame;

static inline const wick_param *wick_call_input(const wick_call_frame *f, int i)
{
    return &f->sig->inputs[i];
}

/* ---- call.c ---- */

/* A frame before anything was read. It is large and not zeroed: host, args and results are the
 * caller's to set, and every other part is set before it is read. */
void wick_call_begin(wick_call_frame *f, wick_ctx *ctx, const wick_op *op, wick_op_def *def);

/* The operator's CUDA function, with that device and the host's stream in the context. */
wick_status wick_call_on_cuda(wick_ctx *ctx, const wick_host *host, int32_t device,
                              wick_entry entry, const wick_slot *slots);

/* ---- call_read.c ---- */

/* Kinds, element types and devices; shapes: one per input, for the sizes. */
wick_status wick_call_read_kinds(wick_call_frame *f, wick_input_shape *shapes);
/* Reads every argument and solves every dim; scalars go straight to their slots. */
wick_status wick_call_read(wick_call_frame *f);
/* The host's or our word for a tensor's element type. */
const char *wick_call_dtype_word(const wick_call_frame *f, const wick_tensor *t);
/* "cpu", "cuda:1", "meta" */
void wick_call_device_word(char *out, size_t n, const wick_tensor *t);
/* A tensor that says it has elements must have memory. */
wick_status wick_call_check_memory(wick_call_frame *f, const char *name, const wick_tensor *t);

/* ---- call_place.c ---- */

wick_status wick_call_place_input(wick_call_frame *f, int i);
wick_status wick_call_place_output(wick_call_frame *f, int i);
wick_status wick_call_place_scratch(wick_call_frame *f, int i);
wick_view wick_call_view_of(const wick_tensor *t);

/* ---- call_simple.c ---- */

/* The signature in short, if all its tensors are T[*N]. */
wick_simple wick_call_plan(const wick_signature *sig);

#endif /* WICK_CALL_H */
