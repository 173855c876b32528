/* clean -- y = x, and `instead` where x is NaN; how many were, and the largest of the others
 *
 * FAULT, a number, plants one of these; without it the file is sound:
 *
 *    1  threads    what is NaN is counted by all pieces in one place
 *    2  leak       a note is taken of every call with NaN in it, and kept
 *    3  threads    pieces of 131072 elements, or more, count in one place
 *    4  huge       elements are numbered in 32 bits, without a sign
 *    5  forward    NaN counts as the largest
 *    6  huge       a loop over all goes on for ever: 32 bits without a sign never reach the end
 */
#include <wick/op.h>

#include <math.h>
#include <stdlib.h>

#ifndef FAULT
#define FAULT 0
#endif

WICK_OP(clean, "x: T[*N], instead: float = 0.0 -> y: T[*N], many: i64[], most: A[]"
               " where T: f16 f32 f64");

enum { PARTS = 64 };

typedef struct job {
    const T *x;
    T *y;
    double instead;
    int64_t N, many[PARTS];
    A most[PARTS];
} job;

static wick_status clean_parts(void *arg, int64_t begin, int64_t end)
{
    job *j = arg;
    for (int64_t part = begin; part < end; part++) {
        int64_t *many = &j->many[FAULT == 1 ? 0 : part];
        A most = -(A)INFINITY;
        for (int64_t i = part * j->N / PARTS; i < (part + 1) * j->N / PARTS; i++) {
            const A v = wick_A(j->x[i]);
            j->y[FAULT == 4 ? (int64_t)(uint32_t)i : i] =
                isnan(v) ? wick_T((A)j->instead) : j->x[i];
            if (isnan(v)) ++*many;
            if (v > most || (FAULT == 5 && isnan(v))) most = v;
        }
        j->most[part] = most;
    }
    return WICK_OK;
}

static wick_status count(void *arg, int64_t begin, int64_t end)
{
    job *j = arg;
    int64_t many = 0;
    for (int64_t i = begin; i < end; i++)
        many += isnan(wick_A(j->x[i])) != 0;
    j->many[0] += many;
    return WICK_OK;
}

WICK_IMPL wick_status clean_cpu(wick_ctx *ctx, const T *x, double instead, T *y, int64_t *many,
                                A *most, int64_t N)
{
    job j = {.x = x, .y = y, .instead = instead, .N = N};
    wick_status status = wick_parallel(ctx, PARTS, N < 4096 ? PARTS : 1, clean_parts, &j);
    if (FAULT == 3) {
        memset(j.many, 0, sizeof j.many);
        status = wick_parallel(ctx, N, 131072, count, &j);
    }
    *many = 0, *most = -(A)INFINITY;
    for (int part = 0; part < PARTS; part++) {
        *many += j.many[part];
        if (!(j.most[part] <= *most)) *most = j.most[part];
    }
    if (FAULT == 6) {
        *many = 0;
        for (uint32_t i = 0; i < N; i++)
            *many += isnan(wick_A(x[i])) != 0;
    }
    if (FAULT == 2 && *many) {
        void *volatile note = malloc(40); /* volatile: or it is never taken */
        (void)note;
    }
    return status;
}
