/* gates.h -- functions that several operators of the package use
 *
 * An operator's file is compiled once per element type, and this header with it: T is that type, A
 * the one that sums are taken in.
 */
#ifndef MY_PACKAGE_GATES_H
#define MY_PACKAGE_GATES_H

#include <wick/op.h>

/* v where it is positive, else slope * v. NaN stays NaN. */
WICK_FN A leaky(A v, A slope) { return v < 0 ? slope * v : v; }

#endif /* MY_PACKAGE_GATES_H */
