/* test_shape_overlap.c -- who shares memory: by hand, and against enumerated bytes on random slices
 *
 * The rule that must never break: NONE where a byte is shared. For the slices people write, NONE
 * must also be found.
 */
#include "core.h"
#include "random.h"

#include <criterion/criterion.h>
#include <string.h>

#define SIZES(...) ((const int64_t[]){__VA_ARGS__})

static char memory[4096];

static wick_overlap overlap(int64_t a_at, int a_dim, const int64_t *a_size, const int64_t *a_stride,
                            int64_t b_at, int b_dim, const int64_t *b_size, const int64_t *b_stride)
{
    wick_view a = {memory + a_at * 4, a_dim, a_size, a_stride};
    wick_view b = {memory + b_at * 4, b_dim, b_size, b_stride};
    wick_overlap forth = wick_shape_overlap(&a, 4, &b, 4), back = wick_shape_overlap(&b, 4, &a, 4);
    cr_assert_eq(forth, back, "sharing is mutual");
    return forth;
}

Test(shape_overlap, exact_is_same_address_sizes_and_strides)
{
    cr_assert_eq(overlap(0, 2, SIZES(2, 3), SIZES(3, 1), 0, 2, SIZES(2, 3), SIZES(3, 1)),
                 WICK_OVERLAP_EXACT);
    cr_assert_eq(overlap(0, 2, SIZES(2, 3), NULL, 0, 2, SIZES(2, 3), SIZES(3, 1)),
                 WICK_OVERLAP_EXACT);
    cr_assert_eq(overlap(0, 2, SIZES(1, 3), SIZES(9, 1), 0, 2, SIZES(1, 3), SIZES(3, 1)),
                 WICK_OVERLAP_EXACT, "the stride of a size of 1 is never followed");
    cr_assert_eq(overlap(5, 0, NULL, NULL, 5, 0, NULL, NULL), WICK_OVERLAP_EXACT);
    cr_assert_eq(overlap(0, 2, SIZES(2, 3), SIZES(0, 1), 0, 2, SIZES(2, 3), SIZES(0, 1)),
                 WICK_OVERLAP_EXACT);
}

Test(shape_overlap, same_bytes_in_another_layout_are_partial)
{
    cr_assert_eq(overlap(0, 2, SIZES(3, 3), SIZES(3, 1), 0, 2, SIZES(3, 3), SIZES(1, 3)),
                 WICK_OVERLAP_PARTIAL);
    cr_assert_eq(overlap(0, 1, SIZES(6), SIZES(1), 0, 2, SIZES(2, 3), SIZES(3, 1)),
                 WICK_OVERLAP_PARTIAL);
    cr_assert_eq(overlap(0, 1, SIZES(6), SIZES(1), 1, 1, SIZES(6), SIZES(1)), WICK_OVERLAP_PARTIAL);
    cr_assert_eq(overlap(0, 1, SIZES(6), SIZES(1), 5, 0, NULL, NULL), WICK_OVERLAP_PARTIAL);
    wick_view floats = {memory, 1, SIZES(4), SIZES(1)};
    cr_assert_eq(wick_shape_overlap(&floats, 4, &floats, 2), WICK_OVERLAP_PARTIAL);
}

Test(shape_overlap, disjoint_ranges_are_none)
{
    cr_assert_eq(overlap(0, 1, SIZES(6), SIZES(1), 6, 1, SIZES(6), SIZES(1)), WICK_OVERLAP_NONE);
    cr_assert_eq(overlap(0, 0, NULL, NULL, 1, 0, NULL, NULL), WICK_OVERLAP_NONE);
    cr_assert_eq(overlap(5, 1, SIZES(6), SIZES(-1), 6, 1, SIZES(6), SIZES(1)), WICK_OVERLAP_NONE);
    cr_assert_eq(overlap(6, 1, SIZES(6), SIZES(-1), 6, 1, SIZES(6), SIZES(1)),
                 WICK_OVERLAP_PARTIAL);
}

