/* test_nvrtc_find.c -- where NVRTC is looked for, in which order, and what is said when it is not
 * there
 *
 * A copy of the stand-in under the name that a wheel or a toolkit has is found by its place; the
 * identity tells which one it was.
 */
#include "cuda_support.h"

#include "nvrtc.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char root[] = "/tmp/wick_test_nvrtc_XXXXXX";
static char room[PATH_MAX];

static const char *in_root(const char *path)
{
    snprintf(room, sizeof room, "%s/%s", root, path);
    return room;
}

static void start(void)
{
    static const char *const variables[] = {"WICK_NVRTC", "VIRTUAL_ENV", "CONDA_PREFIX",
                                            "CUDA_HOME", "CUDA_PATH"};
    for (int i = 0; i < WICK_COUNT(variables); i++)
        unsetenv(variables[i]);
    setenv("WICK_CUDA_DRIVER", "/nowhere/libcuda.so.1", 1);
    cr_assert(mkdtemp(root));
}

static void end(void)
{
    const char *argv[] = {"rm", "-r", root, NULL};
    wick_process p;
    cr_assert_eq(wick_process_run(&test_ctx, argv, &p), WICK_OK);
    cr_assert_eq(p.exit_code, 0, "%s", wick_text_str(&p.output));
    wick_process_free(&p);
    wick_ctx_clear(&test_ctx);
}

TestSuite(nvrtc_find, .init = start, .fini = end);

/* The folders of a path below the root. */
static void make_folders(const char *path)
{
    in_root(path);
    char *slash = strchr(room + strlen(root) + 1, '/');
    for (; slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(room, 0777);
        *slash = '/';
    }
}

static void put(const char *path, const char *library)
{
    char *bytes = NULL;
    size_t n = 0;
    char from[PATH_MAX];
    make_folders(path);
    snprintf(from, sizeof from, "%s/fake/%s", WICK_TEST_BUILD, library);
    cr_assert_eq(wick_file_read(&test_ctx, from, &bytes, &n), WICK_OK);
    cr_assert_eq(wick_file_write(&test_ctx, in_root(path), bytes, n), WICK_OK);
    wick_free(bytes);
}

static void found_at(const char *path)
{
    const char *identity = NULL;
    wick_text wanted = {0};
    cr_assert_eq(wick_nvrtc_identity(&test_ctx, &identity), WICK_OK, "%s",
                 wick_ctx_message(&test_ctx));
    wick_text_printf(&wanted, "NVRTC 13.0 %s/%s ", root, path);
    cr_assert_eq(strncmp(identity, wick_text_str(&wanted), wanted.size), 0, "%s, but wanted %s",
                 identity, wick_text_str(&wanted));
    wick_text_free(&wanted);
}

#define FAKE "libfake_nvrtc.so"

Test(nvrtc_find, takes_the_file_that_is_named)
{
    put("here/mine.so", FAKE);
    put("site/nvidia/cu13/lib/libnvrtc.so.13", FAKE);
    setenv("WICK_NVRTC", in_root("here/mine.so"), 1);
    wick_nvrtc_look_in(in_root("site"));
    found_at("here/mine.so");
}

Test(nvrtc_find, looks_nowhere_else_when_a_file_is_named)
{
    put("site/nvidia/cu13/lib/libnvrtc.so.13", FAKE);
    wick_nvrtc_look_in(in_root("site"));
    setenv("WICK_NVRTC", "/nowhere/libnvrtc.so", 1);
    cr_assert_eq(wick_nvrtc_open(&test_ctx), WICK_ENOTSUP);
    const char *words =
        "WICK_NVRTC names no NVRTC that can be used; /nowhere/libnvrtc.so does not open: ";
    cr_assert_eq(strncmp(wick_ctx_message(&test_ctx), words, strlen(words)), 0, "%s",
                 wick_ctx_message(&test_ctx));
    wick_ctx_clear(&test_ctx);
    unsetenv("WICK_NVRTC");
    found_at("site/nvidia/cu13/lib/libnvrtc.so.13"); /* what failed is tried again */
}

Test(nvrtc_find, says_what_another_library_lacks)
{
    use_stand_in("WICK_NVRTC", "libfake_nvml.so", NULL);
    cr_assert_eq(wick_nvrtc_open(&test_ctx), WICK_ENOTSUP);
    cr_assert(strstr(wick_ctx_message(&test_ctx), "libfake_nvml.so has no nvrtcGetErrorString"),
              "%s", wick_ctx_message(&test_ctx));
    wick_ctx_clear(&test_ctx);
}

Test(nvrtc_find, takes_what_the_process_has_loaded)
{
    put("loaded/libnvrtc.so.13", FAKE);
    put("site/nvidia/cu13/lib/libnvrtc.so.13", FAKE);
    void *loaded = dlopen(in_root("loaded/libnvrtc.so.13"), RTLD_NOW);
    cr_assert(loaded, "%s", dlerror());
    wick_nvrtc_look_in(in_root("site"));
    found_at("loaded/libnvrtc.so.13");
    dlclose(loaded);
}

Test(nvrtc_find, takes_a_wheel_of_cuda_13)
{
    put("site/nvidia/cu13/lib/libnvrtc.so.13", FAKE);
    put("site/nvidia/cuda_nvrtc/lib/libnvrtc.so.12", FAKE);
    wick_nvrtc_look_in(in_root("site"));
    wick_nvrtc_look_in(in_root("site")); /* twice is once */
    found_at("site/nvidia/cu13/lib/libnvrtc.so.13");
}

