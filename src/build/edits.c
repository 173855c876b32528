/* edits.c -- a text with parts of it replaced
 *
 * Edits are gathered in any order and applied at once. What goes leaves its line breaks, so lines
 * keep their numbers.
 */
#include "split.h"

#include <stdlib.h>
#include <string.h>

static void add_edit(wick_edits *e, wick_span where, const char *with, bool is_code)
{
    wick_edit *items =
        wick_chunks_grow(e->chunks->arena, e->items, e->n, &e->capacity, sizeof *items);
    e->failed = e->failed || !items || !with;
    if (!items) return;
    e->items = items;
    items[e->n++] = (wick_edit){where, with, is_code};
}

void wick_edits_replace(wick_edits *e, wick_span code, const char *with)
{
    add_edit(e, code, with, true);
}

void wick_edits_reword(wick_edits *e, wick_span words, const char *with)
{
    add_edit(e, words, with, false);
}

void wick_edits_insert(wick_edits *e, wick_span what, const char *text)
{
    add_edit(e, (wick_span){what.start, 0}, text, false);
}

/* What is inserted comes first, then the larger part: it takes the smaller with it. */
static int by_place(const void *a, const void *b)
{
    const wick_edit *x = a, *y = b;
    if (x->where.start != y->where.start) return x->where.start < y->where.start ? -1 : 1;
    if (!x->where.size != !y->where.size) return x->where.size ? 1 : -1;
    return x->where.size > y->where.size ? -1 : x->where.size < y->where.size;
}

static bool stays(const wick_directive *d)
{
    return d->kind == WICK_DIRECTIVE_IF || d->kind == WICK_DIRECTIVE_ELSE ||
           d->kind == WICK_DIRECTIVE_ENDIF || d->kind == WICK_DIRECTIVE_DEFINE;
}

/* What is left of a part that goes. */
static void add_rest(wick_text *out, const wick_chunks *chunks, const wick_edit *gone)
{
    const char *at = gone->where.start, *end = at + gone->where.size;
    int d = 0;
    while (at < end) {
        while (d < chunks->n_directives && chunks->directives[d].text.start < at)
            d++;
        const wick_directive *next = d < chunks->n_directives ? &chunks->directives[d] : NULL;
        if (gone->is_code && next && next->text.start == at && stays(next)) {
            wick_text_addn(out, at, next->text.size);
            at += next->text.size;
            continue;
        }
        if (*at == '\n') wick_text_add(out, "\n");
        at++;
    }
}

/* The text with its edits, in the arena; what lies inside of a part that is gone already is not
 * edited. */
const char *wick_edits_apply(wick_edits *e, const wick_scan *scan)
{
    wick_text out = {0};
    const char *at = scan->text, *end = scan->text + scan->text_bytes, *kept;
    if (e->n) qsort(e->items, (size_t)e->n, sizeof *e->items, by_place);
    for (int i = 0; i < e->n; i++) {
        const wick_edit *now = &e->items[i];
        if (now->where.start < at) continue;
        wick_text_addn(&out, at, (size_t)(now->where.start - at));
        wick_text_add(&out, now->with ? now->with : "");
        add_rest(&out, e->chunks, now);
        at = now->where.start + now->where.size;
    }
    wick_text_addn(&out, at, (size_t)(end - at));
    kept = out.failed || e->failed
               ? NULL
               : wick_arena_strndup(e->chunks->arena, wick_text_str(&out), out.size);
    wick_text_free(&out);
    return kept;
}
