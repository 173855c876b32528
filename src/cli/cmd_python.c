/* cmd_python.c -- the verbs that are written in Python: `wick new`, `bench`, `tune` and `doctor`
 *
 * They are run by path, as PYTHON .../wick/cli_new.py, and not as `python -m wick new`: that would
 * import the package, and with it torch, which takes a second and may be what is broken; and it
 * would take whatever is called wick in the current folder. Their help is here, so that it is there
 * without Python.
 */
#include "cli.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

/* The Python of this installation is beside the command; a `pip install --user` has it on the
 * PATH. Returns only if none can be run. */
static void run_python(char **argv)
{
    static const char *const names[] = {"python", "python3"};
    char path[PATH_MAX], *slash;
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - sizeof "python3");
    if (n > 0) {
        path[n] = '\0';
        slash = strrchr(path, '/');
        for (int i = 0; slash && i < WICK_COUNT(names); i++) {
            snprintf(slash + 1, sizeof "python3", "%s", names[i]);
            argv[0] = path;
            execv(path, argv);
        }
    }
    argv[0] = (char[]){"python3"};
    execvp("python3", argv);
}

static int run_script(const cli_verb *verb, const char *script, int argc, char **argv)
{
    char *found = NULL, *path = NULL, **args = wick_calloc((size_t)argc + 2, sizeof *args);
    wick_ctx ctx;
    int code;
    wick_ctx_init(&ctx, NULL);
    if (!args) {
        code = cli_fail(verb->called, "out of memory");
    } else if (wick_build_package_file(&ctx, script, &found) ||
               wick_path_absolute(&ctx, found, &path)) {
        code = cli_fail(verb->called, wick_ctx_message(&ctx));
    } else {
        args[1] = path;
        memcpy(args + 2, argv + 1, (size_t)(argc - 1) * sizeof *args);
        run_python(args);
        code = cli_fail(verb->called, "no Python was found: neither python beside the wick command "
                                      "nor python3 on the PATH can be run");
    }
    wick_free(found);
    wick_free(path);
    wick_free(args);
    wick_ctx_deinit(&ctx);
    return code;
}

static bool wants_help(int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) return true;
    }
    return false;
}

int cli_run_python(const cli_verb *verb, int argc, char **argv)
{
    if (wants_help(argc, argv)) {
        cli_verb_help(stdout, verb);
        return CLI_OK;
    }
    char script[64];
    snprintf(script, sizeof script, "cli_%s.py", verb->name);
    return run_script(verb, script, argc, argv);
}

/* ---- new ---- */

static const struct argp_option new_options[] = {
    {"package", 256, NULL, 0, "a package that pip installs, in a folder NAME", 0},
    {"dir", 257, "DIR", 0, "the folder to write into (else this one)", 0},
    {"force", 258, NULL, 0, "write over files that exist", 0},
    {"cuda", 259, NULL, 0, "an operator with a CUDA half", 0},
    {0}};

static const cli_pair new_examples[] = {
    {"wick new softclip", "softclip.c, its reference, test and sizes, in this folder"},
    {"wick new --cuda softclip", "softclip.cu, with kernels for the GPU"},
    {"wick new --package acme", "a package that pip installs, with tests and a CI file"},
    {"cd acme && wick new softclip", "one more operator in it"},
    {0}};

const cli_verb cli_new = {
    .name = "new",
    .called = "wick new",
    .purpose = "start an operator, or a package of operators, from a template",
    .operands = "NAME",
    .description = "Start an operator (source, reference, test, sizes to measure), or a package of "
                   "operators. What is written works as it is: begin by running its test.",
    .options = new_options,
    .examples = new_examples,
    .run = cli_run_python};

/* ---- bench ---- */

static const struct argp_option bench_options[] = {
    {"shapes", 256, "FILE", 0, "sizes from this file (else NAME.shapes.txt beside the source)", 0},
    {"size", 257, "SIZES", 0, "these sizes, as \"N=8x2048 C=4096\"; may be repeated", 0},
    {"types", 258, "TYPES", 0, "element types, as \"f32 bf16\", or all (else f32)", 0},
    {"reference", 259, "FILE", 0, "the reference's file (else NAME.py beside the source)", 0},
    {"against", 260, "NAMES", 0, "of eager, compile, dispatcher and the file's baselines", 0},
    {"device", 261, "DEVICE", 0, "cpu, cuda or cuda:N (else all there are)", 0},
    {"threads", 262, "N", 0, "torch's threads on the CPU", 0},
    {"cache", 263, "STATE", 0, "warm, cold or both (else both)", 0},
    {"rounds", 264, "N", 0, "how often each is timed (else 21)", 0},
    {"quick", 265, NULL, 0, "fewer and shorter samples", 0},
    {"seed", 266, "N", 0, "of the random inputs (else 0)", 0},
    {"json", 267, "FILE", 0, "write JSON lines; - is stdout, without the table", 0},
    {"html", 268, "FILE", 0, "write a report with tables and plots, one file", 0},
    {"plots", 269, "DIR", 0, "write the roofline and a sweep over sizes, PNG and SVG", 0},
    {"profile", 270, "FILE", 0, "write a trace of a few calls, for ui.perfetto.dev", 0},
    {"compare", 271, "FILE", 0, "say what is slower than in this file of --json", 0},
    {0}};

