/* install.c -- where the headers and the shipped operators lie
 *
 *   .../site-packages/wick/_wick.abi3.so     this code, inside Python; include/ and wick_ops.so
 * beside it
 *   .../site-packages/wick/lib/libwick.so    this code, inside a C program; they are one folder up
 *   .../bin/wick                             this code, as the command;
 * ../lib/python3.x/site-packages/wick
 *
 * The folder of the source tree comes last: it is there for the build that makes all these.
 */
#define _GNU_SOURCE 1 /* dladdr */
#include "builder.h"

#include <dlfcn.h>
#include <glob.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Returns an owned copy of folder/name if folder/name/probe exists. */
static char *try_folder(const char *folder, const char *name, const char *probe)
{
    wick_text path = {0}, inside = {0};
    char *found = NULL;
    wick_text_printf(&path, "%s/%s", folder, name);
    wick_text_printf(&inside, "%s%s", wick_text_str(&path), probe);
    if (!path.failed && !inside.failed && wick_file_exists(wick_text_str(&inside))) {
        found = wick_strdup(wick_text_str(&path));
    }
    wick_text_free(&inside);
    wick_text_free(&path);
    return found;
}

static char *try_glob(const char *pattern, const char *name, const char *probe)
{
    char *found = NULL;
    glob_t matches;
    if (glob(pattern, 0, NULL, &matches) != 0) return NULL;
    for (size_t i = 0; !found && i < matches.gl_pathc; i++) {
        found = try_folder(matches.gl_pathv[i], name, probe);
    }
    globfree(&matches);
    return found;
}

/* The folder of a program or library: beside it, above it, or in the Python installation it belongs
 * to. */
static char *try_around(const char *file, const char *name, const char *probe)
{
    static const char *const near[] = {"", "/..", "/../lib/wick"};
    const char *slash = strrchr(file, '/');
    char *found = NULL;
    wick_text folder = {0};
    if (!slash) return NULL;
    for (int i = 0; !found && i < WICK_COUNT(near); i++) {
        wick_text_free(&folder);
        wick_text_printf(&folder, "%.*s%s", (int)(slash - file), file, near[i]);
        found = try_folder(wick_text_str(&folder), name, probe);
    }
    if (!found) {
        wick_text_free(&folder);
        wick_text_printf(&folder, "%.*s/../lib*/python3*/site-packages/wick", (int)(slash - file),
                         file);
        found = try_glob(wick_text_str(&folder), name, probe);
    }
    wick_text_free(&folder);
    return found;
}

static char *find(const char *name, const char *probe)
{
    static const char here; /* an address inside this code */
    Dl_info about;
    char program[PATH_MAX];
    ssize_t n;
    char *found = NULL;
    if (dladdr((const void *)&here, &about) && about.dli_fname) {
        found = try_around(about.dli_fname, name, probe);
    }
    n = found ? -1 : readlink("/proc/self/exe", program, sizeof program - 1);
    if (n > 0) {
        program[n] = '\0';
        found = try_around(program, name, probe);
    }
    return found;
}

wick_status wick_install_include(wick_ctx *ctx, char **out)
{
    const char *given = getenv("WICK_INCLUDE");
    char *found;
    if (given && *given) {
        found = wick_strdup(given);
        if (!found) return wick_fail(ctx, WICK_ENOMEM, "out of memory");
        *out = found;
        return WICK_OK;
    }
    found = find("include", "/wick/op.h");
#ifdef WICK_SOURCE_INCLUDE
    if (!found) found = try_folder(WICK_SOURCE_INCLUDE, ".", "/wick/op.h");
#endif
    if (!found) {
        return wick_fail(
            ctx, WICK_EIO,
            "the folder of <wick/op.h> was not found; set WICK_INCLUDE to it, or reinstall Wick");
    }
    *out = found;
    return WICK_OK;
}

wick_status wick_build_package_file(wick_ctx *ctx, const char *name, char **out)
{
    char *found = find(name, "");
    if (!found) return wick_fail(ctx, WICK_EIO, "%s was not found beside Wick; reinstall it", name);
    *out = found;
    return WICK_OK;
}
