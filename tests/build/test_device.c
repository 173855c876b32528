/* test_device.c -- settings, flags, words and identities of device code; no GPU, no real compiler
 *
 * Where a compiler is needed, it is a script of the test's own that writes down how it was called.
 */
#define _GNU_SOURCE 1
#include "support.h"

#include "device.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char *folder;
static wick_ctx ctx;
static wick_arena arena;

static void setup(void)
{
    static const char *const variables[] = {"WICK_CUDA_ARCHS", "GPU_TARGETS",        "USE_CUDA",
                                            "CFLAGS",          "WICK_CUDA_COMPILER", "CUDA_HOME",
                                            "CUDA_PATH",       "NVCC_APPEND_FLAGS"};
    for (int i = 0; i < WICK_COUNT(variables); i++)
        unsetenv(variables[i]);
    folder = enter_folder();
    wick_ctx_init(&ctx, NULL);
}

static void teardown(void)
{
    wick_arena_free(&arena);
    wick_ctx_deinit(&ctx);
    leave_folder(folder);
    cr_expect_eq(wick_memory_live(), 0);
}

TestSuite(device, .init = setup, .fini = teardown);

#define KERNEL "static __global__ void k(const T *x, T *y, int64_t N) { y[N] = x[N]; }\n"

static void scan_text(wick_scan *scan, const char *text)
{
    wick_source source = {"op.c", text};
    cr_assert_eq(wick_scan_source(&ctx, &source, scan), WICK_OK, "%s", wick_ctx_message(&ctx));
}

/* ---- settings ---- */

static void expect_archs(const char *option, const char *expected)
{
    wick_build_options options = {.archs = option};
    wick_archs archs;
    wick_text text = {0};
    cr_assert_eq(wick_device_archs(&ctx, &options, &archs), WICK_OK, "%s", wick_ctx_message(&ctx));
    for (int i = 0; i < archs.n; i++)
        wick_text_printf(&text, "%d ", (int)archs.arch[i]);
    if (archs.ptx) wick_text_printf(&text, "ptx%d", (int)archs.ptx);
    cr_expect_str_eq(wick_text_str(&text), expected);
    wick_text_free(&text);
}

Test(device, which_gpus_are_compiled_for)
{
    wick_build_options options = {.archs = "sm_ninety"};
    wick_archs archs;
    expect_archs(NULL, "75 80 90 ptx90");
    setenv("GPU_TARGETS", "86", 1);
    expect_archs(NULL, "86 ptx86");
    setenv("WICK_CUDA_ARCHS", "8.0;9.0-PTX", 1);
    expect_archs(NULL, "80 90 ");
    expect_archs("sm_100,sm_90", "90 100 ptx100");
    cr_expect_eq(wick_device_archs(&ctx, &options, &archs), WICK_EINVAL);
    cr_expect(strstr(wick_ctx_message(&ctx), "--arch: \"sm_ninety\" is not an architecture"));
    wick_ctx_clear(&ctx);
    setenv("WICK_CUDA_ARCHS", "all", 1);
    cr_expect_eq(wick_device_archs(&ctx, NULL, &archs), WICK_EINVAL);
    cr_expect(strstr(wick_ctx_message(&ctx), "WICK_CUDA_ARCHS: \"all\""));
}

Test(device, whether_it_is_wanted)
{
    wick_build_options options = {.no_cuda = true};
    static const char *const no[] = {"0", "OFF", "no", "False"}, *const yes[] = {"1", "ON", ""};
    cr_expect(wick_device_wanted(NULL));
    cr_expect(!wick_device_wanted(&options));
    for (int i = 0; i < WICK_COUNT(no); i++) {
        setenv("USE_CUDA", no[i], 1);
        cr_expect(!wick_device_wanted(NULL), "USE_CUDA=%s", no[i]);
    }
    for (int i = 0; i < WICK_COUNT(yes); i++) {
        setenv("USE_CUDA", yes[i], 1);
        cr_expect(wick_device_wanted(NULL), "USE_CUDA=%s", yes[i]);
    }
}

