/* random.h -- the same pseudo-random numbers on every machine (xorshift64) */
#ifndef WICK_TESTS_RANDOM_H
#define WICK_TESTS_RANDOM_H

#include <stdint.h>

static inline uint64_t random_next(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* In [low, high]. */
static inline int64_t random_between(uint64_t *state, int64_t low, int64_t high)
{
    return low + (int64_t)(random_next(state) % (uint64_t)(high - low + 1));
}

#endif /* WICK_TESTS_RANDOM_H */
