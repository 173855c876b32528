/* cuda.h -- the CUDA driver and NVRTC, both found at run time; nothing links them
 *
 *   driver.c    libcuda.so.1 by dlopen: its functions, its words for errors
 *   device.c    facts of a device; the primary contexts
 *   code.c      which of a module's cubins and PTX a device takes; loading it; kernels by name
 *   launch.c    limits checked, one cuLaunchKernel, errors in words
 *   nvrtc_find.c, nvrtc.c  finding NVRTC and its builtins; CUDA C into a cubin or PTX
 *   device_memory.c        memory and copies on a stream, for programs without torch
 *   fenced.c               memory with nothing around it, for trials
 *   arch.c      "sm_80,sm_90": lists of architectures
 *   identify.c  which GPU there is, asked of NVML: CUDA is not started, a process may still fork
 *
 * driver.h and nvrtc.h declare what is used of the two libraries; only this folder includes them.
 *
 * Contexts are the primary ones, which torch uses as well. Nothing here allocates device memory for
 * operators, synchronises (but under WICK_DEBUG=sync) or chooses a stream.
 */
#ifndef WICK_CUDA_H
#define WICK_CUDA_H

#include "core.h"

/* ---- arch.c ---- */

enum { WICK_MAX_ARCHS = 16 };

typedef struct wick_archs {
    int n;
    int32_t arch[WICK_MAX_ARCHS]; /* 80, 90, 100: ascending, each once */
    int32_t ptx;                  /* PTX of this one as well; 0: none */
} wick_archs;

/* Reads "sm_80,sm_90", "80;90", "8.0 9.0+PTX"; a trailing +PTX or "ptx" asks for PTX of the newest,
 * "-PTX" (or "noptx") leaves it out; default: with. "sm_90,compute_80" has code of the one and PTX
 * of the other. `what` names the setting for messages ("--arch").
 */
wick_status wick_archs_parse(wick_ctx *ctx, const char *what, const char *text, wick_archs *out);
/* What ahead-of-time builds are made for when nothing is said. */
wick_archs wick_archs_default(void);

/* ---- device.c ---- */

typedef struct wick_cuda_facts {
    char name[128];
    int32_t arch; /* 90 */
    int32_t multiprocessors;
    int64_t shared_per_block, shared_opt_in, l2_bytes;
    int32_t max_threads;
    int64_t max_block[3], max_grid[3];
} wick_cuda_facts;

/* Facts of a device, asked once. Initialises the driver. */
wick_status wick_cuda_device_facts(wick_ctx *ctx, int32_t device, const wick_cuda_facts **out);

/* ---- identify.c ---- */

/* The architecture of the first GPU that this process would see (CUDA_VISIBLE_DEVICES respected as
 * far as it is a list of numbers); 0: there is none, or nobody can tell. Does not initialise CUDA.
 */
int32_t wick_cuda_likely_arch(void);

/* ---- launch.c ---- */

/* A wick_launcher. */
wick_status wick_cuda_launch(wick_ctx *ctx, wick_kernel *kernel, wick_dim3 grid, wick_dim3 block,
                             int64_t shared_bytes, void **args);
/* The same, but the arguments are not yet known: everything up to the launch (loading the module,
 * finding the kernel). For tests and for warming up. */
wick_status wick_cuda_prepare(wick_ctx *ctx, wick_kernel *kernel);

/* ---- device_memory.c: for programs without torch (src/module/plain.c) ---- */

/* Stream-ordered. No bytes: NULL. A copy may come from host memory or device memory; host memory
 * that is not pinned has been read when the call returns. */
wick_status wick_cuda_alloc(wick_ctx *ctx, int32_t device, void *stream, uint64_t bytes,
                            void **out);
void wick_cuda_free(int32_t device, void *stream, void *p);
wick_status wick_cuda_copy(wick_ctx *ctx, int32_t device, void *stream, void *to, const void *from,
                           uint64_t bytes);

/* ---- fenced.c: for trials ---- */

/* At least so many bytes, and *bytes in all: who reads or writes right before or right behind them
 * is stopped. Never given back. */
wick_status wick_cuda_fenced(wick_ctx *ctx, int32_t device, uint64_t *bytes, void **out);

/* ---- nvrtc.c ---- */

/* A header that is handed to NVRTC by name, beside those in the include folders. */
typedef struct wick_nvrtc_header {
    const char *name; /* "stdint.h" */
    const char *text;
} wick_nvrtc_header;

typedef struct wick_nvrtc_job {
    const char *name; /* of the source, for its messages */
    const char *text;
    const wick_nvrtc_header *headers;
    int n_headers;
    const char *const *flags; /* NULL-terminated; without the architecture */
    int32_t arch;
    bool ptx; /* PTX rather than a cubin */
} wick_nvrtc_job;

/* Compiles. *code is owned by the caller (wick_free); PTX has its NUL, counted in *size. *log
 * (owned; may be empty, NULL only when out of memory) has what NVRTC said, also where it failed:
 * then the status is WICK_ECOMPILE with a message of one line, the log's first error, and the log
 * tells the rest. An architecture that this NVRTC does not know, or no NVRTC: WICK_ENOTSUP. Any
 * thread may call, several at once. */
wick_status wick_nvrtc_compile(wick_ctx *ctx, const wick_nvrtc_job *job, char **code, size_t *size,
                               char **log);
/* Opens NVRTC if it can be found, in this order: $WICK_NVRTC (a file), where the process has it
 * loaded already (torch), folders told by wick_nvrtc_look_in, nvidia-cuda-nvrtc wheels of the
 * Python installations that can be seen from there, $CUDA_HOME, $CUDA_PATH, /usr/local/cuda, the
 * loader's path. The message of a failure lists where was looked and what to install. */
wick_status wick_nvrtc_open(wick_ctx *ctx);
/* A further folder to look in (Python's site-packages): its nvidia wheels and torch's lib. */
void wick_nvrtc_look_in(const char *folder);
/* "NVRTC 13.0 /path/libnvrtc.so.13 <hash or size and time>": what a cached cubin was made with.
 * Owned by nobody; valid until the process ends. Opens NVRTC. */
wick_status wick_nvrtc_identity(wick_ctx *ctx, const char **out);
/* The folder that NVRTC was found in; as above. */
wick_status wick_nvrtc_folder(wick_ctx *ctx, const char **out);
/* Fails with words if this NVRTC does not compile for sm_<arch>. */
wick_status wick_nvrtc_supports(wick_ctx *ctx, int32_t arch);

#endif /* WICK_CUDA_H */
