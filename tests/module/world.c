/* world.c -- a host whose tensors are on any device that is asked for, and which counts */
#include "world.h"

#include <stdlib.h>
#include <string.h>

test_world world;

static bool fails_now(void) { return world.fail_at > 0 && --world.fail_at == 0; }

static wick_status host_empty(wick_ctx *ctx, wick_dtype dtype, int device_type, int device_index,
                              int dim, const int64_t *size, wick_tensor *out)
{
    if (fails_now()) return wick_fail(ctx, WICK_ENOMEM, "the host has no memory");
    int64_t *block = calloc(2 * WICK_MAX_RANK + 64, sizeof *block);
    cr_assert(block);
    if (dim) memcpy(block, size, (size_t)dim * sizeof *size);
    wick_shape_contiguous_strides(dim, size, block + WICK_MAX_RANK);
    *out = (wick_tensor){.data = device_type == WICK_META ? NULL : block + 2 * WICK_MAX_RANK,
                         .dim = dim,
                         .dtype = (int32_t)dtype,
                         .device_type = device_type,
                         .device_index = device_index,
                         .size = block,
                         .stride = block + WICK_MAX_RANK,
                         .handle = block};
    world.live++;
    world.n_empty++;
    world.last_empty = *out;
    return WICK_OK;
}

static wick_status host_copy(wick_ctx *ctx, wick_tensor *to, const wick_tensor *from)
{
    if (fails_now()) return wick_fail(ctx, WICK_ETORCH, "the host cannot copy");
    wick_shape_copy(to->dim, to->size, to->data, to->stride, from->data, from->stride,
                    wick_dtype_size(to->dtype));
    world.n_copied++;
    return WICK_OK;
}

static void host_release(wick_tensor *tensor)
{
    free(tensor->handle);
    world.live--;
}

static wick_status host_written(wick_ctx *ctx, const wick_tensor *tensor)
{
    if (fails_now()) return wick_fail(ctx, WICK_ETORCH, "the host has no versions");
    world.written_tensor = *tensor;
    world.n_written++;
    return WICK_OK;
}

static const char *host_dtype_name(const wick_tensor *tensor)
{
    (void)tensor;
    return "complex64";
}

void *stream_of(int device_index)
{
    static char streams[4];
    return &streams[device_index];
}

static wick_status host_stream(wick_ctx *ctx, int device_index, void **out)
{
    if (fails_now()) return wick_fail(ctx, WICK_ETORCH, "the host has no stream");
    *out = stream_of(device_index);
    world.n_streams++;
    return WICK_OK;
}

const wick_host world_host = {.empty = host_empty,
                              .copy = host_copy,
                              .release = host_release,
                              .written = host_written,
                              .dtype_name = host_dtype_name,
                              .stream = host_stream};

wick_status invoke_in(const wick_host *host, wick_op *op, const wick_value *args,
                      wick_value *results)
{
    wick_ctx_clear(&test_ctx);
    return wick_op_invoke(&test_ctx, op, wick_op_current(op), host, args, results);
}

wick_status invoke(wick_op *op, const wick_value *args, wick_value *results)
{
    return invoke_in(&world_host, op, args, results);
}

wick_value on(wick_value tensor, int device_type, int device_index)
{
    static int64_t strides[8][WICK_MAX_RANK];
    static int next;
    wick_tensor *t = &tensor.as.tensor;
    t->device_type = device_type;
    t->device_index = device_index;
    if (!t->stride) {
        wick_shape_contiguous_strides(t->dim, t->size, strides[next % 8]);
        t->stride = strides[next++ % 8];
    }
    return tensor;
}
