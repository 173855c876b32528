/* test_watch.c -- which accesses of two strands are in conflict */
#include "trial.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { READ = WICK_TOUCH_READ, WRITE = WICK_TOUCH_WRITE, ATOMIC = WICK_TOUCH_ATOMIC };

static char memory[8 * WICK_WATCH_STRANDS], code[WICK_WATCH_STRANDS], lock, flag;

/* Runs a body in n strands; how many conflicts there were. */
static int conflicts_of(int n, wick_strand_body body, void *arg)
{
    wick_conflict found[WICK_WATCH_CONFLICTS];
    wick_ctx ctx;
    wick_ctx_init(&ctx, NULL);
    cr_assert_eq(wick_watch_run(&ctx, n, body, arg), WICK_OK, "%s", wick_ctx_message(&ctx));
    wick_ctx_deinit(&ctx);
    return wick_watch_take(found);
}

typedef struct access {
    int at, bytes, kind;
} access;

static void touch_one(void *arg, int strand)
{
    const access *a = (const access *)arg + strand;
    wick_watch_touch(memory + a->at, (size_t)a->bytes, a->kind, code + strand);
}

static int conflicts_between(access first, access second)
{
    access both[2] = {first, second};
    return conflicts_of(2, touch_one, both);
}

Test(watch, who_reads_is_in_nobodys_way_and_who_writes_is)
{
    cr_expect_eq(conflicts_between((access){0, 4, READ}, (access){0, 4, READ}), 0);
    cr_expect_eq(conflicts_between((access){0, 4, WRITE}, (access){0, 4, READ}), 1);
    cr_expect_eq(conflicts_between((access){0, 4, READ}, (access){0, 4, WRITE}), 1);
    cr_expect_eq(conflicts_between((access){0, 4, WRITE}, (access){0, 4, WRITE}), 1);
}

Test(watch, only_bytes_that_both_touch_count)
{
    for (int at = 0; at < 24; at++)
        for (int bytes = 1; bytes < 20; bytes++) {
            bool meet = at < 13 && at + bytes > 9;
            cr_assert_eq(conflicts_between((access){9, 4, WRITE}, (access){at, bytes, READ}), meet,
                         "%d bytes at %d", bytes, at);
            cr_assert_eq(conflicts_between((access){at, bytes, READ}, (access){9, 4, WRITE}), meet,
                         "%d bytes at %d", bytes, at);
        }
    cr_expect_eq(conflicts_between((access){0, 0, WRITE}, (access){0, 8, WRITE}), 0);
}

Test(watch, atomics_agree_with_atomics_alone)
{
    cr_expect_eq(conflicts_between((access){0, 4, WRITE | ATOMIC}, (access){0, 4, WRITE | ATOMIC}),
                 0);
    cr_expect_eq(conflicts_between((access){0, 4, WRITE | ATOMIC}, (access){0, 4, READ}), 1);
    cr_expect_eq(conflicts_between((access){0, 4, WRITE}, (access){0, 4, READ | ATOMIC}), 1);
}

Test(watch, a_conflict_says_who_it_was)
{
    wick_conflict found[WICK_WATCH_CONFLICTS];
    access both[2] = {{0, 4, READ}, {2, 1, WRITE}};
    wick_ctx ctx;
    wick_ctx_init(&ctx, NULL);
    cr_assert_eq(wick_watch_run(&ctx, 2, touch_one, both), WICK_OK);
    cr_assert_eq(wick_watch_take(found), 1);
    cr_expect(found[0].now.code == code + 1 && found[0].now.writes);
    cr_expect(found[0].before.code == code && !found[0].before.writes);
    cr_expect_str_eq(found[0].where, "");
    cr_expect_eq(wick_watch_take(found), 0, "once");
}

/* ---- order ---- */

static void add_under_lock(void *arg, int strand)
{
    wick_watch_acquire(&lock);
    wick_watch_touch(memory, 8, READ, code + strand);
    wick_watch_touch(memory, 8, WRITE, code + strand);
    if (!arg) wick_watch_release(&lock);
}

Test(watch, a_lock_orders_what_is_done_under_it)
{
    bool never_unlocked = true;
    cr_expect_eq(conflicts_of(3, add_under_lock, NULL), 0);
    cr_expect_gt(conflicts_of(3, add_under_lock, &never_unlocked), 0);
}

static void lock_and_then_write(void *arg, int strand)
{
    (void)arg;
    wick_watch_acquire(&lock);
    wick_watch_release(&lock);
    wick_watch_touch(memory, 8, WRITE, code + strand);
}

Test(watch, what_comes_after_an_unlock_is_not_under_the_lock)
{
    cr_expect_eq(conflicts_of(2, lock_and_then_write, NULL), 1);
}

/* Each writes a part, and the last one sums them up. */
static void last_one_sums(void *arg, int strand)
{
    const int *n = arg;
    wick_watch_touch(memory + 8 * strand, 8, WRITE, code);
    wick_watch_touch(&flag, 1, WRITE | ATOMIC, code + 1);
    wick_watch_acquire(&flag);
    wick_watch_release(&flag);
    if (strand == *n - 1) wick_watch_touch(memory, (size_t)*n * 8, READ, code + 2);
}

