/* test_shape.c -- counting, strides and words of shapes; the copy and the overlap test have files
 * of their own */
#include "core.h"

#include <criterion/criterion.h>
#include <string.h>

#define SIZES(...) ((const int64_t[]){__VA_ARGS__})
#define HUGE_SIZE ((int64_t)1 << 40)

Test(shape, numel_is_the_product)
{
    cr_assert_eq(wick_shape_numel(0, NULL), 1);
    cr_assert_eq(wick_shape_numel(1, SIZES(7)), 7);
    cr_assert_eq(wick_shape_numel(3, SIZES(2, 3, 5)), 30);
    cr_assert_eq(wick_shape_numel(3, SIZES(2, 0, 5)), 0);
}

Test(shape, numel_that_does_not_fit_is_told)
{
    cr_assert_eq(wick_shape_numel(2, SIZES(HUGE_SIZE, HUGE_SIZE)), -1);
    cr_assert_eq(wick_shape_numel(2, SIZES(INT64_MAX, 2)), -1);
    cr_assert_eq(wick_shape_numel(2, SIZES(INT64_MAX, 1)), INT64_MAX);
    cr_assert_eq(wick_shape_numel(3, SIZES(HUGE_SIZE, HUGE_SIZE, 0)), 0,
                 "nothing is still nothing");
    cr_assert_eq(wick_shape_numel(2, SIZES(2, -1)), -1);
}

Test(shape, contiguous_strides_are_row_major)
{
    int64_t stride[4];
    wick_shape_contiguous_strides(3, SIZES(2, 3, 5), stride);
    cr_assert_eq(memcmp(stride, SIZES(15, 5, 1), 3 * sizeof *stride), 0);
    wick_shape_contiguous_strides(4, SIZES(2, 1, 0, 3), stride);
    cr_assert_eq(memcmp(stride, SIZES(3, 3, 3, 1), 4 * sizeof *stride), 0);
    wick_shape_contiguous_strides(0, NULL, stride);
    wick_shape_contiguous_strides(4, SIZES(0, HUGE_SIZE, HUGE_SIZE, HUGE_SIZE), stride);
    cr_assert_eq(stride[2], HUGE_SIZE);
    cr_assert_eq(stride[0], INT64_MAX);
}

Test(shape, contiguous_is_row_major_without_gaps)
{
    cr_assert(wick_shape_is_contiguous(2, SIZES(2, 3), NULL));
    cr_assert(wick_shape_is_contiguous(2, SIZES(2, 3), SIZES(3, 1)));
    cr_assert(wick_shape_is_contiguous(0, NULL, SIZES(0)));
    cr_assert(wick_shape_is_contiguous(3, SIZES(2, 1, 3), SIZES(3, 77, 1)));
    cr_assert(wick_shape_is_contiguous(2, SIZES(0, 3), SIZES(5, 9)));
    cr_assert_not(wick_shape_is_contiguous(2, SIZES(2, 3), SIZES(1, 2)));
    cr_assert_not(wick_shape_is_contiguous(2, SIZES(2, 3), SIZES(4, 1)));
    cr_assert_not(wick_shape_is_contiguous(2, SIZES(2, 3), SIZES(0, 1)));
    cr_assert_not(wick_shape_is_contiguous(1, SIZES(3), SIZES(-1)));
    cr_assert_not(
        wick_shape_is_contiguous(3, SIZES(2, HUGE_SIZE, HUGE_SIZE), SIZES(0, HUGE_SIZE, 1)));
}

static void assert_printed(const char *expected, int dim, const int64_t *size)
{
    wick_text t = {0};
    wick_shape_print(&t, dim, size);
    cr_assert_str_eq(wick_text_str(&t), expected);
    wick_text_free(&t);
}

Test(shape, prints_as_torch_does)
{
    assert_printed("[]", 0, NULL);
    assert_printed("[4]", 1, SIZES(4));
    assert_printed("[2, 3, 1099511627776]", 3, SIZES(2, 3, HUGE_SIZE));
}
