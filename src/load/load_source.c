/* load_source.c -- a source becomes operators that can be called at once
 *
 * Loading compiles one choice of element types, so that what does not build is known, and lets the compiler read all the
 * others meanwhile. Each of those is compiled when it is first called, and its code joins the operator's. What this
 * needs (the source as it was when loaded, and the options) is kept as long as the operators are: for ever.
 */
#include "builder.h"
#include "module.h"

#include <pthread.h>
#include <string.h>

typedef struct loaded_source {
    wick_scan scan;
    wick_arena arena; /* holds the options' strings */
    wick_build_options options;
    pthread_mutex_t building; /* one compiler run per source at a time */
} loaded_source;

static const char *keep(wick_arena *arena, const char *s) { return s ? wick_arena_strndup(arena, s, strlen(s)) : NULL; }

static bool keep_options(loaded_source *l, const wick_build_options *options)
{
    size_t n = 0;
    l->options = *options;
    l->options.progress = NULL;
    l->options.compiler = keep(&l->arena, options->compiler);
    l->options.include_dir = keep(&l->arena, options->include_dir);
    l->options.ns = keep(&l->arena, options->ns);
    while (options->flags && options->flags[n])
        n++;
    const char **flags = wick_arena_alloc(&l->arena, (n + 1) * sizeof *flags);
    for (size_t i = 0; flags && i < n; i++) {
        flags[i] = keep(&l->arena, options->flags[i]);
        if (!flags[i]) return false;
    }
    l->options.flags = flags;
    return flags && !options->compiler == !l->options.compiler && !options->include_dir == !l->options.include_dir &&
           !options->ns == !l->options.ns;
}

static void loaded_free(loaded_source *l)
{
    if (!l) return;
    wick_scan_free(&l->scan);
    wick_arena_free(&l->arena);
    pthread_mutex_destroy(&l->building);
    wick_free(l);
}

/* The choice most likely to be called: the first in which T is f32. */
static int64_t likely_combination(const wick_scan *scan)
{
    wick_dtype types[WICK_MAX_VARIABLES];
    for (int64_t i = 0; i < wick_scan_combinations(scan); i++) {
        wick_scan_combination(scan, i, types);
        for (int v = 0; v < scan->n_variables; v++)
            if (!strcmp(scan->variables[v].name, "T") && types[v] == WICK_F32) return i;
    }
    return 0;
}

/* Builds into a folder that is gone when this returns: the loader keeps what it mapped. */
static wick_status build_and_open(wick_ctx *ctx, const loaded_source *l, int64_t first, const wick_dtype *types,
                                  wick_text *warnings, const wick_module_table **out)
{
    char *folder = NULL;
    wick_text path = {0};
    wick_status s = wick_dir_temporary(ctx, "wick", &folder);

    if (s != WICK_OK) return s;
    wick_text_printf(&path, "%s/operators.so", folder);
    if (path.failed)
        s = wick_fail(ctx, WICK_ENOMEM, "out of memory");
    else if (types)
        s = wick_build_types(ctx, &l->scan, types, &l->options, wick_text_str(&path), warnings);
    else
        s = wick_build_first(ctx, &l->scan, first, &l->options, wick_text_str(&path), warnings);
    if (s == WICK_OK) s = wick_module_open(ctx, wick_text_str(&path), out);
    wick_dir_remove(folder);
    wick_free(folder);
    wick_text_free(&path);
    return s;
}

/* ---- the other element types, at their first call ---- */

/* The file's choice of types for an operator's: what the operator does not use is at its first. */
static void file_types(const wick_scan *scan, const wick_scan_op *op, const wick_dtype *types, wick_dtype *out)
{
    wick_scan_combination(scan, 0, out);
    for (int v = 0; v < op->signature->n_variables; v++)
        out[op->variables[v]] = types[v];
}

static wick_status add_variants(wick_ctx *ctx, const loaded_source *l, const wick_module_table *table)
{
    for (int64_t i = 0; i < table->n_ops; i++) {
        const wick_op_entry *entry = &table->ops[i];
        const wick_op *op = wick_op_find(entry->ns ? entry->ns : "local", entry->name);
        wick_op_def *def = op ? wick_op_current(op) : NULL;
        if (!def || def->resolve_arg != l) continue; /* loaded again meanwhile */
        for (int64_t v = 0; v < entry->n_variants; v++) {
            wick_dtype types[WICK_MAX_VARIABLES];
            for (int k = 0; k < WICK_MAX_VARIABLES; k++)
                types[k] = (wick_dtype)entry->variants[v]->types[k];
            if (!wick_op_def_variant(def, types)) WICK_TRY(wick_op_def_push(ctx, def, entry->variants[v]));
        }
    }
    return WICK_OK;
}

static wick_status resolve(wick_ctx *ctx, void *arg, wick_op_def *def, const wick_dtype *types)
{
    loaded_source *l = arg;
    wick_dtype chosen[WICK_MAX_VARIABLES];
    const wick_module_table *table = NULL;
    const wick_scan_op *op = NULL;
    wick_text warnings = {0};
    wick_status s = WICK_OK;

    for (int i = 0; i < l->scan.n_ops && !op; i++)
        if (!strcmp(l->scan.ops[i].name, def->sig->name)) op = &l->scan.ops[i];
    if (!op) return wick_fail(ctx, WICK_ECOMPILE, "the source no longer holds this operator");
    file_types(&l->scan, op, types, chosen);
    pthread_mutex_lock(&l->building);
    if (!wick_op_def_variant(def, types)) {
        s = build_and_open(ctx, l, 0, chosen, &warnings, &table);
        if (s == WICK_OK) s = add_variants(ctx, l, table);
    }
    pthread_mutex_unlock(&l->building);
    wick_text_free(&warnings);
    return s;
}

/* ---- loading ---- */

static wick_status loaded_new(wick_ctx *ctx, const wick_source *source, const wick_build_options *options,
                              loaded_source **out)
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

wick_status wick_load_source(wick_ctx *ctx, const wick_source *source, const wick_build_options *options,
                             wick_module **out, char **warnings)
{
    static const wick_build_options none = {0};
    loaded_source *l = NULL;
    wick_define what = {.default_ns = "local", .resolve = resolve};
    wick_text said = {0};
    char *path = NULL;

    wick_ctx_clear(ctx);
    wick_status s = loaded_new(ctx, source, options ? options : &none, &l);
    if (s == WICK_OK && !source->text) s = wick_path_absolute(ctx, source->path, &path);
    if (s == WICK_OK) s = build_and_open(ctx, l, likely_combination(&l->scan), NULL, &said, &what.table);
    if (s == WICK_OK) {
        what.path = what.origin = path ? path : source->path;
        what.resolve_arg = l;
        s = wick_module_define(ctx, &what, out);
    }
    if (s != WICK_OK) loaded_free(l); /* otherwise the operators keep it */
    if (s == WICK_OK && warnings && said.size) *warnings = wick_strdup(wick_text_str(&said));
    wick_text_free(&said);
    wick_free(path);
    return s;
}
