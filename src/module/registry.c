/* registry.c -- every operator of the process, by name
 *
 * The list only grows: an operator that was handed out stays valid. Reading an operator's current
 * meaning is one atomic load; only defining takes the lock.
 */
#include "module.h"

#include <pthread.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static wick_op **ops;
static int64_t n_ops, capacity;

void wick_registry_lock(void) { pthread_mutex_lock(&lock); }
void wick_registry_unlock(void) { pthread_mutex_unlock(&lock); }

static wick_op *find(const char *ns, const char *name)
{
    for (int64_t i = 0; i < n_ops; i++)
        if (!strcmp(ops[i]->name, name) && !strcmp(ops[i]->ns, ns)) return ops[i];
    return NULL;
}

static bool grow(void)
{
    if (n_ops < capacity) return true;
    int64_t wanted = capacity ? capacity * 2 : 64;
    wick_op **more = wick_realloc(ops, (size_t)wanted * sizeof *ops);
    if (!more) return false;
    ops = more;
    capacity = wanted;
    return true;
}

wick_op *wick_registry_intern(const char *ns, const char *name)
{
    wick_op *op = find(ns, name);
    if (op || !grow()) return op;
    op = wick_calloc(1, sizeof *op);
    if (!op) return NULL;
    op->ns = wick_strdup(ns);
    op->name = wick_strdup(name);
    if (!op->ns || !op->name) {
        wick_free(op->ns);
        wick_free(op->name);
        wick_free(op);
        return NULL;
    }
    ops[n_ops++] = op;
    return op;
}

wick_op *wick_registry_at(int64_t i)
{
    wick_registry_lock();
    wick_op *op = i >= 0 && i < n_ops ? ops[i] : NULL;
    wick_registry_unlock();
    return op;
}

wick_op *wick_op_find(const char *ns, const char *name)
{
    wick_registry_lock();
    wick_op *op = find(ns, name);
    wick_registry_unlock();
    return op && wick_op_current(op) ? op : NULL;
}

/* Edit distance, cut off at names longer than anybody types. */
static int distance(const char *a, const char *b)
{
    enum { LONGEST = 64 };
    int row[LONGEST + 1], n = (int)strlen(a), m = (int)strlen(b);
    if (n > LONGEST || m > LONGEST) return LONGEST;
    for (int j = 0; j <= m; j++)
        row[j] = j;
    for (int i = 1; i <= n; i++) {
        int diagonal = row[0];
        row[0] = i;
        for (int j = 1; j <= m; j++) {
            int change = diagonal + (a[i - 1] != b[j - 1]);
            int skip = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
            diagonal = row[j];
            row[j] = change < skip ? change : skip;
        }
    }
    return row[m];
}

void wick_registry_suggest(wick_text *out, const char *ns, const char *name)
{
    enum { MOST = 3 };
    int near = (int)strlen(name) / 2 + 1, shown = 0;

    wick_registry_lock();
    for (int d = 0; d <= near && shown < MOST; d++)
        for (int64_t i = 0; i < n_ops && shown < MOST; i++) {
            if (strcmp(ops[i]->ns, ns) != 0 || !wick_op_current(ops[i])) continue;
            bool begins = *name && !strncmp(ops[i]->name, name, strlen(name));
            if (d == 0 ? !begins : begins || distance(ops[i]->name, name) != d) continue;
            wick_text_printf(out, "%s%s", shown++ ? ", " : "", ops[i]->name);
        }
    wick_registry_unlock();
}

/* ---- an operator's meaning ---- */

wick_op_def *wick_op_current(const wick_op *op)
{
    return atomic_load_explicit(&op->def, memory_order_acquire);
}

static bool runs_here(const wick_variant *variant)
{
    if (variant->isa == WICK_ISA_BASELINE) return true;
#if defined(__x86_64__)
    return variant->isa == WICK_ISA_X86_64_V3 && __builtin_cpu_supports("avx2") &&
           __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
           __builtin_cpu_supports("bmi2");
#else
    return false;
#endif
}

static const wick_variant *find_types(const wick_op_def *def, const uint8_t *types)
{
    if (def->stands_for) def = def->stands_for;
    for (wick_variant_node *n = atomic_load_explicit(&def->variants, memory_order_acquire); n;
         n = n->next)
        if (!memcmp(n->variant.types, types, sizeof n->variant.types)) return &n->variant;
    return NULL;
}

/* What this CPU cannot run is left out, and the better of two stands in front, so that a call takes
 * the first that fits. */
wick_status wick_op_def_push(wick_ctx *ctx, wick_op_def *def, const wick_variant *variant)
{
    if (def->stands_for) def = def->stands_for;
    const wick_variant *there = find_types(def, variant->types);
    if (!runs_here(variant) || (there && there->isa >= variant->isa)) return WICK_OK;
    wick_variant_node *node = wick_malloc(sizeof *node);
    if (!node) return wick_fail(ctx, WICK_ENOMEM, "out of memory");
    node->variant = *variant;
    node->next = atomic_load(&def->variants);
    while (!atomic_compare_exchange_weak(&def->variants, &node->next, node))
        continue;
    return WICK_OK;
}

WICK_HOT const wick_variant *wick_op_def_variant(const wick_op_def *def, const wick_dtype *types)
{
    uint8_t wanted[WICK_MAX_VARIABLES] = {0};
    for (int i = 0; i < WICK_MAX_VARIABLES; i++)
        wanted[i] = (uint8_t)types[i];
    return find_types(def, wanted);
}

const char *wick_op_name(const wick_op *op) { return op->name; }
const char *wick_op_namespace(const wick_op *op) { return op->ns; }
const char *wick_op_signature(const wick_op *op) { return wick_op_current(op)->text; }
const char *wick_op_doc(const wick_op *op) { return wick_op_current(op)->doc; }
const char *wick_op_file(const wick_op *op) { return wick_op_current(op)->file; }
