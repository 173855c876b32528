/* define.c -- the operators of a table take their names, all of them or none
 *
 * Everything that can fail happens first: signatures are parsed, backwards matched with their
 * forwards, owners of names asked. Then every name gets its new meaning. What the same file defined
 * before and defines no longer is not forgotten but refused: nobody shall run code that its author
 * has deleted.
 */
#include "call.h"

#include <string.h>

static void def_free(wick_op_def *def)
{
    if (!def) return;
    wick_variant_node *node = atomic_load(&def->variants);
    while (node) {
        wick_variant_node *next = node->next;
        wick_free(node);
        node = next;
    }
    wick_arena arena = def->arena;
    wick_arena_free(&arena);
}

static const char *keep(wick_arena *arena, const char *s)
{
    return wick_arena_strndup(arena, s, strlen(s));
}

/* The absolute path of the source if it is there, else of the module. */
static const char *origin_of(wick_ctx *ctx, wick_arena *arena, const wick_define *what,
                             const char *file)
{
    if (what->origin) return keep(arena, what->origin);
    char *path = NULL;
    if (wick_path_absolute(ctx, file, &path) != WICK_OK) {
        wick_ctx_clear(ctx);
        if (wick_path_absolute(ctx, what->path, &path) != WICK_OK) return NULL;
    }
    const char *kept = keep(arena, path);
    wick_free(path);
    return kept;
}

static wick_status def_new(wick_ctx *ctx, const wick_define *what, const wick_op_entry *entry,
                           wick_op_def **out)
{
    wick_arena arena = {0};
    wick_op_def *def = wick_arena_alloc(&arena, sizeof *def);
    wick_signature *sig = NULL;
    wick_status status = WICK_ENOMEM;

    if (!def) goto no_memory;
    status = wick_signature_parse(ctx, &arena, entry->name, entry->signature, &sig);
    if (status == WICK_OK) status = wick_signature_require_types(ctx, sig);
    if (status != WICK_OK) goto failed;
    def->sig = sig;
    def->simple = wick_call_is_simple(sig);
    def->text = keep(&arena, entry->signature);
    def->doc = keep(&arena, entry->doc);
    def->file = keep(&arena, entry->file);
    def->origin = origin_of(ctx, &arena, what, entry->file);
    def->resolve = what->resolve;
    def->resolve_arg = what->resolve_arg;
    if (!def->text || !def->doc || !def->file || !def->origin) goto no_memory;
    def->arena = arena;
    for (int64_t i = 0; i < entry->n_variants; i++) {
        status = wick_op_def_push(ctx, def, entry->variants[i]);
        if (status != WICK_OK) {
            def_free(def);
            return status;
        }
    }
    *out = def;
    return WICK_OK;

no_memory:
    if (!ctx->failed) status = wick_fail(ctx, WICK_ENOMEM, "out of memory");
failed:
    wick_arena_free(&arena);
    return status;
}

/* A name has one owner: the file that defined it first. */
static wick_status check_owner(wick_ctx *ctx, const wick_op *op, const wick_op_def *def,
                               int64_t line)
{
    const wick_op_def *now = wick_op_current(op);
    if (!now || !strcmp(now->origin, def->origin)) return WICK_OK;
    return wick_fail(
        ctx, WICK_EINVAL,
        "%s:%lld: operator %s::%s is already defined by %s: rename one of them, or put "
        "WICK_NAMESPACE(...) into one of the files",
        def->origin, (long long)line, op->ns, op->name, now->origin);
}

static void break_one(const wick_op *op, const char *message)
{
    wick_op_def *def = wick_op_current(op);
    wick_registry_lock(); /* for the arena */
    const char *words = keep(&def->arena, message);
    wick_registry_unlock();
    atomic_store(&def->broken, words ? words : "the source does not build");
}

/* ---- gradients ---- */

/* "foo" of "foo_backward"; how much of the name that is, or 0. */
static size_t stem_of(const char *name, const char *ending)
{
    size_t n = strlen(name), e = strlen(ending);
    return n > e && !strcmp(name + n - e, ending) ? n - e : 0;
}

/* foo, or else foo_forward, in the same namespace; -1 when the table has neither. */
static int64_t find_forward(const wick_module_table *table, const wick_op_entry *backward,
                            size_t stem)
{
    int64_t found = -1;
    for (int64_t i = 0; i < table->n_ops; i++) {
        const wick_op_entry *e = &table->ops[i];
        bool same_ns =
            e->ns == backward->ns || (e->ns && backward->ns && !strcmp(e->ns, backward->ns));
        if (!same_ns || strncmp(e->name, backward->name, stem) != 0) continue;
        if (!e->name[stem]) return i;
        if (!strcmp(e->name + stem, "_forward")) found = i;
    }
    return found;
}

