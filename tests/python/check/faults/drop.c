/* drop -- y = 2 x at places that a hash of the place and the seed chooses, 0 at the others
 *
 * FAULT, a number, plants one of these; without it the file is sound:
 *
 *    1  forward    the seed is cut to 32 bits
 *    2  forward    the seed goes through a double
 *    3  forward    the place is counted in 8 bits
 */
#include <wick/op.h>

#ifndef FAULT
#define FAULT 0
#endif

WICK_OP(drop, "x: T[*N], seed: int = 1 -> y: T[*N] where T: f16 f32 f64");

static bool is_kept(int64_t place, int64_t seed)
{
    uint64_t with = FAULT == 1 ? (uint64_t)(int32_t)seed : (uint64_t)seed;
    if (FAULT == 2) with = (uint64_t)(double)seed;
    if (FAULT == 3) place = (uint8_t)place;
    uint64_t hash = ((uint64_t)place + with) * 0x9E3779B97F4A7C15u;
    hash ^= hash >> 31;
    hash *= 0xBF58476D1CE4E5B9u;
    return hash >> 40 & 1;
}

WICK_IMPL wick_status drop_cpu(wick_ctx *ctx, const T *x, int64_t seed, T *y, int64_t N)
{
    (void)ctx;
    for (int64_t i = 0; i < N; i++)
        y[i] = wick_T(is_kept(i, seed) ? 2 * wick_A(x[i]) : 0);
    return WICK_OK;
}
