/* load_source.c -- a source becomes operators that can be called at once
 *
 * Loading compiles (or finds in the cache) one choice of element types, so that what does not build
 * is known, and lets the compiler read all the others meanwhile. Each of those is compiled when it
 * is first called, and its code joins the operator's. What this needs (the source as it was when
 * loaded, and the options) is kept as long as the operators are: for ever.
 */
#include "loaded.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pthread_mutex_t sources_lock = PTHREAD_MUTEX_INITIALIZER;
static loaded_source *sources; /* the latest load of each origin first */

static const char *keep(wick_arena *arena, const char *s)
{
    return s ? wick_arena_strndup(arena, s, strlen(s)) : NULL;
}

static const char *variable(const char *name)
{
    const char *value = getenv(name);
    return value ? value : "";
}

/* Types that are compiled later go to the same cache, wherever the process has moved to by then. */
static const char *keep_cache_dir(wick_arena *arena, const char *given)
{
    char here[4096];
    const char *folder = given ? given : variable("WICK_CACHE_DIR");
    if (!*folder || folder[0] == '/' || !getcwd(here, sizeof here)) return keep(arena, given);
    size_t n = strlen(here), size = n + strlen(folder) + 2;
    char *path = wick_arena_alloc(arena, size);
    if (path) snprintf(path, size, "%s/%s", here, folder);
    return path;
}

/* NULL when out of memory. */
static const char *const *keep_flags(wick_arena *arena, const char *const *given)
{
    size_t n = 0;
    while (given && given[n])
        n++;
    const char **flags = wick_arena_alloc(arena, (n + 1) * sizeof *flags);
    for (size_t i = 0; flags && i < n; i++) {
        flags[i] = keep(arena, given[i]);
        if (!flags[i]) return NULL;
    }
    return flags;
}

static bool keep_options(loaded_source *l, const wick_build_options *options)
{
    l->cc = keep(&l->arena, variable("CC"));
    l->cflags = keep(&l->arena, variable("CFLAGS"));
    l->options = *options;
    l->options.progress = NULL;
    l->options.archs = NULL; /* of ahead-of-time builds */
    l->options.compiler = keep(&l->arena, options->compiler);
    l->options.include_dir = keep(&l->arena, options->include_dir);
    l->options.ns = keep(&l->arena, options->ns);
    l->cache_asked = keep(&l->arena, options->cache_dir);
    l->options.cache_dir = keep_cache_dir(&l->arena, options->cache_dir);
    l->options.flags = keep_flags(&l->arena, options->flags);
    l->options.cuda_flags = keep_flags(&l->arena, options->cuda_flags);
    return l->options.flags && l->options.cuda_flags && l->cc && l->cflags &&
           !options->compiler == !l->options.compiler &&
           !options->include_dir == !l->options.include_dir && !options->ns == !l->options.ns &&
           !options->cache_dir == !l->cache_asked && (!options->cache_dir || l->options.cache_dir);
}

static void loaded_free(loaded_source *l)
{
    if (!l || l->connected) return;
    wick_scan_free(&l->scan);
    wick_free(l->depends);
    wick_arena_free(&l->arena);
    pthread_mutex_destroy(&l->building);
    wick_free(l);
}

wick_build_watch wick_load_watch;

void wick_load_set_watch(const wick_build_watch *w) { wick_load_watch = *w; }

/* The module's kernels will be compiled from this source. */
static wick_status connect(wick_ctx *ctx, loaded_source *l, int64_t first, const wick_dtype *types,
                           const wick_module_table *table)
{
    wick_dtype chosen[WICK_MAX_VARIABLES];
    if (types)
        memcpy(chosen, types, sizeof chosen);
    else
        wick_scan_combination(&l->scan, first, chosen);
    return wick_load_connect_devices(ctx, l, chosen, table);
}

/* Where it was kept, so that debuggers and profilers find the file later on; where it was built, if
 * that cannot be. */