static const cli_pair bench_examples[] = {
    {"wick bench my_op.c", "at the sizes of my_op.shapes.txt, beside the reference my_op.py"},
    {"wick bench relu --types \"f32 bf16\" --threads 1", "an operator that comes with Wick"},
    {"wick bench my_op.c --size \"N=64x196 C=768 T=bf16\" --against eager,apex",
     "one size, beside the reference and my_op_baseline_apex of its file"},
    {"wick bench ops --html report.html", "a folder: tables, roofline and sweeps in one file"},
    {"wick bench my_op.c --json old.json", "all samples; for the next line, after a change"},
    {"wick bench my_op.c --compare old.json", "exit code 1 if it became slower"},
    {0}};

const cli_verb cli_bench = {
    .name = "bench",
    .called = "wick bench",
    .purpose = "measure operators beside torch and beside what the machine allows",
    .operands = "[OPERATOR|FILE.c|MODULE.so|FOLDER...]",
    .description =
        "Measure operators: beside their reference run by torch, eagerly and compiled, beside "
        "other functions of the reference's file (NAME_baseline_...), and beside the floor, the "
        "time in which this machine copies as many bytes. Without operands, all operators that "
        "come with Wick.\n\n"
        "The exit code is 0, 1 (--compare found something slower) or 2 (asked wrongly, or "
        "something could not be loaded, measured, compared or written). docs/bench.md says more, "
        "docs/reports.md how to read what it prints.",
    .options = bench_options,
    .examples = bench_examples,
    .takes_files = true,
    .run = cli_run_python};

/* ---- tune ---- */

static const struct argp_option tune_options[] = {
    {"shapes", 256, "FILE", 0, "sizes from this file (else NAME.shapes.txt beside the source)", 0},
    {"size", 257, "SIZES", 0, "these sizes, as \"N=8x2048 C=4096\"; may be repeated", 0},
    {"types", 258, "TYPES", 0, "element types, as \"f32 bf16\", or all (else f32)", 0},
    {"device", 259, "DEVICE", 0, "cuda or cuda:N (else the current one)", 0},
    {"cache", 260, "STATE", 0, "warm or cold (else cold: the kernel alone)", 0},
    {"rounds", 261, "N", 0, "how often the best are timed beside the rule (else 21)", 0},
    {"dry-run", 262, NULL, 0, "measure and report, keep nothing", 0},
    {"clear", 263, NULL, 0, "forget what was measured of these operators", 0},
    {0}};

static const cli_pair tune_examples[] = {
    {"wick tune my_op.cu", "at the sizes of my_op.shapes.txt"},
    {"wick tune my_op.cu --types all --size \"N=8192 C=4096\"", "every type at one size"},
    {"wick tune my_op.cu --clear", "back to the operator's own rule"},
    {0}};

const cli_verb cli_tune = {
    .name = "tune",
    .called = "wick tune",
    .purpose = "measure the launch choices that an operator leaves open, on this GPU",
    .operands = "OPERATOR|FILE.cu|MODULE.so|FOLDER...",
    .description =
        "Time every combination of the choices that an operator lists with WICK_TUNE beside its "
        "own rule, for each class of sizes. What is clearly better than the rule is kept for GPUs "
        "of this name and used from the next call on; everywhere else the rule holds.\n\n"
        "The exit code is 0, 1 (no GPU, or nothing to choose) or 2 (asked wrongly). docs/cuda.md "
        "has the rest.",
    .options = tune_options,
    .examples = tune_examples,
    .takes_files = true,
    .run = cli_run_python};

/* ---- doctor ---- */

static const struct argp_option doctor_options[] = {
    {"json", 256, NULL, 0, "for programs", 0},
    {"verbose", 257, NULL, 0, "paths and whole messages as well", 0},
    {0}};

static const cli_pair doctor_examples[] = {
    {"wick doctor", "everything: compiler, Python, torch, driver, cache"},
    {"wick doctor cache compiler", "only these checks"},
    {"wick doctor --json | python -m json.tool", "for a bug report"},
    {0}};

const cli_verb cli_doctor = {
    .name = "doctor",
    .called = "wick doctor",
    .purpose = "check that operators can be built and called here; say what to do if not",
    .operands = "[CHECK...]",
    .description =
        "Check that operators can be built, loaded and called here: compiler, Python, torch and "
        "its "
        "CUDA, driver, cache, and versions that do not fit together. Each finding comes with the "
        "command that mends it.\n\n"
        "The exit code is 0 (no problem), 1 (problems) or 2 (something could not be checked).",
    .options = doctor_options,
    .examples = doctor_examples,
    .run = cli_run_python};
