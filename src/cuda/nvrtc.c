/* nvrtc.c -- CUDA C into a cubin or PTX
 *
 * Each compilation is a program of its own, so any number of threads may compile at once: NVRTC
 * serialises what it must.
 */
#include "nvrtc.h"

#include <stdio.h>
#include <string.h>

/* ---- architectures ---- */

static void list_archs(wick_text *out, const nvrtc_library *n)
{
    for (int i = 0; i < n->n_archs; i++)
        wick_text_printf(out, "%ssm_%d", i ? ", " : "", (int)n->archs[i]);
}

static wick_status check_arch(wick_ctx *ctx, const nvrtc_library *n, int32_t arch)
{
    for (int i = 0; i < n->n_archs; i++)
        if (n->archs[i] == arch) return WICK_OK;
    wick_text list = {0};
    list_archs(&list, n);
    const char *what = n->n_archs && arch > n->archs[n->n_archs - 1] ? "is too new for"
                       : n->n_archs && arch < n->archs[0]            ? "is too old for"
                                                                     : "is unknown to";
    wick_status s = wick_fail(ctx, WICK_ENOTSUP, "sm_%d %s NVRTC %d.%d (%s), which compiles for %s",
                              (int)arch, what, n->major, n->minor, n->path, wick_text_str(&list));
    wick_text_free(&list);
    return s;
}

wick_status wick_nvrtc_supports(wick_ctx *ctx, int32_t arch)
{
    const nvrtc_library *n = NULL;
    WICK_TRY(wick_nvrtc_find(ctx, &n));
    return check_arch(ctx, n, arch);
}

wick_status wick_nvrtc_open(wick_ctx *ctx)
{
    const nvrtc_library *n = NULL;
    return wick_nvrtc_find(ctx, &n);
}

wick_status wick_nvrtc_identity(wick_ctx *ctx, const char **out)
{
    const nvrtc_library *n = NULL;
    WICK_TRY(wick_nvrtc_find(ctx, &n));
    *out = n->identity;
    return WICK_OK;
}

wick_status wick_nvrtc_folder(wick_ctx *ctx, const char **out)
{
    const nvrtc_library *n = NULL;
    WICK_TRY(wick_nvrtc_find(ctx, &n));
    *out = n->folder;
    return WICK_OK;
}

/* ---- compiling ---- */

/* What a job is to NVRTC. */
typedef struct nvrtc_input {
    char arch[48];
    const char **options; /* arch, then the job's; owned, as are the two below */
    int n_options;
    const char **names, **texts; /* of headers */
} nvrtc_input;

static wick_status make_input(wick_ctx *ctx, const wick_nvrtc_job *job, nvrtc_input *in)
{
    int n = 0;
    while (job->flags && job->flags[n])
        n++;
    snprintf(in->arch, sizeof in->arch, "--gpu-architecture=%s_%d", job->ptx ? "compute" : "sm",
             (int)job->arch);
    in->options = wick_malloc(((size_t)n + 1) * sizeof *in->options);
    in->names = wick_malloc((size_t)job->n_headers * sizeof *in->names);
    in->texts = wick_malloc((size_t)job->n_headers * sizeof *in->texts);
    if (!in->options || !in->names || !in->texts)
        return wick_fail(ctx, WICK_ENOMEM, "out of memory compiling %s", job->name);
    in->options[in->n_options++] = in->arch;
    for (int i = 0; i < n; i++)
        in->options[in->n_options++] = job->flags[i];
    for (int i = 0; i < job->n_headers; i++) {
        in->names[i] = job->headers[i].name;
        in->texts[i] = job->headers[i].text;
    }
    return WICK_OK;
}

static void free_input(nvrtc_input *in)
{
    wick_free(in->options);
    wick_free(in->names);
    wick_free(in->texts);
}

