/* describe.c -- what there is to read about operators: their list, their meaning, their generated
 * code */
#include "builder.h"

#include <string.h>

void wick_string_free(char *s) { wick_free(s); }

/* Hands a text over as a string. */
static wick_status give(wick_ctx *ctx, wick_text *text, char **out)
{
    if (text->failed) {
        wick_text_free(text);
        return wick_fail(ctx, WICK_ENOMEM, "out of memory");
    }
    *out = text->data ? text->data : wick_strdup("");
    return *out ? WICK_OK : wick_fail(ctx, WICK_ENOMEM, "out of memory");
}

/* ---- a list ---- */

typedef struct listing {
    wick_module_table table; /* first, so that the table's address is the listing's */
    wick_scan scan;
} listing;

static wick_status refuse(wick_ctx *ctx, const wick_slot *slot)
{
    (void)slot;
    return wick_fail(ctx, WICK_EINVAL, "not built");
}

typedef struct versions {
    wick_variant variant;
    const wick_variant *list[1];
} versions;

/* In the arena; NULL: no memory. */
static versions *versions_of(wick_arena *arena, const wick_scan_op *op)
{
    versions *v = wick_arena_alloc(arena, sizeof *v);
    if (!v) return NULL;
    v->variant =
        (wick_variant){.cpu = op->has_cpu ? refuse : NULL, .cuda = op->has_cuda ? refuse : NULL};
    v->list[0] = &v->variant;
    return v;
}

bool wick_build_has(const wick_op_entry *op, bool cuda)
{
    if (op->n_variants == 0) return false;
    return cuda ? op->variants[0]->cuda != NULL : op->variants[0]->cpu != NULL;
}

static wick_status fill_entry(wick_ctx *ctx, wick_scan *scan, const wick_scan_op *op,
                              wick_op_entry *out)
{
    wick_text text = {0};
    const versions *v = versions_of(&scan->arena, op);
    if (!v) return wick_fail(ctx, WICK_ENOMEM, "out of memory");
    wick_signature_print(&text, op->signature);
    *out = (wick_op_entry){.ns = scan->ns,
                           .name = op->name,
                           .doc = scan->doc,
                           .file = scan->file,
                           .line = op->line,
                           .variants = v->list,
                           .n_variants = 1};
    if (!text.failed)
        out->signature = wick_arena_strndup(&scan->arena, wick_text_str(&text), text.size);
    wick_text_free(&text);
    return out->signature ? WICK_OK : wick_fail(ctx, WICK_ENOMEM, "out of memory");
}

wick_status wick_build_list(wick_ctx *ctx, const wick_source *source, const wick_module_table **out)
{
    listing *list = wick_calloc(1, sizeof *list);
    wick_op_entry *ops;
    wick_status status;
    if (!list) return wick_fail(ctx, WICK_ENOMEM, "out of memory");
    status = wick_scan_source(ctx, source, &list->scan);
    if (status) goto done;
    ops = wick_arena_alloc(&list->scan.arena, (size_t)list->scan.n_ops * sizeof *ops);
    if (!ops) {
        status = wick_fail(ctx, WICK_ENOMEM, "out of memory");
        goto done;
    }
    for (int i = 0; !status && i < list->scan.n_ops; i++) {
        status = fill_entry(ctx, &list->scan, &list->scan.ops[i], &ops[i]);
    }
    if (status) goto done;
    list->table =
        (wick_module_table){WICK_MODULE_MAGIC, WICK_ABI, WICK_VERSION, ops, list->scan.n_ops};
    *out = &list->table;
done:
    if (status) wick_build_list_free(&list->table);
    return status;
}

void wick_build_list_free(const wick_module_table *table)
{
    listing *list = (listing *)(uintptr_t)table;
    if (!list) return;
    wick_scan_free(&list->scan);
    wick_free(list);
}

/* ---- a signature ---- */

static void print_prototype(wick_text *text, const wick_op_entry *op, const wick_signature *sig,
                            bool cuda)
{
    if (!wick_build_has(op, cuda)) return;
    wick_signature_print_prototype(text, sig, cuda ? "cuda" : "cpu", true);
    wick_text_add(text, "\n");
}

wick_status wick_build_describe(wick_ctx *ctx, const wick_op_entry *op, int what, char **out)
{
    wick_arena arena = {0};
    wick_signature *sig = NULL;
    wick_text text = {0};
    wick_status status = wick_signature_parse(ctx, &arena, op->name, op->signature, &sig);
    if (status) goto done;
    if (what & WICK_DESCRIBE_WORDS) wick_explain_signature(&text, sig);
    if (what & WICK_DESCRIBE_SCHEMA) {
        wick_signature_print_schema(&text, sig);
        wick_text_add(&text, "\n");
    }
    if (what & WICK_DESCRIBE_PROTOTYPE) print_prototype(&text, op, sig, false);
    if (what & WICK_DESCRIBE_CUDA_PROTOTYPE) print_prototype(&text, op, sig, true);
    status = give(ctx, &text, out);
done:
    wick_arena_free(&arena);
    return status;
}

/* ---- the generated code ---- */

/* "f32 i32": one type per variable of the file, in order. */
wick_status wick_build_read_types(wick_ctx *ctx, const wick_scan *scan, const char *words,
                                  wick_dtype *types)
{
    wick_scan_combination(scan, 0, types);
    for (int i = 0; words && i < scan->n_variables; i++) {
        const wick_variable *v = &scan->variables[i];
        size_t n = strcspn(words += strspn(words, " ,"), " ,");
        bool reserved, listed = false;
        types[i] = wick_dtype_parse(words, n, &reserved);
        for (int k = 0; k < v->n_types; k++) {
            listed = listed || v->types[k] == types[i];
        }
        if (!listed) {
            return wick_fail(ctx, WICK_EINVAL,
                             "%s:1: \"%.*s\" is not one of the types of %s in this file",
                             scan->file, (int)n, words, v->name);
        }
        words += n;
    }
    if (words && words[strspn(words, " ,")]) {
        return wick_fail(ctx, WICK_EINVAL,
                         "%s:1: this file has %d type variables, more types are given", scan->file,
                         scan->n_variables);
    }
    return WICK_OK;
}

wick_status wick_build_show(wick_ctx *ctx, const wick_source *source,
                            const wick_build_options *options, const char *types, char **out)
{
    wick_scan scan;
    wick_unit unit = {.cuda = true};
    wick_text text = {0};
    wick_status status = wick_scan_source(ctx, source, &scan);
    unit.scan = &scan;
    if (!status) status = wick_scan_namespace(ctx, &scan, options, &unit.ns);
    if (!status) status = wick_build_read_types(ctx, &scan, types, unit.types);
    if (!status) {
        wick_glue_write(&text, &unit, 1, 0, true);
        status = give(ctx, &text, out);
    }
    wick_scan_free(&scan);
    return status;
}
