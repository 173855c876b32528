/* least -- y = the lesser of a and b
 *
 * FAULT, a number, plants one of these; without it the file is sound:
 *
 *    1  forward    i64 is compared as a double
 *    2  forward    i32 is compared as a float
 */
#include <wick/op.h>

#ifndef FAULT
#define FAULT 0
#endif

WICK_OP(least, "a: T[N], b: T[N] -> y: T[N] where T: i32 i64 f32");

WICK_IMPL wick_status least_cpu(wick_ctx *ctx, const T *a, const T *b, T *y, int64_t N)
{
    (void)ctx;
    for (int64_t i = 0; i < N; i++) {
        bool first = a[i] < b[i] || a[i] != a[i];
        if (FAULT == 1) first = (double)a[i] < (double)b[i];
        if (FAULT == 2) first = (float)a[i] < (float)b[i];
        y[i] = first ? a[i] : b[i];
    }
    return WICK_OK;
}
