/* fake_torch.c -- failing, lists, strings, boxes, modes, threads, numbers */
#include "fake_torch.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define TORCH_PROTOTYPE(result, name, parameters) EXPORT result name parameters;
TORCH_SHIM(TORCH_PROTOTYPE, TORCH_PROTOTYPE)

struct torch_list {
    size_t n, capacity;
    torch_ivalue *items;
};
struct torch_string {
    char *text;
};

static struct {
    atomic_long boxes, strings, lists;
} live;
atomic_long fake_libraries, fake_handles, fake_storages;

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
    fake_counts counts = {fake_handles, fake_storages, live.boxes,
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

uint64_t *fake_state(void) { return _ZN3c104impl26raw_local_dispatch_key_setE; }
void fake_set_function_mode(bool on) { function_mode = on; }
bool aoti_torch_grad_mode_is_enabled(void) { return !grad_mode_is_off; }
void aoti_torch_grad_mode_set_enabled(bool on) { grad_mode_is_off = !on; }
bool _ZN2at4impl27torch_function_mode_enabledEv(void) { return function_mode; }
bool _ZN2at12hasCallbacksEv(void) { return false; }

/* ---- CUDA ---- */

static char streams[4];

void *fake_stream(int32_t device) { return &streams[device]; }

torch_error aoti_torch_get_current_cuda_stream(int32_t device, void **out)
{
    if (fake_fails_now()) return 1;
    *out = fake_stream(device);
    return 0;
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
