/* test_file.c -- whole files or a message that names the path; nothing left behind */
#define _XOPEN_SOURCE 700 /* symlink, realpath */
#include "walk.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static wick_ctx ctx;
static char folder[] = "/tmp/wick_test_file_XXXXXX";
static char path[PATH_MAX];

static const char *in_folder(const char *name)
{
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static int count_entries(const char *name)
{
    int n = 0;
    DIR *d = opendir(name);
    cr_assert_not_null(d);
    while (readdir(d)) {
        n++;
    }
    closedir(d);
    return n - 2;
}

static void set_up(void)
{
    wick_ctx_init(&ctx, NULL);
    cr_assert_not_null(mkdtemp(folder));
}

static void tear_down(void) { wick_dir_remove(folder); }

TestSuite(file, .init = set_up, .fini = tear_down);

/* The last line of every test: what fails in a suite's .fini is printed but not counted. */
static void assert_nothing_left(void)
{
    wick_ctx_deinit(&ctx);
    wick_dir_remove(folder);
    cr_assert_neq(access(folder, F_OK), 0);
    cr_assert_eq(wick_memory_live(), 0);
}

static void assert_message(const char *verb, const char *name, const char *reason)
{
    char expected[2 * PATH_MAX];
    snprintf(expected, sizeof expected, "cannot %s \"%s\": %s", verb, name, reason);
    cr_assert_str_eq(wick_ctx_message(&ctx), expected);
}

Test(file, what_was_written_is_read_with_a_nul_behind_it)
{
    static const size_t sizes[] = {0, 1, 5, 4095, 4096, 4097, 300000};
    for (int i = 0; i < WICK_COUNT(sizes); i++) {
        char *data = wick_malloc(sizes[i]), *back = NULL;
        size_t bytes = 99;
        for (size_t j = 0; j < sizes[i]; j++) {
            data[j] = (char)(j * 31 + 7);
        }
        cr_assert_eq(wick_file_write(&ctx, in_folder("a"), data, sizes[i]), WICK_OK);
        cr_assert_eq(wick_file_read(&ctx, path, &back, &bytes), WICK_OK);
        cr_assert_eq(bytes, sizes[i]);
        cr_assert_eq(memcmp(back, data, bytes), 0);
        cr_assert_eq(back[bytes], '\0');
        wick_free(data);
        wick_free(back);
    }
    cr_assert_eq(count_entries(folder), 1, "the private file is gone");
    assert_nothing_left();
}

Test(file, files_that_do_not_know_their_size_are_read)
{
    char *text = NULL;
    cr_assert_eq(wick_file_read(&ctx, "/proc/self/maps", &text, NULL), WICK_OK);
    cr_assert_gt(strlen(text), 100);
    cr_assert_eq(text[strlen(text) - 1], '\n');
    wick_free(text);
    assert_nothing_left();
}

Test(file, reading_names_path_and_reason)
{
    char *out = NULL;
    cr_assert_eq(wick_file_read(&ctx, in_folder("missing"), &out, NULL), WICK_EIO);
    assert_message("read", path, "No such file or directory");
    wick_ctx_clear(&ctx);
    cr_assert_eq(wick_file_read(&ctx, folder, &out, NULL), WICK_EIO);
    assert_message("read", folder, "Is a directory");
    cr_assert_null(out);
    assert_nothing_left();
}

Test(file, writing_names_path_and_reason_and_leaves_nothing)
{
    cr_assert_eq(wick_file_write(&ctx, in_folder("no/such"), "x", 1), WICK_EIO);
    assert_message("write", path, "No such file or directory");
    wick_ctx_clear(&ctx);
    cr_assert_eq(mkdir(in_folder("d"), 0700), 0);
    cr_assert_eq(wick_file_write(&ctx, path, "x", 1), WICK_EIO);
    assert_message("write", path, "Is a directory");
    cr_assert_eq(count_entries(folder), 1);
    assert_nothing_left();
}

Test(file, a_relative_path_is_written_beside_itself)
{
    char *back = NULL;
    cr_assert_eq(chdir(folder), 0);
    cr_assert_eq(wick_file_write(&ctx, "plain", "x", 1), WICK_OK);
    cr_assert_eq(wick_file_read(&ctx, in_folder("plain"), &back, NULL), WICK_OK);
    cr_assert_str_eq(back, "x");
    wick_free(back);
    assert_nothing_left();
}

Test(file, the_longest_name_can_be_written)
{
    char name[NAME_MAX + 1];
    memset(name, 'n', NAME_MAX);
    name[NAME_MAX] = '\0';
    cr_assert_eq(wick_file_write(&ctx, in_folder(name), "x", 1), WICK_OK);
    cr_assert(wick_file_exists(path));
    assert_nothing_left();
}

Test(file, the_umask_decides_who_may_read)
{
    struct stat about;
    umask(027);
    cr_assert_eq(wick_file_write(&ctx, in_folder("a"), "x", 1), WICK_OK);
    cr_assert_eq(stat(path, &about), 0);
    cr_assert_eq(about.st_mode & 0777, 0640);
    assert_nothing_left();
}

Test(file, a_name_left_by_a_killed_process_is_stepped_over)
{
    char stale[64];
    for (unsigned i = 0; i < 3; i++) {
        snprintf(stale, sizeof stale, ".wick-%ld-%u", (long)getpid(), i);
        cr_assert_eq(mkdir(in_folder(stale), 0700), 0);
    }
    cr_assert_eq(wick_file_write(&ctx, in_folder("a"), "x", 1), WICK_OK);
    cr_assert_eq(count_entries(folder), 4);
    assert_nothing_left();
}

Test(file, exists)
{
    cr_assert_not(wick_file_exists(in_folder("a")));
    cr_assert_eq(wick_file_write(&ctx, path, "x", 1), WICK_OK);
    cr_assert(wick_file_exists(path));
    cr_assert(wick_file_exists(folder));
    assert_nothing_left();
}

Test(file, temporary_folder_is_private_and_named_after_the_stem)
{
    struct stat about;
    char *made = NULL;
    cr_assert_eq(setenv("TMPDIR", folder, 1), 0);
    cr_assert_eq(wick_dir_temporary(&ctx, "re/lu", &made), WICK_OK);
    cr_assert_eq(strncmp(made, in_folder("re_lu-"), strlen(path)), 0, "%s", made);
    cr_assert_eq(stat(made, &about), 0);
    cr_assert_eq(about.st_mode & 0777, 0700);
    wick_dir_remove(made);
    cr_assert_not(wick_file_exists(made));
    wick_free(made);

    cr_assert_eq(setenv("TMPDIR", "", 1), 0);
    cr_assert_eq(wick_dir_temporary(&ctx, "relu", &made), WICK_OK);
    cr_assert_eq(strncmp(made, "/tmp/relu-", 10), 0);
    wick_dir_remove(made);
    wick_free(made);
    assert_nothing_left();
}

Test(file, temporary_folder_names_what_could_not_be_made)
{
    char *made = NULL;
    cr_assert_eq(setenv("TMPDIR", "/nonexistent", 1), 0);
    cr_assert_eq(wick_dir_temporary(&ctx, "relu", &made), WICK_EIO);
    cr_assert_eq(strncmp(wick_ctx_message(&ctx),
                         "cannot make the temporary folder \"/nonexistent/relu-", 52),
                 0);
    cr_assert_null(made);
    assert_nothing_left();
}

Test(file, remove_stays_inside_and_goes_one_level_deep)
{
    char link[PATH_MAX];
    wick_dir_remove(NULL);
    wick_dir_remove(in_folder("missing"));
    cr_assert_eq(mkdir(in_folder("outside"), 0700), 0);
    cr_assert_eq(wick_file_write(&ctx, in_folder("outside/kept"), "x", 1), WICK_OK);
    cr_assert_eq(mkdir(in_folder("tree"), 0700), 0);
    cr_assert_eq(mkdir(in_folder("tree/sub"), 0700), 0);
    cr_assert_eq(wick_file_write(&ctx, in_folder("tree/sub/a"), "x", 1), WICK_OK);
    cr_assert_eq(wick_file_write(&ctx, in_folder("tree/b"), "x", 1), WICK_OK);
    snprintf(link, sizeof link, "%s/outside", folder);
    cr_assert_eq(symlink(link, in_folder("tree/link")), 0);
    wick_dir_remove(in_folder("tree"));
    cr_assert_not(wick_file_exists(path));
    cr_assert(wick_file_exists(in_folder("outside/kept")));

    cr_assert_eq(symlink(link, in_folder("link")), 0);
    wick_dir_remove(path);
    cr_assert(wick_file_exists(in_folder("outside/kept")), "a link is not a folder");

    cr_assert_eq(mkdir(in_folder("outside/1"), 0700), 0);
    cr_assert_eq(mkdir(in_folder("outside/1/2"), 0700), 0);
    cr_assert_eq(wick_file_write(&ctx, in_folder("outside/1/2/deep"), "x", 1), WICK_OK);
    wick_dir_remove(in_folder("outside"));
    cr_assert(wick_file_exists(in_folder("outside/1/2/deep")));
    cr_assert_eq(unlink(path), 0);
    cr_assert_eq(rmdir(in_folder("outside/1/2")), 0);
    cr_assert_eq(rmdir(in_folder("outside/1")), 0);
    assert_nothing_left();
}

Test(file, absolute_paths_have_no_links)
{
    char *absolute = NULL, real[PATH_MAX];
    cr_assert_not_null(realpath(folder, real));
    cr_assert_eq(chdir(folder), 0);
    cr_assert_eq(symlink(folder, "link"), 0);
    cr_assert_eq(wick_path_absolute(&ctx, "link/../.", &absolute), WICK_OK);
    wick_free(absolute);
    cr_assert_eq(wick_path_absolute(&ctx, "./link/", &absolute), WICK_OK);
    cr_assert_str_eq(absolute, real);
    wick_free(absolute);
    cr_assert_eq(wick_path_absolute(&ctx, "missing", &absolute), WICK_EIO);
    assert_message("find", "missing", "No such file or directory");
    assert_nothing_left();
}

static bool use_every_function(void)
{
    wick_ctx local;
    char *made = NULL, *back = NULL, *absolute = NULL;
    wick_ctx_init(&local, NULL);
    wick_status status = wick_dir_temporary(&local, "walk", &made);
    if (status == WICK_OK) {
        snprintf(path, sizeof path, "%s/a", made);
        status = wick_file_write(&local, path, "words", 5);
    }
    if (status == WICK_OK) status = wick_file_read(&local, path, &back, NULL);
    if (status == WICK_OK) status = wick_path_absolute(&local, path, &absolute);
    cr_assert(status == WICK_OK || status == WICK_ENOMEM);
    if (status) cr_assert_eq(strncmp(wick_ctx_message(&local), "out of memory", 13), 0);
    wick_dir_remove(made);
    wick_free(made);
    wick_free(back);
    wick_free(absolute);
    wick_ctx_deinit(&local);
    return status == WICK_OK;
}

Test(file, every_allocation_may_fail)
{
    cr_assert_eq(setenv("TMPDIR", folder, 1), 0);
    cr_assert_geq(walk_allocation_failures(use_every_function), 4);
    cr_assert_eq(count_entries(folder), 0);
    assert_nothing_left();
}

static bool read_what_grows(void)
{
    wick_ctx local;
    char *text = NULL;
    wick_ctx_init(&local, NULL);
    wick_status status = wick_file_read(&local, "/proc/self/maps", &text, NULL);
    wick_free(text);
    wick_ctx_deinit(&local);
    return status == WICK_OK;
}

Test(file, growing_while_reading_may_fail)
{
    cr_assert_geq(walk_allocation_failures(read_what_grows), 2);
    assert_nothing_left();
}
