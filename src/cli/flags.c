/* flags.c -- `wick show --flags`: what the compiler is told, why, and what it comes to here */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

typedef struct section {
    const char *title;
    wick_flag_use first, last;
} section;

/* By the order of wick_flag_use. */
static const section sections[] = {
    {"always", WICK_FLAG_ALWAYS, WICK_FLAG_ALWAYS},
    {"without --debug", WICK_FLAG_RELEASE, WICK_FLAG_RELEASE},
    {"with --debug (or DEBUG=1)", WICK_FLAG_DEBUG, WICK_FLAG_DEBUG},
    {"with --sanitize, after all others", WICK_FLAG_SANITIZE, WICK_FLAG_SANITIZE},
    {"the CPU", WICK_FLAG_NATIVE, WICK_FLAG_X86_64_V3},
    {"files", WICK_FLAG_INCLUDE, WICK_FLAG_OUTPUT},
    {"linking", WICK_FLAG_LINK, WICK_FLAG_LIBRARY},
    {"kernels, by NVRTC or nvcc", WICK_FLAG_DEVICE, WICK_FLAG_DEVICE},
    {"kernels, by NVRTC", WICK_FLAG_NVRTC, WICK_FLAG_NVRTC},
    {"kernels, with --debug", WICK_FLAG_DEVICE_DEBUG, WICK_FLAG_DEVICE_DEBUG},
    {"kernels, where the file says WICK_FAST_MATH;", WICK_FLAG_FAST_MATH, WICK_FLAG_FAST_MATH},
    {"files that launch with <<<>>>, by nvcc", WICK_FLAG_NVCC, WICK_FLAG_NVCC_LINK},
};

static void print_section(const section *s)
{
    printf("\n%s\n", s->title);
    for (int i = 0; i < wick_toolchain_n_flags; i++) {
        const wick_flag *f = &wick_toolchain_flags[i];
        char left[64];
        if (f->use < s->first || f->use > s->last) continue;
        snprintf(left, sizeof left, "%s%s%s", f->flag, f->value ? " " : "",
                 f->value ? f->value : "");
        printf("  %-40s %s\n", left, f->why);
    }
}

/* ---- this machine ---- */

static void print_first_line(const char *text)
{
    char line[256];
    snprintf(line, sizeof line, "%.*s", (int)strcspn(text, "\n"), text);
    cli_put_name(stdout, line);
    puts("");
}

static void print_version(const wick_args *compiler)
{
    wick_ctx ctx;
    wick_process said = {0};
    const char *argv[] = {compiler->items[0], "--version", NULL};
    wick_ctx_init(&ctx, NULL);
    printf("compiler  ");
    cli_put_name(stdout, compiler->items[0]);
    printf("\nversion   ");
    if (wick_process_run(&ctx, argv, &said) == WICK_OK && said.exit_code == 0) {
        print_first_line(wick_text_str(&said.output));
    } else {
        puts("it does not say");
    }
    wick_process_free(&said);
    wick_ctx_deinit(&ctx);
}

/* The word after `key` in what a compiler's driver passes on; quotes are left out. */
static bool print_after(const char *text, const char *key)
{
    const char *at = strstr(text, key);
    if (!at) return false;
    at += strlen(key) + strspn(at + strlen(key), "\" ");
    printf("%.*s\n", (int)strcspn(at, "\" \n'"), at);
    return true;
}

/* -### shows the command that the driver would run, in which `native` has become a name. */
static void print_march(const wick_args *compiler, const char *march)
{
    wick_ctx ctx;
    wick_process said = {0};
    const char *argv[] = {compiler->items[0], march, "-###", "-E", "-x", "c", "/dev/null", NULL};
    bool found = false;
    wick_ctx_init(&ctx, NULL);
    printf("cpu       %s is ", march);
    if (wick_process_run(&ctx, argv, &said) == WICK_OK && said.exit_code == 0) {
        const char *text = wick_text_str(&said.output);
        const char *gcc = strstr(text, "cc1 ");
        found = print_after(text, "\"-target-cpu\"") ||
                (gcc && (print_after(gcc, "-march=") || print_after(gcc, "-mcpu=")));
    }
    if (!found) puts("not known to this compiler");
    wick_process_free(&said);
    wick_ctx_deinit(&ctx);
}

wick_status cli_flags_print(wick_ctx *ctx, const char *compiler)
{
    wick_arena arena = {0};
    wick_args args = {0};
    wick_build_options options = {.compiler = compiler};
    const char *cflags = getenv("CFLAGS");
    wick_status status = wick_toolchain_find(ctx, &arena, &options, &args);
    if (!status) {
        print_version(&args);
        print_march(&args, wick_toolchain_march(false, WICK_ISA_BASELINE));
        for (int i = 0; i < WICK_COUNT(sections); i++) {
            print_section(&sections[i]);
        }
        printf("\nyours, last, so that they win\n  %-40s ", "$CFLAGS");
        cli_put_name(stdout, cflags && *cflags ? cflags : "(not set)");
        printf("\n  %-40s %s\n", "--flag=FLAG, flags=[...]", "of wick build, of wick.load");
        printf("  %-40s %s\n", "--cuda-flag=FLAG, extra_cuda_cflags=[...]", "the same for kernels");
    }
    wick_arena_free(&arena);
    return status;
}
