/* cached.c -- a module out of the cache, or built and put there
 *
 *   key    = what is known before the compiler runs: the unit's text (the author's and ours),
 * command, compiler, CPU note   = key.note: which further files the compiler read, as they were
 *   module = key + note ⇒ another key, under which the module lies
 *
 * So a hit reads the source, the note, the files it names and the module, and starts nothing. One
 * process builds a key at a time; the others wait for it and then find what it made.
 */
#include "cache.h"
#include "device.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct request {
    wick_ctx *ctx;
    const wick_scan *scan;
    int64_t index;
    wick_dtype types[WICK_MAX_VARIABLES];
    const wick_build_options *options;
    const wick_build_watch *watch;
    wick_cache cache;
    char key[WICK_CACHE_KEY_DIGITS + 1];
    wick_text type_names; /* "f32 i32" */
} request;

void wick_built_free(wick_built *built)
{
    if (built->folder) wick_dir_remove(built->folder);
    wick_free(built->folder);
    wick_free(built->path);
    wick_free(built->depends);
    wick_free(built->kept);
    *built = (wick_built){0};
}

static wick_status out_of_memory(wick_ctx *ctx)
{
    return wick_fail(ctx, WICK_ENOMEM, "out of memory");
}

/* ---- keys ---- */

static void add_command(wick_text *out, const wick_args *args)
{
    for (int64_t i = 0; i < args->count; i++)
        wick_text_addn(out, args->items[i], strlen(args->items[i]) + 1);
}

/* Flags may name folders relative to where we are. */
static void add_place(wick_text *out, const wick_build_options *options)
{
    char here[4096];
    const char *cflags = getenv("CFLAGS");
    bool flags = (options->flags && options->flags[0]) || (cflags && *cflags) ||
                 (options->cuda_flags && options->cuda_flags[0]);
    if (flags && getcwd(here, sizeof here)) wick_text_printf(out, "in %s\n", here);
}

/* What nvcc makes of the file, and for which device. */
static void add_launchers(wick_text *out, wick_unit *unit)
{
    wick_archs archs;
    unit->cuda = unit->cuda && wick_device_at_hand(&archs);
    if (!unit->cuda) return;
    wick_nvcc_identity(out);
    wick_text_printf(out, "sm_%d %d\n", (int)archs.arch[0], (int)archs.ptx);
    wick_glue_write_launchers(out, unit, 0);
}

/* The device compiler's flags: kernels that are compiled later with others are another module's. */
static void add_device_flags(wick_text *out, const wick_scan *scan,
                             const wick_build_options *options)
{
    for (const char *const *flag = options->cuda_flags; scan->device_text && flag && *flag; flag++)
        wick_text_printf(out, "%s\n", *flag);
}

/* Everything that goes into the module and is known beforehand. */
static wick_status make_key(request *r)
{
    wick_unit unit = {
        .scan = r->scan, .isa = WICK_ISA_BASELINE, .cuda = wick_device_wanted(r->options)};
    wick_arena arena = {0};
    wick_args command;
    wick_text all = {0};

    memcpy(unit.types, r->types, sizeof unit.types);
    wick_status s = wick_scan_namespace(r->ctx, r->scan, r->options, &unit.ns);
    if (s == WICK_OK) {
        s = wick_toolchain_find(r->ctx, &arena, r->options, &command);
        if (s != WICK_OK) wick_ctx_prefix(r->ctx, "%s:1: ", r->scan->file);
    }
    if (s == WICK_OK) {
        wick_toolchain_user_flags(r->options, &command);
        wick_text_printf(&all, "wick %s abi %d %s %s\n", WICK_VERSION, WICK_ABI, r->scan->folder,
                         r->index >= 0 ? "first" : "types");
        if (r->scan->package_include)
            wick_text_printf(&all, "headers in %s\n", r->scan->package_include);
        add_place(&all, r->options);
        add_command(&all, &command);
        for (int64_t i = 0; i < command.count && command.items[i][0] != '-'; i++)
            wick_identity_compiler(&all, command.items[i]); /* CC may be "ccache gcc" */
        wick_identity_cpu(&all);
        add_device_flags(&all, r->scan, r->options);
        if (r->scan->needs_nvcc) add_launchers(&all, &unit);
        wick_glue_write(&all, &unit, 1, 0, false);
        if (all.failed || command.failed) s = out_of_memory(r->ctx);
        if (s == WICK_OK) wick_hash_hex(wick_hash_bytes(all.data, all.size), r->key);
    }
    wick_text_free(&all);
    wick_arena_free(&arena);
    return s;
}

