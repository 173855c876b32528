/* tuned.h -- launch choices that were measured on this device (tuned.c) */
#ifndef WICK_TUNED_H
#define WICK_TUNED_H

#include "module.h"

/* What ctx->tuned is for a call of an operator that has choices: the values measured for these
 * types and for dims of this size, or NULL. Lives as long as the process. */
const int64_t *wick_tuned_find(const wick_op *op, wick_op_def *def, int32_t device,
                               const wick_dtype *types, const int64_t *dims);

/* For those who measure: every call uses these values (one per knob) until told otherwise; NULL:
 * what was measured, or the rule. */
wick_status wick_tuned_force(wick_ctx *ctx, wick_op_def *def, const int64_t *values);
/* The file has changed: it is read again at the next call. */
void wick_tuned_forget(wick_op_def *def);
/* Where an operator's choices are kept for a device of this name; nothing is appended where there
 * is no cache. */
void wick_tuned_path(wick_text *out, const char *device, const char *ns, const char *name);
/* "f32 16,12": the types, and the class of each dim. */
void wick_tuned_print_key(wick_text *out, const wick_signature *sig, const wick_dtype *types,
                          const int64_t *dims);
int wick_tuned_class(int64_t size);

/* Of a definition that was never published. */
void wick_tuned_free(wick_op_def *def);

#endif /* WICK_TUNED_H */
