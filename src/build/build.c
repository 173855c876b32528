/* build.c -- units into a module
 *
 *   one unit       cc -shared unit.c -o module.so
 *   several        cc -c for each, as many at once as there are CPUs, then cc -shared over the
 * objects to check       cc -fsyntax-only, beside the above
 *
 * Everything happens in a private folder that is removed at the end; the module is moved to its
 * place when it is whole.
 */
#include "device.h"

#include <string.h>
#include <unistd.h>

typedef struct plan {
    wick_ctx *ctx;
    const wick_build_options *options;
    wick_arena arena;
    char *folder;
    wick_args compiler;
    wick_unit *units; /* those that are built, then those that are only checked */
    int64_t n_built, n_checked, n_launchers;
    bool ahead_of_time; /* device code goes into the module; else it is compiled at its first launch
                         */
    wick_archs archs;   /* of launchers that nvcc compiles */
    wick_job *jobs;     /* one per unit, one per unit of launchers, and one for the link */
    wick_text *warnings;       /* the report's; NULL: nobody asks */
    wick_build_report *report; /* NULL likewise */
} plan;

static wick_status out_of_memory(wick_ctx *ctx)
{
    return wick_fail(ctx, WICK_ENOMEM, "out of memory");
}

/* A path in the private folder, in the plan's arena; NULL when out of memory. */
static const char *path_of(plan *p, int64_t unit, const char *ending)
{
    wick_text path = {0};
    const char *kept;
    wick_text_printf(&path, "%s/unit%lld%s", p->folder, (long long)unit, ending);
    kept = path.failed ? NULL : wick_arena_strndup(&p->arena, path.data, path.size);
    wick_text_free(&path);
    return kept;
}

void wick_build_report_free(wick_build_report *report)
{
    wick_text_free(&report->warnings);
    wick_text_free(&report->depends);
    wick_text_free(&report->log);
}

/* ---- commands ---- */

/* One unit is compiled and linked by one command. */
static bool is_alone(const plan *p) { return p->n_built == 1 && p->n_launchers == 0; }

static wick_status write_unit(plan *p, int64_t i)
{
    wick_text code = {0};
    bool built = i < p->n_built;
    const char *path = path_of(p, i, ".c");
    wick_status status;
    wick_glue_write(&code, built ? p->units : &p->units[i], built ? p->n_built : 1, built ? i : 0,
                    false);
    if (code.failed || !path) {
        status = out_of_memory(p->ctx);
    } else {
        status = wick_file_write(p->ctx, path, code.data, code.size);
    }
    wick_text_free(&code);
    return status;
}

static wick_status make_job(plan *p, int64_t i)
{
    const wick_unit *unit = &p->units[i];
    wick_job *job = &p->jobs[i];
    const char *march = wick_toolchain_march(p->options && p->options->portable, unit->isa);
    bool checked = i >= p->n_built, alone = is_alone(p);
    WICK_TRY(write_unit(p, i));
    job->unit = i;
    job->what = unit->scan->file;
    job->argv.arena = &p->arena;
    wick_args_all(&job->argv, &p->compiler);
    if (march) wick_args_add(&job->argv, march);
    wick_toolchain_folders(unit->scan, &job->argv);
    if (checked) {
        wick_toolchain_add(WICK_FLAG_CHECK, &job->argv);
    } else {
        if (p->report) {
            wick_toolchain_add(WICK_FLAG_DEPENDS, &job->argv);
            wick_args_add(&job->argv, path_of(p, i, ".d"));
        }
        if (alone) {
            wick_toolchain_add(WICK_FLAG_LINK, &job->argv);
        } else {
            wick_toolchain_add(WICK_FLAG_OBJECT, &job->argv);
        }
        wick_toolchain_add(WICK_FLAG_OUTPUT, &job->argv);
        wick_args_add(&job->argv, path_of(p, i, alone ? ".so" : ".o"));
    }
    wick_args_add(&job->argv, path_of(p, i, ".c"));
    if (alone && !checked) wick_toolchain_add(WICK_FLAG_LIBRARY, &job->argv);
    wick_toolchain_user_flags(p->options, &job->argv);
    return job->argv.failed ? out_of_memory(p->ctx) : WICK_OK;
}

