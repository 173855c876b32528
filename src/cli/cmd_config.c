/* cmd_config.c -- `wick config`: where things are, for build systems that know nothing of Wick */
#include "cli.h"

#include <string.h>

enum { CFLAGS = 256, INCLUDE, LIBS, CMAKE, VERSION };

static const struct argp_option options[] = {
    {"cflags", CFLAGS, NULL, 0, "flags to compile a program that includes <wick/wick.h>", 0},
    {"include", INCLUDE, NULL, 0, "the folder of <wick/op.h>", 0},
    {"libs", LIBS, NULL, 0, "flags to link a program with libwick.so", 0},
    {"cmake", CMAKE, NULL, 0, "the folder of wick-config.cmake, for -Dwick_DIR=", 0},
    {"version", VERSION, NULL, 0, "the version", 0},
    {0}};

typedef struct arguments {
    int asked[64]; /* in the order asked for */
    int n;
} arguments;

/* The type is argp's. NOLINTNEXTLINE(readability-non-const-parameter) */
static error_t parse(int key, char *value, struct argp_state *state)
{
    arguments *a = state->input;
    (void)value;
    if (key < CFLAGS || key > VERSION) return ARGP_ERR_UNKNOWN;
    if (a->n < WICK_COUNT(a->asked)) a->asked[a->n++] = key;
    return 0;
}

/* Owned; NULL when it is not there. */
static char *absolute(wick_ctx *ctx, char *found)
{
    char *path = NULL;
    if (!found || wick_path_absolute(ctx, found, &path)) path = NULL;
    wick_free(found);
    return path;
}

/* The folder of an installed file. */
static char *folder_of(wick_ctx *ctx, const char *name)
{
    char *found = NULL;
    if (wick_build_package_file(ctx, name, &found)) return NULL;
    char *path = absolute(ctx, found), *slash = path ? strrchr(path, '/') : NULL;
    if (slash) *slash = '\0';
    return path;
}

static char *include_folder(wick_ctx *ctx)
{
    char *found = NULL;
    return wick_install_include(ctx, &found) ? NULL : absolute(ctx, found);
}

/* In a wheel the library is in lib/; in a build folder it lies beside the command. */
static char *library_folder(wick_ctx *ctx)
{
    char *path = folder_of(ctx, "lib/libwick.so");
    if (path) return path;
    wick_ctx_clear(ctx);
    return folder_of(ctx, "libwick.so");
}

/* As pkg-config does: what a shell or make would take apart is escaped. */
static void print_escaped(const char *path)
{
    for (; *path; path++) {
        if (strchr(" \t\n'\"\\$`;&|<>()*?[]#~!{}", *path)) putchar('\\');
        putchar(*path);
    }
}

static wick_status print_one(wick_ctx *ctx, int key)
{
    char *path;
    if (key == VERSION) {
        puts(WICK_VERSION);
        return WICK_OK;
    }
    path = key == LIBS    ? library_folder(ctx)
           : key == CMAKE ? folder_of(ctx, "cmake/wick-config.cmake")
                          : include_folder(ctx);
    if (!path) return WICK_EIO;
    if (key == CFLAGS || key == LIBS) {
        printf(key == CFLAGS ? "-I" : "-L");
        print_escaped(path);
    }
    if (key == LIBS) {
        printf(" -Wl,-rpath,");
        print_escaped(path);
        printf(" -lwick");
    }
    if (key == INCLUDE || key == CMAKE) printf("%s", path);
    puts("");
    wick_free(path);
    return WICK_OK;
}

/* Everything with its name; what is not there is left out. */
static void print_all(wick_ctx *ctx)
{
    for (const struct argp_option *o = options; o->name; o++) {
        printf("%-8s ", o->name);
        if (print_one(ctx, o->key)) puts("(not installed)");
        wick_ctx_clear(ctx);
    }
}

static int run(const cli_verb *verb, int argc, char **argv)
{
    arguments a = {0};
    wick_ctx ctx;
    int code = CLI_OK;
    cli_parse(verb, parse, argc, argv, &a);
    wick_ctx_init(&ctx, NULL);
    if (a.n == 0) print_all(&ctx);
    for (int i = 0; !code && i < a.n; i++) {
        if (print_one(&ctx, a.asked[i])) code = cli_fail(verb->called, wick_ctx_message(&ctx));
    }
    wick_ctx_deinit(&ctx);
    return code;
}

static const cli_pair environment[] = {
    {"WICK_INCLUDE", "the folder of <wick/op.h>, if not the installed one"}, {0}};

static const cli_pair examples[] = {
    {"cc host.c $(wick config --cflags --libs) -o host", "a C program that calls operators"},
    {"cmake -S . -B build -Dwick_DIR=$(wick config --cmake)",
     "a CMake project with find_package(wick)"},
    {"wick config", "everything at once"},
    {0}};

const cli_verb cli_config = {
    .name = "config",
    .called = "wick config",
    .purpose = "print paths and flags for other build systems",
    .operands = "",
    .description =
        "Print what other build systems need to use this installation: each thing asked "
        "for on a line of its own, in the order asked for; all of them by name when none "
        "is. Operators are built with wick build, or from CMake with "
        "wick_add_operators.",
    .options = options,
    .environment = environment,
    .examples = examples,
    .run = run};