/* ---- flags ---- */

/* One flag, or one flag and its value, is among them. */
static bool has_flag(const wick_args *args, const char *flag)
{
    for (int64_t i = 0; i < args->count; i++)
        if (!strcmp(args->items[i], flag)) return true;
    return false;
}

static wick_args flags_of(const char *text, const wick_build_options *options, bool nvcc)
{
    wick_args args = {.arena = &arena};
    wick_scan scan;
    scan_text(&scan, text);
    cr_assert_eq(wick_device_flags(&ctx, &scan, options, nvcc, &args), WICK_OK, "%s",
                 wick_ctx_message(&ctx));
    wick_scan_free(&scan);
    return args;
}

Test(device, flags_of_the_c_compiler_that_hold_for_kernels)
{
    static const char *const flags[] = {"-DA=1",   "-D",   "B",   "-UC",           "-Iinc",
                                        "-iquote", "mine", "-O2", "-march=native", NULL};
    wick_build_options options = plain_options(NULL);
    options.flags = flags;
    setenv("CFLAGS", "-DFROM_CFLAGS -Wextra", 1);
    wick_args args = flags_of(HEAD BODY KERNEL, &options, false);
    static const char *const wanted[] = {
        "-DFROM_CFLAGS", "-DA=1", "-DB", "-UC", "-Iinc", "-Imine", "-I" WICK_TEST_ROOT "/include"};
    static const char *const others[] = {"-O2",     "-march=native", "-Wextra",
                                         "-iquote", "-lineinfo",     "-use_fast_math"};
    for (int i = 0; i < WICK_COUNT(wanted); i++)
        cr_expect(has_flag(&args, wanted[i]), "%s", wanted[i]);
    for (int i = 0; i < WICK_COUNT(others); i++)
        cr_expect(!has_flag(&args, others[i]), "%s", others[i]);
}

Test(device, flags_for_the_device_compiler_as_far_as_it_takes_them)
{
    static const char *const flags[] = {"-maxrregcount=32",
                                        "-O3",
                                        "-Xcompiler",
                                        "-fPIC",
                                        "-Xcompiler=-Wall",
                                        "--expt-relaxed-constexpr",
                                        "-gencode",
                                        "arch=compute_80,code=sm_80",
                                        "-arch=sm_70",
                                        "-t4",
                                        "--fmad=false",
                                        "-time",
                                        NULL};
    wick_build_options options = plain_options(NULL);
    options.cuda_flags = flags;
    wick_args args = flags_of(HEAD BODY KERNEL, &options, false);
    static const char *const both[] = {"-maxrregcount=32", "--fmad=false", "-time"};
    static const char *const of_nvcc[] = {
        "-O3", "-Xcompiler", "-fPIC", "-Xcompiler=-Wall", "--expt-relaxed-constexpr", "-t4"};
    static const char *const of_nobody[] = {"-gencode", "arch=compute_80,code=sm_80",
                                            "-arch=sm_70"};
    wick_args nvcc = flags_of(HEAD BODY KERNEL, &options, true);
    for (int i = 0; i < WICK_COUNT(both); i++)
        cr_expect(has_flag(&args, both[i]) && has_flag(&nvcc, both[i]), "%s", both[i]);
    for (int i = 0; i < WICK_COUNT(of_nvcc); i++)
        cr_expect(!has_flag(&args, of_nvcc[i]) && has_flag(&nvcc, of_nvcc[i]), "%s", of_nvcc[i]);
    for (int i = 0; i < WICK_COUNT(of_nobody); i++)
        cr_expect(!has_flag(&args, of_nobody[i]) && !has_flag(&nvcc, of_nobody[i]), "%s",
                  of_nobody[i]);
}

Test(device, flags_that_the_file_and_the_build_ask_for)
{
    wick_build_options options = plain_options(NULL);
    options.debug = true;
    wick_args args = flags_of(HEAD BODY "WICK_FAST_MATH;\n" KERNEL, &options, false);
    cr_expect(has_flag(&args, "-lineinfo") && has_flag(&args, "-use_fast_math"));
    cr_expect(has_flag(&args, "-default-device"), "NVRTC's own");
    args = flags_of(HEAD BODY KERNEL, &options, true);
    cr_expect(!has_flag(&args, "-default-device") && !has_flag(&args, "-use_fast_math"));
}

