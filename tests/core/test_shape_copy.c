/* test_shape_copy.c -- the copy against the plainest possible one, gaps included */
#include "core.h"
#include "random.h"

#include <criterion/criterion.h>
#include <string.h>

enum { BYTES = 16384 };

static unsigned char source[BYTES], copied[BYTES], expected[BYTES];

static void fill(uint64_t *seed)
{
    for (int i = 0; i < BYTES; i++) {
        source[i] = (unsigned char)random_next(seed);
        copied[i] = expected[i] = (unsigned char)random_next(seed);
    }
}

static void copy_naively(int dim, const int64_t *size, int64_t dst, const int64_t *dst_stride,
                         int64_t src, const int64_t *src_stride, size_t element)
{
    int64_t numel = wick_shape_numel(dim, size);
    for (int64_t i = 0; i < numel; i++) {
        int64_t rest = i, to = dst, from = src;
        for (int d = dim - 1; d >= 0; d--) {
            to += rest % size[d] * dst_stride[d];
            from += rest % size[d] * src_stride[d];
            rest /= size[d];
        }
        memcpy(expected + to * (int64_t)element, source + from * (int64_t)element, element);
    }
}

/* Dense or with gaps, in a random order of dims, some flipped; *start is the index of element 0. */
static void random_layout(uint64_t *seed, int dim, const int64_t *size, int64_t *stride,
                          int64_t *start)
{
    int order[5] = {0, 1, 2, 3, 4};
    bool gaps = random_between(seed, 0, 1), shuffled = random_between(seed, 0, 2) > 0;
    int64_t next = 1;
    for (int d = dim - 1; d > 0 && shuffled; d--) {
        int64_t other = random_between(seed, 0, d);
        int kept = order[d];
        order[d] = order[other];
        order[other] = kept;
    }
    *start = 0;
    for (int i = dim - 1; i >= 0; i--) {
        int d = order[i];
        if (gaps && random_between(seed, 0, 2) == 0) next += random_between(seed, 1, 3);
        stride[d] = next;
        next *= size[d];
        if (random_between(seed, 0, 5) == 0) {
            *start += (size[d] - 1) * stride[d];
            stride[d] = -stride[d];
        }
    }
}

Test(shape_copy, any_two_layouts_agree_with_the_naive_copy)
{
    uint64_t seed = 0x9e3779b97f4a7c15u;
    for (int round = 0; round < 3000; round++) {
        int64_t size[5], to[5], from[5], dst, src;
        int dim = (int)random_between(&seed, 0, 5);
        size_t element = (size_t)1 << random_between(&seed, 0, 3);
        for (int d = 0; d < dim; d++) {
            size[d] = random_between(&seed, 1, 4);
        }
        random_layout(&seed, dim, size, to, &dst);
        random_layout(&seed, dim, size, from, &src);
        for (int d = 0; d < dim; d++) {
            if (random_between(&seed, 0, 9) == 0 && from[d] > 0) from[d] = 0;
        }
        if (round % 50 == 0) fill(&seed);
        copy_naively(dim, size, dst, to, src, from, element);
        wick_shape_copy(dim, size, copied + dst * (int64_t)element, to,
                        source + src * (int64_t)element, from, element);
        cr_assert_eq(memcmp(copied, expected, BYTES), 0, "round %d", round);
    }
}

Test(shape_copy, null_strides_are_contiguous)
{
    static const int64_t size[] = {3, 4}, transposed[] = {1, 3};
    uint64_t seed = 1;
    fill(&seed);
    copy_naively(2, size, 0, (const int64_t[]){4, 1}, 0, transposed, 4);
    wick_shape_copy(2, size, copied, NULL, source, transposed, 4);
    cr_assert_eq(memcmp(copied, expected, BYTES), 0);
    wick_shape_copy(2, size, copied, NULL, source, NULL, 4);
    cr_assert_eq(memcmp(copied, source, 48), 0);
    cr_assert_eq(memcmp(copied + 48, expected + 48, BYTES - 48), 0);
}

Test(shape_copy, empty_tensors_touch_nothing)
{
    static const int64_t size[] = {3, 0, 4};
    wick_shape_copy(3, size, NULL, NULL, NULL, NULL, 4);
    wick_shape_copy(3, size, NULL, (const int64_t[]){1, 1, 1}, NULL, (const int64_t[]){1, 1, 1}, 8);
}

Test(shape_copy, a_scalar_is_one_element)
{
    source[0] = 7, source[1] = 9;
    copied[0] = copied[1] = 1;
    wick_shape_copy(0, NULL, copied, NULL, source, NULL, 1);
    cr_assert_eq(copied[0], 7);
    cr_assert_eq(copied[1], 1);
}

Test(shape_copy, sixty_four_dims_are_fine)
{
    int64_t size[WICK_MAX_RANK], stride[WICK_MAX_RANK];
    for (int d = 0; d < WICK_MAX_RANK; d++) {
        size[d] = d % 8 == 0 ? 2 : 1;
        stride[d] = d % 8 == 0 ? (int64_t)1 << (d / 8) : 1000;
    }
    uint64_t seed = 3;
    int64_t row_major[WICK_MAX_RANK];
    fill(&seed);
    wick_shape_contiguous_strides(WICK_MAX_RANK, size, row_major);
    copy_naively(WICK_MAX_RANK, size, 0, row_major, 0, stride, 2);
    wick_shape_copy(WICK_MAX_RANK, size, copied, NULL, source, stride, 2);
    cr_assert_eq(memcmp(copied, expected, BYTES), 0);
}
