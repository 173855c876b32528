/* test_nvrtc.c -- CUDA C into cubins and PTX: by a stand-in, and by the real one where it is */
#include "cuda_support.h"

#include <fake_nvrtc.h>

#include <criterion/parameterized.h>
#include <elf.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static const wick_nvrtc_header headers[] = {{"stdint.h", "typedef long long int64_t;\n"}};
static const char *const flags[] = {"-std=c++17", "-DX=1", NULL};
static const char source[] = "#include <stdint.h>\n"
                             "extern \"C\" __global__ void addone(float *x, int64_t n)\n"
                             "{\n"
                             "    int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;\n"
                             "    if (i < n) x[i] += X;\n"
                             "}\n";

static wick_nvrtc_job job_for(int32_t arch, bool ptx)
{
    wick_nvrtc_job job = {.name = "addone.cu",
                          .text = source,
                          .headers = headers,
                          .n_headers = 1,
                          .flags = flags,
                          .arch = arch,
                          .ptx = ptx};
    return job;
}

/* One compilation with all that comes of it. */
typedef struct compiled {
    wick_status status;
    char *code, *log;
    size_t size;
} compiled;

static compiled compile(const wick_nvrtc_job *job)
{
    compiled c = {0};
    wick_ctx_clear(&test_ctx);
    c.status = wick_nvrtc_compile(&test_ctx, job, &c.code, &c.size, &c.log);
    return c;
}

static void let_go(compiled *c)
{
    wick_free(c->code);
    wick_free(c->log);
}

/* ---- the stand-in ---- */

static fake_nvrtc *fake;

static void start(void)
{
    setenv("WICK_CUDA_DRIVER", "/nowhere/libcuda.so.1", 1);
    fake = use_stand_in("WICK_NVRTC", "libfake_nvrtc.so", FAKE_NVRTC_STATE);
}

static void end(void)
{
    wick_ctx_clear(&test_ctx);
    cr_assert_eq(fake->programs, 0, "%d programs are left", fake->programs);
}

TestSuite(nvrtc, .init = start, .fini = end);

Test(nvrtc, compiles_a_cubin)
{
    wick_nvrtc_job job = job_for(90, false);
    compiled c = compile(&job);
    cr_assert_eq(c.status, WICK_OK, "%s", wick_ctx_message(&test_ctx));
    cr_assert_str_eq(c.code, "cubin sm_90\naddone\n");
    cr_assert_eq(c.size, sizeof "cubin sm_90\naddone\n");
    cr_assert_str_eq(c.log, "");
    cr_assert_str_eq(fake->options, "--gpu-architecture=sm_90 -std=c++17 -DX=1");
    cr_assert_str_eq(fake->headers, "stdint.h");
    let_go(&c);
}

Test(nvrtc, compiles_ptx)
{
    wick_nvrtc_job job = job_for(80, true);
    job.flags = NULL;
    job.n_headers = 0;
    job.headers = NULL;
    compiled c = compile(&job);
    cr_assert_eq(c.status, WICK_OK, "%s", wick_ctx_message(&test_ctx));
    cr_assert_str_eq(c.code, "ptx sm_80\naddone\n");
    cr_assert_str_eq(fake->options, "--gpu-architecture=compute_80");
    let_go(&c);
}

Test(nvrtc, shows_the_first_error_and_the_whole_log)
{
    wick_nvrtc_job job = job_for(90, false);
    job.text = "\n#error no such luck\n";
    compiled c = compile(&job);
    cr_assert_eq(c.status, WICK_ECOMPILE);
    cr_assert_str_eq(wick_ctx_message(&test_ctx), "addone.cu(2): error: #error no such luck");
    cr_assert(strstr(c.log, "warning #177-D") && strstr(c.log, "1 error detected"), "%s", c.log);
    cr_assert_null(c.code);
    let_go(&c);
}

Test(nvrtc, knows_its_architectures)
{
    cr_assert_eq(wick_nvrtc_supports(&test_ctx, 75), WICK_OK);
    cr_assert_eq(wick_nvrtc_supports(&test_ctx, 100), WICK_OK);
    wick_text words = {0};
    static const struct {
        int arch;
        const char *what;
    } wrong[] = {{130, "too new for"}, {70, "too old for"}, {81, "unknown to"}};
    for (int i = 0; i < WICK_COUNT(wrong); i++) {
        wick_text_free(&words);
        wick_text_printf(&words,
                         "sm_%d is %s NVRTC 13.0 (%s/fake/libfake_nvrtc.so), which compiles for "
                         "sm_75, sm_80, sm_90, sm_100",
                         wrong[i].arch, wrong[i].what, WICK_TEST_BUILD);
        cr_assert_fails(wick_nvrtc_supports(&test_ctx, wrong[i].arch), WICK_ENOTSUP,
                        wick_text_str(&words));
    }
    wick_text_free(&words);
    wick_nvrtc_job job = job_for(130, false);
    compiled c = compile(&job);
    cr_assert_eq(c.status, WICK_ENOTSUP);
    cr_assert_str_eq(c.log, "");
    let_go(&c);
}

