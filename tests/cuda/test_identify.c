/* test_identify.c -- the GPU that this process would see, without starting CUDA */
#include "cuda_support.h"

#include <criterion/parameterized.h>
#include <stdlib.h>

typedef struct visible_case {
    char gpus[16], visible[16]; /* "unset": the variable is not there */
    int wanted;
} visible_case;

ParameterizedTestParameters(identify, respects_what_is_visible)
{
    static visible_case cases[] = {
        {"90,80", "unset", 90}, {"90,80", "0", 90},   {"90,80", "1", 80}, {"90,80", "1,0", 80},
        {"90,80", " 1 ,0", 80}, {"90,80", "", 0},     {"90,80", "-1", 0}, {"90,80", "2", 0},
        {"90,80", "GPU-8f", 0}, {"90,80", "1GPU", 0}, {"", "unset", 0},   {"broken", "0", 0},
        {"100", "unset", 100},  {"0,80", "unset", 0}};
    return cr_make_param_array(visible_case, cases, WICK_COUNT(cases));
}

ParameterizedTest(visible_case *c, identify, respects_what_is_visible)
{
    use_stand_in("WICK_NVML", "libfake_nvml.so", NULL);
    setenv("FAKE_NVML", c->gpus, 1);
    if (c->visible[0] == 'u')
        unsetenv("CUDA_VISIBLE_DEVICES");
    else
        setenv("CUDA_VISIBLE_DEVICES", c->visible, 1);
    cr_assert_eq(wick_cuda_likely_arch(), c->wanted, "GPUs %s, visible %s", c->gpus, c->visible);
    cr_assert_eq(wick_cuda_likely_arch(), c->wanted, "the second time");
}

Test(identify, knows_nothing_without_nvml)
{
    unsetenv("CUDA_VISIBLE_DEVICES");
    setenv("WICK_NVML", "/nowhere/libnvidia-ml.so.1", 1);
    cr_assert_eq(wick_cuda_likely_arch(), 0);
}

Test(identify, knows_nothing_of_another_library)
{
    unsetenv("CUDA_VISIBLE_DEVICES");
    use_stand_in("WICK_NVML", "libfake_nvrtc.so", NULL);
    cr_assert_eq(wick_cuda_likely_arch(), 0);
}
