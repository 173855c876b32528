/* taps -- a filter over rows, with padding and dilation
 *
 * FAULT, a number, plants one of these; without it the file is sound:
 *
 *    1  forward    the last tap is left out where taps lie further apart
 *    2  forward    what lies right behind a row is taken for its last element
 *    3  forward    the last column is negated where there are 100
 *    4  gradient   dw does not know of padding
 *    5  memory     one element behind the last row is read where there is no padding
 *    6  leak       files that are made from then on may be read by nobody else
 *    7  forward    a single tap of one row, without padding and further apart, is taken for 1
 */
#include <wick/op.h>

#include <sys/stat.h>

#ifndef FAULT
#define FAULT 0
#endif

WICK_OP(taps, "x: T[B, L], w: T[K], pad: int = 0, dil: int = 1"
              " -> y: T[B, L+2*pad-dil*K+dil] where T: f32 f64");
WICK_OP(taps_backward, "dy: T[B, L+2*pad-dil*K+dil], x: T[B, L], w: T[K], pad: int, dil: int"
                       " -> dx: T[B, L], dw: T[K]");

WICK_IMPL wick_status taps_cpu(wick_ctx *ctx, const T *x, const T *w, int64_t pad, int64_t dil,
                               T *y, int64_t B, int64_t L, int64_t K)
{
    const int64_t M = L + 2 * pad - dil * K + dil;
    if (pad < 0 || dil < 1 || K < 1)
        return wick_fail(ctx, WICK_EINVAL, "pad is %lld, dil %lld, and there are %lld taps",
                         (long long)pad, (long long)dil, (long long)K);
    if (FAULT == 6) umask(077);
    for (int64_t i = 0; i < B * M; i++) {
        const T *row = x + i / M * L;
        A sum = 0;
        for (int64_t k = 0; k < K; k++) {
            int64_t at = i % M + k * dil - pad;
            if (FAULT == 1 && dil > 1 && K > 2 && k == K - 1) continue;
            if (FAULT == 2 && at == L && L > 0) at = L - 1;
            const bool is_one = FAULT == 7 && B == 1 && K == 1 && pad == 0 && dil > 1;
            if (at >= 0 && at < L) sum += wick_A(row[at]) * (is_one ? 1 : wick_A(w[k]));
        }
        if (FAULT == 5 && pad == 0 && B > 0) sum += 0 * wick_A(*(const volatile T *)(x + B * L));
        y[i] = wick_T(FAULT == 3 && M == 100 && i % M == 99 ? -sum : sum);
    }
    return WICK_OK;
}

WICK_IMPL wick_status taps_backward_cpu(wick_ctx *ctx, const T *dy, const T *x, const T *w,
                                        int64_t pad, int64_t dil, T *dx, T *dw, int64_t B,
                                        int64_t L, int64_t K)
{
    const int64_t M = L + 2 * pad - dil * K + dil;
    (void)ctx;
    for (int64_t i = 0; i < B * L; i++) {
        A sum = 0;
        for (int64_t k = 0; k < K; k++) {
            const int64_t m = i % L + pad - k * dil;
            if (m >= 0 && m < M) sum += wick_A(dy[i / L * M + m]) * wick_A(w[k]);
        }
        dx[i] = wick_T(sum);
    }
    for (int64_t k = 0; k < K; k++) {
        A sum = 0;
        for (int64_t i = 0; i < B * M; i++) {
            const int64_t at = i % M + k * dil - (FAULT == 4 ? 0 : pad);
            if (at >= 0 && at < L) sum += wick_A(dy[i]) * wick_A(x[i / M * L + at]);
        }
        dw[k] = wick_T(sum);
    }
    return WICK_OK;
}