/* The module's own key: the request's, and the files that the note describes. */
static bool module_key(const char *request_key, const char *depends,
                       char out[WICK_CACHE_KEY_DIGITS + 1])
{
    wick_text all = {0};
    wick_text_printf(&all, "%s\n%s", request_key, depends);
    bool ok = !all.failed;
    if (ok) wick_hash_hex(wick_hash_bytes(all.data, all.size), out);
    wick_text_free(&all);
    return ok;
}

/* ---- looking ---- */

/* What the note says of the operator's source comes first, for people; then the files. */
static const char *depends_of(const char *note)
{
    const char *lines = strstr(note, "\n\n");
    return lines ? lines + 2 : note;
}

bool wick_cached_module_key(const char *key, const char *note, char out[WICK_CACHE_KEY_DIGITS + 1])
{
    return module_key(key, depends_of(note), out);
}

static wick_status look_up(const request *r, wick_built *out)
{
    char key[WICK_CACHE_KEY_DIGITS + 1], *note = NULL, *module = NULL;
    size_t n;
    WICK_TRY(wick_cache_read(r->ctx, &r->cache, r->key, ".note", &note, &n));
    if (!note) return WICK_OK;
    const char *depends = depends_of(note);
    wick_status s = WICK_OK;
    if (wick_depends_hold(depends) && module_key(r->key, depends, key))
        s = wick_cache_read(r->ctx, &r->cache, key, ".so", &module, &n);
    if (module) {
        out->path = wick_cache_path(&r->cache, key, ".so");
        out->depends = wick_strdup(depends);
        out->hit = out->path && out->depends;
        if (!out->hit) s = out_of_memory(r->ctx);
    }
    wick_free(module);
    wick_free(note);
    return s;
}

/* ---- building ---- */

static void add_title(const request *r, wick_text *note)
{
    wick_text_printf(note, "source %s\noperators", r->scan->file);
    for (int i = 0; i < r->scan->n_ops; i++)
        wick_text_printf(note, " %s", r->scan->ops[i].name);
    wick_text_printf(note, "\ntypes %s\n\n", wick_text_str(&r->type_names));
}

static wick_status write_entries(const request *r, const wick_built *built, const char *key)
{
    wick_text note = {0};
    char *module = NULL;
    size_t n = 0;
    add_title(r, &note);
    wick_text_add(&note, built->depends);
    wick_status s =
        note.failed ? out_of_memory(r->ctx) : wick_file_read(r->ctx, built->path, &module, &n);
    if (s == WICK_OK) s = wick_cache_write(r->ctx, &r->cache, key, ".so", module, n);
    if (s == WICK_OK)
        s = wick_cache_write(r->ctx, &r->cache, r->key, ".note", note.data, note.size);
    wick_free(module);
    wick_text_free(&note);
    return s;
}

/* A cache that cannot be written loses nothing but time, so it is a remark and no failure. */
static void keep(const request *r, wick_built *built, wick_text *warnings)
{
    char key[WICK_CACHE_KEY_DIGITS + 1];
    if (!r->cache.folder || !built->depends || !module_key(r->key, built->depends, key)) return;
    if (write_entries(r, built, key) != WICK_OK) {
        wick_text_printf(warnings, "%s: built, but not kept: %s\n", r->scan->file,
                         wick_ctx_message(r->ctx));
        wick_ctx_clear(r->ctx);
        return;
    }
    built->kept = wick_cache_path(&r->cache, key, ".so");
    wick_cache_sweep(&r->cache);
}

/* The whole of what the compiler said, for those who want more than its first error. */
static void keep_log(const request *r, const wick_build_report *report)
{
    char *path = report->log.size ? wick_cache_path(&r->cache, r->key, ".log") : NULL;
    wick_ctx own;
    wick_ctx_init(&own, NULL); /* the failure's words stay */
    if (path && wick_file_write(&own, path, report->log.data, report->log.size) == WICK_OK)
        wick_ctx_suffix(r->ctx, "\nall of the compiler's output: %s", path);
    wick_ctx_deinit(&own);
    wick_free(path);
}

