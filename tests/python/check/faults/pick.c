/* pick -- y[m] = x[index[m]], rows
 *
 * FAULT, a number, plants one of these; without it the file is sound:
 *
 *    1  forward    the index is kept in 8 bits
 *    2  leak       memory is lost when an index is out of bounds
 *    3  forward    the last row is never picked
 *    4  gradient   a row that is picked twice gets one gradient
 *    5  memory     the gradient of rows that are not picked is not written
 *    6  threads    the gradient is added to by all threads at once
 *    7  forward    the index is kept in 16 bits
 *    8  huge       where a row begins is kept in 32 bits
 *    9  huge       where a row of the gradient begins is kept in 32 bits
 *   10  refuse     the row behind the last one is picked
 *   11  refuse     what comes behind an index out of bounds is left out, and nobody is told
 */
#include <wick/op.h>

#include <stdlib.h>

#ifndef FAULT
#define FAULT 0
#endif

WICK_OP(pick, "x: T[N, C], index: i64[M] -> y: T[M, C] where T: f32 f64");
WICK_OP(pick_backward, "dy: T[M, C], index: i64[M], x: shape[N, C] -> dx: T[N, C]");

WICK_IMPL wick_status pick_cpu(wick_ctx *ctx, const T *x, const int64_t *index, T *y, int64_t N,
                               int64_t C, int64_t M)
{
    void *volatile room = malloc(32); /* volatile: or it is never taken */
    for (int64_t m = 0; m < M; m++) {
        int64_t at = FAULT == 1 ? (int8_t)index[m] : index[m];
        if (FAULT == 1 && at < 0) at += 128;
        if (FAULT == 7) at = (uint16_t)at;
        if (at < 0 || at >= N + (FAULT == 10)) {
            if (FAULT != 2) free(room);
            if (FAULT == 11) return WICK_OK;
            return wick_fail(ctx, WICK_EINVAL, "index[%lld] is %lld, expected less than %lld",
                             (long long)m, (long long)at, (long long)N);
        }
        if (FAULT == 3 && at == N - 1 && N > 1) at--;
        const int64_t from = FAULT == 8 ? (int64_t)(uint32_t)(at * C * 2) / 2 : at * C;
        memcpy(y + m * C, x + from, (size_t)C * sizeof(T));
    }
    free(room);
    return WICK_OK;
}

typedef struct job {
    const T *dy;
    const int64_t *index;
    T *dx;
    int64_t C;
} job;

static wick_status add_rows(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    for (int64_t m = begin; m < end; m++)
        for (int64_t c = 0; c < j->C; c++) {
            const int64_t row = j->index[m] * j->C;
            T *to = &j->dx[(FAULT == 9 ? (int64_t)(uint32_t)(row * 2) / 2 : row) + c];
            *to = wick_T((FAULT == 4 ? 0 : wick_A(*to)) + wick_A(j->dy[m * j->C + c]));
        }
    return WICK_OK;
}

WICK_IMPL wick_status pick_backward_cpu(wick_ctx *ctx, const T *dy, const int64_t *index, T *dx,
                                        int64_t M, int64_t C, int64_t N)
{
    job j = {dy, index, dx, C};
    if (FAULT != 5) memset(dx, 0, (size_t)(N * C) * sizeof(T));
    if (FAULT == 5)
        for (int64_t m = 0; m < M; m++)
            memset(dx + index[m] * C, 0, (size_t)C * sizeof(T));
    if (FAULT == 6) return wick_parallel(ctx, M, 64, add_rows, &j);
    return add_rows(&j, 0, M);
}
