/* signature.h -- one line that says what an operator takes and returns, and everything that follows
 * from it
 *
 *   "x: T[*N, C], bias: T[C], scale: float = 1.0 -> y: T[*N, C] where T: f32 f64"
 *      │ lex.c, parse*.c          the tree below, all in one arena
 *      ├ check.c                  names, types, dims that can be solved
 *      ├ solve.c                  sizes of a call ⇒ value of every dim, shape of every output
 *      ├ print*.c                 canonical text, torch schema, C prototype, Python stub, words
 *      ├ sample.c                 random and hostile inputs
 *      ├ gradient.c               which forward a backward belongs to, and how it is fed
 *      └ traffic.c                bytes read and written
 *
 * tune.c has a smaller language beside it: the choices that an operator's launches leave open.
 *
 * docs/signature.md has the grammar.
 */
#ifndef WICK_SIGNATURE_H
#define WICK_SIGNATURE_H

#include "core.h"

enum {
    WICK_MAX_PARAMS = 64,  /* inputs + outputs + scratch */
    WICK_MAX_NAMED = 32,   /* named dims of one signature */
    WICK_MAX_TYPEVARS = 4, /* = WICK_MAX_VARIABLES of glue.h */
    WICK_MAX_FACTORS = 4   /* names multiplied in one term */
};

typedef enum wick_kind {
    WICK_KIND_TENSOR,
    WICK_KIND_SHAPE, /* x: shape[...]: only its sizes */
    WICK_KIND_INT,
    WICK_KIND_FLOAT,
    WICK_KIND_BOOL,
    WICK_KIND_STR,
    WICK_KIND_CHOICE /* mode: 'sum'|'mean' */
} wick_kind;

typedef enum wick_elem_kind {
    WICK_ELEM_FIXED,
    WICK_ELEM_VARIABLE,
    WICK_ELEM_ACCUMULATE
} wick_elem_kind;

/* The element type of a tensor. */
typedef struct wick_elem {
    wick_elem_kind kind;
    wick_dtype dtype; /* FIXED */
    int variable;     /* VARIABLE and ACCUMULATE (always T's): index into signature.variables */
} wick_elem;

/* coefficient * names[0] * names[1] ... ; no names: a constant */
typedef struct wick_term {
    int64_t coefficient;
    int n_names;
    int names[WICK_MAX_FACTORS]; /* indices into signature.dims */
} wick_term;

/* One size between the brackets: a sum of terms. */
typedef struct wick_size {
    int n_terms;
    wick_term *terms;
    bool alone;       /* a single name: it binds that name */
    const char *text; /* as written, without spaces: "S+1" */
    int offset;       /* in signature.text, for carets */
} wick_size;

typedef struct wick_param {
    const char *name;
    wick_kind kind;
    bool optional; /* x?: */
    bool in_place; /* x!: */
    bool strided;
    bool has_default; /* for an optional: it may be left out */
    wick_elem elem;   /* TENSOR */
    int leading;      /* TENSOR, SHAPE: dim index of `*N` in front, or -1 */
    int n_sizes;      /* the sizes after it */
    wick_size *sizes;
    int n_choices; /* CHOICE */
    const char **choices;
    int64_t default_int; /* INT; BOOL as 0 or 1; CHOICE as an index */
    double default_float;
    const char *default_str;
    int gives_dim; /* INT: the dim that takes this value (`k: int -> y: f32[k]`), or -1 */
    int offset;    /* of the name in signature.text, for carets */
} wick_param;

typedef struct wick_dim {
    const char *name;
    bool leading; /* *N: its value is the product of any number of leading dims */
    bool batch;   /* named in a `batch` clause */
    int from_int; /* the INT input that gives its value, or -1 */
    int offset;   /* of its first appearance in signature.text */
} wick_dim;

typedef struct wick_variable {
    const char *name;
    int n_types; /* 0: no `where` here, the file's list applies */
    wick_dtype types[WICK_DTYPE_COUNT];
    int offset; /* of its first appearance in signature.text */
} wick_variable;

typedef enum wick_autocast {
    WICK_AUTOCAST_KEEP,
    WICK_AUTOCAST_F32,
    WICK_AUTOCAST_FOLLOW
} wick_autocast;

