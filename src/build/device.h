/* device.h -- a unit's kernels, compiled
 *
 *   device.c     what is compiled, what it depends on, and what the compiler's words mean
 *   device_flags.c  for which GPUs, with which flags
 *   includes.c   the files that a text includes
 *   nvcc.c       nvcc instead of NVRTC, and for the files that launch with <<<>>>
 *   cubins.c     the same out of the cache
 *   embed.c      all of a module's, ahead of time
 */
#ifndef WICK_BUILD_DEVICE_H
#define WICK_BUILD_DEVICE_H

#include "builder.h"
#include "cuda.h"

typedef struct wick_device_target {
    int32_t arch;
    bool ptx;
} wick_device_target;

/* ---- includes.c ---- */

typedef void (*wick_include_visitor)(void *arg, const char *path, const char *bytes, size_t size);
/* Visits each file that a text includes, and that those include, once, as far as they can be read.
 * `folder` is the text's own, for "..."; `folders` come after it and are all there is for <...>.
 * False: out of memory. */
bool wick_includes_visit(const char *folder, const char *text, const wick_args *folders,
                         wick_include_visitor visit, void *arg);

/* ---- device.c ---- */

/* Compiles the kernels of a unit. *code is owned by the caller. Messages begin FILE:LINE: */
wick_status wick_device_compile(wick_ctx *ctx, const wick_unit *unit,
                                const wick_build_options *options, wick_device_target target,
                                wick_text *warnings, char **code, size_t *size);
/* All that decides about the result: text, headers, flags, compiler, target. */
wick_status wick_device_identity(wick_ctx *ctx, const wick_unit *unit,
                                 const wick_build_options *options, wick_device_target target,
                                 wick_text *out);
/* What a compiler of CUDA said, told about the author's file; its first error is the failure. */
wick_status wick_device_diagnose(wick_ctx *ctx, const wick_scan *scan, const char *log);
void wick_device_warnings(wick_text *out, const char *log);
/* A comment that changes with the kernels: what the C compiler is given is otherwise the same when
 * only they are edited, and a module of the same bytes is the same module. */
void wick_device_mark(wick_text *out, const wick_scan *scan);
/* Visits the files that the kernels may be compiled with: all that the file includes. */
wick_status wick_device_visit(wick_ctx *ctx, const wick_scan *scan,
                              const wick_build_options *options, wick_include_visitor visit,
                              void *arg);

/* ---- device_flags.c ---- */

/* All flags but the target's. */
wick_status wick_device_flags(wick_ctx *ctx, const wick_scan *scan,
                              const wick_build_options *options, bool nvcc, wick_args *out);
/* The person's own for the device compiler, as far as it takes them. */
void wick_device_user_flags(const wick_build_options *options, bool nvcc, wick_args *out);
/* The folders of their -I, in order. */
void wick_device_folders(const wick_args *flags, wick_args *out);
/* Where <wick/op.h> lies; in the arena. */
wick_status wick_device_include_dir(wick_ctx *ctx, const wick_build_options *options,
                                    wick_arena *arena, const char **out);
/* What an ahead-of-time build is made for: the options' word, $WICK_CUDA_ARCHS, or ours. */
wick_status wick_device_archs(wick_ctx *ctx, const wick_build_options *options, wick_archs *out);
/* What a file with <<<>>> is compiled for when it is loaded: the device at hand. False: without a
 * device and without nvcc it is loaded without its CUDA half. */
bool wick_device_at_hand(wick_archs *out);
/* The CUDA half is wanted: neither --no-cuda nor USE_CUDA=0. */
bool wick_device_wanted(const wick_build_options *options);

/* ---- nvcc.c ---- */

/* The nvcc to run; NULL: there is none. $WICK_CUDA_COMPILER may name it. Lives in the arena. */
const char *wick_nvcc_find(wick_arena *arena);
/* $WICK_CUDA_COMPILER asks for nvcc, or there is no NVRTC. */
bool wick_nvcc_preferred(void);
/* Which nvcc it is, and the flags that it reads from the environment. */
void wick_nvcc_identity(wick_text *out);
wick_status wick_nvcc_compile(wick_ctx *ctx, const wick_scan *scan, const char *text,
                              const wick_args *flags, wick_device_target target,
                              wick_text *warnings, char **code, size_t *size);
/* The command for a unit of launchers, all but input and output. */
wick_status wick_nvcc_command(wick_ctx *ctx, const wick_scan *scan,
                              const wick_build_options *options, const wick_archs *archs,
                              wick_args *out);
/* The person's flags for the C compiler that are the linker's, as nvcc takes them. */
void wick_nvcc_link_flags(const wick_build_options *options, wick_args *out);

/* ---- cubins.c ---- */

/* The kernels of one choice of element types for one device, out of the cache or compiled and put
 * there. *code lives as long as the caller keeps it: wick_free. */
wick_status wick_device_cached(wick_ctx *ctx, const wick_scan *scan, const wick_dtype *types,
                               const wick_build_options *options, int32_t arch,
                               const wick_build_watch *watch, wick_text *warnings, char **code,
                               size_t *size);

/* ---- embed.c ---- */

/* Compiles the kernels of all units for all architectures, into files of `folder`, and enters them
 * in the units. */
wick_status wick_embed_compile(wick_ctx *ctx, wick_arena *arena, const char *folder,
                               wick_unit *units, int64_t n, const wick_build_options *options,
                               wick_text *warnings);

#endif /* WICK_BUILD_DEVICE_H */
