/* cubins.c -- device code out of the cache, or compiled and put there
 *
 * One entry per choice of element types and architecture, keyed by everything that decides about
 * it, headers included: there is no note to follow, as for host code, since what a kernel may
 * include is little and is read beforehand.
 */
#include "cache.h"
#include "device.h"

#include <string.h>

typedef struct request {
    const wick_scan *scan;
    const wick_build_watch *watch;
} request;

static void tell_waiting(void *arg, long pid)
{
    const request *r = arg;
    if (r->watch && r->watch->waiting) r->watch->waiting(r->watch->arg, r->scan->file, pid);
}

static wick_status compile(wick_ctx *ctx, const wick_unit *unit, const wick_build_options *options,
                           wick_device_target target, const wick_build_watch *watch,
                           wick_text *warnings, char **code, size_t *size)
{
    wick_text what = {0};
    wick_text_printf(&what, "sm_%d", (int)target.arch);
    if (watch && watch->started) watch->started(watch->arg, unit->scan->file, wick_text_str(&what));
    wick_status status = wick_device_compile(ctx, unit, options, target, warnings, code, size);
    if (watch && watch->finished) watch->finished(watch->arg, unit->scan->file, status == WICK_OK);
    wick_text_free(&what);
    return status;
}

/* A cache that cannot be written loses nothing but time. */
static void keep(wick_ctx *ctx, const wick_cache *cache, const wick_scan *scan, const char *key,
                 const char *code, size_t size, wick_text *warnings)
{
    if (!cache->folder) return;
    if (wick_cache_write(ctx, cache, key, ".cubin", code, size) != WICK_OK) {
        wick_text_printf(warnings, "%s: built, but not kept: %s\n", scan->file,
                         wick_ctx_message(ctx));
        wick_ctx_clear(ctx);
    }
}

static wick_status find_or_compile(wick_ctx *ctx, const wick_cache *cache, const wick_unit *unit,
                                   const wick_build_options *options, wick_device_target target,
                                   const wick_build_watch *watch, wick_text *warnings, char **code,
                                   size_t *size)
{
    char key[WICK_CACHE_KEY_DIGITS + 1];
    wick_text all = {0};
    request r = {unit->scan, watch};
    wick_cache_lock lock;
    wick_status status = wick_device_identity(ctx, unit, options, target, &all);
    if (status == WICK_OK) wick_hash_hex(wick_hash_bytes(all.data, all.size), key);
    wick_text_free(&all);
    if (status == WICK_OK) status = wick_cache_read(ctx, cache, key, ".cubin", code, size);
    if (status != WICK_OK || *code) return status;
    wick_cache_lock_take(cache, key, tell_waiting, &r, &lock);
    status = wick_cache_read(ctx, cache, key, ".cubin", code, size);
    if (status == WICK_OK && !*code) {
        status = compile(ctx, unit, options, target, watch, warnings, code, size);
        if (status == WICK_OK) keep(ctx, cache, unit->scan, key, *code, *size, warnings);
    }
    wick_cache_lock_release(&lock);
    return status;
}

wick_status wick_device_cached(wick_ctx *ctx, const wick_scan *scan, const wick_dtype *types,
                               const wick_build_options *options, int32_t arch,
                               const wick_build_watch *watch, wick_text *warnings, char **code,
                               size_t *size)
{
    wick_unit unit = {.scan = scan, .cuda = true};
    wick_device_target target = {arch, false};
    wick_cache cache;
    *code = NULL;
    memcpy(unit.types, types, sizeof unit.types);
    wick_status status = wick_cache_open(ctx, options->cache_dir, &cache);
    if (status != WICK_OK) {
        wick_ctx_prefix(ctx, "%s:1: ", scan->file);
        return status;
    }
    status = find_or_compile(ctx, &cache, &unit, options, target, watch, warnings, code, size);
    wick_cache_close(&cache);
    return status;
}
