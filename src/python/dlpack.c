/* dlpack.c -- tensors through DLPack's exchange table, torch's public C interface from Python
 * objects
 *
 * The way of direct calls when torch's internals did not pass their check. torch.Tensor carries a
 * capsule with a table of functions: PyObject ⇒ DLTensor without a reference count, an allocator,
 * and back to a PyObject. The layouts follow DLPack 1.3 and are declared here, with only the parts
 * that are read.
 */
#include "extension.h"

#include <string.h>

typedef struct dl_tensor {
    void *data;
    int32_t device_type, device_id;
    int32_t ndim;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *shape, *strides;
    uint64_t byte_offset;
} dl_tensor;

typedef struct dl_managed {
    uint32_t major, minor;
    void *manager_ctx;
    void (*deleter)(struct dl_managed *);
    uint64_t flags;
    dl_tensor tensor;
} dl_managed;

typedef struct dl_exchange {
    uint32_t major, minor;
    void *previous;
    int (*allocate)(dl_tensor *prototype, dl_managed **out, void *error_ctx,
                    void (*set_error)(void *error_ctx, const char *kind, const char *message));
    int (*managed_from_object)(void *object, dl_managed **out);
    int (*managed_to_object)(dl_managed *tensor, void **out_object);
    int (*view_of_object)(void *object, dl_tensor *out);
    int (*current_stream)(int32_t device_type, int32_t device_id, void **out);
} dl_exchange;

enum { DL_CPU = 1, DL_CUDA = 2, DL_INT = 0, DL_UINT = 1, DL_FLOAT = 2, DL_BFLOAT = 4, DL_BOOL = 6 };

static const dl_exchange *exchange;

bool dlpack_attach(PyObject *tensor_type)
{
    PyObject *capsule = PyObject_GetAttrString(tensor_type, "__dlpack_c_exchange_api__");
    const dl_exchange *table =
        capsule ? PyCapsule_GetPointer(capsule, "dlpack_exchange_api") : NULL;
    Py_XDECREF(capsule); /* the table lives as long as torch */
    PyErr_Clear();
    if (!table || table->major != 1 || !table->view_of_object || !table->allocate ||
        !table->managed_to_object)
        return false;
    exchange = table;
    return true;
}

static const struct {
    uint8_t code, bits;
} kinds[WICK_DTYPE_COUNT] = {{0, 0},         {DL_FLOAT, 16}, {DL_BFLOAT, 16}, {DL_FLOAT, 32},
                             {DL_FLOAT, 64}, {DL_INT, 8},    {DL_INT, 16},    {DL_INT, 32},
                             {DL_INT, 64},   {DL_UINT, 8},   {DL_BOOL, 8}};

static void fill(const dl_tensor *from, wick_tensor *out, void *handle)
{
    *out = (wick_tensor){.data = (char *)from->data + from->byte_offset,
                         .dim = from->ndim,
                         .device_index = from->device_id,
                         .size = from->shape,
                         .stride = from->strides,
                         .handle = handle};
    out->device_type = from->device_type == DL_CPU    ? WICK_CPU
                       : from->device_type == DL_CUDA ? WICK_CUDA
                                                      : WICK_OTHER;
    for (int i = 1; i < WICK_DTYPE_COUNT; i++)
        if (kinds[i].code == from->code && kinds[i].bits == from->bits && from->lanes == 1)
            out->dtype = i;
}

/* is_neg and is_conj views carry their sign in a flag that DLPack does not know; sparse and meta
 * tensors have no memory to exchange. torch.ops has words for all of them. */
bool dlpack_read(PyObject *tensor, wick_tensor *out)
{
    dl_tensor view;
    PyObject *plain = PyObject_CallMethod(extension.helpers, "is_plain", "O", tensor);
    bool ok = plain == Py_True && exchange->view_of_object(tensor, &view) == 0;
    Py_XDECREF(plain);
    PyErr_Clear();
    if (!ok || view.ndim > WICK_MAX_RANK) return false;
    fill(&view, out, tensor);
    return out->dtype != WICK_NONE && out->device_type == WICK_CPU;
}

PyObject *dlpack_wrap(wick_tensor *tensor)
{
    void *object = NULL;
    dl_managed *managed = tensor->handle;
    if (exchange->managed_to_object(managed, &object) == 0) return object;
    managed->deleter(managed);
    if (!PyErr_Occurred())
        PyErr_SetString(PyExc_RuntimeError, "torch did not take a tensor back from DLPack");
    return NULL;
}

/* ---- the host: called with the GIL released, as the allocator allows ---- */

static void keep_error(void *error_ctx, const char *kind, const char *message)
{
    (void)kind;
    wick_fail(error_ctx, WICK_ENOMEM, "no memory for a tensor: %s", message);
}

static wick_status dlpack_empty(wick_ctx *ctx, wick_dtype dtype, int device_type, int device_index,
                                int dim, const int64_t *size, wick_tensor *out)
{
    int64_t sizes[WICK_MAX_RANK];
    dl_managed *managed = NULL;
    (void)device_type;
    if (dim) memcpy(sizes, size, (size_t)dim * sizeof *size);
    dl_tensor like = {.device_type = DL_CPU,
                      .device_id = device_index,
                      .ndim = dim,
                      .code = kinds[dtype].code,
                      .bits = kinds[dtype].bits,
                      .lanes = 1,
                      .shape = sizes};
    if (exchange->allocate(&like, &managed, ctx, keep_error) != 0)
        return ctx->failed ? WICK_ENOMEM : wick_fail(ctx, WICK_ENOMEM, "no memory for a tensor");
    fill(&managed->tensor, out, managed);
    return WICK_OK;
}

static wick_status dlpack_copy(wick_ctx *ctx, wick_tensor *to, const wick_tensor *from)
{
    (void)ctx;
    wick_shape_copy(to->dim, to->size, to->data, to->stride, from->data, from->stride,
                    wick_dtype_size(to->dtype));
    return WICK_OK;
}

static void dlpack_release(wick_tensor *tensor)
{
    dl_managed *managed = tensor->handle;
    managed->deleter(managed);
    tensor->handle = NULL;
}

static wick_status dlpack_written(wick_ctx *ctx, const wick_tensor *tensor)
{
    PyGILState_STATE gil = PyGILState_Ensure();
    PyObject *done =
        PyObject_CallMethod(extension.helpers, "bump_version", "O", (PyObject *)tensor->handle);
    wick_status s = done ? WICK_OK : wick_fail(ctx, WICK_ETORCH, "torch could not bump a version");
    Py_XDECREF(done);
    PyErr_Clear();
    PyGILState_Release(gil);
    return s;
}

const wick_host dlpack_host = {.empty = dlpack_empty,
                               .copy = dlpack_copy,
                               .release = dlpack_release,
                               .written = dlpack_written};