Test(device, libraries_for_a_link_by_nvcc)
{
    static const char *const flags[] = {
        "-O2", "-I", "inc", "-L/opt/lib", "-lblas", "-Wl,-rpath,/opt/lib", "more.o", NULL};
    wick_build_options options = {.flags = flags};
    wick_args args = {.arena = &arena};
    wick_nvcc_link_flags(&options, &args);
    static const char *const expected[] = {"-L/opt/lib", "-lblas", "-Xlinker", "-rpath,/opt/lib",
                                           "more.o"};
    cr_assert_eq(args.count, WICK_COUNT(expected));
    for (int i = 0; i < WICK_COUNT(expected); i++)
        cr_expect_str_eq(args.items[i], expected[i]);
}

/* ---- what a compiler says ---- */

static void expect_diagnosis(const char *text, const char *log, const char *message)
{
    wick_scan scan;
    scan_text(&scan, text);
    cr_expect_eq(wick_device_diagnose(&ctx, &scan, log), WICK_ECOMPILE);
    cr_expect_str_eq(wick_ctx_message(&ctx), message);
    wick_ctx_clear(&ctx);
    wick_scan_free(&scan);
}

Test(device, errors_are_told_at_the_authors_line)
{
    const char *file = HEAD BODY KERNEL;
    expect_diagnosis(file,
                     "op.c(7): warning #177-D: x\n\nop.c(12): error: identifier \"y\" is "
                     "undefined\n      y = 3;\n      ^\n\nop.c(13): error: another\n\n2 errors\n",
                     "op.c:12: error: identifier \"y\" is undefined\n      y = 3;\n      ^");
    expect_diagnosis(file,
                     "op.c(12): error: no operator \"*\"\n            operand types are: A\n"
                     "op.c(9): note #3328-D: built-in\n      ^\n\n1 error\n",
                     "op.c:12: error: no operator \"*\"\n            operand types are: A\n"
                     "op.c:9: note #3328-D: built-in\n      ^");
    expect_diagnosis(file, "op.c:12:5: error: 'v' was not declared\n   12 | v\n      | ^\n",
                     "op.c:12: error: 'v' was not declared\n   12 | v\n      | ^");
    expect_diagnosis(file, "/a (1): b/gates.h(3): error: bad\n\n",
                     "op.c:1: in /a (1): b/gates.h:3: error: bad");
    expect_diagnosis(
        file,
        "op.c(2): catastrophic error: could not open source file \"cuda_fp16.h\" (no "
        "directories in search list)\n  #include <cuda_fp16.h>\n\n",
        "op.c:2: catastrophic error: could not open source file \"cuda_fp16.h\" (no "
        "directories in search list)\n  #include <cuda_fp16.h>\nCUDA's own headers are "
        "not here: `pip install nvidia-cuda-runtime` brings them, or set CUDA_HOME to "
        "a toolkit");
}

Test(device, errors_without_a_line)
{
    expect_diagnosis(HEAD BODY "\n\n" KERNEL,
                     "ptxas error   : Entry function 'k' uses too much shared data (0x10000 bytes, "
                     "0xc000 max)\n",
                     "op.c:11: error: Entry function 'k' uses too much shared data (0x10000 bytes, "
                     "0xc000 max)");
    expect_diagnosis(HEAD BODY KERNEL, "ptxas error : Entry function 'other' is bad\n",
                     "op.c:1: error: Entry function 'other' is bad");
    expect_diagnosis(HEAD BODY KERNEL, "nvrtc: error: unrecognized option -Wall found\n",
                     "op.c:1: the device code does not compile: nvrtc: error: unrecognized option "
                     "-Wall found\n\nNVRTC does not know one of the flags: look at "
                     "extra_cuda_cflags and --cuda-flag");
    expect_diagnosis(HEAD BODY KERNEL, "",
                     "op.c:1: the device code does not compile: the compiler gave no reason");
}

