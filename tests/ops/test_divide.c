/* test_divide -- division by multiplying gives what division gives, up to the last number below
 * 2^31 */
#include "../../ops/divide.h"

#include <criterion/criterion.h>

static const int64_t LIMIT = (int64_t)1 << 31;

/* The next of a row of numbers below 2^31 that look random. */
static int64_t next(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)(*state >> 33);
}

static void check(divisor d, int64_t n)
{
    if (n >= 0 && n < LIMIT)
        cr_assert_eq(divided(n, d), n / d.by, "%lld / %lld is %lld", (long long)n, (long long)d.by,
                     (long long)divided(n, d));
}

/* Around multiples of the divisor, where it is off first, and at both ends. */
static void check_divisor(int64_t by)
{
    uint64_t state = (uint64_t)by;
    const divisor d = divisor_of(by, LIMIT);
    cr_assert(d.factor && d.by == by);
    for (int i = 0; i < 200; i++) {
        const int64_t n = next(&state) / by * by;
        for (int64_t off = -1; off <= 1; off++) {
            check(d, n + off);
            check(d, i + off);
            check(d, i * by + off);
            check(d, LIMIT - 1 - i + off);
        }
    }
}

Test(divide, every_small_divisor_and_those_around_powers_of_two)
{
    for (int64_t by = 1; by < 5000; by++)
        check_divisor(by);
    for (int shift = 12; shift < 31; shift++)
        for (int64_t off = -2; off <= 2; off++)
            check_divisor(((int64_t)1 << shift) + off);
    check_divisor(LIMIT - 1);
    check_divisor(LIMIT);
}

Test(divide, random_divisors)
{
    uint64_t state = 1;
    for (int i = 0; i < 5000; i++)
        check_divisor(1 + next(&state));
}

Test(divide, larger_numbers_are_divided)
{
    const divisor d = divisor_of(3, LIMIT + 1);
    cr_assert_eq(d.factor, 0);
    cr_assert_eq(divided(LIMIT * 5, d), LIMIT * 5 / 3);
    cr_assert_eq(divided(LIMIT * 5, divisor_of(LIMIT + 1, LIMIT)), 4);
    cr_assert_eq(divided(0, divisor_of(0, 0)), 0, "an empty array divides by nothing");
}
