/* show_source.c -- how a source is compiled, and where what was built from it lies
 *
 * The options are those of wick.load without arguments, so that keys of the cache are the same.
 */
#include "show.h"

#include <string.h>

static wick_status out_of_memory(wick_ctx *ctx)
{
    return wick_fail(ctx, WICK_ENOMEM, "out of memory");
}

wick_status show_source_open(wick_ctx *ctx, const char *path, const char *types,
                             const char *compiler, show_source *out)
{
    wick_source source = {path, NULL};
    char *include = NULL;
    *out = (show_source){0};
    wick_status status = wick_scan_source(ctx, &source, &out->scan);
    if (!status && types) status = wick_build_read_types(ctx, &out->scan, types, out->types);
    if (!status && !types)
        wick_scan_combination(&out->scan, wick_scan_likely(&out->scan), out->types);
    if (!status) status = wick_install_include(ctx, &include);
    if (!status) status = wick_path_absolute(ctx, include, &out->include);
    out->options.compiler = compiler;
    out->options.include_dir = out->include;
    wick_free(include);
    return status;
}

void show_source_close(show_source *s)
{
    wick_scan_free(&s->scan);
    wick_free(s->include);
    s->include = NULL;
}

/* ---- the command ---- */

wick_status show_source_compiler(wick_ctx *ctx, const show_source *s, wick_args *out)
{
    const char *march = wick_toolchain_march(false, WICK_ISA_BASELINE);
    WICK_TRY(wick_toolchain_find(ctx, out->arena, &s->options, out));
    if (march) wick_args_add(out, march);
    wick_toolchain_folders(&s->scan, out);
    return out->failed ? out_of_memory(ctx) : WICK_OK;
}

/* A word as a shell takes it. */
static void put_word(const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "-_=+,./:@%";
    if (*word && word[strspn(word, plain)] == '\0') {
        fputs(word, stdout);
        return;
    }
    putchar('\'');
    for (; *word; word++) {
        if (*word == '\'')
            fputs("'\\''", stdout);
        else
            putchar(*word);
    }
    putchar('\'');
}

static void put_line(const wick_args *args)
{
    for (int64_t i = 0; i < args->count; i++) {
        if (i) putchar(' ');
        put_word(args->items[i]);
    }
    putchar('\n');
}

/* A comment to a shell: NVRTC is no program. */
static wick_status show_device_flags(wick_ctx *ctx, const show_source *s, wick_arena *arena)
{
    wick_args args = {.arena = arena};
    bool nvcc = s->scan.needs_nvcc || wick_nvcc_preferred();
    WICK_TRY(wick_device_flags(ctx, &s->scan, &s->options, nvcc, &args));
    if (args.failed) return out_of_memory(ctx);
    printf("# kernels by %s, for each GPU: ", nvcc ? "nvcc" : "NVRTC");
    put_line(&args);
    puts(s->scan.needs_nvcc
             ? "# unit.c calls what nvcc makes of the kernels, and links with that object only"
             : "# unit.c is the host half: a module of it alone runs on the CPU, and has no "
               "kernels");
    return WICK_OK;
}

wick_status show_command(wick_ctx *ctx, const show_source *s)
{
    wick_arena arena = {0};
    wick_args args = {.arena = &arena};
    wick_status status = show_source_compiler(ctx, s, &args);
    if (!status) {
        wick_toolchain_add(WICK_FLAG_LINK, &args);
        wick_toolchain_add(WICK_FLAG_OUTPUT, &args);
        wick_args_add(&args, "module.so");
        wick_args_add(&args, "unit.c");
        wick_toolchain_add(WICK_FLAG_LIBRARY, &args);
        wick_toolchain_user_flags(&s->options, &args);
        if (args.failed) status = out_of_memory(ctx);
    }
    if (!status) put_line(&args);
    if (!status && s->scan.device_text) status = show_device_flags(ctx, s, &arena);
    wick_arena_free(&arena);
    return status;
}

/* ---- the cache ---- */

/* "f32 i32"; "" where the file has no type variable. */
static void add_types(wick_text *text, const wick_scan *scan, const wick_dtype *types)
{
    for (int i = 0; i < scan->n_variables; i++) {
        wick_text_printf(text, "%s%s", i ? " " : "", wick_dtype_name((int)types[i]));
    }
}

static void put_types(const wick_scan *scan, const wick_dtype *types)
{
    wick_text text = {0};
    add_types(&text, scan, types);
    printf("%-8s ", scan->n_variables ? wick_text_str(&text) : "module");
    wick_text_free(&text);
}

void show_head(const show_source *s, int32_t arch)
{
    wick_text text = {0};
    wick_text_printf(&text, "%s%s", s->scan.file, s->scan.n_variables ? " " : "");
    add_types(&text, &s->scan, s->types);
    if (arch) wick_text_printf(&text, ", sm_%d", (int)arch);
    puts(wick_text_str(&text));
    fflush(stdout); /* another program may print next */
    wick_text_free(&text);
}

/* A load keeps the type that it built first under another key than those that came later. */
static wick_status find(wick_ctx *ctx, const show_source *s, int64_t index, wick_built *out)
{
    wick_dtype types[WICK_MAX_VARIABLES];
    wick_scan_combination(&s->scan, index, types);
    wick_status status = wick_build_find_cached(ctx, &s->scan, index, types, &s->options, out);
    if (status || out->hit) return status;
    wick_built_free(out);
    return wick_build_find_cached(ctx, &s->scan, -1, types, &s->options, out);
}

wick_status show_cached(wick_ctx *ctx, const show_source *s)
{
    for (int64_t i = 0; i < wick_scan_combinations(&s->scan); i++) {
        wick_dtype types[WICK_MAX_VARIABLES];
        wick_built built = {0};
        wick_status status = find(ctx, s, i, &built);
        if (!status) {
            wick_scan_combination(&s->scan, i, types);
            put_types(&s->scan, types);
            cli_put_name(stdout, built.hit ? built.path
                                           : "not built yet; built when loaded or first called");
            putchar('\n');
        }
        wick_built_free(&built);
        if (status) return status;
    }
    return WICK_OK;
}
