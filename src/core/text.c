/* text.c -- a string that grows
 *
 * After running out of memory a text stays as it is and takes nothing more: a text with a hole in
 * it would be worse than a short one, and its writer looks at `failed` once, at the end.
 */
#include "core.h"

#include <stdio.h>
#include <string.h>

enum { TEXT_FIRST = 64 };

/* Room for n more characters and the NUL. */
static bool reserve(wick_text *t, size_t n)
{
    if (t->failed) return false;
    if (n < t->capacity - t->size) return true;
    if (n > SIZE_MAX / 4 || t->size > SIZE_MAX / 4) {
        t->failed = true;
        return false;
    }
    size_t capacity = t->capacity ? t->capacity : TEXT_FIRST;
    while (capacity - t->size <= n) {
        capacity *= 2;
    }
    char *data = wick_realloc(t->data, capacity);
    if (!data) {
        t->failed = true;
        return false;
    }
    t->data = data;
    t->capacity = capacity;
    t->data[t->size] = '\0';
    return true;
}

void wick_text_addn(wick_text *t, const char *s, size_t n)
{
    if (!reserve(t, n)) return;
    if (n) memcpy(t->data + t->size, s, n);
    t->size += n;
    t->data[t->size] = '\0';
}

void wick_text_add(wick_text *t, const char *s) { wick_text_addn(t, s, strlen(s)); }

void wick_text_vprintf(wick_text *t, const char *format, va_list args)
{
    if (!reserve(t, 0)) return;
    va_list again;
    va_copy(again, args);
    int n = vsnprintf(t->data + t->size, t->capacity - t->size, format, args);
    bool fits = n >= 0 && (size_t)n < t->capacity - t->size;
    if (!fits) t->data[t->size] = '\0';
    if (n < 0) t->failed = true;
    if (!fits && reserve(t, (size_t)n)) {
        n = vsnprintf(t->data + t->size, t->capacity - t->size, format, again);
        fits = true;
    }
    if (fits) t->size += (size_t)n;
    va_end(again);
}

void wick_text_printf(wick_text *t, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    wick_text_vprintf(t, format, args);
    va_end(args);
}

const char *wick_text_str(const wick_text *t) { return t->data ? t->data : ""; }

void wick_text_free(wick_text *t)
{
    wick_free(t->data);
    *t = (wick_text){0};
}

/* How many bytes the character at s has; 0 where it is none. Surrogates and what is longer than it
 * need be are none, nor is what lies beyond 0x10ffff. */
static int utf8_length(const unsigned char *s)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const int n = s[0] < 0x80       ? 1
                  : s[0] >> 5 == 6  ? 2
                  : s[0] >> 4 == 14 ? 3
                  : s[0] >> 3 == 30 ? 4
                                    : 0;
    if (n < 2) return n;
    uint32_t code = s[0] & (0x7fU >> n);
    for (int i = 1; i < n; i++) {
        if (s[i] >> 6 != 2) return 0; /* the NUL, too */
        code = code << 6 | (s[i] & 0x3fU);
    }
    return code >= least[n] && code <= 0x10ffff && code >> 11 != 0x1b ? n : 0;
}

void wick_make_utf8(char *s)
{
    while (*s) {
        const int n = utf8_length((const unsigned char *)s);
        if (n == 0) *s = '?';
        s += n ? n : 1;
    }
}