Test(device, warnings_are_told_once)
{
    wick_text out = {0};
    const char *log = "op.c(12): warning #39-D: division by zero\n      x / 0\n          ^\n\n"
                      "Remark: The warnings can be suppressed with \"-diag-suppress\"\n\n"
                      "op.c(14): warning #177-D: unused\n\n";
    wick_device_warnings(&out, log);
    wick_device_warnings(&out, log);
    cr_expect_str_eq(wick_text_str(&out),
                     "op.c:12: warning #39-D: division by zero\n      x / 0\n          ^\n"
                     "op.c:14: warning #177-D: unused\n");
    wick_device_warnings(NULL, log);
    wick_text_free(&out);
}

Test(device, a_launch_that_does_not_fit)
{
    wick_scan scan;
    wick_text out = {0};
    scan_text(&scan, HEAD BODY KERNEL
              "WICK_IMPL wick_status f_cuda(wick_ctx *ctx, const T *x, T *y, int64_t N)\n"
              "{\n    return WICK_LAUNCH(ctx, k,\n        wick_1d(1), wick_1d(1), 0, x,\n"
              "        N);\n}\nstatic int g(void) { return WICK_LAUNCH(ctx, q, a); }\n");
    const char *words = "error: incompatible type for argument 6 of 'wick_launch_k'";
    wick_diagnose_launch_words(&out, words, strlen(words));
    cr_expect_str_eq(wick_text_str(&out), "error: incompatible type for argument 2 of 'k'");
    wick_text_free(&out);
    wick_diagnose_launch(&out, &scan, 13, words, strlen(words));
    cr_expect_str_eq(wick_text_str(&out),
                     "\nafter ctx, k, grid, block and shared bytes, the launch takes what the "
                     "kernel on line 9 does\n    k(const T *x, T *y, int64_t N)");
    wick_text_free(&out);
    words = "error: implicit declaration of function 'wick_launch_q'";
    wick_diagnose_launch(&out, &scan, 16, words, strlen(words));
    cr_expect(strstr(wick_text_str(&out), "there is no kernel q in this file"));
    wick_text_free(&out);
    words = "error: too few arguments to function 'helper'";
    wick_diagnose_launch(&out, &scan, 6, words, strlen(words));
    cr_expect_eq(out.size, 0, "no launch on that line: %s", wick_text_str(&out));
    wick_scan_free(&scan);
}

/* ---- what a text includes ---- */

static void add_path(void *arg, const char *path, const char *bytes, size_t size)
{
    cr_expect_eq(strlen(bytes), size);
    wick_text_printf(arg, "%s ", path);
}

static void expect_includes(const char *text, const char *expected)
{
    wick_text out = {0};
    wick_args folders = {.arena = &arena};
    wick_args_add(&folders, "inc");
    wick_args_add(&folders, "inc2/");
    cr_expect(wick_includes_visit("", text, &folders, add_path, &out));
    cr_expect_str_eq(wick_text_str(&out), expected);
    wick_text_free(&out);
}

Test(device, includes_are_followed)
{
    cr_assert_eq(mkdir("inc", 0700) | mkdir("inc2", 0700) | mkdir("inc/deep", 0700), 0);
    write_text("a.h", "#include \"b.h\"\n#include \"a.h\"\n");
    write_text("b.h", "#if 0\n# include <c.h>\n#endif\n/* #include \"no.h\" */\n");
    write_text("inc/c.h", "#include \"deep/d.h\"\n");
    write_text("inc/deep/d.h", "#include \"e.h\" // beside it\n#include \"a.h\"\n");
    write_text("inc/deep/e.h", "");
    write_text("inc2/c.h", "the first one counts");
    write_text("inc2/f.h", "");
    expect_includes("#include \"a.h\"\n", "a.h b.h inc/c.h inc/deep/d.h inc/deep/e.h ");
    expect_includes("#include <f.h>\n#include \"f.h\"\n#include <a.h>\n#include MACRO\n#include\n",
                    "inc2/f.h ");
    expect_includes("#include \"nowhere.h\"\n#include \"\"\n#include \"inc\"\n#include <c.h", "");
}

