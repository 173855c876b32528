/* words.c -- other people's names on a terminal and in JSON, and sizes for people */
#include "cli.h"

void cli_put_name(FILE *out, const char *s)
{
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        fputc(c < 0x20 || c == 0x7f ? '?' : c, out);
    }
}

/* Bytes of the UTF-8 character that begins here; 0 when none does. */
static int utf8_bytes(const unsigned char *s)
{
    unsigned code;
    int n = s[0] < 0x80   ? 1
            : s[0] < 0xc2 ? 0
            : s[0] < 0xe0 ? 2
            : s[0] < 0xf0 ? 3
            : s[0] < 0xf5 ? 4
                          : 0;
    if (n < 2) return n;
    code = s[0] & (0xffu >> (n + 1));
    for (int i = 1; i < n; i++) {
        if ((s[i] & 0xc0) != 0x80) return 0;
        code = code << 6 | (s[i] & 0x3fu);
    }
    if (n == 3 && (code < 0x800 || (code >= 0xd800 && code < 0xe000))) return 0;
    return n == 4 && (code < 0x10000 || code > 0x10ffff) ? 0 : n;
}

void cli_add_json(wick_text *out, const char *s)
{
    wick_text_add(out, "\"");
    while (*s) {
        unsigned char c = (unsigned char)*s;
        int n = utf8_bytes((const unsigned char *)s);
        if (n == 0) {
            wick_text_printf(out, "\\udc%02x", (unsigned)c);
            n = 1;
        } else if (c < 0x20 || c == 0x7f) {
            wick_text_printf(out, "\\u%04x", (unsigned)c);
        } else {
            if (c == '"' || c == '\\') wick_text_add(out, "\\");
            wick_text_addn(out, s, (size_t)n);
        }
        s += n;
    }
    wick_text_add(out, "\"");
}

void cli_put_json(FILE *out, const char *s)
{
    wick_text text = {0};
    cli_add_json(&text, s);
    fputs(text.failed ? "null" : wick_text_str(&text), out);
    wick_text_free(&text);
}

void cli_put_bytes(FILE *out, int64_t bytes)
{
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB"};
    double n = (double)bytes;
    int unit = 0;
    while (n >= 999.5 && unit < WICK_COUNT(units) - 1) {
        n /= 1000;
        unit++;
    }
    fprintf(out, "%.*f %s", unit > 0 && n < 99.95 ? 1 : 0, n, units[unit]);
}
