/* test_split.c -- an operator file as the C compiler and as the device compiler read it */
#include "support.h"

#include <criterion/criterion.h>
#include <string.h>

static wick_ctx ctx;
static wick_scan scan;

static void setup(void) { wick_ctx_init(&ctx, NULL); }

static void teardown(void)
{
    wick_scan_free(&scan);
    wick_ctx_deinit(&ctx);
    cr_expect_eq(wick_memory_live(), 0);
}

TestSuite(split, .init = setup, .fini = teardown);

/* An operator f over f32 and f64, its two functions, and `text` between them, from line 3 on. */
#define CUDA                                                                                       \
    "WICK_IMPL wick_status f_cuda(wick_ctx *ctx, const T *x, T *y, int64_t N)\n"                   \
    "{\n    return WICK_LAUNCH(ctx, k, wick_1d(1), wick_1d(1), 0, x, y, N);\n}\n"
#define KERNEL                                                                                     \
    "static __global__ void k(const T *x, T *y, int64_t N)\n{\n    y[0] = x[0];\n    "             \
    "(void)N;\n}\n"

static void read_source(const char *text)
{
    wick_source source = {"op.c", text};
    wick_scan_free(&scan);
    cr_assert_eq(wick_scan_source(&ctx, &source, &scan), WICK_OK, "%s", wick_ctx_message(&ctx));
}

/* The line of `what` in a text; 0: it is not there. */
static int line_in(const char *text, const char *what)
{
    const char *found = text ? strstr(text, what) : NULL;
    int line = 1;
    for (const char *c = text; found && c < found; c++)
        line += *c == '\n';
    return found ? line : 0;
}

/* It stands in the texts of both, or of one, on the line on which the author wrote it. */
static void expect_in(bool host, bool device, const char *what)
{
    int line = line_in(scan.text, what);
    cr_assert_gt(line, 0, "%s is not in the source", what);
    cr_expect_eq(line_in(scan.host_text, what), host ? line : 0, "host: %s\n%s", what,
                 scan.host_text);
    cr_expect_eq(line_in(scan.device_text, what), device ? line : 0, "device: %s\n%s", what,
                 scan.device_text ? scan.device_text : "(none)");
}

static int count_lines(const char *text)
{
    int n = 0;
    for (; *text; text++)
        n += *text == '\n';
    return n;
}

Test(split, a_file_without_kernels_stays_what_it_is)
{
    read_source(HEAD BODY);
    cr_expect_eq(scan.host_text, scan.text);
    cr_expect_null(scan.device_text);
    cr_expect_eq(scan.n_kernels, 0);
    cr_expect(!scan.needs_nvcc && !scan.fast_math);
}

Test(split, kernels_go_to_one_compiler_and_host_code_to_the_other)
{
    read_source(HEAD BODY KERNEL CUDA);
    expect_in(false, true, "y[0] = x[0]");
    expect_in(true, false, "y[i] = wick_T(wick_A(x[i]) + 1)");
    expect_in(true, false, "return WICK_LAUNCH(");
    expect_in(true, true, "WICK_OP(f,");
    cr_expect_eq(scan.n_kernels, 1);
    cr_expect(strstr(scan.device_text, "extern \"C\"  __global__ void k(const T *x"));
    cr_expect_eq(count_lines(scan.host_text), count_lines(scan.text));
    cr_expect_eq(count_lines(scan.device_text), count_lines(scan.text));
}

Test(split, the_launcher_has_the_kernels_parameters)
{
    read_source(HEAD BODY
                "struct pair { float a, b; };\n"
                "static __global__ void __launch_bounds__(256, 2)\n"
                "    k(const T *__restrict__ x, T *__restrict__ y, /* how many, */\n"
                "      const __grid_constant__ struct pair p, float t[2], int (*rows)[4],\n"
                "      unsigned long long n, float (*fn)(float, int))\n{\n}\n");
    const char *launcher = strstr(scan.host_text, "wick_launch_k(");
    cr_assert_not_null(launcher);
    cr_expect_eq(line_in(scan.host_text, "wick_launch_k("),
                 line_in(scan.text, "static __global__"));
    cr_expect(strstr(launcher, "int64_t wick_shared_, const T *__restrict__ x, T *__restrict__ y, "
                               "const struct pair p, float t[2], int(*rows)[4], unsigned long "
                               "long n, float(*fn)(float, int)) {"),
              "%s", launcher);
    cr_expect(strstr(launcher, "{(void *)&x, (void *)&y, (void *)&p, (void *)&t, (void *)&rows, "
                               "(void *)&n, (void *)&fn, (void *)0}"),
              "%s", launcher);
}

