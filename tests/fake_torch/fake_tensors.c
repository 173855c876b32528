/* fake_tensors.c -- tensors on malloc, laid out as torch lays them out
 *
 * In front of a tensor's implementation are the parts that the bridge looks for, in torch's order:
 * a vtable and a reference count, the storage, what autograd knows, the counter of writes, sizes
 * and strides of few dims, the offset, the element type, the dispatch keys. The public functions
 * read them there, so both ways must agree; what is hidden (fake_hide) is kept elsewhere by new
 * tensors, as in a torch whose layout has changed.
 */
#include "fake_torch.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define TORCH_PROTOTYPE(result, name, parameters) EXPORT result name parameters;
TORCH_SHIM(TORCH_PROTOTYPE, TORCH_PROTOTYPE)

extern atomic_long fake_handles, fake_storages;

enum { INLINE = 5, MOST_DIMS = 80 };

typedef struct fake_counter {
    uint64_t vtable, references;
    uint32_t writes;
} fake_counter;

typedef struct fake_storage {
    uint64_t vtable;
    atomic_long references;
    char *data;
    void (*deleter)(void *);
    void *owner; /* `data` while the memory is this storage's alone */
    fake_counter counter;
    char bytes[];
} fake_storage;

typedef struct fake_tensor_impl {
    uint64_t vtable;
    atomic_long references;
    fake_storage *storage;
    void *autograd;
    void *extra;
    fake_counter *counter;
    uint64_t dim;
    int64_t size[INLINE], stride[INLINE];
    int64_t offset, numel;
    uint16_t dtype;
    int8_t device, device_index;
    uint64_t keys;
    /* what a tensor has besides, at no particular place */
    uint64_t rest[8];
    fake_storage *true_storage;
    fake_counter *true_counter;
    fake_facts facts;
    bool requires_grad, tangent, far;
    int64_t far_dim, far_size[MOST_DIMS], far_stride[MOST_DIMS];
} fake_tensor_impl;

struct torch_tensor {
    fake_tensor_impl *impl; /* NULL-free: `nothing` stands for no tensor */
};

static fake_tensor_impl nothing;
static unsigned hidden;
static const char somewhere[64];

void fake_hide(unsigned parts) { hidden = parts; }

static size_t bytes_of(int32_t dtype)
{
    switch (dtype) {
    case FAKE_U8:
    case FAKE_I8:
    case FAKE_BOOL: return 1;
    case FAKE_I16:
    case FAKE_F16:
    case FAKE_BF16: return 2;
    case FAKE_I32:
    case FAKE_F32: return 4;
    case FAKE_COMPLEX128: return 16;
    default: return 8;
    }
}

/* ---- making ---- */

static torch_handle handle_on(fake_tensor_impl *impl)
{
    torch_handle handle = malloc(sizeof *handle);
    if (!handle) abort();
    handle->impl = impl;
    if (impl != &nothing) impl->references++;
    fake_handles++;
    return handle;
}

static void free_nothing(void *p) { (void)p; }

static fake_storage *storage_new(size_t bytes)
{
    fake_storage *storage = calloc(1, sizeof *storage + bytes);
    if (!storage) abort();
    storage->data = storage->bytes;
    storage->owner = storage->bytes;
    storage->deleter = free_nothing;
    fake_storages++;
    return storage;
}

static void set_dims(fake_tensor_impl *impl, int64_t dim, const int64_t *size,
                     const int64_t *stride)
{
    impl->dim = hidden & FAKE_RANK ? 77 : (uint64_t)dim;
    impl->far_dim = dim;
    impl->far = dim > INLINE || hidden & FAKE_SIZES;
    if (dim) memcpy(impl->far_size, size, (size_t)dim * sizeof *size);
    if (dim) memcpy(impl->far_stride, stride, (size_t)dim * sizeof *stride);
    if (impl->far) impl->size[0] = (int64_t)(intptr_t)impl->far_size; /* instead: where they are */
    for (int64_t i = 0; i < dim && !impl->far; i++) {
        impl->size[i] = size[i];
        impl->stride[i] = stride[i];
    }
}

static fake_tensor_impl *impl_on(fake_storage *storage, int32_t dtype)
{
    fake_tensor_impl *impl = calloc(1, sizeof *impl);
    if (!impl) abort();
    impl->true_storage = storage;
    impl->true_counter = &storage->counter;
    impl->storage = hidden & FAKE_STORAGE ? NULL : storage;
    impl->counter = hidden & FAKE_COUNTER ? (void *)somewhere : &storage->counter;
    impl->dtype = hidden & FAKE_DTYPE ? 999 : (uint16_t)dtype;
    impl->facts.dtype = dtype;
    impl->facts.device_index = impl->device_index = -1;
    impl->keys = FAKE_KEYS_PLAIN;
    storage->references++;
    return impl;
}

