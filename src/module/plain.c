/* plain.c -- the host of a program without torch: results live in memory from malloc, or from the
 * CUDA driver's pool
 *
 * A result's sizes, strides and data are one block: sizes and strides in front, data behind them,
 * aligned for vector loads. Of a result on a GPU the block has the sizes, and where its data is.
 */
#include "module.h"

#include "cuda.h"

#include <string.h>

enum { DATA_ALIGNMENT = 64 };

uint64_t wick_shape_bytes(int dim, const int64_t *size, wick_dtype dtype)
{
    int64_t numel = wick_shape_numel(dim, size);
    uint64_t each = wick_dtype_size((int)dtype);
    return numel < 0 || (each && (uint64_t)numel > UINT64_MAX / each) ? UINT64_MAX
                                                                      : (uint64_t)numel * each;
}

/* In front of every block. */
typedef struct block_head {
    void *device_data; /* NULL: the data is in the block */
    void *stream;      /* on which it was made, and is given back */
    int32_t device;
} block_head;

static wick_status plain_empty(wick_ctx *ctx, wick_dtype dtype, int device_type, int device_index,
                               int dim, const int64_t *size, wick_tensor *out)
{
    bool cuda = device_type == WICK_CUDA;
    size_t front = sizeof(block_head) + (size_t)dim * 2 * sizeof(int64_t) + DATA_ALIGNMENT;
    uint64_t bytes = wick_shape_bytes(dim, size, dtype), here = cuda ? 0 : bytes;
    char *block = here < SIZE_MAX / 2 ? wick_malloc(front + (size_t)here) : NULL;

    if (!block)
        return wick_fail(ctx, WICK_ENOMEM, "out of memory for %llu bytes",
                         (unsigned long long)bytes);
    block_head *head = (block_head *)(void *)block;
    *head = (block_head){.stream = ctx->stream, .device = device_index};
    int64_t *sizes = (int64_t *)(void *)(head + 1);
    if (dim) memcpy(sizes, size, (size_t)dim * sizeof *size);
    wick_shape_contiguous_strides(dim, size, sizes + dim);
    uintptr_t start = (uintptr_t)block + front;
    *out = (wick_tensor){.data = block + front - start % DATA_ALIGNMENT,
                         .dim = dim,
                         .dtype = (int32_t)dtype,
                         .device_type = device_type,
                         .device_index = device_index,
                         .size = sizes,
                         .stride = sizes + dim,
                         .handle = block};
    if (!cuda) return WICK_OK;
    wick_status s = WICK_OK;
    if (bytes) s = wick_cuda_alloc(ctx, device_index, ctx->stream, bytes, &head->device_data);
    out->data = head->device_data;
    if (s != WICK_OK) wick_free(block);
    return s;
}

static wick_status copy_cuda(wick_ctx *ctx, const wick_tensor *to, const wick_tensor *from)
{
    int32_t device = to->device_type == WICK_CUDA ? to->device_index : from->device_index;
    bool whole = wick_shape_is_contiguous(to->dim, to->size, to->stride) &&
                 wick_shape_is_contiguous(from->dim, from->size, from->stride);
    if (!whole)
        return wick_fail(ctx, WICK_ENOTSUP,
                         "a tensor on cuda is not contiguous: without torch there is nobody to "
                         "copy it");
    return wick_cuda_copy(ctx, device, ctx->stream, to->data, from->data,
                          wick_shape_bytes(to->dim, to->size, (wick_dtype)to->dtype));
}

static wick_status plain_copy(wick_ctx *ctx, wick_tensor *to, const wick_tensor *from)
{
    int64_t contiguous[WICK_MAX_RANK];
    if (to->device_type == WICK_CUDA || from->device_type == WICK_CUDA)
        return copy_cuda(ctx, to, from);
    wick_shape_contiguous_strides(to->dim, to->size, contiguous);
    wick_shape_copy(to->dim, to->size, to->data, to->stride ? to->stride : contiguous, from->data,
                    from->stride ? from->stride : contiguous, wick_dtype_size(to->dtype));
    return WICK_OK;
}

static void plain_release(wick_tensor *tensor)
{
    const block_head *head = tensor->handle;
    if (head && head->device_data) wick_cuda_free(head->device, head->stream, head->device_data);
    wick_free(tensor->handle);
    tensor->handle = NULL;
}

/* The one that the program chose (wick_ctx_set_stream). */
static wick_status plain_stream(wick_ctx *ctx, int device_index, void **out)
{
    (void)device_index;
    *out = ctx->stream;
    return WICK_OK;
}

static const wick_host plain_host = {
    .empty = plain_empty, .copy = plain_copy, .release = plain_release, .stream = plain_stream};

/* ---- the public face ---- */

wick_value wick_tensor_of(void *data, wick_dtype dtype, int32_t dim, const int64_t *size)
{
    wick_value v = {.kind = WICK_VALUE_TENSOR};
    v.as.tensor = (wick_tensor){.data = data, .dim = dim, .dtype = (int32_t)dtype, .size = size};
    return v;
}

wick_value wick_cuda_tensor_of(void *data, wick_dtype dtype, int32_t dim, const int64_t *size,
                               int32_t device)
{
    wick_value v = wick_tensor_of(data, dtype, dim, size);
    v.as.tensor.device_type = WICK_CUDA;
    v.as.tensor.device_index = device;
    return v;
}