Test(split, a_kernel_may_take_nothing)
{
    read_source(HEAD BODY "__global__ void a() { }\n__global__ void b(void) { }\n");
    cr_expect(strstr(scan.host_text, "wick_launch_a(wick_ctx *wick_ctx_, wick_dim3 wick_grid_, "
                                     "wick_dim3 wick_block_, int64_t wick_shared_) {"));
    cr_expect(strstr(scan.host_text, "int64_t wick_shared_) { static wick_kernel wick_kernel_ = "
                                     "{\"b\","));
}

Test(split, a_kernel_may_be_declared_before_it_is_defined)
{
    read_source(HEAD BODY "static __global__ void k(const T *x, T *y, int64_t N);\n" CUDA KERNEL);
    const char *first = strstr(scan.host_text, "wick_launch_k(");
    cr_assert_not_null(first);
    cr_expect_eq(*(strchr(first, '\n') - 1), ';', "a prototype of the launcher");
    cr_expect_eq(scan.n_kernels, 1);
}

Test(split, what_kernels_reach_goes_along)
{
    read_source(HEAD BODY
                "#define SCALE (factor * table[1])\n"
                "static const float factor = 2, table[2] = {1, 2};\n"
                "static const float other[2] = {1, 2};\n"
                "static float deep(float v) { return v + 1; }\n"
                "static float twice(float v) { return deep(v) * SCALE; }\n"
                "#define APPLY(f, v) f(v)\n"
                "static float passed(float v) { return v; }\n"
                "static float alone(float v) { return v - 1; }\n"
                "WICK_FN A shared(A v) { return v + 2; }\n"
                "static __global__ void k(const T *x, T *y, int64_t N)\n"
                "{\n    y[0] = wick_T(shared(wick_A(x[N])) + APPLY(passed, twice(1)));\n}\n");
    expect_in(true, true, "float deep(float v)");
    expect_in(true, true, "float twice(float v)");
    expect_in(true, true, "float passed(float v)");
    expect_in(true, true, "A shared(A v)");
    expect_in(true, true, "static const float factor = 2");
    expect_in(true, true, "#define SCALE");
    expect_in(true, false, "float alone(float v)");
    expect_in(true, false, "static const float other[2]");
    cr_expect(strstr(scan.device_text, "__device__ static float deep"));
    cr_expect(strstr(scan.device_text, "__device__ static const float factor"));
}

Test(split, names_that_mean_something_else_reach_nothing)
{
    read_source(HEAD BODY
                "struct work { float *rows; };\n"
                "static wick_status rows(void *arg, int64_t begin, int64_t end)\n"
                "{ struct work *w = arg; (void)begin, (void)end; w->rows[0] = 1; return 0; }\n"
                "static void *cols(void *p) { return p; }\n"
                "static void *member(void *p) { float *q = p; return q; }\n"
                "static __global__ void k(const T *x, T *y, int64_t rows, struct work *w)\n"
                "{\n    int64_t cols = rows;\n    y[cols] = x[w->member + w->x.member];\n}\n");
    expect_in(true, false, "static wick_status rows(");
    expect_in(true, false, "static void *cols(");
    expect_in(true, false, "static void *member(");
    expect_in(true, true, "struct work { float *rows; };");
}

Test(split, host_code_may_be_c_that_a_device_compiler_does_not_know)
{
    read_source(HEAD BODY
                "static float *host(void *p)\n{\n    int a[] = {[3] = 4};\n    float *q = p;\n"
                "    return a[0] ? q : 0;\n}\n" KERNEL CUDA);
    expect_in(true, false, "int a[] = {[3] = 4};");
}

