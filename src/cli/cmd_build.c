/* cmd_build.c -- `wick build`: operator files into a module
 *
 * Ahead of time is for other machines: unless told otherwise, the code is built for any x86-64 and
 * for x86-64-v3, and chosen when it is loaded.
 */
#include "cli.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

enum {
    KEY_NAMESPACE = 256,
    KEY_PORTABLE,
    KEY_NATIVE,
    KEY_DEBUG,
    KEY_SANITIZE,
    KEY_KEEP,
    KEY_CC,
    KEY_INCLUDE,
    KEY_FLAG,
    KEY_CUDA_FLAG,
    KEY_DEPFILE,
    KEY_COMPILE_COMMANDS,
    KEY_ARCH,
    KEY_NO_CUDA,
    KEY_STUB
};

static const struct argp_option options[] = {
    {"output", 'o', "MODULE.so", 0, "where the module goes", 0},
    {"namespace", KEY_NAMESPACE, "NS", 0, "namespace of files that name none (else: local)", 0},
    {"portable", KEY_PORTABLE, NULL, 0,
     "for any x86-64 CPU, with a faster version for x86-64-v3 (the default)", 0},
    {"native", KEY_NATIVE, NULL, 0, "for this machine's CPU only", 0},
    {"debug", KEY_DEBUG, NULL, 0, "symbols, no optimisation, WICK_AT checks its indices", 0},
    {"sanitize", KEY_SANITIZE, NULL, 0,
     "with AddressSanitizer and UBSan; what loads the module then needs their library first: "
     "LD_PRELOAD=$(cc -print-file-name=libasan.so)",
     0},
    {"arch", KEY_ARCH, "LIST", 0,
     "the GPUs to compile kernels for, as sm_80,sm_90; PTX of the newest goes with them, for GPUs "
     "to "
     "come (+PTX and -PTX at the end say so or not)",
     0},
    {"no-cuda", KEY_NO_CUDA, NULL, 0, "leave the operators' CUDA versions out", 0},
    {"cc", KEY_CC, "CC", 0, "the C compiler", 0},
    {"flag", KEY_FLAG, "FLAG", 0, "one more flag for the compiler; may be repeated", 0},
    {"cuda-flag", KEY_CUDA_FLAG, "FLAG", 0,
     "one more flag for the compiler of kernels, spelt as nvcc's; may be repeated", 0},
    {"include", KEY_INCLUDE, "DIR", 0, "the folder of <wick/op.h>", 0},
    {"depfile", KEY_DEPFILE, "FILE", 0,
     "write the files that went into the module, as a rule for make or ninja", 0},
    {"compile-commands", KEY_COMPILE_COMMANDS, "DIR", 0,
     "write DIR/compile_commands.json and DIR/.clangd, so that an editor understands the files; "
     "without -o nothing is built",
     0},
    {"stub", KEY_STUB, "FILE.pyi", 0,
     "write the operators as Python functions, for editors and type checkers; without -o nothing "
     "is built",
     0},
    {"keep", KEY_KEEP, NULL, 0, "keep the generated files and say where they are", 0},
    {"quiet", 'q', NULL, 0, "say nothing when all goes well", 0},
    {"verbose", 'v', NULL, 0, "say what is done", 0},
    {0}};

typedef struct arguments {
    wick_source *sources;
    const char **flags; /* ours (--sanitize) and then the person's */
    const char **cuda_flags;
    int64_t n_sources, n_flags, n_cuda_flags;
    const char *output, *editor_dir, *stub;
    bool quiet, verbose, sanitize;
    wick_build_options options;
} arguments;

/* The flags go to the compiler as the person's own do, in front of those. */
static void add_sanitizer(arguments *a)
{
    for (int i = 0; !a->sanitize && i < wick_toolchain_n_flags; i++) {
        const wick_flag *f = &wick_toolchain_flags[i];
        if (f->use == WICK_FLAG_SANITIZE) a->flags[a->n_flags++] = f->flag;
    }
    a->sanitize = true;
}