torch_handle fake_tensor(int32_t dtype, int dim, const int64_t *size, const int64_t *stride)
{
    int64_t contiguous[MOST_DIMS], last = 0, step = 1;
    bool empty = false;
    for (int i = dim; i-- > 0;) {
        contiguous[i] = step;
        step *= size[i] > 0 ? size[i] : 1;
        empty = empty || size[i] == 0;
    }
    if (!stride) stride = contiguous;
    for (int i = 0; i < dim; i++)
        last += (size[i] - 1) * stride[i];
    fake_tensor_impl *impl =
        impl_on(storage_new(empty ? 0 : (size_t)(last + 1) * bytes_of(dtype)), dtype);
    set_dims(impl, dim, size, stride);
    return handle_on(impl);
}

torch_handle fake_undefined(void) { return handle_on(&nothing); }

torch_error aoti_torch_empty_strided(int64_t dim, const int64_t *size, const int64_t *stride,
                                     int32_t dtype, int32_t device, int32_t device_index,
                                     torch_handle *out)
{
    if (fake_fails_now()) return 1;
    *out = fake_tensor(dtype, (int)dim, size, stride);
    fake_set_device(*out, device, device_index);
    return 0;
}

torch_error aoti_torch_new_tensor_handle(torch_handle handle, torch_handle *out)
{
    if (fake_fails_now()) return 1;
    *out = handle_on(handle->impl);
    return 0;
}

torch_error aoti_torch_delete_tensor_object(torch_handle handle)
{
    fake_tensor_impl *impl = handle->impl;
    free(handle);
    fake_handles--;
    if (impl == &nothing || --impl->references > 0) return 0;
    if (--impl->true_storage->references == 0) {
        free(impl->true_storage);
        fake_storages--;
    }
    free(impl);
    return 0;
}

/* ---- facts ---- */

fake_facts *fake_facts_of(torch_handle handle) { return &handle->impl->facts; }
uint64_t fake_keys(torch_handle handle) { return handle->impl->keys; }
const void *fake_impl_of(torch_handle handle) { return handle->impl; }
const void *fake_storage_of(torch_handle handle) { return handle->impl->true_storage; }
void *fake_data(torch_handle handle) { return handle->impl->true_storage->bytes; }
long fake_version(torch_handle handle) { return handle->impl->true_counter->writes; }
void fake_bump(torch_handle handle) { handle->impl->true_counter->writes++; }

void fake_set_keys(torch_handle handle, uint64_t keys)
{
    fake_tensor_impl *impl = handle->impl;
    bool counted = keys != FAKE_KEYS_INFERENCE;
    impl->keys = keys;
    if (!(hidden & FAKE_COUNTER)) impl->counter = counted ? impl->true_counter : NULL;
}

void fake_set_device(torch_handle handle, int32_t device, int32_t index)
{
    fake_tensor_impl *impl = handle->impl;
    impl->facts.device = device;
    impl->facts.device_index = index;
    impl->device = (int8_t)(hidden & FAKE_DEVICE ? 99 : device);
    impl->device_index = (int8_t)index;
    impl->keys = (impl->keys & ~FAKE_KEYS_DEVICES) | fake_device_keys(device);
}

uint64_t fake_device_keys(int32_t device)
{
    return device == FAKE_CPU    ? FAKE_KEYS_CPU
           : device == FAKE_CUDA ? FAKE_KEYS_CUDA
           : device == FAKE_META ? FAKE_KEYS_META
                                 : FAKE_KEYS_XLA;
}

static void set_autograd(fake_tensor_impl *impl)
{
    bool known = (impl->requires_grad || impl->tangent) && !(hidden & FAKE_AUTOGRAD);
    impl->autograd = known ? impl : NULL;
}

void fake_set_requires_grad(torch_handle handle, bool on)
{
    handle->impl->requires_grad = on;
    set_autograd(handle->impl);
}

bool fake_requires_grad(torch_handle handle) { return handle->impl->requires_grad; }

void fake_set_tangent(torch_handle handle, bool on)
{
    handle->impl->tangent = on;
    set_autograd(handle->impl);
}

void fake_share(torch_handle handle) { handle->impl->true_storage->owner = handle->impl; }
bool fake_is_shared(torch_handle handle)
{
    return handle->impl->true_storage->owner == handle->impl;
}

void fake_move(torch_handle handle, int64_t offset) { handle->impl->offset = offset; }

/* ---- views ---- */

static torch_handle view_of(torch_handle handle, int64_t dim, const int64_t *size,
                            const int64_t *stride)
{
    fake_tensor_impl *from = handle->impl, *impl = impl_on(from->true_storage, from->facts.dtype);
    impl->keys = from->keys;
    impl->facts = from->facts;
    impl->offset = from->offset;
    set_dims(impl, dim, size, stride);
    torch_handle out = handle_on(impl);
    aoti_torch_delete_tensor_object(handle);
    return out;
}

torch_handle fake_narrow(torch_handle handle, int64_t length)
{
    int64_t size[MOST_DIMS];
    const fake_tensor_impl *impl = handle->impl;
    memcpy(size, impl->far_size, sizeof size);
    size[0] = length;
    return view_of(handle, impl->far_dim, size, impl->far_stride);
}

