/* schedule.c -- parallel loops as a trial wants them
 *
 * A loop is cut as it is for so many threads: pieces of equal size, none but the last under the
 * grain. The order in which they run is what differs between a busy machine and an idle one; an
 * operator must not notice.
 */
#define _GNU_SOURCE 1 /* sched_getcpu */
#include "trial.h"

#include <pthread.h>
#include <sched.h>
#include <time.h>

typedef struct loop {
    wick_body body;
    void *arg;
    int64_t n, piece, count;
    atomic_int status; /* the first that is not WICK_OK */
    atomic_int waiting, go;
} loop;

typedef struct worker {
    loop *of;
    int64_t index;
    pthread_t thread;
    bool started;
    int cpu; /* where it ran, and when */
    int64_t begin_ns, end_ns;
} worker;

static _Thread_local bool inside; /* of a piece: loops in it run inline */

static void run_piece(loop *l, int64_t index)
{
    int64_t begin = index * l->piece, end = begin + l->piece < l->n ? begin + l->piece : l->n;
    int none = WICK_OK;
    bool outer = inside;
    inside = true;
    wick_status s = l->body(l->arg, begin, end);
    inside = outer;
    if (s != WICK_OK) atomic_compare_exchange_strong(&l->status, &none, (int)s);
}

void wick_wait_until(const atomic_int *counter, int wanted)
{
    enum { PATIENCE = 2000 };
    for (int spins = 0; atomic_load(counter) < wanted; spins++)
        if (spins > PATIENCE) sched_yield();
}

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void run_timed(worker *w)
{
    w->cpu = sched_getcpu();
    w->begin_ns = now_ns();
    run_piece(w->of, w->index);
    w->end_ns = now_ns();
}

static void *run_worker(void *arg)
{
    worker *w = arg;
    atomic_fetch_add(&w->of->waiting, 1);
    wick_wait_until(&w->of->go, 1);
    run_timed(w);
    return NULL;
}

/* Two of them ran at the same time, on two CPUs. */
static bool have_met(const worker *workers, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < i; k++)
            if (workers[i].started && workers[k].started && workers[i].cpu != workers[k].cpu &&
                workers[i].begin_ns < workers[k].end_ns && workers[k].begin_ns < workers[i].end_ns)
                return true;
    return false;
}

/* All pieces at once: every thread waits, spinning, until the last one is there. Whether two of
 * them did run at the same time: on a busy machine they seldom do. */
static bool run_at_once(loop *l)
{
    enum { MOST = 64 };
    worker workers[MOST];
    int64_t n = l->count < MOST ? l->count : MOST;
    int started = 0;
    workers[0] = (worker){.of = l, .started = true};
    for (int64_t i = 1; i < n; i++) {
        workers[i] = (worker){.of = l, .index = i};
        workers[i].started = !pthread_create(&workers[i].thread, NULL, run_worker, &workers[i]);
        started += workers[i].started;
    }
    wick_wait_until(&l->waiting, started);
    atomic_store(&l->go, 1);
    run_timed(&workers[0]);
    for (int64_t i = 1; i < n; i++) {
        if (workers[i].started)
            pthread_join(workers[i].thread, NULL);
        else
            run_piece(l, i);
    }
    for (int64_t i = n; i < l->count; i++)
        run_piece(l, i);
    return have_met(workers, n);
}

static void run_strand(void *arg, int strand) { run_piece(arg, strand); }

/* A permutation without memory: steps of a size that has no divisor in common with the count. */
static int64_t shuffled_step(int64_t count, uint64_t seed)
{
    for (int64_t step = (int64_t)(seed % (uint64_t)count) | 1;; step += 2) {
        int64_t a = step, b = count;
        while (b) {
            int64_t rest = a % b;
            a = b;
            b = rest;
        }
        if (a == 1) return step;
    }
}

wick_status wick_schedule_parallel(wick_ctx *ctx, int64_t n, int64_t grain, wick_body body,
                                   void *arg)
{
    wick_schedule *s = (wick_schedule *)ctx->host;
    int64_t most = n / (grain > 0 ? grain : 1);
    if (inside || most < 2) return body(arg, 0, n);
    s->loops++;
    if (most > s->pieces) s->pieces = most;
    int64_t wanted = s->threads < most ? s->threads : most;
    if (s->order == WICK_ORDER_WATCHED && wanted > WICK_WATCH_STRANDS) wanted = WICK_WATCH_STRANDS;
    if (wanted < 2) return body(arg, 0, n);
    loop l = {.body = body, .arg = arg, .n = n, .piece = (n + wanted - 1) / wanted};
    l.count = (n + l.piece - 1) / l.piece;
    if (s->order == WICK_ORDER_AT_ONCE) {
        s->meetings += run_at_once(&l);
    } else if (s->order == WICK_ORDER_WATCHED) {
        WICK_TRY(wick_watch_run(ctx, (int)l.count, run_strand, &l));
    } else {
        int64_t step = s->order == WICK_ORDER_SHUFFLED ? shuffled_step(l.count, s->seed) : 1;
        for (int64_t i = 0; i < l.count; i++) {
            int64_t at = s->order == WICK_ORDER_BACKWARDS ? l.count - 1 - i : i * step % l.count;
            run_piece(&l, at);
        }
    }
    return (wick_status)atomic_load(&l.status);
}
