/* build.h -- from an operator's source to a module, and to operators that can be called
 *
 * The build scans a file for WICK_OP, writes the code around it and runs the C compiler; it links
 * nothing but libc and libm into what it makes. `wick build` and wick.load both stand on these
 * functions.
 */
#ifndef WICK_BUILD_H
#define WICK_BUILD_H

#include <wick/wick.h>

/* A source: a path, or text with a name for messages (a notebook cell). */
typedef struct wick_source {
    const char *path; /* where it is; for text, the name it goes by */
    const char *text; /* NULL: read `path` */
} wick_source;

typedef struct wick_build_options {
    const char *compiler;          /* NULL: $CC, else cc */
    const char *const *flags;      /* further compiler flags, NULL-terminated; may be NULL */
    const char *const *cuda_flags; /* the same for NVRTC or nvcc, spelt as nvcc's; may be NULL */
    const char *include_dir;       /* where <wick/op.h> lies; NULL: found beside the library */
    const char *ns; /* namespace of files that name none; NULL: leave it to the loader ("local") */
    bool portable;  /* for any x86-64 CPU (baseline and v3, chosen at load), not for this one */
    bool debug;     /* symbols, no optimisation */
    bool all_types; /* wick_load_source: build every element type now, none at its first call */
    const char *cache_dir; /* NULL: $WICK_CACHE_DIR, else the user's cache folder */
    bool no_cuda;          /* leave the operators' CUDA versions out (as USE_CUDA=0 does) */
    const char *archs;     /* GPUs that wick_build_module compiles for ("sm_80,sm_90"); NULL:
                              $WICK_CUDA_ARCHS, else a list of our own */
    bool keep;             /* keep the generated files (their folder is named in the log) */
    const char *depfile; /* wick_build_module: where to write what it was made from, as a make rule;
                            may be NULL */
    void (*progress)(void *arg, int64_t done, int64_t total, const char *what); /* may be NULL */
    void *progress_arg;
} wick_build_options;

/* Builds all element types of the sources into one module at `output`. Warnings of the compiler, if
 * any, are appended to *warnings (owned by the caller, free with wick_string_free); pass NULL to
 * drop them. A failure's first line begins FILE:LINE: of the author's file. */
WICK_API wick_status wick_build_module(wick_ctx *ctx, const wick_source *sources, int64_t n_sources,
                                       const wick_build_options *options, const char *output,
                                       char **warnings);

/* Builds a source for this machine and registers its operators: one element type now, so that
 * errors are known, the other types at their first call (all of them have been checked by the
 * compiler). Loading the same path again replaces; another file that defines an operator of the
 * same name is an error that names both. */
WICK_API wick_status wick_load_source(wick_ctx *ctx, const wick_source *source,
                                      const wick_build_options *options, wick_module **out,
                                      char **warnings);

/* The generated code of one variant (types: "f32", or "f32 i32" for several variables; NULL: the
 * first), for reading: it includes the source, or ends with the host half of one with kernels. */
WICK_API wick_status wick_build_show(wick_ctx *ctx, const wick_source *source,
                                     const wick_build_options *options, const char *types,
                                     char **out);

WICK_API void wick_string_free(char *s);

#endif /* WICK_BUILD_H */
