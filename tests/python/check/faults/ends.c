/* ends -- y[m] = x[index[m]], rows, of which those below 0 are counted from the end; and rows put
 * there
 *
 * FAULT, a number, plants one of these; without it the file is sound:
 *
 *    1  forward    the first row, counted from the end, is refused
 *    2  forward    rows are counted from the last but one
 *    3  gradient   the gradient of rows counted from the end goes to the last one
 *    4  refuse     rows are put before an index out of bounds is seen
 */
#include <wick/op.h>

#ifndef FAULT
#define FAULT 0
#endif

WICK_OP(ends, "x: T[N, C], index: i64[M] -> y: T[M, C] where T: f32 f64");
WICK_OP(ends_backward, "dy: T[M, C], index: i64[M], x: shape[N, C] -> dx: T[N, C]");
WICK_OP(ends_put_, "x!: T[N, C], index: i64[M], row: T[C] -> ()");

static int64_t row_of(int64_t index, int64_t N)
{
    if (index >= 0) return index;
    return index + N - (FAULT == 2);
}

static wick_status refuse_outside(wick_ctx *ctx, int64_t index, int64_t N)
{
    const int64_t row = row_of(index, N);
    if (row >= (FAULT == 1 && index < 0) && row < N) return WICK_OK;
    return wick_fail(ctx, WICK_EINVAL, "index is %lld, but there are %lld rows", (long long)index,
                     (long long)N);
}

WICK_IMPL wick_status ends_cpu(wick_ctx *ctx, const T *x, const int64_t *index, T *y, int64_t N,
                               int64_t C, int64_t M)
{
    for (int64_t m = 0; m < M; m++) {
        const wick_status status = refuse_outside(ctx, index[m], N);
        if (status) return status;
        memcpy(y + m * C, x + row_of(index[m], N) * C, (size_t)C * sizeof(T));
    }
    return WICK_OK;
}

WICK_IMPL wick_status ends_backward_cpu(wick_ctx *ctx, const T *dy, const int64_t *index, T *dx,
                                        int64_t M, int64_t C, int64_t N)
{
    memset(dx, 0, (size_t)(N * C) * sizeof(T));
    for (int64_t m = 0; m < M; m++) {
        const wick_status status = refuse_outside(ctx, index[m], N);
        if (status) return status;
        const int64_t row = FAULT == 3 && index[m] < 0 ? N - 1 : row_of(index[m], N);
        for (int64_t c = 0; c < C; c++)
            dx[row * C + c] = wick_T(wick_A(dx[row * C + c]) + wick_A(dy[m * C + c]));
    }
    return WICK_OK;
}

WICK_IMPL wick_status ends_put__cpu(wick_ctx *ctx, T *x, const int64_t *index, const T *row,
                                    int64_t N, int64_t C, int64_t M)
{
    for (int64_t put = FAULT == 4; put < 2; put++)
        for (int64_t m = 0; m < M; m++) {
            const wick_status status = refuse_outside(ctx, index[m], N);
            if (status) return status;
            if (put) memcpy(x + row_of(index[m], N) * C, row, (size_t)C * sizeof(T));
        }
    return WICK_OK;
}
