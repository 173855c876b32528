/* element.h -- T, the type of an operator's elements, and A, what they are summed in; part of
 * <wick/op.h>
 *
 * The build defines WICK_T as the number of the element type (WICK_F16 ...) before it includes the
 * file; an editor that opens the file alone sees f32. Files without the type variable T are built
 * with WICK_T 0: no T, no A.
 */
#ifndef WICK_ELEMENT_H
#define WICK_ELEMENT_H

#include <wick/half.h>
#include <wick/types.h>

#ifndef WICK_T
#define WICK_T 3
#endif

/* The numbers of wick_dtype once more, for the preprocessor: to it an enumerator is 0, and
 * `#if WICK_T == WICK_F64` would hold for no type. */
#define WICK_F16 1
#define WICK_BF16 2
#define WICK_F32 3
#define WICK_F64 4
#define WICK_I8 5
#define WICK_I16 6
#define WICK_I32 7
#define WICK_I64 8
#define WICK_U8 9
#define WICK_BOOL 10

#if WICK_T == 1
typedef wick_f16 T;
typedef float A;
WICK_FN A wick_A(T v) { return wick_f16_to_f32(v); }
WICK_FN T wick_T(A a) { return wick_f32_to_f16(a); }
#elif WICK_T == 2
typedef wick_bf16 T;
typedef float A;
WICK_FN A wick_A(T v) { return wick_bf16_to_f32(v); }
WICK_FN T wick_T(A a) { return wick_f32_to_bf16(a); }
#elif WICK_T != 0
#if WICK_T == 3
typedef float T;
typedef float A;
#elif WICK_T == 4
typedef double T;
typedef double A;
#elif WICK_T == 5
typedef int8_t T;
#elif WICK_T == 6
typedef int16_t T;
#elif WICK_T == 7
typedef int32_t T;
#elif WICK_T == 8
typedef int64_t T;
#elif WICK_T == 9
typedef uint8_t T;
#elif WICK_T == 10
typedef bool T;
#endif
#if WICK_T >= 5
typedef int64_t A;
#endif
WICK_FN A wick_A(T v) { return (A)v; }
WICK_FN T wick_T(A a) { return (T)a; }
#endif

#if WICK_T != 0
/* Elements of T in 16 bytes, the widest access of a GPU's thread. */
enum { WICK_PACK = 16 / (int)sizeof(T) };
#endif

#endif /* WICK_ELEMENT_H */
