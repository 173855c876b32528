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
#include <sys/stat.h>
#include <unistd.h>

/* ---- the flags ---- */

/* Those of one use are given in this order. */
const wick_flag wick_toolchain_flags[] = {
    {WICK_FLAG_ALWAYS, "-std=gnu11", NULL, "C11, with the builtins that <wick/op.h> stands on"},
    {WICK_FLAG_ALWAYS, "-pipe", NULL, "no temporary files between the compiler's stages"},
    {WICK_FLAG_ALWAYS, "-fPIC", NULL, "a module is mapped wherever there is room"},
    {WICK_FLAG_ALWAYS, "-fvisibility=hidden", NULL,
     "a module shows its table and nothing else: two modules may use one name"},
    {WICK_FLAG_ALWAYS, "-fno-math-errno", NULL,
     "sqrtf and the like need not set errno, which no kernel reads, so loops vectorise"},
    {WICK_FLAG_ALWAYS, "-fno-trapping-math", NULL,
     "no kernel installs handlers for floating-point traps, so loops vectorise; results are the "
     "same"},
    {WICK_FLAG_ALWAYS, "-ffp-contract=off", NULL,
     "a * b + c rounds twice, as written, so two machines give the same bits; say fma() for one "
     "rounding"},
    {WICK_FLAG_ALWAYS, "-Wall", NULL, "what the compiler finds suspicious is shown"},
    {WICK_FLAG_ALWAYS, "-Wno-unused-function", NULL,
     "a file is compiled per element type and device, and not every helper is used in each"},
    {WICK_FLAG_ALWAYS, "-Werror=implicit-function-declaration", NULL,
     "a function that nobody declared would be called with guessed types"},
    {WICK_FLAG_ALWAYS, "-Werror=incompatible-pointer-types", NULL,
     "a pointer to the wrong element type reads garbage"},
    {WICK_FLAG_ALWAYS, "-Werror=int-conversion", NULL, "a number in the place of a pointer"},
    {WICK_FLAG_ALWAYS, "-Werror=return-type", NULL,
     "a function that ends without its status would report garbage"},
    {WICK_FLAG_ALWAYS, "-fdiagnostics-color=never", NULL,
     "messages are read by Wick before they are shown"},
    {WICK_FLAG_ALWAYS, "-fmessage-length=0", NULL, "one message, one line"},
    {WICK_FLAG_INCLUDE, "-I", "DIR", "where <wick/op.h> lies"},
    {WICK_FLAG_QUOTE, "-iquote", "DIR", "the source's own folder, for its #include \"...\""},
    {WICK_FLAG_PACKAGE, "-I", "DIR", "the headers of the package that the source is part of"},
    {WICK_FLAG_RELEASE, "-O3", NULL, "the code runs far more often than it is compiled"},
    {WICK_FLAG_DEBUG, "-O0", NULL, "a debugger finds every line and every variable"},
    {WICK_FLAG_DEBUG, "-g", NULL, "symbols for the debugger"},
    {WICK_FLAG_DEBUG, "-DWICK_DEBUG=1", NULL, "WICK_AT checks its indices"},
    {WICK_FLAG_SANITIZE, "-fsanitize=address,undefined", NULL,
     "reads and writes outside of arrays, overflow, bad shifts and alignment are reported"},
    {WICK_FLAG_SANITIZE, "-fno-sanitize-recover=undefined", NULL, "the first report ends the run"},
    {WICK_FLAG_SANITIZE, "-fno-omit-frame-pointer", NULL, "reports show how it came to that"},
    {WICK_FLAG_SANITIZE, "-O1", NULL, "instrumented code at -O3 compiles for long"},
    {WICK_FLAG_SANITIZE, "-g", NULL, "reports name the source's lines"},
    {WICK_FLAG_SANITIZE, "-Wl,-z,undefs", NULL,
     "the sanitizers' functions come from the program that loads the module"},
    {WICK_FLAG_SANITIZE, "-Wno-unused-command-line-argument", NULL,
     "clang need not warn that the one before it is for linking only"},
#if defined(__x86_64__)
    {WICK_FLAG_NATIVE, "-march=native", NULL, "wick.load and --native: all that this CPU can do"},
    {WICK_FLAG_BASELINE, "-march=x86-64", NULL, "--portable: runs on every x86-64 CPU"},
    {WICK_FLAG_X86_64_V3, "-march=x86-64-v3", NULL,
     "--portable, second version: AVX2, chosen at load where the CPU has it"},
#else
    {WICK_FLAG_NATIVE, "-mcpu=native", NULL, "wick.load and --native: all that this CPU can do"},
#endif
    {WICK_FLAG_OBJECT, "-c", NULL, "one object per element type and CPU level, linked at the end"},
    {WICK_FLAG_CHECK, "-fsyntax-only", NULL,
     "element types that are not built yet are checked, so that their errors are known now"},
    {WICK_FLAG_DEPENDS, "-MD", NULL, "which headers were read: editing one builds anew"},
    {WICK_FLAG_DEPENDS, "-MF", "FILE", "where that is written"},
    {WICK_FLAG_OUTPUT, "-o", "FILE", "in a private folder; the module is moved when it is whole"},
    {WICK_FLAG_LINK, "-shared", NULL, "a module is a shared object"},
    {WICK_FLAG_LINK, "-Wl,-z,defs", NULL,
     "a function that nobody defines is an error now, not at the first call"},
    {WICK_FLAG_LIBRARY, "-lm", NULL, "the C library's mathematics"},
    {WICK_FLAG_DEVICE, "-std=c++17", NULL, "what CUDA's compilers call the C of a kernel"},
    {WICK_FLAG_DEVICE, "-diag-suppress=177,550", NULL,
     "a kernel need not use every function and variable of the file"},
    {WICK_FLAG_NVRTC, "-default-device", NULL,
     "plain functions of the author's headers may be called by kernels"},
    {WICK_FLAG_DEVICE_DEBUG, "-lineinfo", NULL, "profilers and sanitizers name the source's lines"},
    {WICK_FLAG_FAST_MATH, "-use_fast_math", NULL,
     "WICK_FAST_MATH; in the file: faster and less exact division, roots, exponentials"},
    {WICK_FLAG_NVCC, "-c", NULL, "an object with launchers and kernels"},
    {WICK_FLAG_NVCC, "-O3", NULL, "the code runs far more often than it is compiled"},
    {WICK_FLAG_NVCC, "-Xcompiler=-fPIC,-fvisibility=hidden", NULL,
     "a module is mapped anywhere and shows its table alone"},
    {WICK_FLAG_NVCC_LINK, "-shared", NULL, "a module is a shared object"},
    {WICK_FLAG_NVCC_LINK, "-cudart=static", NULL,
     "CUDA's runtime goes into the module: it loads where there is no CUDA"},
    {WICK_FLAG_NVCC_LINK, "-Xlinker=-z,defs,--as-needed", NULL,
     "a function that nobody defines is an error now; a library that nobody needs is not linked"},
};