/* ---- what a result depends on ---- */

static const char *const nvcc_script =
    "#!/bin/sh\nout=\nlast=\nfor a; do [ \"$last\" = -o ] && out=$a; last=$a; done\n"
    "echo \"$@\" >>calls\nif [ -f log ]; then cat log; fi\nif [ -f fail ]; then exit 1; fi\n"
    "if [ -n \"$out\" ]; then echo code >\"$out\"; fi\n";

/* A compiler of our own. */
static void write_nvcc(void)
{
    write_text("my-nvcc", nvcc_script);
    cr_assert_eq(chmod("my-nvcc", 0700), 0);
    wick_text path = {0};
    wick_text_printf(&path, "%s/my-nvcc", folder);
    setenv("WICK_CUDA_COMPILER", path.data, 1);
    wick_text_free(&path);
}

typedef struct variation {
    const char *text;
    wick_build_options options;
    wick_device_target target;
    wick_dtype type;
} variation;

/* The hash of a variation's identity; owned by the test: free. */
static char *identity(const variation *v)
{
    wick_scan scan;
    wick_text out = {0};
    char hex[33];
    scan_text(&scan, v->text);
    wick_unit unit = {.scan = &scan, .types = {v->type}, .cuda = true};
    cr_assert_eq(wick_device_identity(&ctx, &unit, &v->options, v->target, &out), WICK_OK, "%s",
                 wick_ctx_message(&ctx));
    wick_hash_hex(wick_hash_bytes(out.data, out.size), hex);
    wick_text_free(&out);
    wick_scan_free(&scan);
    return strdup(hex);
}

static void expect_change(const char *before, const variation *v, bool changes, const char *what)
{
    char *now = identity(v);
    cr_expect_eq(strcmp(before, now) != 0, changes, "%s", what);
    free(now);
}

Test(device, everything_that_decides_about_a_cubin_is_in_its_identity)
{
    static const char *const defines[] = {"-DX=1", NULL}, *const optimise[] = {"-O2", NULL},
                             *const registers[] = {"-maxrregcount=32", NULL};
    variation plain = {HEAD BODY KERNEL, plain_options(NULL), {80, false}, WICK_F32}, v;
    write_nvcc();
    char *before = identity(&plain);
    expect_change(before, &plain, false, "nothing");
    v = plain, v.text = HEAD BODY "static int host(void) { return 1; }\n" KERNEL;
    char *shifted = identity(&v);
    v.text = HEAD BODY "static int host(void) { return 2; }\n" KERNEL;
    expect_change(shifted, &v, false, "host code");
    free(shifted);
    v.text = HEAD BODY "static __global__ void k(const T *x, T *y, int64_t N) { y[N] = x[0]; }\n";
    expect_change(before, &v, true, "a kernel");
    v.text = HEAD BODY "WICK_FAST_MATH;\n" KERNEL;
    expect_change(before, &v, true, "WICK_FAST_MATH");
    v = plain, v.target.arch = 90;
    expect_change(before, &v, true, "another GPU");
    v = plain, v.target.ptx = true;
    expect_change(before, &v, true, "PTX");
    v = plain, v.type = WICK_F64;
    expect_change(before, &v, true, "another type");
    v = plain, v.options.flags = defines;
    expect_change(before, &v, true, "a macro");
    v = plain, v.options.flags = optimise;
    expect_change(before, &v, false, "a flag of the C compiler's own");
    v = plain, v.options.cuda_flags = registers;
    expect_change(before, &v, true, "a flag of the device compiler");
    v = plain, v.options.debug = true;
    expect_change(before, &v, true, "line numbers");
    setenv("NVCC_APPEND_FLAGS", "-G", 1);
    expect_change(before, &plain, true, "nvcc's own variable");
    unsetenv("NVCC_APPEND_FLAGS");
    write_text("my-nvcc", "#!/bin/sh\n# another\n");
    expect_change(before, &plain, true, "the compiler");
    free(before);
}

