/* driver.h -- the CUDA driver's C interface, as far as Wick uses it; what the files of this folder
 * share
 *
 * Declared here after the driver's documented binary interface, so that no CUDA header is needed to
 * build. Every function is named once, in a list, and looked up by name when the driver is opened.
 */
#ifndef WICK_CUDA_DRIVER_H
#define WICK_CUDA_DRIVER_H

#include "cuda.h"

#include <pthread.h>

typedef int32_t cu_result; /* 0: fine */
typedef int32_t cu_device;
typedef struct CUctx_st *cu_context;
typedef struct CUmod_st *cu_module;
typedef struct CUfunc_st *cu_function;
typedef void *cu_stream;
typedef uint64_t cu_address;

/* Memory apart from the addresses that it is seen at. */
typedef unsigned long long cu_memory;
typedef struct cu_place {
    int type, id;
} cu_place;
typedef struct cu_memory_kind {
    int type, shared_how;
    cu_place where;
    void *of_windows;
    unsigned char flags[8];
} cu_memory_kind;
typedef struct cu_memory_access {
    cu_place where;
    int flags;
} cu_memory_access;

/* R(name, parameters): required, all there since CUDA 10.1. O: may be missing in an old driver. */
#define CUDA_DRIVER(R, O)                                                                          \
    R(cuInit, (unsigned))                                                                          \
    R(cuDriverGetVersion, (int *))                                                                 \
    R(cuGetErrorName, (cu_result, const char **))                                                  \
    R(cuGetErrorString, (cu_result, const char **))                                                \
    R(cuDeviceGetCount, (int *))                                                                   \
    R(cuDeviceGet, (cu_device *, int))                                                             \
    R(cuDeviceGetName, (char *, int, cu_device))                                                   \
    R(cuDeviceGetAttribute, (int *, int, cu_device))                                               \
    R(cuDevicePrimaryCtxRetain, (cu_context *, cu_device))                                         \
    R(cuCtxGetCurrent, (cu_context *))                                                             \
    R(cuCtxPushCurrent_v2, (cu_context))                                                           \
    R(cuCtxPopCurrent_v2, (cu_context *))                                                          \
    R(cuModuleLoadDataEx, (cu_module *, const void *, unsigned, int *, void **))                   \
    R(cuModuleGetFunction, (cu_function *, cu_module, const char *))                               \
    R(cuFuncGetAttribute, (int *, int, cu_function))                                               \
    R(cuFuncSetAttribute, (cu_function, int, int))                                                 \
    R(cuLaunchKernel, (cu_function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,    \
                       unsigned, cu_stream, void **, void **))                                     \
    R(cuStreamSynchronize, (cu_stream))                                                            \
    R(cuStreamIsCapturing, (cu_stream, int *))                                                     \
    R(cuThreadExchangeStreamCaptureMode, (int *))                                                  \
    R(cuMemcpyAsync, (cu_address, cu_address, size_t, cu_stream))                                  \
    O(cuMemAllocAsync, (cu_address *, size_t, cu_stream))                                          \
    O(cuMemFreeAsync, (cu_address, cu_stream))                                                     \
    O(cuMemGetAllocationGranularity, (size_t *, const cu_memory_kind *, int))                      \
    O(cuMemAddressReserve, (cu_address *, size_t, size_t, cu_address, unsigned long long))         \
    O(cuMemAddressFree, (cu_address, size_t))                                                      \
    O(cuMemCreate, (cu_memory *, size_t, const cu_memory_kind *, unsigned long long))              \
    O(cuMemRelease, (cu_memory))                                                                   \
    O(cuMemMap, (cu_address, size_t, size_t, cu_memory, unsigned long long))                       \
    O(cuMemUnmap, (cu_address, size_t))                                                            \
    O(cuMemSetAccess, (cu_address, size_t, const cu_memory_access *, size_t))

