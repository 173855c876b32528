/* editor.c -- what an editor needs to understand operator files
 *
 * clangd reads DIR/compile_commands.json. It opens an operator's file as it is, without the code
 * that the build puts around it, so what that code defines comes as -D: the element types (the
 * first that the file lists) and the numbers of its choices. Definitions on the command line do not
 * get out of date while a signature is being edited, as declarations in a generated header would.
 */
#include "cli.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Both files are recognised by these words when they are written again. */
static const char database_mark[] = "-DWICK_T=", settings_mark[] = "# Written by `wick build";

static wick_status out_of_memory(wick_ctx *ctx)
{
    return wick_fail(ctx, WICK_ENOMEM, "out of memory");
}

/* ---- one entry ---- */

static void define(wick_args *args, const char *name, const char *value)
{
    wick_text flag = {0};
    wick_text_printf(&flag, "-D%s=%s", name, value);
    wick_args_add(args, flag.failed ? NULL : wick_arena_strndup(args->arena, flag.data, flag.size));
    wick_text_free(&flag);
}

static void define_number(wick_args *args, const char *name, int value)
{
    char digits[16];
    snprintf(digits, sizeof digits, "%d", value);
    define(args, name, digits);
}

static void define_types(wick_args *args, const wick_scan *scan)
{
    int t = 0;
    for (int i = 0; i < scan->n_variables; i++) {
        const wick_variable *v = &scan->variables[i];
        if (strcmp(v->name, "T") == 0) {
            t = (int)v->types[0];
        } else {
            define(args, v->name, wick_dtype_c_type((int)v->types[0]));
        }
    }
    define_number(args, "WICK_T", t);
}

static bool is_defined(const wick_args *args, const char *name)
{
    size_t n = strlen(name);
    for (int64_t i = 0; i < args->count; i++) {
        const char *item = args->items[i];
        if (strncmp(item, "-D", 2) == 0 && strncmp(item + 2, name, n) == 0 && item[2 + n] == '=') {
            return true;
        }
    }
    return false;
}

/* WICK_<argument>_<choice>. Numbers are the build's only in being distinct, which is all that a
 * switch over them needs in an editor. */
static void define_choices(wick_args *args, const wick_scan *scan)
{
    int number = 0;
    for (int o = 0; o < scan->n_ops; o++) {
        const wick_signature *sig = scan->ops[o].signature;
        for (int i = 0; i < sig->n_inputs; i++) {
            const wick_param *param = &sig->inputs[i];
            for (int c = 0; c < param->n_choices; c++) {
                wick_text name = {0};
                wick_text_printf(&name, "WICK_%s_%s", param->name, param->choices[c]);
                if (!is_defined(args, wick_text_str(&name))) {
                    define_number(args, wick_text_str(&name), number++);
                }
                wick_text_free(&name);
            }
        }
    }
}

static void add_entry(wick_text *out, const wick_scan *scan, const char *path,
                      const wick_args *args)
{
    wick_text_add(out, "  {\n    \"directory\": ");
    cli_add_json(out, scan->folder);
    wick_text_add(out, ",\n    \"file\": ");
    cli_add_json(out, path);
    wick_text_add(out, ",\n    \"arguments\": [");
    for (int64_t i = 0; i < args->count; i++) {
        wick_text_add(out, i ? ", " : "");
        cli_add_json(out, args->items[i]);
    }
    wick_text_add(out, "]\n  }");
}

static wick_status describe(wick_ctx *ctx, const wick_source *source,
                            const wick_build_options *options, wick_text *out)
{
    wick_scan scan;
    wick_arena arena = {0};
    wick_args args = {0};
    char *path = NULL;
    const char *march = wick_toolchain_march(options->portable, WICK_ISA_BASELINE);
    wick_status status = wick_scan_source(ctx, source, &scan);
    if (!status) status = wick_path_absolute(ctx, source->path, &path);
    if (!status) status = wick_toolchain_find(ctx, &arena, options, &args);
    if (!status) {
        if (march) wick_args_add(&args, march);
        wick_toolchain_folders(&scan, &args);
        define_types(&args, &scan);
        define_choices(&args, &scan);
        wick_toolchain_user_flags(options, &args);
        wick_toolchain_add(WICK_FLAG_CHECK, &args);
        wick_args_add(&args, path);
        add_entry(out, &scan, path, &args);
        if (args.failed || out->failed) status = out_of_memory(ctx);
    }
    wick_free(path);
    wick_arena_free(&arena);
    wick_scan_free(&scan);
    return status;
}

/* ---- the files ---- */

wick_status cli_write_ours(wick_ctx *ctx, const char *path, const char *mark,
                           const wick_text *content)
{
    char *old = NULL;
    wick_status status = WICK_OK;
    if (content->failed) {
        status = out_of_memory(ctx);
    } else if (wick_file_exists(path)) {
        status = wick_file_read(ctx, path, &old, NULL);
        if (!status && *old && !strstr(old, mark)) {
            status =
                wick_fail(ctx, WICK_EIO,
                          "%s is there and is not Wick's: name another place, or remove it", path);
        }
    }
    if (!status) status = wick_file_write(ctx, path, content->data, content->size);
    wick_free(old);
    return status;
}

static wick_status write_in(wick_ctx *ctx, const char *dir, const char *name, const char *mark,
                            const wick_text *content)
{
    wick_text path = {0};
    wick_text_printf(&path, "%s/%s", dir, name);
    wick_status status =
        path.failed ? out_of_memory(ctx) : cli_write_ours(ctx, path.data, mark, content);
    wick_text_free(&path);
    return status;
}

/* For files that the database does not know yet, such as a new operator. */
static wick_status add_settings(wick_ctx *ctx, const wick_build_options *options, wick_text *out)
{
    char *found = NULL;
    if (!options->include_dir) WICK_TRY(wick_install_include(ctx, &found));
    wick_text_printf(out,
                     "%s --compile-commands`: how clangd reads operator files.\n"
                     "If:\n  PathMatch: .*\\.[ch]\n"
                     "CompileFlags:\n  CompilationDatabase: .\n  Add: [-Wno-unused-function, -I, ",
                     settings_mark);
    cli_add_json(out, options->include_dir ? options->include_dir : found);
    wick_text_add(out, "]\n");
    wick_free(found);
    return WICK_OK;
}

wick_status cli_editor_write(wick_ctx *ctx, const wick_source *sources, int64_t n,
                             const wick_build_options *options, const char *dir)
{
    wick_text database = {0}, settings = {0};
    wick_status status = WICK_OK;
    if (mkdir(dir, 0777) != 0 && errno != EEXIST) {
        return wick_fail(ctx, WICK_EIO, "%s cannot be made: %s", dir, strerror(errno));
    }
    wick_text_add(&database, "[\n");
    for (int64_t i = 0; !status && i < n; i++) {
        status = describe(ctx, &sources[i], options, &database);
        wick_text_add(&database, i + 1 < n ? ",\n" : "\n]\n");
    }
    if (!status) status = add_settings(ctx, options, &settings);
    if (!status) status = write_in(ctx, dir, "compile_commands.json", database_mark, &database);
    if (!status) status = write_in(ctx, dir, ".clangd", settings_mark, &settings);
    wick_text_free(&database);
    wick_text_free(&settings);
    return status;
}
