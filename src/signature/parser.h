/* parser.h -- the state that the two halves of the parser share */
#ifndef WICK_SIGNATURE_PARSER_H
#define WICK_SIGNATURE_PARSER_H

#include "signature_internal.h"

typedef enum wick_section {
    WICK_SECTION_INPUT,
    WICK_SECTION_OUTPUT,
    WICK_SECTION_SCRATCH
} wick_section;

typedef struct wick_parser {
    wick_ctx *ctx;
    wick_arena *arena;
    wick_signature *sig; /* dims and variables are filled in as they appear */
    wick_token token;    /* the next one, not yet taken */
    int n_params;
    wick_param params[WICK_MAX_PARAMS]; /* inputs, then outputs, then scratch */
} wick_parser;

/* ---- parse.c ---- */

wick_status wick_parser_advance(wick_parser *p);
bool wick_parser_is_mark(const wick_parser *p, char c);
bool wick_parser_is_word(const wick_parser *p, const char *word);
/* Fails at the next token: "expected <what>, found <it>". */
wick_status wick_parser_expected(wick_parser *p, const char *what);
wick_status wick_parser_take_mark(wick_parser *p, char c, const char *what);
/* A copy of the next token's text in the arena; takes it. */
wick_status wick_parser_take_text(wick_parser *p, const char **out);

/* ---- parse_type.c ---- */

/* What stands after the colon, up to a default. */
wick_status wick_parser_type(wick_parser *p, wick_param *param);
/* What stands after the '='. */
wick_status wick_parser_default(wick_parser *p, wick_param *param);

#endif /* WICK_SIGNATURE_PARSER_H */
