/* columns -- y[c] = the sum of column c of x, which may lie in memory in any way
 *
 * FAULT, a number, plants one of these; without it the file is sound:
 *
 *    1  forward    strides are not looked at
 *    2  forward    rows may lie apart, columns not
 *    3  memory     a stride of 0 is taken for 1
 *    4  forward    the sum is kept in T
 *    5  gradient   dy is read as if it were contiguous
 *    6  memory     rows are taken to lie one behind the other
 *    7  forward    transposed for transposed's sake
 *    8  forward    where rows repeat the same memory, columns are taken to lie side by side
 *    9  huge       rows are counted in 32 bits
 */
#include <wick/op.h>

#ifndef FAULT
#define FAULT 0
#endif

WICK_OP(columns, "x: strided T[N, C] -> y: T[C] where T: bf16 f32 f64");
WICK_OP(columns_backward, "dy: strided T[C], x: shape[N, C] -> dx: T[N, C]");

WICK_IMPL wick_status columns_cpu(wick_ctx *ctx, const wick_view *x, T *y, int64_t N, int64_t C)
{
    const T *data = x->data;
    int64_t down = x->stride[0], across = x->stride[1];
    if (FAULT == 1) down = C, across = 1;
    if (FAULT == 2) across = 1;
    if (FAULT == 3 && across == 0) across = 1;
    if (FAULT == 3 && down == 0) down = 1;
    if (FAULT == 6 && across == 1 && N > 1) down = down == 0 ? 0 : wick_max(down, C);
    if (FAULT == 6 && across != 1) data += across;
    if (FAULT == 8 && down == 0) across = 1;
    if (FAULT == 7 && down < across) down = C, across = 1;
    (void)ctx;
    for (int64_t c = 0; c < C; c++) {
        A sum = 0;
        for (int64_t n = 0; n < (FAULT == 9 ? (int32_t)N : N); n++) {
            sum += wick_A(data[n * down + c * across]);
            if (FAULT == 4) sum = wick_A(wick_T(sum));
        }
        y[c] = wick_T(sum);
    }
    return WICK_OK;
}

WICK_IMPL wick_status columns_backward_cpu(wick_ctx *ctx, const wick_view *dy, T *dx, int64_t C,
                                           int64_t N)
{
    const T *data = dy->data;
    (void)ctx;
    for (int64_t n = 0; n < N; n++)
        for (int64_t c = 0; c < C; c++)
            dx[n * C + c] = data[c * (FAULT == 5 ? 1 : dy->stride[0])];
    return WICK_OK;
}
