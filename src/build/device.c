/* device.c -- a unit's kernels into a cubin or PTX
 *
 * NVRTC has no headers of libc and needs none of them; the few that operators include for their
 * types and limits are given to it from here. Messages are rewritten from nvcc's FILE(LINE): to
 * FILE:LINE:.
 */
#include "device.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

static wick_status out_of_memory(wick_ctx *ctx)
{
    return wick_fail(ctx, WICK_ENOMEM, "out of memory");
}

/* ---- libc, as far as kernels go ---- */

static const wick_nvrtc_header headers[] = {
    {"stdint.h", "#pragma once\n"
                 "typedef signed char int8_t; typedef short int16_t; typedef int int32_t;\n"
                 "typedef long int64_t; typedef unsigned char uint8_t; typedef unsigned short "
                 "uint16_t;\n"
                 "typedef unsigned int uint32_t; typedef unsigned long uint64_t;\n"
                 "typedef unsigned long uintptr_t; typedef long intptr_t;\n"
                 "#define INT8_MIN (-128)\n#define INT8_MAX 127\n#define UINT8_MAX 255\n"
                 "#define INT16_MIN (-32768)\n#define INT16_MAX 32767\n#define UINT16_MAX 65535\n"
                 "#define INT32_MIN (-2147483647 - 1)\n#define INT32_MAX 2147483647\n"
                 "#define UINT32_MAX 4294967295u\n"
                 "#define INT64_MIN (-9223372036854775807l - 1)\n"
                 "#define INT64_MAX 9223372036854775807l\n"
                 "#define UINT64_MAX 18446744073709551615ul\n"},
    {"stdbool.h", "#pragma once\n"},
    {"stddef.h", "#pragma once\ntypedef unsigned long size_t;\ntypedef long ptrdiff_t;\n"
                 "#ifndef NULL\n#define NULL 0\n#endif\n"
                 "#define offsetof(type, member) __builtin_offsetof(type, member)\n"},
    {"stdarg.h", "#pragma once\n"},
    {"string.h", "#pragma once\n"},
    {"assert.h", "#pragma once\n#ifndef assert\n#define assert(truth) ((void)(truth))\n#endif\n"},
    {"float.h", "#pragma once\n#define FLT_MAX 3.402823466e+38f\n#define FLT_MIN 1.175494351e-38f\n"
                "#define FLT_EPSILON 1.192092896e-07f\n#define DBL_MAX 1.7976931348623158e+308\n"
                "#define DBL_MIN 2.2250738585072014e-308\n"
                "#define DBL_EPSILON 2.2204460492503131e-16\n"},
    {"limits.h", "#pragma once\n#define CHAR_BIT 8\n#define INT_MAX 2147483647\n"
                 "#define INT_MIN (-2147483647 - 1)\n#define UINT_MAX 4294967295u\n"
                 "#define LONG_MAX 9223372036854775807l\n#define LLONG_MAX 9223372036854775807ll\n"
                 "#define LLONG_MIN (-9223372036854775807ll - 1)\n"},
    {"math.h",
     "#pragma once\n#define INFINITY __int_as_float(0x7f800000)\n"
     "#define NAN __int_as_float(0x7fffffff)\n#define HUGE_VALF INFINITY\n"
     "#define HUGE_VAL __longlong_as_double(0x7ff0000000000000)\n"
     "#define M_PI 3.14159265358979323846\n#define M_E 2.71828182845904523536\n"
     "#define M_SQRT2 1.41421356237309504880\n#define M_LN2 0.69314718055994530942\n"
     "#define M_SQRT1_2 0.70710678118654752440\n#define M_2_SQRTPI 1.12837916709551257390\n"},
};

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
    *out = (wick_archs){.n = 1, .arch = {arch > 0 ? arch : 80}, .ptx = arch == 0};
    wick_arena_free(&arena);
    return buildable;
}

/* Macros and folders of the person's flags are for both compilers; the others are the C compiler's
 * own. */
static void add_user_flags(const wick_build_options *options, wick_args *out)
{
    wick_args given = {.arena = out->arena};
    wick_toolchain_user_flags(options, &given);
    for (int64_t i = 0; i < given.count; i++) {
        const char *flag = given.items[i];
        if (flag[0] != '-' || !flag[1] || !strchr("DUI", flag[1])) continue;
        wick_args_add(out, flag);
        if (!flag[2] && i + 1 < given.count) wick_args_add(out, given.items[++i]);
    }
}

static const char *folder_flag(wick_arena *arena, const char *folder)
{
    wick_text flag = {0};
    wick_text_printf(&flag, "-I%s", folder);
    const char *kept = flag.failed ? NULL : wick_arena_strndup(arena, flag.data, flag.size);
    wick_text_free(&flag);
    return kept;
}