static wick_status match_gradients(wick_ctx *ctx, const wick_module_table *table,
                                   wick_op_def **defs, wick_op **ops)
{
    for (int64_t b = 0; b < table->n_ops; b++) {
        const wick_op_entry *entry = &table->ops[b];
        size_t stem = stem_of(entry->name, "_backward");
        int64_t f = stem ? find_forward(table, entry, stem) : -1;
        if (f < 0) continue;
        wick_gradient *gradient = wick_arena_alloc(&defs[f]->arena, sizeof *gradient);
        if (!gradient) return wick_fail(ctx, WICK_ENOMEM, "out of memory");
        wick_status s = wick_gradient_match(ctx, defs[f]->sig, defs[b]->sig, gradient);
        if (s != WICK_OK) {
            wick_ctx_prefix(ctx, "%s:%lld: ", entry->file, (long long)entry->line);
            return s;
        }
        defs[f]->gradient = gradient;
        defs[f]->backward = ops[b];
    }
    return WICK_OK;
}

/* ---- taking the names ---- */

static wick_status intern_all(wick_ctx *ctx, const wick_define *what, wick_op_def **defs,
                              wick_op **ops)
{
    for (int64_t i = 0; i < what->table->n_ops; i++) {
        const wick_op_entry *entry = &what->table->ops[i];
        ops[i] = wick_registry_intern(entry->ns ? entry->ns : what->default_ns, entry->name);
        if (!ops[i]) return wick_fail(ctx, WICK_ENOMEM, "out of memory");
        WICK_TRY(check_owner(ctx, ops[i], defs[i], entry->line));
    }
    return match_gradients(ctx, what->table, defs, ops);
}

static bool is_among(const wick_op *op, wick_op *const *ops, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (ops[i] == op) return true;
    return false;
}

/* Operators that the file of the first definition had and has no longer. */
static void refuse_deleted(wick_op *const *ops, int64_t n)
{
    const wick_op *op;
    for (int64_t i = 0; n > 0 && (op = wick_registry_at(i)); i++) {
        const wick_op_def *def = wick_op_current(op), *first = wick_op_current(ops[0]);
        if (!def || strcmp(def->origin, first->origin) != 0 || is_among(op, ops, n)) continue;
        wick_text words = {0};
        wick_text_printf(&words, "%s:1: the file no longer defines operator %s", def->file,
                         op->name);
        break_one(op, wick_text_str(&words));
        wick_text_free(&words);
    }
}

wick_status wick_module_define(wick_ctx *ctx, const wick_define *what, wick_module **out)
{
    size_t n = (size_t)what->table->n_ops;
    wick_op_def **defs = wick_calloc(n + 1, sizeof *defs);
    wick_module *module = wick_calloc(1, sizeof *module);
    wick_op **ops = wick_calloc(n + 1, sizeof *ops);
    wick_status status = WICK_OK;

    if (!defs || !module || !ops) status = wick_fail(ctx, WICK_ENOMEM, "out of memory");
    for (size_t i = 0; i < n && status == WICK_OK; i++)
        status = def_new(ctx, what, &what->table->ops[i], &defs[i]);

    wick_registry_lock();
    if (status == WICK_OK) status = intern_all(ctx, what, defs, ops);
    for (size_t i = 0; i < n && status == WICK_OK; i++) {
        defs[i]->previous = wick_op_current(ops[i]);
        atomic_store_explicit(&ops[i]->def, defs[i], memory_order_release);
        defs[i] = NULL;
    }
    wick_registry_unlock();

    if (status == WICK_OK) {
        refuse_deleted(ops, (int64_t)n);
        module->ops = ops;
        module->n_ops = (int64_t)n;
        *out = module;
    } else {
        for (size_t i = 0; defs && i < n; i++)
            def_free(defs[i]);
        wick_free(module);
        wick_free(ops);
    }
    wick_free(defs);
    return status;
}

void wick_module_break(const char *origin, const char *message)
{
    const wick_op *op;
    for (int64_t i = 0; (op = wick_registry_at(i)); i++) {
        const wick_op_def *def = wick_op_current(op);
        if (def && !strcmp(def->origin, origin)) break_one(op, message);
    }
}