Test(split, device_things_do_not_reach_the_c_compiler)
{
    read_source(HEAD BODY "static __device__ float fast(float x) { return __expf(x); }\n"
                          "__constant__ float weights[4];\nstatic __device__ int counter;\n"
                          "static __host__ __device__ float both(float x) { return x; }\n"
                          "#define HD __host__ __device__\nstatic HD float also(float x) { return "
                          "x; }\n" KERNEL CUDA);
    expect_in(false, true, "__expf(x)");
    expect_in(false, true, "weights[4]");
    expect_in(false, true, "counter;");
    expect_in(true, true, "float both(float x)");
    expect_in(true, true, "float also(float x)");
}

Test(split, kernels_in_ifs_stay_in_them)
{
    read_source(HEAD BODY
                "#if WICK_T == 3\nstatic __global__ void k(const T *x, T *y, int64_t N) { "
                "y[0] = 3; }\n#else\n" KERNEL "#endif\n" CUDA);
    expect_in(true, true, "#if WICK_T == 3");
    expect_in(true, true, "#endif");
    expect_in(false, true, "y[0] = 3;");
    const char *second = strstr(strstr(scan.host_text, "wick_launch_k(") + 1, "wick_launch_k(");
    cr_expect_not_null(second, "one per branch");
    cr_expect_eq(scan.n_kernels, 2);
}

Test(split, kernels_say_where_they_begin)
{
    const char *inside = "{ WICK_ENTER_KERNEL\n    y[0] = x[0];";
    read_source(HEAD BODY "static __global__ void k(const T *x, T *y, int64_t N);\n"
                          "static __device__ float plain(float v)\n{\n    return v;\n}\n"
                          "static __global__ void __launch_bounds__(256) other(T *y)\n"
                          "{ if (y) { y[0] = y[1]; } }\n" KERNEL CUDA);
    cr_expect_not_null(strstr(scan.device_text, inside), "%s", scan.device_text);
    cr_expect_not_null(strstr(scan.device_text, "other(T *y)\n{ WICK_ENTER_KERNEL if (y) {"));
    cr_expect_not_null(strstr(scan.device_text, "plain(float v)\n{\n    return v;"));
    cr_expect_null(strstr(scan.host_text, "WICK_ENTER_KERNEL"));
    cr_expect_eq(count_lines(scan.device_text), count_lines(scan.text));
    read_source(HEAD BODY KERNEL "WICK_IMPL wick_status f_cuda(wick_ctx *ctx, const T *x, T *y, "
                                 "int64_t N)\n{\n    k<<<1, 1>>>(x, y, N);\n"
                                 "    return wick_launched(ctx);\n}\n");
    cr_expect_not_null(strstr(scan.device_text, inside), "for nvcc: %s", scan.device_text);
}

Test(split, directives_of_what_goes_stay)
{
    read_source(HEAD BODY "static __global__ void k(const T *x, T *y, int64_t N)\n{\n"
                          "#define WIDTH 4\n#if WIDTH == 4\n    y[0] = x[0];\n#else\n    y[1] = "
                          "x[1];\n#endif\n#pragma unroll\n    for (;;) { }\n}\n"
                          "#ifdef WIDE\nstatic __global__ void two(int n)\n#else\n"
                          "static __global__ void two(long n)\n#endif\n{\n}\n" CUDA);
    expect_in(true, true, "#define WIDTH 4");
    expect_in(true, true, "#if WIDTH == 4");
    expect_in(false, true, "#pragma unroll");
    expect_in(false, true, "y[1] = x[1];");
    expect_in(true, true, "#ifdef WIDE");
    int ifs = 0;
    for (const char *at = scan.host_text; (at = strchr(at, '#')) != NULL; at++)
        ifs += !strncmp(at, "#if", 3) ? 1 : !strncmp(at, "#endif", 6) ? -1 : 0;
    cr_expect_eq(ifs, 0, "%s", scan.host_text);
}