Test(device, headers_of_kernels_are_in_their_identity)
{
    static const char *const folders[] = {"-Iinc", NULL};
    variation v = {"#include \"a.h\"\n#include <acme/g.h>\n" HEAD BODY KERNEL,
                   plain_options(NULL),
                   {80, false},
                   WICK_F32};
    v.options.flags = folders;
    write_nvcc();
    cr_assert_eq(mkdir("inc", 0700) | mkdir("inc/acme", 0700), 0);
    write_text("a.h", "#include \"b.h\"\n");
    write_text("b.h", "1");
    write_text("inc/acme/g.h", "1");
    char *before = identity(&v);
    write_text("b.h", "2");
    expect_change(before, &v, true, "a header that a header includes");
    write_text("b.h", "1");
    expect_change(before, &v, false, "as it was");
    write_text("inc/acme/g.h", "2");
    expect_change(before, &v, true, "a header in a folder of the author's");
    free(before);
}

Test(device, the_c_text_changes_with_the_kernels)
{
    static const char *const texts[] = {
        HEAD BODY KERNEL,
        HEAD BODY "static __global__ void k(const T *x, T *y, int64_t N) { y[N] = x[0]; }\n"};
    char *codes[2];
    for (int i = 0; i < 2; i++) {
        wick_scan scan;
        wick_text out = {0};
        scan_text(&scan, texts[i]);
        wick_unit unit = {.scan = &scan, .types = {WICK_F32}, .cuda = true};
        wick_glue_write(&out, &unit, 1, 0, false);
        codes[i] = strdup(wick_text_str(&out));
        wick_text_free(&out);
        wick_scan_free(&scan);
    }
    cr_expect_str_neq(codes[0], codes[1]);
    free(codes[0]);
    free(codes[1]);
}

/* ---- nvcc ---- */

static char *read_text(const char *path)
{
    char *bytes = NULL;
    cr_assert_eq(wick_file_read(&ctx, path, &bytes, NULL), WICK_OK, "%s", wick_ctx_message(&ctx));
    char *copy = strdup(bytes);
    wick_free(bytes);
    return copy;
}

static wick_status compile(const char *text, wick_device_target target, wick_text *warnings)
{
    wick_build_options options = plain_options(NULL);
    wick_scan scan;
    char *code = NULL;
    size_t size = 0;
    scan_text(&scan, text);
    wick_unit unit = {.scan = &scan, .types = {WICK_F32}, .cuda = true};
    wick_status status = wick_device_compile(&ctx, &unit, &options, target, warnings, &code, &size);
    if (status == WICK_OK) {
        cr_expect_eq(size, target.ptx ? 6 : 5, "PTX has its NUL");
        cr_expect(!memcmp(code, "code\n", size));
    }
    wick_free(code);
    wick_scan_free(&scan);
    return status;
}

Test(device, nvcc_in_the_place_of_nvrtc)
{
    wick_text warnings = {0};
    write_nvcc();
    write_text("log", "op.c(9): warning #1-D: hm\n\n");
    cr_expect_eq(compile(HEAD BODY KERNEL, (wick_device_target){80, false}, &warnings), WICK_OK,
                 "%s", wick_ctx_message(&ctx));
    cr_expect_eq(compile(HEAD BODY KERNEL, (wick_device_target){90, true}, &warnings), WICK_OK);
    cr_expect_str_eq(wick_text_str(&warnings), "op.c:9: warning #1-D: hm\n");
    char *calls = read_text("calls");
    cr_expect(strstr(calls, "-cubin -arch=sm_80 "), "%s", calls);
    cr_expect(strstr(calls, "-ptx -arch=compute_90 "), "%s", calls);
    free(calls);
    write_text("fail", "");
    write_text("log", "op.c(9): error: bad\n\n");
    cr_expect_eq(compile(HEAD BODY KERNEL, (wick_device_target){80, false}, &warnings),
                 WICK_ECOMPILE);
    cr_expect_str_eq(wick_ctx_message(&ctx), "op.c:9: error: bad");
    wick_text_free(&warnings);
}

