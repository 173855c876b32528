/* show_device.c -- what became of kernels: SASS and what each of them takes of a multiprocessor
 *
 * NVIDIA's own programs read a cubin: cuobjdump does both, nvdisasm the instructions. They come
 * with the CUDA toolkit, and with triton, which PyTorch's CUDA builds bring along.
 */
#include "show.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- the programs ---- */

static bool try_tool(wick_text *out, const char *folder, const char *name)
{
    wick_text_free(out);
    wick_text_printf(out, "%s/bin/%s", folder, name);
    return !out->failed && access(out->data, X_OK) == 0;
}

/* In the site-packages that Wick is in. */
static bool find_in_triton(wick_text *out, const char *name)
{
    wick_text inside = {0};
    char *found = NULL;
    wick_ctx own; /* that it is not there is no error */
    wick_ctx_init(&own, NULL);
    wick_text_printf(&inside, "../triton/backends/nvidia/bin/%s", name);
    wick_text_free(out);
    if (!wick_build_package_file(&own, wick_text_str(&inside), &found)) wick_text_add(out, found);
    wick_text_free(&inside);
    wick_free(found);
    wick_ctx_deinit(&own);
    return out->data && !out->failed && access(out->data, X_OK) == 0;
}

static bool find_tool(wick_text *out, const char *name)
{
    static const char *const variables[] = {"CUDA_HOME", "CUDA_PATH"};
    for (int i = 0; i < WICK_COUNT(variables); i++) {
        const char *folder = getenv(variables[i]);
        if (folder && *folder && try_tool(out, folder, name)) return true;
    }
    if (wick_toolchain_on_path(name)) {
        wick_text_free(out);
        wick_text_add(out, name);
        return !out->failed;
    }
    return try_tool(out, "/usr/local/cuda", name) || find_in_triton(out, name);
}

/* Runs one of the programs that there are over the file; its answer goes to stdout. */
static wick_status run_tool(wick_ctx *ctx, const char *path, bool sass)
{
    wick_text tool = {0};
    wick_process said = {0};
    const char *argv[] = {NULL, sass ? "-sass" : "-res-usage", path, NULL};
    bool found = find_tool(&tool, "cuobjdump");
    if (!found && sass) {
        found = find_tool(&tool, "nvdisasm");
        argv[1] = "-c";
    }
    argv[0] = wick_text_str(&tool);
    wick_status status =
        found ? wick_process_run(ctx, argv, &said)
              : wick_fail(ctx, WICK_ENOTSUP,
                          "%s found neither in $CUDA_HOME/bin nor on the PATH nor in "
                          "/usr/local/cuda/bin: it comes with the CUDA toolkit, and with triton "
                          "(pip install triton)",
                          sass ? "cuobjdump or nvdisasm was" : "cuobjdump was");
    if (!status && said.exit_code != 0)
        status = wick_fail(ctx, WICK_EIO, "%s: %s", argv[0], wick_text_str(&said.output));
    if (!status) fputs(wick_text_str(&said.output), stdout);
    wick_process_free(&said);
    wick_text_free(&tool);
    return status;
}

static wick_status show_code(wick_ctx *ctx, const void *code, size_t size,
                             const show_device_request *request)
{
    wick_text path = {0};
    char *folder = NULL;
    wick_status status = wick_dir_temporary(ctx, "wick", &folder);
    if (!status) {
        wick_text_printf(&path, "%s/kernels.cubin", folder);
        status = path.failed ? wick_fail(ctx, WICK_ENOMEM, "out of memory")
                             : wick_file_write(ctx, path.data, code, size);
    }
    if (!status && request->resources) status = run_tool(ctx, path.data, false);
    if (!status && request->sass) status = run_tool(ctx, path.data, true);
    wick_text_free(&path);
    if (folder) wick_dir_remove(folder);
    wick_free(folder);
    return status;
}

/* ---- of a source ---- */

/* The first architecture asked for, the device at hand, or the newest of those that are built for.
 */
static wick_status choose_arch(wick_ctx *ctx, const show_device_request *request, int32_t *out)
{
    wick_archs archs = wick_archs_default();
    if (request->archs) WICK_TRY(wick_archs_parse(ctx, "--arch", request->archs, &archs));
    *out = request->archs ? archs.arch[0] : wick_cuda_likely_arch();
    if (*out == 0) *out = archs.arch[archs.n - 1];
    return WICK_OK;
}

wick_status show_device_source(wick_ctx *ctx, const show_source *s,
                               const show_device_request *request)
{
    wick_text warnings = {0};
    char *code = NULL;
    size_t size = 0;
    int32_t arch = 0;
    if (!s->scan.device_text)
        return wick_fail(ctx, WICK_EINVAL,
                         "%s:1: there is no kernel in this file (a __global__ function)",
                         s->scan.file);
    if (s->scan.needs_nvcc)
        return wick_fail(ctx, WICK_ENOTSUP,
                         "%s:1: kernels that are launched with <<<>>> are inside nvcc's object: "
                         "build a module and run cuobjdump on it",
                         s->scan.file);
    WICK_TRY(choose_arch(ctx, request, &arch));
    wick_status status = wick_device_cached(ctx, &s->scan, s->types, &s->options, arch, NULL,
                                            &warnings, &code, &size);
    if (!status) show_head(s, arch);
    if (!status) status = show_code(ctx, code, size, request);
    wick_text_free(&warnings);
    wick_free(code);
    return status;
}

