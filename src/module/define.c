/* define.c -- the operators of a table take their names, all of them or none
 *
 * Everything that can fail happens first: signatures are parsed, backwards matched with their
 * forwards, owners of names asked. Then every name gets its new meaning. What the same file defined
 * before and defines no longer is not forgotten but refused: nobody shall run code that its author
 * has deleted.
 *
 * foo_forward, where foo_backward is beside it, takes two names: its own and foo. The second is an
 * operator like any other, whose code is the first one's.
 */
#include "call.h"
#include "tuned.h"

#include <stdio.h>
#include <string.h>

static void def_free(wick_op_def *def)
{
    if (!def) return;
    wick_tuned_free(def);
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

/* One name that the table takes. */
typedef struct naming {
    const wick_op_entry *entry;
    const char *name; /* the entry's, or "foo" for foo_forward */
    int64_t first;    /* of a second name: the index of the first; else -1 */
    wick_op *op;
    wick_op_def *def; /* owned until it is the operator's */
} naming;

static wick_status def_new(wick_ctx *ctx, const wick_define *what, const naming *named,
                           wick_op_def **out)
{
    const wick_op_entry *entry = named->entry;
    wick_arena arena = {0};
    wick_op_def *def = wick_arena_alloc(&arena, sizeof *def);
    wick_signature *sig = NULL;
    wick_tune *tune = NULL;
    wick_status status = WICK_ENOMEM;

    if (!def) goto no_memory;
    status = wick_signature_parse(ctx, &arena, named->name, entry->signature, &sig);
    if (status == WICK_OK) status = wick_signature_require_types(ctx, sig);
    if (status != WICK_OK) goto failed;
    def->sig = sig;
    if (!entry->tune) def->simple = wick_call_plan(sig); /* the short way makes no choices */
    def->text = keep(&arena, entry->signature);
    def->doc = keep(&arena, entry->doc);
    def->file = keep(&arena, entry->file);
    def->origin = origin_of(ctx, &arena, what, entry->file);
    def->resolve = what->resolve;
    def->resolve_arg = what->resolve_arg;
    if (entry->tune) status = wick_tune_parse(ctx, &arena, entry->tune, true, &tune);
    if (status != WICK_OK) goto failed;
    def->tune = tune;
    if (!def->text || !def->doc || !def->file || !def->origin) goto no_memory;
    def->arena = arena;
    for (int64_t i = 0; named->first < 0 && i < entry->n_variants; i++) {
        status = wick_op_def_push(ctx, def, entry->variants[i]);
        if (status != WICK_OK) {
            def_free(def);
            return status;
        }
    }
    *out = def;
    return WICK_OK;

no_memory: /* or a path that leads nowhere, which has said so */
    status = ctx->failed ? WICK_EIO : wick_fail(ctx, WICK_ENOMEM, "out of memory");
failed:
    if (named->first >= 0) /* a word of Python, say */
        wick_ctx_prefix(ctx, "%s:%lld: %s is also %s, since its gradient is %s_backward; ",
                        entry->file, (long long)entry->line, entry->name, named->name, named->name);
    wick_arena_free(&arena);
    return status;
}

/* A name has one owner: the file that defined it first. */
static wick_status check_owner(wick_ctx *ctx, const naming *named)
{
    const wick_op *op = named->op;
    const wick_op_def *now = wick_op_current(op);
    char why[256] = "";
    if (!now || !strcmp(now->origin, named->def->origin)) return WICK_OK;
    if (named->first >= 0)
        snprintf(why, sizeof why, "%s is also %s, since its gradient is %s_backward; ",
                 named->entry->name, named->name, named->name);
    return wick_fail(
        ctx, WICK_EINVAL,
        "%s:%lld: %soperator %s::%s is already defined by %s: rename one of them, or put "
        "WICK_NAMESPACE(...) into one of the files",
        named->def->origin, (long long)named->entry->line, why, op->ns, op->name, now->origin);
}

static void break_one(const wick_op *op, const char *message)
{
    wick_op_def *def = wick_op_current(op);
    wick_registry_lock(); /* for the arena */
    const char *words = keep(&def->arena, message);
    wick_registry_unlock();
    atomic_store(&def->broken, words ? words : "the source does not build");
}

/* ---- names that belong together ---- */

/* "foo" of "foo_backward"; how much of the name that is, or 0. */
static size_t stem_of(const char *name, const char *ending)
{
    size_t n = strlen(name), e = strlen(ending);
    return n > e && !strcmp(name + n - e, ending) ? n - e : 0;
}

/* The entry in the namespace of `near` whose name is the first `stem` characters of near's, and
 * then `ending`; -1 when there is none. */
static int64_t find_sibling(const wick_module_table *table, const wick_op_entry *near, size_t stem,
                            const char *ending)
{
    for (int64_t i = 0; i < table->n_ops; i++) {
        const wick_op_entry *e = &table->ops[i];
        bool same_ns = e->ns == near->ns || (e->ns && near->ns && !strcmp(e->ns, near->ns));
        if (same_ns && !strncmp(e->name, near->name, stem) && !strcmp(e->name + stem, ending))
            return i;
    }
    return -1;
}

int64_t wick_table_backward(const wick_module_table *table, int64_t index, size_t *second)
{
    const wick_op_entry *entry = &table->ops[index];
    size_t stem = stem_of(entry->name, "_forward");
    int64_t own = find_sibling(table, entry, strlen(entry->name), "_backward");
    int64_t pair = own < 0 && stem ? find_sibling(table, entry, stem, "_backward") : -1;
    *second = pair >= 0 ? stem : 0;
    return own >= 0 ? own : pair;
}

/* The table's own names, then the second ones. `out` has room for twice the table's operators. */
static wick_status list_names(wick_ctx *ctx, const wick_module_table *table, wick_arena *arena,
                              naming *out, size_t *n)
{
    for (int64_t i = 0; i < table->n_ops; i++)
        out[(*n)++] = (naming){.entry = &table->ops[i], .name = table->ops[i].name, .first = -1};
    for (int64_t i = 0; i < table->n_ops; i++) {
        const wick_op_entry *entry = &table->ops[i];
        size_t stem = 0;
        wick_table_backward(table, i, &stem);
        if (!stem) continue;
        int64_t other = find_sibling(table, entry, stem, "");
        const char *name = wick_arena_strndup(arena, entry->name, stem);
        if (!name) return wick_fail(ctx, WICK_ENOMEM, "out of memory");
        if (other >= 0)
            return wick_fail(ctx, WICK_EINVAL,
                             "%s:%lld: %s is also %s, since its gradient is %s_backward; but "
                             "%s:%lld defines %s itself: rename one of them",
                             entry->file, (long long)entry->line, entry->name, name, name,
                             table->ops[other].file, (long long)table->ops[other].line, name);
        out[(*n)++] = (naming){.entry = entry, .name = name, .first = i};
    }
    return WICK_OK;
}

static wick_status match_gradients(wick_ctx *ctx, const wick_module_table *table, naming *names)
{
    for (int64_t f = 0; f < table->n_ops; f++) {
        size_t second;
        int64_t b = wick_table_backward(table, f, &second);
        if (b < 0) continue;
        wick_op_def *forward = names[f].def;
        wick_gradient *gradient = wick_arena_alloc(&forward->arena, sizeof *gradient);
        if (!gradient) return wick_fail(ctx, WICK_ENOMEM, "out of memory");
        wick_status s = wick_gradient_match(ctx, forward->sig, names[b].def->sig, gradient);
        if (s != WICK_OK) {
            wick_ctx_prefix(ctx, "%s:%lld: ", names[b].entry->file,
                            (long long)names[b].entry->line);
            return s;
        }
        forward->gradient = gradient;
        forward->backward = names[b].op;
    }
    return WICK_OK;
}

/* A second name means what the first does. */
static void tie_second_names(naming *names, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (names[i].first < 0) continue;
        wick_op_def *def = names[i].def, *first = names[names[i].first].def;
        def->stands_for = first;
        def->gradient = first->gradient;
        def->backward = first->backward;
    }
}

