/* test_dtype.c -- the table of element types, entry by entry */
#include "core.h"

#include <criterion/criterion.h>
#include <string.h>

typedef struct expected_dtype {
    wick_dtype dtype;
    const char *name, *c_type;
    size_t bytes;
    wick_dtype accumulate;
    bool is_float;
} expected_dtype;

static const expected_dtype expected[] = {
    {WICK_NONE, "none", "void", 0, WICK_NONE, false},
    {WICK_F16, "f16", "wick_f16", 2, WICK_F32, true},
    {WICK_BF16, "bf16", "wick_bf16", 2, WICK_F32, true},
    {WICK_F32, "f32", "float", 4, WICK_F32, true},
    {WICK_F64, "f64", "double", 8, WICK_F64, true},
    {WICK_I8, "i8", "int8_t", 1, WICK_I64, false},
    {WICK_I16, "i16", "int16_t", 2, WICK_I64, false},
    {WICK_I32, "i32", "int32_t", 4, WICK_I64, false},
    {WICK_I64, "i64", "int64_t", 8, WICK_I64, false},
    {WICK_U8, "u8", "uint8_t", 1, WICK_I64, false},
    {WICK_BOOL, "bool", "bool", 1, WICK_I64, false},
};

Test(dtype, each_type_has_its_facts)
{
    cr_assert_eq(WICK_COUNT(expected), WICK_DTYPE_COUNT);
    for (int i = 0; i < WICK_COUNT(expected); i++) {
        const expected_dtype *e = &expected[i];
        cr_assert_eq((int)e->dtype, i);
        cr_assert_str_eq(wick_dtype_name(i), e->name);
        cr_assert_str_eq(wick_dtype_c_type(i), e->c_type);
        cr_assert_eq(wick_dtype_size(i), e->bytes);
        cr_assert_eq(wick_dtype_accumulate(i), e->accumulate);
        cr_assert_eq(wick_dtype_is_float(i), e->is_float);
    }
}

Test(dtype, numbers_outside_are_none)
{
    static const int outside[] = {-1, WICK_DTYPE_COUNT, 1 << 30, -(1 << 30)};
    for (int i = 0; i < WICK_COUNT(outside); i++) {
        cr_assert_str_eq(wick_dtype_name(outside[i]), "none");
        cr_assert_str_eq(wick_dtype_c_type(outside[i]), "void");
        cr_assert_eq(wick_dtype_size(outside[i]), 0);
        cr_assert_eq(wick_dtype_accumulate(outside[i]), WICK_NONE);
        cr_assert_not(wick_dtype_is_float(outside[i]));
    }
}

Test(dtype, parse_is_the_inverse_of_name)
{
    for (int i = 1; i < WICK_DTYPE_COUNT; i++) {
        bool reserved = true;
        const char *name = wick_dtype_name(i);
        cr_assert_eq((int)wick_dtype_parse(name, strlen(name), &reserved), i);
        cr_assert_not(reserved);
        cr_assert_eq((int)wick_dtype_parse(name, strlen(name), NULL), i);
    }
    cr_assert_eq(wick_dtype_parse("f32[N]", 3, NULL), WICK_F32, "only n characters are read");
}

Test(dtype, reserved_spellings_are_told_from_unknown_ones)
{
    static const char *const kept[] = {
        "f8", "fp8", "f8e4m3", "f8e5m2", "f8_e4m3fn", "fp8_e5m2",  "float8",     "float8_e4m3fn",
        "f4", "u16", "u32",    "u64",    "c64",       "complex64", "complex128", "c128",
    };
    static const char *const unknown[] = {"",    "none", "f",    "float", "float32",
                                          "F32", "f3",   "f32 ", "int",   "u128",
                                          "T",   "c6",   "b",    "f64x"};
    for (int i = 0; i < WICK_COUNT(kept); i++) {
        bool reserved = false;
        cr_assert_eq(wick_dtype_parse(kept[i], strlen(kept[i]), &reserved), WICK_NONE);
        cr_assert(reserved, "%s", kept[i]);
        cr_assert_eq(wick_dtype_parse(kept[i], strlen(kept[i]), NULL), WICK_NONE);
    }
    for (int i = 0; i < WICK_COUNT(unknown); i++) {
        bool reserved = true;
        cr_assert_eq(wick_dtype_parse(unknown[i], strlen(unknown[i]), &reserved), WICK_NONE);
        cr_assert_not(reserved, "%s", unknown[i]);
    }
}
