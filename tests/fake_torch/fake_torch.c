/* fake_torch.c -- tensors on malloc, lists, strings, boxes, modes and threads */
#include "fake_torch.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define TORCH_PROTOTYPE(result, name, parameters) EXPORT result name parameters;
TORCH_SHIM(TORCH_PROTOTYPE, TORCH_PROTOTYPE)

enum { KEYS_WORD = 9, N_WORDS = 32, MOST_DIMS = 80 };

typedef struct fake_storage {
    atomic_long references, version;
    char data[];
} fake_storage;

typedef struct fake_tensor_impl {
    uint64_t words[N_WORDS]; /* as in torch: a vtable, a reference count, ... the dispatch keys
                                among them */
    atomic_long references;
    fake_storage *storage;
    fake_facts facts;
    int64_t dim, size[MOST_DIMS], stride[MOST_DIMS];
} fake_tensor_impl;

struct torch_tensor {
    fake_tensor_impl *impl; /* NULL-free: `nothing` stands for no tensor */
};
struct torch_list {
    size_t n, capacity;
    torch_ivalue *items;
};
struct torch_string {
    char *text;
};

static fake_tensor_impl nothing;
static struct {
    atomic_long handles, storages, boxes, strings, lists;
} live;
atomic_long fake_libraries;

/* ---- failing ---- */

static _Thread_local long until_failure;
static _Thread_local char what[512], raised[4096];
static _Thread_local bool has_raised;

void fake_fail_after(long n) { until_failure = n; }

torch_error fake_error(const char *words)
{
    snprintf(what, sizeof what, "%s", words);
    return 1;
}

bool fake_fails_now(void)
{
    if (until_failure <= 0 || --until_failure != 0) return false;
    fake_error("injected");
    return true;
}

fake_counts fake_live(void)
{
    fake_counts counts = {live.handles, live.storages, live.boxes,
                          live.strings, live.lists,    fake_libraries};
    return counts;
}

const char *fake_raised(void)
{
    bool has = has_raised;
    has_raised = false;
    return has ? raised : NULL;
}

void aoti_torch_check(bool ok, const char *function, const char *file, uint32_t line,
                      const char *message)
{
    (void)function, (void)file, (void)line;
    if (ok) return;
    snprintf(raised, sizeof raised, "%s", message);
    has_raised = true;
}

const char *torch_exception_get_what_without_backtrace(void) { return what; }

/* ---- tensors ---- */

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

static torch_handle handle_on(fake_tensor_impl *impl)
{
    torch_handle handle = malloc(sizeof *handle);
    if (!handle) abort();
    handle->impl = impl;
    if (impl != &nothing) impl->references++;
    live.handles++;
    return handle;
}

static fake_tensor_impl *impl_on(fake_storage *storage)
{
    fake_tensor_impl *impl = calloc(1, sizeof *impl);
    if (!impl) abort();
    for (int i = 0; i < N_WORDS; i++)
        impl->words[i] =
            (uint64_t)(uintptr_t)impl + (uint64_t)i; /* nothing that could be taken for keys */
    impl->words[KEYS_WORD] = FAKE_KEYS_PLAIN;
    impl->storage = storage;
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
    size_t bytes = empty ? 0 : (size_t)(last + 1) * bytes_of(dtype);
    fake_storage *storage = calloc(1, sizeof *storage + bytes);
    if (!storage) abort();
    live.storages++;
    fake_tensor_impl *impl = impl_on(storage);
    impl->facts.dtype = dtype;
    impl->dim = dim;
    for (int i = 0; i < dim; i++) {
        impl->size[i] = size[i];
        impl->stride[i] = stride[i];
    }
    return handle_on(impl);
}

torch_handle fake_undefined(void) { return handle_on(&nothing); }
fake_facts *fake_facts_of(torch_handle handle) { return &handle->impl->facts; }
void fake_set_keys(torch_handle handle, uint64_t keys) { handle->impl->words[KEYS_WORD] = keys; }
uint64_t fake_keys(torch_handle handle) { return handle->impl->words[KEYS_WORD]; }
const void *fake_impl_of(torch_handle handle) { return handle->impl; }
void *fake_data(torch_handle handle) { return handle->impl->storage->data; }
long fake_version(torch_handle handle) { return handle->impl->storage->version; }
void fake_bump(torch_handle handle) { handle->impl->storage->version++; }

torch_error aoti_torch_delete_tensor_object(torch_handle handle)
{
    fake_tensor_impl *impl = handle->impl;
    free(handle);
    live.handles--;
    if (impl == &nothing || --impl->references > 0) return 0;
    if (--impl->storage->references == 0) {
        free(impl->storage);
        live.storages--;
    }
    free(impl);
    return 0;
}

torch_error aoti_torch_new_tensor_handle(torch_handle handle, torch_handle *out)
{
    if (fake_fails_now()) return 1;
    *out = handle_on(handle->impl);
    return 0;
}

