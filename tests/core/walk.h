/* walk.h -- reruns a scenario with its 1st, 2nd, ... allocation failing until it succeeds
 *
 * The scenario cleans up after itself and says whether it succeeded. Whatever allocation failed,
 * nothing may be left.
 */
#ifndef WICK_TESTS_WALK_H
#define WICK_TESTS_WALK_H

#include "core.h"

#include <criterion/criterion.h>

/* Returns how many allocations could be failed; at least one, or the walk has tested nothing. */
static inline long walk_allocation_failures(bool (*scenario)(void))
{
    long live = wick_memory_live(), n = 0;
    bool done = false;
    while (!done) {
        n++;
        cr_assert_lt(n, 1000, "still failing at allocation %ld", n);
        wick_memory_fail_after(n);
        done = scenario();
        wick_memory_fail_after(0);
        cr_assert_eq(wick_memory_live(), live, "%ld blocks left when allocation %ld fails",
                     wick_memory_live() - live, n);
    }
    cr_assert_gt(n, 1, "no allocation was ever failed");
    return n - 1;
}

#endif /* WICK_TESTS_WALK_H */