/* A unit of launchers goes with the first unit of its element types. */
static bool has_launchers(const plan *p, int64_t i)
{
    const wick_unit *unit = &p->units[i];
    return i < p->n_built && unit->cuda && unit->scan->needs_nvcc && unit->launchers == i;
}

static wick_status make_launchers(plan *p, int64_t i, wick_job *job)
{
    const wick_unit *unit = &p->units[i];
    wick_text code = {0};
    const char *path = path_of(p, i, ".cu");
    job->unit = i;
    job->what = unit->scan->file;
    job->argv.arena = &p->arena;
    WICK_TRY(wick_nvcc_command(p->ctx, unit->scan, p->options, &p->archs, &job->argv));
    wick_glue_write_launchers(&code, unit, i);
    wick_status status = code.failed || !path ? out_of_memory(p->ctx)
                                              : wick_file_write(p->ctx, path, code.data, code.size);
    wick_text_free(&code);
    if (status) return status;
    wick_toolchain_add(WICK_FLAG_OUTPUT, &job->argv);
    wick_args_add(&job->argv, path_of(p, i, ".cu.o"));
    wick_args_add(&job->argv, path);
    return job->argv.failed ? out_of_memory(p->ctx) : WICK_OK;
}

static wick_status make_link(plan *p, wick_job *job)
{
    job->what = "linking";
    job->argv.arena = &p->arena;
    if (p->n_launchers > 0) {
        wick_args_add(&job->argv, wick_nvcc_find(&p->arena));
        wick_toolchain_add(WICK_FLAG_NVCC_LINK, &job->argv);
    } else {
        wick_args_all(&job->argv, &p->compiler);
        wick_toolchain_add(WICK_FLAG_LINK, &job->argv);
    }
    wick_toolchain_add(WICK_FLAG_OUTPUT, &job->argv);
    wick_args_add(&job->argv, path_of(p, 0, ".so"));
    for (int64_t i = 0; i < p->n_built; i++) {
        wick_args_add(&job->argv, path_of(p, i, ".o"));
        if (has_launchers(p, i)) wick_args_add(&job->argv, path_of(p, i, ".cu.o"));
    }
    wick_toolchain_add(WICK_FLAG_LIBRARY, &job->argv);
    if (p->n_launchers > 0)
        wick_nvcc_link_flags(p->options, &job->argv);
    else
        wick_toolchain_user_flags(p->options, &job->argv);
    return job->argv.failed ? out_of_memory(p->ctx) : WICK_OK;
}

/* ---- the build ---- */

/* The command and everything it said. */
static void keep_log(plan *p, const wick_job *job)
{
    if (!p->report) return;
    for (int64_t i = 0; i < job->argv.count; i++) {
        wick_text_printf(&p->report->log, "%s%s", i ? " " : "", job->argv.items[i]);
    }
    wick_text_printf(&p->report->log, "\n%s", wick_text_str(&job->result.output));
}

static wick_status run_link(plan *p, wick_job *job)
{
    int64_t failed;
    WICK_TRY(make_link(p, job));
    WICK_TRY(wick_jobs_run(p->ctx, job, 1, p->options, &failed));
    if (failed < 0) return WICK_OK;
    keep_log(p, job);
    return wick_diagnose_failure(p->ctx, p->units, p->n_built, -1, &job->result, p->folder);
}

static wick_status run_jobs(plan *p)
{
    int64_t n = p->n_built + p->n_checked, failed, all = n;
    for (int64_t i = 0; i < n; i++)
        p->n_launchers += has_launchers(p, i);
    p->jobs = wick_arena_alloc(&p->arena, (size_t)(n + p->n_launchers + 1) * sizeof *p->jobs);
    if (!p->jobs) return out_of_memory(p->ctx);
    if (p->ahead_of_time)
        WICK_TRY(wick_embed_compile(p->ctx, &p->arena, p->folder, p->units, p->n_built, p->options,
                                    p->warnings));
    for (int64_t i = 0; i < n; i++) {
        WICK_TRY(make_job(p, i));
        if (has_launchers(p, i)) WICK_TRY(make_launchers(p, i, &p->jobs[all++]));
    }
    WICK_TRY(wick_jobs_run(p->ctx, p->jobs, all, p->options, &failed));
    if (failed >= 0) {
        keep_log(p, &p->jobs[failed]);
        if (failed >= n)
            return wick_device_diagnose(p->ctx, p->units[p->jobs[failed].unit].scan,
                                        wick_text_str(&p->jobs[failed].result.output));
        return wick_diagnose_failure(p->ctx, p->units, n, failed, &p->jobs[failed].result,
                                     p->folder);
    }
    for (int64_t i = 0; i < n; i++) {
        wick_diagnose_warnings(p->warnings, &p->jobs[i].result, p->folder);
    }
    for (int64_t i = n; i < all; i++) {
        wick_device_warnings(p->warnings, wick_text_str(&p->jobs[i].result.output));
    }
    return is_alone(p) ? WICK_OK : run_link(p, &p->jobs[all]);
}

