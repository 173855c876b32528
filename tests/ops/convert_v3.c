/* convert_v3.c -- the conversions by the CPU's own instructions; compiled for x86-64-v3 */
#include "convert_table.inc"

#if defined(__x86_64__) && !defined(WICK_EIGHT)
#error "op.h does not use the instructions that x86-64-v3 has"
#endif

const convert *convert_v3(void)
{
#if defined(__x86_64__)
    static const convert it = {"v3", f16_to_f32, f32_to_f16, bf16_to_f32, f32_to_bf16};
    /* Whoever has AVX2 has F16C; not every compiler lets one ask for that. */
    return __builtin_cpu_supports("avx2") ? &it : NULL;
#else
    return NULL;
#endif
}
