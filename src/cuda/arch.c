/* arch.c -- "sm_80,sm_90": lists of architectures
 *
 * Takes nvcc's spelling, torch's and plain numbers, since people have all three in their
 * environment.
 */
#include "cuda.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

wick_archs wick_archs_default(void)
{
    /* Volta is no longer compiled for; 8.6, 8.9 run code of 8.0; later ones take the PTX. */
    wick_archs archs = {.n = 3, .arch = {75, 80, 90}, .ptx = 90};
    return archs;
}

static bool is_word(const char *s, size_t n, const char *word)
{
    return strlen(word) == n && !strncasecmp(s, word, n);
}

/* A number of one to three digits, then nothing; -1: it is none. */
static int read_number(const char *s, size_t n)
{
    int value = 0;
    if (n < 1 || n > 3) return -1;
    for (size_t i = 0; i < n; i++) {
        if (!isdigit((unsigned char)s[i])) return -1;
        value = value * 10 + (s[i] - '0');
    }
    return value;
}

/* "sm_90", "90", "9.0"; -1: it is none. */
static int read_arch(const char *s, size_t n)
{
    enum { OLDEST = 30 };
    if (n > 3 && !strncasecmp(s, "sm_", 3)) {
        s += 3;
        n -= 3;
    }
    const char *dot = memchr(s, '.', n);
    size_t before = dot ? (size_t)(dot - s) : n;
    int arch = read_number(s, before);
    if (dot && arch >= 0) {
        int minor = read_number(dot + 1, n - before - 1);
        arch = minor >= 0 && minor < 10 && arch < 100 ? arch * 10 + minor : -1;
    }
    return arch >= OLDEST ? arch : -1;
}

/* Ascending, each once; false: there is no room. */
static bool insert(wick_archs *archs, int32_t arch)
{
    int at = 0;
    while (at < archs->n && archs->arch[at] < arch)
        at++;
    if (at < archs->n && archs->arch[at] == arch) return true;
    if (archs->n == WICK_MAX_ARCHS) return false;
    memmove(&archs->arch[at + 1], &archs->arch[at], (size_t)(archs->n - at) * sizeof(int32_t));
    archs->arch[at] = arch;
    archs->n++;
    return true;
}

/* Takes "+PTX" or "-PTX" off the end of an item; what is left of it. */
static size_t take_ptx(const char *s, size_t n, bool *wanted, bool *said)
{
    const size_t suffix = 4;
    if (is_word(s, n, "ptx") || is_word(s, n, "noptx")) {
        *wanted = n == 3;
        *said = true;
        return 0;
    }
    if (n < suffix ||
        (!is_word(s + n - suffix, suffix, "+ptx") && !is_word(s + n - suffix, suffix, "-ptx")))
        return n;
    *wanted = s[n - suffix] == '+';
    *said = true;
    return n - suffix;
}

/* One item: "sm_90", or "compute_90", which is PTX. */
static wick_status take_arch(wick_ctx *ctx, const char *what, const char *s, size_t n,
                             wick_archs *archs)
{
    static const char compute[] = "compute_";
    const size_t prefix = sizeof compute - 1;
    const bool ptx = n > prefix && !strncasecmp(s, compute, prefix);
    int arch = ptx ? read_arch(s + prefix, n - prefix) : read_arch(s, n);
    if (arch < 0)
        return wick_fail(ctx, WICK_EINVAL,
                         "%s: \"%.*s\" is not an architecture: write sm_80, 8.0 or 80", what,
                         (int)n, s);
    if (ptx && archs->ptx)
        return wick_fail(ctx, WICK_EINVAL, "%s: compute_%d and compute_%d: PTX is made for one",
                         what, (int)archs->ptx, arch);
    if (ptx)
        archs->ptx = arch;
    else if (!insert(archs, arch))
        return wick_fail(ctx, WICK_EINVAL,
                         "%s: \"%.*s\" is one architecture too many: %d may be named", what, (int)n,
                         s, (int)WICK_MAX_ARCHS);
    return WICK_OK;
}

wick_status wick_archs_parse(wick_ctx *ctx, const char *what, const char *text, wick_archs *out)
{
    static const char between[] = ",; \t\n";
    wick_archs archs = {0};
    bool wanted = true, said = false; /* whether PTX is wanted: the last word */
    for (const char *s = text + strspn(text, between); *s; s += strspn(s, between)) {
        size_t n = strcspn(s, between);
        if (said)
            return wick_fail(ctx, WICK_EINVAL,
                             "%s: in \"%s\" PTX comes last: it is made for the newest architecture",
                             what, text);
        size_t left = take_ptx(s, n, &wanted, &said);
        if (left) WICK_TRY(take_arch(ctx, what, s, left, &archs));
        s += n;
    }
    if (archs.n == 0)
        return wick_fail(ctx, WICK_EINVAL, "%s: \"%s\" names no architecture", what, text);
    if (archs.ptx && said)
        return wick_fail(ctx, WICK_EINVAL, "%s: \"%s\" says twice which PTX is wanted", what, text);
    if (archs.ptx == 0 && wanted) archs.ptx = archs.arch[archs.n - 1];
    *out = archs;
    return WICK_OK;
}
