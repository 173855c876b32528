/* divide.h -- division by a number that the host knows, in kernels
 *
 * A division of 64 bits is some eighty instructions, as much as all else that a kernel does with 16
 * bytes. Numbers below 2^31 are multiplied instead: for 2^(s-1) < by <= 2^s and
 * factor = ceil(2^(31+s) / by), n * factor / 2^(31+s) exceeds n / by by less than 1 / by, so that
 * its whole part is the quotient.
 */
#ifndef DIVIDE_H
#define DIVIDE_H

#include <wick/op.h>

/* Made on the host, read in kernels. */
typedef struct divisor {
    int64_t by;
    uint32_t factor; /* 0: divide */
    uint32_t shift;
} divisor;

WICK_INLINE int64_t divided(int64_t n, divisor d)
{
    if (d.factor) return (int64_t)((uint64_t)(uint32_t)n * d.factor >> d.shift);
    return n / d.by;
}

#if !defined(__CUDACC__)

/* For numbers of [0, end). */
WICK_HOST_FN divisor divisor_of(int64_t by, int64_t end)
{
    const int64_t limit = (int64_t)1 << 31;
    divisor d = {wick_max(by, 1), 0, 31};
    if (end > limit || d.by > limit) return d;
    while ((int64_t)1 << (d.shift - 31) < d.by)
        d.shift++;
    d.factor = (uint32_t)((((uint64_t)1 << d.shift) + (uint64_t)d.by - 1) / (uint64_t)d.by);
    return d;
}

#endif

#endif /* DIVIDE_H */
