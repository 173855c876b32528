/* test_schedule.c -- every element once, however a loop is cut and ordered */
#include "trial.h"

#include <criterion/criterion.h>
#include <string.h>

enum { MOST = 1000 };

typedef struct seen {
    int count[MOST];
    int64_t begins[64];
    atomic_int pieces;
    int64_t smallest;
} seen;

static wick_status note(void *arg, int64_t begin, int64_t end)
{
    seen *s = arg;
    int at = atomic_fetch_add(&s->pieces, 1);
    if (at < 64) s->begins[at] = begin;
    if (end < MOST && end - begin < s->smallest) s->smallest = end - begin;
    for (int64_t i = begin; i < end; i++)
        s->count[i]++;
    return WICK_OK;
}

static seen run(wick_schedule *schedule, int64_t n, int64_t grain)
{
    seen s = {.smallest = MOST};
    wick_ctx ctx;
    wick_ctx_init(&ctx, NULL);
    ctx.host = schedule;
    cr_assert_eq(wick_schedule_parallel(&ctx, n, grain, note, &s), WICK_OK);
    for (int64_t i = 0; i < MOST; i++)
        cr_assert_eq(s.count[i], i < n, "element %d", (int)i);
    return s;
}

Test(schedule, every_element_once_in_every_order)
{
    for (int order = WICK_ORDER_FORWARDS; order <= WICK_ORDER_AT_ONCE; order++)
        for (int threads = 1; threads < 20; threads++)
            for (int64_t n = 1; n < MOST; n += 37) {
                wick_schedule s = {
                    .threads = threads, .order = (wick_order)order, .seed = (uint64_t)n};
                run(&s, n, 10);
            }
}

Test(schedule, no_piece_but_the_last_is_under_the_grain)
{
    wick_schedule s = {.threads = 16};
    seen found = run(&s, MOST, 90);
    cr_assert_geq(found.smallest, 90);
    cr_assert_eq(found.pieces, 11);
    cr_assert(s.loops == 1 && s.pieces == 11);
}

Test(schedule, backwards_begins_at_the_end)
{
    wick_schedule s = {.threads = 4, .order = WICK_ORDER_BACKWARDS};
    seen found = run(&s, 400, 10);
    cr_assert(found.begins[0] == 300 && found.begins[3] == 0);
}

Test(schedule, shuffled_is_another_order)
{
    int moved = 0;
    for (uint64_t seed = 0; seed < 20; seed++) {
        wick_schedule s = {.threads = 7, .order = WICK_ORDER_SHUFFLED, .seed = seed};
        seen found = run(&s, 700, 10);
        moved += found.begins[1] != 100;
    }
    cr_assert_gt(moved, 10);
}

static wick_status nest(void *arg, int64_t begin, int64_t end)
{
    (void)begin, (void)end;
    seen s = {.smallest = MOST};
    wick_status status = wick_schedule_parallel(arg, 100, 1, note, &s);
    cr_assert_eq(s.pieces, 1);
    return status;
}

Test(schedule, a_loop_inside_a_piece_runs_inline)
{
    wick_schedule s = {.threads = 4, .order = WICK_ORDER_AT_ONCE};
    wick_ctx ctx;
    wick_ctx_init(&ctx, NULL);
    ctx.host = &s;
    cr_assert_eq(wick_schedule_parallel(&ctx, 100, 1, nest, &ctx), WICK_OK);
    cr_assert_eq(s.loops, 1);
}

static wick_status fail_late(void *arg, int64_t begin, int64_t end)
{
    (void)arg, (void)begin;
    return end > 50 ? WICK_ENOTSUP : WICK_OK;
}

Test(schedule, a_failure_comes_back)
{
    for (int order = WICK_ORDER_FORWARDS; order <= WICK_ORDER_AT_ONCE; order++) {
        wick_schedule s = {.threads = 4, .order = (wick_order)order};
        wick_ctx ctx;
        wick_ctx_init(&ctx, NULL);
        ctx.host = &s;
        cr_assert_eq(wick_schedule_parallel(&ctx, 100, 1, fail_late, NULL), WICK_ENOTSUP);
    }
}
