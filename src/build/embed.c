/* embed.c -- device code of an ahead-of-time build: every unit's kernels for every architecture
 *
 * Several are compiled at once, in threads: NVRTC is a library. What was made waits in files of the
 * build's private folder until the assembler takes it into the module.
 */
#include "device.h"

#include <string.h>

typedef struct task {
    const wick_unit *unit;
    wick_device_target target;
    wick_status status;
    wick_ctx ctx; /* each fails on its own */
    wick_text warnings;
    wick_unit_code *out;
} task;

typedef struct work {
    const wick_build_options *options;
    task *tasks;
} work;

static wick_status compile(const wick_build_options *options, task *t)
{
    char *code = NULL;
    size_t size = 0;
    WICK_TRY(wick_device_compile(&t->ctx, t->unit, options, t->target, &t->warnings, &code, &size));
    wick_status status = wick_file_write(&t->ctx, t->out->path, code, size);
    t->out->bytes = size;
    wick_free(code);
    return status;
}

static wick_status compile_some(void *arg, int64_t begin, int64_t end)
{
    const work *w = arg;
    for (int64_t i = begin; i < end; i++)
        w->tasks[i].status = compile(w->options, &w->tasks[i]);
    return WICK_OK;
}

/* The targets of one unit, and the files that their code will be in. */
static wick_status plan_unit(wick_ctx *ctx, wick_arena *arena, const char *folder,
                             const wick_archs *archs, wick_unit *unit, int64_t which, task *tasks)
{
    int n = archs->n + (archs->ptx ? 1 : 0);
    wick_unit_code *code = wick_arena_alloc(arena, (size_t)n * sizeof *code);
    if (!code) return wick_fail(ctx, WICK_ENOMEM, "out of memory");
    for (int i = 0; i < n; i++) {
        bool ptx = i == archs->n;
        wick_text path = {0};
        int32_t arch = ptx ? archs->ptx : archs->arch[i];
        wick_text_printf(&path, "%s/unit%lld.sm_%d.%s", folder, (long long)which, (int)arch,
                         ptx ? "ptx" : "cubin");
        code[i] = (wick_unit_code){.arch = arch, .ptx = ptx};
        code[i].path = path.failed ? NULL : wick_arena_strndup(arena, path.data, path.size);
        wick_text_free(&path);
        if (!code[i].path) return wick_fail(ctx, WICK_ENOMEM, "out of memory");
        tasks[i] = (task){.unit = unit, .target = {arch, ptx}, .out = &code[i]};
        wick_ctx_init(&tasks[i].ctx, NULL);
    }
    unit->code = code;
    unit->n_code = n;
    unit->code_of = which;
    return WICK_OK;
}

static bool is_same_code(const wick_unit *a, const wick_unit *b)
{
    return a->scan == b->scan && memcmp(a->types, b->types, sizeof a->types) == 0;
}

static wick_status plan_all(wick_ctx *ctx, wick_arena *arena, const char *folder,
                            const wick_archs *archs, wick_unit *units, int64_t n, task *tasks,
                            int64_t *n_tasks)
{
    for (int64_t i = 0; i < n; i++) {
        wick_unit *unit = &units[i];
        if (!unit->cuda || !unit->scan->device_text || unit->scan->needs_nvcc) continue;
        if (i > 0 && units[i - 1].cuda && is_same_code(&units[i - 1], unit)) {
            unit->code = units[i - 1].code;
            unit->n_code = units[i - 1].n_code;
            unit->code_of = units[i - 1].code_of;
            continue;
        }
        WICK_TRY(plan_unit(ctx, arena, folder, archs, unit, i, tasks + *n_tasks));
        *n_tasks += unit->n_code;
    }
    return WICK_OK;
}

/* The first failure counts; the warnings of all are told. */
static wick_status gather(wick_ctx *ctx, task *tasks, int64_t n, wick_status status,
                          wick_text *warnings)
{
    for (int64_t i = 0; i < n; i++) {
        task *t = &tasks[i];
        const char *said = wick_text_str(&t->warnings);
        if (warnings && !strstr(wick_text_str(warnings), said)) wick_text_add(warnings, said);
        if (status == WICK_OK && t->status != WICK_OK)
            status = wick_fail(ctx, t->status, "%s", wick_ctx_message(&t->ctx));
        wick_text_free(&t->warnings);
        wick_ctx_deinit(&t->ctx);
    }
    return status;
}

wick_status wick_embed_compile(wick_ctx *ctx, wick_arena *arena, const char *folder,
                               wick_unit *units, int64_t n, const wick_build_options *options,
                               wick_text *warnings)
{
    wick_archs archs;
    int64_t n_tasks = 0;
    bool any = false;
    for (int64_t i = 0; i < n; i++)
        any = any || (units[i].cuda && units[i].scan->device_text && !units[i].scan->needs_nvcc);
    if (!any) return WICK_OK;
    WICK_TRY(wick_device_archs(ctx, options, &archs));
    work w = {options, wick_arena_alloc(arena, (size_t)(n * (archs.n + 1)) * sizeof(task))};
    if (!w.tasks) return wick_fail(ctx, WICK_ENOMEM, "out of memory");
    wick_status status = plan_all(ctx, arena, folder, &archs, units, n, w.tasks, &n_tasks);
    if (status == WICK_OK && options && options->progress)
        options->progress(options->progress_arg, 0, n, "device code");
    if (status == WICK_OK) status = wick_plain_parallel(ctx, n_tasks, 1, compile_some, &w);
    status = gather(ctx, w.tasks, n_tasks, status, warnings);
    if (status == WICK_ENOTSUP)
        wick_ctx_suffix(ctx, "; --no-cuda (or USE_CUDA=0) leaves the kernels out");
    return status;
}
