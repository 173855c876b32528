/* test_ctx.c -- the first failure wins, whole, from any thread and without memory */
#include <wick/wick.h>

#include "walk.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

Test(ctx, starts_without_failure_on_the_plain_host)
{
    wick_ctx ctx;
    memset(&ctx, 0x55, sizeof ctx);
    wick_ctx_init(&ctx, NULL);
    cr_assert_eq(ctx.services, &wick_plain_services);
    cr_assert_eq(ctx.device, -1);
    cr_assert_null(ctx.stream);
    cr_assert_null(ctx.host);
    cr_assert_eq(ctx.failed, 0);
    cr_assert_str_eq(wick_ctx_message(&ctx), "");
    wick_ctx_deinit(&ctx);
}

Test(ctx, failure_returns_its_status_and_records_its_words)
{
    wick_ctx ctx;
    wick_ctx_init(&ctx, NULL);
    cr_assert_eq(wick_fail(&ctx, WICK_EINVAL, "x.shape[%d] is %s", 3, "odd"), WICK_EINVAL);
    cr_assert_eq(ctx.failed, 1);
    cr_assert_str_eq(wick_ctx_message(&ctx), "x.shape[3] is odd");
    wick_ctx_deinit(&ctx);
    cr_assert_eq(wick_memory_live(), 0);
}

Test(ctx, later_failures_keep_the_first_message)
{
    wick_ctx ctx;
    wick_ctx_init(&ctx, NULL);
    wick_fail(&ctx, WICK_EINVAL, "first");
    cr_assert_eq(wick_fail(&ctx, WICK_EIO, "second"), WICK_EIO);
    cr_assert_str_eq(wick_ctx_message(&ctx), "first");
    wick_ctx_deinit(&ctx);
}

Test(ctx, an_empty_message_is_not_out_of_memory)
{
    wick_ctx ctx;
    wick_ctx_init(&ctx, NULL);
    wick_fail(&ctx, WICK_EINVAL, "%s", "");
    cr_assert_str_eq(wick_ctx_message(&ctx), "");
    wick_ctx_deinit(&ctx);
}

Test(ctx, clear_makes_it_usable_again)
{
    wick_ctx ctx;
    wick_ctx_init(&ctx, NULL);
    wick_fail(&ctx, WICK_EINVAL, "first");
    wick_ctx_clear(&ctx);
    cr_assert_str_eq(wick_ctx_message(&ctx), "");
    wick_fail(&ctx, WICK_EINVAL, "second");
    cr_assert_str_eq(wick_ctx_message(&ctx), "second");
    wick_ctx_deinit(&ctx);
    cr_assert_eq(wick_memory_live(), 0);
}

Test(ctx, out_of_memory_is_said_without_memory)
{
    wick_ctx ctx;
    wick_ctx_init(&ctx, NULL);
    wick_memory_fail_after(1);
    cr_assert_eq(wick_fail(&ctx, WICK_ENOMEM, "no room for %d", 7), WICK_ENOMEM);
    cr_assert_eq(ctx.failed, 1);
    cr_assert_null(ctx.message);
    cr_assert_str_eq(wick_ctx_message(&ctx), "out of memory");
    wick_ctx_prefix(&ctx, "relu: ");
    cr_assert_str_eq(wick_ctx_message(&ctx), "relu: out of memory");
    wick_ctx_deinit(&ctx);
}

Test(ctx, prefix_goes_in_front)
{
    wick_ctx ctx;
    wick_ctx_init(&ctx, NULL);
    wick_fail(&ctx, WICK_EINVAL, "x is i32");
    wick_ctx_prefix(&ctx, "%s::%s: ", "wick", "relu");
    cr_assert_str_eq(wick_ctx_message(&ctx), "wick::relu: x is i32");
    wick_ctx_deinit(&ctx);
    cr_assert_eq(wick_memory_live(), 0);
}

Test(ctx, prefix_without_a_failure_does_nothing)
{
    wick_ctx ctx;
    wick_ctx_init(&ctx, NULL);
    wick_ctx_prefix(&ctx, "relu: ");
    cr_assert_str_eq(wick_ctx_message(&ctx), "");
    cr_assert_eq(ctx.failed, 0);
    cr_assert_eq(wick_memory_live(), 0);
}

