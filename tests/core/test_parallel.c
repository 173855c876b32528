/* test_parallel.c -- every item once, pieces not too small, and never a failure of its own */
#define _GNU_SOURCE 1 /* sched_setaffinity, pthread_setattr_default_np */
#include "core.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

enum { MOST_ITEMS = 1000 };

typedef struct work {
    unsigned char seen[MOST_ITEMS]; /* plain bytes: two pieces that share an item are a race */
    atomic_int pieces;
    atomic_long smallest;
    atomic_int on_caller;
    pthread_t caller;
} work;

static wick_status count_items(void *arg, int64_t begin, int64_t end)
{
    work *w = arg;
    for (int64_t i = begin; i < end; i++) {
        w->seen[i]++;
    }
    atomic_fetch_add(&w->pieces, 1);
    if (pthread_equal(pthread_self(), w->caller)) atomic_fetch_add(&w->on_caller, 1);
    long size = (long)(end - begin), smallest = atomic_load(&w->smallest);
    while (size < smallest && !atomic_compare_exchange_weak(&w->smallest, &smallest, size)) {
    }
    return WICK_OK;
}

static void run(work *w, int64_t n, int64_t grain)
{
    memset(w->seen, 0, sizeof w->seen);
    atomic_store(&w->pieces, 0);
    atomic_store(&w->smallest, MOST_ITEMS + 1);
    atomic_store(&w->on_caller, 0);
    w->caller = pthread_self();
    cr_assert_eq(wick_plain_parallel(NULL, n, grain, count_items, w), WICK_OK);
    for (int64_t i = 0; i < MOST_ITEMS; i++) {
        cr_assert_eq(w->seen[i], i < n ? 1 : 0, "item %ld of %ld was done %d times", (long)i,
                     (long)n, w->seen[i]);
    }
}

Test(parallel, every_item_is_done_once_in_pieces_of_at_least_a_grain)
{
    static const int64_t sizes[] = {0, 1, 2, 3, 7, 63, 64, 65, 999, MOST_ITEMS};
    static const int64_t grains[] = {-1, 0, 1, 2, 5, 64, 500, 5000};
    static const int threads[] = {1, 2, 3, 7};
    work w;
    for (int t = 0; t < WICK_COUNT(threads); t++) {
        wick_set_threads(threads[t]);
        for (int s = 0; s < WICK_COUNT(sizes); s++) {
            for (int g = 0; g < WICK_COUNT(grains); g++) {
                int64_t n = sizes[s], grain = grains[g] < 1 ? 1 : grains[g];
                run(&w, n, grains[g]);
                int64_t most = n / grain < threads[t] ? n / grain : threads[t];
                if (most < 1) most = n > 0;
                cr_assert_eq(w.pieces, most, "n %ld, grain %ld, %d threads: %d pieces", (long)n,
                             (long)grain, threads[t], w.pieces);
                if (n > 0) cr_assert_geq(w.smallest, n < grain ? n : grain);
            }
        }
    }
    cr_assert_eq(wick_memory_live(), 0);
}

static wick_status meet(void *arg, int64_t begin, int64_t end)
{
    (void)begin, (void)end;
    pthread_barrier_wait(arg);
    return WICK_OK;
}

Test(parallel, pieces_run_at_the_same_time, .timeout = 20)
{
    pthread_barrier_t gate;
    pthread_barrier_init(&gate, NULL, 4);
    wick_set_threads(4);
    cr_assert_eq(wick_plain_parallel(NULL, 4, 1, meet, &gate), WICK_OK);
    pthread_barrier_destroy(&gate);
}

Test(parallel, zero_threads_means_the_cpus_we_may_use)
{
    cpu_set_t allowed, one;
    work w;
    cr_assert_eq(sched_getaffinity(0, sizeof allowed, &allowed), 0);
    wick_set_threads(0);
    run(&w, MOST_ITEMS, 1);
    cr_assert_eq(w.pieces, CPU_COUNT(&allowed));
    size_t cpu = 0;
    while (!CPU_ISSET(cpu, &allowed)) {
        cpu++;
    }
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    cr_assert_eq(sched_setaffinity(0, sizeof one, &one), 0);
    wick_set_threads(-3);
    run(&w, MOST_ITEMS, 1);
    cr_assert_eq(w.pieces, 1);
}

static wick_status nest(void *arg, int64_t begin, int64_t end)
{
    (void)begin, (void)end;
    work w;
    atomic_int *wrong = arg;
    memset(&w, 0, sizeof w);
    w.caller = pthread_self();
    wick_status status = wick_plain_parallel(NULL, MOST_ITEMS, 1, count_items, &w);
    if (w.pieces != 1 || w.on_caller != 1) atomic_fetch_add(wrong, 1);
    return status;
}

Test(parallel, a_call_from_inside_runs_inline)
{
    atomic_int wrong = 0;
    work w;
    wick_set_threads(3);
    cr_assert_eq(wick_plain_parallel(NULL, 3, 1, nest, &wrong), WICK_OK);
    cr_assert_eq(wrong, 0);
    run(&w, MOST_ITEMS, 1);
    cr_assert_eq(w.pieces, 3, "the caller's thread is not inside any more");
}

typedef struct failing {
    int64_t at;
    atomic_int done;
} failing;

static wick_status fail_at(void *arg, int64_t begin, int64_t end)
{
    failing *f = arg;
    atomic_fetch_add(&f->done, 1);
    return f->at >= begin && f->at < end ? WICK_ENOTSUP : WICK_OK;
}

Test(parallel, a_failing_piece_is_reported_after_all_are_done)
{
    for (int threads = 1; threads <= 4; threads++) {
        wick_set_threads(threads);
        for (int64_t at = 0; at < 4; at++) {
            failing f = {.at = at};
            cr_assert_eq(wick_plain_parallel(NULL, 4, 1, fail_at, &f), WICK_ENOTSUP);
            cr_assert_eq(f.done, threads);
        }
    }
}

static wick_status fail_always(void *arg, int64_t begin, int64_t end)
{
    (void)end;
    return wick_fail(arg, WICK_EINVAL, "item %d", (int)begin);
}

Test(parallel, pieces_may_fail_together)
{
    wick_ctx ctx;
    wick_ctx_init(&ctx, NULL);
    wick_set_threads(4);
    cr_assert_eq(ctx.services->parallel(&ctx, 4, 1, fail_always, &ctx), WICK_EINVAL);
    cr_assert_eq(strncmp(wick_ctx_message(&ctx), "item ", 5), 0);
    wick_ctx_deinit(&ctx);
    cr_assert_eq(wick_memory_live(), 0);
}

Test(parallel, without_memory_it_runs_inline)
{
    work w;
    wick_set_threads(4);
    wick_memory_fail_after(1);
    run(&w, MOST_ITEMS, 1);
    cr_assert_eq(w.pieces, 1);
    cr_assert_eq(w.on_caller, 1);
}

Test(parallel, without_threads_its_pieces_run_inline)
{
    pthread_attr_t attributes;
    work w;
    cr_assert_eq(pthread_attr_init(&attributes), 0);
    cr_assert_eq(pthread_attr_setstacksize(&attributes, (size_t)1 << 60), 0);
    cr_assert_eq(pthread_setattr_default_np(&attributes), 0);
    wick_set_threads(4);
    run(&w, MOST_ITEMS, 1);
    cr_assert_eq(w.pieces, 4);
    cr_assert_eq(w.on_caller, 4);
}
