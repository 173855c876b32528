/* stretch -- y = scale * f(x) + shift, f chosen by mode; and many ways to get it wrong
 *
 * FAULT, a number, plants one of these; without it the file is sound:
 *
 *    1  forward    the last element is left out
 *    2  forward    only whole groups of 8: no tail
 *    3  forward    wrong from 4096 elements on
 *    4  forward    wrong from 65536 elements on
 *    5  forward    wrong from a million elements on
 *    6  forward    the first element is skipped
 *    7  forward    scale is ignored
 *    8  forward    shift is ignored where it is negative
 *    9  forward    'square' is taken for 'abs'
 *   10  forward    f16 alone is wrong
 *   11  forward    rounded to T in between
 *   12  forward    NaN becomes 0
 *   13  forward    infinity becomes the largest number
 *   14  forward    denormals are flushed to 0
 *   15  forward    an intermediate overflows in f16
 *   16  forward    computed in f32 where T is f64
 *   17  memory     the last element is not written
 *   18  memory     one element past the end is written
 *   19  memory     one element before the start is written
 *   20  memory     one element past the end is read
 *   21  memory     an element before the start is read
 *   22  memory     x is written
 *   23  memory     x is written, and put back
 *   24  memory     y is added to, not set
 *   25  memory     a vector load that wants alignment
 *   26  memory     an array of N on the stack
 *   27  memory     it crashes for one size
 *   28  memory     it does not end for one size
 *   29  memory     it aborts for NaN
 *   30  memory     it ends the process
 *   31  repeat     scale is kept from the first call
 *   32  repeat     every 50th call is wrong
 *   33  repeat     the result of the last call is kept by address
 *   34  repeat     a random number is added
 *   35  threads    a buffer is static
 *   36  threads    a piece writes the first element of the next one
 *   37  leak       memory is lost by every call
 *   38  leak       memory is lost by calls of more than 500 elements
 *   39  leak       memory is lost by calls that are refused
 *   40  leak       a file stays open
 *   41  leak       mapped memory is lost
 *   42  gradient   the sign is wrong
 *   43  gradient   scale is ignored
 *   44  gradient   'square' has the gradient of 'linear'
 *   45  gradient   the last element is 0
 *   46  gradient   it uses what the last forward call left
 *   47  memory     the gradient's last element is not written
 *   48  huge       the number of elements is kept in 32 bits
 *   49  huge       the index of an element is kept in 32 bits
 *   50  forward    wrong where the last dim is 1000 or more, and odd
 *   51  repeat     the first call is wrong
 *   52  forward    only 3 digits: a coarse approximation
 *   53  memory     bytes of another type's size are copied in f16
 *   54  leak       a thread is left behind
 *   55  forward    0 counts as negative: -0.0 and 0.0 give 1/x the wrong sign
 */
#include <wick/op.h>

#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef FAULT
#define FAULT 0
#endif

WICK_OP(stretch, "x: T[*N], scale: float = 1.5, shift: float = 0.0,"
                 " mode: 'linear'|'square'|'abs'|'inverse' = 'linear' -> y: T[*N]"
                 " where T: f16 f32 f64");
WICK_OP(stretch_backward, "dy: T[*N], x: T[*N], scale: float,"
                          " mode: 'linear'|'square'|'abs'|'inverse' -> dx: T[*N]");

enum { GRAIN = 4096 };

static A apply(A v, int mode)
{
    if (mode == WICK_mode_square && FAULT != 9) return v * v;
    if (mode == WICK_mode_inverse) return 1 / (FAULT == 55 && v == 0 ? (A)0 : v);
    return mode == WICK_mode_linear ? v : v < 0 ? -v : v;
}

typedef struct job {
    const T *x;
    T *y;
    A scale, shift;
    int mode;
    int64_t N;
} job;

