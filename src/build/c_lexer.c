/* c_lexer.c -- reads C source as far as finding operators needs
 *
 * Not a preprocessor: macros are not expanded and every branch of an #if is read, because an
 * operator file is written for several compilers. Comments, literals, directives and spliced lines
 * are understood, so that what stands in a comment or a string is never taken for code.
 */
#include "builder.h"

#include <ctype.h>
#include <string.h>

void wick_lex_start(wick_lexer *lex, const char *text, size_t bytes)
{
    memset(lex, 0, sizeof *lex);
    lex->at = text;
    lex->end = text + bytes;
    lex->line = 1;
    lex->line_start = true;
}

static char peek(const wick_lexer *lex, int ahead)
{
    return lex->end - lex->at > ahead ? lex->at[ahead] : '\0';
}

static void step(wick_lexer *lex)
{
    if (*lex->at == '\n') lex->line++;
    lex->at++;
}

/* A backslash at the end of a line joins it with the next; returns the bytes it takes. */
static int splice(const wick_lexer *lex)
{
    if (peek(lex, 0) != '\\') return 0;
    if (peek(lex, 1) == '\n') return 2;
    return peek(lex, 1) == '\r' && peek(lex, 2) == '\n' ? 3 : 0;
}

static bool skip_comment(wick_lexer *lex)
{
    if (peek(lex, 0) != '/') return false;
    if (peek(lex, 1) == '*') {
        lex->at += 2;
        while (lex->at < lex->end && !(peek(lex, 0) == '*' && peek(lex, 1) == '/'))
            step(lex);
        lex->at = lex->end - lex->at >= 2 ? lex->at + 2 : lex->end;
        return true;
    }
    if (peek(lex, 1) != '/') return false;
    while (lex->at < lex->end && *lex->at != '\n') {
        for (int n = splice(lex); n > 1; n--)
            step(lex);
        step(lex);
    }
    return true;
}

/* Past a literal that begins here; one that is not closed ends with its line. */
static void skip_literal(wick_lexer *lex)
{
    char quote = *lex->at;
    step(lex);
    while (lex->at < lex->end && *lex->at != quote && *lex->at != '\n') {
        if (*lex->at == '\\') {
            for (int n = splice(lex); n > 1; n--)
                step(lex);
            if (lex->end - lex->at > 1 && *lex->at == '\\') step(lex);
        }
        step(lex);
    }
    if (lex->at < lex->end && *lex->at == quote) step(lex);
}

static bool is_name(char c) { return isalnum((unsigned char)c) || c == '_'; }

/* Each branch of a conditional begins at the depth of braces at which the #if stood. */
static void count_directive(wick_lexer *lex, const char *word, size_t size)
{
    if (size >= 2 && memcmp(word, "if", 2) == 0) {
        if (lex->n_ifs < WICK_LEX_MAX_IFS) lex->ifs[lex->n_ifs] = lex->braces;
        lex->n_ifs++;
    } else if (size >= 2 && memcmp(word, "el", 2) == 0) {
        if (lex->n_ifs > 0 && lex->n_ifs <= WICK_LEX_MAX_IFS) {
            lex->braces = lex->ifs[lex->n_ifs - 1];
        }
    } else if (size == 5 && memcmp(word, "endif", 5) == 0 && lex->n_ifs > 0) {
        lex->n_ifs--;
    }
}

static void skip_directive(wick_lexer *lex)
{
    const char *word, *start = lex->at;
    int64_t line = lex->line;
    step(lex);
    while (peek(lex, 0) == ' ' || peek(lex, 0) == '\t')
        step(lex);
    word = lex->at;
    while (is_name(peek(lex, 0)))
        step(lex);
    count_directive(lex, word, (size_t)(lex->at - word));
    while (lex->at < lex->end && *lex->at != '\n') {
        if (skip_comment(lex)) continue;
        for (int n = splice(lex); n > 1; n--)
            step(lex);
        step(lex);
    }
    if (lex->directive) lex->directive(lex->directive_arg, start, (size_t)(lex->at - start), line);
}

static void skip_blank(wick_lexer *lex)
{
    while (lex->at < lex->end) {
        if (*lex->at == '\n') {
            lex->line_start = true;
            step(lex);
        } else if (isspace((unsigned char)*lex->at)) {
            step(lex);
        } else if (splice(lex)) {
            for (int n = splice(lex); n > 0; n--)
                step(lex);
        } else if (*lex->at == '#' && lex->line_start) {
            skip_directive(lex);
        } else if (!skip_comment(lex)) {
            return;
        }
    }
}

