/* host.c -- torch as the world that an operator runs in: its allocator, its threads, its version
 * counters */
#include "bridge.h"

#include <stdatomic.h>
#include <string.h>

enum { N_CODES = 64 }; /* torch's numbers for element types are small */

static struct {
    int32_t of_wick[WICK_DTYPE_COUNT];
    uint8_t to_wick[N_CODES];
    int32_t cpu, cuda, meta, strided, complex64, complex128;
} codes;

static void read_codes(void)
{
    const int32_t of[WICK_DTYPE_COUNT] = {
        -1,
        shim.aoti_torch_dtype_float16(),
        shim.aoti_torch_dtype_bfloat16(),
        shim.aoti_torch_dtype_float32(),
        shim.aoti_torch_dtype_float64(),
        shim.aoti_torch_dtype_int8(),
        shim.aoti_torch_dtype_int16(),
        shim.aoti_torch_dtype_int32(),
        shim.aoti_torch_dtype_int64(),
        shim.aoti_torch_dtype_uint8(),
        shim.aoti_torch_dtype_bool(),
    };
    memcpy(codes.of_wick, of, sizeof of);
    for (int i = 1; i < WICK_DTYPE_COUNT; i++)
        if (of[i] >= 0 && of[i] < N_CODES) codes.to_wick[of[i]] = (uint8_t)i;
    codes.cpu = shim.aoti_torch_device_type_cpu();
    codes.cuda = shim.aoti_torch_device_type_cuda();
    codes.meta = shim.aoti_torch_device_type_meta();
    codes.strided = shim.aoti_torch_layout_strided();
    codes.complex64 = shim.aoti_torch_dtype_complex64();
    codes.complex128 = shim.aoti_torch_dtype_complex128();
}

wick_status wick_torch_init(wick_ctx *ctx)
{
    const char *missing = torch_shim_load();
    if (missing && !strcmp(missing, "libtorch_cpu.so"))
        return wick_fail(ctx, WICK_ETORCH, "torch is not in this process: import torch first");
    if (missing)
        return wick_fail(ctx, WICK_ETORCH, "this torch has no %s: Wick needs torch 2.10 or newer",
                         missing);
    read_codes();
    return WICK_OK;
}

int32_t wick_torch_dtype(wick_dtype dtype) { return codes.of_wick[dtype]; }

wick_dtype wick_torch_dtype_of(int32_t code)
{
    return code >= 0 && code < N_CODES ? (wick_dtype)codes.to_wick[code] : WICK_NONE;
}

/* ---- reading tensors ---- */

static int device_of(int32_t code)
{
    return code == codes.cpu    ? WICK_CPU
           : code == codes.cuda ? WICK_CUDA
           : code == codes.meta ? WICK_META
                                : WICK_OTHER;
}

void wick_torch_read_publicly(torch_handle handle, wick_tensor *out)
{
    int64_t dim = 0;
    int64_t *size = NULL, *stride = NULL;
    int32_t dtype = -1, device = -1;

    out->handle = handle;
    out->data = NULL; /* and stays so where torch refuses: the storage was freed */
    shim.aoti_torch_get_data_ptr(handle, &out->data);
    shim.aoti_torch_get_dim(handle, &dim);
    shim.aoti_torch_get_sizes(handle, &size);
    shim.aoti_torch_get_strides(handle, &stride);
    shim.aoti_torch_get_dtype(handle, &dtype);
    shim.aoti_torch_get_device_type(handle, &device);
    out->device_index = -1;
    if (device != codes.cpu && device != codes.meta) /* there is one of each */
        shim.aoti_torch_get_device_index(handle, &out->device_index);
    out->dim = (int32_t)dim;
    out->size = size;
    out->stride = stride;
    out->dtype = wick_torch_dtype_of(dtype);
    out->device_type = device_of(device);
}

bool wick_torch_is_dense(torch_handle handle)
{
    int32_t layout = -1;
    shim.aoti_torch_get_layout(handle, &layout);
    return layout == codes.strided;
}

