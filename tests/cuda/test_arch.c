/* test_arch.c -- lists of architectures, in every spelling that people have */
#include "cuda_support.h"

#include <criterion/parameterized.h>
#include <stdio.h>
#include <string.h>

typedef struct arch_case {
    char text[64], wanted[64];
} arch_case;

ParameterizedTestParameters(arch, reads_lists)
{
    static arch_case cases[] = {{"sm_80", "80 ptx80"},
                                {"sm_80,sm_90", "80 90 ptx90"},
                                {"80;90", "80 90 ptx90"},
                                {"8.0 9.0+PTX", "80 90 ptx90"},
                                {"8.0 9.0-PTX", "80 90"},
                                {"sm_90, sm_80 ,sm_90", "80 90 ptx90"},
                                {"SM_75;10.0;12.1", "75 100 121 ptx121"},
                                {"sm_90 noptx", "90"},
                                {"sm_90,ptx", "90 ptx90"},
                                {" 9.0 +ptx ", "90 ptx90"},
                                {"sm_90 -PTX", "90"},
                                {"sm_90,compute_80", "90 ptx80"},
                                {"Compute_7.5;sm_90", "90 ptx75"}};
    return cr_make_param_array(arch_case, cases, WICK_COUNT(cases));
}

ParameterizedTest(arch_case *c, arch, reads_lists)
{
    char got[128] = "";
    wick_archs archs = {0};
    wick_ctx_clear(&test_ctx);
    cr_assert_eq(wick_archs_parse(&test_ctx, "--arch", c->text, &archs), WICK_OK, "%s",
                 wick_ctx_message(&test_ctx));
    for (int i = 0; i < archs.n; i++)
        snprintf(got + strlen(got), sizeof got - strlen(got), "%s%d", i ? " " : "", archs.arch[i]);
    if (archs.ptx) snprintf(got + strlen(got), sizeof got - strlen(got), " ptx%d", (int)archs.ptx);
    cr_assert_str_eq(got, c->wanted, "\"%s\" is read as %s", c->text, got);
}

typedef struct arch_error {
    char text[80], message[160];
} arch_error;

ParameterizedTestParameters(arch, refuses_with_words)
{
    static arch_error cases[] = {
        {"", "--arch: \"\" names no architecture"},
        {" ,; ", "--arch: \" ,; \" names no architecture"},
        {"ptx", "--arch: \"ptx\" names no architecture"},
        {"sm_80 native", "--arch: \"native\" is not an architecture: write sm_80, 8.0 or 80"},
        {"sm_90a", "--arch: \"sm_90a\" is not an architecture: write sm_80, 8.0 or 80"},
        {"9.x", "--arch: \"9.x\" is not an architecture: write sm_80, 8.0 or 80"},
        {"9.10", "--arch: \"9.10\" is not an architecture: write sm_80, 8.0 or 80"},
        {"9.", "--arch: \"9.\" is not an architecture: write sm_80, 8.0 or 80"},
        {".9", "--arch: \".9\" is not an architecture: write sm_80, 8.0 or 80"},
        {"123.4", "--arch: \"123.4\" is not an architecture: write sm_80, 8.0 or 80"},
        {"-80", "--arch: \"-80\" is not an architecture: write sm_80, 8.0 or 80"},
        {"9", "--arch: \"9\" is not an architecture: write sm_80, 8.0 or 80"},
        {"sm_", "--arch: \"sm_\" is not an architecture: write sm_80, 8.0 or 80"},
        {"9000", "--arch: \"9000\" is not an architecture: write sm_80, 8.0 or 80"},
        {"compute_x", "--arch: \"compute_x\" is not an architecture: write sm_80, 8.0 or 80"},
        {"compute_80", "--arch: \"compute_80\" names no architecture"},
        {"90 compute_80 compute_75", "--arch: compute_80 and compute_75: PTX is made for one"},
        {"compute_80 sm_90+PTX", "--arch: \"compute_80 sm_90+PTX\" says twice which PTX is wanted"},
        {"8.0+PTX 9.0", "--arch: in \"8.0+PTX 9.0\" PTX comes last: it is made for the newest "
                        "architecture"}};
    return cr_make_param_array(arch_error, cases, WICK_COUNT(cases));
}

ParameterizedTest(arch_error *c, arch, refuses_with_words)
{
    wick_archs archs = {.n = 7};
    cr_assert_fails(wick_archs_parse(&test_ctx, "--arch", c->text, &archs), WICK_EINVAL,
                    c->message);
    cr_assert_eq(archs.n, 7, "written although it failed");
}

Test(arch, takes_sixteen_and_no_more)
{
    char text[256] = "";
    wick_archs archs = {0};
    for (int i = 0; i < WICK_MAX_ARCHS; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%d ", 50 + i);
    cr_assert_eq(wick_archs_parse(&test_ctx, "--arch", text, &archs), WICK_OK);
    cr_assert_eq(archs.n, (int)WICK_MAX_ARCHS);
    strcat(text, "99");
    cr_assert_eq(wick_archs_parse(&test_ctx, "--arch", text, &archs), WICK_EINVAL);
    cr_assert(strstr(wick_ctx_message(&test_ctx),
                     "\"99\" is one architecture too many: 16 may be named"));
    wick_ctx_clear(&test_ctx);
}

Test(arch, the_default_is_a_list_like_any_other)
{
    wick_archs archs = wick_archs_default();
    cr_assert_gt(archs.n, 0);
    cr_assert(archs.ptx, "nothing for GPUs that are yet to come");
    for (int i = 1; i < archs.n; i++)
        cr_assert_lt(archs.arch[i - 1], archs.arch[i]);
}