/* ---- of a module ---- */

static bool is_wanted(const wick_device_code *code, const wick_archs *archs)
{
    if (code->is_ptx) return false;
    for (int i = 0; i < archs->n; i++) {
        if (archs->arch[i] == code->arch) return true;
    }
    return archs->n == 0;
}

static wick_status show_variant(wick_ctx *ctx, const wick_op_entry *op, const wick_variant *v,
                                const wick_archs *archs, const show_device_request *request,
                                int *shown)
{
    for (int64_t i = 0; i < v->device->n_code; i++) {
        const wick_device_code *code = &v->device->code[i];
        if (!is_wanted(code, archs)) continue;
        printf("%s%s %s, sm_%d\n", *shown ? "\n" : "", op->file, wick_dtype_name(v->types[0]),
               (int)code->arch);
        fflush(stdout);
        WICK_TRY(show_code(ctx, code->data, (size_t)code->size, request));
        ++*shown;
    }
    return WICK_OK;
}

static const void *bytes_of(const wick_variant *v)
{
    return v->device && v->device->n_code > 0 ? v->device->code[0].data : NULL;
}

/* Operators of one file, and all levels of CPUs, share their kernels: they are shown once. */
static bool is_first(const wick_module_table *table, const wick_variant *which)
{
    for (int64_t o = 0; o < table->n_ops; o++) {
        for (int64_t v = 0; v < table->ops[o].n_variants; v++) {
            const wick_variant *other = table->ops[o].variants[v];
            if (bytes_of(other) == bytes_of(which)) return other == which;
        }
    }
    return true;
}

/* A word that begins with a space, so that f16 is not found in bf16. */
static void add_once(wick_text *words, const char *word)
{
    const size_t n = strlen(word);
    for (const char *at = wick_text_str(words); (at = strstr(at, word)) != NULL; at += n) {
        if (at[n] == ' ' || at[n] == '\0') return;
    }
    wick_text_add(words, word);
}

/* Of the operator, or of all: which types and GPUs it was compiled for. */
static wick_status say_there_is_none(wick_ctx *ctx, const wick_module_table *table, const char *op)
{
    wick_text types = {0}, archs = {0};
    bool runs_there = false;
    for (int64_t o = 0; o < table->n_ops; o++) {
        const wick_op_entry *entry = &table->ops[o];
        for (int64_t v = 0; v < entry->n_variants && (!op || strcmp(op, entry->name) == 0); v++) {
            const wick_device *device = entry->variants[v]->device;
            runs_there |= entry->variants[v]->cuda && !device;
            if (!bytes_of(entry->variants[v])) continue;
            char word[24];
            snprintf(word, sizeof word, " %s", wick_dtype_name(entry->variants[v]->types[0]));
            add_once(&types, word);
            for (int64_t i = 0; i < device->n_code; i++) {
                snprintf(word, sizeof word, " sm_%d", (int)device->code[i].arch);
                if (!device->code[i].is_ptx) add_once(&archs, word);
            }
        }
    }
    const char *whose = op ? op : "the module";
    wick_status status = WICK_OK;
    if (types.size > 0)
        status = wick_fail(ctx, WICK_EINVAL,
                           "%s has no device code of that kind: it is there for%s, on%s", whose,
                           wick_text_str(&types), wick_text_str(&archs));
    else if (runs_there)
        status =
            wick_fail(ctx, WICK_ENOTSUP,
                      "%s has no device code of its own: kernels that are launched with <<<>>> "
                      "are inside nvcc's object, which cuobjdump reads",
                      whose);
    else
        status = wick_fail(ctx, WICK_EINVAL,
                           "%s has no device code: no operator of it runs on CUDA", whose);
    wick_text_free(&types);
    wick_text_free(&archs);
    return status;
}

wick_status show_device_module(wick_ctx *ctx, const wick_module_table *table, const char *op,
                               const char *types, const show_device_request *request)
{
    wick_archs archs = {0};
    int shown = 0;
    if (request->archs) WICK_TRY(wick_archs_parse(ctx, "--arch", request->archs, &archs));
    for (int64_t o = 0; o < table->n_ops; o++) {
        const wick_op_entry *entry = &table->ops[o];
        if (op && strcmp(op, entry->name) != 0) continue;
        for (int64_t v = 0; v < entry->n_variants; v++) {
            const wick_variant *variant = entry->variants[v];
            if (!bytes_of(variant) || (!op && !is_first(table, variant))) continue;
            if (op && v > 0 && bytes_of(entry->variants[v - 1]) == bytes_of(variant)) continue;
            if (types && strcmp(types, wick_dtype_name(variant->types[0])) != 0) continue;
            WICK_TRY(show_variant(ctx, entry, variant, &archs, request, &shown));
        }
    }
    return shown ? WICK_OK : say_there_is_none(ctx, table, op);
}
