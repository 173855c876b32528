/* trampolines.h -- one function per registration slot
 *
 * A boxed kernel is told its arguments but not which operator it serves, so each registration needs
 * a function address of its own. They are made by the preprocessor, all alike but for a number.
 */
#ifndef WICK_TRAMPOLINES_H
#define WICK_TRAMPOLINES_H

#include "bridge.h"

/* X(n) for n = 0 ... 2047: eleven binary digits, the first in front. */
#define TIMES_2(X, n) X(n##0) X(n##1)
#define TIMES_4(X, n) TIMES_2(X, n##0) TIMES_2(X, n##1)
#define TIMES_8(X, n) TIMES_4(X, n##0) TIMES_4(X, n##1)
#define TIMES_16(X, n) TIMES_8(X, n##0) TIMES_8(X, n##1)
#define TIMES_32(X, n) TIMES_16(X, n##0) TIMES_16(X, n##1)
#define TIMES_64(X, n) TIMES_32(X, n##0) TIMES_32(X, n##1)
#define TIMES_128(X, n) TIMES_64(X, n##0) TIMES_64(X, n##1)
#define TIMES_256(X, n) TIMES_128(X, n##0) TIMES_128(X, n##1)
#define TIMES_512(X, n) TIMES_256(X, n##0) TIMES_256(X, n##1)
#define TIMES_1024(X, n) TIMES_512(X, n##0) TIMES_512(X, n##1)
#define TIMES_2048(X) TIMES_1024(X, b0) TIMES_1024(X, b1)

/* The functions of slot i. */
torch_kernel wick_trampoline_backend(int i);
torch_kernel wick_trampoline_gate(int i);
torch_kernel wick_trampoline_batch(int i);

#endif /* WICK_TRAMPOLINES_H */
