/* test_embed.c -- device code by NVRTC: out of the cache, and inside of a module
 *
 * Needs NVRTC, which runs without a GPU; without it these tests are skipped, and say so.
 */
#define _GNU_SOURCE 1
#include "support.h"

#include "device.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

static char *folder;
static wick_ctx ctx;

static void setup(void)
{
    unsetenv("WICK_CUDA_ARCHS");
    unsetenv("WICK_CUDA_COMPILER");
    unsetenv("USE_CUDA");
    if (!getenv("WICK_NVRTC") && *WICK_TEST_NVRTC) setenv("WICK_NVRTC", WICK_TEST_NVRTC, 1);
    folder = enter_folder();
    wick_ctx_init(&ctx, NULL);
}

static void teardown(void)
{
    wick_ctx_deinit(&ctx);
    leave_folder(folder);
}

TestSuite(embed, .init = setup, .fini = teardown);

static void need_nvrtc(void)
{
    if (wick_nvrtc_open(&ctx) != WICK_OK) cr_skip_test("there is no NVRTC here");
}

#define CUDA                                                                                       \
    "static __global__ void k(const T *x, T *y, int64_t N)\n"                                      \
    "{\n    int64_t i = wick_thread();\n    if (i < N) y[i] = wick_T(wick_A(x[i]) + 1);\n}\n"      \
    "WICK_IMPL wick_status f_cuda(wick_ctx *ctx, const T *x, T *y, int64_t N)\n"                   \
    "{\n    return WICK_LAUNCH(ctx, k, wick_1d(wick_ceil_div(N, 256)), wick_1d(256), 0, x, y, "    \
    "N);\n}\n"

/* ---- the cache ---- */

static int compilations;

static void count(void *arg, const char *file, const char *what)
{
    (void)arg, (void)file;
    cr_expect_str_eq(what, "sm_80");
    compilations++;
}

static wick_status cached(const char *text, const wick_build_options *options, wick_text *warnings)
{
    static const wick_build_watch watch = {.started = count};
    static const wick_dtype types[WICK_MAX_VARIABLES] = {WICK_F32};
    wick_source source = {"op.c", text};
    wick_scan scan;
    char *code = NULL;
    size_t size = 0;
    cr_assert_eq(wick_scan_source(&ctx, &source, &scan), WICK_OK, "%s", wick_ctx_message(&ctx));
    wick_status status =
        wick_device_cached(&ctx, &scan, types, options, 80, &watch, warnings, &code, &size);
    if (status == WICK_OK) cr_expect(size > 4 && !memcmp(code, "\177ELF", 4));
    wick_free(code);
    wick_scan_free(&scan);
    return status;
}

Test(embed, a_cubin_is_compiled_once)
{
    wick_build_options options = plain_options(NULL);
    wick_text warnings = {0};
    need_nvrtc();
    options.cache_dir = "cache";
    for (int i = 0; i < 3; i++)
        cr_assert_eq(cached(HEAD BODY CUDA, &options, &warnings), WICK_OK, "%s",
                     wick_ctx_message(&ctx));
    cr_expect_eq(compilations, 1);
    cr_expect_eq(cached(HEAD BODY "/* later */\n" CUDA, &options, &warnings), WICK_OK);
    cr_expect_eq(compilations, 2, "the lines of its messages are others");
    options.debug = true;
    cr_expect_eq(cached(HEAD BODY CUDA, &options, &warnings), WICK_OK);
    cr_expect_eq(compilations, 3);
    cr_expect_eq(warnings.size, 0, "%s", wick_text_str(&warnings));
    wick_text_free(&warnings);
}

Test(embed, what_does_not_compile_is_told_at_its_line)
{
    wick_build_options options = plain_options(NULL);
    wick_text warnings = {0};
    need_nvrtc();
    options.cache_dir = "cache";
    cr_expect_eq(cached(HEAD BODY "static __global__ void k(float *x)\n{\n    x[0] = y;\n}\n",
                        &options, &warnings),
                 WICK_ECOMPILE);
    cr_expect(!strncmp(wick_ctx_message(&ctx), "op.c:11: error: identifier \"y\" is undefined", 42),
              "%s", wick_ctx_message(&ctx));
    wick_ctx_clear(&ctx);
    cr_expect_eq(cached(HEAD BODY "static __global__ void k(int *x)\n{\n    x[0] = 1 / 0;\n}\n",
                        &options, &warnings),
                 WICK_OK);
    cr_expect(!strncmp(wick_text_str(&warnings), "op.c:11: warning #39-D: division by zero", 40),
              "%s", wick_text_str(&warnings));
    wick_text_free(&warnings);
}

/* ---- a module ---- */

/* The table of a module built from `text`; the library stays open. */
static const wick_module_table *build(const char *text, const wick_build_options *options)
{
    wick_source source = {"op.c", text};
    char *warnings = NULL;
    wick_status status = wick_build_module(&ctx, &source, 1, options, "./op.so", &warnings);
    cr_assert_eq(status, WICK_OK, "%s", wick_ctx_message(&ctx));
    cr_expect_null(warnings, "%s", warnings);
    wick_string_free(warnings);
    void *library = dlopen("./op.so", RTLD_NOW | RTLD_LOCAL);
    cr_assert_not_null(library, "%s", dlerror());
    return dlsym(library, WICK_MODULE_SYMBOL);
}

