/* gap -- y = |a - b| as integers wrap, less = a < b, many = how often, share = of all; integers of
 * every type
 *
 * FAULT, a number, plants one of these; without it the file is sound:
 *
 *    1  forward    the difference is kept in T
 *    2  forward    the difference saturates
 *    3  forward    u8 is taken for i8
 *    4  forward    the smallest number of the type is taken for the largest
 *    5  forward    less is also true of equals
 *    6  forward    numbers are compared as if they had no sign
 *    7  forward    of each 16, the last less is false
 *    8  memory     bits of y are cleared, not set
 *    9  memory     less is only written where it is true
 *   10  forward    many is that of the first 1000
 *   11  forward    many of nothing is 1
 *   12  forward    the difference is computed in 32 bits: i32 overflows
 *   13  forward    the difference is computed in f32
 *   14  forward    many is kept in 8 bits
 *   15  threads    many is counted by all threads at once
 *   16  forward    the share is a float's
 *   17  memory     less is the byte 255 where it is true
 */
#include <wick/op.h>

#include <stdint.h>
#include <string.h>

#ifndef FAULT
#define FAULT 0
#endif

WICK_OP(gap, "a: T[N], b: T[N] -> y: T[N], less: bool[N], many: int, share: float where T: i8 i16 "
             "i32 i64 u8");

enum { CHUNKS = 64, IS_SIGNED = (T)-1 < (T)1 };

typedef struct job {
    const T *a, *b;
    T *y;
    bool *less;
    int64_t N, per, count[CHUNKS];
    volatile int64_t shared;
} job;

static int64_t lowest(void)
{
    return sizeof(T) == 1   ? INT8_MIN
           : sizeof(T) == 2 ? INT16_MIN
           : sizeof(T) == 4 ? INT32_MIN
                            : INT64_MIN;
}

static A difference(T a, T b)
{
    A x = wick_A(a), y = wick_A(b);
    if (FAULT == 3) x = (A)(int8_t)a, y = (A)(int8_t)b;
    if (FAULT == 4 && IS_SIGNED && x == lowest()) x = -(x + 1);
    if (FAULT == 1) x = (A)(T)(x - y), y = 0;
    if (FAULT == 12) x = (A)(int32_t)(x - y), y = 0;
    if (FAULT == 13) return (A)((float)x < (float)y ? (float)y - (float)x : (float)x - (float)y);
    A d = x < y ? y - x : x - y;
    return FAULT == 2 && sizeof(T) == 1 && d > 127 ? 127 : d;
}

static bool is_less(const job *j, int64_t i)
{
    if (FAULT == 7 && i % 16 == 15) return false;
    if (FAULT == 5) return j->a[i] <= j->b[i];
    return FAULT == 6 ? (uint64_t)j->a[i] < (uint64_t)j->b[i] : j->a[i] < j->b[i];
}

static wick_status gap_chunks(void *arg, int64_t begin, int64_t end)
{
    job *j = arg;
    for (int64_t k = begin; k < end; k++)
        for (int64_t i = k * j->per; i < wick_min((k + 1) * j->per, j->N); i++) {
            T d = wick_T(difference(j->a[i], j->b[i]));
            bool less = is_less(j, i);
            j->y[i] = FAULT == 8 ? (T)(j->y[i] & d) : d;
            if (FAULT == 17)
                memset(&j->less[i], less ? 255 : 0, 1);
            else if (FAULT != 9 || less)
                j->less[i] = less;
            if (FAULT != 10 || i < 1000) j->count[k] += less;
            if (FAULT == 15 && less) j->shared++;
        }
    return WICK_OK;
}

WICK_IMPL wick_status gap_cpu(wick_ctx *ctx, const T *a, const T *b, T *y, bool *less,
                              int64_t *many, double *share, int64_t N)
{
    job j = {
        .a = a, .b = b, .y = y, .less = less, .N = N, .per = wick_max(wick_ceil_div(N, CHUNKS), 1)};
    wick_status status = wick_parallel(ctx, wick_ceil_div(N, j.per), 1, gap_chunks, &j);
    *many = FAULT == 11 && N == 0;
    for (int k = 0; k < CHUNKS; k++)
        *many += j.count[k];
    if (FAULT == 14) *many = (int8_t)*many;
    if (FAULT == 15) *many = j.shared;
    *share = N == 0 ? 0.0 : (double)*many / (double)N;
    if (FAULT == 16) *share = (double)(float)*share;
    return status;
}
