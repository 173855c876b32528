/* support.h -- what the tests of src/build share */
#ifndef WICK_TEST_BUILD_SUPPORT_H
#define WICK_TEST_BUILD_SUPPORT_H

#include "builder.h"

/* An operator over T with every kind of parameter there is. */
extern const char *const all_kinds;

/* One float operator, in two halves: put something between them. */
#define HEAD "#include <wick/op.h>\nWICK_OP(f, \"x: T[*N] -> y: T[*N] where T: f32 f64\");\n"
#define BODY                                                                                       \
    "WICK_IMPL wick_status f_cpu(wick_ctx *ctx, const T *x, T *y, int64_t N)\n"                    \
    "{\n    (void)ctx;\n    for (int64_t i = 0; i < N; i++) y[i] = wick_T(wick_A(x[i]) + 1);\n"    \
    "    return WICK_OK;\n}\n"

/* Options that find the headers in the source tree; `compiler` NULL: cc. */
wick_build_options plain_options(const char *compiler);

/* A folder of the test's own, made the current one. Removed by leave_folder. */
char *enter_folder(void);
void leave_folder(char *folder);
void write_text(const char *path, const char *text);

/* The message of scanning `text` as op.c, or "" when nothing is wrong with it. Owned by the caller.
 */
char *scan_message(const char *text);
/* The message of building it, likewise. `text` NULL: `path` is read. */
char *build_message(const char *path, const char *text, const wick_build_options *options);

#endif