static const wick_variant *variant(const wick_module_table *table, wick_dtype type, int isa)
{
    const wick_op_entry *op = &table->ops[0];
    for (int64_t i = 0; i < op->n_variants; i++)
        if (op->variants[i]->types[0] == type && op->variants[i]->isa == isa)
            return op->variants[i];
    cr_assert_fail("there is no such variant");
    return NULL;
}

Test(embed, a_module_holds_code_for_every_gpu_asked_for)
{
    wick_build_options options = plain_options(NULL);
    need_nvrtc();
    options.archs = "sm_80,sm_90";
    options.portable = true;
    const wick_module_table *table = build(HEAD BODY CUDA, &options);
    const wick_variant *f32 = variant(table, WICK_F32, 0), *f64 = variant(table, WICK_F64, 0);
    cr_assert_not_null(f32->device);
    cr_expect(f32->cpu && f32->cuda);
    cr_assert_eq(f32->device->n_code, 3);
    for (int i = 0; i < 3; i++) {
        const wick_device_code *c = &f32->device->code[i];
        static const int archs[] = {80, 90, 90};
        cr_expect_eq(c->arch, archs[i]);
        cr_expect_eq(c->is_ptx, i == 2);
        cr_expect_eq((uintptr_t)c->data % 16, 0);
        cr_expect_eq(memcmp(c->data, i == 2 ? "//\n// Ge" : "\177ELF", 4), 0);
        cr_expect_neq(c->data, f64->device->code[i].data);
    }
    const wick_device_code *ptx = &f32->device->code[2];
    cr_expect_eq(((const char *)ptx->data)[ptx->size - 1], '\0', "the driver reads it as a string");
    cr_expect(strstr(ptx->data, ".entry k("), "the kernel has C's name");
    cr_expect(f32->device->launch == NULL && f32->device->resolve == NULL, "the host fills these");
#if defined(__x86_64__)
    const wick_variant *v3 = variant(table, WICK_F32, 3);
    cr_expect_eq(v3->device->code[0].data, f32->device->code[0].data, "levels of CPUs share it");
    cr_expect_neq(v3->device, f32->device);
#endif
}

Test(embed, without_cuda_there_is_none_of_it)
{
    wick_build_options options = plain_options(NULL);
    for (int i = 0; i < 2; i++) {
        options.no_cuda = i == 0;
        if (i == 1) setenv("USE_CUDA", "0", 1);
        setenv("WICK_NVRTC", "/nowhere/libnvrtc.so", 1);
        const wick_variant *v = variant(build(HEAD BODY CUDA, &options), WICK_F32, 0);
        cr_expect(v->cpu && !v->cuda && !v->device);
    }
}

Test(embed, a_module_without_nvrtc_and_nvcc_says_what_is_missing)
{
    wick_build_options options = plain_options(NULL);
    setenv("WICK_NVRTC", "/nowhere/libnvrtc.so", 1);
    setenv("WICK_CUDA_COMPILER", "nvrtc", 1);
    char *message = build_message("op.c", HEAD BODY CUDA, &options);
    cr_expect(strstr(message, "op.c:1: WICK_NVRTC names no NVRTC"), "%s", message);
    free(message);
    message = build_message("op.c", HEAD BODY, &options);
    cr_expect_str_eq(message, "", "a file without kernels needs neither");
    free(message);
}

Test(embed, one_type_or_gpu_that_does_not_compile_fails_the_module)
{
    wick_build_options options = plain_options(NULL);
    need_nvrtc();
    options.archs = "sm_80,sm_90";
    char *message = build_message(
        "op.c", HEAD BODY CUDA "#if WICK_T == 4\n__device__ int bad = nothing;\n#endif\n",
        &options);
    cr_expect(strstr(message, "op.c:19: error: identifier \"nothing\" is undefined"), "%s",
              message);
    free(message);
    options.archs = "sm_80,sm_35";
    message = build_message("op.c", HEAD BODY CUDA, &options);
    cr_expect(strstr(message, "op.c:1: sm_35 is too old for NVRTC"), "%s", message);
    free(message);
}

Test(embed, plain_helpers_restrict_and_headers_reach_kernels)
{
    wick_build_options options = plain_options(NULL);
    need_nvrtc();
    options.archs = "sm_80-PTX";
    write_text("gates.h", "static inline float gate(float x) { return x * x; }\n");
    build(
        "#include <stdlib.h>\n#include \"gates.h\"\n" HEAD BODY
        "static const float alpha = 2, beta[2] = {1, 2};\n"
        "#define MIX(v) (helper(&(v)) * beta[1])\n"
        "static float helper(const float *restrict v) { return gate(*v) + alpha; }\n"
        "_Static_assert(sizeof(float) == 4, \"float\");\n"
        "#define KERNEL static __global__ void __launch_bounds__(64)\n"
        "KERNEL g(const float4 *x, float *y) { float v = x->w; y[0] = MIX(v); }\n" CUDA
        "static wick_status start(wick_ctx *ctx, float *y)\n"
        "{ float4 *v = malloc(16); free(v); return WICK_LAUNCH(ctx, g, wick_1d(1), wick_1d(1), 0, "
        "v, y); }\n",
        &options);
}