Test(device, an_nvcc_that_is_not_there)
{
    setenv("WICK_CUDA_COMPILER", "/nowhere/nvcc", 1);
    cr_expect_eq(compile(HEAD BODY KERNEL, (wick_device_target){80, false}, NULL), WICK_ECOMPILE);
    cr_expect(strstr(wick_ctx_message(&ctx), "op.c:9: WICK_CUDA_COMPILER"), "%s",
              wick_ctx_message(&ctx));
    cr_expect(strstr(wick_ctx_message(&ctx), "/nowhere/nvcc"), "%s", wick_ctx_message(&ctx));
}

Test(device, where_nvcc_is_looked_for)
{
    cr_assert_eq(mkdir("cuda", 0700) | mkdir("cuda/bin", 0700), 0);
    write_text("cuda/bin/nvcc", "#!/bin/sh\n");
    cr_assert_eq(chmod("cuda/bin/nvcc", 0700), 0);
    setenv("CUDA_HOME", "cuda", 1);
    cr_expect_str_eq(wick_nvcc_find(&arena), "cuda/bin/nvcc");
    setenv("WICK_CUDA_COMPILER", "nvcc", 1);
    cr_expect_str_eq(wick_nvcc_find(&arena), "cuda/bin/nvcc");
    cr_expect(wick_nvcc_preferred());
    setenv("WICK_CUDA_COMPILER", "nvrtc", 1);
    cr_expect(!wick_nvcc_preferred());
    setenv("CUDA_HOME", "/nowhere", 1);
    setenv("CUDA_PATH", "cuda", 1);
    cr_expect_str_eq(wick_nvcc_find(&arena), "cuda/bin/nvcc");
}

#define FOREIGN                                                                                    \
    HEAD BODY KERNEL "WICK_IMPL wick_status f_cuda(wick_ctx *ctx, const T *x, T *y, int64_t N)\n"  \
                     "{ k<<<1, 1, 0, wick_stream(ctx)>>>(x, y, N); return wick_launched(ctx); }\n"

Test(device, launchers_are_compiled_for_every_gpu_asked_for)
{
    static const char *const flags[] = {"-DX=1", NULL}, *const cuda_flags[] = {"-lineinfo", NULL};
    wick_build_options options = plain_options(NULL);
    wick_scan scan;
    wick_args args = {.arena = &arena};
    wick_archs archs = {.n = 2, .arch = {80, 90}, .ptx = 75};
    options.flags = flags;
    options.cuda_flags = cuda_flags;
    write_nvcc();
    scan_text(&scan, FOREIGN);
    cr_assert_eq(wick_nvcc_command(&ctx, &scan, &options, &archs, &args), WICK_OK);
    cr_expect(has_flag(&args, "-gencode=arch=compute_80,code=sm_80"));
    cr_expect(has_flag(&args, "-gencode=arch=compute_90,code=sm_90"));
    cr_expect(has_flag(&args, "-gencode=arch=compute_75,code=compute_75"));
    cr_expect(has_flag(&args, "-DX=1") && has_flag(&args, "-lineinfo"));
    cr_expect(has_flag(&args, "-Xcompiler=-fPIC,-fvisibility=hidden"));
    wick_scan_free(&scan);
}

Test(device, a_launch_with_angle_brackets_needs_nvcc)
{
    wick_build_options options = plain_options(NULL);
    setenv("WICK_CUDA_COMPILER", "/nowhere/nvcc", 1);
    char *message = build_message("op.cu", FOREIGN, &options);
    cr_expect(strstr(message, "op.cu:9: a launch with <<<>>> needs nvcc"), "%s", message);
    cr_expect(strstr(message, "names /nowhere/nvcc, which cannot be run"), "%s", message);
    free(message);
    options.no_cuda = true;
    message = build_message("op.cu", FOREIGN, &options);
    cr_expect_str_eq(message, "");
    free(message);
}