void wick_ctx_set_stream(wick_ctx *ctx, void *stream) { ctx->stream = stream; }

wick_value wick_int(int64_t i)
{
    wick_value v = {.kind = WICK_VALUE_INT};
    v.as.i = i;
    return v;
}

wick_value wick_float(double f)
{
    wick_value v = {.kind = WICK_VALUE_FLOAT};
    v.as.f = f;
    return v;
}

wick_value wick_bool(bool b)
{
    wick_value v = {.kind = WICK_VALUE_BOOL};
    v.as.b = b;
    return v;
}

wick_value wick_str(const char *s)
{
    wick_value v = {.kind = WICK_VALUE_STR};
    v.as.s = s;
    return v;
}

void wick_value_free(wick_value *value)
{
    if (value->kind == WICK_VALUE_TENSOR && value->owned) plain_release(&value->as.tensor);
    *value = (wick_value){0};
}

static wick_status check_tensor(wick_ctx *ctx, const char *name, const wick_value *v)
{
    const wick_tensor *t = &v->as.tensor;
    if (v->kind != WICK_VALUE_TENSOR) return WICK_OK;
    if (t->dim < 0 || t->dim > WICK_MAX_RANK || (t->dim && !t->size))
        return wick_fail(ctx, WICK_EINVAL, "%s has no usable shape", name);
    for (int d = 0; d < t->dim; d++)
        if (t->size[d] < 0) return wick_fail(ctx, WICK_EINVAL, "%s.shape[%d] is negative", name, d);
    if (t->device_type != WICK_CPU && t->device_type != WICK_CUDA)
        return wick_fail(ctx, WICK_ENOTSUP, "%s is neither on the CPU nor on a CUDA device", name);
    if (!t->data && wick_shape_numel(t->dim, t->size) != 0)
        return wick_fail(ctx, WICK_EINVAL, "%s has no data", name);
    return WICK_OK;
}

static wick_status check_call(wick_ctx *ctx, const wick_signature *sig, const wick_value *args,
                              int64_t n_args, wick_value *results, int64_t n_results)
{
    if (n_args != sig->n_inputs)
        return wick_fail(ctx, WICK_EINVAL, "got %lld arguments, expected %d", (long long)n_args,
                         sig->n_inputs);
    if (n_results != sig->n_outputs)
        return wick_fail(ctx, WICK_EINVAL, "got room for %lld results, expected %d",
                         (long long)n_results, sig->n_outputs);
    for (int i = 0; i < sig->n_inputs; i++)
        WICK_TRY(check_tensor(ctx, sig->inputs[i].name, &args[i]));
    for (int i = 0; i < sig->n_outputs; i++)
        WICK_TRY(check_tensor(ctx, sig->outputs[i].name, &results[i]));
    return WICK_OK;
}

/* Tensors without strides get those of a contiguous one, from `room`; returns where the next may
 * take theirs. */
static int64_t *with_strides(wick_value *v, int64_t *room)
{
    wick_tensor *t = &v->as.tensor;
    if (v->kind != WICK_VALUE_TENSOR || t->stride) return room;
    wick_shape_contiguous_strides(t->dim, t->size, room);
    t->stride = room;
    return room + t->dim;
}

static int64_t count_dims(const wick_value *values, int64_t n)
{
    int64_t dims = 0;
    for (int64_t i = 0; i < n; i++)
        if (values[i].kind == WICK_VALUE_TENSOR) dims += values[i].as.tensor.dim;
    return dims;
}

wick_status wick_op_call(wick_ctx *ctx, wick_op *op, const wick_value *args, int64_t n_args,
                         wick_value *results, int64_t n_results)
{
    wick_value complete[WICK_MAX_PARAMS];
    bool lent[WICK_MAX_PARAMS] = {false}; /* the result has strides of ours */
    wick_op_def *def = wick_op_current(op);
    wick_ctx_clear(ctx);
    wick_status s = check_call(ctx, def->sig, args, n_args, results, n_results);
    int64_t dims = s == WICK_OK ? count_dims(args, n_args) + count_dims(results, n_results) : 0;
    int64_t *strides = s == WICK_OK ? wick_malloc((size_t)dims * sizeof *strides) : NULL;

    if (s == WICK_OK && !strides) s = wick_fail(ctx, WICK_ENOMEM, "out of memory");
    if (s != WICK_OK) {
        wick_ctx_prefix(ctx, "%s: ", op->name);
        return s;
    }
    int64_t *room = strides;
    for (int64_t i = 0; i < n_args; i++) {
        complete[i] = args[i];
        room = with_strides(&complete[i], room);
    }
    for (int64_t i = 0; i < n_results; i++) {
        lent[i] = results[i].kind == WICK_VALUE_TENSOR && !results[i].as.tensor.stride;
        room = with_strides(&results[i], room);
    }
    s = wick_op_invoke(ctx, op, def, &plain_host, complete, results);
    for (int64_t i = 0; i < n_results; i++)
        if (lent[i]) results[i].as.tensor.stride = NULL;
    wick_free(strides);
    return s;
}
