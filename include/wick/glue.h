/* glue.h -- what generated code is written in, and the table a module exports
 *
 *   module.so ── wick_module_table ──▶ ops[] ──▶ variants[] ──▶ cpu, cuda
 *
 * An operator is compiled once per combination of element types (a variant). Each variant's
 * functions are reached through an entry of one common form: the arguments in the order of the C
 * prototype, one slot each. Only generated code and src/module include this file.
 */
#ifndef WICK_GLUE_H
#define WICK_GLUE_H

#include <wick/types.h>

enum { WICK_MAX_VARIABLES = 4 };

/* One argument of an operator's C function: a pointer (NULL: absent), a number, or text. */
typedef union wick_slot {
    void *p;
    int64_t i; /* int, and the index of a choice in its own list */
    double f;
    bool b;
    const char *s;
} wick_slot;

typedef wick_status (*wick_entry)(wick_ctx *ctx, const wick_slot *slot);

/* Which CPUs a variant's host code runs on. */
typedef enum wick_isa { WICK_ISA_BASELINE = 0, WICK_ISA_X86_64_V3 = 3 } wick_isa;

typedef struct wick_variant {
    uint8_t types[WICK_MAX_VARIABLES]; /* wick_dtype of each type variable of the signature, in its
                                          order; 0 after */
    int32_t isa;
    wick_entry cpu;      /* NULL: no CPU version */
    wick_entry cuda;     /* NULL: no CUDA version */
    wick_device *device; /* the unit's; NULL: it has no kernels */
} wick_variant;

typedef struct wick_op_entry {
    const char *ns; /* NULL: the loader's default, "local" */
    const char *name;
    const char *signature; /* complete: with the file's `where` */
    const char *doc;       /* the comment at the head of the operator's file; may be "" */
    const char *file;      /* the source as it was given to the build */
    int64_t line;          /* of WICK_OP */
    const wick_variant *const *variants;
    int64_t n_variants;
    const char *tune; /* launch choices: "threads: 128 256, rows:", a knob without values being
                         another operator's; NULL: none */
} wick_op_entry;

#define WICK_MODULE_MAGIC 0x4b434957u /* "WICK" */

typedef struct wick_module_table {
    uint32_t magic;
    uint32_t abi;
    const char *built_by; /* Wick's version, for messages */
    const wick_op_entry *ops;
    int64_t n_ops;
} wick_module_table;

#define WICK_MODULE_SYMBOL "wick_module"

#endif /* WICK_GLUE_H */
