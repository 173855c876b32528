/* support.h -- operators whose code is in the test itself, and values to call them with
 *
 * An operator is defined through the door that a module's table goes through, so that everything
 * but the file is real.
 */
#ifndef WICK_TESTS_MODULE_SUPPORT_H
#define WICK_TESTS_MODULE_SUPPORT_H

#include "module.h"

#include <criterion/criterion.h>

typedef struct test_variant {
    wick_dtype types[WICK_MAX_VARIABLES];
    wick_entry cpu, cuda;
} test_variant;

/* Defines local::name, owned by the file "<name>.c". Every choice of the signature's types runs
 * `cpu`. */
wick_op *define_op(const char *name, const char *signature, wick_entry cpu);
/* The same with a function for CUDA as well. */
wick_op *define_on(const char *name, const char *signature, wick_entry cpu, wick_entry cuda);
/* The same with functions of its own for each choice. */
wick_op *define_variants(const char *name, const char *signature, const test_variant *variants,
                         int n);
/* Defines a table's operators for a file, as loading it would. */
wick_status define_table(const char *origin, const wick_op_entry *entries, int n,
                         wick_module **out);
/* An entry of a table, for tests that define several at once. */
wick_op_entry entry_of(const char *name, const char *signature, const wick_variant *const *variant,
                       const char *file);

/* The slots of the last call of `record_slots`, an operator that does nothing else. */
extern wick_slot seen[WICK_MAX_PARAMS + WICK_MAX_NAMED];
extern int n_calls;
wick_status record_slots(wick_ctx *ctx, const wick_slot *slot);

/* The context of every call below; its message is the last call's. */
extern wick_ctx test_ctx;
wick_status call(wick_op *op, const wick_value *args, int n_args, wick_value *results,
                 int n_results);

/* Values; the sizes live as long as the block that the macro stands in. */
#define SIZES(...) ((const int64_t[]){__VA_ARGS__})
#define TENSOR(data, dtype, ...)                                                                   \
    wick_tensor_of(data, dtype, (int32_t)(sizeof SIZES(__VA_ARGS__) / sizeof(int64_t)),            \
                   SIZES(__VA_ARGS__))
#define F32(data, ...) TENSOR(data, WICK_F32, __VA_ARGS__)
#define NO_VALUE ((wick_value){0})
wick_value with_stride(wick_value tensor, const int64_t *stride);
wick_value shape_value(int dim, const int64_t *size);

#define cr_assert_call(op, args, results)                                                          \
    cr_assert_eq(call(op, args, WICK_COUNT(args), results, WICK_COUNT(results)), WICK_OK, "%s",    \
                 wick_ctx_message(&test_ctx))

/* The call fails, with exactly these words. */
#define cr_assert_refused(op, args, results, status, message)                                      \
    do {                                                                                           \
        cr_assert_eq(call(op, args, WICK_COUNT(args), results, WICK_COUNT(results)), status);      \
        cr_assert_str_eq(wick_ctx_message(&test_ctx), message);                                    \
    } while (0)

#endif /* WICK_TESTS_MODULE_SUPPORT_H */
