/* parallel.c -- wick_parallel for a program without torch: fork and join, no pool
 *
 * Threads live for one call, so that nothing runs, waits or must be shut down between calls;
 * kernels choose `grain` such that a piece outweighs starting a thread. The caller works on the
 * first piece itself. Lack of memory or threads never fails a call: what cannot run beside runs
 * inline. A call from inside a piece runs inline too, as the CPUs are taken already.
 */
#define _GNU_SOURCE                                                                                \
    1 /* sched_getaffinity: the CPUs we may use, fewer than there are in a container */
#include <wick/wick.h>

#include "core.h"

#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <unistd.h>

typedef struct loop {
    wick_body body;
    void *arg;
    atomic_int failure; /* the first status other than WICK_OK */
} loop;

typedef struct piece {
    loop *of;
    int64_t begin, end;
    pthread_t thread;
    bool started;
} piece;

static atomic_int wanted_threads;
static _Thread_local bool inside_piece;

void wick_set_threads(int n) { atomic_store(&wanted_threads, n > 0 ? n : 0); }

static int64_t count_threads(void)
{
    int wanted = atomic_load(&wanted_threads);
    if (wanted > 0) return wanted;
    cpu_set_t cpus;
    if (sched_getaffinity(0, sizeof cpus, &cpus) == 0) return CPU_COUNT(&cpus);
    /* More CPUs than a cpu_set_t holds. */
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? online : 1;
}

static void *run_piece(void *arg)
{
    piece *p = arg;
    bool outer = inside_piece;
    inside_piece = true;
    int status = (int)p->of->body(p->of->arg, p->begin, p->end);
    inside_piece = outer;
    int none = WICK_OK;
    if (status != WICK_OK) atomic_compare_exchange_strong(&p->of->failure, &none, status);
    return NULL;
}

static wick_status fork_and_join(loop *of, piece *pieces, int64_t count, int64_t n)
{
    int64_t share = n / count, rest = n % count, begin = 0;
    for (int64_t i = 0; i < count; i++) {
        int64_t end = begin + share + (i < rest ? 1 : 0);
        pieces[i] = (piece){.of = of, .begin = begin, .end = end};
        begin = end;
    }
    for (int64_t i = 1; i < count; i++) {
        pieces[i].started = pthread_create(&pieces[i].thread, NULL, run_piece, &pieces[i]) == 0;
    }
    for (int64_t i = 0; i < count; i++) {
        if (!pieces[i].started) run_piece(&pieces[i]);
    }
    for (int64_t i = 1; i < count; i++) {
        if (pieces[i].started) pthread_join(pieces[i].thread, NULL);
    }
    return (wick_status)atomic_load(&of->failure);
}

wick_status wick_plain_parallel(wick_ctx *ctx, int64_t n, int64_t grain, wick_body body, void *arg)
{
    (void)ctx;
    assert(body);
    if (n <= 0) return WICK_OK;
    int64_t most = n / (grain > 0 ? grain : 1);
    if (inside_piece || most <= 1) return body(arg, 0, n);
    int64_t threads = count_threads();
    int64_t count = most < threads ? most : threads;
    if (count <= 1) return body(arg, 0, n);
    piece *pieces = wick_calloc((size_t)count, sizeof *pieces);
    if (!pieces) return body(arg, 0, n);
    loop of = {.body = body, .arg = arg};
    wick_status status = fork_and_join(&of, pieces, count, n);
    wick_free(pieces);
    return status;
}