torch_handle fake_unsqueeze(torch_handle handle)
{
    int64_t size[MOST_DIMS], stride[MOST_DIMS];
    const fake_tensor_impl *impl = handle->impl;
    memcpy(size + 1, impl->far_size, (MOST_DIMS - 1) * sizeof *size);
    memcpy(stride + 1, impl->far_stride, (MOST_DIMS - 1) * sizeof *stride);
    size[0] = stride[0] = 1;
    return view_of(handle, impl->far_dim + 1, size, stride);
}

/* ---- the public questions ---- */

/* As torch's: a tensor that shares its memory gets memory of its own first. */
torch_error aoti_torch_get_data_ptr(torch_handle handle, void **out)
{
    fake_tensor_impl *impl = handle->impl;
    fake_storage *storage = impl->true_storage;
    storage->owner = storage->data;
    *out = impl->facts.device == FAKE_META
               ? NULL
               : storage->data + (size_t)impl->offset * bytes_of(impl->facts.dtype);
    return 0;
}

torch_error aoti_torch_get_sizes(torch_handle handle, int64_t **out)
{
    fake_tensor_impl *impl = handle->impl;
    *out = impl->far ? impl->far_size : impl->size;
    return 0;
}

torch_error aoti_torch_get_strides(torch_handle handle, int64_t **out)
{
    fake_tensor_impl *impl = handle->impl;
    *out = impl->far ? impl->far_stride : impl->stride;
    return 0;
}

#define GETTER(name, type, field)                                                                  \
    torch_error name(torch_handle handle, type *out)                                               \
    {                                                                                              \
        *out = handle->impl->field;                                                                \
        return 0;                                                                                  \
    }
GETTER(aoti_torch_get_dim, int64_t, far_dim)
GETTER(aoti_torch_get_storage_offset, int64_t, offset)
GETTER(aoti_torch_get_dtype, int32_t, facts.dtype)
GETTER(aoti_torch_get_layout, int32_t, facts.layout)
GETTER(aoti_torch_get_device_type, int32_t, facts.device)
GETTER(aoti_torch_get_device_index, int32_t, facts.device_index)
#undef GETTER

torch_error aoti_torch_is_defined(torch_handle handle, bool *out)
{
    *out = handle->impl != &nothing;
    return 0;
}

/* ---- copying ---- */

static void copy_from(fake_tensor_impl *to, const fake_tensor_impl *from, int64_t at,
                      int64_t to_offset, int64_t from_offset)
{
    size_t bytes = bytes_of(to->facts.dtype);
    if (at == to->far_dim) {
        memcpy(to->true_storage->data + (size_t)to_offset * bytes,
               from->true_storage->data + (size_t)from_offset * bytes, bytes);
        return;
    }
    for (int64_t i = 0; i < to->far_size[at]; i++)
        copy_from(to, from, at + 1, to_offset + i * to->far_stride[at],
                  from_offset + i * from->far_stride[at]);
}

static int n_copies;
int fake_copies(void) { return n_copies; }

/* As torch's: it writes, so it bumps. Autograd would record it, were grad mode on. */
torch_error aoti_torch_copy_(torch_handle to, torch_handle from, int32_t non_blocking)
{
    (void)non_blocking;
    if (fake_fails_now()) return 1;
    if (aoti_torch_grad_mode_is_enabled()) return fake_error("a copy that autograd sees");
    copy_from(to->impl, from->impl, 0, to->impl->offset, from->impl->offset);
    fake_bump(to);
    n_copies++;
    return 0;
}

/* Numbers: f32 and i64 are what the tests use. */
torch_error aoti_torch_item_float64(torch_handle handle, double *out)
{
    if (fake_fails_now() || handle->impl->facts.dtype != FAKE_F32) return 1;
    *out = *(const float *)(const void *)handle->impl->true_storage->data;
    return 0;
}

torch_error aoti_torch_aten_fill__Scalar(torch_handle handle, double value)
{
    const fake_tensor_impl *impl = handle->impl;
    void *data = impl->true_storage->data;
    if (fake_fails_now()) return 1;
    if (aoti_torch_grad_mode_is_enabled()) return fake_error("a write that autograd sees");
    if (impl->far_dim != 0) return fake_error("only for numbers");
    if (impl->facts.dtype == FAKE_I64)
        *(int64_t *)data = (int64_t)value;
    else
        *(float *)data = (float)value;
    fake_bump(handle);
    return 0;
}

/* ---- internals ---- */

static bool lies;

void fake_lie_about_gradients(bool on) { lies = on; }

bool _ZNK3c1010TensorImpl13requires_gradEv(const void *impl)
{
    return ((const fake_tensor_impl *)impl)->requires_grad != lies;
}

/* A tensor without a forward gradient answers with the one undefined tensor there is. */
const void *_ZNK3c1010TensorImpl8_fw_gradEmRKN2at10TensorBaseE(const void *impl, uint64_t level,
                                                               torch_handle self)
{
    static const char undefined_impl, defined_impl;
    static const void *const none = &undefined_impl, *const some = &defined_impl;
    (void)level, (void)self;
    return ((const fake_tensor_impl *)impl)->tangent ? &some : &none;
}

void _ZN5torch8autograd4impl12bump_versionERKN2at6TensorE(torch_handle handle)
{
    fake_bump(handle);
}