Test(shape_overlap, empty_tensors_overlap_nothing)
{
    cr_assert_eq(overlap(0, 1, SIZES(0), SIZES(1), 0, 1, SIZES(0), SIZES(1)), WICK_OVERLAP_NONE);
    cr_assert_eq(overlap(0, 2, SIZES(4, 0), SIZES(1, 1), 0, 1, SIZES(9), SIZES(1)),
                 WICK_OVERLAP_NONE);
}

/* x is [8, 10]. */
Test(shape_overlap, interleaved_slices_are_none)
{
    cr_assert_eq(overlap(0, 1, SIZES(40), SIZES(2), 1, 1, SIZES(40), SIZES(2)), WICK_OVERLAP_NONE,
                 "x[::2] and x[1::2]");
    cr_assert_eq(overlap(0, 1, SIZES(20), SIZES(4), 3, 1, SIZES(10), SIZES(8)), WICK_OVERLAP_NONE,
                 "x[::4] and x[3::8]");
    cr_assert_eq(overlap(0, 2, SIZES(8, 4), SIZES(10, 1), 4, 2, SIZES(8, 6), SIZES(10, 1)),
                 WICK_OVERLAP_NONE, "left and right columns");
    cr_assert_eq(overlap(0, 2, SIZES(4, 4), SIZES(20, 1), 14, 2, SIZES(3, 6), SIZES(10, 1)),
                 WICK_OVERLAP_NONE, "left columns of every other row, right columns of some");
    cr_assert_eq(overlap(0, 2, SIZES(10, 4), SIZES(1, 20), 10, 2, SIZES(10, 4), SIZES(1, 20)),
                 WICK_OVERLAP_NONE, "even and odd rows, transposed");
    cr_assert_eq(overlap(0, 1, SIZES(8), SIZES(10), 11, 1, SIZES(9), SIZES(1)), WICK_OVERLAP_NONE,
                 "a column and the rest of a row");
    cr_assert_eq(overlap(0, 1, SIZES(8), SIZES(11), 1, 1, SIZES(8), SIZES(11)), WICK_OVERLAP_NONE,
                 "two diagonals");
    cr_assert_eq(overlap(0, 2, SIZES(3, 4), SIZES(0, 2), 1, 2, SIZES(3, 4), SIZES(0, 2)),
                 WICK_OVERLAP_NONE, "expanded");
    cr_assert_eq(overlap(78, 1, SIZES(40), SIZES(-2), 79, 1, SIZES(40), SIZES(-2)),
                 WICK_OVERLAP_NONE, "flipped");
    cr_assert_eq(overlap(0, 2, SIZES(8, 5), SIZES(10, 1), 4, 2, SIZES(8, 6), SIZES(10, 1)),
                 WICK_OVERLAP_PARTIAL, "columns that meet");
}

Test(shape_overlap, element_sizes_may_differ)
{
    wick_view wide = {memory, 1, SIZES(10), SIZES(2)};
    wick_view low = {memory + 8, 1, SIZES(10), SIZES(4)},
              high = {memory + 4, 1, SIZES(9), SIZES(4)};
    cr_assert_eq(wick_shape_overlap(&wide, 8, &low, 4), WICK_OVERLAP_NONE);
    cr_assert_eq(wick_shape_overlap(&wide, 8, &high, 4), WICK_OVERLAP_PARTIAL);
}

Test(shape_overlap, what_overflows_is_partial)
{
    cr_assert_eq(overlap(0, 2, SIZES(9, INT64_MAX), SIZES(1, INT64_MAX), 0, 1, SIZES(9), SIZES(1)),
                 WICK_OVERLAP_PARTIAL);
    cr_assert_eq(overlap(0, 1, SIZES(2), SIZES(INT64_MIN), 0, 1, SIZES(9), SIZES(1)),
                 WICK_OVERLAP_PARTIAL);
    cr_assert_eq(overlap(0, 1, SIZES(INT64_MAX), SIZES(1), 0, 1, SIZES(9), SIZES(1)),
                 WICK_OVERLAP_PARTIAL);
    cr_assert(wick_shape_overlaps_itself(2, SIZES(INT64_MAX, 3), SIZES(INT64_MAX, 1)));
    cr_assert(wick_shape_overlaps_itself(2, SIZES(3, INT64_MAX), SIZES(INT64_MIN, 7)));
}