Test(ctx, prefix_without_memory_keeps_the_message)
{
    wick_ctx ctx;
    wick_ctx_init(&ctx, NULL);
    wick_fail(&ctx, WICK_EINVAL, "x is i32");
    wick_memory_fail_after(1);
    wick_ctx_prefix(&ctx, "relu: ");
    cr_assert_str_eq(wick_ctx_message(&ctx), "x is i32");
    wick_ctx_deinit(&ctx);
    cr_assert_eq(wick_memory_live(), 0);
}

static bool fail_and_prefix(void)
{
    char words[300];
    memset(words, 'w', sizeof words - 1);
    words[sizeof words - 1] = '\0';
    wick_ctx *ctx = wick_ctx_new();
    if (!ctx) return false;
    wick_fail(ctx, WICK_EINVAL, "%s", words);
    wick_ctx_prefix(ctx, "%s: ", words);
    bool whole = strlen(wick_ctx_message(ctx)) == 2 * strlen(words) + 2;
    wick_ctx_free(ctx);
    return whole;
}

Test(ctx, every_allocation_may_fail) { walk_allocation_failures(fail_and_prefix); }

Test(ctx, free_of_null_is_fine)
{
    wick_ctx_free(NULL);
    wick_ctx *ctx = wick_ctx_new();
    cr_assert_not_null(ctx);
    cr_assert_eq(ctx->device, -1);
    wick_ctx_free(ctx);
    cr_assert_eq(wick_memory_live(), 0);
}

static int services_called;

static wick_status counting_fail(wick_ctx *ctx, wick_status status, const char *format,
                                 va_list args)
{
    services_called++;
    return wick_plain_fail(ctx, status, format, args);
}

Test(ctx, failures_go_through_the_services)
{
    static const wick_services services = {counting_fail, wick_plain_parallel};
    wick_ctx ctx;
    wick_ctx_init(&ctx, &services);
    cr_assert_eq(wick_fail(&ctx, WICK_ENOTSUP, "%d", 5), WICK_ENOTSUP);
    cr_assert_eq(services_called, 1);
    cr_assert_str_eq(wick_ctx_message(&ctx), "5");
    wick_ctx_deinit(&ctx);
}

enum { FAILING_THREADS = 8 };

typedef struct failing_thread {
    wick_ctx *ctx;
    pthread_barrier_t *gate;
    pthread_t thread;
    int number;
    wick_status status;
} failing_thread;

static void *fail_at_the_gate(void *arg)
{
    failing_thread *me = arg;
    pthread_barrier_wait(me->gate);
    me->status = wick_fail(me->ctx, me->number % 2 ? WICK_EINVAL : WICK_EIO,
                           "thread %d says %d%d%d", me->number, me->number, me->number, me->number);
    return NULL;
}

Test(ctx, one_of_many_threads_wins_and_its_words_are_whole)
{
    for (int round = 0; round < 50; round++) {
        wick_ctx ctx;
        pthread_barrier_t gate;
        failing_thread threads[FAILING_THREADS];
        wick_ctx_init(&ctx, NULL);
        pthread_barrier_init(&gate, NULL, FAILING_THREADS);
        for (int i = 0; i < FAILING_THREADS; i++) {
            threads[i] = (failing_thread){.ctx = &ctx, .gate = &gate, .number = i};
            cr_assert_eq(pthread_create(&threads[i].thread, NULL, fail_at_the_gate, &threads[i]),
                         0);
        }
        for (int i = 0; i < FAILING_THREADS; i++) {
            pthread_join(threads[i].thread, NULL);
            cr_assert_eq(threads[i].status, i % 2 ? WICK_EINVAL : WICK_EIO);
        }
        int winner = -1;
        char expected[64];
        cr_assert_eq(sscanf(wick_ctx_message(&ctx), "thread %d", &winner), 1);
        snprintf(expected, sizeof expected, "thread %d says %d%d%d", winner, winner, winner,
                 winner);
        cr_assert_str_eq(wick_ctx_message(&ctx), expected);
        cr_assert_eq(wick_memory_live(), 1, "only the winner's message exists");
        wick_ctx_deinit(&ctx);
        pthread_barrier_destroy(&gate);
    }
    cr_assert_eq(wick_memory_live(), 0);
}

#ifndef NDEBUG
Test(ctx, failing_with_ok_is_a_programmer_error, .signal = SIGABRT)
{
    wick_ctx ctx;
    wick_ctx_init(&ctx, NULL);
    wick_fail(&ctx, WICK_OK, "fine");
}
#endif
