/* cpu.h -- the fast way through long arrays on the CPU; part of <wick/op.h>
 *
 * Blocks of T are read as A, computed in A and written as T in loops that vectorise; results larger
 * than the caches are written past them.
 */
#ifndef WICK_CPU_H
#define WICK_CPU_H

#include <wick/element.h>

#include <string.h>

/* ---- writing past the caches ----
 * A result larger than the caches need not be read into them before it is overwritten: half of a
 * copy's write traffic. `streaming` is wick_worth_streaming(total bytes written), asked once per
 * call; each parallel piece ends with wick_write_done. What starts at a multiple of 64 bytes
 * streams; the rest is copied. */

/* Wide stores fill a cache line in fewer pieces. No wider than what the conversion to T writes, or
 * a piece would have to wait in memory until it is whole. */
#if defined(__AVX__) && WICK_T != 1
typedef long long wick_wide __attribute__((vector_size(32)));
#define WICK_STREAM_BUILTIN __builtin_ia32_movntdq256
#elif defined(__SSE2__)
typedef long long wick_wide __attribute__((vector_size(16)));
#define WICK_STREAM_BUILTIN __builtin_ia32_movntdq
#endif
#if defined(WICK_STREAM_BUILTIN) && defined(__clang__)
#define WICK_STREAM(to, v) __builtin_nontemporal_store(v, to)
#elif defined(WICK_STREAM_BUILTIN)
#define WICK_STREAM(to, v) WICK_STREAM_BUILTIN(to, v)
#endif

/* Below this a last-level cache usually still holds the result when it is read next, and takes it
 * faster. */
WICK_FN bool wick_worth_streaming(int64_t bytes) { return bytes > ((int64_t)32 << 20); }

WICK_INLINE void wick_write_bytes(void *to, const void *from, int64_t bytes, bool streaming)
{
    char *d = (char *)to;
    const char *s = (const char *)from;
#if defined(WICK_STREAM)
    if (streaming && ((uintptr_t)d & 63u) == 0) {
        const int64_t wide = (int64_t)sizeof(wick_wide);
        for (; bytes >= wide; d += wide, s += wide, bytes -= wide) {
            wick_wide v;
            memcpy(&v, s, sizeof v);
            WICK_STREAM((wick_wide *)(void *)d, v);
        }
    }
#else
    (void)streaming;
#endif
    memcpy(d, s, (size_t)bytes);
}

WICK_FN void wick_write_done(bool streaming)
{
#if defined(WICK_STREAM)
    if (streaming) __builtin_ia32_sfence();
#else
    (void)streaming;
#endif
}

/* ---- blocks ----
 * The fast way through long arrays of T: a block at a time is read as A, computed in A and written
 * as T, in loops that vectorise for every T. Where n is a constant, a block stays in registers from
 * its reading to its writing:
 *
 *   WICK_INLINE void twice_block(const T *x, T *y, int64_t n, bool streaming)
 *   {
 *       A in[WICK_BLOCK], out[WICK_BLOCK];
 *       const A *a = wick_read_block(in, x, n);
 *       A *b = wick_room_for(out, y, streaming);
 *       for (int64_t k = 0; k < n; k++)
 *           b[k] = 2 * a[k];
 *       wick_write_block(y, b, n, streaming);
 *   }
 *   ...
 *   for (; i + WICK_BLOCK <= N; i += WICK_BLOCK)
 *       twice_block(x + i, y + i, WICK_BLOCK, streaming);
 *   twice_block(x + i, y + i, N - i, streaming);
 */
#if WICK_T != 0

enum { WICK_BLOCK = sizeof(T) < sizeof(A) ? 64 : 1024 / sizeof(T) };

/* from[0, n) as A: itself where T is A, else in `room`. */
WICK_INLINE const A *wick_read_block(A *room, const T *from, int64_t n)
{
#if WICK_T == 3 || WICK_T == 4 || WICK_T == 8
    (void)room, (void)n;
    return from;
#else
#if WICK_T == 1
    wick_f16_to_f32_array(room, from, n);
#elif WICK_T == 2
    wick_bf16_to_f32_array(room, from, n);
#else
    for (int64_t k = 0; k < n; k++)
        room[k] = wick_A(from[k]);
#endif
    return room;
#endif
}

/* Where to compute what wick_write_block will write to `to`: there itself where that is as good,
 * else in `room`. */
WICK_INLINE A *wick_room_for(A *room, T *to, bool streaming)
{
#if WICK_T == 3 || WICK_T == 4 || WICK_T == 8
    return streaming ? room : to;
#else
    (void)to, (void)streaming;
    return room;
#endif
}

WICK_INLINE void wick_round_block(T *to, const A *from, int64_t n)
{
#if WICK_T == 1
    wick_f32_to_f16_array(to, from, n);
#elif WICK_T == 2
    wick_f32_to_bf16_array(to, from, n);
#else
    for (int64_t k = 0; k < n; k++)
        to[k] = wick_T(from[k]);
#endif
}

/* Rounds from[0, n) to T, n up to WICK_BLOCK. */
WICK_INLINE void wick_write_block(T *to, const A *from, int64_t n, bool streaming)
{
#if WICK_T == 3 || WICK_T == 4 || WICK_T == 8
    if (to != from) wick_write_bytes(to, from, n * (int64_t)sizeof(T), streaming);
#else
    T rounded[WICK_BLOCK];
    if (!streaming) {
        wick_round_block(to, from, n);
        return;
    }
    wick_round_block(rounded, from, n);
    wick_write_bytes(to, rounded, n * (int64_t)sizeof(T), true);
#endif
}

#endif /* WICK_T != 0 */

#endif /* WICK_CPU_H */
