/* package.c -- the headers of the package that a source is part of
 *
 *   acme/CMakeLists.txt        wick_add_operators(acme_ops ops/... INCLUDE include ...)
 *   acme/include/acme/gates.h
 *   acme/ops/gate.c            #include <acme/gates.h>
 *
 * Its build names the folder with -I. A source that is checked, measured or loaded by itself gets
 * the same, so that it can be worked on where it lies. Only the layout of `wick new --package` is
 * known; another one says -I.
 */
#include "builder.h"

#include <string.h>
#include <sys/stat.h>

static const char *beside(wick_scan *scan, const char *name)
{
    wick_text path = {0};
    const char *kept = NULL;
    wick_text_printf(&path, "%s../%s", scan->folder, name);
    if (!path.failed) kept = wick_arena_strndup(&scan->arena, path.data, path.size);
    wick_text_free(&path);
    return kept;
}

static bool is_folder(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

static bool is_package(const char *cmake_lists)
{
    char *text = NULL;
    wick_ctx own; /* that it is not there is no error */
    wick_ctx_init(&own, NULL);
    bool found = !wick_file_read(&own, cmake_lists, &text, NULL);
    found = found && strstr(text, "wick_add_operators") != NULL;
    wick_free(text);
    wick_ctx_deinit(&own);
    return found;
}

wick_status wick_scan_package(wick_ctx *ctx, wick_scan *scan)
{
    if (scan->is_text) return WICK_OK;
    const char *include = beside(scan, "include"), *lists = beside(scan, "CMakeLists.txt");
    if (!include || !lists) return wick_fail(ctx, WICK_ENOMEM, "out of memory");
    if (is_folder(include) && is_package(lists)) scan->package_include = include;
    return WICK_OK;
}
