/* dot -- y = the sum of a * b, in fixed chunks, so that the result does not hang on threads
 *
 * FAULT, a number, plants one of these; without it the file is sound:
 *
 *    1  forward    the sum is kept in T
 *    2  threads    threads add to one sum
 *    3  threads    threads add to one sum, in the order in which they end
 *    4  threads    pieces are as large as threads make them
 *    5  forward    the last chunk is left out where it is short
 *    6  forward    nothing summed is not 0
 *    7  forward    b is taken for a
 *    8  gradient   db is da
 *    9  gradient   db is not computed when da is not wanted
 *   10  memory     da is written even when it is not wanted
 *   11  forward    NaN times 0 is 0
 *   12  huge       the index of a chunk is kept in 32 bits
 *   13  threads    integers are counted by all threads at once
 *   14  leak       memory is lost where there is nothing to sum
 */
#include <wick/op.h>

#include <stdlib.h>

#ifndef FAULT
#define FAULT 0
#endif

WICK_OP(dot, "a: T[N], b: T[N] -> y: A[], many: i64[] where T: f16 f32 f64");
WICK_OP(dot_backward, "dy: A[], a: T[N], b: T[N] -> da?: T[N], db?: T[N]");

enum { CHUNKS = 64 };

typedef struct job {
    const T *a, *b;
    int64_t N, chunk;
    double partial[CHUNKS];
    volatile A total;
    volatile int64_t counted;
    int64_t count[CHUNKS];
} job;

static wick_status add_chunks(void *arg, int64_t begin, int64_t end)
{
    job *j = arg;
    for (int64_t k = begin; k < end; k++) {
        int64_t last = wick_min((k + 1) * j->chunk, j->N);
        double sum = 0;
        if (FAULT == 5 && last == j->N && last % 8) last--;
#if FAULT == 12
        for (int i = (int)(k * j->chunk); i < (int)last; i++) {
#else
        for (int64_t i = k * j->chunk; i < last; i++) {
#endif
            const A x = wick_A(j->a[i]), y = wick_A(FAULT == 7 ? j->a[i] : j->b[i]);
            if (FAULT == 11 && (x == 0 || y == 0)) continue;
            sum = FAULT == 1 ? (double)wick_A(wick_T((A)(sum + (double)(x * y))))
                             : sum + (double)(x * y);
            j->count[k]++;
            if (FAULT == 2) j->total += x * y;
            if (FAULT == 13) j->counted++;
        }
        j->partial[k] = sum;
    }
    if (FAULT == 4) {
        A piece = 0;
        for (int64_t k = begin; k < end; k++) {
            piece += (A)j->partial[k];
            j->partial[k] = 0;
        }
        j->partial[begin] = (double)piece;
    }
    if (FAULT == 3)
        for (int64_t k = begin; k < end; k++)
            j->total += (A)j->partial[k];
    return WICK_OK;
}

WICK_IMPL wick_status dot_cpu(wick_ctx *ctx, const T *a, const T *b, A *y, int64_t *many, int64_t N)
{
    job j = {.a = a, .b = b, .N = N, .chunk = wick_max(1, wick_ceil_div(N, CHUNKS))};
    double sum = 0;
    int64_t counted = 0;
    wick_status status = wick_parallel(ctx, wick_ceil_div(N, j.chunk), 1, add_chunks, &j);
    for (int k = 0; k < CHUNKS; k++) {
        sum += j.partial[k];
        counted += j.count[k];
    }
    *y = FAULT == 2 || FAULT == 3 ? j.total : (A)sum;
    *many = FAULT == 13 ? j.counted : counted;
    if (FAULT == 6 && N == 0) *y = 1;
    if (FAULT == 14) {
        double *own = malloc(1000);
        if (N == 0) return status;
        free(own);
    }
    return status;
}

WICK_IMPL wick_status dot_backward_cpu(wick_ctx *ctx, const A *dy, const T *a, const T *b, T *da,
                                       T *db, int64_t N)
{
    (void)ctx;
    for (int64_t i = 0; i < N; i++) {
        if (da || FAULT == 10) da[i] = wick_T(*dy * wick_A(b[i]));
        if (db && (da || FAULT != 9)) db[i] = wick_T(*dy * wick_A(FAULT == 8 ? b[i] : a[i]));
        if (db && !da && FAULT == 9) db[i] = wick_T(0);
    }
    return WICK_OK;
}