static T stretched(const job *j, A v)
{
    A f = apply(v, j->mode);
    if (FAULT == 11) f = wick_A(wick_T(f * (A)0.7)) / (A)0.7;
    if (FAULT == 12 && v != v) return wick_T(0);
    if (FAULT == 13 && isinf(v)) f = v > 0 ? (A)65504 : -(A)65504;
    if (FAULT == 14 && fabs((double)v) < (sizeof(T) == 2   ? 6.1e-5
                                          : sizeof(T) == 4 ? 1.2e-38
                                                           : 2.3e-308))
        f = 0;
    if (FAULT == 15) return wick_T(wick_A(wick_T(4 * j->scale * f)) / 4 + j->shift);
    if (FAULT == 16) return wick_T((A)((float)j->scale * (float)f + (float)j->shift));
    if (FAULT == 52)
        return wick_T((A)(floor((double)(j->scale * f) * 1000 + 0.5) / 1000) + j->shift);
    if (FAULT == 7) return wick_T((A)1.5 * f + j->shift);
    if (FAULT == 8) return wick_T(j->scale * f + (j->shift < 0 ? 0 : j->shift));
    return wick_T(j->scale * f + j->shift);
}

static wick_status stretch_piece(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    int64_t last = end;
#if FAULT == 1 || FAULT == 17
    if (end == j->N) last--;
#elif FAULT == 2
    last = begin + (end - begin) / 8 * 8;
    for (int64_t i = last; i < end; i++)
        j->y[i] = j->x[i];
#elif FAULT == 36
    if (end < j->N) j->y[end] = wick_T(0);
#endif
#if FAULT == 49
    for (int k = (int)begin; k < (int)(end - begin) + (int)begin; k++) {
        j->y[k] = stretched(j, wick_A(j->x[k]));
    }
    return WICK_OK;
#endif
    for (int64_t i = begin; i < last; i++)
        j->y[i] = stretched(j, wick_A(j->x[i]));
#if FAULT == 1
    if (end == j->N) j->y[last] = wick_T(0);
#endif
    return WICK_OK;
}

/* What goes wrong before the work is done. */
static wick_status plant_before(wick_ctx *ctx, job *j, double scale)
{
    (void)ctx, (void)j, (void)scale;
#if FAULT == 22 || FAULT == 23
    volatile char *x = (volatile char *)j->x;
    char kept = j->N ? x[0] : 0;
    if (j->N) x[0] = 1;
    if (j->N && FAULT == 23) x[0] = kept;
#elif FAULT == 26
    char room[j->N * 64 + 1];
    memset(room, 1, sizeof room);
    j->shift += (A)(room[j->N] - 1);
#elif FAULT == 27
    if (j->N == 257) *(volatile char *)0 = 1;
#elif FAULT == 28
    for (volatile int64_t k = 0; j->N == 129; k = !k) {
    }
#elif FAULT == 29
    for (int64_t i = 0; i < j->N; i++)
        if (wick_A(j->x[i]) != wick_A(j->x[i])) abort();
#elif FAULT == 30
    if (j->N > 1000) exit(3);
#elif FAULT == 31
    static A first;
    if (first == 0) first = j->scale;
    j->scale = first;
#elif FAULT == 32
    static int calls;
    if (++calls % 50 == 0) j->shift += 1;
#elif FAULT == 34
    j->shift += (A)rand() / (A)RAND_MAX;
#elif FAULT == 51
    static int called;
    if (!called++) j->shift += 1;
#elif FAULT == 37
    if (malloc(24) == NULL) return WICK_ENOMEM;
#elif FAULT == 38
    if (j->N > 500 && malloc(100) == NULL) return WICK_ENOMEM;
#elif FAULT == 40
    if (open("/dev/null", O_RDONLY) < 0) return WICK_EIO;
#elif FAULT == 41
    mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
#endif
    return WICK_OK;
}

#if FAULT == 54
static void *sleep_long(void *arg)
{
    pause();
    return arg;
}
#endif

/* And after. */
static void plant_after(const job *j)
{
    (void)j;
#if FAULT == 3 || FAULT == 4 || FAULT == 5
    const int64_t from = FAULT == 3 ? 4096 : FAULT == 4 ? 65536 : 1000000;
    for (int64_t i = from; i < j->N; i++)
        j->y[i] = j->y[i - 1];
#elif FAULT == 6
    if (j->N > 1) j->y[0] = j->y[1];
#elif FAULT == 10
    if (WICK_T == 1 && j->N > 2) j->y[2] = wick_T(1);
#elif FAULT == 18
    j->y[j->N] = wick_T(0);
#elif FAULT == 19
    j->y[-1] = wick_T(0);
#elif FAULT == 20
    if (j->N > 3) (void)*(const volatile char *)(j->x + j->N);
#elif FAULT == 21
    if (j->N > 3) (void)*(const volatile char *)(j->x - 1);
#elif FAULT == 50
    if (j->N >= 1000 && j->N % 2) j->y[j->N / 2] = wick_T(0);
#elif FAULT == 53
    volatile char *bytes = (volatile char *)j->y;
    for (int64_t i = 0; i < j->N * 4 && sizeof(T) == 2; i++)
        bytes[i] = bytes[i];
#elif FAULT == 54
    pthread_t thread;
    pthread_create(&thread, NULL, sleep_long, NULL);
    pthread_detach(thread);
#endif
}