/* The type is argp's. NOLINTNEXTLINE(readability-non-const-parameter) */
static error_t parse(int key, char *value, struct argp_state *state)
{
    arguments *a = state->input;
    switch (key) {
    case 'o': a->output = value; break;
    case 'q': a->quiet = true; break;
    case 'v': a->verbose = true; break;
    case KEY_NAMESPACE: a->options.ns = value; break;
    case KEY_PORTABLE: a->options.portable = true; break;
    case KEY_NATIVE: a->options.portable = false; break;
    case KEY_DEBUG: a->options.debug = true; break;
    case KEY_SANITIZE: add_sanitizer(a); break;
    case KEY_KEEP: a->options.keep = true; break;
    case KEY_CC: a->options.compiler = value; break;
    case KEY_INCLUDE: a->options.include_dir = value; break;
    case KEY_DEPFILE: a->options.depfile = value; break;
    case KEY_COMPILE_COMMANDS: a->editor_dir = value; break;
    case KEY_ARCH: a->options.archs = value; break;
    case KEY_NO_CUDA: a->options.no_cuda = true; break;
    case KEY_STUB: a->stub = value; break;
    case KEY_FLAG: a->flags[a->n_flags++] = value; break;
    case KEY_CUDA_FLAG: a->cuda_flags[a->n_cuda_flags++] = value; break;
    case ARGP_KEY_ARG: a->sources[a->n_sources++].path = value; break;
    case ARGP_KEY_END:
        if (a->n_sources == 0) argp_error(state, "which file is to be built?");
        if (!a->output && !a->editor_dir && !a->stub)
            argp_error(state, "where to? Say -o MODULE.so");
        break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

/* ---- the environment of a package's build ---- */

/* As wick_add_operators reads it: any word but those that mean no. */
static bool is_on(const char *value)
{
    static const char *const no[] = {"", "0", "off", "no", "false", "n"};
    for (int i = 0; value && i < WICK_COUNT(no); i++) {
        if (strcasecmp(value, no[i]) == 0) return false;
    }
    return value != NULL;
}

/* ---- the build ---- */

/* How many operators the sources define. They have just been built, so they can be read. */
static int64_t count_operators(wick_ctx *ctx, const arguments *a)
{
    int64_t n = 0;
    for (int64_t i = 0; i < a->n_sources; i++) {
        const wick_module_table *table = NULL;
        if (wick_build_list(ctx, &a->sources[i], &table)) continue;
        n += table->n_ops;
        wick_build_list_free(table);
    }
    return n;
}

static void tell_summary(const cli_verb *verb, wick_ctx *ctx, const arguments *a, int64_t units,
                         double seconds)
{
    int64_t ops = count_operators(ctx, a);
    fprintf(stderr, "%s: built %lld operator%s, %lld unit%s, %.1f s -> ", verb->called,
            (long long)ops, ops == 1 ? "" : "s", (long long)units, units == 1 ? "" : "s", seconds);
    cli_put_name(stderr, a->output);
    fputs("\n", stderr);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int build(const cli_verb *verb, wick_ctx *ctx, arguments *a)
{
    double start = now();
    char *warnings = NULL;
    wick_status status;
    int64_t units;
    cli_progress *progress = a->quiet ? NULL : cli_progress_start(verb->called, a->verbose);
    a->options.progress = cli_progress_step;
    a->options.progress_arg = progress;
    status = wick_build_module(ctx, a->sources, a->n_sources, &a->options, a->output, &warnings);
    units = cli_progress_stop(progress);
    if (warnings) fputs(warnings, stderr);
    wick_string_free(warnings);
    if (status) return cli_fail(verb->called, wick_ctx_message(ctx));
    if (!a->quiet) tell_summary(verb, ctx, a, units, now() - start);
    return CLI_OK;
}

static int work(const cli_verb *verb, arguments *a)
{
    wick_ctx *ctx = wick_ctx_new();
    int code = CLI_OK;
    if (!ctx) return cli_fail(verb->called, "out of memory");
    if (a->editor_dir &&
        cli_editor_write(ctx, a->sources, a->n_sources, &a->options, a->editor_dir)) {
        code = cli_fail(verb->called, wick_ctx_message(ctx));
    }
    if (!code && a->stub && cli_stub_write(ctx, a->sources, a->n_sources, a->stub)) {
        code = cli_fail(verb->called, wick_ctx_message(ctx));
    }
    if (!code && a->output) code = build(verb, ctx, a);
    wick_ctx_free(ctx);
    return code;
}

static int run(const cli_verb *verb, int argc, char **argv)
{
    size_t n = (size_t)argc + 1, n_flags = n + (size_t)wick_toolchain_n_flags;
    arguments a = {.sources = calloc(n, sizeof *a.sources),
                   .flags = calloc(n_flags, sizeof *a.flags),
                   .cuda_flags = calloc(n, sizeof *a.cuda_flags)};
    int code;
    a.options.portable = true;
    a.options.debug = is_on(getenv("DEBUG"));
    a.options.flags = a.flags;
    a.options.cuda_flags = a.cuda_flags;
    if (!a.sources || !a.flags || !a.cuda_flags) {
        code = cli_fail(verb->called, "out of memory");
    } else {
        cli_parse(verb, parse, argc, argv, &a);
        code = work(verb, &a);
    }
    free(a.sources);
    free(a.flags);
    free(a.cuda_flags);
    return code;
}

static const cli_pair environment[] = {
    {"CC, CFLAGS", "the C compiler, and flags for it that come after Wick's"},
    {"DEBUG=1", "as --debug"},
    {"USE_CUDA=0", "as --no-cuda"},
    {"WICK_CUDA_ARCHS, GPU_TARGETS", "as --arch (\"80;90\")"},
    {"WICK_CUDA_COMPILER", "nvrtc (the default), nvcc, or the path of an nvcc"},
    {"WICK_NVRTC", "the file of NVRTC, where it is not found by itself"},
    {"TMPDIR", "where the compiler works"},
    {0}};

static const cli_pair examples[] = {
    {"wick build ops/*.c --namespace acme -o acme_ops.so",
     "one module of all operators, for any x86-64"},
    {"wick build --debug --native relu.c -o relu.so", "a module to step through with gdb"},
    {"wick build ops/*.c --compile-commands .", "for the editor: what clangd needs"},
    {"wick build ops/*.c --stub acme/__init__.pyi", "for the editor: the Python functions"},
    {0}};

const cli_verb cli_build = {
    .name = "build",
    .called = "wick build",
    .purpose = "turn operator files into a module",
    .operands = "FILE...",
    .description =
        "Turn operator files into one module, for every element type they list and, where they "
        "have "
        "a CUDA version, every GPU asked for. The module links libc and libm and nothing else: "
        "PyTorch 2.10 and later, any Python and plain C programs load the same file, with or "
        "without a GPU.",
    .options = options,
    .environment = environment,
    .examples = examples,
    .takes_files = true,
    .run = run};
