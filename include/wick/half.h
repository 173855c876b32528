/* half.h -- f16 and bf16, in software, by the CPU's own instructions and by the GPU's; a part of
 * op.h, which includes it
 *
 * Everything here is exact: f16 and bf16 to f32 without loss, back by rounding to nearest even, NaN
 * stays NaN. The software is without branches, so that loops over it vectorise on any CPU. For the
 * GPU it is a line of PTX, so that no header of CUDA's is needed.
 */
#ifndef WICK_HALF_H
#define WICK_HALF_H

#include <wick/types.h>

#include <string.h>

WICK_FN uint32_t wick_bits_of(float f)
{
    uint32_t w;
    memcpy(&w, &f, sizeof w);
    return w;
}

WICK_FN float wick_float_of(uint32_t w)
{
    float f;
    memcpy(&f, &w, sizeof f);
    return f;
}

/* All ones where `yes`. Chosen with masks and not with `?:`, the results below stay free of
 * branches even where a constant reaches them: gcc would jump around the conversion of the 0 in `v
 * < 0 ? 0 : v` and then not vectorise. Signed numbers, because vectors compare those in one step on
 * every CPU. */
WICK_FN int32_t wick_mask(bool yes) { return -(int32_t)yes; }

/* Sign, exponent and mantissa move to their places in an f32, the exponent with its new bias;
 * infinity and NaN get the top one, NaN quiet. Subnormals count in steps of 0.5's last bit: put
 * there, 0.5 is all there is to subtract. */
WICK_FN float wick_f16_to_f32(wick_f16 h)
{
#if defined(__CUDA_ARCH__)
    float f;
    asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h.bits));
    return f;
#else
    int32_t magnitude = h.bits & 0x7fff;
    int32_t is_small = wick_mask(magnitude < 0x0400);
    int32_t top = (wick_mask(magnitude >= 0x7c00) & 0x38000000) |
                  (wick_mask(magnitude > 0x7c00) & 0x00400000);
    int32_t normal = ((magnitude << 13) + 0x38000000) | top;
    int32_t small = (int32_t)wick_bits_of(wick_float_of((uint32_t)magnitude | 0x3f000000u) - 0.5f);
    uint32_t sign = (uint32_t)(h.bits & 0x8000) << 16;
    return wick_float_of((uint32_t)((small & is_small) | (normal & ~is_small)) | sign);
#endif
}

/* Rounds to nearest even. What is too large for f16 is cut to 2^16 first, whose exponent is f16's
 * infinity. Below f16's smallest normal, adding 0.5 lets the FPU round: there, 0.5's last bit
 * weighs exactly as much as f16's. */
WICK_FN wick_f16 wick_f32_to_f16(float f)
{
    wick_f16 h;
#if defined(__CUDA_ARCH__)
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h.bits) : "f"(f));
#else
    int32_t w = (int32_t)wick_bits_of(f);
    int32_t magnitude = w & 0x7fffffff;
    int32_t nan = wick_mask(magnitude > 0x7f800000) & (0x0200 | ((magnitude >> 13) & 0x03ff));
    int32_t m = magnitude < 0x47800000 ? magnitude : 0x47800000;
    int32_t normal = (m - 0x38000000 + 0xfff + ((m >> 13) & 1)) >> 13;
    int32_t small = (int32_t)wick_bits_of(wick_float_of((uint32_t)m) + 0.5f) - 0x3f000000;
    int32_t is_small = wick_mask(m < 0x38800000);
    h.bits = (uint16_t)((small & is_small) | (normal & ~is_small) | nan | ((w >> 16) & 0x8000));
#endif
    return h;
}

WICK_FN float wick_bf16_to_f32(wick_bf16 b) { return wick_float_of((uint32_t)b.bits << 16); }

/* Rounds to nearest even; NaN is cut and made quiet. */
WICK_FN wick_bf16 wick_f32_to_bf16(float f)
{
    wick_bf16 b;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(b.bits) : "f"(f));
#else
    uint32_t w = wick_bits_of(f);
    uint32_t nan = (uint32_t)wick_mask(f != f);
    uint32_t up = (0x7fffu + ((w >> 16) & 1u)) & ~nan;
    b.bits = (uint16_t)(((w + up) | (nan & 0x00400000u)) >> 16);
