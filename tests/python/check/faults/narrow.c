/* narrow -- y = x in bf16, rounded by hand
 *
 * FAULT, a number, plants one of these; without it the file is sound:
 *
 *    1  forward    the bits that a NaN keeps are cut off: it is infinite where these were all
 *    2  forward    the bits of a NaN are rounded, over the end of the word
 *    3  forward    denormals are 0
 *    4  forward    the last four bits of denormals are cut off
 */
#include <wick/op.h>

#include <string.h>

#ifndef FAULT
#define FAULT 0
#endif

WICK_OP(narrow, "x: f32[*N] -> y: bf16[*N]");

static uint32_t rounded(uint32_t bits) { return bits + 0x7fff + (bits >> 16 & 1); }

WICK_IMPL wick_status narrow_cpu(wick_ctx *ctx, const float *x, wick_bf16 *y, int64_t N)
{
    (void)ctx;
    for (int64_t i = 0; i < N; i++) {
        uint32_t bits;
        memcpy(&bits, x + i, sizeof bits);
        const bool is_nan = (bits & 0x7fffffff) > 0x7f800000;
        const bool is_denormal = (bits & 0x7f800000) == 0;
        if (FAULT == 3 && is_denormal) bits &= 0x80000000;
        if (FAULT == 4 && is_denormal) bits &= 0xfff0ffff;
        if (is_nan && FAULT == 1)
            bits &= 0xffff0000;
        else if (is_nan && FAULT != 2)
            bits |= 0x00400000;
        else
            bits = rounded(bits);
        y[i].bits = (uint16_t)(bits >> 16);
    }
    return WICK_OK;
}
