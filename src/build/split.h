/* split.h -- an operator file as its two compilers read it, for the files that carry it out
 *
 *   chunks.c   the text as pieces at the top level: functions, variables, the rest; directives
 *   split.c    which pieces go to which compiler, and what stands in the others' place
 */
#ifndef WICK_SPLIT_H
#define WICK_SPLIT_H

#include "builder.h"

/* A part of the text. */
typedef struct wick_span {
    const char *start; /* NULL: none */
    size_t size;
} wick_span;

typedef enum wick_chunk_kind {
    WICK_CHUNK_OTHER, /* a type, an enumeration, WICK_OP: for everybody */
    WICK_CHUNK_FUNCTION,
    WICK_CHUNK_PROTOTYPE,
    WICK_CHUNK_VARIABLE,
    WICK_CHUNK_MACRO /* a #define; may lie inside another chunk */
} wick_chunk_kind;

typedef struct wick_chunk {
    wick_chunk_kind kind;
    wick_span text, name;
    wick_span params; /* of a function, without the parentheses */
    wick_span first;  /* its first word */
    int64_t line;
    bool kernel;                 /* __global__ */
    bool device, host, constant; /* marked so; constant: __constant__ or __managed__ */
    bool kept;                   /* split.c: reached from what a compiler must see */
} wick_chunk;

typedef enum wick_directive_kind {
    WICK_DIRECTIVE_OTHER,
    WICK_DIRECTIVE_IF,
    WICK_DIRECTIVE_ELSE, /* #elif too */
    WICK_DIRECTIVE_ENDIF,
    WICK_DIRECTIVE_INCLUDE
} wick_directive_kind;

typedef struct wick_directive {
    wick_directive_kind kind;
    wick_span text; /* from the # to the end of its line */
} wick_directive;

typedef struct wick_chunks {
    wick_arena *arena;
    wick_chunk *items;
    int n, capacity;
    wick_directive *directives;
    int n_directives, directives_capacity;
    bool launches; /* there is a <<< */
    bool failed;   /* out of memory */
} wick_chunks;

/* Everything lies in the arena. Out of memory is remembered in `failed`. */
void wick_chunks_read(wick_chunks *out, wick_arena *arena, const char *text, size_t bytes);
bool wick_span_is(wick_span span, const char *text);

#endif /* WICK_SPLIT_H */