Test(nvrtc_find, takes_the_wheel_that_goes_with_the_driver)
{
    put("site/nvidia/cu13/lib/libnvrtc.so.13", FAKE);
    put("site/nvidia/cuda_nvrtc/lib/libnvrtc.so.12", FAKE);
    use_driver()->version = 12080;
    wick_nvrtc_look_in(in_root("site"));
    found_at("site/nvidia/cuda_nvrtc/lib/libnvrtc.so.12");
}

Test(nvrtc_find, takes_the_one_beside_torch)
{
    put("site/torch/lib/libnvrtc.so.12", FAKE);
    wick_nvrtc_look_in(in_root("site"));
    found_at("site/torch/lib/libnvrtc.so.12");
}

Test(nvrtc_find, goes_on_after_one_that_does_not_open)
{
    make_folders("site/nvidia/cu13/lib/libnvrtc.so.13");
    cr_assert_eq(
        wick_file_write(&test_ctx, in_root("site/nvidia/cu13/lib/libnvrtc.so.13"), "no", 2),
        WICK_OK);
    put("site/torch/lib/libnvrtc.so.12", FAKE);
    wick_nvrtc_look_in(in_root("site"));
    found_at("site/torch/lib/libnvrtc.so.12");
}

Test(nvrtc_find, takes_a_virtual_environments)
{
    put("venv/lib/python3.11/site-packages/nvidia/cu13/lib/libnvrtc.so.13", FAKE);
    setenv("VIRTUAL_ENV", in_root("venv"), 1);
    found_at("venv/lib/python3.11/site-packages/nvidia/cu13/lib/libnvrtc.so.13");
}

Test(nvrtc_find, takes_condas)
{
    put("conda/lib/libnvrtc.so.12", FAKE);
    setenv("CONDA_PREFIX", in_root("conda"), 1);
    found_at("conda/lib/libnvrtc.so.12");
}

Test(nvrtc_find, takes_a_toolkits)
{
    put("cuda/targets/x86_64-linux/lib/libnvrtc.so", FAKE);
    setenv("CUDA_PATH", in_root("cuda"), 1);
    found_at("cuda/targets/x86_64-linux/lib/libnvrtc.so");
}

Test(nvrtc_find, prefers_cuda_home_and_lib64)
{
    put("home/lib64/libnvrtc.so.12", FAKE);
    put("path/lib64/libnvrtc.so.13", FAKE);
    setenv("CUDA_PATH", in_root("path"), 1);
    setenv("CUDA_HOME", in_root("home"), 1);
    found_at("home/lib64/libnvrtc.so.12");
}

Test(nvrtc_find, opens_the_builtins_beside_it)
{
    put("site/nvidia/cu13/lib/libnvrtc.so.13", FAKE);
    put("site/nvidia/cu13/lib/libnvrtc-builtins.so.13.0", "libfake_nvml.so");
    wick_nvrtc_look_in(in_root("site"));
    cr_assert_eq(wick_nvrtc_open(&test_ctx), WICK_OK);
    void *builtins =
        dlopen(in_root("site/nvidia/cu13/lib/libnvrtc-builtins.so.13.0"), RTLD_NOW | RTLD_NOLOAD);
    cr_assert(builtins, "the builtins are not open");
    dlclose(builtins);
}

static bool machine_has_one(void)
{
    static const char *const names[] = {"libnvrtc.so.15", "libnvrtc.so.14", "libnvrtc.so.13",
                                        "libnvrtc.so.12", "libnvrtc.so"};
    for (int i = 0; i < WICK_COUNT(names); i++) {
        snprintf(room, sizeof room, "/usr/local/cuda/lib64/%s", names[i]);
        if (access(room, F_OK) == 0 || dlopen(names[i], RTLD_LAZY)) return true;
    }
    return false;
}

Test(nvrtc_find, that_finds_nothing_says_where_it_looked)
{
    if (machine_has_one()) cr_skip_test("this machine has one where everybody finds it");
    make_folders("broken/lib64/libnvrtc.so.13");
    cr_assert_eq(wick_file_write(&test_ctx, in_root("broken/lib64/libnvrtc.so.13"), "no", 2),
                 WICK_OK);
    setenv("CUDA_HOME", in_root("broken"), 1);
    setenv("CUDA_PATH", in_root("broken"), 1); /* named once */
    wick_nvrtc_look_in("/nowhere/site-packages");
    cr_assert_eq(wick_nvrtc_open(&test_ctx), WICK_ENOTSUP);
    const char *message = wick_ctx_message(&test_ctx);
    const char *words = "there is no NVRTC, which compiles device code, here: looked in "
                        "/nowhere/site-packages, ";
    cr_assert_eq(strncmp(message, words, strlen(words)), 0, "%s", message);
    cr_assert(strstr(message, in_root("broken, /usr/local/cuda and on the loader's path; ")), "%s",
              message);
    cr_assert(strstr(message, in_root("broken/lib64/libnvrtc.so.13 does not open: ")), "%s",
              message);
    cr_assert(strstr(message, "; `pip install nvidia-cuda-nvrtc` brings it, or set WICK_NVRTC to "
                              "the path of libnvrtc.so"),
              "%s", message);
}