/* Braces hold code, save those of `extern "C" {` and `namespace a {`: what is in them stands at the
 * top level still. */
static void count_brace(wick_lexer *lex, wick_token *token)
{
    if (*token->start == '{' && lex->linkage < 2) lex->braces++;
    if (*token->start == '}') {
        if (lex->braces > 0) lex->braces--;
        token->braces = lex->braces;
    }
}

static void follow_linkage(wick_lexer *lex, const wick_token *token)
{
    if (lex->linkage == 1 && token->kind == WICK_TOKEN_STRING) {
        lex->linkage = 2;
    } else if (lex->linkage != 3 ||
               (token->kind != WICK_TOKEN_NAME && !wick_token_is(token, ":"))) {
        lex->linkage = wick_token_is(token, "extern")      ? 1
                       : wick_token_is(token, "namespace") ? 3
                                                           : 0;
    }
}

wick_token wick_lex_next(wick_lexer *lex)
{
    wick_token token = {WICK_TOKEN_END, NULL, 0, 0, 0};
    skip_blank(lex);
    token.start = lex->at;
    token.line = lex->line;
    token.braces = lex->braces;
    if (lex->at == lex->end) return token;
    lex->line_start = false;
    token.kind = WICK_TOKEN_OTHER;
    if (*lex->at == '"' || *lex->at == '\'') {
        if (*lex->at == '"') token.kind = WICK_TOKEN_STRING;
        skip_literal(lex);
    } else if (is_name(*lex->at)) {
        if (!isdigit((unsigned char)*lex->at)) token.kind = WICK_TOKEN_NAME;
        while (is_name(peek(lex, 0)))
            step(lex);
    } else {
        count_brace(lex, &token);
        step(lex);
    }
    token.size = (size_t)(lex->at - token.start);
    follow_linkage(lex, &token);
    return token;
}

bool wick_token_is(const wick_token *token, const char *spelling)
{
    return token->kind != WICK_TOKEN_END && token->size == strlen(spelling) &&
           memcmp(token->start, spelling, token->size) == 0;
}

int64_t wick_lex_find(const char *text, size_t bytes, const char *name)
{
    wick_lexer lex;
    wick_lex_start(&lex, text, bytes);
    for (wick_token t = wick_lex_next(&lex); t.kind != WICK_TOKEN_END; t = wick_lex_next(&lex)) {
        if (t.kind == WICK_TOKEN_NAME && wick_token_is(&t, name)) return t.line;
    }
    return 0;
}

static int digit_of(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return 99;
}

/* The value of the digits at *at, at most `max` of them, or -1 where there are none or they exceed
 * a byte. */
static int number_of(const char **at, const char *end, int base, int max)
{
    int value = 0, n = 0;
    for (; *at < end && n < max && digit_of(**at) < base; n++, (*at)++) {
        value = value * base + digit_of(**at);
        if (value > 255) return -1;
    }
    return n > 0 ? value : -1;
}

/* The escape whose letter is at *at; -1 when C has none such. */
static int escape_of(const char **at, const char *end)
{
    static const char letters[] = "abfnrtv\\\"'?", meant[] = "\a\b\f\n\r\t\v\\\"'?";
    const char *found;
    if (**at >= '0' && **at <= '7') return number_of(at, end, 8, 3);
    if (**at == 'x') {
        ++*at;
        return number_of(at, end, 16, 1000);
    }
    found = strchr(letters, *(*at)++);
    return found && *found ? (unsigned char)meant[found - letters] : -1;
}

bool wick_token_decode(const wick_token *token, wick_text *out)
{
    const char *at = token->start + 1, *end = token->start + token->size - 1;
    if (token->size < 2 || *end != '"') return false;
    while (at < end) {
        int c = (unsigned char)*at++;
        if (c == '\\') {
            if (at == end) return false;
            if (*at == '\r' && at + 1 < end && at[1] == '\n') at++;
            if (*at == '\n') {
                at++;
                continue;
            }
            c = escape_of(&at, end);
        }
        if (c <= 0) return false;
        wick_text_addn(out, (const char[]){(char)c}, 1);
    }
    return true;
}
