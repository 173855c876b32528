/* device.c -- a unit's kernels into a cubin or PTX
 *
 * NVRTC has no headers of libc and needs none of them; the few that operators include for their
 * types and limits are given to it from here.
 */
#include "device.h"

#include <string.h>

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
    bool nvcc = wick_nvcc_preferred();
    wick_status status = wick_device_flags(ctx, unit->scan, options, nvcc, &flags);
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

static void add_hash(void *arg, const char *path, const char *bytes, size_t size)
{
    char hex[33];
    wick_hash_hex(wick_hash_bytes(bytes, size), hex);
    wick_text_printf(arg, "%s %s\n", path, hex);
}

void wick_device_mark(wick_text *out, const wick_scan *scan)
{
    char hex[33];
    if (!scan->device_text) return;
    wick_hash_hex(wick_hash_bytes(scan->device_text, strlen(scan->device_text)), hex);
    wick_text_printf(out, "/* kernels: %s */\n", hex);
}

wick_status wick_device_visit(wick_ctx *ctx, const wick_scan *scan,
                              const wick_build_options *options, wick_include_visitor visit,
                              void *arg)
{
    wick_arena arena = {0};
    wick_args flags = {.arena = &arena}, folders = {.arena = &arena};
    wick_status status = wick_device_flags(ctx, scan, options, false, &flags);
    wick_device_folders(&flags, &folders);
    if (status == WICK_OK &&
        (folders.failed || !wick_includes_visit(scan->folder, scan->text, &folders, visit, arg)))
        status = out_of_memory(ctx);
    wick_arena_free(&arena);
    return status;
}

static void add_flags(wick_text *out, const wick_args *flags)
{
    for (int64_t i = 0; i < flags->count; i++)
        wick_text_printf(out, "%s\n", flags->items[i]);
}

wick_status wick_device_identity(wick_ctx *ctx, const wick_unit *unit,
                                 const wick_build_options *options, wick_device_target target,
                                 wick_text *out)
{
    wick_arena arena = {0};
    wick_args flags = {.arena = &arena};
    const char *nvrtc = NULL;
    bool nvcc = wick_nvcc_preferred();
    wick_status status = wick_device_flags(ctx, unit->scan, options, nvcc, &flags);
    if (status == WICK_OK && !nvcc) status = wick_nvrtc_identity(ctx, &nvrtc);
    if (status == WICK_OK) {
        wick_text_printf(out, "device wick %s abi %d sm_%d %s\n%s\n", WICK_VERSION, WICK_ABI,
                         (int)target.arch, target.ptx ? "ptx" : "cubin", nvrtc ? nvrtc : "");
        if (nvcc) wick_nvcc_identity(out);
        add_flags(out, &flags);
        status = wick_device_visit(ctx, unit->scan, options, add_hash, out);
    }
    if (status == WICK_OK) {
        wick_glue_write_device(out, unit);
        if (out->failed) status = out_of_memory(ctx);
    }
    if (status != WICK_OK) wick_ctx_prefix(ctx, "%s:1: ", unit->scan->file);
    wick_arena_free(&arena);
    return status;
}
