/* nvcc.c -- nvcc, where it is asked for instead of NVRTC and for files that launch with <<<>>>
 *
 * Such a file's launchers are C++ to nvcc and come into the module as a unit of their own, with
 * CUDA's runtime linked in statically: the module still needs nothing of CUDA to be loaded.
 */
#include "device.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static wick_status out_of_memory(wick_ctx *ctx)
{
    return wick_fail(ctx, WICK_ENOMEM, "out of memory");
}

static const char *chosen(void)
{
    const char *compiler = getenv("WICK_CUDA_COMPILER");
    return compiler && *compiler ? compiler : NULL;
}

static const char *in_folder(wick_arena *arena, const char *folder)
{
    wick_text path = {0};
    const char *found = NULL;
    if (!folder || !*folder) return NULL;
    wick_text_printf(&path, "%s/bin/nvcc", folder);
    if (!path.failed && access(path.data, X_OK) == 0)
        found = wick_arena_strndup(arena, path.data, path.size);
    wick_text_free(&path);
    return found;
}

const char *wick_nvcc_find(wick_arena *arena)
{
    const char *given = chosen(), *found;
    if (given && strcmp(given, "nvcc") != 0 && strcmp(given, "nvrtc") != 0)
        return wick_toolchain_on_path(given) ? given : NULL;
    found = in_folder(arena, getenv("CUDA_HOME"));
    if (!found) found = in_folder(arena, getenv("CUDA_PATH"));
    if (!found && wick_toolchain_on_path("nvcc")) found = "nvcc";
    return found ? found : in_folder(arena, "/usr/local/cuda");
}

void wick_nvcc_identity(wick_text *out)
{
    static const char *const variables[] = {"NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS",
                                            "NVCC_CCBIN"};
    wick_arena arena = {0};
    const char *path = wick_nvcc_find(&arena);
    if (path) wick_identity_compiler(out, path);
    for (int i = 0; i < WICK_COUNT(variables); i++) {
        const char *value = getenv(variables[i]);
        if (value) wick_text_printf(out, "%s=%s\n", variables[i], value);
    }
    wick_arena_free(&arena);
}

bool wick_nvcc_preferred(void)
{
    const char *given = chosen();
    wick_arena arena = {0};
    bool preferred = given && strcmp(given, "nvrtc") != 0;
    if (!given) {
        wick_ctx own;
        wick_ctx_init(&own, NULL);
        preferred = wick_nvrtc_open(&own) != WICK_OK && wick_nvcc_find(&arena);
        wick_ctx_deinit(&own);
    }
    wick_arena_free(&arena);
    return preferred;
}

static wick_status fail_missing(wick_ctx *ctx, const wick_scan *scan, const char *why)
{
    int64_t line = wick_lex_find(scan->text, scan->text_bytes, "__global__");
    const char *given = chosen();
    if (given && strcmp(given, "nvcc") != 0 && strcmp(given, "nvrtc") != 0)
        return wick_fail(ctx, WICK_ECOMPILE,
                         "%s:%lld: %s needs nvcc, and WICK_CUDA_COMPILER names %s, which cannot be "
                         "run",
                         scan->file, (long long)(line ? line : 1), why, given);
    return wick_fail(
        ctx, WICK_ECOMPILE,
        "%s:%lld: %s needs nvcc, which is neither in $CUDA_HOME/bin nor on the PATH nor "
        "in /usr/local/cuda: install the CUDA toolkit%s",
        scan->file, (long long)(line ? line : 1), why,
        scan->needs_nvcc ? ", or launch with WICK_LAUNCH, which needs only NVRTC" : "");
}

/* ---- a cubin, as NVRTC would make it ---- */

static void add_target(wick_args *argv, wick_device_target target)
{
    wick_text arch = {0};
    wick_text_printf(&arch, "-arch=%s_%d", target.ptx ? "compute" : "sm", (int)target.arch);
    wick_args_add(argv, target.ptx ? "-ptx" : "-cubin");
    wick_args_add(argv, arch.failed ? NULL : wick_arena_strndup(argv->arena, arch.data, arch.size));
    wick_text_free(&arch);
}