static wick_status open_built(wick_ctx *ctx, const wick_built *built, const wick_module_table **out)
{
    if (built->kept && wick_module_open(ctx, built->kept, out) == WICK_OK) return WICK_OK;
    wick_ctx_clear(ctx);
    return wick_module_open(ctx, built->path, out);
}

/* Out of the cache, or built. A module's own folder is gone when this returns: the loader keeps
 * what it mapped. */
static wick_status build_and_open(wick_ctx *ctx, loaded_source *l, int64_t first,
                                  const wick_dtype *types, wick_text *warnings,
                                  const wick_module_table **out, char **depends)
{
    enum { ATTEMPTS = 10 };
    wick_built built;
    wick_status s = WICK_OK;
    for (int i = 0; i < ATTEMPTS; i++) {
        s = wick_build_cached(ctx, &l->scan, first, types, &l->options, &wick_load_watch, &built,
                              warnings);
        if (s != WICK_OK) break;
        s = open_built(ctx, &built, out);
        /* An entry may be swept or cleared between being found and being opened. */
        if (s == WICK_OK || !built.hit || wick_file_exists(built.path)) break;
        if (i + 1 == ATTEMPTS) break;
        wick_ctx_clear(ctx);
        wick_built_free(&built);
    }
    if (s == WICK_OK && depends) {
        *depends = built.depends;
        built.depends = NULL;
    }
    wick_built_free(&built);
    if (s == WICK_OK) s = connect(ctx, l, first, types, *out);
    return s;
}

/* ---- the other element types, at their first call ---- */

/* The file's choice of types for an operator's: what the operator does not use is at its first. */
static void file_types(const wick_scan *scan, const wick_scan_op *op, const wick_dtype *types,
                       wick_dtype *out)
{
    wick_scan_combination(scan, 0, out);
    for (int v = 0; v < op->signature->n_variables; v++)
        out[op->variables[v]] = types[v];
}

static wick_status push_missing(wick_ctx *ctx, wick_op_def *def, const wick_op_entry *entry)
{
    for (int64_t v = 0; v < entry->n_variants; v++) {
        wick_dtype types[WICK_MAX_VARIABLES];
        for (int k = 0; k < WICK_MAX_VARIABLES; k++)
            types[k] = (wick_dtype)entry->variants[v]->types[k];
        if (!wick_op_def_variant(def, types))
            WICK_TRY(wick_op_def_push(ctx, def, entry->variants[v]));
    }
    return WICK_OK;
}

/* The new code serves the call that asked, and the file's other operators. */
static wick_status add_variants(wick_ctx *ctx, const loaded_source *l, wick_op_def *asked,
                                const wick_module_table *table)
{
    for (int64_t i = 0; i < table->n_ops; i++) {
        const wick_op_entry *entry = &table->ops[i];
        const wick_op *op = wick_op_find(entry->ns ? entry->ns : "local", entry->name);
        wick_op_def *def = op ? wick_op_current(op) : NULL;
        if (!strcmp(entry->name, asked->sig->name)) WICK_TRY(push_missing(ctx, asked, entry));
        /* One that was loaded again meanwhile has code of its own. */
        if (def && def != asked && def->resolve_arg == l) WICK_TRY(push_missing(ctx, def, entry));
    }
    return WICK_OK;
}

wick_status wick_load_check_depends(wick_ctx *ctx, const loaded_source *l, int64_t line)
{
    if (!l->depends || wick_depends_hold(l->depends)) return WICK_OK;
    return wick_fail(
        ctx, WICK_ECOMPILE,
        "%s:%lld: a file that it includes has changed since it was loaded: load it again",
        l->scan.file, (long long)line);
}

