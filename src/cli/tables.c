/* tables.c -- the operators of a file, whatever kind of file it is */
#include "cli.h"
#include "module.h"

#include <glob.h>
#include <string.h>
#include <sys/stat.h>

static bool is_folder(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

static bool is_module(const char *path)
{
    size_t n = strlen(path);
    return n > 3 && strcmp(path + n - 3, ".so") == 0;
}

wick_status cli_table_open(wick_ctx *ctx, const char *path, cli_table *out)
{
    wick_source source = {path, NULL};
    if (is_folder(path))
        return wick_fail(ctx, WICK_EINVAL, "%s: a folder, expected a source or a module", path);
    out->from_source = !is_module(path);
    if (!out->from_source) return wick_module_open(ctx, path, &out->table);
    return wick_build_list(ctx, &source, &out->table);
}

void cli_table_close(cli_table *t)
{
    if (t->from_source) wick_build_list_free(t->table);
    t->table = NULL;
}

wick_status cli_table_shipped(wick_ctx *ctx, cli_table *out)
{
    char *path = NULL;
    wick_status status = wick_build_package_file(ctx, "wick_ops.so", &path);
    out->from_source = false;
    if (!status) status = wick_module_open(ctx, path, &out->table);
    wick_string_free(path);
    return status;
}

bool cli_is_shipped(const char *ns) { return !ns || strcmp(ns, "wick") == 0; }

static bool has_op(const wick_module_table *table, const char *ns, const char *name)
{
    for (int64_t i = 0; i < table->n_ops; i++) {
        const wick_op_entry *op = &table->ops[i];
        if (op->ns && strcmp(op->ns, ns) == 0 && strcmp(op->name, name) == 0) return true;
    }
    return false;
}

/* The modules of a package lie in its folder `operators`, one per operator file. */
wick_status cli_table_installed(wick_ctx *ctx, const char *ns, const char *name, cli_table *out)
{
    static const wick_module_table empty = {0};
    wick_text inside = {0};
    char *own = NULL;
    glob_t found = {0};
    wick_status status = wick_build_package_file(ctx, "wick_ops.so", &own);
    *out = (cli_table){&empty, false};
    if (!status) {
        int folder = (int)(strlen(own) - strlen("wick_ops.so"));
        wick_text_printf(&inside, "%.*s../%s/operators/*.so", folder, own, ns);
        if (inside.failed) status = wick_fail(ctx, WICK_ENOMEM, "out of memory");
    }
    if (!status && glob(inside.data, 0, NULL, &found) == 0) {
        for (size_t i = 0; !status && i < found.gl_pathc; i++) {
            const wick_module_table *table;
            status = wick_module_open(ctx, found.gl_pathv[i], &table);
            if (!status && has_op(table, ns, name)) out->table = table;
        }
    }
    globfree(&found);
    wick_text_free(&inside);
    wick_string_free(own);
    return status;
}