wick_status wick_torch_read(wick_ctx *ctx, const char *name, torch_handle handle, wick_tensor *out)
{
    bool defined = false;
    int64_t dim = 0;

    shim.aoti_torch_is_defined(handle, &defined);
    if (!defined) return wick_fail(ctx, WICK_EINVAL, "%s is None, expected a tensor", name);
    if (!wick_torch_is_dense(handle))
        return wick_fail(ctx, WICK_EINVAL,
                         "%s is sparse or packed, expected a dense (strided) tensor", name);
    shim.aoti_torch_get_dim(handle, &dim);
    if (dim > WICK_MAX_RANK)
        return wick_fail(ctx, WICK_EINVAL, "%s has %lld dimensions, expected at most %d", name,
                         (long long)dim, WICK_MAX_RANK);
    wick_torch_read_publicly(handle, out);
    return WICK_OK;
}

/* ---- the host's functions ---- */

static const char *torch_words(void)
{
    const char *what = shim.torch_exception_get_what_without_backtrace
                           ? shim.torch_exception_get_what_without_backtrace()
                           : NULL;
    return what && *what ? what : "torch gave no reason (see the error output)";
}

WICK_HOT static wick_status torch_empty(wick_ctx *ctx, wick_dtype dtype, int device_type,
                                        int device_index, int dim, const int64_t *size,
                                        wick_tensor *out)
{
    const int32_t device[] = {codes.cpu, codes.cuda, codes.meta, -1};
    int64_t stride[WICK_MAX_RANK];
    torch_handle handle = NULL;

    wick_shape_contiguous_strides(dim, size, stride);
    if (shim.aoti_torch_empty_strided(dim, size, stride, codes.of_wick[dtype], device[device_type],
                                      device_index, &handle) != 0) {
        wick_text shape = {0};
        wick_shape_print(&shape, dim, size);
        wick_status s =
            wick_fail(ctx, WICK_ENOMEM, "no memory for a tensor of shape %s and type %s: %s",
                      wick_text_str(&shape), wick_dtype_name(dtype), torch_words());
        wick_text_free(&shape);
        return s;
    }
    wick_torch_read_dense(handle, out);
    return WICK_OK;
}

/* False: not every digit fits a double. */
static bool number_of(const wick_tensor *t, double *out)
{
    const int64_t most = INT64_C(1) << 53;
    int64_t i;
    if (t->dtype != WICK_I64) return shim.aoti_torch_item_float64(t->handle, out) == 0;
    memcpy(&i, t->data, sizeof i);
    *out = (double)i;
    return -most <= i && i <= most;
}

/* A number that stays on the CPU while the others are on a GPU goes there as torch's own operators
 * take it, as an argument of a kernel: a copy would wait for the GPU, and could not be captured. An
 * integer that a double does not hold is copied all the same. */
static bool fill_number(const wick_tensor *to, const wick_tensor *from)
{
    double value;
    if (to->device_type != WICK_CUDA || from->device_type != WICK_CPU || from->dim != 0 ||
        !shim.aoti_torch_aten_fill__Scalar || !number_of(from, &value))
        return false;
    return shim.aoti_torch_aten_fill__Scalar(to->handle, value) == 0;
}

/* A copy inside a call is no step of the model: autograd must not see it. */
static wick_status torch_copy(wick_ctx *ctx, wick_tensor *to, const wick_tensor *from)
{
    bool grad = shim.aoti_torch_grad_mode_is_enabled();
    if (grad) shim.aoti_torch_grad_mode_set_enabled(false);
    torch_error e = 0;
    if (!fill_number(to, from)) e = shim.aoti_torch_copy_(to->handle, from->handle, 0);
    if (grad) shim.aoti_torch_grad_mode_set_enabled(true);
    return e == 0 ? WICK_OK
                  : wick_fail(ctx, WICK_ETORCH, "torch could not copy a tensor: %s", torch_words());
}

static void torch_release(wick_tensor *tensor)
{
    shim.aoti_torch_delete_tensor_object(tensor->handle);
    tensor->handle = NULL;
}

