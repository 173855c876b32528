/* sharing -- what pieces of a loop and callers may share, and what they may not
 *
 * WAY, a number, chooses one. The first ten are sound.
 *
 *    1  sound   atomics
 *    2  sound   a mutex
 *    3  sound   the last piece sums up what all have written
 *    4  sound   memory of a piece's own, given back
 *    5  sound   memory of a thread's own
 *    6  sound   a table that the first caller fills, by pthread_once
 *    7  sound   memcpy and memset, each into its own part
 *    8  sound   a lock made of an atomic
 *    9  sound   a table that the first caller fills, told by an atomic
 *   10  sound   memory that grows in a piece
 *   11  race    a counter
 *   12  race    a flag that all set
 *   13  race    memset beyond the piece's own part
 *   14  race    memcpy out of another piece's part
 *   15  race    a mutex that only some take
 *   16  race    a relaxed flag that orders nothing
 *   17  race    bytes side by side, written as one word
 *   18  static  a buffer
 *   19  static  a table that the first caller fills
 *   20  static  a count of calls
 *   21  race    the flag of a thread that is asked without an atomic
 *   22  race    half of a vector
 *   23  race    room for eight pieces
 */
#include <wick/op.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

WICK_OP(share, "x: f32[N] -> y: f32[N], sum: i64[]");

typedef struct job {
    const float *x;
    float *y;
    int64_t n, count, parts[64];
    atomic_llong counted;
    atomic_int flag;
    pthread_mutex_t mutex;
    bool seen;
} job;

static float table[16];
static _Thread_local float own[16];

static void fill_table(void)
{
    for (int i = 0; i < 16; i++)
        table[i] = (float)i;
}

static void take_part(job *j, int64_t begin, int64_t end)
{
    for (int64_t i = begin; i < end; i++)
        j->y[i] = 2 * j->x[i];
}

typedef float four __attribute__((vector_size(16), aligned(4), may_alias));

static wick_status piece(void *arg, int64_t begin, int64_t end)
{
    job *j = arg;
    const int64_t n = end - begin;
    if (WAY != 14 && WAY != 13 && WAY != 7 && WAY != 22) take_part(j, begin, end);
    if (WAY == 1) atomic_fetch_add(&j->counted, n);
    if (WAY == 2 || (WAY == 15 && begin == 0)) pthread_mutex_lock(&j->mutex);
    if (WAY == 2 || WAY == 11 || WAY == 15) j->count += n; /* the count */
    if (WAY == 2 || (WAY == 15 && begin == 0)) pthread_mutex_unlock(&j->mutex);
    if (WAY == 3 && atomic_fetch_add(&j->counted, n) + n == j->n)
        for (int64_t i = 0; i < j->n; i++)
            j->count += j->y[i] > 0;
    if (WAY == 4 || WAY == 10) {
        float *mine = malloc(64);
        if (!mine) return WICK_ENOMEM;
        memset(mine, 0, 64);
        if (WAY == 10) {
            float *more = realloc(mine, 4096);
            if (!more) return WICK_ENOMEM;
            mine = more;
            mine[1000] = mine[3];
        }
        for (int64_t i = begin; i < end; i++)
            mine[i % 16] += j->x[i];
        free(mine);
    }
    if (WAY == 5)
        for (int64_t i = begin; i < end; i++)
            own[i % 16] += j->x[i];
    if (WAY == 7) {
        memset(&j->y[begin], 0, (size_t)n * sizeof(float));
        memcpy(&j->y[begin], &j->x[begin], (size_t)n * sizeof(float));
    }
    if (WAY == 8) {
        while (atomic_exchange_explicit(&j->flag, 1, memory_order_acquire)) {
        }
        j->count += n;
        atomic_store_explicit(&j->flag, 0, memory_order_release);
    }
    if (WAY == 12) j->seen = true; /* all the same */
    if (WAY == 13) memset(&j->y[begin], 0, (size_t)(n + (end < j->n)) * sizeof(float));
    if (WAY == 14) {
        memset(&j->y[begin], 0, (size_t)n * sizeof(float));
        if (begin) memcpy(&j->y[begin], &j->y[begin - 1], sizeof(float));
    }
    if (WAY == 16) {
        if (atomic_fetch_add_explicit(&j->counted, n, memory_order_relaxed)) j->count = n;
        j->count++;
    }
    if (WAY == 17) { /* four bytes at once, of which one is this piece's */
        uint32_t word;
        for (int64_t i = begin; i < end; i++)
            memcpy(&word, (char *)j->parts + i % 128, 4), word++,
                memcpy((char *)j->parts + i % 128, &word, 4);
    }
    if (WAY == 21) {
        if (begin && j->seen) j->count = 1;
        if (!begin) j->seen = true;
    }
    if (WAY == 23)
        for (int64_t i = begin; i < end; i++)
            j->parts[begin * 8 / j->n] += i;
    if (WAY == 22) {
        const four zero = {0};
        for (int64_t i = begin; i < end; i += 4)
            if (i + 4 <= j->n) *(four *)&j->y[i] = zero;
    }
    return WICK_OK;
}

WICK_IMPL wick_status share_cpu(wick_ctx *ctx, const float *x, float *y, int64_t *sum, int64_t N)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    static float buffer[16];
    static bool filled;
    static atomic_bool told;
    static int64_t calls;
    job j = {.x = x, .y = y, .n = N, .mutex = PTHREAD_MUTEX_INITIALIZER};
    if (WAY == 6) pthread_once(&once, fill_table);
    if (WAY == 9 && !atomic_load(&told)) {
        fill_table();
        atomic_store(&told, true);
    }
    if (WAY == 19 && !filled) {
        fill_table();
        filled = true;
    }
    if (WAY == 18)
        for (int64_t i = 0; i < N; i++)
            buffer[i % 16] = x[i];
    if (WAY == 20) calls++;
    wick_status status = wick_parallel(ctx, N, 5, piece, &j);
    if (WAY == 13 || WAY == 14 || WAY == 7 || WAY == 22) take_part(&j, 0, N);
    if (WAY == 6 || WAY == 9 || WAY == 19) y[0] += table[0];
    if (WAY == 18) y[0] += 0 * buffer[0];
    *sum = N;
    return status;
}