Test(watch, whoever_acquires_sees_what_was_released)
{
    for (int n = 2; n <= WICK_WATCH_STRANDS; n++)
        cr_expect_eq(conflicts_of(n, last_one_sums, &n), 0, "%d strands", n);
}

static void first_one_sums(void *arg, int strand)
{
    const int *n = arg;
    if (strand == 0) wick_watch_touch(memory, (size_t)*n * 8, READ, code + 2);
    if (strand > 0) wick_watch_touch(memory + 8 * strand, 8, WRITE, code);
}

Test(watch, whoever_comes_first_may_come_last)
{
    int n = 3;
    cr_expect_eq(conflicts_of(n, first_one_sums, &n), 1, "one pair of instructions");
}

/* ---- memory ---- */

static void own_block(void *arg, int strand)
{
    void **blocks = arg;
    blocks[strand] = malloc(40);
    cr_assert(blocks[strand]);
    for (int i = 0; i < strand; i++)
        cr_expect_neq(blocks[strand], blocks[i], "given back, and so another's");
    wick_watch_touch(blocks[strand], 40, WRITE, code);
    wick_watch_free(blocks[strand]);
}

Test(watch, what_is_given_back_is_nobodys_until_the_end)
{
    void *blocks[WICK_WATCH_STRANDS];
    cr_expect_eq(conflicts_of(WICK_WATCH_STRANDS, own_block, blocks), 0);
    wick_watch_free(malloc(8)); /* outside of a strand: at once */
}

static void own_stack(void *arg, int strand)
{
    char here[256];
    (void)arg;
    memset(here, strand, sizeof here);
    wick_watch_touch(here, sizeof here, WRITE, code);
}

Test(watch, a_strand_has_a_stack_of_its_own) { cr_expect_eq(conflicts_of(4, own_stack, NULL), 0); }

static void much(void *arg, int strand)
{
    char *large = arg;
    for (int i = strand; i < 100000; i += 3)
        wick_watch_touch(large + 4 * i, 4, WRITE, code + i % 8);
    for (int i = 0; i < 2000; i++)
        wick_watch_release(large + 4 * (i * 3 + strand));
}

Test(watch, there_is_room_for_much)
{
    char *large = malloc(400000);
    long live = wick_memory_live();
    cr_expect_eq(conflicts_of(3, much, large), 0);
    cr_expect_eq(wick_memory_live(), live, "nothing is left");
    free(large);
}

Test(watch, outside_of_a_strand_nothing_is_watched)
{
    wick_watch_touch(memory, 8, WRITE, code);
    wick_watch_acquire(&lock);
    wick_watch_release(&lock);
    cr_expect(!wick_watch_is_inside());
    cr_expect_eq(conflicts_between((access){0, 8, READ}, (access){0, 8, READ}), 0);
}

static void nothing(void *arg, int strand) { (void)arg, (void)strand; }

static void *block; /* is lost when there is no memory to note it in */

static void short_of_memory(void *arg, int strand)
{
    const long *nth = arg;
    wick_memory_fail_after(*nth);
    wick_watch_touch(memory, 8, WRITE, code + strand);
    wick_watch_release(&lock);
    wick_watch_free(block = malloc(8));
    wick_memory_fail_after(0);
}

Test(watch, too_many_strands_and_too_little_memory_are_told)
{
    wick_ctx ctx;
    wick_ctx_init(&ctx, NULL);
    cr_expect_eq(wick_watch_run(&ctx, WICK_WATCH_STRANDS + 1, nothing, NULL), WICK_EINVAL);
    wick_ctx_clear(&ctx);
    for (long nth = 1; nth <= 4; nth++) { /* touches, cells, points, blocks that are kept */
        cr_expect_eq(wick_watch_run(&ctx, 1, short_of_memory, &nth), WICK_ENOMEM, "%ld", nth);
        wick_ctx_clear(&ctx);
    }
    cr_expect_eq(wick_watch_run(&ctx, 2, nothing, NULL), WICK_OK);
    wick_ctx_deinit(&ctx);
}

/* ---- a loop ---- */

static wick_status write_past(void *arg, int64_t begin, int64_t end)
{
    const int64_t *more = arg;
    wick_watch_touch(memory + begin, (size_t)(end - begin + *more), WRITE, code);
    return WICK_OK;
}

Test(watch, pieces_of_a_loop_are_strands)
{
    wick_conflict found[WICK_WATCH_CONFLICTS];
    wick_ctx ctx;
    for (int64_t more = 0; more < 2; more++) {
        wick_schedule schedule = {.threads = 16, .order = WICK_ORDER_WATCHED};
        wick_ctx_init(&ctx, NULL);
        ctx.host = &schedule;
        cr_assert_eq(wick_schedule_parallel(&ctx, 40, 1, write_past, &more), WICK_OK);
        cr_expect_eq(wick_watch_take(found), (int)more);
        wick_ctx_deinit(&ctx);
    }
}
