/* cmd_build.c -- `wick build`: operator files into a module
 *
 * Ahead of time is for other machines: unless told otherwise, the code is built for any x86-64 and
 * for x86-64-v3, and chosen when it is loaded.
 */
#include "cli.h"

#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    KEY_NAMESPACE = 256,
    KEY_PORTABLE,
    KEY_NATIVE,
    KEY_DEBUG,
    KEY_KEEP,
    KEY_CC,
    KEY_INCLUDE,
    KEY_FLAG
};

typedef struct arguments {
    wick_source *sources;
    const char **flags;
    int64_t n_sources, n_flags;
    const char *output;
    wick_build_options options;
} arguments;

static const struct argp_option options[] = {
    {"output", 'o', "MODULE.so", 0, "where the module goes", 0},
    {"namespace", KEY_NAMESPACE, "NS", 0, "namespace of files that name none (else: local)", 0},
    {"portable", KEY_PORTABLE, NULL, 0,
     "for any x86-64 CPU, with a faster version for x86-64-v3 (the default)", 0},
    {"native", KEY_NATIVE, NULL, 0, "for this machine's CPU only", 0},
    {"debug", KEY_DEBUG, NULL, 0, "symbols, no optimisation", 0},
    {"cc", KEY_CC, "CC", 0, "the C compiler (else $CC, else cc)", 0},
    {"flag", KEY_FLAG, "FLAG", 0, "one more flag for the compiler; may be repeated", 0},
    {"include", KEY_INCLUDE, "DIR", 0, "the folder of <wick/op.h>", 0},
    {"keep", KEY_KEEP, NULL, 0, "keep the generated files and say where they are", 0},
    {"verbose", 'v', NULL, 0, "say what is done", 0},
    {0}};

static void report(void *arg, int64_t done, int64_t total, const char *what)
{
    (void)arg;
    fprintf(stderr, "wick build: [%lld/%lld] %s\n", (long long)done, (long long)total, what);
}

/* The type is argp's. NOLINTNEXTLINE(readability-non-const-parameter) */
static error_t parse(int key, char *value, struct argp_state *state)
{
    arguments *a = state->input;
    switch (key) {
    case 'o': a->output = value; break;
    case 'v': a->options.progress = report; break;
    case KEY_NAMESPACE: a->options.ns = value; break;
    case KEY_PORTABLE: a->options.portable = true; break;
    case KEY_NATIVE: a->options.portable = false; break;
    case KEY_DEBUG: a->options.debug = true; break;
    case KEY_KEEP: a->options.keep = true; break;
    case KEY_CC: a->options.compiler = value; break;
    case KEY_INCLUDE: a->options.include_dir = value; break;
    case KEY_FLAG: a->flags[a->n_flags++] = value; break;
    case ARGP_KEY_ARG: a->sources[a->n_sources++].path = value; break;
    case ARGP_KEY_END:
        if (a->n_sources == 0) argp_error(state, "which file is to be built?");
        if (!a->output) argp_error(state, "where to? Say -o MODULE.so");
        break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static int build(const arguments *a, const char *verb)
{
    wick_ctx *ctx = wick_ctx_new();
    char *warnings = NULL;
    int code = CLI_OK;
    if (!ctx) return cli_fail(verb, "out of memory");
    if (wick_build_module(ctx, a->sources, a->n_sources, &a->options, a->output, &warnings)) {
        code = cli_fail(verb, wick_ctx_message(ctx));
    }
    if (warnings) fputs(warnings, stderr);
    wick_string_free(warnings);
    wick_ctx_free(ctx);
    return code;
}

int cmd_build(int argc, char **argv)
{
    static const struct argp argp = {
        options,
        parse,
        "FILE...",
        "Turn operator files into one module, for every element type they list.\v"
        "Example:\n  wick build ops/*.c --namespace acme -o acme_ops.so",
        NULL,
        NULL,
        NULL};
    size_t n = (size_t)argc + 1;
    arguments a = {.sources = calloc(n, sizeof *a.sources), .flags = calloc(n, sizeof *a.flags)};
    int code;
    a.options.portable = true;
    a.options.flags = a.flags;
    if (!a.sources || !a.flags) {
        code = cli_fail(argv[0], "out of memory");
    } else {
        argp_parse(&argp, argc, argv, 0, NULL, &a);
        code = build(&a, argv[0]);
    }
    free(a.sources);
    free(a.flags);
    return code;
}
