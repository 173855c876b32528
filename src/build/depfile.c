/* depfile.c -- what a module was made from, as one rule of a Makefile
 *
 *   module.so: op.c /usr/include/math.h include/acme/gates.h
 *
 * Ninja and make read it: a module is built again when one of these files changed, and only then.
 */
#include "builder.h"

#include <string.h>

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

/* As a Makefile spells it. */
static void add_spelled(wick_text *out, const char *path)
{
    for (; *path; path++) {
        if (strchr(" #\\", *path)) wick_text_add(out, "\\");
        if (*path == '$') wick_text_add(out, "$");
        wick_text_addn(out, path, 1);
    }
}

static void add_path(wick_text *list, const char *path)
{
    wick_text name = {0};
    add_spelled(&name, path);
    add_once(list, wick_text_str(&name), name.size);
    list->failed = list->failed || name.failed;
    wick_text_free(&name);
}

static wick_status add_sources(wick_ctx *ctx, wick_text *list, const wick_source *sources,
                               int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        char *path = NULL;
        if (sources[i].text) continue;
        WICK_TRY(wick_path_absolute(ctx, sources[i].path, &path));
        add_path(list, path);
        wick_free(path);
    }
    return WICK_OK;
}

/* Lines as depends.c writes them; the path is what is left behind the words that describe it. */
static void add_described(wick_text *list, const char *lines)
{
    while (*lines) {
        size_t n = strcspn(lines, "\n");
        int words = strncmp(lines, "sys ", 4) == 0 ? 3 : 2;
        wick_text line = {0};
        const char *path;
        wick_text_addn(&line, lines, n);
        path = wick_text_str(&line);
        for (int i = 0; path && i < words; i++) {
            path = strchr(path, ' ');
            if (path) path++;
        }
        if (path && strncmp(lines, "not ", 4) != 0) add_path(list, path);
        list->failed = list->failed || line.failed;
        wick_text_free(&line);
        lines += n + (lines[n] == '\n');
    }
}

wick_status wick_depfile_write(wick_ctx *ctx, const char *path, const char *output,
                               const wick_source *sources, int64_t n_sources, const char *depends)
{
    wick_text list = {0}, out = {0};
    wick_status status = add_sources(ctx, &list, sources, n_sources);
    if (!status) {
        add_described(&list, depends);
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
