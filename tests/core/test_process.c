/* test_process.c -- exit codes, signals, words and the environment of a child; no descriptor left
 * open */
#include "walk.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static wick_ctx ctx;

static void set_up(void) { wick_ctx_init(&ctx, NULL); }

TestSuite(process, .init = set_up, .timeout = 60);

/* The last line of every test: what fails in a suite's .fini is printed but not counted. */
static void assert_nothing_left(void)
{
    wick_ctx_deinit(&ctx);
    cr_assert_eq(wick_memory_live(), 0);
}

static int count_descriptors(void)
{
    int n = 0;
    DIR *d = opendir("/proc/self/fd");
    cr_assert_not_null(d);
    while (readdir(d)) {
        n++;
    }
    closedir(d);
    return n;
}

static void shell(const char *script, wick_process *out)
{
    const char *argv[] = {"sh", "-c", script, NULL};
    cr_assert_eq(wick_process_run(&ctx, argv, out), WICK_OK, "%s", wick_ctx_message(&ctx));
}

Test(process, both_outputs_arrive_in_order_with_the_exit_code)
{
    wick_process p = {0};
    shell("echo out; echo err >&2; echo again; exit 7", &p);
    cr_assert_eq(p.exit_code, 7);
    cr_assert_str_eq(wick_text_str(&p.output), "out\nerr\nagain\n");
    wick_process_free(&p);
    shell("exit 0", &p);
    cr_assert_eq(p.exit_code, 0);
    cr_assert_str_eq(wick_text_str(&p.output), "");
    wick_process_free(&p);
    assert_nothing_left();
}

Test(process, a_signal_is_128_plus_its_number)
{
    wick_process p = {0};
    shell("kill -KILL $$", &p);
    cr_assert_eq(p.exit_code, 128 + SIGKILL);
    wick_process_free(&p);
    assert_nothing_left();
}

Test(process, output_larger_than_the_pipe_is_whole)
{
    wick_process p = {0};
    shell("i=0; while [ $i -lt 20000 ]; do echo 0123456789abcdef$i; i=$((i+1)); done", &p);
    cr_assert_eq(p.exit_code, 0);
    cr_assert_eq(p.output.size, 20000 * 17 + 10 + 90 * 2 + 900 * 3 + 9000 * 4 + 10000 * 5);
    cr_assert_str_eq(p.output.data + p.output.size - 22, "0123456789abcdef19999\n");
    wick_process_free(&p);
    assert_nothing_left();
}

Test(process, what_cannot_be_started_is_an_error_that_names_it)
{
    static const char *const missing[] = {"gcc-99", "-c", NULL};
    static const char *const folder[] = {"/tmp", NULL};
    int before = count_descriptors();
    wick_child child = {.pid = 42};
    wick_process p = {.exit_code = 42};
    cr_assert_eq(wick_process_start(&ctx, missing, &child), WICK_EIO);
    cr_assert_str_eq(wick_ctx_message(&ctx), "cannot start \"gcc-99\": No such file or directory");
    cr_assert_eq(child.pid, 42, "written only on success");
    wick_ctx_clear(&ctx);
    cr_assert_eq(wick_process_run(&ctx, folder, &p), WICK_EIO);
    cr_assert_str_eq(wick_ctx_message(&ctx), "cannot start \"/tmp\": Permission denied");
    cr_assert_eq(p.exit_code, 42);
    cr_assert_eq(count_descriptors(), before);
    assert_nothing_left();
}

Test(process, arguments_are_not_interpreted)
{
    static const char *const argv[] = {"printf", "%s|", "a b", "$HOME", "*", "", NULL};
    wick_process p = {0};
    cr_assert_eq(wick_process_run(&ctx, argv, &p), WICK_OK);
    cr_assert_str_eq(wick_text_str(&p.output), "a b|$HOME|*||");
    wick_process_free(&p);
    assert_nothing_left();
}

Test(process, the_child_speaks_the_c_locale_and_keeps_the_rest)
{
    wick_process p = {0};
    setenv("LC_ALL", "de_DE.UTF-8", 1);
    setenv("LANGUAGE", "de", 1);
    setenv("WICK_TEST", "kept", 1);
    shell("echo $LC_ALL,${LANGUAGE-unset},$WICK_TEST; env | grep -c ^LC_ALL=", &p);
    cr_assert_str_eq(wick_text_str(&p.output), "C,unset,kept\n1\n");
    cr_assert_str_eq(getenv("LC_ALL"), "de_DE.UTF-8");
    wick_process_free(&p);
    assert_nothing_left();
}

Test(process, input_is_at_its_end)
{
    static const char *const argv[] = {"cat", NULL};
    wick_process p = {0};
    cr_assert_eq(wick_process_run(&ctx, argv, &p), WICK_OK);
    cr_assert_eq(p.exit_code, 0);
    cr_assert_str_eq(wick_text_str(&p.output), "");
    wick_process_free(&p);
    assert_nothing_left();
}

