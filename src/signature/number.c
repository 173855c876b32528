/* number.c -- floats to text and back, the same in every locale
 *
 * strtod and printf follow the host program's locale, where 1.5 may be spelled 1,5. Both directions
 * therefore look up the point that printf uses at this moment and exchange it.
 */
#include "signature_internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_LITERAL = 400, MAX_POINT = 8 };

static void locale_point(char point[MAX_POINT])
{
    char half[MAX_POINT + 4];
    int n = snprintf(half, sizeof half, "%.1f", 0.5);
    if (n < 3 || n - 2 >= MAX_POINT) n = 3;
    memcpy(point, half + 1, (size_t)n - 2);
    point[n - 2] = '\0';
}

bool wick_number_parse(const char *s, int length, double *out)
{
    char literal[MAX_LITERAL], point[MAX_POINT];
    int n = 0;
    if (length > MAX_LITERAL - MAX_POINT - 1) return false;
    locale_point(point);
    for (int i = 0; i < length; i++) {
        if (s[i] == '.') {
            memcpy(literal + n, point, strlen(point));
            n += (int)strlen(point);
        } else {
            literal[n++] = s[i];
        }
    }
    literal[n] = '\0';
    *out = strtod(literal, NULL);
    return isfinite(*out) != 0;
}

void wick_number_print(wick_text *out, double value)
{
    char digits[64], point[MAX_POINT];
    for (int precision = 15; precision <= 17; precision++) {
        snprintf(digits, sizeof digits, "%.*g", precision, value);
        if (strtod(digits, NULL) == value) break;
    }
    locale_point(point);
    char *at = strstr(digits, point);
    if (at) {
        wick_text_addn(out, digits, (size_t)(at - digits));
        wick_text_add(out, ".");
        wick_text_add(out, at + strlen(point));
    } else {
        wick_text_add(out, digits);
        if (!strchr(digits, 'e')) wick_text_add(out, ".0");
    }
}
