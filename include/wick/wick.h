/* wick.h -- load operators and call them, from a C program with no Python and no torch
 *
 *   wick_ctx *ctx = wick_ctx_new();
 *   wick_module *module;
 *   if (wick_module_load(ctx, "ops.so", &module)) { puts(wick_ctx_message(ctx)); ... }
 *   const wick_op *op = wick_op_find("wick", "relu");
 *   wick_value in = wick_tensor_of(x, WICK_F32, 2, size), out = {0};
 *   if (wick_op_call(ctx, op, &in, 1, &out, 1)) ...          out owns its memory:
 * wick_value_free(&out)
 *
 * Every function that can fail returns a status and leaves its words in the context. Everything
 * passed in is borrowed for the call. Any thread may call; one context serves one thread at a time.
 */
#ifndef WICK_H
#define WICK_H

#ifdef WICK_T
#error "<wick/wick.h> is for programs that call operators: an operator's file includes <wick/op.h>"
#endif

#include <wick/types.h>

/* ---- the context ---- */

/* A new context; NULL when out of memory. */
WICK_API wick_ctx *wick_ctx_new(void);
WICK_API void wick_ctx_free(wick_ctx *ctx);
/* The words of the last failure, or "". Valid until the next call that takes the context. */
WICK_API const char *wick_ctx_message(const wick_ctx *ctx);
/* Wick's version, "0.1.0". */
WICK_API const char *wick_version(void);

/* ---- values ---- */

typedef enum wick_device_type {
    WICK_CPU = 0,
    WICK_CUDA = 1,
    WICK_META = 2,
    WICK_OTHER = 3
} wick_device_type;

typedef struct wick_tensor {
    void *data;
    int32_t dim;
    int32_t dtype; /* wick_dtype; WICK_NONE for a type that Wick does not know */
    int32_t device_type;
    int32_t device_index; /* 0 on the CPU */
    const int64_t *size;
    const int64_t *stride; /* in elements; NULL means contiguous */
    void *handle;          /* the host's own */
} wick_tensor;

typedef enum wick_value_kind {
    WICK_VALUE_NONE = 0, /* an absent optional, or a result to be allocated */
    WICK_VALUE_TENSOR = 1,
    WICK_VALUE_INT = 2,
    WICK_VALUE_FLOAT = 3,
    WICK_VALUE_BOOL = 4,
    WICK_VALUE_STR = 5,
    WICK_VALUE_SHAPE =
        6 /* sizes without data, for `x: shape[...]`: tensor.dim and tensor.size are used */
} wick_value_kind;

typedef struct wick_value {
    int32_t kind;
    bool owned;    /* memory of a result that wick_op_call allocated */
    bool unwanted; /* a result: an optional output that need not be computed */
    union {
        wick_tensor tensor;
        int64_t i;
        double f;
        bool b;
        const char *s;
    } as;
} wick_value;

/* A contiguous CPU tensor over the caller's memory; `size` is borrowed as well. */
WICK_API wick_value wick_tensor_of(void *data, wick_dtype dtype, int32_t dim, const int64_t *size);
/* The same over memory of a CUDA device. Results that are left to wick_op_call come from the
 * driver's memory pool, in the order of the stream. */
WICK_API wick_value wick_cuda_tensor_of(void *data, wick_dtype dtype, int32_t dim,
                                        const int64_t *size, int32_t device);
/* The stream (a CUstream or cudaStream_t) that CUDA operators are launched on from now on; NULL,
 * the start value, is CUDA's default stream. */
WICK_API void wick_ctx_set_stream(wick_ctx *ctx, void *stream);
WICK_API wick_value wick_int(int64_t i);
WICK_API wick_value wick_float(double f);
WICK_API wick_value wick_bool(bool b);
WICK_API wick_value wick_str(const char *s);
/* Frees what wick_op_call allocated for a result; leaves the caller's own memory alone. */
WICK_API void wick_value_free(wick_value *value);

/* ---- operators ---- */

typedef struct wick_module wick_module;
typedef struct wick_op wick_op;

/* Loads a module and registers its operators. A second load of the same path replaces them. A
 * module stays loaded until the process ends: code that somebody may be running is never unmapped.
 * The list of its operators lives as long and is not the caller's: there is nothing to free.
 */
WICK_API wick_status wick_module_load(wick_ctx *ctx, const char *path, wick_module **out);
WICK_API int64_t wick_module_count(const wick_module *module);
WICK_API wick_op *wick_module_op(const wick_module *module, int64_t index);

/* The operator, or NULL. Operators of files without WICK_NAMESPACE are in "local", those that come
 * with Wick in "wick". */
WICK_API wick_op *wick_op_find(const char *ns, const char *name);
WICK_API const char *wick_op_name(const wick_op *op);
WICK_API const char *wick_op_namespace(const wick_op *op);
WICK_API const char *wick_op_signature(const wick_op *op);
WICK_API const char *wick_op_doc(const wick_op *op);
WICK_API const char *wick_op_file(const wick_op *op);

/* Calls it. args: one value per input of the signature, in order; an absent optional is
 * WICK_VALUE_NONE. results: one per output. A result given as a tensor is written in place (exact
 * shape and type, contiguous); one given as WICK_VALUE_NONE is allocated and owned by the value.
 * Fewer results than the operator has is an error. */
WICK_API wick_status wick_op_call(wick_ctx *ctx, wick_op *op, const wick_value *args,
                                  int64_t n_args, wick_value *results, int64_t n_results);

/* How many threads wick_parallel uses in a program without torch: 0 (the start value) means one per
 * CPU. */
WICK_API void wick_set_threads(int n);

#endif /* WICK_H */
