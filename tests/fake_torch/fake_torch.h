/* fake_torch.h -- a stand-in for the slice of libtorch's C shim that src/torch/shim.h lists
 *
 *   fake_tensors.c      tensors on malloc, laid out as torch lays them out
 *   fake_torch.c        lists, strings, boxes, modes, threads; everything that is out is counted
 *   fake_dispatcher.c   libraries, schemas, kernels, and calls by name
 *
 * The bridge finds it by dlsym, as it finds torch. Where torch would throw, the stand-in remembers
 * the words and returns: the bridge owns nothing by then, and does nothing afterwards.
 */
#ifndef WICK_FAKE_TORCH_H
#define WICK_FAKE_TORCH_H

#include "shim.h"

/* ---- what is out ---- */

typedef struct fake_counts {
    long handles, storages, boxes, strings, lists, libraries;
} fake_counts;

fake_counts fake_live(void);

/* The n-th call from now on that can fail does (1: the next one), with the words "injected"; 0
 * stops. Functions that only read or give back never fail. Per thread. */
void fake_fail_after(long n);
bool fake_fails_now(void);
/* Remembers words for torch_exception_get_what_without_backtrace; returns 1. */
torch_error fake_error(const char *words);

/* What was thrown since the last call, or NULL. */
const char *fake_raised(void);

/* operator new and delete; boxes come from here, and are counted. */
void *fake_new(size_t bytes);
void fake_delete(void *p);

/* ---- tensors ---- */

enum {
    FAKE_CPU = 0,
    FAKE_CUDA = 1,
    FAKE_META = 14,
    FAKE_XLA = 9,
    FAKE_STRIDED = 0,
    FAKE_SPARSE = 1
};
enum {
    FAKE_U8 = 0,
    FAKE_I8 = 1,
    FAKE_I16 = 2,
    FAKE_I32 = 3,
    FAKE_I64 = 4,
    FAKE_F16 = 5,
    FAKE_F32 = 6,
    FAKE_F64 = 7,
    FAKE_COMPLEX64 = 9,
    FAKE_COMPLEX128 = 10,
    FAKE_BOOL = 11,
    FAKE_BF16 = 15,
    FAKE_U64 = 29
};
/* Dispatch keys: one bit says which device, another what autocast does there; the rest is the same
 * on all of them. */
#define FAKE_KEYS_CPU UINT64_C(0x0000010000000001)
#define FAKE_KEYS_CUDA UINT64_C(0x0000020000000002)
#define FAKE_KEYS_META UINT64_C(0x0000000000000004)
#define FAKE_KEYS_XLA UINT64_C(0x0000000000000008)
#define FAKE_KEYS_DEVICES UINT64_C(0x000003000000000f)
#define FAKE_KEYS_PLAIN (FAKE_KEYS_CPU | UINT64_C(0x0a00000010))
#define FAKE_KEYS_INFERENCE (FAKE_KEYS_CPU | UINT64_C(0x10))
#define FAKE_KEYS_PLAIN_CUDA (FAKE_KEYS_CUDA | UINT64_C(0x0a00000010))
#define FAKE_KEYS_INFERENCE_CUDA (FAKE_KEYS_CUDA | UINT64_C(0x10))
#define FAKE_KEYS_SUBCLASS (FAKE_KEYS_CPU | UINT64_C(0x4a00000010))

/* A new handle on a new tensor, filled with zeros. `stride` NULL: contiguous. */
torch_handle fake_tensor(int32_t dtype, int dim, const int64_t *size, const int64_t *stride);
/* A new handle on no tensor. */
torch_handle fake_undefined(void);

/* Of the tensor behind a handle, shared by all its handles. */
typedef struct fake_facts {
    int32_t dtype, device, device_index, layout;
} fake_facts;
fake_facts *fake_facts_of(torch_handle handle);
void fake_set_keys(torch_handle handle, uint64_t keys);
uint64_t fake_keys(torch_handle handle);
/* The device, and the keys that go with it. */
void fake_set_device(torch_handle handle, int32_t device, int32_t index);
uint64_t fake_device_keys(int32_t device);
void fake_set_requires_grad(torch_handle handle, bool on);
bool fake_requires_grad(torch_handle handle);
/* It carries a forward-mode gradient. */
void fake_set_tangent(torch_handle handle, bool on);
/* Its memory is another tensor's too, until somebody asks where it is. */
void fake_share(torch_handle handle);
bool fake_is_shared(torch_handle handle);
/* It begins so many elements into its storage. */
void fake_move(torch_handle handle, int64_t offset);
const void *fake_impl_of(torch_handle handle);
const void *fake_storage_of(torch_handle handle);
void *fake_data(torch_handle handle); /* of the storage */
/* How often it or a view of it was written through torch's own functions. */
long fake_version(torch_handle handle);
/* A view of the first `length` along dimension 0, and one with a dimension of size 1 in front. Take
 * over the handle. */
torch_handle fake_narrow(torch_handle handle, int64_t length);
torch_handle fake_unsqueeze(torch_handle handle);
void fake_bump(torch_handle handle);

/* Parts that tensors made from now on keep elsewhere than torch 2.10 to 2.15 do. */
enum {
    FAKE_RANK = 1,
    FAKE_SIZES = 2,
    FAKE_DTYPE = 4,
    FAKE_AUTOGRAD = 8,
    FAKE_STORAGE = 16,
    FAKE_COUNTER = 32,
    FAKE_DEVICE = 64
};
void fake_hide(unsigned parts);

/* How often aoti_torch_copy_ has copied. */
int fake_copies(void);
/* The current stream of a CUDA device. */
void *fake_stream(int32_t device);

/* ---- modes ---- */

/* The thread's dispatch state; all zero is plain. */
uint64_t *fake_state(void);
void fake_set_function_mode(bool on);
/* requires_grad answers wrongly: what a torch would do whose internals have moved. */
void fake_lie_about_gradients(bool on);

/* ---- the dispatcher ---- */

/* Runs the kernel that is registered for "ns::name" on a key. False when there is none. */
bool fake_run(const char *name, const char *key, torch_ivalue *stack);
/* The schema that "ns::name" has, or NULL. */
const char *fake_schema(const char *name);
/* How often torch_call_dispatcher was asked for it. */
int fake_dispatched(const char *name);

#endif /* WICK_FAKE_TORCH_H */
