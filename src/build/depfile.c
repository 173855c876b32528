/* depfile.c -- what a module was made from, as one rule of a Makefile
 *
 *   compiler, per unit    unit0.o: unit0.c op.h a.h        unit1.o: unit1.c op.h b.h
 *   written               module.so: op.c op.h a.h b.h
 *
 * Ninja and make read it: a module is built again when one of these files changed, and only then. The
 * units lie in a folder that is gone by now, so they are left out; the author's files, whose text they
 * carry, are put in their place.
 */
#include "builder.h"

#include <string.h>

/* The length of the name at `at`, as the compiler spelled it: a blank with a backslash in front belongs to it. */
static size_t name_length(const char *at)
{
    size_t n = 0;
    while (at[n] && !strchr(" \t\r\n", at[n])) {
        if (at[n] == '\\' && at[n + 1] == '\n') break;
        n += at[n] == '\\' && at[n + 1] ? 2 : 1;
    }
    return n;
}

/* `list` is "\n" and then names, each with a "\n" behind it. */
static void add_once(wick_text *list, const char *name, size_t n)
{
    wick_text line = {0};
    if (list->size == 0) wick_text_add(list, "\n");
    wick_text_add(&line, "\n");
    wick_text_addn(&line, name, n);
    wick_text_add(&line, "\n");
    if (line.failed) {
        list->failed = true;
    } else if (!strstr(wick_text_str(list), line.data)) {
        wick_text_add(list, line.data + 1);
    }
    wick_text_free(&line);
}

/* All names of the rules but, of each, the first two: the target and the unit. */
static void collect(wick_text *list, const char *rules)
{
    int place = 0;
    while (*rules) {
        size_t n = name_length(rules);
        if (n > 0) {
            if (place++ >= 2) add_once(list, rules, n);
            rules += n;
        } else if (*rules == '\\') {
            rules += 2; /* the rule goes on in the next line */
        } else if (*rules++ == '\n') {
            place = 0;
        }
    }
}

/* As a Makefile spells it. */
static void add_spelled(wick_text *out, const char *path)
{
    for (; *path; path++) {
        if (strchr(" #\\", *path)) wick_text_add(out, "\\");
        if (*path == '$') wick_text_add(out, "$");
        wick_text_addn(out, path, 1);
    }
}

static wick_status add_sources(wick_ctx *ctx, wick_text *list, const wick_source *sources, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        wick_text name = {0};
        char *path = NULL;
        if (sources[i].text) continue;
        WICK_TRY(wick_path_absolute(ctx, sources[i].path, &path));
        add_spelled(&name, path);
        add_once(list, wick_text_str(&name), name.size);
        list->failed = list->failed || name.failed;
        wick_text_free(&name);
        wick_free(path);
    }
    return WICK_OK;
}

wick_status wick_depfile_write(wick_ctx *ctx, const char *path, const char *output,
                               const wick_source *sources, int64_t n_sources, const char *rules)
{
    wick_text list = {0}, out = {0};
    wick_status status = add_sources(ctx, &list, sources, n_sources);
    if (!status) {
        collect(&list, rules);
        add_spelled(&out, output);
        wick_text_add(&out, ":");
        for (const char *at = wick_text_str(&list) + (list.size > 0); *at;) {
            size_t n = strcspn(at, "\n");
            wick_text_add(&out, " \\\n  ");
            wick_text_addn(&out, at, n);
            at += n + (at[n] == '\n');
        }
        wick_text_add(&out, "\n");
        status = list.failed || out.failed ? wick_fail(ctx, WICK_ENOMEM, "out of memory")
                                           : wick_file_write(ctx, path, out.data, out.size);
    }
    wick_text_free(&list);
    wick_text_free(&out);
    return status;
}