Test(shape_overlap, itself)
{
    cr_assert_not(wick_shape_overlaps_itself(2, SIZES(2, 3), NULL));
    cr_assert_not(wick_shape_overlaps_itself(0, NULL, SIZES(0)));
    cr_assert_not(wick_shape_overlaps_itself(2, SIZES(2, 3), SIZES(1, 2)));
    cr_assert_not(wick_shape_overlaps_itself(2, SIZES(4, 3), SIZES(-5, 2)));
    cr_assert_not(wick_shape_overlaps_itself(2, SIZES(1, 3), SIZES(0, 1)));
    cr_assert_not(wick_shape_overlaps_itself(2, SIZES(0, 3), SIZES(0, 0)));
    cr_assert(wick_shape_overlaps_itself(2, SIZES(2, 3), SIZES(0, 1)));
    cr_assert(wick_shape_overlaps_itself(2, SIZES(2, 3), SIZES(1, 1)), "unfolded windows");
    cr_assert(wick_shape_overlaps_itself(2, SIZES(3, 3), SIZES(2, 1)));
}

/* ---- against enumeration ---- */

typedef struct slice {
    int64_t size[4], stride[4]; /* in elements */
    wick_view view;
    size_t element;
} slice;

/* How often each byte is touched. */
static void enumerate(const slice *s, unsigned char touched[sizeof memory])
{
    memset(touched, 0, sizeof memory);
    int64_t numel = wick_shape_numel((int)s->view.dim, s->size);
    for (int64_t i = 0; i < numel; i++) {
        int64_t at = (const char *)s->view.data - memory, rest = i;
        for (int64_t d = s->view.dim - 1; d >= 0; d--) {
            at += rest % s->size[d] * s->stride[d] * (int64_t)s->element;
            rest /= s->size[d];
        }
        for (size_t j = 0; j < s->element; j++) {
            touched[at + (int64_t)j]++;
        }
    }
}

/* A random slice of a contiguous tensor: start, step, transposed, maybe flipped, maybe expanded. */
static slice random_slice(uint64_t *seed, int dim, const int64_t *base, size_t element, bool expand)
{
    slice s = {.view = {.data = memory, .dim = dim}, .element = element};
    int64_t stride[4], at = 0;
    wick_shape_contiguous_strides(dim, base, stride);
    for (int d = 0; d < dim; d++) {
        int64_t step = random_between(seed, 1, 3);
        int64_t start = random_between(seed, 0, base[d] - 1);
        int64_t most = (base[d] - start + step - 1) / step;
        s.size[d] = random_between(seed, random_between(seed, 0, 15) ? 1 : 0, most);
        s.stride[d] = stride[d] * step;
        at += start * stride[d];
        if (s.size[d] > 0 && random_between(seed, 0, 7) == 0) {
            at += (s.size[d] - 1) * s.stride[d];
            s.stride[d] = -s.stride[d];
        }
        if (expand && random_between(seed, 0, 7) == 0) s.stride[d] = 0;
    }
    for (int d = dim - 1; d > 0; d--) {
        int64_t other = random_between(seed, 0, d), size = s.size[d], step = s.stride[d];
        s.size[d] = s.size[other], s.stride[d] = s.stride[other];
        s.size[other] = size, s.stride[other] = step;
    }
    s.view.data = memory + at * (int64_t)element;
    return s;
}

/* Any strides that stay inside `memory`. */
static slice random_strided(uint64_t *seed)
{
    slice s = {.view = {.data = memory, .dim = random_between(seed, 0, 4)}};
    s.element = (size_t)1 << random_between(seed, 0, 3);
    int64_t low = 0;
    for (int64_t d = 0; d < s.view.dim; d++) {
        s.size[d] = random_between(seed, 1, 4);
        s.stride[d] = random_between(seed, -9, 12);
        if (s.stride[d] < 0) low -= (s.size[d] - 1) * s.stride[d];
    }
    low += random_between(seed, 0, 9);
    s.view.data = memory + low * (int64_t)s.element + random_between(seed, 0, 7);
    return s;
}

typedef struct tally {
    int none, partial, exact, missed; /* missed: nothing shared, but PARTIAL */
} tally;

