/* support.c -- sources, folders and messages for the tests of src/build */
#define _GNU_SOURCE 1
#include "support.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *const all_kinds =
    "/* kinds -- one of each */\n"
    "#include <wick/op.h>\n"
    "WICK_NAMESPACE(acme);\n"
    "WICK_OP(pool, \"x: strided T[B, S], idx: U[S], w?: A[S], mode: 'sum'|'mean', k: int, p: float "
    "= 0.5\"\n"
    "    \" -> y: T[B, k], m?: u8[B] scratch tmp: f32[S] where T: f16 f32, U: i32 i64\");\n"
    "WICK_OP(pick, \"x: T[N], mode: 'mean'|'max'|'sum', flag: bool, s: str -> y: T[N]\");\n"
    "WICK_OP(bump, \"x!: T[*N], g: shape[*N] -> ()\");\n"
    "WICK_OP(count, \"a: int -> b: int, c: float, d: bool\");\n"
    "WICK_IMPL wick_status pool_cpu(wick_ctx *ctx, const wick_view *x, const U *idx, const A *w, "
    "int mode,\n"
    "                               int64_t k, double p, T *y, uint8_t *m, float *tmp, int64_t B, "
    "int64_t S)\n"
    "{\n"
    "    (void)ctx, (void)x, (void)idx, (void)w, (void)y, (void)m, (void)tmp;\n"
    "    return k == 7 && p == 0.5 && B == 2 && S == 3 && mode == WICK_mode_mean ? WICK_OK : "
    "WICK_EINVAL;\n"
    "}\n"
    "WICK_IMPL wick_status pick_cpu(wick_ctx *ctx, const T *x, int mode, bool flag, const char *s, "
    "T *y, int64_t N)\n"
    "{\n"
    "    (void)ctx, (void)N, (void)flag, (void)s;\n"
    "    *y = *x;\n"
    "    return mode == WICK_mode_sum ? WICK_OK : mode == WICK_mode_mean ? WICK_EINVAL : "
    "WICK_ENOTSUP;\n"
    "}\n"
    "WICK_IMPL wick_status bump_cpu(wick_ctx *ctx, T *x, int64_t N)\n"
    "{\n"
    "    (void)ctx;\n"
    "    for (int64_t i = 0; i < N; i++) x[i] = wick_T(wick_A(x[i]) + 1);\n"
    "    return WICK_OK;\n"
    "}\n"
    "WICK_IMPL wick_status count_cpu(wick_ctx *ctx, int64_t a, int64_t *b, double *c, bool *d)\n"
    "{\n"
    "    (void)ctx;\n"
    "    *b = a + 1, *c = 0.5, *d = true;\n"
    "    return WICK_OK;\n"
    "}\n";

wick_build_options plain_options(const char *compiler)
{
    wick_build_options options = {.compiler = compiler, .include_dir = WICK_TEST_ROOT "/include"};
    return options;
}

char *enter_folder(void)
{
    wick_ctx ctx;
    char *folder = NULL;
    wick_ctx_init(&ctx, NULL);
    cr_assert_eq(wick_dir_temporary(&ctx, "wick-test", &folder), WICK_OK);
    wick_ctx_deinit(&ctx);
    cr_assert_eq(chdir(folder), 0);
    return folder;
}

void leave_folder(char *folder)
{
    cr_assert_eq(chdir("/"), 0);
    wick_dir_remove(folder);
    wick_free(folder);
}

void write_text(const char *path, const char *text)
{
    wick_ctx ctx;
    wick_ctx_init(&ctx, NULL);
    cr_assert_eq(wick_file_write(&ctx, path, text, strlen(text)), WICK_OK, "%s",
                 wick_ctx_message(&ctx));
    wick_ctx_deinit(&ctx);
}

char *scan_message(const char *text)
{
    wick_ctx ctx;
    wick_scan scan;
    wick_source source = {"op.c", text};
    char *message;
    wick_status status;
    wick_ctx_init(&ctx, NULL);
    status = wick_scan_source(&ctx, &source, &scan);
    cr_assert_eq(status != WICK_OK, wick_ctx_message(&ctx)[0] != '\0');
    message = strdup(wick_ctx_message(&ctx));
    wick_scan_free(&scan);
    wick_ctx_deinit(&ctx);
    return message;
}

char *build_message(const char *path, const char *text, const wick_build_options *options)
{
    wick_ctx ctx;
    wick_source source = {path, text};
    char *message;
    wick_ctx_init(&ctx, NULL);
    wick_build_module(&ctx, &source, 1, options, "out.so", NULL);
    message = strdup(wick_ctx_message(&ctx));
    wick_ctx_deinit(&ctx);
    return message;
}