Test(process, several_run_at_once)
{
    static const char *const slow[] = {"sleep", "30", NULL};
    static const char *const quick[] = {"sh", "-c", "echo quick", NULL};
    int before = count_descriptors();
    wick_child first, second;
    wick_process p = {0}, q = {0};
    cr_assert_eq(wick_process_start(&ctx, quick, &first), WICK_OK);
    cr_assert_eq(wick_process_start(&ctx, slow, &second), WICK_OK);
    cr_assert_eq(wick_process_finish(&ctx, &first, &p), WICK_OK);
    cr_assert_str_eq(wick_text_str(&p.output), "quick\n");
    cr_assert_eq(first.pid, -1);
    kill(second.pid, SIGTERM);
    cr_assert_eq(wick_process_finish(&ctx, &second, &q), WICK_OK);
    cr_assert_eq(q.exit_code, 128 + SIGTERM);
    wick_process_free(&p);
    wick_process_free(&q);
    cr_assert_eq(count_descriptors(), before);
    assert_nothing_left();
}

Test(process, a_child_does_not_inherit_anothers_pipe)
{
    static const char *const slow[] = {"sleep", "30", NULL};
    char script[96];
    wick_child first;
    wick_process p = {0}, q = {0};
    cr_assert_eq(wick_process_start(&ctx, slow, &first), WICK_OK);
    snprintf(script, sizeof script, "[ -e /proc/$$/fd/%d ] && echo inherited", first.output_fd);
    shell(script, &p);
    kill(first.pid, SIGTERM);
    cr_assert_eq(wick_process_finish(&ctx, &first, &q), WICK_OK);
    cr_assert_str_eq(wick_text_str(&p.output), "");
    wick_process_free(&p);
    wick_process_free(&q);
    assert_nothing_left();
}

Test(process, a_host_without_standard_descriptors_is_fine)
{
    wick_process p = {0};
    int kept[3];
    for (int fd = 0; fd < 3; fd++) {
        kept[fd] = dup(fd);
    }
    for (int fd = 0; fd < 3; fd++) {
        close(fd);
    }
    const char *argv[] = {"sh", "-c", "cat; echo out; echo err >&2", NULL};
    wick_status status = wick_process_run(&ctx, argv, &p);
    for (int fd = 0; fd < 3; fd++) {
        if (kept[fd] >= 0) dup2(kept[fd], fd);
    }
    cr_assert_eq(status, WICK_OK);
    cr_assert_eq(p.exit_code, 0);
    cr_assert_str_eq(wick_text_str(&p.output), "out\nerr\n");
    wick_process_free(&p);
    assert_nothing_left();
}

Test(process, the_host_may_ignore_and_block_signals)
{
    wick_process p = {0};
    sigset_t set;
    signal(SIGPIPE, SIG_IGN);
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_BLOCK, &set, NULL);
    shell("kill -PIPE $$; echo alive", &p);
    cr_assert_eq(p.exit_code, 128 + SIGPIPE);
    wick_process_free(&p);
    shell("kill -TERM $$; echo alive", &p);
    cr_assert_eq(p.exit_code, 128 + SIGTERM);
    wick_process_free(&p);
    assert_nothing_left();
}

Test(process, a_lost_exit_code_is_an_error)
{
    static const char *const argv[] = {"true", NULL};
    wick_process p = {.exit_code = 42};
    signal(SIGCHLD, SIG_IGN);
    cr_assert_eq(wick_process_run(&ctx, argv, &p), WICK_EIO);
    cr_assert_str_eq(wick_ctx_message(&ctx), "cannot wait for a process: No child processes");
    cr_assert_eq(p.exit_code, 42);
    assert_nothing_left();
}

static bool run_with_output(void)
{
    static const char *const argv[] = {
        "sh", "-c", "i=0; while [ $i -lt 3000 ]; do echo 0123456789abcdef; i=$((i+1)); done", NULL};
    int before = count_descriptors();
    wick_ctx local;
    wick_process p = {0};
    wick_ctx_init(&local, NULL);
    wick_status status = wick_process_run(&local, argv, &p);
    cr_assert(status == WICK_OK || status == WICK_ENOMEM);
    if (status == WICK_OK) cr_assert_eq(p.output.size, 3000 * 17);
    wick_process_free(&p);
    wick_ctx_deinit(&local);
    cr_assert_eq(count_descriptors(), before);
    return status == WICK_OK;
}

Test(process, every_allocation_may_fail)
{
    cr_assert_geq(walk_allocation_failures(run_with_output), 2);
    assert_nothing_left();
}
