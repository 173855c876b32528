/* tables.c -- the operators of a file, whatever kind of file it is */
#include "cli.h"
#include "module.h"

#include <string.h>

static bool is_module(const char *path)
{
    size_t n = strlen(path);
    return n > 3 && strcmp(path + n - 3, ".so") == 0;
}

wick_status cli_table_open(wick_ctx *ctx, const char *path, cli_table *out)
{
    wick_source source = {path, NULL};
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