static void compare(slice *a, slice *b, tally *counts)
{
    static unsigned char in_a[sizeof memory], in_b[sizeof memory];
    a->view.size = a->size, a->view.stride = a->stride;
    b->view.size = b->size, b->view.stride = b->stride;
    enumerate(a, in_a);
    enumerate(b, in_b);
    bool shared = false, empty = wick_shape_numel((int)a->view.dim, a->size) == 0;
    for (size_t i = 0; i < sizeof memory; i++) {
        shared |= in_a[i] && in_b[i];
    }
    bool exact = a->view.data == b->view.data && a->view.dim == b->view.dim &&
                 a->element == b->element && !empty;
    for (int64_t d = 0; d < a->view.dim && exact; d++) {
        exact = a->size[d] == b->size[d] && (a->size[d] == 1 || a->stride[d] == b->stride[d]);
    }
    wick_overlap got = wick_shape_overlap(&a->view, a->element, &b->view, b->element);
    cr_assert_eq(got, wick_shape_overlap(&b->view, b->element, &a->view, a->element));
    cr_assert_eq(got == WICK_OVERLAP_EXACT, exact);
    if (shared) cr_assert_neq(got, WICK_OVERLAP_NONE, "a shared byte was not seen");
    counts->none += got == WICK_OVERLAP_NONE;
    counts->exact += got == WICK_OVERLAP_EXACT;
    counts->partial += got == WICK_OVERLAP_PARTIAL && shared;
    counts->missed += got == WICK_OVERLAP_PARTIAL && !shared;
}

Test(shape_overlap, slices_of_one_tensor_agree_with_enumeration)
{
    uint64_t seed = 0x9e3779b97f4a7c15u;
    tally counts = {0};
    for (int round = 0; round < 8000; round++) {
        int64_t base[4];
        int dim = (int)random_between(&seed, 1, 4);
        size_t element = (size_t)1 << random_between(&seed, 0, 3);
        for (int d = 0; d < dim; d++) {
            base[d] = random_between(&seed, 1, 4);
        }
        slice a = random_slice(&seed, dim, base, element, true);
        slice b = random_slice(&seed, dim, base, element, true);
        if (random_between(&seed, 0, 9) == 0) b = a;
        compare(&a, &b, &counts);
    }
    cr_assert_gt(counts.exact, 100);
    cr_assert_gt(counts.partial, 500);
    cr_assert_gt(counts.none, 1000);
    cr_assert_lt(counts.missed * 10, counts.none, "%d of %d were not decided", counts.missed,
                 counts.none + counts.missed);
}

Test(shape_overlap, wild_strides_and_element_sizes_agree_with_enumeration)
{
    uint64_t seed = 0x2545f4914f6cdd1du;
    tally counts = {0};
    for (int round = 0; round < 8000; round++) {
        slice a = random_strided(&seed), b = random_strided(&seed);
        compare(&a, &b, &counts);
    }
    cr_assert_gt(counts.partial, 500);
    cr_assert_gt(counts.none, 500);
}

static bool touches_twice(const slice *s)
{
    static unsigned char touched[sizeof memory];
    enumerate(s, touched);
    for (size_t i = 0; i < sizeof memory; i++) {
        if (touched[i] > 1) return true;
    }
    return false;
}

Test(shape_overlap, itself_is_exact_for_slices_and_safe_for_wild_strides)
{
    uint64_t seed = 0xda942042e4dd58b5u;
    int twice = 0, wild_twice = 0;
    for (int round = 0; round < 5000; round++) {
        int64_t base[4];
        int dim = (int)random_between(&seed, 1, 4);
        for (int d = 0; d < dim; d++) {
            base[d] = random_between(&seed, 1, 5);
        }
        slice s = random_slice(&seed, dim, base, 4, true);
        bool truth = touches_twice(&s);
        cr_assert_eq(wick_shape_overlaps_itself(dim, s.size, s.stride), truth);
        twice += truth;
        s = random_strided(&seed);
        truth = touches_twice(&s);
        if (truth) cr_assert(wick_shape_overlaps_itself((int)s.view.dim, s.size, s.stride));
        wild_twice += truth;
    }
    cr_assert_gt(twice, 200);
    cr_assert_gt(wild_twice, 200);
}