/* The first line of the log that has an error, without its end. */
static size_t first_error(const char *log, const char **out)
{
    while (*log) {
        size_t n = strcspn(log, "\n");
        const char *found = strstr(log, "error");
        if (found && found < log + n) {
            *out = log;
            return n;
        }
        log += n + (log[n] == '\n');
    }
    return 0;
}

static wick_status fail_compile(wick_ctx *ctx, const nvrtc_library *n, const wick_nvrtc_job *job,
                                nvrtc_result result, const char *log)
{
    const char *line = NULL;
    size_t length = log ? first_error(log, &line) : 0;
    if (result == NVRTC_OUT_OF_MEMORY)
        return wick_fail(ctx, WICK_ENOMEM, "NVRTC ran out of memory compiling %s", job->name);
    if (length) return wick_fail(ctx, WICK_ECOMPILE, "%.*s", (int)length, line);
    return wick_fail(ctx, WICK_ECOMPILE, "%s: NVRTC %d.%d says %s", job->name, n->major, n->minor,
                     n->nvrtcGetErrorString(result));
}

static wick_status read_log(wick_ctx *ctx, const nvrtc_library *n, const wick_nvrtc_job *job,
                            nvrtc_program program, char **out)
{
    size_t size = 0;
    if (n->nvrtcGetProgramLogSize(program, &size)) size = 0; /* the result says it as well */
    char *log = wick_calloc(size + 1, 1);
    if (!log) return wick_fail(ctx, WICK_ENOMEM, "out of memory compiling %s", job->name);
    if (size && n->nvrtcGetProgramLog(program, log)) log[0] = '\0';
    *out = log;
    return WICK_OK;
}

static wick_status read_code(wick_ctx *ctx, const nvrtc_library *n, const wick_nvrtc_job *job,
                             nvrtc_program program, char **out, size_t *out_size)
{
    size_t size = 0;
    char *code = NULL;
    nvrtc_result result =
        job->ptx ? n->nvrtcGetPTXSize(program, &size) : n->nvrtcGetCUBINSize(program, &size);
    if (!result) {
        code = wick_malloc(size);
        if (!code) return wick_fail(ctx, WICK_ENOMEM, "out of memory compiling %s", job->name);
        result = job->ptx ? n->nvrtcGetPTX(program, code) : n->nvrtcGetCUBIN(program, code);
    }
    if (result) {
        wick_free(code);
        return fail_compile(ctx, n, job, result, NULL);
    }
    *out = code;
    *out_size = size;
    return WICK_OK;
}

static wick_status compile(wick_ctx *ctx, const nvrtc_library *n, const wick_nvrtc_job *job,
                           nvrtc_program program, const nvrtc_input *in, char **code, size_t *size,
                           char **log)
{
    nvrtc_result result = n->nvrtcCompileProgram(program, in->n_options, in->options);
    WICK_TRY(read_log(ctx, n, job, program, log));
    if (result) return fail_compile(ctx, n, job, result, *log);
    return read_code(ctx, n, job, program, code, size);
}

wick_status wick_nvrtc_compile(wick_ctx *ctx, const wick_nvrtc_job *job, char **code, size_t *size,
                               char **log)
{
    const nvrtc_library *n = NULL;
    nvrtc_program program = NULL;
    nvrtc_input in = {0};
    *code = *log = NULL;
    *size = 0;
    wick_status s = wick_nvrtc_find(ctx, &n);
    if (s == WICK_OK) s = check_arch(ctx, n, job->arch);
    if (s == WICK_OK) s = make_input(ctx, job, &in);
    if (s != WICK_OK) goto done;
    nvrtc_result result =
        n->nvrtcCreateProgram(&program, job->text, job->name, job->n_headers, in.texts, in.names);
    s = result ? fail_compile(ctx, n, job, result, NULL)
               : compile(ctx, n, job, program, &in, code, size, log);
done:
    if (program) n->nvrtcDestroyProgram(&program);
    free_input(&in);
    if (!*log) *log = wick_strdup("");
    return s;
}