static wick_status find_include(wick_ctx *ctx, const wick_build_options *options, wick_arena *arena,
                                const char **out)
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

static wick_status add_flags(wick_ctx *ctx, const wick_scan *scan,
                             const wick_build_options *options, wick_args *out)
{
    const char *include = NULL;
    WICK_TRY(find_include(ctx, options, out->arena, &include));
    wick_toolchain_add(WICK_FLAG_DEVICE, out);
    if (options && options->debug) wick_toolchain_add(WICK_FLAG_DEVICE_DEBUG, out);
    if (scan->fast_math) wick_toolchain_add(WICK_FLAG_FAST_MATH, out);
    wick_args_add(out, folder_flag(out->arena, include));
    wick_args_add(out, folder_flag(out->arena, *scan->folder ? scan->folder : "."));
    add_user_flags(options, out);
    return out->failed ? out_of_memory(ctx) : WICK_OK;
}

/* ---- the compiler's words ---- */

/* FILE(LINE): words, in the line that begins at `at`; NULL: it has no such place. */
static const char *place_of(const char *at, const char **open, long *line)
{
    size_t n = strcspn(at, "\n");
    for (const char *close = at; (close = memchr(close, ')', n - (size_t)(close - at))) != NULL;
         close++) {
        const char *digit = close;
        if (strncmp(close, "): ", 3) != 0) continue;
        while (digit > at && digit[-1] >= '0' && digit[-1] <= '9')
            digit--;
        if (digit == close || digit == at || digit[-1] != '(') continue;
        *open = digit - 1;
        *line = strtol(digit, NULL, 10);
        return close + 3;
    }
    return NULL;
}

static bool is_error(const char *words)
{
    return !strncmp(words, "error", 5) || !strncmp(words, "catastrophic error", 18);
}

/* Up to the blank line that ends a message. */
static size_t message_size(const char *at)
{
    const char *end = strstr(at, "\n\n");
    return end ? (size_t)(end - at) : strlen(at);
}

wick_status wick_device_diagnose(wick_ctx *ctx, const wick_scan *scan, const char *log)
{
    for (const char *at = log; *at; at += strcspn(at, "\n"), at += *at == '\n') {
        const char *open, *words;
        long line;
        words = place_of(at, &open, &line);
        if (!words || !is_error(words)) continue;
        size_t path = (size_t)(open - at);
        bool own = path == strlen(scan->file) && memcmp(at, scan->file, path) == 0;
        if (own)
            return wick_fail(ctx, WICK_ECOMPILE, "%s:%ld: %.*s", scan->file, line,
                             (int)message_size(words), words);
        return wick_fail(ctx, WICK_ECOMPILE, "%s:1: %.*s:%ld: %.*s", scan->file, (int)path, at,
                         line, (int)message_size(words), words);
    }
    return wick_fail(ctx, WICK_ECOMPILE, "%s:1: the device code does not compile: %s", scan->file,
                     *log ? log : "the compiler gave no reason");
}

void wick_device_warnings(wick_text *out, const char *log)
{
    for (const char *at = log; out && *at; at += strcspn(at, "\n"), at += *at == '\n') {
        const char *open, *words;
        long line;
        words = place_of(at, &open, &line);
        if (!words || strncmp(words, "warning", 7) != 0) continue;
        wick_text message = {0};
        wick_text_printf(&message, "%.*s:%ld: %.*s\n", (int)(open - at), at, line,
                         (int)message_size(words), words);
        if (!strstr(wick_text_str(out), wick_text_str(&message)))
            wick_text_add(out, wick_text_str(&message));
        wick_text_free(&message);
    }
}

/* ---- compiling ---- */

static wick_status run_nvrtc(wick_ctx *ctx, const wick_scan *scan, const char *text,
                             const wick_args *flags, wick_device_target target, wick_text *warnings,
                             char **code, size_t *size)
{
    wick_nvrtc_job job = {scan->file,   text,        headers,   WICK_COUNT(headers),
                          flags->items, target.arch, target.ptx};
    char *log = NULL;
    wick_status status = wick_nvrtc_compile(ctx, &job, code, size, &log);
    if (status == WICK_ECOMPILE && log && *log) {
        wick_ctx_clear(ctx);
        status = wick_device_diagnose(ctx, scan, log);
    } else if (status == WICK_OK && log) {
        wick_device_warnings(warnings, log);
    } else if (status != WICK_OK) {
        wick_ctx_prefix(ctx, "%s:1: ", scan->file);
    }
    wick_free(log);
    return status;
}

