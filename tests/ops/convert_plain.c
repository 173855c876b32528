/* convert_plain.c -- the conversions in software, as on any CPU */
#include "convert_table.inc"

const convert *convert_plain(void)
{
    static const convert it = {"plain", f16_to_f32, f32_to_f16, bf16_to_f32, f32_to_bf16};
    return &it;
}
