/* step_ -- a step of momentum in place: m = beta * m + g, p = p - lr * m
 *
 * FAULT, a number, plants one of these; without it the file is sound:
 *
 *    1  forward    p is moved by the momentum as it was
 *    2  forward    m is not kept
 *    3  forward    in bf16 alone, only groups of 4 are moved
 *    4  memory     g is written as well
 *    5  forward    a rate of 0 is taken for the default
 *    6  forward    without g, m stays as it is
 *    7  memory     g is taken to be there
 *    8  forward    nesterov is ignored
 *    9  forward    nothing happens to the first of more than 1000
 *   10  forward    wrong where p and m are the same size as 128
 *   11  repeat     a step is taken only once for the same p
 *   12  threads    p is written in two strokes, across pieces
 */
#include <wick/op.h>

#include <stdint.h>

#ifndef FAULT
#define FAULT 0
#endif

WICK_OP(step_, "p!: T[N], m!: f32[N], g?: T[N], lr: float = 0.1, beta: float = 0.9,"
               " nesterov: bool = false -> () where T: bf16 f32");

typedef struct job {
    T *p;
    float *m;
    const T *g;
    float lr, beta;
    bool nesterov;
    int64_t N;
} job;

static wick_status step_piece(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    int64_t last = FAULT == 3 && sizeof(T) == 2 ? begin + (end - begin) / 4 * 4 : end;
    for (int64_t i = begin; i < last; i++) {
        if (FAULT == 9 && j->N > 1000 && i == 0) continue;
        float g = j->g || FAULT == 7 ? (float)wick_A(j->g[i]) : 0, before = j->m[i];
        float m = FAULT == 6 && !j->g ? before : j->beta * before + g;
        float move = j->nesterov && FAULT != 8 ? j->beta * m + g : m;
        if (FAULT == 10 && j->N == 128) move = 0;
        j->p[i] = wick_T((A)((float)wick_A(j->p[i]) - j->lr * (FAULT == 1 ? before : move)));
        if (FAULT != 2) j->m[i] = m;
    }
#if FAULT == 12
    if (end < j->N) j->m[end] = j->m[end] * 2 / 2, j->p[end] = wick_T(wick_A(j->p[end]) + 1);
    if (begin > 0) j->p[begin] = wick_T(wick_A(j->p[begin]) - 1);
#endif
    return WICK_OK;
}

WICK_IMPL wick_status step__cpu(wick_ctx *ctx, T *p, float *m, const T *g, double lr, double beta,
                                bool nesterov, int64_t N)
{
    job j = {p, m, g, (float)lr, (float)beta, nesterov, N};
    if (FAULT == 5 && lr == 0) j.lr = 0.1F;
#if FAULT == 4
    if (g && N) *(volatile T *)(uintptr_t)g = wick_T(0);
#elif FAULT == 11
    static const T *last;
    if (last == p && N > 0) return WICK_OK;
    last = p;
#endif
    return wick_parallel(ctx, N, 256, step_piece, &j);
}
