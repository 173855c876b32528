/* support.c -- operators whose code is in the test itself */
#include "support.h"

#include <stdio.h>
#include <string.h>

wick_slot seen[WICK_MAX_PARAMS + WICK_MAX_NAMED];
int n_calls;
wick_ctx test_ctx = {.services = &wick_plain_services, .device = -1};

wick_op_entry entry_of(const char *name, const char *signature, const wick_variant *const *variant,
                       const char *file)
{
    wick_op_entry entry = {.name = name,
                           .signature = signature,
                           .doc = "",
                           .file = file,
                           .line = 1,
                           .variants = variant,
                           .n_variants = variant ? 1 : 0};
    return entry;
}

wick_status define_table(const char *origin, const wick_op_entry *entries, int n, wick_module **out)
{
    wick_module_table table = {WICK_MODULE_MAGIC, WICK_ABI, "test", entries, n};
    wick_define what = {
        .table = &table, .path = "/lib/ops.so", .origin = origin, .default_ns = "local"};
    wick_ctx_clear(&test_ctx);
    return wick_module_define(&test_ctx, &what, out);
}

wick_op *define_variants(const char *name, const char *signature, const test_variant *variants,
                         int n)
{
    enum { MOST = 64 };
    const wick_variant *pointers[MOST];
    wick_variant all[MOST] = {0};
    char origin[128];
    wick_module *module = NULL;

    cr_assert_leq(n, (int)MOST);
    for (int i = 0; i < n; i++) {
        wick_variant *v = &all[i];
        for (int k = 0; k < WICK_MAX_VARIABLES; k++)
            v->types[k] = (uint8_t)variants[i].types[k];
        v->cpu = variants[i].cpu;
        v->cuda = variants[i].cuda;
        pointers[i] = v;
    }
    wick_op_entry entry = entry_of(name, signature, pointers, "op.c");
    entry.n_variants = n;
    snprintf(origin, sizeof origin, "/%s.c", name);
    cr_assert_eq(define_table(origin, &entry, 1, &module), WICK_OK, "%s",
                 wick_ctx_message(&test_ctx));
    return wick_module_op(module, 0);
}

wick_op *define_op(const char *name, const char *signature, wick_entry cpu)
{
    return define_on(name, signature, cpu, NULL);
}

wick_op *define_on(const char *name, const char *signature, wick_entry cpu, wick_entry cuda)
{
    test_variant variants[64];
    wick_arena arena = {0};
    wick_signature *sig = NULL;
    int n = 1;

    wick_ctx_clear(&test_ctx);
    cr_assert_eq(wick_signature_parse(&test_ctx, &arena, name, signature, &sig), WICK_OK, "%s",
                 wick_ctx_message(&test_ctx));
    for (int v = 0; v < sig->n_variables; v++)
        n *= sig->variables[v].n_types;
    cr_assert_leq(n, WICK_COUNT(variants));
    memset(variants, 0, sizeof variants);
    for (int i = 0; i < n; i++) {
        int rest = i;
        for (int v = 0; v < sig->n_variables; v++) {
            variants[i].types[v] = sig->variables[v].types[rest % sig->variables[v].n_types];
            rest /= sig->variables[v].n_types;
        }
        variants[i].cpu = cpu;
        variants[i].cuda = cuda;
    }
    wick_arena_free(&arena);
    return define_variants(name, signature, variants, n);
}

static size_t n_slots; /* of the operator that is being called */

static size_t count_slots(const wick_signature *sig)
{
    int n = sig->n_outputs + sig->n_scratch;
    for (int i = 0; i < sig->n_inputs; i++)
        n += sig->inputs[i].kind != WICK_KIND_SHAPE;
    for (int i = 0; i < sig->n_dims; i++)
        n += sig->dims[i].from_int < 0;
    return (size_t)n;
}

wick_status record_slots(wick_ctx *ctx, const wick_slot *slot)
{
    (void)ctx;
    memcpy(seen, slot, n_slots * sizeof *seen);
    n_calls++;
    return WICK_OK;
}

wick_status call(wick_op *op, const wick_value *args, int n_args, wick_value *results,
                 int n_results)
{
    n_slots = count_slots(wick_op_current(op)->sig);
    return wick_op_call(&test_ctx, op, args, n_args, results, n_results);
}

wick_value with_stride(wick_value tensor, const int64_t *stride)
{
    tensor.as.tensor.stride = stride;
    return tensor;
}

wick_value shape_value(int dim, const int64_t *size)
{
    wick_value v = {.kind = WICK_VALUE_SHAPE};
    v.as.tensor.dim = dim;
    v.as.tensor.size = size;
    return v;
}
