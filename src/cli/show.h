/* show.h -- what `wick show` can say of a source besides its signatures
 *
 *   show_source.c     how it is compiled, and where what was built from it lies
 *   show_assembly.c   the loops that the C compiler made of it
 *   show_device.c     what became of its kernels: SASS, registers, shared memory
 */
#ifndef WICK_SHOW_H
#define WICK_SHOW_H

#include "cli.h"
#include "device.h"

/* A source and one choice of element types. */
typedef struct show_source {
    wick_scan scan;
    wick_dtype types[WICK_MAX_VARIABLES];
    wick_build_options options; /* as wick.load has them */
    char *include;              /* owned: what the options' include_dir is */
} show_source;

/* ---- show_source.c ---- */

/* *out is to be closed in any case. types: "f32 i32"; NULL: what a load builds
 * first. */
wick_status show_source_open(wick_ctx *ctx, const char *path, const char *types,
                             const char *compiler, show_source *out);
void show_source_close(show_source *s);
/* The compiler with all flags that decide about the code; then come files. */
wick_status show_source_compiler(wick_ctx *ctx, const show_source *s, wick_args *out);
/* The command as a line for a shell: it makes a module of what --glue prints. Then, for a file with
 * kernels, with which flags those are compiled and that the module has none of them. */
wick_status show_command(wick_ctx *ctx, const show_source *s);
/* "twice.cu f32, sm_90": what the lines below are of. arch 0: none. */
void show_head(const show_source *s, int32_t arch);
/* A line per choice of types: the module's path, or that there is none yet. */
wick_status show_cached(wick_ctx *ctx, const show_source *s);

/* ---- show_assembly.c ---- */

/* Every innermost loop of every function, from what the compiler writes with -S. */
wick_status show_assembly(wick_ctx *ctx, const show_source *s);

/* ---- show_device.c ---- */

typedef struct show_device_request {
    bool sass, resources;
    const char *archs; /* "sm_90"; NULL: the device at hand */
} show_device_request;

/* Of a source: its kernels are compiled, or taken from the cache. */
wick_status show_device_source(wick_ctx *ctx, const show_source *s,
                               const show_device_request *request);
/* Of a module: what it holds of these types ("f32"; NULL: all). `op` NULL: every operator. */
wick_status show_device_module(wick_ctx *ctx, const wick_module_table *table, const char *op,
                               const char *types, const show_device_request *request);

#endif /* WICK_SHOW_H */