const int wick_toolchain_n_flags = WICK_COUNT(wick_toolchain_flags);

void wick_toolchain_add(wick_flag_use use, wick_args *out)
{
    for (int i = 0; i < wick_toolchain_n_flags; i++) {
        if (wick_toolchain_flags[i].use == use) wick_args_add(out, wick_toolchain_flags[i].flag);
    }
}

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

static bool is_program(const wick_text *path)
{
    struct stat file;
    return !path->failed && stat(wick_text_str(path), &file) == 0 && S_ISREG(file.st_mode) &&
           access(wick_text_str(path), X_OK) == 0;
}

bool wick_toolchain_locate(const char *name, wick_text *out)
{
    const char *path = getenv("PATH");
    if (strchr(name, '/')) path = ""; /* a path itself: one look */
    for (path = path ? path : "/usr/bin:/bin";; path++) {
        size_t n = strcspn(path, ":");
        wick_text candidate = {0};
        wick_text_addn(&candidate, path, n);
        wick_text_printf(&candidate, "%s%s", n ? "/" : "", name);
        bool found = is_program(&candidate);
        if (found) wick_text_add(out, wick_text_str(&candidate));
        wick_text_free(&candidate);
        if (found) return true;
        path += n;
        if (!*path) return false;
    }
}

bool wick_toolchain_on_path(const char *name)
{
    wick_text path = {0};
    bool found = wick_toolchain_locate(name, &path);
    wick_text_free(&path);
    return found;
}

static wick_status add_compiler(wick_ctx *ctx, const wick_build_options *options, wick_args *out)
{
    static const char *const usual[] = {"cc", "gcc", "clang"};
    const char *cc = getenv("CC");
    if (options && options->compiler) cc = options->compiler;
    wick_args_split(out, cc);
    if (out->failed) return wick_fail(ctx, WICK_ENOMEM, "out of memory");
    if (out->count > 0) {
        if (wick_toolchain_on_path(out->items[0])) return WICK_OK;
        return wick_fail(ctx, WICK_ECOMPILE,
                         "the C compiler \"%s\" (%s) cannot be run: install it, or name another",
                         out->items[0],
                         options && options->compiler ? "the one asked for" : "from $CC");
    }
    for (int i = 0; i < WICK_COUNT(usual); i++) {
        if (!wick_toolchain_on_path(usual[i])) continue;
        wick_args_add(out, usual[i]);
        return WICK_OK;
    }
    return wick_fail(
        ctx, WICK_ECOMPILE,
        "no C compiler: neither cc nor gcc nor clang is on the PATH; install one (apt install gcc, "
        "dnf install gcc, apk add gcc musl-dev, conda install -c conda-forge gcc) or set CC");
}

static wick_status add_include(wick_ctx *ctx, const wick_build_options *options, wick_args *out)
{
    char *found = NULL;
    if (options && options->include_dir) {
        wick_toolchain_add(WICK_FLAG_INCLUDE, out);
        wick_args_add(out, options->include_dir);
        return WICK_OK;
    }
    WICK_TRY(wick_install_include(ctx, &found));
    wick_toolchain_add(WICK_FLAG_INCLUDE, out);
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
    wick_toolchain_add(options && options->debug ? WICK_FLAG_DEBUG : WICK_FLAG_RELEASE, out);
    wick_toolchain_add(WICK_FLAG_ALWAYS, out);
    WICK_TRY(add_include(ctx, options, out));
    return out->failed ? wick_fail(ctx, WICK_ENOMEM, "out of memory") : WICK_OK;
}

void wick_toolchain_folders(const wick_scan *scan, wick_args *out)
{
    wick_toolchain_add(WICK_FLAG_QUOTE, out);
    wick_args_add(out, scan->folder);
    if (!scan->package_include) return;
    wick_toolchain_add(WICK_FLAG_PACKAGE, out);
    wick_args_add(out, scan->package_include);
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
    wick_flag_use use = !portable                   ? WICK_FLAG_NATIVE
                        : isa == WICK_ISA_X86_64_V3 ? WICK_FLAG_X86_64_V3
                                                    : WICK_FLAG_BASELINE;
    for (int i = 0; i < wick_toolchain_n_flags; i++) {
        if (wick_toolchain_flags[i].use == use) return wick_toolchain_flags[i].flag;
    }
    return NULL;
}
