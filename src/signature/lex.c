/* lex.c -- the words of a signature, and messages that point at one
 *
 * A token is a range of the text; nothing is copied. Bytes that are not printable ASCII are refused
 * here, so that the other files, the generated C and Python's stubs never meet them.
 */
#include "signature_internal.h"

#include <string.h>

enum { SHOWN_BEFORE = 60, SHOWN = 100 }; /* columns of a long signature around the caret */

static bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
static bool is_plain(char c) { return c >= ' ' && c <= '~'; }

/* One column for each byte, so that the caret stays under its place. */
static void show_text(wick_text *out, const char *text, int begin, int end)
{
    for (int i = begin; i < end; i++) {
        char c = is_space(text[i]) ? ' ' : is_plain(text[i]) ? text[i] : '?';
        wick_text_addn(out, &c, 1);
    }
}

wick_status wick_signature_fail(wick_ctx *ctx, const char *text, int offset, const char *format,
                                ...)
{
    wick_status status = WICK_EINVAL;
    wick_text message = {0};
    int length = (int)strlen(text);
    int begin = offset > SHOWN_BEFORE && length > SHOWN ? offset - SHOWN_BEFORE : 0;
    int end = length - begin > SHOWN ? begin + SHOWN : length;
    va_list args;

    va_start(args, format);
    wick_text_vprintf(&message, format, args);
    va_end(args);
    wick_text_add(&message, begin > 0 ? "\n    ..." : "\n    ");
    show_text(&message, text, begin, end);
    wick_text_printf(&message, "%s\n    %*s^", end < length ? "..." : "",
                     offset - begin + (begin > 0 ? 3 : 0), "");
    if (message.failed)
        status = wick_fail(ctx, WICK_ENOMEM, "out of memory");
    else
        wick_fail(ctx, status, "%s", wick_text_str(&message));
    wick_text_free(&message);
    return status;
}

static wick_status read_number(wick_ctx *ctx, const char *text, int offset, wick_token *out)
{
    int i = offset;
    out->kind = WICK_TOKEN_INT;
    while (is_digit(text[i]))
        i++;
    if (text[i] == '.') {
        out->kind = WICK_TOKEN_FLOAT;
        for (i++; is_digit(text[i]);)
            i++;
    }
    if (text[i] == 'e' || text[i] == 'E') {
        int sign = text[i + 1] == '-' || text[i + 1] == '+';
        if (is_digit(text[i + 1 + sign])) {
            out->kind = WICK_TOKEN_FLOAT;
            for (i += 1 + sign; is_digit(text[i]);)
                i++;
        }
    }
    if (is_letter(text[i])) {
        return wick_signature_fail(ctx, text, i,
                                   "a letter follows a number (a product is written 4*H)");
    }
    out->length = i - offset;
    return WICK_OK;
}

static wick_status read_string(wick_ctx *ctx, const char *text, int offset, wick_token *out)
{
    int i = offset + 1;
    out->kind = WICK_TOKEN_STRING;
    for (; text[i] != '\''; i++) {
        if (text[i] == '\0')
            return wick_signature_fail(ctx, text, offset, "this text has no closing quote");
        if (!is_plain(text[i]) || text[i] == '"' || text[i] == '\\')
            return wick_signature_fail(
                ctx, text, i,
                "a text consists of printable ASCII without double quote and backslash");
    }
    out->length = i + 1 - offset;
    return WICK_OK;
}

wick_status wick_token_read(wick_ctx *ctx, const char *text, int offset, wick_token *out)
{
    while (is_space(text[offset]))
        offset++;
    char c = text[offset];
    *out = (wick_token){WICK_TOKEN_MARK, offset, 1};
    if (c == '\0') {
        out->kind = WICK_TOKEN_END;
        out->length = 0;
    } else if (is_letter(c)) {
        out->kind = WICK_TOKEN_NAME;
        while (is_letter(text[offset + out->length]) || is_digit(text[offset + out->length]))
            out->length++;
        if (out->length > WICK_MAX_NAME)
            return wick_signature_fail(ctx, text, offset, "this name is longer than %d characters",
                                       WICK_MAX_NAME);
    } else if (is_digit(c) || (c == '.' && is_digit(text[offset + 1]))) {
        return read_number(ctx, text, offset, out);
    } else if (c == '\'') {
        return read_string(ctx, text, offset, out);
    } else if (c == '-' && text[offset + 1] == '>') {
        out->kind = WICK_TOKEN_ARROW;
        out->length = 2;
    } else if (!strchr(":,[]()=?!*+-|/", c)) {
        if (!is_plain(c))
            return wick_signature_fail(ctx, text, offset, "unexpected byte 0x%02x",
                                       (unsigned char)c);
        return wick_signature_fail(ctx, text, offset, "unexpected character '%c'", c);
    }
    return WICK_OK;
}
