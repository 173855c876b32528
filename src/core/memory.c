/* memory.c -- one door to the heap, which counts what is out and can be told to fail
 *
 * The count is over all threads; the injected failure is per thread, so that a test of one thread
 * does not disturb another.
 */
#include "core.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static atomic_long live;
static _Thread_local long until_failure; /* 0: not injecting */

static bool fails_now(void) { return until_failure > 0 && --until_failure == 0; }

static void *counted(void *p)
{
    if (p) atomic_fetch_add_explicit(&live, 1, memory_order_relaxed);
    return p;
}

void *wick_malloc(size_t bytes) { return fails_now() ? NULL : counted(malloc(bytes ? bytes : 1)); }

void *wick_calloc(size_t count, size_t bytes)
{
    if (fails_now()) return NULL;
    return counted(count && bytes ? calloc(count, bytes) : calloc(1, 1));
}

void *wick_realloc(void *old, size_t bytes)
{
    if (!old) return wick_malloc(bytes);
    return fails_now() ? NULL : realloc(old, bytes ? bytes : 1);
}

void wick_free(void *p)
{
    if (p) atomic_fetch_sub_explicit(&live, 1, memory_order_relaxed);
    free(p);
}

char *wick_strdup(const char *s)
{
    size_t bytes = strlen(s) + 1;
    char *copy = wick_malloc(bytes);
    if (copy) memcpy(copy, s, bytes);
    return copy;
}

void wick_memory_fail_after(long n) { until_failure = n > 0 ? n : 0; }

long wick_memory_live(void) { return atomic_load_explicit(&live, memory_order_relaxed); }