/* Adds the folders that a command searches for headers and that authors may fill, absolute. */
static void add_folders(plan *p, const wick_args *command, bool quote, wick_args *out)
{
    char here[4096];
    for (const char **at = command->items; at && *at; at++) {
        const char *item = *at, *folder = NULL;
        wick_text path = {0};
        bool own = strcmp(item, "-iquote") == 0;
        if (own == quote && (own || strcmp(item, "-I") == 0 || strcmp(item, "-isystem") == 0)) {
            folder = at[1];
        } else if (!quote && strncmp(item, "-I", 2) == 0 && item[2]) {
            folder = item + 2;
        }
        if (!folder) continue;
        if (folder[0] != '/' && getcwd(here, sizeof here)) wick_text_printf(&path, "%s/", here);
        wick_text_add(&path, folder);
        while (path.size > 1 && path.data[path.size - 1] == '/') {
            path.data[--path.size] = '\0';
        }
        wick_args_add(out, wick_arena_strndup(&p->arena, wick_text_str(&path), path.size));
        wick_text_free(&path);
    }
}

/* What else a module is made of, and what would make another of it: the files that flags name
 * (objects, archives, lists of flags), and headers that are not there. */
static bool describe_further(plan *p)
{
    wick_args folders = {.arena = &p->arena}, flags = {.arena = &p->arena};
    wick_text *depends = &p->report->depends;
    bool ok = true;
    wick_toolchain_user_flags(p->options, &flags);
    for (int64_t i = 0; ok && i < flags.count; i++) {
        const char *flag = flags.items[i];
        if (flag[0] != '-') ok = wick_depends_add(depends, flag[0] == '@' ? flag + 1 : flag);
    }
    add_folders(p, &p->jobs[0].argv, true, &folders);
    add_folders(p, &p->jobs[0].argv, false, &folders);
    if (ok && folders.count) wick_depends_shadow(depends, folders.items, folders.count);
    p->report->unsettled =
        !wick_depends_settled(wick_text_str(depends), path_of(p, p->n_built - 1, ".c"));
    return ok && !folders.failed && !flags.failed && !depends->failed;
}

/* What the C compiler may not have read, since it was for kernels. */
static void add_depend(void *arg, const char *path, const char *bytes, size_t size)
{
    (void)bytes, (void)size;
    wick_depends_add(arg, path);
}

/* Which files the compiler read. None at all means that some file cannot be described. */
static wick_status read_depends(plan *p)
{
    for (int64_t i = 0; i < p->n_built; i++) {
        const char *path = path_of(p, i, ".d");
        char *rules = NULL;
        if (!path) return out_of_memory(p->ctx);
        WICK_TRY(wick_file_read(p->ctx, path, &rules, NULL));
        bool described = wick_depends_describe(&p->report->depends, rules, p->folder);
        wick_free(rules);
        if (!described) {
            wick_text_free(&p->report->depends);
            return WICK_OK;
        }
    }
    for (int64_t i = 0; i < p->n_built; i++) {
        const wick_scan *scan = p->units[i].scan;
        if (scan->device_text)
            WICK_TRY(wick_device_visit(p->ctx, scan, p->options, add_depend, &p->report->depends));
    }
    if (!describe_further(p)) wick_text_free(&p->report->depends);
    return WICK_OK;
}

static wick_status publish(plan *p, const char *output)
{
    const char *made = path_of(p, 0, ".so");
    char *bytes = NULL;
    size_t n = 0;
    wick_status status;
    if (!made) return out_of_memory(p->ctx);
    WICK_TRY(wick_file_read(p->ctx, made, &bytes, &n));
    status = wick_file_write(p->ctx, output, bytes, n);
    wick_free(bytes);
    return status;
}