Test(nvrtc, says_which_one_it_is)
{
    const char *one = NULL, *two = NULL;
    cr_assert_eq(wick_nvrtc_identity(&test_ctx, &one), WICK_OK);
    cr_assert_eq(strncmp(one, "NVRTC 13.0 " WICK_TEST_BUILD "/fake/libfake_nvrtc.so ",
                         strlen("NVRTC 13.0 " WICK_TEST_BUILD "/fake/libfake_nvrtc.so ")),
                 0, "%s", one);
    cr_assert_eq(wick_nvrtc_identity(&test_ctx, &two), WICK_OK);
    cr_assert_eq(one, two);
}

typedef struct failing_case {
    int function, code, ptx, status;
    char words[80];
} failing_case;

ParameterizedTestParameters(nvrtc, says_what_failed)
{
    static failing_case cases[] = {
        {FAKE_nvrtcCreateProgram, 2, 0, WICK_ECOMPILE,
         "addone.cu: NVRTC 13.0 says NVRTC_ERROR_PROGRAM_CREATION_FAILURE"},
        {FAKE_nvrtcCompileProgram, 5, 0, WICK_ECOMPILE,
         "addone.cu: NVRTC 13.0 says NVRTC_ERROR_INVALID_OPTION"},
        {FAKE_nvrtcCompileProgram, 1, 0, WICK_ENOMEM,
         "NVRTC ran out of memory compiling addone.cu"},
        {FAKE_nvrtcGetCUBINSize, 4, 0, WICK_ECOMPILE,
         "addone.cu: NVRTC 13.0 says NVRTC_ERROR_INVALID_PROGRAM"},
        {FAKE_nvrtcGetCUBIN, 4, 0, WICK_ECOMPILE,
         "addone.cu: NVRTC 13.0 says NVRTC_ERROR_INVALID_PROGRAM"},
        {FAKE_nvrtcGetPTXSize, 3, 1, WICK_ECOMPILE,
         "addone.cu: NVRTC 13.0 says NVRTC_ERROR_INVALID_INPUT"},
        {FAKE_nvrtcGetPTX, 3, 1, WICK_ECOMPILE,
         "addone.cu: NVRTC 13.0 says NVRTC_ERROR_INVALID_INPUT"}};
    return cr_make_param_array(failing_case, cases, WICK_COUNT(cases));
}

ParameterizedTest(failing_case *f, nvrtc, says_what_failed)
{
    wick_nvrtc_job job = job_for(90, f->ptx);
    fake->fail_function = f->function;
    fake->fail_code = f->code;
    compiled c = compile(&job);
    cr_assert_eq((int)c.status, f->status);
    cr_assert_str_eq(wick_ctx_message(&test_ctx), f->words);
    cr_assert_null(c.code);
    let_go(&c);
    c = compile(&job);
    cr_assert_eq(c.status, WICK_OK, "and then %s", wick_ctx_message(&test_ctx));
    let_go(&c);
}

Test(nvrtc, without_a_log_still_says_that_it_failed)
{
    wick_nvrtc_job job = job_for(90, false);
    job.text = "#error hidden\n";
    static const int functions[] = {FAKE_nvrtcGetProgramLogSize, FAKE_nvrtcGetProgramLog};
    for (int i = 0; i < WICK_COUNT(functions); i++) {
        fake->fail_function = functions[i];
        fake->fail_code = 4;
        compiled c = compile(&job);
        cr_assert_eq(c.status, WICK_ECOMPILE);
        cr_assert_str_eq(wick_ctx_message(&test_ctx),
                         "addone.cu: NVRTC 13.0 says NVRTC_ERROR_COMPILATION");
        cr_assert_str_eq(c.log, "");
        let_go(&c);
    }
}

Test(nvrtc, leaks_nothing_whatever_allocation_fails)
{
    wick_nvrtc_job job = job_for(90, false);
    long n = 0, live = wick_memory_live();
    wick_status s = WICK_ENOMEM;
    while (s != WICK_OK) {
        cr_assert_lt(++n, 100, "still failing at allocation %ld", n);
        wick_memory_fail_after(n);
        compiled c = compile(&job);
        wick_memory_fail_after(0);
        s = c.status;
        let_go(&c);
        wick_ctx_clear(&test_ctx);
        cr_assert(s == WICK_OK || s == WICK_ENOMEM, "allocation %ld: %d", n, s);
        cr_assert_eq(fake->programs, 0);
    }
    cr_assert_gt(n, 6);
    /* The path, its folder, the identity and the architectures of the library that was found. */
    cr_assert_eq(wick_memory_live() - live, 4, "%ld blocks", wick_memory_live() - live);
}