/* ---- taking the names ---- */

static wick_status intern_all(wick_ctx *ctx, const wick_define *what, naming *names, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const char *ns = names[i].entry->ns ? names[i].entry->ns : what->default_ns;
        names[i].op = wick_registry_intern(ns, names[i].name);
        if (!names[i].op) return wick_fail(ctx, WICK_ENOMEM, "out of memory");
        WICK_TRY(check_owner(ctx, &names[i]));
    }
    WICK_TRY(match_gradients(ctx, what->table, names));
    tie_second_names(names, n);
    return WICK_OK;
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

/* The list of what was defined is part of the first definition, and lives as long: nobody has to
 * free it. */
static wick_module *module_new(const naming *names, size_t n)
{
    wick_arena *arena = &names[0].def->arena;
    wick_module *module = wick_arena_alloc(arena, sizeof *module);
    if (!module) return NULL;
    module->ops = wick_arena_alloc(arena, n * sizeof *module->ops);
    module->n_ops = (int64_t)n;
    return module->ops ? module : NULL;
}

static void publish(naming *names, wick_module *module)
{
    for (int64_t i = 0; i < module->n_ops; i++) {
        names[i].def->previous = wick_op_current(names[i].op);
        atomic_store_explicit(&names[i].op->def, names[i].def, memory_order_release);
        module->ops[i] = names[i].op;
        names[i].def = NULL;
    }
}

wick_status wick_module_define(wick_ctx *ctx, const wick_define *what, wick_module **out)
{
    size_t n = 0, most = 2 * (size_t)what->table->n_ops;
    wick_module *module = NULL;
    wick_arena arena = {0};
    wick_status status = WICK_OK;

    if (most == 0) return wick_fail(ctx, WICK_EINVAL, "%s: it holds no operator", what->path);
    naming *names = wick_calloc(most, sizeof *names);
    if (!names) return wick_fail(ctx, WICK_ENOMEM, "out of memory");
    status = list_names(ctx, what->table, &arena, names, &n);
    for (size_t i = 0; i < n && status == WICK_OK; i++)
        status = def_new(ctx, what, &names[i], &names[i].def);
    if (status == WICK_OK) module = module_new(names, n);
    if (status == WICK_OK && !module) status = wick_fail(ctx, WICK_ENOMEM, "out of memory");

    wick_registry_lock();
    if (status == WICK_OK) status = intern_all(ctx, what, names, n);
    if (status == WICK_OK) publish(names, module);
    wick_registry_unlock();

    if (status == WICK_OK) {
        refuse_deleted(module->ops, module->n_ops);
        *out = module;
    }
    for (size_t i = 0; i < n; i++)
        def_free(names[i].def);
    wick_free(names);
    wick_arena_free(&arena);
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