/* Through the public door a version can only be bumped by writing: to an empty part of the tensor,
 * which shares its counter. A 0-d tensor has no such part until it is given a dimension. */
WICK_COLD static wick_status bump_by_writing_nothing(wick_ctx *ctx, const wick_tensor *tensor)
{
    torch_ivalue stack[4] = {0};
    torch_handle own = NULL;
    torch_error e = shim.aoti_torch_new_tensor_handle(tensor->handle, &own);
    memcpy(&stack[0], &own, sizeof own);
    if (!e && tensor->dim == 0) e = shim.torch_call_dispatcher("aten::unsqueeze", "", stack, 0);
    stack[1] = stack[2] = stack[3] = 0;
    if (!e) e = shim.torch_call_dispatcher("aten::narrow", "", stack, 0);
    if (!e) e = shim.torch_call_dispatcher("aten::zero_", "", stack, 0);
    if (!e) {
        memcpy(&own, &stack[0], sizeof own);
        shim.aoti_torch_delete_tensor_object(own);
    }
    return e == 0
               ? WICK_OK
               : wick_fail(ctx, WICK_ETORCH, "torch could not bump a version: %s", torch_words());
}

WICK_COLD static wick_status bump_publicly(wick_ctx *ctx, const wick_tensor *tensor)
{
    bool grad = shim.aoti_torch_grad_mode_is_enabled();
    if (grad) shim.aoti_torch_grad_mode_set_enabled(false);
    wick_status s = bump_by_writing_nothing(ctx, tensor);
    if (grad) shim.aoti_torch_grad_mode_set_enabled(true);
    return s;
}

WICK_HOT static wick_status torch_written(wick_ctx *ctx, const wick_tensor *tensor)
{
    if (tensor->device_type == WICK_META || wick_torch_count_write(tensor->handle)) return WICK_OK;
    return bump_publicly(ctx, tensor);
}

static const char *torch_dtype_name(const wick_tensor *tensor)
{
    int32_t code = -1;
    shim.aoti_torch_get_dtype(tensor->handle, &code);
    return code == codes.complex64    ? "complex64 (complex numbers are not supported)"
           : code == codes.complex128 ? "complex128 (complex numbers are not supported)"
                                      : "of a type that Wick does not know";
}

static wick_status torch_stream(wick_ctx *ctx, int device_index, void **out)
{
    if (!shim.aoti_torch_get_current_cuda_stream)
        return wick_fail(ctx, WICK_ENOTSUP, "this torch is a build without CUDA");
    if (shim.aoti_torch_get_current_cuda_stream(device_index, out))
        return wick_fail(ctx, WICK_ETORCH, "torch has no current stream for cuda:%d", device_index);
    return WICK_OK;
}

const wick_host wick_torch_host = {.stream = torch_stream,
                                   .empty = torch_empty,
                                   .copy = torch_copy,
                                   .release = torch_release,
                                   .written = torch_written,
                                   .dtype_name = torch_dtype_name};

/* ---- threads ---- */

typedef struct loop {
    wick_body body;
    void *arg;
    _Atomic int status;
} loop;

static void run_piece(int64_t begin, int64_t end, void *arg)
{
    loop *l = arg;
    int none = WICK_OK;
    wick_status s = l->body(l->arg, begin, end);
    if (s != WICK_OK) atomic_compare_exchange_strong(&l->status, &none, (int)s);
}

static wick_status torch_parallel(wick_ctx *ctx, int64_t n, int64_t grain, wick_body body,
                                  void *arg)
{
    loop l = {.body = body, .arg = arg, .status = WICK_OK};
    if (shim.torch_parallel_for(0, n, grain > 0 ? grain : 1, run_piece, &l) != 0)
        return wick_fail(ctx, WICK_ETORCH, "torch's thread pool failed: %s", torch_words());
    return (wick_status)atomic_load(&l.status);
}

const wick_services wick_torch_services = {.fail = wick_plain_fail, .parallel = torch_parallel};
