/* hash.c -- 128 bits of XXH3, for names of cache entries
 *
 * xxHash is compiled in whole, so that nothing needs to be linked. It finds equal bytes; it is no
 * defence against somebody who looks for a collision.
 */
#include "core.h"

#include <inttypes.h>
#include <stdio.h>

#if defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpragmas"
#pragma GCC diagnostic ignored "-Wunknown-warning-option"
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wundef"
#pragma GCC diagnostic ignored "-Wunused-function"
#endif
#define XXH_INLINE_ALL
#include <xxhash.h>
#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

wick_hash wick_hash_bytes(const void *data, size_t bytes)
{
    XXH128_hash_t hash = XXH3_128bits(data, bytes);
    return (wick_hash){.high = hash.high64, .low = hash.low64};
}

void wick_hash_hex(wick_hash hash, char out[33])
{
    snprintf(out, 33, "%016" PRIx64 "%016" PRIx64, hash.high, hash.low);
}
