/* test_crash.c -- the last words of a process */
#include "trial.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Runs `what` in a child that reports its crashes; how it ended and what it said. */
static int end_of(void (*what)(void), char *said, size_t size)
{
    int ends[2], status = 0;
    cr_assert_eq(pipe(ends), 0);
    pid_t pid = fork();
    if (pid == 0) {
        wick_ctx ctx;
        wick_ctx_init(&ctx, NULL);
        if (wick_crash_report(&ctx, ends[1]) == WICK_OK) what();
        _exit(0);
    }
    close(ends[1]);
    size_t n = 0;
    for (ssize_t got; n + 1 < size && (got = read(ends[0], said + n, size - 1 - n)) > 0;)
        n += (size_t)got;
    said[n] = '\0';
    close(ends[0]);
    waitpid(pid, &status, 0);
    return status;
}

static void do_nothing(void) {}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
static void touch_guard(void)
{
    wick_zone zone;
    wick_ctx ctx;
    wick_zone_wish wish = {
        .label = "y", .bytes = 40, .alignment = 4, .at_end = true, .writable = true};
    wick_ctx_init(&ctx, NULL);
    if (wick_zone_open(&ctx, &wish, &zone) == WICK_OK) ((volatile char *)zone.data)[44] = 1;
}

static void read_null(void)
{
    volatile char *volatile nothing = NULL;
    if (nothing[8]) _exit(1);
}

#if defined(__x86_64__)
static void read_wild(void)
{
    const volatile char *volatile junk = (const volatile char *)(uintptr_t)0x7f7f7f7f7f7f7f7f;
    if (*junk) _exit(1);
}
#endif

static int descend(volatile char *from)
{
    volatile char room[4096];
    room[0] = from[0];
    return room[0] == 1 ? 0 : descend(room) + room[0];
}

static void exhaust_stack(void)
{
    volatile char start = 0;
    if (descend(&start)) _exit(1);
}

Test(crash, says_what_was_touched_and_ends_by_the_signal)
{
    char said[256];
    int status = end_of(touch_guard, said, sizeof said);
    cr_assert_str_eq(said,
                     "{\"crash\": \"segmentation fault: it wrote 4 bytes past the end of y\"}\n");
    cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    status = end_of(read_null, said, sizeof said);
    cr_assert_str_eq(said, "{\"crash\": \"segmentation fault: it read through a NULL pointer\"}\n");
    cr_assert(WIFSIGNALED(status));
}

#if defined(__x86_64__)
Test(crash, tells_a_wild_address_from_a_null_pointer)
{
    char said[256];
    int status = end_of(read_wild, said, sizeof said);
    cr_assert_str_eq(said,
                     "{\"crash\": \"segmentation fault: it used a wild address, as junk makes "
                     "one\"}\n");
    cr_assert(WIFSIGNALED(status));
}
#endif

Test(crash, says_that_the_stack_is_exhausted)
{
    char said[256];
    int status = end_of(exhaust_stack, said, sizeof said);
    cr_assert_str_eq(said, "{\"crash\": \"segmentation fault: the stack is exhausted\"}\n");
    cr_assert(WIFSIGNALED(status));
}

Test(crash, tells_an_abort)
{
    char said[256];
    int status = end_of(abort, said, sizeof said);
    cr_assert_str_eq(said, "{\"crash\": \"the operator aborted\"}\n");
    cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}
#endif

Test(crash, says_nothing_where_nothing_happens)
{
    char said[256];
    cr_assert_eq(end_of(do_nothing, said, sizeof said), 0);
    cr_assert_str_eq(said, "");
}