static const char *file_in(wick_arena *arena, const char *folder, const char *name)
{
    wick_text path = {0};
    wick_text_printf(&path, "%s/%s", folder, name);
    const char *kept = path.failed ? NULL : wick_arena_strndup(arena, path.data, path.size);
    wick_text_free(&path);
    return kept;
}

static wick_status run(wick_ctx *ctx, const wick_scan *scan, const wick_args *argv,
                       wick_text *warnings)
{
    wick_child child;
    wick_process result = {0};
    WICK_TRY(wick_process_start(ctx, argv->items, &child));
    WICK_TRY(wick_process_finish(ctx, &child, &result));
    wick_status status = WICK_OK;
    if (result.exit_code != 0)
        status = wick_device_diagnose(ctx, scan, wick_text_str(&result.output));
    else
        wick_device_warnings(warnings, wick_text_str(&result.output));
    wick_process_free(&result);
    return status;
}

wick_status wick_nvcc_compile(wick_ctx *ctx, const wick_scan *scan, const char *text,
                              const wick_args *flags, wick_device_target target,
                              wick_text *warnings, char **code, size_t *size)
{
    wick_arena arena = {0};
    wick_args argv = {.arena = &arena};
    const char *nvcc = wick_nvcc_find(&arena);
    char *folder = NULL;
    wick_status status = nvcc ? wick_dir_temporary(ctx, "wick", &folder)
                              : fail_missing(ctx, scan, "WICK_CUDA_COMPILER");
    if (status == WICK_OK) {
        const char *unit = file_in(&arena, folder, "unit.cu");
        const char *made = file_in(&arena, folder, "unit.bin");
        wick_args_add(&argv, nvcc);
        add_target(&argv, target);
        wick_args_all(&argv, flags);
        wick_args_add(&argv, "-o");
        wick_args_add(&argv, made);
        wick_args_add(&argv, unit);
        if (argv.failed) status = out_of_memory(ctx);
        if (status == WICK_OK) status = wick_file_write(ctx, unit, text, strlen(text));
        if (status == WICK_OK) status = run(ctx, scan, &argv, warnings);
        if (status == WICK_OK) status = wick_file_read(ctx, made, code, size);
        if (status == WICK_OK && target.ptx) ++*size; /* with its NUL: the driver reads a string */
    }
    if (folder) wick_dir_remove(folder);
    wick_free(folder);
    wick_arena_free(&arena);
    return status;
}

/* ---- launchers ---- */

static void add_generated(wick_args *out, const wick_archs *archs)
{
    for (int i = 0; i < archs->n + (archs->ptx ? 1 : 0); i++) {
        wick_text flag = {0};
        bool ptx = i == archs->n;
        int arch = (int)(ptx ? archs->ptx : archs->arch[i]);
        wick_text_printf(&flag, "-gencode=arch=compute_%d,code=%s_%d", arch, ptx ? "compute" : "sm",
                         arch);
        wick_args_add(out,
                      flag.failed ? NULL : wick_arena_strndup(out->arena, flag.data, flag.size));
        wick_text_free(&flag);
    }
}

wick_status wick_nvcc_command(wick_ctx *ctx, const wick_scan *scan,
                              const wick_build_options *options, const wick_archs *archs,
                              wick_args *out)
{
    const char *nvcc = wick_nvcc_find(out->arena);
    if (!nvcc) return fail_missing(ctx, scan, "a launch with <<<>>>");
    wick_args_add(out, nvcc);
    wick_toolchain_add(WICK_FLAG_NVCC, out);
    add_generated(out, archs);
    return wick_device_flags(ctx, scan, options, true, out);
}

void wick_nvcc_link_flags(const wick_build_options *options, wick_args *out)
{
    wick_args given = {.arena = out->arena};
    wick_toolchain_user_flags(options, &given);
    for (int64_t i = 0; i < given.count; i++) {
        const char *flag = given.items[i];
        bool folder = !strcmp(flag, "-I") || !strcmp(flag, "-D") || !strcmp(flag, "-iquote") ||
                      !strcmp(flag, "-isystem");
        if (folder) {
            i++;
        } else if (!strncmp(flag, "-Wl,", 4)) {
            wick_args_add(out, "-Xlinker");
            wick_args_add(out, flag + 4);
        } else if (flag[0] != '-' || flag[1] == 'L' || flag[1] == 'l') {
            wick_args_add(out, flag);
        }
    }
}
