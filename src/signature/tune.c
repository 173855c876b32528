/* tune.c -- the launch choices of an operator: "threads: 128 256 512, rows: 1 2 4"
 *
 * Knobs with the values that each may have. In a module's table every operator of a file lists all
 * the file's knobs, so that a knob has one place in ctx->tuned; those that are not its own have no
 * values.
 */
#include "signature.h"

#include <ctype.h>
#include <string.h>

typedef struct reader {
    wick_ctx *ctx;
    wick_arena *arena;
    const char *at;
    bool empty_too;
} reader;

static void skip_space(reader *r) { r->at += strspn(r->at, " \t\r\n"); }

static bool take(reader *r, char c)
{
    skip_space(r);
    if (*r->at != c) return false;
    r->at++;
    return true;
}

static size_t name_size(const char *s)
{
    size_t n = 0;
    if (isdigit((unsigned char)*s)) return 0;
    while (isalnum((unsigned char)s[n]) || s[n] == '_')
        n++;
    return n;
}

static wick_status fail_at(const reader *r, const char *wanted)
{
    int n = (int)strcspn(r->at, " ,:\t\n");
    if (!*r->at) return wick_fail(r->ctx, WICK_EINVAL, "the choices end where %s is due", wanted);
    return wick_fail(r->ctx, WICK_EINVAL, "\"%.*s\" stands where %s is due", n ? n : 1, r->at,
                     wanted);
}

static wick_status read_value(reader *r, wick_knob *knob)
{
    int64_t value = 0;
    const char *start = r->at;
    for (; isdigit((unsigned char)*r->at) && value <= INT32_MAX; r->at++)
        value = value * 10 + (*r->at - '0');
    if (value < 1 || value > INT32_MAX || (*r->at && !strchr(" \t\r\n,", *r->at))) {
        r->at = start;
        return fail_at(r, "a number from 1 to 2147483647");
    }
    for (int i = 0; i < knob->n; i++)
        if (knob->values[i] == value)
            return wick_fail(r->ctx, WICK_EINVAL, "%s lists %lld twice", knob->name,
                             (long long)value);
    if (knob->n == WICK_MAX_KNOB_VALUES)
        return wick_fail(r->ctx, WICK_EINVAL, "%s has more than %d values", knob->name,
                         (int)WICK_MAX_KNOB_VALUES);
    knob->values[knob->n++] = value;
    return WICK_OK;
}

static wick_status read_knob(reader *r, wick_tune *tune)
{
    size_t n;
    wick_knob *knob = &tune->knobs[tune->n];
    skip_space(r);
    n = name_size(r->at);
    if (n == 0) return fail_at(r, "a knob's name, a C identifier,");
    if (tune->n == WICK_MAX_KNOBS)
        return wick_fail(r->ctx, WICK_EINVAL, "there are more than %d knobs", (int)WICK_MAX_KNOBS);
    knob->name = wick_arena_strndup(r->arena, r->at, n);
    if (!knob->name) return wick_fail(r->ctx, WICK_ENOMEM, "out of memory");
    for (int i = 0; i < tune->n; i++)
        if (!strcmp(tune->knobs[i].name, knob->name))
            return wick_fail(r->ctx, WICK_EINVAL, "the knob %s is listed twice", knob->name);
    r->at += n;
    tune->n++;
    if (!take(r, ':')) return fail_at(r, "a colon");
    for (skip_space(r); *r->at && *r->at != ','; skip_space(r))
        WICK_TRY(read_value(r, knob));
    return knob->n || r->empty_too ? WICK_OK : fail_at(r, "a value of this knob");
}

wick_status wick_tune_parse(wick_ctx *ctx, wick_arena *arena, const char *text, bool empty_too,
                            wick_tune **out)
{
    reader r = {ctx, arena, text, empty_too};
    wick_tune *tune = wick_arena_alloc(arena, sizeof *tune);
    if (!tune) return wick_fail(ctx, WICK_ENOMEM, "out of memory");
    do
        WICK_TRY(read_knob(&r, tune));
    while (take(&r, ','));
    *out = tune;
    return WICK_OK;
}

void wick_tune_print(wick_text *out, const wick_tune *tune)
{
    for (int i = 0; i < tune->n; i++) {
        wick_text_printf(out, "%s%s:", i ? ", " : "", tune->knobs[i].name);
        for (int k = 0; k < tune->knobs[i].n; k++)
            wick_text_printf(out, " %lld", (long long)tune->knobs[i].values[k]);
    }
}