/* Frees the plan. `output` NULL: nothing is built. */
static wick_status run_plan(plan *p, const char *output)
{
    bool keep = p->options && p->options->keep;
    wick_status status = wick_toolchain_find(p->ctx, &p->arena, p->options, &p->compiler);
    if (status) {
        wick_ctx_prefix(p->ctx, "%s:1: ", p->units[0].scan->file);
        goto done;
    }
    status = wick_dir_temporary(p->ctx, "wick", &p->folder);
    if (!status) status = run_jobs(p);
    if (!status && output && p->report) status = read_depends(p);
    if (!status && output) status = publish(p, output);
    if (status == WICK_EIO) wick_remedy_own(p->ctx, p->units[0].scan->file);
    if (keep && p->folder && p->warnings) {
        wick_text_printf(p->warnings, "the generated files are in %s\n", p->folder);
    }
done:
    wick_jobs_free(p->jobs, p->jobs ? p->n_built + p->n_checked + p->n_launchers + 1 : 0);
    if (!keep) wick_dir_remove(p->folder);
    wick_free(p->folder);
    wick_arena_free(&p->arena);
    return status;
}

/* ---- units ---- */

static int n_levels(const wick_build_options *options)
{
#if defined(__x86_64__)
    return options && options->portable ? 2 : 1;
#else
    (void)options;
    return 1;
#endif
}

static wick_status make_room(plan *p, int64_t n)
{
    p->units = wick_arena_alloc(&p->arena, (size_t)n * sizeof *p->units);
    return p->units ? WICK_OK : out_of_memory(p->ctx);
}

/* Ahead of time a file's CUDA half is built wherever it is wanted. At load, kernels wait for their
 * first launch; launchers for nvcc are built for the device at hand. */
static bool with_cuda(plan *p, const wick_scan *scan)
{
    if (!wick_device_wanted(p->options)) return false;
    return p->ahead_of_time || !scan->needs_nvcc || wick_device_at_hand(&p->archs);
}

/* The units of one choice of types, one per level of CPUs. */
static wick_status add_built(plan *p, const wick_scan *scan, const wick_dtype *types)
{
    for (int level = 0; level < n_levels(p->options); level++) {
        wick_unit *unit = &p->units[p->n_built++];
        unit->scan = scan;
        unit->isa = level ? WICK_ISA_X86_64_V3 : WICK_ISA_BASELINE;
        unit->cuda = with_cuda(p, scan);
        unit->launchers = p->n_built - 1 - level;
        memcpy(unit->types, types, sizeof unit->types);
        WICK_TRY(wick_scan_namespace(p->ctx, scan, p->options, &unit->ns));
    }
    return WICK_OK;
}

static void add_checked(plan *p, const wick_scan *scan, int64_t skip)
{
    for (int64_t i = 0; i < wick_scan_combinations(scan); i++) {
        wick_unit *unit = &p->units[p->n_built + p->n_checked];
        if (i == skip) continue;
        unit->scan = scan;
        wick_scan_combination(scan, i, unit->types);
        p->n_checked++;
    }
}

wick_status wick_build_types(wick_ctx *ctx, const wick_scan *scan, const wick_dtype *types,
                             const wick_build_options *options, const char *output,
                             wick_build_report *report)
{
    plan p = {.ctx = ctx,
              .options = options,
              .warnings = report ? &report->warnings : NULL,
              .report = report};
    wick_status status = make_room(&p, n_levels(options));
    if (!status) status = add_built(&p, scan, types);
    if (!status) return run_plan(&p, output);
    wick_arena_free(&p.arena);
    return status;
}

wick_status wick_build_check(wick_ctx *ctx, const wick_scan *scan, int64_t skip,
                             const wick_build_options *options, wick_text *warnings)
{
    plan p = {.ctx = ctx, .options = options, .warnings = warnings};
    wick_status status = make_room(&p, wick_scan_combinations(scan));
    if (!status) add_checked(&p, scan, skip);
    if (!status && p.n_checked > 0) return run_plan(&p, NULL);
    wick_arena_free(&p.arena);
    return status;
}