static torch_handle view_of(torch_handle handle, int64_t dim)
{
    fake_tensor_impl *from = handle->impl, *impl = impl_on(from->storage);
    impl->words[KEYS_WORD] = from->words[KEYS_WORD];
    impl->facts = from->facts;
    impl->dim = dim;
    memcpy(impl->size, from->size, sizeof impl->size);
    memcpy(impl->stride, from->stride, sizeof impl->stride);
    torch_handle out = handle_on(impl);
    aoti_torch_delete_tensor_object(handle);
    return out;
}

torch_handle fake_narrow(torch_handle handle, int64_t length)
{
    torch_handle out = view_of(handle, handle->impl->dim);
    out->impl->size[0] = length;
    return out;
}

torch_handle fake_unsqueeze(torch_handle handle)
{
    torch_handle out = view_of(handle, handle->impl->dim + 1);
    memmove(out->impl->size + 1, out->impl->size, (MOST_DIMS - 1) * sizeof(int64_t));
    memmove(out->impl->stride + 1, out->impl->stride, (MOST_DIMS - 1) * sizeof(int64_t));
    out->impl->size[0] = out->impl->stride[0] = 1;
    return out;
}

torch_error aoti_torch_get_data_ptr(torch_handle handle, void **out)
{
    const fake_tensor_impl *impl = handle->impl;
    *out = impl->facts.device == FAKE_META ? NULL : handle->impl->storage->data;
    return 0;
}

#define GETTER(name, type, field)                                                                  \
    torch_error name(torch_handle handle, type *out)                                               \
    {                                                                                              \
        *out = handle->impl->field;                                                                \
        return 0;                                                                                  \
    }
GETTER(aoti_torch_get_dim, int64_t, dim)
GETTER(aoti_torch_get_sizes, int64_t *, size)
GETTER(aoti_torch_get_strides, int64_t *, stride)
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

torch_error aoti_torch_empty_strided(int64_t dim, const int64_t *size, const int64_t *stride,
                                     int32_t dtype, int32_t device, int32_t device_index,
                                     torch_handle *out)
{
    if (fake_fails_now()) return 1;
    *out = fake_tensor(dtype, (int)dim, size, stride);
    fake_facts_of(*out)->device = device;
    fake_facts_of(*out)->device_index = device_index;
    return 0;
}

static void copy_from(fake_tensor_impl *to, const fake_tensor_impl *from, int64_t at,
                      int64_t to_offset, int64_t from_offset)
{
    size_t bytes = bytes_of(to->facts.dtype);
    if (at == to->dim) {
        memcpy(to->storage->data + (size_t)to_offset * bytes,
               from->storage->data + (size_t)from_offset * bytes, bytes);
        return;
    }
    for (int64_t i = 0; i < to->size[at]; i++)
        copy_from(to, from, at + 1, to_offset + i * to->stride[at],
                  from_offset + i * from->stride[at]);
}

/* As torch's: it writes, so it bumps. Autograd would record it, were grad mode on. */
torch_error aoti_torch_copy_(torch_handle to, torch_handle from, int32_t non_blocking)
{
    (void)non_blocking;
    if (fake_fails_now()) return 1;
    if (aoti_torch_grad_mode_is_enabled()) return fake_error("a copy that autograd sees");
    copy_from(to->impl, from->impl, 0, 0, 0);
    fake_bump(to);
    return 0;
}

/* ---- lists, strings, boxes ---- */

torch_error torch_new_list_reserve_size(size_t capacity, torch_list_handle *out)
{
    if (fake_fails_now()) return 1;
    torch_list_handle list = calloc(1, sizeof *list);
    if (!list || !(list->items = calloc(capacity + 1, sizeof *list->items))) abort();
    list->capacity = capacity + 1;
    live.lists++;
    *out = list;
    return 0;
}

torch_error torch_list_push_back(torch_list_handle list, torch_ivalue item)
{
    if (fake_fails_now()) return 1;
    if (list->n == list->capacity) {
        list->capacity *= 2;
        list->items = realloc(list->items, list->capacity * sizeof *list->items);
        if (!list->items) abort();
    }
    list->items[list->n++] = item;
    return 0;
}

torch_error torch_list_size(torch_list_handle list, size_t *out) { return *out = list->n, 0; }
torch_error torch_list_get_item(torch_list_handle list, size_t i, torch_ivalue *out)
{
    return *out = list->items[i], 0;
}

torch_error torch_delete_list(torch_list_handle list)
{
    free(list->items);
    free(list);
    live.lists--;
    return 0;
}

torch_error torch_new_string_handle(const char *text, size_t n, torch_string_handle *out)
{
    if (fake_fails_now()) return 1;
    torch_string_handle string = malloc(sizeof *string);
    if (!string || !(string->text = calloc(1, n + 1))) abort();
    memcpy(string->text, text, n);
    live.strings++;
    *out = string;
    return 0;
}

torch_error torch_string_c_str(torch_string_handle string, const char **out)
{
    if (fake_fails_now()) return 1;
    *out = string->text;
    return 0;
}

