/* types.h -- what operators, hosts and generated code all speak: status, element types, views, the
 * context
 *
 * Valid C11 and C++17, and readable by NVRTC, which has no <stdint.h>. Every number here is pinned:
 * an operator built today is loaded by a Wick of ten years hence, which compares WICK_ABI and reads
 * these layouts.
 */
#ifndef WICK_TYPES_H
#define WICK_TYPES_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The number of the binary contract between a module and its host. A host loads modules of its own
 * number only. */
#define WICK_ABI 2

#ifdef __cplusplus
#define WICK_EXTERN_C extern "C"
#else
#define WICK_EXTERN_C
#endif

#if defined(__GNUC__)
#define WICK_API WICK_EXTERN_C __attribute__((visibility("default")))
#define WICK_PRINTF(at, first) __attribute__((format(printf, at, first)))
#define WICK_UNUSED __attribute__((unused))
#else
#define WICK_API WICK_EXTERN_C
#define WICK_PRINTF(at, first)
#define WICK_UNUSED
#endif

/* In front of a helper that an operator calls, on the CPU and in kernels; and of one that must see
 * which of its arguments are constants, such as the length of a block. WICK_HOST_FN: not in
 * kernels.
 */
#define WICK_HOST_FN static inline WICK_UNUSED
#if defined(__CUDACC__)
#define WICK_FN WICK_HOST_FN __host__ __device__
#define WICK_INLINE static WICK_UNUSED __host__ __device__ __forceinline__
#elif defined(__GNUC__)
#define WICK_FN WICK_HOST_FN
#define WICK_INLINE WICK_FN __attribute__((always_inline))
#else
#define WICK_FN WICK_HOST_FN
#define WICK_INLINE WICK_FN
#endif

/* How a call ended. What went wrong in words is in the context (wick_ctx_message). */
typedef enum wick_status {
    WICK_OK = 0,
    WICK_EINVAL = 1,   /* the caller broke the contract: shape, type, value */
    WICK_ENOTSUP = 2,  /* legal, but there is no implementation */
    WICK_ENOMEM = 3,   /* out of memory */
    WICK_ECUDA = 4,    /* the CUDA driver said no */
    WICK_ETORCH = 5,   /* torch said no */
    WICK_ECOMPILE = 6, /* the operator's source does not build */
    WICK_EIO = 7       /* a file could not be read, written or loaded */
} wick_status;

/* Element types. The spelling in signatures is the lower-case one: f16, bf16, ... */
typedef enum wick_dtype {
    WICK_DTYPE_IS_AN_INT = -1, /* no type: makes the enumeration signed for every compiler */
    WICK_NONE = 0,
    WICK_F16 = 1,
    WICK_BF16 = 2,
    WICK_F32 = 3,
    WICK_F64 = 4,
    WICK_I8 = 5,
    WICK_I16 = 6,
    WICK_I32 = 7,
    WICK_I64 = 8,
    WICK_U8 = 9,
    WICK_BOOL = 10
} wick_dtype;

enum { WICK_DTYPE_COUNT = 11, WICK_MAX_RANK = 64 };

/* Half-precision elements are structs, so that arithmetic on them does not compile by accident:
 * read one with wick_A(v), round back with wick_T(a). */
typedef struct wick_f16 {
    uint16_t bits;
} wick_f16;

typedef struct wick_bf16 {
    uint16_t bits;
} wick_bf16;

/* A tensor in memory that somebody else owns. Strides count elements, not bytes. */
typedef struct wick_view {
    void *data;
    int64_t dim;
    const int64_t *size;
    const int64_t *stride;
} wick_view;

typedef struct wick_ctx wick_ctx;

/* A piece of work over [begin, end) of a parallel loop. */
typedef wick_status (*wick_body)(void *arg, int64_t begin, int64_t end);

/* What a running operator may ask of whoever called it. A module links nothing, so it reaches its
 * host through this table; wick_fail and wick_parallel in <wick/op.h> are the readable way to do
 * so. */
typedef struct wick_services {
    wick_status (*fail)(wick_ctx *ctx, wick_status status, const char *format, va_list args);
    wick_status (*parallel)(wick_ctx *ctx, int64_t n, int64_t grain, wick_body body, void *arg);
} wick_services;

/* ---- device code ----
 * A unit of generated code (one file, one choice of element types) has one table of device code and
 * one wick_kernel per __global__ function. Whoever loads the module fills in `launch`. */

/* Device code of one unit for one target: a cubin (arch = 90 for sm_90) or PTX. */
typedef struct wick_device_code {
    int32_t arch;
    int32_t is_ptx;
    const void *data;
    uint64_t size;
} wick_device_code;

/* A grid or a block. */
typedef struct wick_dim3 {
    int64_t x, y, z;
} wick_dim3;

typedef struct wick_device wick_device;

typedef struct wick_kernel {
    const char *name;
    wick_device *device; /* whose code it is in */
    void *host;          /* the host's own: what it knows of this kernel; NULL at first */
} wick_kernel;

/* Starts a kernel on ctx's device and stream. args: the address of each argument. */
typedef wick_status (*wick_launcher)(wick_ctx *ctx, wick_kernel *kernel, wick_dim3 grid,
                                     wick_dim3 block, int64_t shared_bytes, void **args);

enum { WICK_FACT_MULTIPROCESSORS = 0, WICK_FACT_L2_BYTES = 1, WICK_FACT_ARCH = 2 };

struct wick_device {
    const wick_device_code
        *code; /* what the module holds; the compiler's output may be elsewhere */
    int64_t n_code;
    wick_launcher launch; /* filled in by the host at load */
    /* Makes the code that the module does not hold: fills a wick_device_code whose data lives as
     * long as the process. Set by the host that compiles at run time; else NULL. */
    wick_status (*resolve)(wick_ctx *ctx, wick_device *device, int32_t arch, wick_device_code *out);
    void *resolve_arg;
    /* What the device of this call is like: one of WICK_FACT_*. Filled in by the host at load. */
    int64_t (*fact)(wick_ctx *ctx, int32_t which);
    void *host; /* the host's own: modules loaded from `code`; NULL at first */
};

/* One call's context: where it reports errors, which stream it runs on. Operators treat it as
 * opaque. */
struct wick_ctx {
    const wick_services *services;
    void *stream;         /* the CUDA stream to launch on; NULL on the CPU */
    int32_t device;       /* the CUDA device's index; -1 on the CPU */
    int32_t failed;       /* set by the first wick_fail; later ones keep the first message */
    char *message;        /* owned by the context; NULL when nothing failed */
    const void *host;     /* the host's own data */
    const int64_t *tuned; /* measured launch choices for this call (WICK_TUNE); NULL: none */
};

#endif /* WICK_TYPES_H */