typedef struct wick_signature {
    const char *text; /* as parsed */
    const char *name; /* of the operator; never NULL */
    int n_inputs, n_outputs, n_scratch, n_dims, n_variables;
    wick_param *inputs, *outputs, *scratch;
    wick_dim *dims;           /* in order of first appearance */
    wick_variable *variables; /* in order of first appearance, T first if A appears */
    wick_autocast autocast;
    bool autocast_given;
} wick_signature;

/* Parses and checks. `name` is the operator's (from WICK_OP); NULL where the text begins with it,
 * as in "relu(x: T[*N]) -> y: T[*N]". Lives in the arena, text included. The message of a failure
 * has three lines: what was expected and found, the signature's line, and a caret under the place.
 */
wick_status wick_signature_parse(wick_ctx *ctx, wick_arena *arena, const char *name,
                                 const char *text, wick_signature **out);
/* Gives variables without a `where` of their own the list of the same variable in `from` (the
 * file's other operators). A variable listed in both must be listed alike: else WICK_EINVAL. */
wick_status wick_signature_adopt_types(wick_ctx *ctx, wick_signature *sig,
                                       const wick_signature *from);
/* Every variable has its list; else WICK_EINVAL naming the one that has none. */
wick_status wick_signature_require_types(wick_ctx *ctx, const wick_signature *sig);

/* ---- solve.c ---- */

/* One input as far as its sizes go. A scalar: only `number` (INT) counts. */
typedef struct wick_input_shape {
    bool present;
    int dim;
    const int64_t *size;
    int64_t number;
} wick_input_shape;

typedef struct wick_binding {
    int64_t value[WICK_MAX_NAMED]; /* of each dim; a `*N` has the product */
    bool bound[WICK_MAX_NAMED];
    const int64_t *leading[WICK_MAX_NAMED]; /* of each `*N`: its dims, borrowed from the input that
                                               gave them */
    int n_leading[WICK_MAX_NAMED];
} wick_binding;

/* Checks ranks and sizes of a call's inputs (in order) and solves every dim. Messages name argument
 * and size: "bias.shape[0] is 4, but C is 5", "x has 1 dimension ([3]), expected 2 or more: T[*N,
 * C]". No allocation. */
wick_status wick_signature_bind(wick_ctx *ctx, const wick_signature *sig,
                                const wick_input_shape *inputs, wick_binding *out);
/* The shape of an output or scratch buffer; size has room for WICK_MAX_RANK. Fails on a negative or
 * overflowing size. */
wick_status wick_signature_shape(wick_ctx *ctx, const wick_signature *sig, const wick_param *param,
                                 const wick_binding *binding, int *dim, int64_t *size);
/* The element type when the variables have these types. */
wick_dtype wick_elem_dtype(const wick_elem *elem, const wick_dtype *types);

/* ---- print.c: all append to a text ---- */

/* Canonical: one space after commas, clauses in fixed order, `where` included. Parsing it gives the
 * same tree. */
void wick_signature_print(wick_text *out, const wick_signature *sig);
/* "relu(x: T[*N]) -> y: T[*N]": the same with the name, without clauses; for documents and errors.
 */
void wick_signature_print_call(wick_text *out, const wick_signature *sig);
/* "relu(Tensor x) -> Tensor" */
void wick_signature_print_schema(wick_text *out, const wick_signature *sig);
/* "wick_status relu_cpu(wick_ctx *, const T *, T *, int64_t)"; suffix "cpu" or "cuda"; with `names`
 * the parameters'. */
void wick_signature_print_prototype(wick_text *out, const wick_signature *sig, const char *suffix,
                                    bool names);
/* The C type of one parameter; `written`: a result or a scratch buffer, so everything is a pointer.
 */
void wick_param_print_c_type(wick_text *out, const wick_signature *sig, const wick_param *param,
                             bool written);
/* "def relu(x: Tensor, *, out: Tensor | None = None) -> Tensor: ..." */
void wick_signature_print_stub(wick_text *out, const wick_signature *sig);
/* "relu(x, bias, scale=1.0, *, out=None)": as inspect.signature wants it in a builtin's
 * __text_signature__. */
void wick_signature_print_python(wick_text *out, const wick_signature *sig);
/* What is said of an operator beside its signature. */
typedef struct wick_doc {
    const char *head;               /* the comment at the head of its file, or "" */
    const char *first;              /* of a second name (`foo`): the first (foo_forward); or NULL */
    const wick_signature *backward; /* or NULL */
} wick_doc;
/* Its documentation, several lines: the call, the comment, types and gradient. */
void wick_signature_print_doc(wick_text *out, const wick_signature *sig, const wick_doc *about);
/* The type as written: "T[*N, C]", "int", "'sum'|'mean'". */
void wick_param_print_type(wick_text *out, const wick_signature *sig, const wick_param *param);
/* "f16, bf16 or f32": the types a parameter may have. */
void wick_elem_print_types(wick_text *out, const wick_signature *sig, const wick_elem *elem);