wick_status wick_device_compile(wick_ctx *ctx, const wick_unit *unit,
                                const wick_build_options *options, wick_device_target target,
                                wick_text *warnings, char **code, size_t *size)
{
    wick_arena arena = {0};
    wick_args flags = {.arena = &arena};
    wick_text text = {0};
    bool nvcc = wick_nvcc_preferred(ctx);
    if (!nvcc) wick_toolchain_add(WICK_FLAG_NVRTC, &flags);
    wick_status status = add_flags(ctx, unit->scan, options, &flags);
    if (status == WICK_OK) {
        wick_glue_write_device(&text, unit);
        if (text.failed) status = out_of_memory(ctx);
    }
    if (status == WICK_OK && nvcc)
        status =
            wick_nvcc_compile(ctx, unit->scan, text.data, &flags, target, warnings, code, size);
    else if (status == WICK_OK)
        status = run_nvrtc(ctx, unit->scan, text.data, &flags, target, warnings, code, size);
    wick_text_free(&text);
    wick_arena_free(&arena);
    return status;
}

/* ---- what a result depends on ---- */

void wick_device_includes(const char *folder, const char *text, wick_device_include each, void *arg,
                          int depth)
{
    enum { DEEPEST = 16 };
    for (const char *at = text; depth < DEEPEST && (at = strstr(at, "#include")) != NULL; at++) {
        const char *open = at + strlen("#include");
        open += strspn(open, " \t");
        if (*open != '"') continue;
        size_t n = strcspn(++open, "\"\n"), size = 0;
        wick_text path = {0};
        char *bytes = NULL;
        wick_ctx own;
        wick_ctx_init(&own, NULL);
        wick_text_printf(&path, "%s%.*s", *open == '/' ? "" : folder, (int)n, open);
        if (wick_file_read(&own, wick_text_str(&path), &bytes, &size) == WICK_OK) {
            each(arg, wick_text_str(&path), bytes, size);
            wick_device_includes(folder, bytes, each, arg, depth + 1);
        }
        wick_free(bytes);
        wick_text_free(&path);
        wick_ctx_deinit(&own);
    }
}

static void add_hash(void *arg, const char *path, const char *bytes, size_t size)
{
    char hex[33];
    wick_hash_hex(wick_hash_bytes(bytes, size), hex);
    wick_text_printf(arg, "%s %s\n", path, hex);
}

static void add_included(wick_text *out, const char *folder, const char *text)
{
    wick_device_includes(folder, text, add_hash, out, 0);
}

void wick_device_mark(wick_text *out, const wick_scan *scan)
{
    wick_text all = {0};
    char hex[33];
    if (!scan->device_text) return;
    wick_text_add(&all, scan->device_text);
    add_included(&all, scan->folder, scan->device_text);
    out->failed = out->failed || all.failed;
    wick_hash_hex(wick_hash_bytes(wick_text_str(&all), all.size), hex);
    wick_text_printf(out, "/* kernels: %s */\n", hex);
    wick_text_free(&all);
}

static void add_own_headers(wick_text *out, const char *include)
{
    static const char *const names[] = {"op.h",     "device.h", "element.h", "half.h",
                                        "launch.h", "types.h",  "view.h"};
    for (int i = 0; i < WICK_COUNT(names); i++) {
        wick_text line = {0};
        wick_text_printf(&line, "#include \"wick/%s\"\n", names[i]);
        wick_text folder = {0};
        wick_text_printf(&folder, "%s/", include);
        add_included(out, wick_text_str(&folder), wick_text_str(&line));
        wick_text_free(&line);
        wick_text_free(&folder);
    }
}

wick_status wick_device_identity(wick_ctx *ctx, const wick_unit *unit,
                                 const wick_build_options *options, wick_device_target target,
                                 wick_text *out)
{
    wick_arena arena = {0};
    wick_args flags = {.arena = &arena};
    const char *compiler = NULL, *include = NULL;
    bool nvcc = wick_nvcc_preferred(ctx);
    wick_status status = add_flags(ctx, unit->scan, options, &flags);
    if (status == WICK_OK) status = find_include(ctx, options, &arena, &include);
    if (status == WICK_OK && !nvcc) status = wick_nvrtc_identity(ctx, &compiler);
    if (status == WICK_OK) {
        const char *path = nvcc ? wick_nvcc_find(&arena) : NULL;
        wick_text_printf(out, "device wick %s abi %d sm_%d %s\n%s\n", WICK_VERSION, WICK_ABI,
                         (int)target.arch, target.ptx ? "ptx" : "cubin", compiler ? compiler : "");
        if (path) wick_identity_compiler(out, path);
        for (int64_t i = 0; i < flags.count; i++)
            wick_text_printf(out, "%s\n", flags.items[i]);
        add_own_headers(out, include);
        add_included(out, unit->scan->folder, unit->scan->device_text);
        wick_glue_write_device(out, unit);
        if (out->failed) status = out_of_memory(ctx);
    } else {
        wick_ctx_prefix(ctx, "%s:1: ", unit->scan->file);
    }
    wick_arena_free(&arena);
    return status;
}