static wick_status run_compiler(const request *r, wick_built *out, wick_build_report *report)
{
    wick_text path = {0};
    wick_status s = wick_dir_temporary(r->ctx, "wick", &out->folder);
    if (s != WICK_OK) {
        wick_remedy_own(r->ctx, r->scan->file);
        return s;
    }
    wick_text_printf(&path, "%s/operators.so", out->folder);
    out->path = path.failed ? NULL : wick_strdup(path.data);
    wick_text_free(&path);
    if (!out->path) return out_of_memory(r->ctx);
    s = r->index >= 0 ? wick_build_first(r->ctx, r->scan, r->index, r->options, out->path, report)
                      : wick_build_types(r->ctx, r->scan, r->types, r->options, out->path, report);
    if (s == WICK_OK && report->depends.size && !report->unsettled)
        out->depends = wick_strdup(wick_text_str(&report->depends));
    return s;
}

static wick_status build(const request *r, wick_built *out, wick_text *warnings)
{
    const wick_build_watch *w = r->watch;
    wick_build_report report = {0};
    if (w && w->started) w->started(w->arg, r->scan->file, wick_text_str(&r->type_names));
    wick_status s = run_compiler(r, out, &report);
    if (s == WICK_OK)
        keep(r, out, warnings);
    else
        keep_log(r, &report);
    wick_text_add(warnings, wick_text_str(&report.warnings));
    wick_build_report_free(&report);
    if (w && w->finished) w->finished(w->arg, r->scan->file, s == WICK_OK);
    return s;
}

static void tell_waiting(void *arg, long pid)
{
    const request *r = arg;
    if (r->watch && r->watch->waiting) r->watch->waiting(r->watch->arg, r->scan->file, pid);
}

static wick_status find_or_build(request *r, wick_built *out, wick_text *warnings)
{
    wick_cache_lock lock;
    WICK_TRY(look_up(r, out));
    if (out->hit) return WICK_OK;
    wick_cache_lock_take(&r->cache, r->key, tell_waiting, r, &lock);
    wick_status s = look_up(r, out); /* the one we waited for may have made it */
    if (s == WICK_OK && !out->hit) s = build(r, out, warnings);
    wick_cache_lock_release(&lock);
    return s;
}

/* Which choice of types it is about, the cache and the key. The request is to be closed in any
 * case. */
static wick_status open_request(request *r, const wick_dtype *types)
{
    const wick_scan *scan = r->scan;
    if (r->index >= 0)
        wick_scan_combination(scan, r->index, r->types);
    else
        memcpy(r->types, types, sizeof r->types);
    for (int i = 0; i < scan->n_variables; i++)
        wick_text_printf(&r->type_names, "%s%s", i ? " " : "", wick_dtype_name((int)r->types[i]));
    wick_status s = wick_cache_open(r->ctx, r->options->cache_dir, &r->cache);
    if (s != WICK_OK) wick_ctx_prefix(r->ctx, "%s:1: ", scan->file);
    return s == WICK_OK ? make_key(r) : s;
}

static void close_request(request *r)
{
    wick_cache_close(&r->cache);
    wick_text_free(&r->type_names);
}

wick_status wick_build_cached(wick_ctx *ctx, const wick_scan *scan, int64_t index,
                              const wick_dtype *types, const wick_build_options *options,
                              const wick_build_watch *watch, wick_built *out, wick_text *warnings)
{
    request r = {.ctx = ctx, .scan = scan, .index = index, .options = options, .watch = watch};
    *out = (wick_built){0};
    wick_status s = open_request(&r, types);
    if (s == WICK_OK && r.cache.why)
        wick_text_printf(warnings, "%s: %s: it is built anew\n", scan->file, r.cache.why);
    if (s == WICK_OK) s = find_or_build(&r, out, warnings);
    close_request(&r);
    return s;
}

wick_status wick_build_find_cached(wick_ctx *ctx, const wick_scan *scan, int64_t index,
                                   const wick_dtype *types, const wick_build_options *options,
                                   wick_built *out)
{
    request r = {.ctx = ctx, .scan = scan, .index = index, .options = options};
    *out = (wick_built){0};
    wick_status s = open_request(&r, types);
    if (s == WICK_OK) s = look_up(&r, out);
    close_request(&r);
    return s;
}
