/* test_convert -- halves: every f16 and bf16, every border between two of them, NaN and infinities
 *
 * What is right is computed here in double, which holds every f32, and rint rounds to nearest even.
 */
#include <wick/op.h>

#include "convert.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

enum { PATTERNS = 1 << 16, LENGTH = 40 };

/* ---- what is right ---- */

static float float_of_f16(unsigned h)
{
    const unsigned exponent = h >> 10 & 31, mantissa = h & 1023;
    const uint32_t sign = (uint32_t)(h >> 15) << 31;
    double v = ldexp(mantissa + (exponent ? 1024 : 0), (int)(exponent ? exponent : 1) - 25);
    if (exponent == 31)
        return wick_float_of(sign | 0x7f800000 | mantissa << 13 | (mantissa ? 0x400000 : 0));
    return (float)(sign ? -v : v);
}

static unsigned f16_of_float(float f)
{
    const uint32_t w = wick_bits_of(f);
    const unsigned sign = w >> 16 & 0x8000;
    const double v = fabs((double)f);
    if (isnan(f)) return sign | 0x7e00 | (w >> 13 & 0x3ff);
    if (v < 0x1p-14) return sign | (unsigned)rint(v * 0x1p24);
    if (v >= 0x1p16) return sign | 0x7c00;
    const int exponent = ilogb(v);
    /* A mantissa that rounds up to 2048 carries into the exponent, and from the last one to
     * infinity. */
    return sign | (((unsigned)exponent + 14) * 1024 + (unsigned)rint(ldexp(v, 10 - exponent)));
}

static unsigned bf16_of_float(float f)
{
    const uint32_t w = wick_bits_of(f);
    if (isnan(f)) return w >> 16 | 0x40;
    return (w >> 16) + ((w & 0xffff) > 0x8000 || ((w & 0xffff) == 0x8000 && (w >> 16 & 1)));
}

/* ---- comparing ---- */

static const convert *by_number(int i) { return i == 0 ? convert_plain() : convert_v3(); }

static void check_floats(const float *f, int64_t n)
{
    static wick_f16 h[PATTERNS];
    static wick_bf16 b[PATTERNS];
    for (int way = 0; way < 2; way++) {
        const convert *c = by_number(way);
        if (!c) continue;
        c->f32_to_f16(h, f, n);
        c->f32_to_bf16(b, f, n);
        for (int64_t i = 0; i < n; i++) {
            const unsigned w = wick_bits_of(f[i]);
            if (h[i].bits != f16_of_float(f[i]))
                cr_assert_fail("%s: f32 0x%08x is f16 0x%04x", c->name, w, h[i].bits);
            if (b[i].bits != bf16_of_float(f[i]))
                cr_assert_fail("%s: f32 0x%08x is bf16 0x%04x", c->name, w, b[i].bits);
        }
    }
}

Test(convert, every_f16_and_bf16_reads_as_the_float_it_is)
{
    static wick_f16 h[PATTERNS];
    static wick_bf16 b[PATTERNS];
    static float from_h[PATTERNS], from_b[PATTERNS];
    for (unsigned i = 0; i < PATTERNS; i++) {
        h[i].bits = (uint16_t)i;
        b[i].bits = (uint16_t)i;
    }
    for (int way = 0; way < 2; way++) {
        const convert *c = by_number(way);
        if (!c) continue;
        c->f16_to_f32(from_h, h, PATTERNS);
        c->bf16_to_f32(from_b, b, PATTERNS);
        for (unsigned i = 0; i < PATTERNS; i++) {
            if (wick_bits_of(from_h[i]) != wick_bits_of(float_of_f16(i)))
                cr_assert_fail("%s: f16 0x%04x is f32 0x%08x", c->name, i, wick_bits_of(from_h[i]));
            if (wick_bits_of(from_b[i]) != i << 16)
                cr_assert_fail("%s: bf16 0x%04x is f32 0x%08x", c->name, i,
                               wick_bits_of(from_b[i]));
        }
    }
}

Test(convert, floats_around_every_half_and_every_middle_round_to_nearest_even)
{
    static float f[PATTERNS];
    const uint32_t around[] = {0,      1,      0x0fff, 0x1000, 0x1001,
                               0x1fff, 0x7fff, 0x8000, 0x8001, 0xffff};
    for (size_t k = 0; k < sizeof around / sizeof *around; k++) {
        for (unsigned i = 0; i < PATTERNS; i++)
            f[i] = wick_float_of(wick_bits_of(float_of_f16(i)) + around[k]);
        check_floats(f, PATTERNS);
        for (unsigned i = 0; i < PATTERNS; i++)
            f[i] = wick_float_of((i << 16) + around[k]);
        check_floats(f, PATTERNS);
    }
    /* Between f16's subnormals the middle lies elsewhere for each exponent: add half a step. */
    for (unsigned i = 0; i < PATTERNS; i++) {
        const float middle = ((float)(i % 2048) + 0.5f) * 0x1p-24f;
        f[i] = wick_float_of(wick_bits_of(middle) + (i >> 11) % 3 - 1) * (i >> 15 ? -1.0f : 1.0f);
    }
    check_floats(f, PATTERNS);
}

Test(convert, floats_from_all_over_the_range_round_to_nearest_even)
{
    static float f[PATTERNS];
    uint32_t w = 0;
    for (int round = 0; round < 64; round++) {
        for (int i = 0; i < PATTERNS; i++, w += 1021) /* a prime: all low bits come up */
            f[i] = wick_float_of(w);
        check_floats(f, PATTERNS);
    }
}

Test(convert, arrays_of_any_length_are_written_to_their_end_and_no_further)
{
    for (int64_t n = 0; n < LENGTH; n++)
        for (int way = 0; way < 2; way++) {
            const convert *c = by_number(way);
            wick_f16 h[LENGTH + 1];
            wick_bf16 b[LENGTH + 1];
            float f[LENGTH + 1], from_h[LENGTH + 1], from_b[LENGTH + 1];
            if (!c) continue;
            for (int i = 0; i <= LENGTH; i++) {
                f[i] = (float)i;
                from_h[i] = from_b[i] = -1;
                h[i].bits = b[i].bits = 0xabcd;
            }
            c->f32_to_f16(h, f, n);
            c->f32_to_bf16(b, f, n);
            c->f16_to_f32(from_h, h, n);
            c->bf16_to_f32(from_b, b, n);
            for (int64_t i = 0; i < n; i++)
                cr_assert(from_h[i] == f[i] && from_b[i] == f[i]);
            for (int64_t i = n; i <= LENGTH; i++) {
                cr_assert(h[i].bits == 0xabcd && b[i].bits == 0xabcd);
                cr_assert(from_h[i] == -1 && from_b[i] == -1);
            }
        }
}
