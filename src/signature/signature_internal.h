/* signature_internal.h -- what the files of this folder share and nobody else sees */
#ifndef WICK_SIGNATURE_INTERNAL_H
#define WICK_SIGNATURE_INTERNAL_H

#include "signature.h"

enum {
    WICK_MAX_TEXT = 65536, /* bytes of one signature */
    WICK_MAX_NAME = 64,    /* bytes of one name: C compilers and torch print them in full */
    WICK_MAX_TERMS = 16,   /* of one size, after like terms are joined */
    WICK_MAX_CHOICES = 64
};

/* ---- lex.c ---- */

typedef enum wick_token_kind {
    WICK_TOKEN_END,
    WICK_TOKEN_NAME,
    WICK_TOKEN_INT,
    WICK_TOKEN_FLOAT,
    WICK_TOKEN_STRING, /* quotes included */
    WICK_TOKEN_ARROW,
    WICK_TOKEN_MARK /* a single character */
} wick_token_kind;

typedef struct wick_token {
    wick_token_kind kind;
    int offset, length;
} wick_token;

/* The token at or after `offset`; white space is skipped. */
wick_status wick_token_read(wick_ctx *ctx, const char *text, int offset, wick_token *out);
/* Three lines: the words, the signature around the place, a caret under it. Always WICK_EINVAL (or
 * WICK_ENOMEM). */
WICK_PRINTF(4, 5)
wick_status wick_signature_fail(wick_ctx *ctx, const char *text, int offset, const char *format,
                                ...);

/* ---- number.c: floats in the C locale, whatever the host's is ---- */

/* Of a literal as the lexer accepts it; false when it is too large. */
bool wick_number_parse(const char *s, int length, double *out);
/* The shortest text that reads back as the same value, always with a '.' or an exponent. */
void wick_number_print(wick_text *out, double value);

/* ---- check.c ---- */

/* Everything that the grammar cannot say. Fills gives_dim, from_int and the optionals' has_default.
 */
wick_status wick_signature_check(wick_ctx *ctx, wick_signature *sig);

/* ---- solve.c ---- */

/* The value of a size when all its names have values; false when it does not fit 63 bits and a
 * sign. */
bool wick_size_evaluate(const wick_size *size, const int64_t *value, int64_t *out);
/* The one name of the size that is not known, if there is just one and it occurs to the first
 * power: else -1. */
int wick_size_unknown(const wick_size *size, const bool *known);

#endif /* WICK_SIGNATURE_INTERNAL_H */
