/* nvrtc.h -- NVRTC's C interface, as far as Wick uses it, and the one that was found
 *
 * Declared after its documented binary interface, which is the same from CUDA 12 on. NVRTC may be
 * called by several threads at once, each with a program of its own.
 */
#ifndef WICK_NVRTC_H
#define WICK_NVRTC_H

#include "cuda.h"

typedef int32_t nvrtc_result; /* 0: fine */
typedef struct _nvrtcProgram *nvrtc_program;

#define NVRTC(R)                                                                                   \
    R(nvrtcVersion, (int *, int *))                                                                \
    R(nvrtcGetNumSupportedArchs, (int *))                                                          \
    R(nvrtcGetSupportedArchs, (int *))                                                             \
    R(nvrtcCreateProgram, (nvrtc_program *, const char *, const char *, int, const char *const *,  \
                           const char *const *))                                                   \
    R(nvrtcDestroyProgram, (nvrtc_program *))                                                      \
    R(nvrtcCompileProgram, (nvrtc_program, int, const char *const *))                              \
    R(nvrtcGetCUBINSize, (nvrtc_program, size_t *))                                                \
    R(nvrtcGetCUBIN, (nvrtc_program, char *))                                                      \
    R(nvrtcGetPTXSize, (nvrtc_program, size_t *))                                                  \
    R(nvrtcGetPTX, (nvrtc_program, char *))                                                        \
    R(nvrtcGetProgramLogSize, (nvrtc_program, size_t *))                                           \
    R(nvrtcGetProgramLog, (nvrtc_program, char *))

enum { NVRTC_OUT_OF_MEMORY = 1 };

typedef struct nvrtc_library {
    const char *(*nvrtcGetErrorString)(nvrtc_result);
#define NVRTC_FIELD(name, parameters) nvrtc_result(*name) parameters;
    NVRTC(NVRTC_FIELD)
#undef NVRTC_FIELD
    int major, minor;
    char *path, *identity, *folder; /* owned */
    int32_t *archs;                 /* owned; ascending */
    int n_archs;
} nvrtc_library;

/* ---- nvrtc_find.c ---- */

/* The library, opened if it is not yet. Valid until the process ends. */
wick_status wick_nvrtc_find(wick_ctx *ctx, const nvrtc_library **out);

#endif /* WICK_NVRTC_H */