enum {
    CU_INVALID_VALUE = 1,
    CU_OUT_OF_MEMORY = 2,
    CU_NOT_INITIALIZED = 3,
    CU_NO_BINARY_FOR_GPU = 209,
    CU_UNSUPPORTED_PTX_VERSION = 222,
    CU_NOT_FOUND = 500
};
enum { CU_CAPTURE_MODE_RELAXED = 2 };
enum { CU_JIT_ERROR_LOG_BUFFER = 5, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES = 6 };
enum {
    CU_FUNC_MAX_THREADS_PER_BLOCK = 0,
    CU_FUNC_SHARED_SIZE_BYTES = 1,
    CU_FUNC_NUM_REGS = 4,
    CU_FUNC_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8
};

/* ---- driver.c ---- */

typedef struct cuda_driver {
#define CUDA_FIELD(name, parameters) cu_result(*name) parameters;
    CUDA_DRIVER(CUDA_FIELD, CUDA_FIELD)
#undef CUDA_FIELD
} cuda_driver;

/* Its functions; may be called once wick_driver_open has succeeded. */
extern cuda_driver cuda;

/* Opens and initialises the driver, once. */
wick_status wick_driver_open(wick_ctx *ctx);
/* The file that was opened or would be: "libcuda.so.1". */
const char *wick_driver_file(void);
/* The CUDA version that an installed driver speaks (13000), without initialising it; 0: none. */
int wick_driver_version(void);
/* "CUDA_ERROR_INVALID_VALUE (invalid argument)" in the caller's room. */
enum { CUDA_WORDS = 256 };
const char *wick_driver_words(cu_result result, char room[CUDA_WORDS]);
/* Fails with "<what>: <CUDA's words>": WICK_ECUDA, or WICK_ENOMEM where that is what CUDA says. */
WICK_PRINTF(3, 4)
wick_status wick_driver_fail(wick_ctx *ctx, cu_result result, const char *format, ...);

/* ---- device.c ---- */

/* How many devices the process sees. The driver is open. */
int32_t wick_device_count(void);
/* The device's primary context, made or joined at the first call and kept. */
wick_status wick_device_context(wick_ctx *ctx, int32_t device, cu_context *out);
/* Makes the primary context current for this thread if it is not; wick_device_leave takes that
 * back. */
wick_status wick_device_enter(wick_ctx *ctx, int32_t device, bool *pushed);
void wick_device_leave(bool pushed);

/* ---- code.c ---- */

/* A kernel on one device, ready to be launched. */
typedef struct wick_launchable {
    cu_function function; /* read and written atomically, last; NULL: not ready */
    cu_context context;
    const wick_cuda_facts *facts;
    int32_t max_threads, registers; /* of a block of this function, of a thread */
    int64_t static_bytes;           /* shared memory that it declares */
    int64_t dynamic_bytes;          /* how much more a launch may ask for; atomic: grows */
} wick_launchable;

/* What wick_kernel.host points to, set once and kept. */
typedef struct wick_kernel_record {
    int32_t n_devices;
    wick_launchable on[];
} wick_kernel_record;

/* The kernel on a device if it is ready there, else NULL. */
static inline wick_launchable *wick_code_ready(const wick_kernel *kernel, int32_t device)
{
    wick_kernel_record *record =
        (wick_kernel_record *)__atomic_load_n(&kernel->host, __ATOMIC_ACQUIRE);
    if (!record || (uint32_t)device >= (uint32_t)record->n_devices) return NULL;
    wick_launchable *k = &record->on[device];
    return __atomic_load_n(&k->function, __ATOMIC_ACQUIRE) ? k : NULL;
}

/* Makes it ready: chooses and loads the code, finds the kernel in it. Any thread, also while its
 * stream is being captured. */
wick_status wick_code_prepare(wick_ctx *ctx, wick_kernel *kernel, int32_t device,
                              wick_launchable **out);
/* Lets launches ask for that much dynamic shared memory, which the device has. */
wick_status wick_code_allow_shared(wick_ctx *ctx, wick_kernel *kernel, wick_launchable *k,
                                   int64_t bytes);

#endif /* WICK_CUDA_DRIVER_H */
