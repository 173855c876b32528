/* test_memory.c -- the door to the heap: what it counts, and that it can be closed */
#include "core.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define HAS_TSAN 1
#endif
#elif defined(__SANITIZE_THREAD__)
#define HAS_TSAN 1
#endif

/* AddressSanitizer ends the process at an absurd size unless told to answer NULL, as the heap
 * itself does. */
const char *__asan_default_options(void);
__attribute__((visibility("default"))) const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1";
}

Test(memory, size_zero_gives_a_pointer)
{
    void *p[] = {wick_malloc(0), wick_calloc(0, 8), wick_calloc(8, 0), wick_realloc(NULL, 0),
                 wick_realloc(wick_malloc(8), 0)};
    cr_assert_eq(wick_memory_live(), 5);
    for (int i = 0; i < WICK_COUNT(p); i++) {
        cr_assert_not_null(p[i]);
        wick_free(p[i]);
    }
    cr_assert_eq(wick_memory_live(), 0);
}

Test(memory, counts_what_is_out)
{
    wick_free(NULL);
    cr_assert_eq(wick_memory_live(), 0);
    char *a = wick_malloc(10), *b = wick_calloc(3, 5), *c = wick_strdup("wick");
    cr_assert_eq(wick_memory_live(), 3);
    for (int i = 0; i < 15; i++) {
        cr_assert_eq(b[i], 0);
    }
    cr_assert_str_eq(c, "wick");
    strcpy(a, "abc");
    a = wick_realloc(a, 1000);
    cr_assert_str_eq(a, "abc");
    cr_assert_eq(wick_memory_live(), 3, "a block that moved is still one block");
    wick_free(a);
    wick_free(b);
    wick_free(c);
    cr_assert_eq(wick_memory_live(), 0);
}

#ifndef HAS_TSAN /* its warning about such a size reads like a finding */
static volatile size_t absurd = SIZE_MAX / 2;

Test(memory, absurd_sizes_give_null_and_are_not_counted)
{
    char *kept = wick_malloc(4);
    strcpy(kept, "abc");
    cr_assert_null(wick_malloc(absurd));
    cr_assert_null(wick_calloc(absurd, 16));
    cr_assert_null(wick_realloc(kept, absurd));
    cr_assert_str_eq(kept, "abc");
    cr_assert_eq(wick_memory_live(), 1);
    wick_free(kept);
}
#endif

Test(memory, the_nth_allocation_fails_and_later_ones_work)
{
    char *old = wick_malloc(4);
    wick_memory_fail_after(4);
    void *p[] = {wick_malloc(1), wick_calloc(1, 1), wick_strdup("a"), wick_realloc(old, 100),
                 wick_malloc(1)};
    cr_assert_not_null(p[0]);
    cr_assert_not_null(p[1]);
    cr_assert_not_null(p[2]);
    cr_assert_null(p[3]);
    cr_assert_not_null(p[4]);
    for (int i = 0; i < WICK_COUNT(p); i++) {
        wick_free(p[i]);
    }
    wick_free(old);
    cr_assert_eq(wick_memory_live(), 0);
}

Test(memory, each_door_can_be_closed)
{
    wick_memory_fail_after(1);
    cr_assert_null(wick_malloc(1));
    wick_memory_fail_after(1);
    cr_assert_null(wick_calloc(1, 1));
    wick_memory_fail_after(1);
    cr_assert_null(wick_realloc(NULL, 1));
    wick_memory_fail_after(1);
    cr_assert_null(wick_strdup("a"));
    wick_memory_fail_after(1);
    wick_memory_fail_after(0);
    void *p = wick_malloc(1);
    cr_assert_not_null(p, "0 stops injecting");
    wick_free(p);
}

static void *allocate_elsewhere(void *arg)
{
    (void)arg;
    return wick_malloc(1);
}

Test(memory, injection_is_per_thread_and_the_count_is_not)
{
    pthread_t thread;
    void *other = NULL;
    wick_memory_fail_after(1);
    cr_assert_eq(pthread_create(&thread, NULL, allocate_elsewhere, NULL), 0);
    pthread_join(thread, &other);
    cr_assert_not_null(other);
    cr_assert_eq(wick_memory_live(), 1);
    cr_assert_null(wick_malloc(1));
    wick_free(other);
    cr_assert_eq(wick_memory_live(), 0);
}
