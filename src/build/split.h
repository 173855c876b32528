/* split.h -- an operator file as its two compilers read it, for the files that carry it out
 *
 *   chunks.c     the text as pieces at the top level: functions, variables, the rest; directives
 *   reach.c      which pieces need which others
 *   launcher.c   the C function behind WICK_LAUNCH
 *   directives.c what #if and #include become
 *   edits.c      a text with parts of it replaced
 *   split.c      which pieces go to which compiler, and what stands in the others' place
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
    WICK_CHUNK_LINKAGE, /* `extern "C" {`, `namespace a {`, and the brace that closes it */
    WICK_CHUNK_MACRO    /* a #define; may lie inside another chunk */
} wick_chunk_kind;

typedef struct wick_chunk {
    wick_chunk_kind kind;
    wick_span text, name;
    wick_span params; /* of a function, without the parentheses */
    wick_span first;  /* its first word */
    wick_span *names; /* all that a variable's declaration declares */
    int n_names, names_capacity;
    int64_t line;
    bool kernel;                 /* __global__ */
    bool device, host, constant; /* marked so; constant: __constant__ or __managed__ */
    bool from_macro;             /* a macro with a body in it is called here, and nothing else */
    bool kept, followed;         /* reach.c: needed; what it needs is kept as well */
} wick_chunk;

typedef enum wick_directive_kind {
    WICK_DIRECTIVE_OTHER,
    WICK_DIRECTIVE_IF,
    WICK_DIRECTIVE_ELSE, /* #elif too */
    WICK_DIRECTIVE_ENDIF,
    WICK_DIRECTIVE_INCLUDE,
    WICK_DIRECTIVE_DEFINE /* #undef too */
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

/* ---- chunks.c ---- */

/* Everything lies in the arena. Out of memory is remembered in `failed`. */
void wick_chunks_read(wick_chunks *out, wick_arena *arena, const char *text, size_t bytes);
bool wick_span_is(wick_span span, const char *text);
bool wick_span_same(wick_span a, wick_span b);
bool wick_span_in(wick_span span, const char *const *words); /* a list that ends with NULL */
wick_span wick_span_of(const wick_token *token);
/* The word is in the text, outside of comments and strings. */
bool wick_span_says(wick_span text, const char *word);
/* Room for one more in an array that doubles inside the arena; NULL when out of memory. */
void *wick_chunks_grow(wick_arena *arena, void *items, int n, int *capacity, size_t bytes);

/* ---- reach.c ---- */

/* From the pieces that are kept to all that they need. */
wick_status wick_chunks_reach(wick_ctx *ctx, wick_chunks *chunks);

/* ---- edits.c ---- */

typedef struct wick_edit {
    wick_span where;
    const char *with;
    bool is_code; /* what goes may hold directives, which stay */
} wick_edit;

typedef struct wick_edits {
    const wick_chunks *chunks;
    wick_edit *items;
    int n, capacity;
    bool failed; /* out of memory, or `with` was NULL */
} wick_edits;

/* A piece goes; its #if, #define and the like stay. */
void wick_edits_replace(wick_edits *e, wick_span code, const char *with);
/* Words in a line are replaced. */
void wick_edits_reword(wick_edits *e, wick_span words, const char *with);
void wick_edits_insert(wick_edits *e, wick_span what, const char *text);
/* The text with its edits, in the chunks' arena; NULL when out of memory. What lies inside of a
 * part that is gone already is not edited. */
const char *wick_edits_apply(wick_edits *e, const wick_scan *scan);

/* ---- directives.c ---- */

/* #ifdef __CUDACC__ hides nothing that is C. */
void wick_directives_for_host(const wick_scan *scan, const wick_chunks *chunks, wick_edits *e);
/* For C where nvcc has the rest. */
void wick_directives_beside_nvcc(const wick_scan *scan, const wick_chunks *chunks, wick_edits *e);
/* Fills in the scan's device_prelude and needs_cuda_headers. */
wick_status wick_directives_for_device(wick_ctx *ctx, wick_scan *scan, const wick_chunks *chunks,
                                       wick_edits *e);

/* ---- split.c ---- */

/* The piece is OPERATOR<suffix>, of an operator of the file. */
bool wick_chunk_implements(const wick_scan *scan, const wick_chunk *chunk, const char *suffix);

/* ---- launcher.c ---- */

/* What stands in a kernel's place in the C text, or in that of its prototype; and what there is to
 * say of it. In the scan's arena. */
wick_status wick_launcher_make(wick_ctx *ctx, wick_scan *scan, const wick_chunk *kernel,
                               const char **out, wick_scan_kernel *about);
/* C's meaning of CUDA's own types in the kernels' parameters (float4, __half), "" when there are
 * none. */
wick_status wick_launcher_types(wick_ctx *ctx, wick_scan *scan, const wick_chunks *chunks);

#endif /* WICK_SPLIT_H */
