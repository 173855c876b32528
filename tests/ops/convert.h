/* convert.h -- op.h's conversions of arrays, as one set of compiler flags makes them
 *
 * convert_plain.c and convert_v3.c are compiled with different flags and then compared.
 */
#ifndef CONVERT_H
#define CONVERT_H

#include <wick/types.h>

typedef struct convert {
    const char *name;
    void (*f16_to_f32)(float *to, const wick_f16 *from, int64_t n);
    void (*f32_to_f16)(wick_f16 *to, const float *from, int64_t n);
    void (*bf16_to_f32)(float *to, const wick_bf16 *from, int64_t n);
    void (*f32_to_bf16)(wick_bf16 *to, const float *from, int64_t n);
} convert;

const convert *convert_plain(void);
const convert *convert_v3(void); /* NULL where this CPU could not run it */

#endif
