/* device_flags.c -- for which GPUs kernels are compiled, and with which flags
 *
 * A person's flags for the C compiler hold for kernels as far as they are macros and folders; those
 * for the device compiler are written for nvcc, and what NVRTC has no use for (a host compiler's
 * settings) is left out there. Which GPU it is for is Wick's to say.
 */
#include "device.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static wick_status out_of_memory(wick_ctx *ctx)
{
    return wick_fail(ctx, WICK_ENOMEM, "out of memory");
}

/* ---- settings ---- */

bool wick_device_wanted(const wick_build_options *options)
{
    static const char *const no[] = {"0", "off", "no", "false", "n"};
    const char *use = getenv("USE_CUDA");
    if (options && options->no_cuda) return false;
    for (int i = 0; use && i < WICK_COUNT(no); i++)
        if (strcasecmp(use, no[i]) == 0) return false;
    return true;
}

wick_status wick_device_archs(wick_ctx *ctx, const wick_build_options *options, wick_archs *out)
{
    static const char *const variables[] = {"WICK_CUDA_ARCHS", "GPU_TARGETS"};
    if (options && options->archs) return wick_archs_parse(ctx, "--arch", options->archs, out);
    for (int i = 0; i < WICK_COUNT(variables); i++) {
        const char *value = getenv(variables[i]);
        if (value && *value) return wick_archs_parse(ctx, variables[i], value, out);
    }
    *out = wick_archs_default();
    return WICK_OK;
}

bool wick_device_at_hand(wick_archs *out)
{
    wick_arena arena = {0};
    int32_t arch = wick_cuda_likely_arch();
    bool buildable = arch > 0 || wick_nvcc_find(&arena);
    *out = (wick_archs){.n = 1, .arch = {arch > 0 ? arch : 80}, .ptx = arch > 0 ? 0 : 80};
    wick_arena_free(&arena);
    return buildable;
}

/* ---- the person's flags ---- */

static const char *join(wick_arena *arena, const char *a, const char *b)
{
    wick_text text = {0};
    wick_text_printf(&text, "%s%s", a, b);
    const char *kept = text.failed ? NULL : wick_arena_strndup(arena, text.data, text.size);
    wick_text_free(&text);
    return kept;
}

static bool begins(const char *s, const char *with) { return !strncmp(s, with, strlen(with)); }

/* Of the C compiler's flags: -DX, -D X, -UX, -IX; -iquote X and -isystem X as -IX. */
static void add_c_flags(const wick_build_options *options, wick_args *out)
{
    static const char *const folders[] = {"-iquote", "-isystem", "-idirafter"};
    wick_args given = {.arena = out->arena};
    wick_toolchain_user_flags(options, &given);
    for (int64_t i = 0; i < given.count; i++) {
        const char *flag = given.items[i];
        const char *next = i + 1 < given.count ? given.items[i + 1] : NULL;
        for (int k = 0; k < WICK_COUNT(folders); k++)
            if (next && !strcmp(flag, folders[k])) wick_args_add(out, join(out->arena, "-I", next));
        if (flag[0] != '-' || !flag[1] || !strchr("DUI", flag[1])) continue;
        wick_args_add(out, !flag[2] && next ? join(out->arena, flag, next) : flag);
    }
}

typedef struct refused {
    const char *flag;
    bool alone;      /* the whole of it, not the beginning */
    bool with_value; /* a flag of these words is followed by its value */
    bool for_nvcc;   /* not given to nvcc either */
} refused;

/* What nvcc takes and NVRTC does not, and what is Wick's own to say. */
static const refused refusals[] = {
    {"-gencode", false, true, true},
    {"--generate-code", false, true, true},
    {"-arch", false, true, true},
    {"--gpu-architecture", false, true, true},
    {"-code", false, true, true},
    {"--gpu-code", false, true, true},
    {"-c", true, false, true},
    {"-O", false, false, false},
    {"--optimize", false, true, false},
    {"-Xcompiler", false, true, false},
    {"--compiler-options", false, true, false},
    {"-Xlinker", false, true, false},
    {"--linker-options", false, true, false},
    {"-ccbin", false, true, false},
    {"--compiler-bindir", false, true, false},
    {"-allow-unsupported-compiler", true, false, false},
    {"--allow-unsupported-compiler", true, false, false},
    {"-t", false, true, false},
    {"--threads", false, true, false},
    {"--expt-relaxed-constexpr", true, false, false},
    {"-expt-relaxed-constexpr", true, false, false},
    {"--expt-extended-lambda", true, false, false},
    {"-expt-extended-lambda", true, false, false},
    {"--extended-lambda", true, false, false},
    {"-extended-lambda", true, false, false},
};

