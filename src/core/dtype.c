/* dtype.c -- the element types and what is known of each, from dtype.def
 *
 * The spelling of bool is its own keyword: the table stringises before the macro `bool` of
 * <stdbool.h> is expanded.
 */
#include "core.h"

#include <string.h>

typedef struct dtype_facts {
    const char *name, *c_type;
    size_t bytes;
    wick_dtype accumulate;
    bool is_float;
} dtype_facts;

static const dtype_facts known[WICK_DTYPE_COUNT] = {
    [WICK_NONE] = {"none", "void", 0, WICK_NONE, false},
#define WICK_DTYPE(upper, lower, c_type, bytes, accumulate, is_float)                              \
    [WICK_##upper] = {#lower, #c_type, bytes, WICK_##accumulate, is_float},
#include "dtype.def"
};

#define WICK_DTYPE(upper, lower, c_type, bytes, accumulate, is_float)                              \
    _Static_assert(sizeof(c_type) == (bytes), "the size of " #c_type);
#include "dtype.def"

static const dtype_facts *facts_of(int dtype)
{
    return &known[dtype > WICK_NONE && dtype < WICK_DTYPE_COUNT ? dtype : WICK_NONE];
}

const char *wick_dtype_name(int dtype) { return facts_of(dtype)->name; }
const char *wick_dtype_c_type(int dtype) { return facts_of(dtype)->c_type; }
size_t wick_dtype_size(int dtype) { return facts_of(dtype)->bytes; }
wick_dtype wick_dtype_accumulate(int dtype) { return facts_of(dtype)->accumulate; }
bool wick_dtype_is_float(int dtype) { return facts_of(dtype)->is_float; }

static bool is_reserved(const char *s, size_t n)
{
    /* The 8-bit floats come in too many spellings to list: f8, f8e4m3, fp8_e5m2, float8_e4m3fn ...
     */
    static const char *const families[] = {"f8", "fp8", "float8"};
    static const char *const words[] = {"f4",  "fp4",  "u16",       "u32",       "u64",       "c32",
                                        "c64", "c128", "complex32", "complex64", "complex128"};
    for (int i = 0; i < WICK_COUNT(families); i++) {
        size_t length = strlen(families[i]);
        if (n >= length && memcmp(s, families[i], length) == 0) return true;
    }
    for (int i = 0; i < WICK_COUNT(words); i++) {
        if (strlen(words[i]) == n && memcmp(s, words[i], n) == 0) return true;
    }
    return false;
}

wick_dtype wick_dtype_parse(const char *s, size_t n, bool *reserved)
{
    if (reserved) *reserved = false;
    for (int i = WICK_NONE + 1; i < WICK_DTYPE_COUNT; i++) {
        if (strlen(known[i].name) == n && memcmp(s, known[i].name, n) == 0) return (wick_dtype)i;
    }
    if (reserved) *reserved = is_reserved(s, n);
    return WICK_NONE;
}