static wick_status resolve(wick_ctx *ctx, void *arg, wick_op_def *def, const wick_dtype *types)
{
    loaded_source *l = arg;
    wick_dtype chosen[WICK_MAX_VARIABLES];
    const wick_module_table *table = NULL;
    const wick_scan_op *op = NULL;
    wick_text warnings = {0};
    wick_status s = WICK_OK;

    if (def->stands_for) def = def->stands_for;
    for (int i = 0; i < l->scan.n_ops && !op; i++)
        if (!strcmp(l->scan.ops[i].name, def->sig->name)) op = &l->scan.ops[i];
    if (!op) return wick_fail(ctx, WICK_ECOMPILE, "the source no longer holds this operator");
    file_types(&l->scan, op, types, chosen);
    pthread_mutex_lock(&l->building);
    if (!wick_op_def_variant(def, types)) {
        s = wick_load_check_depends(ctx, l, op->line);
        if (s == WICK_OK) s = build_and_open(ctx, l, -1, chosen, &warnings, &table, NULL);
        if (s == WICK_OK) s = add_variants(ctx, l, def, table);
    }
    pthread_mutex_unlock(&l->building);
    wick_text_free(&warnings);
    return s;
}

/* ---- loading ---- */

static wick_status loaded_new(wick_ctx *ctx, const wick_source *source,
                              const wick_build_options *options, loaded_source **out)
{
    loaded_source *l = wick_calloc(1, sizeof *l);
    if (!l) return wick_fail(ctx, WICK_ENOMEM, "out of memory");
    pthread_mutex_init(&l->building, NULL);
    wick_status s = wick_scan_source(ctx, source, &l->scan);
    if (s == WICK_OK && !keep_options(l, options)) s = wick_fail(ctx, WICK_ENOMEM, "out of memory");
    if (s == WICK_OK)
        *out = l;
    else
        loaded_free(l);
    return s;
}

/* ---- loading again ---- */

static bool same_text(const char *a, const char *b) { return a == b || (a && b && !strcmp(a, b)); }

static bool same_flags(const char *const *a, const char *const *b)
{
    static const char *const none[] = {NULL};
    for (a = a ? a : none, b = b ? b : none; *a || *b; a++, b++)
        if (!same_text(*a, *b)) return false;
    return true;
}

static bool same_options(const loaded_source *l, const wick_build_options *o)
{
    return same_text(l->options.compiler, o->compiler) &&
           same_text(l->options.include_dir, o->include_dir) && same_text(l->options.ns, o->ns) &&
           same_flags(l->options.flags, o->flags) &&
           same_flags(l->options.cuda_flags, o->cuda_flags) && l->options.portable == o->portable &&
           l->options.debug == o->debug && l->options.no_cuda == o->no_cuda &&
           (l->options.all_types || !o->all_types) && same_text(l->cache_asked, o->cache_dir) &&
           same_text(l->cc, variable("CC")) && same_text(l->cflags, variable("CFLAGS"));
}

/* Its operators are still what this load made them. */
static bool is_current(const loaded_source *l)
{
    for (int64_t i = 0; i < l->module->n_ops; i++) {
        const wick_op_def *def = wick_op_current(l->module->ops[i]);
        if (def->resolve_arg != l || atomic_load(&def->broken)) return false;
    }
    return true;
}

static bool same_bytes(wick_ctx *ctx, const loaded_source *l, const wick_source *source)
{
    char *text = NULL;
    size_t n = 0;
    if (source->text) return !strcmp(l->scan.text, source->text);
    bool same = wick_file_read(ctx, source->path, &text, &n) == WICK_OK &&
                n == l->scan.text_bytes && !memcmp(text, l->scan.text, n);
    wick_ctx_clear(ctx);
    wick_free(text);
    return same;
}

