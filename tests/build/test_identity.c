/* test_identity.c -- what a build depends on besides its text */
#define _GNU_SOURCE 1
#include "support.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char *folder;

static void setup(void) { folder = enter_folder(); }

static void teardown(void)
{
    leave_folder(folder);
    cr_expect_eq(wick_memory_live(), 0);
}

TestSuite(identity, .init = setup, .fini = teardown);

/* Owned by the caller: free. */
static char *compiler(const char *program)
{
    wick_text text = {0};
    wick_identity_compiler(&text, program);
    char *copy = strdup(wick_text_str(&text));
    wick_text_free(&text);
    return copy;
}

static void expect_same(char *a, char *b, bool same)
{
    cr_expect_eq(strcmp(a, b) == 0, same, "\"%s\" and \"%s\"", a, b);
    free(a);
    free(b);
}

static void write_program(const char *path, const char *text)
{
    write_text(path, text);
    cr_assert_eq(chmod(path, 0700), 0);
}

Test(identity, a_compiler_is_its_bytes)
{
    write_program("my-cc", "#!/bin/sh\n# 1\n");
    char *before = compiler("./my-cc");
    expect_same(strdup(before), compiler("./my-cc"), true);
    write_program("my-cc", "#!/bin/sh\n# 2\n");
    expect_same(before, compiler("./my-cc"), false);
}

Test(identity, the_path_decides_which_one_it_is)
{
    cr_assert_eq(mkdir("one", 0700) | mkdir("two", 0700), 0);
    write_program("one/my-cc", "1");
    write_program("two/my-cc", "2");
    setenv("PATH", "one:two", 1);
    char *first = compiler("my-cc");
    cr_expect(strstr(first, "one/my-cc"));
    setenv("PATH", "two:one", 1);
    char *second = compiler("my-cc");
    cr_expect(strstr(second, "two/my-cc"));
    expect_same(first, second, false);
    cr_assert_eq(chmod("two/my-cc", 0600), 0);
    /* Root may read everything, but run only what is a program for somebody. */
    char *third = compiler("my-cc");
    cr_expect(strstr(third, "one/my-cc"));
    free(third);
}

Test(identity, a_name_is_looked_for_as_the_system_does)
{
    static const struct {
        const char *path, *found;
    } cases[] = {{"one:two", "two/my-cc"}, /* a folder is no program */
                 {"one", NULL},
                 {"one:", "my-cc"}, /* an empty part is the current folder */
                 {":two", "my-cc"},
                 {"nowhere::two", "my-cc"}};
    cr_assert_eq(mkdir("one", 0700) | mkdir("two", 0700) | mkdir("one/my-cc", 0700), 0);
    write_program("two/my-cc", "2");
    write_program("my-cc", "here");
    for (int i = 0; i < WICK_COUNT(cases); i++) {
        wick_text path = {0};
        setenv("PATH", cases[i].path, 1);
        bool found = wick_toolchain_locate("my-cc", &path);
        cr_expect_eq(found, cases[i].found != NULL, "%s", cases[i].path);
        cr_expect_eq(found, wick_toolchain_on_path("my-cc"));
        cr_expect_str_eq(wick_text_str(&path), found ? cases[i].found : "", "%s", cases[i].path);
        wick_text_free(&path);
    }
    cr_expect_not(wick_toolchain_on_path("one/my-cc"));
    cr_expect(wick_toolchain_on_path("./two/my-cc"));
}

Test(identity, a_compiler_that_is_not_there)
{
    setenv("PATH", "", 1);
    char *none = compiler("nowhere-cc");
    cr_expect_null(strstr(none, "nowhere-cc"));
    free(none);
}

Test(identity, variables_that_the_compiler_reads)
{
    static const char *const names[] = {"CPATH", "C_INCLUDE_PATH", "LIBRARY_PATH", "COMPILER_PATH",
                                        "GCC_EXEC_PREFIX"};
    for (int i = 0; i < WICK_COUNT(names); i++) {
        unsetenv(names[i]);
        char *without = compiler("cc");
        setenv(names[i], "/somewhere", 1);
        char *with = compiler("cc");
        setenv(names[i], "/elsewhere", 1);
        expect_same(strdup(with), compiler("cc"), false);
        expect_same(without, with, false);
        unsetenv(names[i]);
    }
}

Test(identity, this_cpu_is_always_the_same)
{
    wick_text first = {0}, again = {0};
    wick_identity_cpu(&first);
    cr_expect_gt(first.size, 0);
    for (int i = 0; i < 100; i++) {
        wick_identity_cpu(&again);
        cr_expect_str_eq(wick_text_str(&first), wick_text_str(&again), "on whichever core");
        wick_text_free(&again);
    }
    wick_text_free(&first);
}
