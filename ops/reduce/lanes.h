/* lanes.h -- the sum of a block of neighbouring elements, as both sums take it
 *
 * A block is summed in A, in LANES lanes side by side (vector registers once compiled) that are
 * then folded by halves: the order depends on the block's length alone. Blocks are added by the
 * operators, in f64.
 */
#ifndef LANES_H
#define LANES_H

#include <wick/op.h>

#if !defined(__CUDACC__)

enum { LANES = 256 / sizeof(A), FEW_LANES = 16, BLOCK = 32 * LANES };

/* Adds the upper half of s[0, lanes) to the lower until one number is left. */
WICK_INLINE A fold(A *s, int lanes)
{
    for (int k = 0; k < 32 && lanes > 32; k++)
        s[k] += s[k + 32];
    for (int k = 0; k < 16 && lanes > 16; k++)
        s[k] += s[k + 16];
    for (int k = 0; k < 8; k++)
        s[k] += s[k + 8];
    for (int k = 0; k < 4; k++)
        s[k] += s[k + 4];
    return (s[0] + s[1]) + (s[2] + s[3]);
}

/* s[k] = the sum of x[k], x[k + lanes], ...; n is a multiple of lanes. The lanes are vector
 * registers once compiled. */
WICK_INLINE void sum_lanes(A *s, const T *x, int64_t n, int lanes)
{
    A room[LANES];

    for (int k = 0; k < lanes; k++)
        s[k] = 0;
    for (int64_t i = 0; i < n; i += lanes) {
        const A *v = wick_read_block(room, x + i, lanes);
        for (int k = 0; k < lanes; k++)
            s[k] += v[k];
    }
}

/* The sum of at least `lanes` elements. What is left at the end is read as the last `lanes`
 * elements, those that were added already as zeros. */
WICK_INLINE A sum_in_lanes(const T *x, int64_t n, int lanes)
{
    A s[LANES], room[LANES];
    const int32_t left = (int32_t)(n % lanes);

    sum_lanes(s, x, n - left, lanes);
    if (left > 0) {
        const A *v = wick_read_block(room, x + n - lanes, lanes);
        for (int32_t k = 0; k < lanes; k++)
            s[k] += k < lanes - left ? 0 : v[k];
    }
    return fold(s, lanes);
}

/* The same for less than FEW_LANES. */
WICK_FN A sum_short(const T *x, int64_t n)
{
    A s[4] = {0};
    int64_t i = 0;

    for (; i + 4 <= n; i += 4)
        for (int k = 0; k < 4; k++)
            s[k] += wick_A(x[i + k]);
    for (; i < n; i++)
        s[0] += wick_A(x[i]);
    return (s[0] + s[1]) + (s[2] + s[3]);
}

/* The sum of up to BLOCK elements; folding many lanes takes longer than adding up a few elements.
 */
WICK_FN A sum_block(const T *x, int64_t n)
{
    if (n < FEW_LANES) return sum_short(x, n);
    if (n < BLOCK / 4) return sum_in_lanes(x, n, FEW_LANES);
    return sum_in_lanes(x, n, LANES);
}

#endif /* !__CUDACC__ */

#endif /* LANES_H */