#endif
    return b;
}

#if !defined(__CUDACC__)

/* Arrays of halves go through the CPU's own instructions where it has them, with the same results
 * to the bit: f16 several times as fast, bf16 somewhat. The compilers' builtins, because
 * <immintrin.h> would cost more to read than the rest of an operator to compile. */
#if defined(__F16C__) && defined(__AVX2__) && defined(__has_builtin)
#if __has_builtin(__builtin_ia32_vcvtph2ps256) && __has_builtin(__builtin_ia32_vcvtps2ph256) &&    \
    __has_builtin(__builtin_ia32_packusdw256) && __has_builtin(__builtin_ia32_permdi256)
#define WICK_EIGHT
typedef float wick_eight_f32 __attribute__((vector_size(32)));
typedef int32_t wick_eight_i32 __attribute__((vector_size(32)));
typedef uint32_t wick_eight_u32 __attribute__((vector_size(32)));
typedef long long wick_four_i64 __attribute__((vector_size(32)));
typedef int16_t wick_eight_i16 __attribute__((vector_size(16)));
#endif
#endif

WICK_INLINE void wick_f16_to_f32_array(float *to, const wick_f16 *from, int64_t n)
{
    int64_t done = 0;
#if defined(WICK_EIGHT)
    for (; done < n / 8 * 8; done += 8) {
        wick_eight_i16 h;
        memcpy(&h, from + done, sizeof h);
        wick_eight_f32 f = __builtin_ia32_vcvtph2ps256(h);
        memcpy(to + done, &f, sizeof f);
    }
    n %= 8;
#endif
    for (int64_t k = 0; k < n; k++)
        to[done + k] = wick_f16_to_f32(from[done + k]);
}

WICK_INLINE void wick_f32_to_f16_array(wick_f16 *to, const float *from, int64_t n)
{
    int64_t done = 0;
#if defined(WICK_EIGHT)
    for (; done < n / 8 * 8; done += 8) {
        wick_eight_f32 f;
        memcpy(&f, from + done, sizeof f);
        wick_eight_i16 h = __builtin_ia32_vcvtps2ph256(f, 0); /* 0: to nearest even */
        memcpy(to + done, &h, sizeof h);
    }
    n %= 8;
#endif
    for (int64_t k = 0; k < n; k++)
        to[done + k] = wick_f32_to_f16(from[done + k]);
}

WICK_INLINE void wick_bf16_to_f32_array(float *to, const wick_bf16 *from, int64_t n)
{
    for (int64_t k = 0; k < n; k++)
        to[k] = wick_bf16_to_f32(from[k]);
}

#if defined(WICK_EIGHT)
/* As wick_f32_to_bf16. */
WICK_INLINE wick_eight_i32 wick_eight_f32_to_bf16(const float *from)
{
    wick_eight_f32 f;
    memcpy(&f, from, sizeof f);
    wick_eight_u32 w = (wick_eight_u32)f, nan = (wick_eight_u32)(f != f);
    wick_eight_u32 up = (0x7fffu + ((w >> 16) & 1u)) & ~nan;
    return (wick_eight_i32)(((w + up) | (nan & 0x00400000u)) >> 16);
}
#endif

WICK_INLINE void wick_f32_to_bf16_array(wick_bf16 *to, const float *from, int64_t n)
{
    int64_t done = 0;
#if defined(WICK_EIGHT)
    for (; done < n / 16 * 16; done += 16) {
        wick_eight_i32 a = wick_eight_f32_to_bf16(from + done),
                       b = wick_eight_f32_to_bf16(from + done + 8);
        /* The pack takes turns by quarters: a0 b0 a1 b1. */
        wick_four_i64 packed = (wick_four_i64)__builtin_ia32_packusdw256(a, b);
        packed = __builtin_ia32_permdi256(packed, 0xd8);
        memcpy(to + done, &packed, sizeof packed);
    }
    n %= 16;
#endif
    for (int64_t k = 0; k < n; k++)
        to[done + k] = wick_f32_to_bf16(from[done + k]);
}

#endif /* !__CUDACC__ */

#endif /* WICK_HALF_H */
