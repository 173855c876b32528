/* device_code.c -- kernels of a loaded source are compiled when they are first launched
 *
 * A module that was built at load has no device code: which GPU it will run on, and which of its
 * element types, is known at the first launch. What is compiled then is the text as it was loaded.
 */
#include "device.h"
#include "loaded.h"

#include <string.h>

typedef struct kernels {
    loaded_source *source;
    wick_dtype types[WICK_MAX_VARIABLES];
} kernels;

static wick_status resolve(wick_ctx *ctx, wick_device *device, int32_t arch, wick_device_code *out)
{
    const kernels *k = device->resolve_arg;
    loaded_source *l = k->source;
    wick_text warnings = {0};
    char *code = NULL; /* kept for ever, as the driver's module is */
    size_t size = 0;
    pthread_mutex_lock(&l->building);
    wick_status s = wick_load_check_depends(ctx, l, 1);
    if (s == WICK_OK)
        s = wick_device_cached(ctx, &l->scan, k->types, &l->options, arch, &wick_load_watch,
                               &warnings, &code, &size);
    pthread_mutex_unlock(&l->building);
    wick_text_free(&warnings);
    if (s == WICK_OK) *out = (wick_device_code){.arch = arch, .data = code, .size = size};
    return s;
}

wick_status wick_load_connect_devices(wick_ctx *ctx, loaded_source *l, const wick_dtype *types,
                                      const wick_module_table *table)
{
    for (int64_t i = 0; i < table->n_ops; i++) {
        for (int64_t v = 0; v < table->ops[i].n_variants; v++) {
            wick_device *device = table->ops[i].variants[v]->device;
            if (!device || device->resolve) continue;
            kernels *k = wick_arena_alloc(&l->arena, sizeof *k);
            if (!k) return wick_fail(ctx, WICK_ENOMEM, "out of memory");
            k->source = l;
            memcpy(k->types, types, sizeof k->types);
            l->connected = true;
            device->resolve_arg = k;
            device->resolve = resolve;
        }
    }
    return WICK_OK;
}

wick_status wick_load_try_devices(wick_ctx *ctx, loaded_source *l, int64_t combination,
                                  wick_text *warnings)
{
    wick_dtype types[WICK_MAX_VARIABLES];
    char *code = NULL;
    size_t size = 0;
    bool kernels_here =
        l->scan.device_text && !l->scan.needs_nvcc && wick_device_wanted(&l->options);
    int32_t arch = kernels_here ? wick_cuda_likely_arch() : 0;
    if (arch == 0) return WICK_OK;
    wick_scan_combination(&l->scan, combination, types);
    wick_status s = wick_device_cached(ctx, &l->scan, types, &l->options, arch, &wick_load_watch,
                                       warnings, &code, &size);
    wick_free(code);
    if (s == WICK_ENOTSUP) { /* no NVRTC, or none that knows this GPU: the first launch says so */
        wick_ctx_clear(ctx);
        s = WICK_OK;
    }
    return s;
}
