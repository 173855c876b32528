/* count -- how many elements are above a limit, as a plain number
 *
 * FAULT, a number, plants one of these; without it the file is sound:
 *
 *    1  forward    equal to the limit counts as above
 *    2  memory     nothing is written for an empty tensor
 *    3  forward    NaN counts
 *    4  forward    the number is kept in 16 bits
 *    5  forward    the number is counted in a float
 */
#include <wick/op.h>

#ifndef FAULT
#define FAULT 0
#endif

WICK_OP(count, "x: T[*N], limit: float = 0.0 -> n: int where T: f32 f64");

WICK_IMPL wick_status count_cpu(wick_ctx *ctx, const T *x, double limit, int64_t *n, int64_t N)
{
#if FAULT == 5
    float found = 0;
#else
    int64_t found = 0;
#endif
    (void)ctx;
    for (int64_t i = 0; i < N; i++) {
        const bool above = FAULT == 1   ? x[i] >= (T)limit
                           : FAULT == 3 ? !(x[i] <= (T)limit)
                                        : x[i] > (T)limit;
        found += above;
    }
    if (FAULT == 2 && N == 0) return WICK_OK;
    *n = FAULT == 4 ? (int16_t)found : (int64_t)found;
    return WICK_OK;
}
