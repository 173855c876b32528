/* elementwise.h -- what the operators that go element by element share: how the CPU and the GPU
 * walk
 */
#ifndef ELEMENTWISE_H
#define ELEMENTWISE_H

#include "../tiles.h"

#if !defined(__CUDACC__)
/* Elements that are computed at a time, and blocks of them that are worth a thread. */
enum { BLOCK = WICK_BLOCK, GRAIN = 32768 / BLOCK };
#endif

/* Rounded by itself: kernels would fuse the product with a sum that follows. */
WICK_INLINE A product(A a, A b)
{
#if !defined(__CUDA_ARCH__)
    return a * b;
#elif WICK_T == 4
    return __dmul_rn(a, b);
#else
    return __fmul_rn(a, b);
#endif
}

#endif /* ELEMENTWISE_H */