static const refused *refusal_of(const char *flag)
{
    for (int i = 0; i < WICK_COUNT(refusals); i++) {
        const refused *r = &refusals[i];
        if (!begins(flag, r->flag)) continue;
        char next = flag[strlen(r->flag)]; /* -O3, -gencode=..., but not -time for -t */
        if (!next || (!r->alone && (next == '=' || isdigit((unsigned char)next)))) return r;
    }
    return NULL;
}

void wick_device_user_flags(const wick_build_options *options, bool nvcc, wick_args *out)
{
    const char *const *flags = options ? options->cuda_flags : NULL;
    for (; flags && *flags; flags++) {
        const refused *r = refusal_of(*flags);
        if (!r || (nvcc && !r->for_nvcc))
            wick_args_add(out, *flags);
        else if (r->with_value && !strcmp(*flags, r->flag) && flags[1])
            flags++;
    }
}

/* ---- all flags ---- */

wick_status wick_device_include_dir(wick_ctx *ctx, const wick_build_options *options,
                                    wick_arena *arena, const char **out)
{
    char *found = NULL;
    if (options && options->include_dir) {
        *out = options->include_dir;
        return WICK_OK;
    }
    WICK_TRY(wick_install_include(ctx, &found));
    *out = wick_arena_strndup(arena, found, strlen(found));
    wick_free(found);
    return *out ? WICK_OK : out_of_memory(ctx);
}

static bool try_headers(wick_args *out, const char *root, const char *inside)
{
    const char *folder = root && *root ? join(out->arena, root, inside) : NULL;
    const char *probe = folder ? join(out->arena, folder, "/cuda_fp16.h") : NULL;
    if (!probe || !wick_file_exists(probe)) return false;
    wick_args_add(out, join(out->arena, "-I", folder));
    const char *cccl = join(out->arena, folder, "/cccl"); /* cub and libcu++ of CUDA 13 */
    if (cccl && wick_file_exists(cccl)) wick_args_add(out, join(out->arena, "-I", cccl));
    return true;
}

/* CUDA's own headers, for the files that include some: beside NVRTC, in its wheels or its toolkit;
 * then wherever CUDA is. */
static void add_cuda_headers(wick_ctx *ctx, wick_args *out)
{
    static const char *const beside[] = {"/../include", "/../../include",
                                         "/../../cuda_runtime/include"};
    const char *folder = NULL;
    bool found = false;
    if (wick_nvrtc_folder(ctx, &folder) != WICK_OK) wick_ctx_clear(ctx);
    for (int i = 0; i < WICK_COUNT(beside) && !found; i++)
        found = try_headers(out, folder, beside[i]);
    if (!found) found = try_headers(out, getenv("CUDA_HOME"), "/include");
    if (!found) found = try_headers(out, getenv("CUDA_PATH"), "/include");
    if (!found) try_headers(out, "/usr/local/cuda", "/include");
}

wick_status wick_device_flags(wick_ctx *ctx, const wick_scan *scan,
                              const wick_build_options *options, bool nvcc, wick_args *out)
{
    const char *include = NULL;
    WICK_TRY(wick_device_include_dir(ctx, options, out->arena, &include));
    if (!nvcc) wick_toolchain_add(WICK_FLAG_NVRTC, out);
    wick_toolchain_add(WICK_FLAG_DEVICE, out);
    if (options && options->debug) wick_toolchain_add(WICK_FLAG_DEVICE_DEBUG, out);
    if (scan->fast_math) wick_toolchain_add(WICK_FLAG_FAST_MATH, out);
    wick_args_add(out, join(out->arena, "-I", include));
    wick_args_add(out, join(out->arena, "-I", *scan->folder ? scan->folder : "."));
    if (scan->package_include) wick_args_add(out, join(out->arena, "-I", scan->package_include));
    add_c_flags(options, out);
    if (!nvcc && scan->needs_cuda_headers) add_cuda_headers(ctx, out);
    wick_device_user_flags(options, nvcc, out);
    return out->failed ? out_of_memory(ctx) : WICK_OK;
}

void wick_device_folders(const wick_args *flags, wick_args *out)
{
    for (int64_t i = 0; i < flags->count; i++) {
        const char *flag = flags->items[i];
        if (!begins(flag, "-I")) continue;
        wick_args_add(out, flag[2] || i + 1 == flags->count ? flag + 2 : flags->items[i + 1]);
    }
}
