/* test_depends.c -- the files of a build: read from the compiler's rules, recognised later */
#define _GNU_SOURCE 1
#include "support.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char *folder;
static wick_text lines;

static void setup(void) { folder = enter_folder(); }

static void teardown(void)
{
    wick_text_free(&lines);
    leave_folder(folder);
    cr_expect_eq(wick_memory_live(), 0);
}

TestSuite(depends, .init = setup, .fini = teardown);

static int count(const char *word)
{
    int n = 0;
    for (const char *at = wick_text_str(&lines); (at = strstr(at, word)); at++)
        n++;
    return n;
}

/* Another text of the same length, under the same time. */
static void edit_unseen(const char *path, const char *text)
{
    struct stat st;
    cr_assert_eq(stat(path, &st), 0);
    cr_assert_eq((size_t)st.st_size, strlen(text));
    write_text(path, text);
    struct timespec times[2] = {st.st_atim, st.st_mtim};
    cr_assert_eq(utimensat(AT_FDCWD, path, times, 0), 0);
}

Test(depends, rules_of_a_compiler)
{
    write_text("a.h", "1");
    write_text("with blank.h", "2");
    write_text("d$llar#.h", "3");
    cr_assert(wick_depends_describe(
        &lines, "out.so: a.h \\\n with\\ blank.h \\\n\td$$llar\\#.h /private/unit.c\n",
        "/private/"));
    cr_expect_eq(count("dep "), 3, "%s", wick_text_str(&lines));
    cr_expect_eq(count("/with blank.h\n"), 1);
    cr_expect_eq(count("/d$llar#.h\n"), 1);
    cr_expect_eq(count("unit.c"), 0, "our own files are not described");
    cr_expect(wick_depends_hold(wick_text_str(&lines)));
}

Test(depends, a_file_that_cannot_be_described)
{
    cr_expect(!wick_depends_describe(&lines, "out: nowhere.h\n", NULL));
    wick_text_free(&lines);
    cr_expect(wick_depends_describe(&lines, "out:\n", NULL), "none is no trouble");
    cr_expect_eq(lines.size, 0);
    cr_expect(wick_depends_hold(""));
}

Test(depends, an_edit_is_seen_by_its_bytes)
{
    write_text("a.h", "#define A 1\n");
    cr_assert(wick_depends_describe(&lines, "out: a.h\n", NULL));
    const char *described = wick_text_str(&lines);
    cr_expect(wick_depends_hold(described) && wick_depends_hold_for(described, NULL));
    edit_unseen("a.h", "#define A 2\n");
    cr_expect(!wick_depends_hold(described) && !wick_depends_hold_for(described, NULL));
    edit_unseen("a.h", "#define A 1\n");
    cr_expect(wick_depends_hold(described), "back again");
    cr_assert_eq(unlink("a.h"), 0);
    cr_expect(!wick_depends_hold(described), "gone");
}

Test(depends, a_file_is_found_from_another_folder)
{
    write_text("a.h", "1");
    cr_assert(wick_depends_describe(&lines, "out: a.h\n", NULL));
    cr_assert_eq(chdir("/"), 0);
    cr_expect(wick_depends_hold(wick_text_str(&lines)));
    cr_assert_eq(chdir(folder), 0);
}

Test(depends, a_link_that_leads_elsewhere_is_seen)
{
    write_text("one.h", "1");
    write_text("two.h", "2");
    cr_assert_eq(symlink("one.h", "a.h"), 0);
    cr_assert(wick_depends_describe(&lines, "out: a.h\n", NULL));
    cr_assert_eq(unlink("a.h"), 0);
    cr_assert_eq(symlink("two.h", "a.h"), 0);
    cr_expect(!wick_depends_hold(wick_text_str(&lines)));
}

Test(depends, headers_of_the_system_are_told_by_size_and_time)
{
    cr_assert(wick_depends_describe(&lines, "out: /usr/include/stdio.h\n", NULL));
    cr_expect_eq(count("sys "), 1);
    cr_expect(wick_depends_hold(wick_text_str(&lines)));
    cr_expect(!wick_depends_hold("sys 1 2.000000003 /usr/include/stdio.h\n"));
    cr_expect(wick_depends_hold_for("sys 1 2.000000003 /usr/include/stdio.h\n", NULL),
              "they do not change while a process runs");
}

Test(depends, installed_headers_do_not_change_while_a_process_runs)
{
    wick_text text = {0};
    wick_text_printf(&text, "dep 00000000000000000000000000000000 %s/wick/op.h\n", folder);
    cr_expect(wick_depends_hold_for(text.data, folder));
    cr_expect(!wick_depends_hold_for(text.data, "/elsewhere"));
    cr_expect(!wick_depends_hold(text.data));
    wick_text_free(&text);
}

Test(depends, what_a_flag_names)
{
    write_text("helper.o", "1");
    cr_expect(wick_depends_add(&lines, "helper.o") && count("dep ") == 1);
    cr_expect(wick_depends_add(&lines, "nowhere") && wick_depends_add(&lines, "/tmp"));
    cr_expect_eq(count("\n"), 1, "what is no file is not described");
    write_text("helper.o", "2");
    cr_expect(!wick_depends_hold(wick_text_str(&lines)));
}

Test(depends, a_header_that_would_come_first)
{
    char *near, *far;
    cr_assert_eq(mkdir("near", 0700) | mkdir("far", 0700) | mkdir("far/sub", 0700), 0);
    cr_assert_gt(asprintf(&near, "%s/near", folder), 0);
    cr_assert_gt(asprintf(&far, "%s/far", folder), 0);
    write_text("far/a.h", "1");
    write_text("far/sub/b.h", "1");
    write_text("near/c.h", "1");
    const char *const folders[] = {near, far};
    cr_assert(wick_depends_describe(&lines, "out: far/a.h far/sub/b.h near/c.h\n", NULL));
    wick_depends_shadow(&lines, folders, 2);
    cr_expect_eq(count("not "), 2, "%s", wick_text_str(&lines));
    cr_expect(wick_depends_hold(wick_text_str(&lines)));
    write_text("far/c.h", "2");
    cr_expect(wick_depends_hold(wick_text_str(&lines)), "this one would come second");
    write_text("near/a.h", "2");
    cr_expect(!wick_depends_hold(wick_text_str(&lines)));
    cr_expect(!wick_depends_hold_for(wick_text_str(&lines), NULL));
    free(near);
    free(far);
}

Test(depends, a_file_touched_since_the_compiler_began)
{
    write_text("a.h", "1");
    cr_assert(wick_depends_describe(&lines, "out: a.h\n", NULL));
    usleep(50 * 1000);
    write_text("unit.c", "x");
    cr_expect(wick_depends_settled(wick_text_str(&lines), "unit.c"));
    usleep(50 * 1000);
    edit_unseen("a.h", "2");
    cr_expect(!wick_depends_settled(wick_text_str(&lines), "unit.c"),
              "though its time says nothing");
    cr_expect(!wick_depends_settled(wick_text_str(&lines), "nowhere"));
}