#if FAULT == 25 && WICK_T != 1
typedef T aligned_vector __attribute__((vector_size(16)));
#endif

static A left_behind; /* used by FAULT 46 alone */

WICK_IMPL wick_status stretch_cpu(wick_ctx *ctx, const T *x, double scale, double shift, int mode,
                                  T *y, int64_t N)
{
    job j = {x, y, (A)scale, (A)shift, mode, N};
#if FAULT == 48
    j.N = N = (int)N;
#elif FAULT == 39
    void *volatile room = malloc(64); /* volatile: or it is never taken */
    if (!(scale < 1e200)) return wick_fail(ctx, WICK_EINVAL, "scale is %g, expected less", scale);
    free(room);
#elif FAULT == 33
    static const T *last_x;
    static int64_t last_N;
    static A last_scale;
    static T *kept;
    if (x == last_x && N == last_N && j.scale == last_scale && N > 0) {
        memcpy(y, kept, (size_t)N * sizeof(T));
        return WICK_OK;
    }
#elif FAULT == 35
    static T buffer[64];
    for (int64_t i = 0; i < N; i++)
        buffer[i % 64] = stretched(&j, wick_A(x[i])), y[i] = buffer[i % 64];
    for (int64_t i = N < 64 ? 0 : N - 64; i < N; i++)
        y[i] = buffer[i % 64];
    return WICK_OK;
#elif FAULT == 24
    for (int64_t i = 0; i < N; i++)
        y[i] = wick_T(0 * wick_A(y[i]) + wick_A(stretched(&j, wick_A(x[i]))));
    return WICK_OK;
#elif FAULT == 25 && WICK_T != 1
    for (int64_t i = 0; i + 16 / (int64_t)sizeof(T) <= N; i += 16 / (int64_t)sizeof(T)) {
        const aligned_vector v = *(const aligned_vector *)(x + i);
        *(aligned_vector *)(y + i) = v;
    }
#endif
    if (!(scale < 1e200)) return wick_fail(ctx, WICK_EINVAL, "scale is %g, expected less", scale);
    left_behind = FAULT == 46 ? (A)scale : 0;
    wick_status status = plant_before(ctx, &j, scale);
    if (status != WICK_OK) return status;
    status = wick_parallel(ctx, N, GRAIN, stretch_piece, &j);
    plant_after(&j);
#if FAULT == 33
    free(kept);
    kept = malloc((size_t)N * sizeof(T) + 1);
    memcpy(kept, y, (size_t)N * sizeof(T));
    last_x = x, last_N = N, last_scale = j.scale;
#endif
    return status;
}

/* ---- the gradient ---- */

static A slope(A v, int mode)
{
    if (mode == WICK_mode_square && FAULT != 44) return 2 * v;
    if (mode == WICK_mode_inverse) return -1 / (v * v);
    if (mode == WICK_mode_abs) return v > 0 ? 1 : v < 0 ? -1 : 0;
    return 1;
}

WICK_IMPL wick_status stretch_backward_cpu(wick_ctx *ctx, const T *dy, const T *x, double scale,
                                           int mode, T *dx, int64_t N)
{
    A factor = FAULT == 43 ? (A)1.5 : FAULT == 46 ? left_behind : (A)scale;
    (void)ctx;
    for (int64_t i = 0; i < N - (FAULT == 47); i++) {
        A sign = FAULT == 42 ? -1 : 1;
        dx[i] = wick_T(sign * wick_A(dy[i]) * factor * slope(wick_A(x[i]), mode));
    }
    if (FAULT == 45 && N > 0) dx[N - 1] = wick_T(0);
    return WICK_OK;
}
