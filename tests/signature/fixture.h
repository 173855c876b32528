/* fixture.h -- a signature under test with all that it needs, and the list of real ones */
#ifndef WICK_TESTS_SIGNATURE_FIXTURE_H
#define WICK_TESTS_SIGNATURE_FIXTURE_H

#include "signature.h"

#include <criterion/criterion.h>
#include <string.h>

typedef struct fixture {
    wick_ctx ctx;
    wick_arena arena;
    wick_signature *sig; /* NULL when it did not parse */
} fixture;

static inline wick_status fixture_parse(fixture *f, const char *name, const char *text)
{
    memset(f, 0, sizeof *f);
    wick_ctx_init(&f->ctx, NULL);
    return wick_signature_parse(&f->ctx, &f->arena, name, text, &f->sig);
}

static inline void fixture_free(fixture *f)
{
    wick_arena_free(&f->arena);
    wick_ctx_deinit(&f->ctx);
}

/* Of a signature without its name, which is then `f`. */
static inline fixture fixture_of(const char *text)
{
    fixture f;
    wick_status status = fixture_parse(&f, "f", text);
    cr_assert_eq(status, WICK_OK, "%s", wick_ctx_message(&f.ctx));
    return f;
}

/* Calls `use` with every line of kernels.txt. */
static inline void for_each_kernel(void (*use)(fixture *f))
{
    char *lines = NULL;
    size_t bytes = 0;
    int n = 0;
    wick_ctx ctx;
    wick_ctx_init(&ctx, NULL);
    cr_assert_eq(
        wick_file_read(&ctx, WICK_TEST_ROOT "/tests/signature/kernels.txt", &lines, &bytes),
        WICK_OK);
    for (char *line = lines, *end; (end = strchr(line, '\n')); line = end + 1, n++) {
        fixture f;
        *end = '\0';
        cr_assert_eq(fixture_parse(&f, NULL, line), WICK_OK, "%s", wick_ctx_message(&f.ctx));
        use(&f);
        fixture_free(&f);
    }
    cr_assert_gt(n, 40, "the list is not complete");
    wick_free(lines);
    wick_ctx_deinit(&ctx);
}

#endif /* WICK_TESTS_SIGNATURE_FIXTURE_H */