Test(split, a_guard_hides_no_launcher)
{
    static const char *const guards[] = {"#ifdef __CUDACC__\n", "#if defined(__CUDACC__)\n",
                                         "#if defined __CUDACC__ /* kernels */\n",
                                         "#  if __CUDACC__\n"};
    for (int i = 0; i < WICK_COUNT(guards); i++) {
        wick_text text = {0};
        wick_text_printf(&text, HEAD BODY "%s" KERNEL CUDA "#endif /* __CUDACC__ */\n", guards[i]);
        read_source(wick_text_str(&text));
        cr_expect(strstr(scan.host_text, "#if 1\n"), "%s", guards[i]);
        cr_expect(strstr(scan.device_text, guards[i]), "%s", guards[i]);
        wick_text_free(&text);
    }
    /* One that asks for more is left alone. */
    read_source(HEAD BODY "#if defined(__CUDACC__) && defined(FAST)\n#endif\n" KERNEL CUDA);
    expect_in(true, true, "#if defined(__CUDACC__) && defined(FAST)");
}

Test(split, a_guard_with_an_else_that_holds_no_code)
{
    read_source(HEAD BODY "#ifdef __CUDACC__\n#define HD __host__ __device__\n#else\n#define HD\n"
                          "#endif\n" KERNEL CUDA);
    expect_in(true, true, "#ifdef __CUDACC__");
    expect_in(true, true, "#else");
}

Test(split, a_guard_with_a_stand_in_for_the_launcher)
{
    read_source(HEAD BODY "#ifdef __CUDACC__\n" KERNEL CUDA
                          "#else\nWICK_IMPL wick_status f_cuda(wick_ctx *ctx, const T *x, T *y, "
                          "int64_t N)\n{\n    return wick_fail(ctx, WICK_ENOTSUP, \"no\");\n}\n"
                          "#endif\n");
    cr_expect(strstr(scan.host_text, "#if 1\n"));
    expect_in(true, true, "#else");
}

Test(split, a_guard_around_each_half)
{
    read_source(HEAD "#ifndef __CUDACC__\n" BODY "#else\n" KERNEL CUDA "#endif\n");
    cr_expect(strstr(scan.host_text, "#if 1\n"));
    cr_expect_eq(line_in(scan.host_text, "#else"), 0, "C sees both halves\n%s", scan.host_text);
    expect_in(true, false, "return WICK_LAUNCH(");
    expect_in(true, false, "y[i] = wick_T(");
    read_source(HEAD "#ifdef __CUDACC__\n" KERNEL CUDA "#else\n" BODY "#endif\n");
    cr_expect_eq(line_in(scan.host_text, "#else"), 0);
    read_source(HEAD BODY "#if !defined(__CUDACC__)\ntypedef int only_c;\n#else\n" KERNEL CUDA
                          "#endif\n");
    cr_expect(strstr(scan.host_text, "#if 0\n"), "C sees the half with the launcher");
}

Test(split, cplusplus_linkage_is_not_for_c)
{
    read_source(HEAD "extern \"C\" {\n" BODY "}\nextern \"C\" float plain(float x) { return x; }\n"
                     "extern \"C\" __global__ void k(const T *x, T *y, int64_t N) { }\n" CUDA);
    cr_expect_eq(line_in(scan.host_text, "\"C\""), 0, "%s", scan.host_text);
    cr_expect(strstr(scan.host_text, "extern float plain(float x)"));
    cr_expect_null(strstr(scan.device_text, "extern \"C\" extern"));
    cr_expect_null(strstr(scan.device_text, "\"C\"  \"C\""));
    expect_in(true, false, "y[i] = wick_T(");
    read_source(HEAD "#ifdef __cplusplus\nextern \"C\" {\n#endif\n" BODY
                     "#ifdef __cplusplus\n}\n#endif\n" KERNEL CUDA);
    expect_in(true, true, "#ifdef __cplusplus");
}

Test(split, storage_words_in_macros_of_kernels)
{
    read_source(HEAD BODY
                "#define KERNEL static __global__ void\n"
                "#define BOUNDED(n) static __global__ void __launch_bounds__(n)\n"
                "KERNEL k(const T *x, T *y, int64_t N) { }\nBOUNDED(64) b(int n) { }\n" CUDA);
    cr_expect_null(strstr(scan.device_text, "static __global__"), "%s", scan.device_text);
    cr_expect(strstr(scan.device_text, "extern \"C\" KERNEL k("));
    cr_expect(strstr(scan.device_text, "extern \"C\" BOUNDED(64) b("));
    cr_expect(strstr(scan.host_text, "wick_launch_b("));
    expect_in(true, false, "#define KERNEL static __global__");
}