/* ---- sample.c: inputs for tests ---- */

typedef enum wick_sample_kind {
    WICK_SAMPLE_RANDOM, /* a few elements in every dim */
    WICK_SAMPLE_EMPTY,  /* one dim is 0 */
    WICK_SAMPLE_ONE,    /* every free dim is 1 */
    WICK_SAMPLE_ODD,    /* primes, powers of two and one off them */
    WICK_SAMPLE_LARGE   /* about `budget` elements in the largest tensor */
} wick_sample_kind;

/* Chooses a value for every dim and every scalar so that the signature fits; the same seed gives
 * the same choice. shapes: one per input, sizes in the arena. scalars: one per input (INT, BOOL,
 * CHOICE index); floats beside it. */
enum { WICK_SAMPLE_LEADING = 3 }; /* the most leading dims that a `*N` is given */

typedef struct wick_sample {
    wick_input_shape *inputs;
    double *floats;
    int64_t dims[WICK_MAX_NAMED]; /* of a `*N`: the product of those below */
    int n_leading[WICK_MAX_NAMED];
    int64_t leading[WICK_MAX_NAMED][WICK_SAMPLE_LEADING];
} wick_sample;
wick_status wick_signature_sample(wick_ctx *ctx, wick_arena *arena, const wick_signature *sig,
                                  wick_sample_kind kind, uint64_t seed, int64_t budget,
                                  wick_sample *out);

/* ---- gradient.c: `foo_backward` is the gradient of `foo` ---- */

/* Where an argument of the backward comes from. */
typedef enum wick_gradient_source {
    WICK_FROM_GRADIENT, /* d<output>: the gradient that arrives for output `index` */
    WICK_FROM_INPUT,    /* the forward's input `index`, saved */
    WICK_FROM_OUTPUT,   /* the forward's output `index`, saved */
    WICK_FROM_SHAPE,    /* only the sizes of input `index` */
    WICK_FROM_SIZE      /* a dim of the forward: size `axis` (from the end, -1 is the last) of input
                           `index` */
} wick_gradient_source;

typedef struct wick_gradient_argument {
    wick_gradient_source source;
    int index;
    int axis;
} wick_gradient_argument;

typedef struct wick_gradient {
    wick_gradient_argument arguments[WICK_MAX_PARAMS]; /* one per input of the backward */
    int gives[WICK_MAX_PARAMS]; /* per output of the backward: the forward's input whose gradient it
                                   is */
} wick_gradient;

/* How the backward is fed from a call of the forward. Fails, showing both signatures, when their
 * names do not fit. */
wick_status wick_gradient_match(wick_ctx *ctx, const wick_signature *forward,
                                const wick_signature *backward, wick_gradient *out);

/* ---- traffic.c ---- */

typedef struct wick_traffic {
    int64_t read_bytes, written_bytes;
} wick_traffic;
/* The least an operator must move: every present input read once, every output and in-place tensor
 * written once. */
wick_status wick_signature_traffic(wick_ctx *ctx, const wick_signature *sig,
                                   const wick_binding *binding, const wick_input_shape *inputs,
                                   const wick_dtype *types, wick_traffic *out);

/* ---- tune.c: the launch choices of an operator ---- */

enum { WICK_MAX_KNOBS = 8, WICK_MAX_KNOB_VALUES = 16 };

typedef struct wick_knob {
    const char *name;
    int n; /* 0: another operator's */
    int64_t values[WICK_MAX_KNOB_VALUES];
} wick_knob;

typedef struct wick_tune {
    int n;
    wick_knob knobs[WICK_MAX_KNOBS];
} wick_tune;

/* Reads "threads: 128 256 512, rows: 1 2 4". `empty_too`: a knob may be without values. */
wick_status wick_tune_parse(wick_ctx *ctx, wick_arena *arena, const char *text, bool empty_too,
                            wick_tune **out);
void wick_tune_print(wick_text *out, const wick_tune *tune);

#endif /* WICK_SIGNATURE_H */