/* ---- threads ---- */

enum { THREADS = 4 };

static void *compile_in_a_thread(void *arg)
{
    int32_t arch = *(const int32_t *)arg;
    wick_nvrtc_job job = job_for(arch, false);
    char *code = NULL, *log = NULL;
    size_t size = 0;
    wick_ctx ctx;
    wick_ctx_init(&ctx, NULL);
    wick_status s = wick_nvrtc_compile(&ctx, &job, &code, &size, &log);
    wick_free(code);
    wick_free(log);
    wick_ctx_deinit(&ctx);
    return s == WICK_OK && size ? arg : NULL;
}

static void compile_at_once(void)
{
    static int32_t archs[THREADS] = {75, 80, 90, 100};
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, compile_in_a_thread, &archs[i]), 0);
    for (int i = 0; i < THREADS; i++) {
        void *done = NULL;
        pthread_join(threads[i], &done);
        cr_assert(done, "sm_%d", (int)archs[i]);
    }
}

Test(nvrtc, serves_several_threads_at_once) { compile_at_once(); }

/* ---- the real one ---- */

/* $WICK_NVRTC, or the one of the environment that `make` has made. */
static void use_real(void)
{
    setenv("WICK_CUDA_DRIVER", "/nowhere/libcuda.so.1", 1);
    setenv("VIRTUAL_ENV", WICK_TEST_ROOT "/.venv", 1);
    if (wick_nvrtc_open(&test_ctx) == WICK_OK) return;
    wick_ctx_clear(&test_ctx);
    cr_skip_test("there is no NVRTC here");
}

TestSuite(real_nvrtc, .init = use_real);

ParameterizedTestParameters(real_nvrtc, compiles_for)
{
    static int32_t archs[] = {75, 80, 90, 100};
    return cr_make_param_array(int32_t, archs, WICK_COUNT(archs));
}

ParameterizedTest(int32_t *arch, real_nvrtc, compiles_for)
{
    wick_nvrtc_job job = job_for(*arch, false);
    compiled c = compile(&job);
    if (c.status == WICK_ENOTSUP) {
        let_go(&c);
        cr_skip_test("%s", wick_ctx_message(&test_ctx));
    }
    cr_assert_eq(c.status, WICK_OK, "%s\n%s", wick_ctx_message(&test_ctx), c.log);
    cr_assert_gt(c.size, sizeof(Elf64_Ehdr));
    cr_assert_eq(memcmp(c.code, ELFMAG, SELFMAG), 0, "a cubin is an ELF file");
    let_go(&c);
    job.ptx = true;
    c = compile(&job);
    cr_assert_eq(c.status, WICK_OK, "%s\n%s", wick_ctx_message(&test_ctx), c.log);
    cr_assert_eq(c.code[c.size - 1], '\0');
    cr_assert_eq(strlen(c.code), c.size - 1);
    wick_text target = {0};
    wick_text_printf(&target, ".target sm_%d", (int)*arch);
    cr_assert(strstr(c.code, wick_text_str(&target)), "%s", c.code);
    cr_assert(strstr(c.code, ".entry addone"));
    wick_text_free(&target);
    let_go(&c);
}

Test(real_nvrtc, says_where_an_error_is)
{
    wick_nvrtc_job job = job_for(90, false);
    job.text = "extern \"C\" __global__ void f(float *x)\n{\n    x[0] = nothing;\n}\n";
    compiled c = compile(&job);
    cr_assert_eq(c.status, WICK_ECOMPILE);
    cr_assert_str_eq(wick_ctx_message(&test_ctx),
                     "addone.cu(3): error: identifier \"nothing\" is undefined");
    cr_assert(strstr(c.log, "x[0] = nothing;"), "%s", c.log);
    let_go(&c);
    wick_ctx_clear(&test_ctx);
}

Test(real_nvrtc, refuses_an_option)
{
    static const char *const wrong[] = {"--no-such-option", NULL};
    wick_nvrtc_job job = job_for(90, false);
    job.flags = wrong;
    compiled c = compile(&job);
    cr_assert_eq(c.status, WICK_ECOMPILE);
    cr_assert(strstr(wick_ctx_message(&test_ctx), "no-such-option"), "%s",
              wick_ctx_message(&test_ctx));
    let_go(&c);
    wick_ctx_clear(&test_ctx);
}

Test(real_nvrtc, serves_several_threads_at_once) { compile_at_once(); }