static wick_module *find_unchanged(wick_ctx *ctx, const wick_source *source,
                                   const wick_build_options *options, const char *origin)
{
    pthread_mutex_lock(&sources_lock);
    loaded_source *l = sources;
    while (l && strcmp(l->origin, origin) != 0)
        l = l->next;
    pthread_mutex_unlock(&sources_lock);
    bool unchanged = l && l->depends && same_options(l, options) && is_current(l) &&
                     same_bytes(ctx, l, source) &&
                     wick_depends_hold_for(l->depends, l->options.include_dir);
    return unchanged ? l->module : NULL;
}

static void remember(loaded_source *l)
{
    pthread_mutex_lock(&sources_lock);
    l->next = sources;
    sources = l;
    pthread_mutex_unlock(&sources_lock);
}

/* Every element type of every operator, now. */
static wick_status build_all(wick_ctx *ctx, loaded_source *l)
{
    for (int i = 0; i < l->scan.n_ops; i++) {
        const wick_scan_op *op = &l->scan.ops[i];
        wick_op_def *def = wick_op_current(l->module->ops[i]);
        for (int64_t c = 0; c < wick_scan_combinations(&l->scan); c++) {
            wick_dtype file[WICK_MAX_VARIABLES], types[WICK_MAX_VARIABLES] = {WICK_NONE};
            wick_scan_combination(&l->scan, c, file);
            if (!wick_scan_op_in(&l->scan, op, file)) continue;
            for (int v = 0; v < op->signature->n_variables; v++)
                types[v] = file[op->variables[v]];
            if (!wick_op_def_variant(def, types)) WICK_TRY(resolve(ctx, l, def, types));
        }
    }
    return WICK_OK;
}

static wick_status load(wick_ctx *ctx, const wick_source *source, const wick_build_options *options,
                        const char *origin, wick_module **out, wick_text *warnings)
{
    loaded_source *l = NULL;
    wick_define what = {
        .path = origin, .origin = origin, .default_ns = "local", .resolve = resolve};
    WICK_TRY(loaded_new(ctx, source, options, &l));
    wick_status s = build_and_open(ctx, l, wick_scan_likely(&l->scan), NULL, warnings, &what.table,
                                   &l->depends);
    l->origin = keep(&l->arena, origin);
    what.resolve_arg = l;
    if (s == WICK_OK && !l->origin) s = wick_fail(ctx, WICK_ENOMEM, "out of memory");
    if (s == WICK_OK) s = wick_load_try_devices(ctx, l, wick_scan_likely(&l->scan), warnings);
    if (s == WICK_OK) s = wick_module_define(ctx, &what, &l->module);
    if (s != WICK_OK) {
        loaded_free(l); /* otherwise the operators keep it */
        return s;
    }
    *out = l->module;
    remember(l);
    return options->all_types ? build_all(ctx, l) : WICK_OK;
}

wick_status wick_load_source_again(wick_ctx *ctx, const wick_source *source,
                                   const wick_build_options *options, wick_module **out,
                                   char **warnings, bool *unchanged)
{
    static const wick_build_options none = {0};
    wick_text said = {0};
    char *path = NULL;

    wick_ctx_clear(ctx);
    if (!options) options = &none;
    if (!source->text && wick_path_absolute(ctx, source->path, &path) != WICK_OK) {
        wick_ctx_prefix(ctx, "%s:1: ", source->path);
        return WICK_EIO;
    }
    const char *origin = path ? path : source->path;
    *out = find_unchanged(ctx, source, options, origin);
    *unchanged = *out != NULL;
    wick_status s = *unchanged ? WICK_OK : load(ctx, source, options, origin, out, &said);
    if (s != WICK_OK) wick_module_break(origin, wick_ctx_message(ctx));
    if (s == WICK_OK && warnings && said.size) *warnings = wick_strdup(wick_text_str(&said));
    wick_text_free(&said);
    wick_free(path);
    return s;
}

wick_status wick_load_source(wick_ctx *ctx, const wick_source *source,
                             const wick_build_options *options, wick_module **out, char **warnings)
{
    bool unchanged;
    return wick_load_source_again(ctx, source, options, out, warnings, &unchanged);
}