wick_status wick_build_first(wick_ctx *ctx, const wick_scan *scan, int64_t index,
                             const wick_build_options *options, const char *output,
                             wick_build_report *report)
{
    plan p = {.ctx = ctx,
              .options = options,
              .warnings = report ? &report->warnings : NULL,
              .report = report};
    wick_dtype types[WICK_MAX_VARIABLES];
    wick_status status = make_room(&p, wick_scan_combinations(scan) + n_levels(options));
    wick_scan_combination(scan, index, types);
    if (!status) status = add_built(&p, scan, types);
    if (!status) add_checked(&p, scan, index);
    if (!status) return run_plan(&p, output);
    wick_arena_free(&p.arena);
    return status;
}

/* ---- several sources, all types ---- */

/* Two files of one module that define one operator. */
static wick_status check_unique(wick_ctx *ctx, const wick_unit *units, int64_t n)
{
    for (int64_t a = 0; a < n; a++) {
        for (int64_t b = 0; b < a; b++) {
            const wick_scan *later = units[a].scan, *first = units[b].scan;
            const char *ns = units[a].ns ? units[a].ns : "local",
                       *other = units[b].ns ? units[b].ns : "local";
            if (later == first || strcmp(ns, other) != 0) continue;
            for (int i = 0; i < later->n_ops * first->n_ops; i++) {
                const wick_scan_op *x = &later->ops[i % later->n_ops],
                                   *y = &first->ops[i / later->n_ops];
                if (strcmp(x->name, y->name) != 0) continue;
                return wick_fail(ctx, WICK_EINVAL,
                                 "%s:%lld: operator %s is also defined at %s:%lld", later->file,
                                 (long long)x->line, x->name, first->file, (long long)y->line);
            }
        }
    }
    return WICK_OK;
}

static wick_status add_scans(plan *p, const wick_scan *scans, int64_t n)
{
    int64_t total = 0;
    for (int64_t s = 0; s < n; s++) {
        total += wick_scan_combinations(&scans[s]) * n_levels(p->options);
    }
    WICK_TRY(make_room(p, total));
    for (int64_t s = 0; s < n; s++) {
        for (int64_t i = 0; i < wick_scan_combinations(&scans[s]); i++) {
            wick_dtype types[WICK_MAX_VARIABLES];
            wick_scan_combination(&scans[s], i, types);
            WICK_TRY(add_built(p, &scans[s], types));
        }
    }
    return check_unique(p->ctx, p->units, p->n_built);
}

/* What the environment says is of no importance where there are no kernels. */
static wick_status settle_archs(plan *p, const wick_scan *scans, int64_t n)
{
    bool any = p->options && p->options->archs;
    for (int64_t i = 0; i < n && wick_device_wanted(p->options); i++)
        any = any || scans[i].device_text;
    return any ? wick_device_archs(p->ctx, p->options, &p->archs) : WICK_OK;
}

wick_status wick_build_module(wick_ctx *ctx, const wick_source *sources, int64_t n_sources,
                              const wick_build_options *options, const char *output,
                              char **warnings)
{
    wick_build_report report = {0};
    const char *depfile = options ? options->depfile : NULL;
    plan p = {.ctx = ctx,
              .options = options,
              .ahead_of_time = true,
              .warnings = &report.warnings,
              .report = &report};
    wick_scan *scans = NULL;
    wick_status status;
    int64_t n = 0;
    if (warnings) *warnings = NULL;
    if (n_sources < 1) return wick_fail(ctx, WICK_EINVAL, "there is no source to build");
    scans = wick_calloc((size_t)n_sources, sizeof *scans);
    status = scans ? WICK_OK : out_of_memory(ctx);
    while (!status && n < n_sources) {
        status = wick_scan_source(ctx, &sources[n], &scans[n]);
        n++;
    }
    if (!status) status = settle_archs(&p, scans, n_sources);
    if (!status) status = add_scans(&p, scans, n_sources);
    if (!status) {
        status = run_plan(&p, output);
    } else {
        wick_arena_free(&p.arena);
    }
    if (!status && depfile) {
        status = wick_depfile_write(ctx, depfile, output, sources, n_sources,
                                    wick_text_str(&report.depends));
    }
    if (warnings && report.warnings.size > 0 && !report.warnings.failed) {
        *warnings = report.warnings.data;
        report.warnings = (wick_text){0};
    }
    wick_build_report_free(&report);
    for (int64_t i = 0; i < n; i++) {
        wick_scan_free(&scans[i]);
    }
    wick_free(scans);
    return status;
}
