/* stub.c -- operators as a Python stub file (.pyi), for editors and type checkers
 *
 *   from torch import Tensor
 *
 *   def relu(x: Tensor, *, out: Tensor | None = None) -> Tensor:
 *       """relu(x: T[*N]) -> y: T[*N]
 *       ..."""
 */
#include "cli.h"
#include "module.h"

#include <string.h>

static const char *const mark = "# Made by wick from the signatures of operators.";

/* Inside a docstring of three double quotes. */
static void add_docstring(wick_text *out, const char *doc)
{
    static const char *const indent = "    ";
    wick_text_printf(out, "%s\"\"\"", indent);
    for (const char *c = doc; *c; c++) {
        if (*c == '\\' || *c == '"') wick_text_add(out, "\\");
        wick_text_addn(out, c, 1);
        if (*c == '\n' && c[1] != '\n') wick_text_add(out, indent);
    }
    wick_text_printf(out, "\n%s\"\"\"\n", indent);
}

/* One `def`: of entry `index`, or of its second name. */
static wick_status add_function(wick_ctx *ctx, const wick_module_table *table, int64_t index,
                                bool second, wick_text *out)
{
    const wick_op_entry *op = &table->ops[index];
    wick_arena arena = {0};
    wick_signature *sig = NULL, *backward = NULL;
    wick_text doc = {0}, line = {0};
    size_t stem = 0;
    int64_t b = wick_table_backward(table, index, &stem);
    const char *name = second ? wick_arena_strndup(&arena, op->name, stem) : op->name;
    wick_status status = name ? wick_signature_parse(ctx, &arena, name, op->signature, &sig)
                              : wick_fail(ctx, WICK_ENOMEM, "out of memory");
    if (status == WICK_OK && b >= 0)
        status = wick_signature_parse(ctx, &arena, table->ops[b].name, table->ops[b].signature,
                                      &backward);
    if (status == WICK_OK) {
        wick_doc about = {op->doc, second ? op->name : NULL, backward};
        wick_signature_print_doc(&doc, sig, &about);
        wick_signature_print_stub(&line, sig);
        /* The documentation takes the place of the body, "...". */
        wick_text_printf(out, "\n%.*s\n", (int)line.size - (int)strlen(" ..."),
                         wick_text_str(&line));
        add_docstring(out, wick_text_str(&doc));
        if (doc.failed || line.failed) status = wick_fail(ctx, WICK_ENOMEM, "out of memory");
    }
    wick_text_free(&doc);
    wick_text_free(&line);
    wick_arena_free(&arena);
    return status;
}

wick_status cli_stub_add(wick_ctx *ctx, const wick_module_table *table, int64_t index,
                         wick_text *functions)
{
    size_t second = 0;
    wick_table_backward(table, index, &second);
    WICK_TRY(add_function(ctx, table, index, false, functions));
    return second ? add_function(ctx, table, index, true, functions) : WICK_OK;
}

wick_status cli_stub_print(wick_ctx *ctx, const wick_text *functions, wick_text *out)
{
    const char *text = wick_text_str(functions);
    bool shapes = strstr(text, ": Sequence[") != NULL, choices = strstr(text, ": Literal[") != NULL;
    wick_text_printf(out, "%s\n", mark);
    if (shapes) wick_text_add(out, "from collections.abc import Sequence\n");
    if (choices) wick_text_add(out, "from typing import Literal\n");
    wick_text_printf(out, "%sfrom torch import Tensor\n%s", shapes || choices ? "\n" : "", text);
    return functions->failed || out->failed ? wick_fail(ctx, WICK_ENOMEM, "out of memory")
                                            : WICK_OK;
}

wick_status cli_stub_write(wick_ctx *ctx, const wick_source *sources, int64_t n, const char *path)
{
    const char *dot = strrchr(path, '.');
    wick_text functions = {0}, content = {0};
    wick_status status = WICK_OK;
    if (!dot || strcmp(dot, ".pyi") != 0)
        return wick_fail(ctx, WICK_EINVAL, "%s: the name of a stub file ends in .pyi", path);
    for (int64_t i = 0; !status && i < n; i++) {
        const wick_module_table *table = NULL;
        status = wick_build_list(ctx, &sources[i], &table);
        for (int64_t k = 0; !status && k < table->n_ops; k++)
            status = cli_stub_add(ctx, table, k, &functions);
        wick_build_list_free(table);
    }
    if (!status) status = cli_stub_print(ctx, &functions, &content);
    if (!status) status = cli_write_ours(ctx, path, mark, &content);
    wick_text_free(&functions);
    wick_text_free(&content);
    return status;
}
