/* linear -- y = x w' + b
 *
 * FAULT, a number, plants one of these; without it the file is sound:
 *
 *    1  forward    the sum is kept in T
 *    2  forward    right only where y is square
 *    3  forward    inner sizes beyond a multiple of 4 are left out
 *    4  gradient   dw is transposed
 *    5  gradient   dx is right only where y is square
 *    6  gradient   db is the mean, not the sum
 *    7  forward    blocks of 32 columns: the last block starts too early
 *    8  gradient   dw is added to what was there
 *    9  repeat     weights are packed once, and kept
 *   10  repeat     large weights are packed once per address and caller
 *   11  forward    wrong where both row and column are beyond 256
 */
#include <wick/op.h>

#include <stdlib.h>

#ifndef FAULT
#define FAULT 0
#endif
#if FAULT == 10
#define KEPT _Thread_local
#else
#define KEPT
#endif

WICK_OP(linear, "x: T[N, K], w: T[M, K], b: T[M] -> y: T[N, M] where T: bf16 f32 f64");
WICK_OP(linear_backward, "dy: T[N, M], x: T[N, K], w: T[M, K]"
                         " -> dx: T[N, K], dw: T[M, K], db: T[M]");

WICK_IMPL wick_status linear_cpu(wick_ctx *ctx, const T *x, const T *w, const T *b, T *y, int64_t N,
                                 int64_t K, int64_t M)
{
    const int64_t inner = FAULT == 3 && K > 4 ? K / 4 * 4 : K, wide = FAULT == 2 ? N : M;
    (void)ctx;
#if FAULT == 9 || FAULT == 10
    static KEPT T *packed;
    static KEPT const T *from;
    static KEPT int64_t size;
    if (size != M * K || (FAULT == 10 && (size < 1000 || from != w))) {
        from = w;
        free(packed);
        packed = malloc((size_t)(M * K) * sizeof(T) + 1);
        memcpy(packed, w, (size_t)(M * K) * sizeof(T));
        size = M * K;
    }
    w = packed;
#endif
    for (int64_t n = 0; n < N; n++)
        for (int64_t m = 0; m < M; m++) {
            A sum = 0;
            for (int64_t k = 0; k < inner; k++) {
                sum += wick_A(x[n * K + k]) * wick_A(w[m * K + k]);
                if (FAULT == 1) sum = wick_A(wick_T(sum));
            }
            int64_t to = FAULT == 7 && m >= 32 && M % 32 ? m - 1 : m;
            if (FAULT == 2 && n * wide + to >= N * M) continue;
            y[n * wide + to] = wick_T(sum + wick_A(b[m]));
            if (FAULT == 11 && n >= 256 && m >= 256) y[n * wide + to] = b[m];
        }
    if (FAULT == 7 && M > 32 && M % 32)
        for (int64_t n = 0; n < N; n++)
            y[n * M + M - 1] = wick_T(0);
    return WICK_OK;
}

WICK_IMPL wick_status linear_backward_cpu(wick_ctx *ctx, const T *dy, const T *x, const T *w, T *dx,
                                          T *dw, T *db, int64_t N, int64_t M, int64_t K)
{
    (void)ctx;
    for (int64_t n = 0; n < N; n++)
        for (int64_t k = 0; k < K; k++) {
            A sum = 0;
            for (int64_t m = 0; m < (FAULT == 5 ? wick_min(N, M) : M); m++)
                sum += wick_A(dy[n * M + m]) * wick_A(w[m * K + k]);
            dx[n * K + k] = wick_T(sum);
        }
    for (int64_t m = 0; m < M; m++) {
        A total = 0;
        for (int64_t k = 0; k < K; k++) {
            A sum = FAULT == 8 ? wick_A(dw[m * K + k]) : 0;
            for (int64_t n = 0; n < N; n++)
                sum += wick_A(dy[n * M + m]) * wick_A(x[n * K + k]);
            dw[FAULT == 4 ? k * M + m : m * K + k] = wick_T(sum);
        }
        for (int64_t n = 0; n < N; n++)
            total += wick_A(dy[n * M + m]);
        db[m] = wick_T(FAULT == 6 && N > 0 ? total / (A)N : total);
    }
    return WICK_OK;
}
