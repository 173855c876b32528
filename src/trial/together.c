/* together.c -- one operator, several threads that call it
 *
 * What an operator keeps in static memory between its first line and its last is another thread's
 * as well. Every trial has inputs of its own, so that what is mixed up shows.
 */
#include "trial.h"

#include <pthread.h>
#include <time.h>

typedef struct caller {
    wick_trial *trial;
    int64_t rounds;
    atomic_int *waiting, *go, *stop;
    pthread_t thread;
    bool started, differs;
} caller;

static int64_t now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* So often as asked, and long enough for threads to meet. */
static void *call_often(void *arg)
{
    enum { LEAST_US = 20000 };
    caller *c = arg;
    atomic_fetch_add(c->waiting, 1);
    wick_wait_until(c->go, 1);
    const int64_t start = now_us();
    for (int64_t r = 0; !atomic_load(c->stop) && !c->differs; r++) {
        if (r >= c->rounds && now_us() - start > LEAST_US) break;
        c->differs = wick_trial_again(c->trial) != WICK_OK || !wick_trial_agrees(c->trial);
    }
    if (c->differs) atomic_store(c->stop, 1);
    return NULL;
}

wick_status wick_trial_together(wick_ctx *ctx, wick_trial *trials, int n, int64_t rounds,
                                int *differs)
{
    enum { MOST = 16 };
    caller callers[MOST];
    atomic_int waiting = 0, go = 0, stop = 0;
    int started = 0;

    *differs = -1;
    if (n > MOST) return wick_fail(ctx, WICK_EINVAL, "%d threads, expected at most %d", n, MOST);
    for (int i = 0; i < n; i++) {
        wick_status s = wick_trial_first(&trials[i]);
        if (s != WICK_OK) return wick_fail(ctx, s, "%s", wick_ctx_message(&trials[i].ctx));
    }
    for (int i = 0; i < n; i++) {
        callers[i] = (caller){
            .trial = &trials[i], .rounds = rounds, .waiting = &waiting, .go = &go, .stop = &stop};
        callers[i].started = !pthread_create(&callers[i].thread, NULL, call_often, &callers[i]);
        started += callers[i].started;
    }
    wick_wait_until(&waiting, started);
    atomic_store(&go, 1);
    for (int i = 0; i < n; i++) {
        if (callers[i].started) pthread_join(callers[i].thread, NULL);
        if (callers[i].differs && *differs < 0) *differs = i;
    }
    return WICK_OK;
}

typedef struct watched {
    wick_trial *trials;
    atomic_int status;  /* the first that is not WICK_OK */
    atomic_int refused; /* and whose that is */
} watched;

static void call_watched(void *arg, int strand)
{
    watched *w = arg;
    wick_status s = wick_trial_again(&w->trials[strand]);
    if (s == WICK_OK || atomic_load(&w->status) != WICK_OK) return;
    atomic_store(&w->status, (int)s);
    atomic_store(&w->refused, strand);
}

wick_status wick_trial_watch(wick_ctx *ctx, wick_trial *trials, int n)
{
    watched w = {.trials = trials, .status = WICK_OK};
    WICK_TRY(wick_watch_run(ctx, n, call_watched, &w));
    wick_status s = (wick_status)atomic_load(&w.status);
    if (s == WICK_OK) return s;
    return wick_fail(ctx, s, "%s", wick_ctx_message(&trials[atomic_load(&w.refused)].ctx));
}
