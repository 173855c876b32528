/* scan_tune.c -- WICK_TUNE(op, "threads: 128 256 512, rows: 1 2 4"); */
#include "builder.h"

#include <string.h>

static wick_scan_op *find_op(const wick_scan *scan, const wick_token *name)
{
    for (int i = 0; i < scan->n_ops; i++)
        if (wick_token_is(name, scan->ops[i].name)) return &scan->ops[i];
    return NULL;
}

static wick_status add_tune(wick_ctx *ctx, wick_scan *scan, const wick_scan_macro *macro)
{
    wick_scan_op *op = find_op(scan, &macro->name);
    if (!op) return wick_scan_fail(ctx, scan, macro, "there is no operator of that name here");
    if (op->tune)
        return wick_scan_fail(ctx, scan, macro, "the operator's choices are listed already");
    if (!op->has_cuda)
        return wick_scan_fail(ctx, scan, macro,
                              "the operator has no CUDA version, whose launches could be tuned");
    wick_status status =
        wick_tune_parse(ctx, &scan->arena, wick_text_str(&macro->text), false, &op->tune);
    if (status)
        wick_ctx_prefix(ctx, "%s:%lld: WICK_TUNE(%s): ", scan->file, (long long)macro->line,
                        op->name);
    return status;
}

/* One numbering over the file: a launcher may serve several operators. */
static wick_status number_knobs(wick_ctx *ctx, wick_scan *scan, const wick_scan_op *op,
                                int64_t line)
{
    for (int i = 0; op->tune && i < op->tune->n; i++) {
        const char *name = op->tune->knobs[i].name;
        int k = 0;
        while (k < scan->n_knobs && strcmp(scan->knobs[k], name) != 0)
            k++;
        if (k < scan->n_knobs) continue;
        if (k == WICK_MAX_KNOBS)
            return wick_fail(ctx, WICK_EINVAL, "%s:%lld: this file has more than %d knobs",
                             scan->file, (long long)line, (int)WICK_MAX_KNOBS);
        scan->knobs[scan->n_knobs++] = name;
    }
    return WICK_OK;
}

wick_status wick_scan_tune(wick_ctx *ctx, wick_scan *scan)
{
    wick_lexer lex;
    wick_lex_start(&lex, scan->text, scan->text_bytes);
    for (wick_token t = wick_lex_next(&lex); t.kind != WICK_TOKEN_END; t = wick_lex_next(&lex)) {
        wick_lexer ahead = lex;
        wick_token open = wick_lex_next(&ahead);
        if (!wick_token_is(&t, "WICK_TUNE") || !wick_token_is(&open, "(")) continue;
        lex = ahead;
        wick_scan_macro macro;
        wick_status status = wick_scan_macro_read(ctx, scan, &lex, &t, "list", &macro);
        if (status == WICK_OK) status = add_tune(ctx, scan, &macro);
        wick_text_free(&macro.text);
        if (status != WICK_OK) return status;
    }
    for (int i = 0; i < scan->n_ops; i++)
        WICK_TRY(number_knobs(ctx, scan, &scan->ops[i], scan->ops[i].line));
    return WICK_OK;
}

void wick_scan_print_tune(wick_text *out, const wick_scan *scan, const wick_scan_op *op)
{
    wick_tune all = {.n = scan->n_knobs};
    for (int k = 0; k < scan->n_knobs; k++) {
        all.knobs[k].name = scan->knobs[k];
        for (int i = 0; i < op->tune->n; i++)
            if (!strcmp(op->tune->knobs[i].name, scan->knobs[k])) all.knobs[k] = op->tune->knobs[i];
    }
    wick_tune_print(out, &all);
}