torch_error torch_delete_string(torch_string_handle string)
{
    free(string->text);
    free(string);
    live.strings--;
    return 0;
}

void *fake_new(size_t bytes)
{
    if (fake_fails_now()) return NULL;
    live.boxes++;
    return malloc(bytes);
}

void fake_delete(void *p)
{
    if (p) live.boxes--;
    free(p);
}

void *_Znwm(size_t bytes) { return fake_new(bytes); }
void _ZdlPv(void *p) { fake_delete(p); }
torch_error torch_new_stable_ivalue(torch_ivalue **out) { return !(*out = fake_new(sizeof **out)); }

torch_error torch_delete_stable_ivalue(torch_ivalue *box)
{
    fake_delete(box);
    return 0;
}

/* ---- modes ---- */

EXPORT extern _Thread_local uint64_t _ZN3c104impl26raw_local_dispatch_key_setE[2];
_Thread_local uint64_t _ZN3c104impl26raw_local_dispatch_key_setE[2];
static _Thread_local bool grad_mode_is_off, function_mode;
static bool lies;

uint64_t *fake_state(void) { return _ZN3c104impl26raw_local_dispatch_key_setE; }
void fake_set_function_mode(bool on) { function_mode = on; }
void fake_lie_about_gradients(bool on) { lies = on; }
bool aoti_torch_grad_mode_is_enabled(void) { return !grad_mode_is_off; }
void aoti_torch_grad_mode_set_enabled(bool on) { grad_mode_is_off = !on; }
bool _ZN2at4impl27torch_function_mode_enabledEv(void) { return function_mode; }
bool _ZN2at12hasCallbacksEv(void) { return false; }

bool _ZNK3c1010TensorImpl13requires_gradEv(const void *impl)
{
    return ((const fake_tensor_impl *)impl)->facts.requires_grad != lies;
}

/* A tensor without a forward gradient answers with the one undefined tensor there is. */
static const void *tangent;
static const char undefined_impl, defined_impl;

void fake_set_tangent(bool dual) { tangent = dual ? &defined_impl : &undefined_impl; }

const void *_ZNK3c1010TensorImpl8_fw_gradEmRKN2at10TensorBaseE(const void *impl, uint64_t level,
                                                               torch_handle self)
{
    (void)impl, (void)level, (void)self;
    if (!tangent) tangent = &undefined_impl;
    return &tangent;
}

void _ZN5torch8autograd4impl12bump_versionERKN2at6TensorE(torch_handle handle)
{
    fake_bump(handle);
}

/* ---- threads ---- */

typedef struct fake_piece {
    torch_body body;
    void *arg;
    int64_t begin, end;
} fake_piece;

static void *run_piece(void *arg)
{
    const fake_piece *p = arg;
    p->body(p->begin, p->end, p->arg);
    return NULL;
}

/* The caller and one more thread, each with half. */
torch_error torch_parallel_for(int64_t begin, int64_t end, int64_t grain, torch_body body,
                               void *arg)
{
    if (fake_fails_now()) return 1;
    int64_t half = begin + (end - begin) / 2;
    fake_piece first = {body, arg, begin, half}, second = {body, arg, half, end};
    pthread_t thread;
    if (end - begin < 2 * grain) {
        body(begin, end, arg);
        return 0;
    }
    if (pthread_create(&thread, NULL, run_piece, &second) != 0) abort();
    run_piece(&first);
    pthread_join(thread, NULL);
    return 0;
}

/* ---- numbers ---- */

uint64_t aoti_torch_abi_version(void) { return (uint64_t)2 << 56 | (uint64_t)13 << 48; }
#define CODE(name, number)                                                                         \
    int32_t name(void) { return number; }
CODE(aoti_torch_dtype_float16, FAKE_F16)
CODE(aoti_torch_dtype_bfloat16, FAKE_BF16)
CODE(aoti_torch_dtype_float32, FAKE_F32)
CODE(aoti_torch_dtype_float64, FAKE_F64)
CODE(aoti_torch_dtype_int8, FAKE_I8)
CODE(aoti_torch_dtype_int16, FAKE_I16)
CODE(aoti_torch_dtype_int32, FAKE_I32)
CODE(aoti_torch_dtype_int64, FAKE_I64)
CODE(aoti_torch_dtype_uint8, FAKE_U8)
CODE(aoti_torch_dtype_bool, FAKE_BOOL)
CODE(aoti_torch_dtype_complex64, FAKE_COMPLEX64)
CODE(aoti_torch_dtype_complex128, FAKE_COMPLEX128)
CODE(aoti_torch_device_type_cpu, FAKE_CPU)
CODE(aoti_torch_device_type_cuda, FAKE_CUDA)
CODE(aoti_torch_device_type_meta, FAKE_META)
CODE(aoti_torch_layout_strided, FAKE_STRIDED)
CODE(torch_tag_pt2_compliant_tag, 3)
#undef CODE
