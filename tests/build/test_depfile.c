/* test_depfile.c -- the rule that says what a module was made from */
#include "support.h"

#include <criterion/criterion.h>
#include <string.h>

static wick_ctx ctx;

static void start(void) { wick_ctx_init(&ctx, NULL); }
static void stop(void) { wick_ctx_deinit(&ctx); }

TestSuite(depfile, .init = start, .fini = stop);

static char *read_text(const char *path)
{
    char *text = NULL;
    size_t n = 0;
    cr_assert_eq(wick_file_read(&ctx, path, &text, &n), WICK_OK, "%s", wick_ctx_message(&ctx));
    return text;
}

Test(depfile, names_every_file_once_and_as_make_spells_it)
{
    char *folder = enter_folder(), *absolute = NULL, *rule;
    const char *lines = "dep 0123 /a dir/x$y.h\n"
                        "sys 10 1.5 /usr/include/math.h\n"
                        "dep 4567 /a dir/x$y.h\n"
                        "dep 89ab /b#.h\n";
    wick_source sources[] = {{"op.c", NULL}, {"<cell>", "text"}};
    wick_text wanted = {0};
    write_text("op.c", "");
    cr_assert_eq(wick_path_absolute(&ctx, "op.c", &absolute), WICK_OK);
    cr_assert_eq(wick_depfile_write(&ctx, "m.d", "m 1.so", sources, 2, lines), WICK_OK);
    wick_text_printf(&wanted,
                     "m\\ 1.so: \\\n  %s \\\n  /a\\ dir/x$$y.h \\\n  /usr/include/math.h \\\n"
                     "  /b\\#.h\n",
                     absolute);
    rule = read_text("m.d");
    cr_expect_str_eq(rule, wick_text_str(&wanted));
    wick_free(rule);
    wick_free(absolute);
    wick_text_free(&wanted);
    leave_folder(folder);
}

Test(depfile, a_build_lists_its_headers_and_not_its_own_files)
{
    char *folder = enter_folder(), *rule;
    wick_build_options options = plain_options(NULL);
    wick_source source = {"op.c", NULL};
    write_text("mine.h", "#define STEP 1\n");
    write_text("op.c", "#include \"mine.h\"\n" HEAD BODY);
    options.depfile = "op.d";
    cr_assert_eq(wick_build_module(&ctx, &source, 1, &options, "op.so", NULL), WICK_OK, "%s",
                 wick_ctx_message(&ctx));
    rule = read_text("op.d");
    cr_expect_eq(strncmp(rule, "op.so: \\\n", 9), 0, "%s", rule);
    cr_expect(strstr(rule, "/op.c \\\n") != NULL, "%s", rule);
    cr_expect(strstr(rule, "/mine.h") != NULL, "%s", rule);
    cr_expect(strstr(rule, "/wick/op.h") != NULL, "%s", rule);
    cr_expect(strstr(rule, "unit0") == NULL, "%s", rule);
    wick_free(rule);
    leave_folder(folder);
}

Test(depfile, one_that_cannot_be_written_is_an_error)
{
    char *folder = enter_folder();
    wick_source source = {"op.c", NULL};
    write_text("op.c", "");
    cr_expect_eq(wick_depfile_write(&ctx, "no/such/folder/m.d", "m.so", &source, 1, ""), WICK_EIO);
    cr_expect(strstr(wick_ctx_message(&ctx), "no/such/folder") != NULL, "%s",
              wick_ctx_message(&ctx));
    leave_folder(folder);
}
