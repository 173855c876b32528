/* tables.c -- the operators of a file, whatever kind of file it is */
#include "cli.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

/* The path has to have a slash, or dlopen would look for it among the system's libraries. */
static void *open_library(const char *path)
{
    char local[4096];
    if (strchr(path, '/')) return dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (snprintf(local, sizeof local, "./%s", path) >= (int)sizeof local) return NULL;
    return dlopen(local, RTLD_NOW | RTLD_LOCAL);
}

static wick_status fail(wick_ctx *ctx, wick_status status, const char *format, ...)
    WICK_PRINTF(3, 4);
static wick_status fail(wick_ctx *ctx, wick_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    status = ctx->services->fail(ctx, status, format, args);
    va_end(args);
    return status;
}

static wick_status open_module(wick_ctx *ctx, const char *path, cli_table *out)
{
    void *library = open_library(path);
    const char *why = library ? NULL : dlerror();
    const wick_module_table *table = library ? dlsym(library, WICK_MODULE_SYMBOL) : NULL;
    if (!library)
        return fail(ctx, WICK_EIO, "%s cannot be loaded: %s", path, why ? why : "unknown reason");
    if (!table || table->magic != WICK_MODULE_MAGIC) {
        dlclose(library);
        return fail(ctx, WICK_EIO, "%s is a library, but not a Wick module", path);
    }
    if (table->abi != WICK_ABI) {
        return fail(ctx, WICK_EIO,
                    "%s was built for ABI %u by Wick %s; this is Wick %s, ABI %d: build it again",
                    path, (unsigned)table->abi, table->built_by, WICK_VERSION, WICK_ABI);
    }
    out->table = table;
    out->from_source = false;
    return WICK_OK;
}

wick_status cli_table_open(wick_ctx *ctx, const char *path, cli_table *out)
{
    size_t n = strlen(path);
    wick_source source = {path, NULL};
    if (n > 3 && strcmp(path + n - 3, ".so") == 0) return open_module(ctx, path, out);
    out->from_source = true;
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
    if (!status) status = open_module(ctx, path, out);
    wick_string_free(path);
    return status;
}