Test(split, headers_for_the_compiler_that_has_them)
{
    read_source("#include <wick/op.h>\n#include <cuda_runtime.h>\n#include <cuda_fp16.h>\n"
                "#include <stdlib.h>\n#include <math.h>\n#include \"beside.h\"\n"
                "#include <acme/gates.h>\n" HEAD BODY KERNEL CUDA);
    expect_in(false, false, "#include <cuda_runtime.h>");
    expect_in(false, true, "#include <cuda_fp16.h>");
    cr_expect(scan.needs_cuda_headers);
    expect_in(true, true, "#include <math.h>");
    expect_in(true, true, "#include \"beside.h\"");
    /* Whether NVRTC has these is known when it compiles. */
    expect_in(true, false, "#include <stdlib.h>");
    expect_in(true, false, "#include <acme/gates.h>");
    cr_expect(strstr(scan.device_prelude, "#if __has_include(<acme/gates.h>)\n#define "
                                          "WICK_HEADER_6 <acme/gates.h>\n#else\n"));
    cr_expect_eq(line_in(scan.device_text, "#include WICK_HEADER_6"), 7);
    read_source(HEAD BODY KERNEL CUDA);
    cr_expect(!scan.needs_cuda_headers);
    cr_expect_str_eq(scan.device_prelude, "");
}

Test(split, vector_types_of_kernels_are_known_to_c)
{
    read_source(HEAD BODY
                "struct two { uint2 v; };\n"
                "static __global__ void k(const float4 *x, __half *y, struct two t) { }\n");
    cr_expect_str_eq(scan.host_types,
                     "typedef struct uint2 { _Alignas(8) unsigned x; unsigned y; } uint2;\n"
                     "typedef struct float4 { _Alignas(16) float x; float y, z, w; } float4;\n"
                     "typedef wick_f16 __half;\n");
    read_source(HEAD BODY "typedef struct float4 { float x, y, z, w; } float4;\n"
                          "static __global__ void k(const float4 *x) { }\n");
    cr_expect_str_eq(scan.host_types, "", "the file says itself what it is");
}

Test(split, fast_maths_is_asked_for_by_name)
{
    read_source(HEAD "WICK_FAST_MATH;\n" BODY KERNEL CUDA);
    cr_expect(scan.fast_math);
    read_source(HEAD "/* WICK_FAST_MATH; */\n" BODY KERNEL CUDA);
    cr_expect(!scan.fast_math);
}

/* ---- what is refused ---- */

static void expect_refusal(const char *text, const char *message)
{
    wick_source source = {"op.c", text};
    wick_scan_free(&scan);
    wick_ctx_clear(&ctx);
    cr_expect_eq(wick_scan_source(&ctx, &source, &scan), WICK_EINVAL);
    cr_expect(strstr(wick_ctx_message(&ctx), message), "%s", wick_ctx_message(&ctx));
}

Test(split, a_parameter_without_a_name)
{
    static const char *const parameters[] = {
        "const T *", "int64_t n, float", "struct pair", "unsigned int", "const T *__restrict__",
        "int n, ",   "float *, int n"};
    for (int i = 0; i < WICK_COUNT(parameters); i++) {
        wick_text text = {0};
        wick_text_printf(&text, HEAD "static __global__ void k(%s) { }\n" BODY, parameters[i]);
        expect_refusal(wick_text_str(&text), "op.c:3: a parameter of the kernel k has no name");
        wick_text_free(&text);
    }
}

Test(split, kernels_that_cannot_be_known_from_the_text)
{
    expect_refusal(HEAD BODY "#define MAKE(n) static __global__ void n(int i) { }\nMAKE(k)\n",
                   "op.c:10: the macro MAKE makes a kernel");
    expect_refusal(HEAD "template <typename U> __global__ void k(U *x) { }\n" BODY,
                   "op.c:3: the kernel k is a template");
    expect_refusal(
        HEAD "static __global__ void k(int n\n#if WICK_T == 3\n, float s\n#endif\n) { }\n" BODY,
        "op.c:3: the kernel k has an #if among its parameters");
}

/* ---- files with <<<>>> ---- */

