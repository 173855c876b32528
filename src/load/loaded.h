/* loaded.h -- a source that was loaded, for the files that carry it out
 *
 *   load_source.c   loading, loading again, further element types at their first call
 *   device_code.c   kernels at their first launch
 */
#ifndef WICK_LOADED_H
#define WICK_LOADED_H

#include "load.h"

#include <pthread.h>

typedef struct loaded_source {
    wick_scan scan;
    wick_arena arena; /* holds the options' strings, and those below */
    wick_build_options options;
    const char *cc, *cflags; /* from the environment, "" when unset */
    const char *cache_asked; /* what the caller gave as cache_dir; the options have it as an
                                absolute path */
    char *depends; /* what the compiler read, and how to tell that it changed; NULL: it cannot be
                      told */
    const char *origin;
    wick_module *module;
    pthread_mutex_t building; /* one compiler run per source at a time */
    bool connected;           /* a mapped module's kernels refer to it: it is never freed */
    struct loaded_source *next;
} loaded_source;

/* Who is told that a compiler runs. */
extern wick_build_watch wick_load_watch;

/* What is compiled later must be what was loaded: fails when an included file was edited since. */
wick_status wick_load_check_depends(wick_ctx *ctx, const loaded_source *l, int64_t line);
/* The units of a module that was built from this source, with this choice of types, will have their
 * kernels compiled from it when the first one is launched. */
wick_status wick_load_connect_devices(wick_ctx *ctx, loaded_source *l, const wick_dtype *types,
                                      const wick_module_table *table);
/* Where there is a GPU, compiles the kernels of one choice of types now, so that what does not
 * compile is known at load. */
wick_status wick_load_try_devices(wick_ctx *ctx, loaded_source *l, int64_t combination,
                                  wick_text *warnings);

#endif /* WICK_LOADED_H */
