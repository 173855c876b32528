/* toolchain.c -- which compiler is run, and with which flags
 *
 * What C lets slip is an error in an operator: a function nobody declared, a pointer of the wrong
 * type, a missing return, a symbol nobody defines. Everything else the compiler says is a warning.
 * Floating point stays what the source says: no reassociation, no contraction that would make two
 * machines differ; only errno and traps, which no kernel looks at, are given up, since they keep
 * loops from being vectorised.
 */
#include "builder.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- argument lists ---- */

void wick_args_add(wick_args *args, const char *item)
{
    if (args->failed || !item) {
        args->failed = true;
        return;
    }
    if (args->count + 1 >= args->capacity) {
        int64_t capacity = args->capacity ? args->capacity * 2 : 32;
        const char **items = wick_arena_alloc(args->arena, (size_t)capacity * sizeof *items);
        if (!items) {
            args->failed = true;
            return;
        }
        if (args->count) memcpy(items, args->items, (size_t)args->count * sizeof *items);
        args->items = items;
        args->capacity = capacity;
    }
    args->items[args->count++] = item;
    args->items[args->count] = NULL;
}

void wick_args_split(wick_args *args, const char *items)
{
    static const char blanks[] = " \t\r\n";
    while (items && *(items += strspn(items, blanks))) {
        size_t n = strcspn(items, blanks);
        wick_args_add(args, wick_arena_strndup(args->arena, items, n));
        items += n;
    }
}

void wick_args_all(wick_args *args, const wick_args *from)
{
    args->failed = args->failed || from->failed;
    for (int64_t i = 0; i < from->count; i++) {
        wick_args_add(args, from->items[i]);
    }
}

/* ---- the compiler ---- */

static bool is_program(const char *folder, size_t n, const char *name)
{
    wick_text path = {0};
    bool found;
    wick_text_addn(&path, folder, n);
    wick_text_printf(&path, "%s%s", n ? "/" : "", name);
    found = !path.failed && access(wick_text_str(&path), X_OK) == 0;
    wick_text_free(&path);
    return found;
}

static bool on_path(const char *name)
{
    const char *path = getenv("PATH");
    if (strchr(name, '/')) return access(name, X_OK) == 0;
    for (path = path ? path : "/usr/bin:/bin"; *path;) {
        size_t n = strcspn(path, ":");
        if (is_program(path, n, name)) return true;
        path += n + (path[n] == ':');
    }
    return false;
}

static wick_status add_compiler(wick_ctx *ctx, const wick_build_options *options, wick_args *out)
{
    static const char *const usual[] = {"cc", "gcc", "clang"};
    const char *cc = getenv("CC");
    if (options && options->compiler) cc = options->compiler;
    wick_args_split(out, cc);
    if (out->failed) return wick_fail(ctx, WICK_ENOMEM, "out of memory");
    if (out->count > 0) {
        if (on_path(out->items[0])) return WICK_OK;
        return wick_fail(ctx, WICK_ECOMPILE,
                         "the C compiler \"%s\" (%s) cannot be run: install it, or name another",
                         out->items[0],
                         options && options->compiler ? "the one asked for" : "from $CC");
    }
    for (int i = 0; i < WICK_COUNT(usual); i++) {
        if (!on_path(usual[i])) continue;
        wick_args_add(out, usual[i]);
        return WICK_OK;
    }
    return wick_fail(
        ctx, WICK_ECOMPILE,
        "no C compiler: neither cc nor gcc nor clang is on the PATH; install one (apt install gcc, "
        "dnf install gcc, apk add gcc musl-dev, conda install -c conda-forge gcc) or set CC");
}

static void add_flags(const wick_build_options *options, wick_args *out)
{
    static const char *const flags[] = {"-std=gnu11",
                                        "-pipe",
                                        "-fPIC",
                                        "-fvisibility=hidden",
                                        "-fno-math-errno",
                                        "-fno-trapping-math",
                                        "-ffp-contract=off",
                                        "-Wall",
                                        "-Wno-unused-function",
                                        "-Werror=implicit-function-declaration",
                                        "-Werror=incompatible-pointer-types",
                                        "-Werror=int-conversion",
                                        "-Werror=return-type",
                                        "-fdiagnostics-color=never",
                                        "-fmessage-length=0"};
    bool debug = options && options->debug;
    wick_args_add(out, debug ? "-O0" : "-O3");
    if (debug) wick_args_add(out, "-g");
    for (int i = 0; i < WICK_COUNT(flags); i++) {
        wick_args_add(out, flags[i]);
    }
}

static wick_status add_include(wick_ctx *ctx, const wick_build_options *options, wick_args *out)
{
    char *found = NULL;
    if (options && options->include_dir) {
        wick_args_add(out, "-I");
        wick_args_add(out, options->include_dir);
        return WICK_OK;
    }
    WICK_TRY(wick_install_include(ctx, &found));
    wick_args_add(out, "-I");
    wick_args_add(out, wick_arena_strndup(out->arena, found, strlen(found)));
    wick_free(found);
    return WICK_OK;
}

wick_status wick_toolchain_find(wick_ctx *ctx, wick_arena *arena, const wick_build_options *options,
                                wick_args *out)
{
    memset(out, 0, sizeof *out);
    out->arena = arena;
    WICK_TRY(add_compiler(ctx, options, out));
    add_flags(options, out);
    WICK_TRY(add_include(ctx, options, out));
    return out->failed ? wick_fail(ctx, WICK_ENOMEM, "out of memory") : WICK_OK;
}

void wick_toolchain_user_flags(const wick_build_options *options, wick_args *out)
{
    wick_args_split(out, getenv("CFLAGS"));
    for (const char *const *flag = options ? options->flags : NULL; flag && *flag; flag++) {
        wick_args_add(out, *flag);
    }
}

const char *wick_toolchain_march(bool portable, wick_isa isa)
{
#if defined(__x86_64__)
    if (!portable) return "-march=native";
    return isa == WICK_ISA_X86_64_V3 ? "-march=x86-64-v3" : "-march=x86-64";
#else
    (void)isa;
    return portable ? NULL : "-mcpu=native";
#endif
}