static const char *const foreign =
    "#include <cuda_runtime.h>\n#include <vector>\n" HEAD
    "template <typename U> struct Sum { __device__ U operator()(U a, U b) const { return a + b; } "
    "};\n"
    "namespace detail {\ntemplate <typename U> __global__ void k(const U *x, U *y) { *y = *x; "
    "}\n}\n"
    "extern \"C\" {\nvoid start(const T *x, T *y, cudaStream_t s)\n{\n"
    "    detail::k<T><<<1, 1, 0, s>>>(x, y);\n}\n}\n"
    "extern \"C\" int mine(cudaStream_t s) { return s != 0; }\n"
    "static float unused(float v) { return v; }\n"
    "static float for_cpu(float v) { return v; }\n"
    "WICK_IMPL wick_status f_cpu(wick_ctx *ctx, const T *x, T *y, int64_t N)\n"
    "{ (void)ctx; for (int64_t i = 0; i < N; i++) y[i] = (T)for_cpu((float)x[i]); return WICK_OK; "
    "}\n"
    "WICK_IMPL wick_status f_cuda(wick_ctx *ctx, const T *x, T *y, int64_t N)\n"
    "{ (void)N; start(x, y, wick_stream(ctx)); return wick_launched(ctx); }\n";

Test(split, launches_with_angle_brackets_are_for_nvcc)
{
    read_source(foreign);
    cr_expect(scan.needs_nvcc);
    expect_in(false, true, "template <typename U> struct Sum");
    expect_in(false, true, "__global__ void k(");
    expect_in(false, true, "detail::k<T><<<1, 1, 0, s>>>");
    expect_in(false, true, "namespace detail {");
    expect_in(false, true, "extern \"C\" {");
    expect_in(false, true, "WICK_IMPL wick_status f_cuda(");
    expect_in(true, false, "WICK_IMPL wick_status f_cpu(");
    expect_in(true, false, "float for_cpu(");
    expect_in(false, false, "float unused(");
    expect_in(false, false, "int mine(cudaStream_t s)");
    cr_expect_null(strstr(scan.host_text, "extern"));
    expect_in(false, true, "#include <cuda_runtime.h>");
    expect_in(false, true, "#include <vector>");
    expect_in(true, true, "#include <wick/op.h>");
    cr_expect_eq(count_lines(scan.host_text), count_lines(scan.text));
}

Test(split, a_file_for_nvcc_alone_leaves_nothing_to_c)
{
    read_source(
        "#include <wick/op.h>\n#include \"mine.h\"\nWICK_OP(f, \"x: f32[N] -> y: f32[N]\");\n"
        "struct Op { __device__ float run(float v) { return v; } };\n"
        "static constexpr int THREADS = 256;\nusing real = float;\n"
        "__global__ void k(const float *x, float *y, int64_t n) { }\n"
        "WICK_IMPL wick_status f_cuda(wick_ctx *ctx, const float *x, float *y, int64_t N)\n"
        "{ k<<<1, THREADS, 0, wick_stream(ctx)>>>(x, y, N); return wick_launched(ctx); }\n");
    expect_in(false, true, "#include \"mine.h\"");
    expect_in(false, true, "struct Op");
    expect_in(false, true, "using real");
    expect_in(false, true, "constexpr int THREADS");
}

/* ---- memory ---- */

Test(split, memory_that_runs_out_is_an_error)
{
    static const char *const texts[] = {HEAD BODY "static const float t[1] = {1};\n" KERNEL CUDA,
                                        "#include <acme.h>\n" HEAD BODY
                                        "__global__ void k(float4 *x) { }\n"};
    for (int i = 0; i < WICK_COUNT(texts) + 1; i++) {
        wick_source source = {"op.c", i < WICK_COUNT(texts) ? texts[i] : foreign};
        wick_status status = WICK_ENOMEM;
        for (long n = 1; status != WICK_OK; n++) {
            wick_memory_fail_after(n);
            status = wick_scan_source(&ctx, &source, &scan);
            wick_memory_fail_after(0);
            wick_scan_free(&scan);
            wick_ctx_clear(&ctx);
            cr_assert_lt(n, 2000);
            cr_assert(status == WICK_OK || status == WICK_ENOMEM, "the %ld-th: %d", n, status);
        }
    }
}
