/* test_cache.c -- entries that prove themselves, locks that die with their owner, a bounded folder
 */
#define _GNU_SOURCE 1
#include "cache.h"
#include "support.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static wick_ctx ctx;
static char *folder;
static wick_cache cache;

static void setup(void)
{
    unsetenv("CC");
    unsetenv("CFLAGS");
    unsetenv("WICK_CACHE_SIZE");
    wick_ctx_init(&ctx, NULL);
    folder = enter_folder();
    setenv("WICK_CACHE_DIR", "cache", 1);
    cr_assert_eq(wick_cache_open(&ctx, NULL, &cache), WICK_OK, "%s", wick_ctx_message(&ctx));
    cr_assert_not_null(cache.folder);
}

static void teardown(void)
{
    wick_cache_close(&cache);
    leave_folder(folder);
    wick_ctx_deinit(&ctx);
    cr_expect_eq(wick_memory_live(), 0);
}

TestSuite(cache, .init = setup, .fini = teardown, .timeout = 60);

static const char key[] = "0123456789abcdef0123456789abcdef";

static void put(const char *k, const char *data, size_t bytes)
{
    cr_assert_eq(wick_cache_write(&ctx, &cache, k, ".so", data, bytes), WICK_OK, "%s",
                 wick_ctx_message(&ctx));
}

/* Whether the entry is there, whole and with these bytes. */
static bool has(const char *k, const char *data, size_t bytes)
{
    char *read = NULL;
    size_t n = 0;
    cr_assert_eq(wick_cache_read(&ctx, &cache, k, ".so", &read, &n), WICK_OK);
    bool same = read && n == bytes && memcmp(read, data, n) == 0 && read[n] == '\0';
    if (read) cr_expect(same, "an entry with other bytes");
    wick_free(read);
    return same;
}

/* ---- entries ---- */

Test(cache, what_is_written_is_read)
{
    static const char bytes[] = "with\0a NUL";
    put(key, bytes, sizeof bytes);
    cr_expect(has(key, bytes, sizeof bytes));
    put(key, "", 0);
    cr_expect(has(key, "", 0));
    cr_expect(!has("00000000000000000000000000000000", "", 0));
}

Test(cache, every_bit_and_every_length_counts)
{
    enum { BYTES = 40, SEAL = 32 };
    char data[BYTES];
    for (int i = 0; i < BYTES; i++)
        data[i] = (char)(i * 7);
    put(key, data, BYTES);
    char *path = wick_cache_path(&cache, key, ".so"), *whole = NULL;
    size_t n = 0;
    cr_assert_eq(wick_file_read(&ctx, path, &whole, &n), WICK_OK);
    cr_assert_eq(n, BYTES + SEAL);
    for (size_t bit = 0; bit < 8 * n; bit++) {
        whole[bit / 8] = (char)(whole[bit / 8] ^ 1 << bit % 8);
        cr_assert_eq(wick_file_write(&ctx, path, whole, n), WICK_OK);
        whole[bit / 8] = (char)(whole[bit / 8] ^ 1 << bit % 8);
        chmod(path, 0600);
        cr_expect(!has(key, data, BYTES), "bit %zu", bit);
        cr_expect(!wick_file_exists(path), "a broken entry is removed");
    }
    for (size_t length = 0; length < n; length++) {
        cr_assert_eq(wick_file_write(&ctx, path, whole, length), WICK_OK);
        chmod(path, 0600);
        cr_expect(!has(key, data, BYTES), "length %zu", length);
    }
    cr_assert_eq(wick_file_write(&ctx, path, whole, n), WICK_OK);
    chmod(path, 0600);
    cr_expect(has(key, data, BYTES), "and whole again");
    wick_free(whole);
    wick_free(path);
}

Test(cache, an_entry_that_others_may_write_counts_as_absent)
{
    umask(0);
    put(key, "bytes", 5);
    char *path = wick_cache_path(&cache, key, ".so");
    struct stat st;
    cr_assert_eq(stat(path, &st), 0);
    cr_expect_eq(st.st_mode & 0777, 0600, "whatever the umask");
    cr_expect(has(key, "bytes", 5));
    chmod(path, 0620);
    cr_expect(!has(key, "bytes", 5));
    chmod(path, 0600);
    cr_assert_eq(rename(path, "elsewhere"), 0);
    cr_assert_eq(symlink("../../elsewhere", path), 0);
    cr_expect(!has(key, "bytes", 5), "nor does a link");
    wick_free(path);
}

Test(cache, looking_is_not_using)
{
    struct timespec old[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    struct stat st;
    char *data = NULL, *path = wick_cache_path(&cache, key, ".so");
    size_t n;
    put(key, "bytes", 5);
    cr_assert_eq(utimensat(AT_FDCWD, path, old, 0), 0);
    cr_assert_eq(wick_cache_peek(&ctx, &cache, key, ".so", &data, &n), WICK_OK);
    cr_expect(stat(path, &st) == 0 && st.st_mtim.tv_sec == 1000);
    cr_expect(has(key, "bytes", 5));
    cr_expect(stat(path, &st) == 0 && st.st_mtim.tv_sec > 1000);
    wick_free(data);
    wick_free(path);
}

/* ---- the folder ---- */

Test(cache, a_folder_that_is_not_ours_alone_is_refused)
{
    static const mode_t modes[] = {0777, 0770, 0720, 0702};
    for (int i = 0; i < WICK_COUNT(modes); i++) {
        for (int inner = 0; inner < 2; inner++) {
            wick_cache other = {0};
            const char *path = inner ? "cache/v1" : "cache";
            cr_assert_eq(chmod(path, modes[i]), 0);
            cr_expect_eq(wick_cache_open(&ctx, NULL, &other), WICK_EIO);
            cr_expect(strstr(wick_ctx_message(&ctx), "can be written by other users"));
            cr_expect(strstr(wick_ctx_message(&ctx), "WICK_CACHE_DIR"));
            cr_assert_eq(chmod(path, 0755), 0);
            wick_cache_close(&other);
        }
    }
}

Test(cache, a_folder_that_cannot_be_is_done_without)
{
    wick_cache none = {0};
    char *data = NULL;
    size_t n = 0;
    int64_t count = -1;
    wick_cache_entry *list = NULL;
    wick_cache_lock lock;
    write_text("file", "no folder");
    cr_assert_eq(wick_cache_open(&ctx, "file/cache", &none), WICK_OK);
    cr_expect_null(none.folder);
    cr_expect(none.why && strstr(none.why, "file/cache"), "%s", none.why);
    cr_expect_eq(wick_cache_read(&ctx, &none, key, ".so", &data, &n), WICK_OK);
    cr_expect_null(data);
    cr_expect_neq(wick_cache_write(&ctx, &none, key, ".so", "x", 1), WICK_OK);
    wick_cache_lock_take(&none, key, NULL, NULL, &lock);
    cr_expect_eq(lock.fd, -1);
    wick_cache_lock_release(&lock);
    cr_expect_eq(wick_cache_list(&ctx, &none, &list, &count), WICK_OK);
    cr_expect_eq(count, 0);
    wick_cache_sweep(&none);
    wick_free(list);
    wick_cache_close(&none);
}

/* ---- size ---- */

Test(cache, sizes_in_words)
{
    static const struct {
        const char *text;
        int64_t bytes;
    } sizes[] = {{"0", 0},
                 {"65536", 65536},
                 {"2K", 2048},
                 {"200M", (int64_t)200 << 20},
                 {"1G", (int64_t)1 << 30},
                 {"3T", (int64_t)3 << 40},
                 {"", -1},
                 {"-1", -1},
                 {"1X", -1},
                 {"1 G", -1},
                 {"G", -1},
                 {"1GB", -1},
                 {"9223372036854775807", INT64_MAX},
                 {"9223372036854775808", -1},
                 {"9223372036854775807K", -1}};
    for (int i = 0; i < WICK_COUNT(sizes); i++)
        cr_expect_eq(wick_cache_parse_size(sizes[i].text), sizes[i].bytes, "%s", sizes[i].text);
}

static void set_age(const char *name, long seconds)
{
    struct timespec t[2] = {{.tv_sec = time(NULL) - seconds}, {.tv_sec = time(NULL) - seconds}};
    wick_text path = {0};
    wick_text_printf(&path, "cache/v1/%s", name);
    cr_assert_eq(utimensat(AT_FDCWD, path.data, t, 0), 0, "%s", path.data);
    wick_text_free(&path);
}

Test(cache, a_sweep_removes_what_was_used_least_recently)
{
    static const char *const keys[] = {"aa", "bb", "cc", "dd"};
    char data[968] = {0};
    wick_cache_entry *list = NULL;
    int64_t n = 0;
    for (int i = 0; i < 4; i++) {
        wick_text name = {0};
        put(keys[i], data, sizeof data); /* 1000 bytes with the seal */
        wick_text_printf(&name, "%s.so", keys[i]);
        set_age(name.data, i == 1 ? 10 : 1000 - 100 * i);
        wick_text_free(&name);
    }
    setenv("WICK_CACHE_SIZE", "2K", 1);
    wick_cache_sweep(&cache);
    cr_assert_eq(wick_cache_list(&ctx, &cache, &list, &n), WICK_OK);
    cr_assert_eq(n, 2);
    cr_expect_str_eq(list[0].name, "dd.so");
    cr_expect_str_eq(list[1].name, "bb.so");
    cr_expect_eq(list[0].bytes, 1000);
    wick_free(list);
    setenv("WICK_CACHE_SIZE", "nonsense", 1);
    wick_cache_sweep(&cache);
    cr_expect(has("dd", data, sizeof data), "a size that is none is as if it were not given");
}

Test(cache, a_sweep_knows_forgotten_temporaries_from_young_ones)
{
    write_text("cache/v1/.wick-1-0", "old");
    write_text("cache/v1/.wick-2-0", "young");
    write_text("cache/v1/.wick-3-0", "from a clock that was set back since");
    set_age(".wick-1-0", 4000);
    set_age(".wick-3-0", -4000);
    setenv("WICK_CACHE_SIZE", "0", 1);
    wick_cache_sweep(&cache);
    cr_expect(!wick_file_exists("cache/v1/.wick-1-0"));
    cr_expect(wick_file_exists("cache/v1/.wick-2-0"), "somebody is writing it");
    cr_expect(wick_file_exists("cache/v1/.wick-3-0"));
}

Test(cache, verify_and_clear)
{
    int64_t checked = 0, broken = 0, removed = 0;
    put("aa", "one", 3);
    put("bb", "two", 3);
    write_text("cache/v1/cc.so", "not sealed");
    write_text("cache/v1/dd.log", "not sealed, and need not be");
    cr_assert_eq(mkdir("cache/v1/folder", 0700), 0);
    chmod("cache/v1/cc.so", 0600);
    cr_assert_eq(wick_cache_verify(&ctx, &cache, &checked, &broken), WICK_OK);
    cr_expect(checked == 3 && broken == 1);
    cr_expect(!wick_file_exists("cache/v1/cc.so"));
    cr_assert_eq(wick_cache_clear(&ctx, &cache, &removed), WICK_OK);
    cr_expect_eq(removed, 3);
    cr_expect(!has("aa", "one", 3) && !has("bb", "two", 3));
}

/* ---- locks ---- */

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* A process that has the lock (it says so through a pipe) and keeps it for a while. */
static pid_t hold(double seconds)
{
    int ends[2];
    char byte;
    cr_assert_eq(pipe(ends), 0);
    pid_t pid = fork();
    if (pid == 0) {
        wick_cache_lock lock;
        wick_cache_lock_take(&cache, key, NULL, NULL, &lock);
        if (write(ends[1], "x", 1) != 1) _exit(1);
        usleep((useconds_t)(seconds * 1e6));
        wick_cache_lock_release(&lock);
        _exit(0);
    }
    close(ends[1]);
    cr_assert_eq(read(ends[0], &byte, 1), 1);
    close(ends[0]);
    return pid;
}

static int told;
static long told_pid;

static void tell(void *arg, long pid)
{
    (void)arg;
    told++;
    told_pid = pid;
}

Test(cache, a_lock_waits_for_its_holder)
{
    wick_cache_lock lock;
    pid_t pid = hold(0.3);
    double began = now();
    wick_cache_lock_take(&cache, key, tell, NULL, &lock);
    cr_expect(now() - began > 0.2 && lock.fd >= 0);
    cr_expect_eq(told, 0, "nothing is said in the first second");
    wick_cache_lock_release(&lock);
    cr_expect_eq(lock.fd, -1);
    waitpid(pid, NULL, 0);
}

Test(cache, whoever_waits_longer_is_told_for_whom)
{
    wick_cache_lock lock;
    pid_t pid = hold(1.4);
    wick_cache_lock_take(&cache, key, tell, NULL, &lock);
    cr_expect(told == 1 && told_pid == pid, "told %d times of %ld", told, told_pid);
    wick_cache_lock_release(&lock);
    waitpid(pid, NULL, 0);
}

Test(cache, a_lock_dies_with_its_holder)
{
    wick_cache_lock lock;
    pid_t pid = hold(50);
    kill(pid, SIGKILL);
    double began = now();
    wick_cache_lock_take(&cache, key, NULL, NULL, &lock);
    cr_expect(now() - began < 5 && lock.fd >= 0);
    cr_expect(wick_file_exists("cache/v1/0123456789abcdef0123456789abcdef.lock"),
              "the file is there all the time and means nothing");
    wick_cache_lock_release(&lock);
    waitpid(pid, NULL, 0);
}

Test(cache, a_child_forked_under_a_lock_does_not_keep_it)
{
    wick_cache_lock lock, again;
    wick_cache_lock_take(&cache, key, NULL, NULL, &lock);
    pid_t pid = fork();
    if (pid == 0) {
        usleep(50 * 1000 * 1000);
        _exit(0);
    }
    wick_cache_lock_release(&lock);
    double began = now();
    wick_cache_lock_take(&cache, key, NULL, NULL, &again);
    cr_expect(now() - began < 5 && again.fd >= 0);
    wick_cache_lock_release(&again);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

Test(cache, locks_of_two_keys_and_of_a_deleted_file_are_apart)
{
    wick_cache_lock one, other, new_file;
    wick_cache_lock_take(&cache, key, NULL, NULL, &one);
    wick_cache_lock_take(&cache, "another", NULL, NULL, &other);
    cr_expect(one.fd >= 0 && other.fd >= 0);
    cr_assert_eq(unlink("cache/v1/0123456789abcdef0123456789abcdef.lock"), 0);
    wick_cache_lock_take(&cache, key, NULL, NULL, &new_file);
    cr_expect(new_file.fd >= 0, "a cleared cache holds nobody up");
    wick_cache_lock_release(&one);
    wick_cache_lock_release(&other);
    wick_cache_lock_release(&new_file);
}

/* ---- all together ---- */

enum { RANKS = 32 };

static const char operator_text[] = HEAD BODY;

/* A compiler that writes down each run. */
static void write_compiler(const char *before)
{
    wick_text text = {0};
    wick_text_printf(&text, "#!/bin/sh\necho run >> '%s/log'\n%s\nexec cc \"$@\"\n", folder,
                     before);
    write_text("counting-cc", text.data);
    chmod("counting-cc", 0700);
    wick_text_free(&text);
}

static int count_runs(void)
{
    char *log = NULL;
    size_t n = 0;
    if (wick_file_exists("log")) cr_assert_eq(wick_file_read(&ctx, "log", &log, &n), WICK_OK);
    wick_free(log);
    return (int)(n / strlen("run\n"));
}

/* Builds f for f32 alone, one compiler run, or finds it; the bytes of the module without its seal.
 */
static char *build_f(bool *hit, size_t *bytes)
{
    static const wick_dtype types[WICK_MAX_VARIABLES] = {WICK_F32};
    wick_build_options options = plain_options("./counting-cc");
    wick_source source = {"f.c", operator_text};
    wick_text warnings = {0};
    wick_built built = {0};
    wick_scan scan;
    char *data = NULL;
    cr_assert_eq(wick_scan_source(&ctx, &source, &scan), WICK_OK, "%s", wick_ctx_message(&ctx));
    wick_status s = wick_build_cached(&ctx, &scan, -1, types, &options, NULL, &built, &warnings);
    cr_assert_eq(s, WICK_OK, "%s", wick_ctx_message(&ctx));
    cr_expect_eq(warnings.size, 0, "%s", wick_text_str(&warnings));
    cr_assert_eq(wick_file_read(&ctx, built.path, &data, bytes), WICK_OK);
    if (built.hit) *bytes -= 32;
    *hit = built.hit;
    wick_built_free(&built);
    wick_text_free(&warnings);
    wick_scan_free(&scan);
    return data;
}

Test(cache, many_processes_build_once)
{
    pid_t pids[RANKS];
    int ends[2], misses = 0, distinct = 0;
    struct {
        uint64_t hash;
        bool hit;
    } said, first = {0};
    write_compiler("");
    cr_assert_eq(pipe(ends), 0);
    for (int i = 0; i < RANKS; i++) {
        pids[i] = fork();
        if (pids[i]) continue;
        bool hit = false;
        size_t n = 0;
        char *data = build_f(&hit, &n);
        memset(&said, 0, sizeof said);
        said.hash = wick_hash_bytes(data, n).low;
        said.hit = hit;
        _exit(write(ends[1], &said, sizeof said) == (ssize_t)sizeof said ? 0 : 1);
    }
    for (int i = 0; i < RANKS; i++) {
        int status = -1;
        waitpid(pids[i], &status, 0);
        cr_expect_eq(status, 0);
        cr_assert_eq(read(ends[0], &said, sizeof said), (ssize_t)sizeof said);
        if (i == 0) first = said;
        misses += !said.hit;
        distinct += said.hash != first.hash;
    }
    cr_expect_eq(count_runs(), 1);
    cr_expect_eq(misses, 1);
    cr_expect_eq(distinct, 0, "all have the same bytes");
    close(ends[0]);
    close(ends[1]);
}

Test(cache, a_compiler_that_is_replaced_builds_anew)
{
    bool hit = true;
    size_t n = 0;
    write_compiler("");
    wick_free(build_f(&hit, &n));
    cr_expect(!hit);
    wick_free(build_f(&hit, &n));
    cr_expect(hit);
    write_compiler("# another version");
    wick_free(build_f(&hit, &n));
    cr_expect(!hit && count_runs() == 2);
}

Test(cache, a_cache_cleared_during_a_build_loses_nothing)
{
    bool hit = true;
    size_t n = 0;
    write_compiler("rm -rf cache");
    cr_assert_eq(chdir(folder), 0);
    wick_build_options options = plain_options("./counting-cc");
    wick_source source = {"f.c", operator_text};
    static const wick_dtype types[WICK_MAX_VARIABLES] = {WICK_F32};
    wick_text warnings = {0};
    wick_built built = {0};
    wick_scan scan;
    cr_assert_eq(wick_scan_source(&ctx, &source, &scan), WICK_OK);
    cr_assert_eq(wick_build_cached(&ctx, &scan, -1, types, &options, NULL, &built, &warnings),
                 WICK_OK, "%s", wick_ctx_message(&ctx));
    cr_expect(built.path && wick_file_exists(built.path) && !built.hit);
    wick_built_free(&built);
    wick_text_free(&warnings);
    wick_scan_free(&scan);
    write_compiler("");
    wick_free(build_f(&hit, &n));
    wick_free(build_f(&hit, &n));
    cr_expect(hit, "and works again");
}

Test(cache, sweep_removes_folders_of_builders_that_were_killed)
{
    char tmp[] = "/tmp/wick_test_XXXXXX", *left = NULL, path[256];
    struct timespec old[2] = {{1000, 0}, {1000, 0}};
    wick_ctx own;
    wick_cache store = {0};
    cr_assert_not_null(mkdtemp(tmp));
    setenv("TMPDIR", tmp, 1);
    setenv("WICK_CACHE_DIR", tmp, 1);
    wick_ctx_init(&own, NULL);
    cr_assert_eq(wick_cache_open(&own, NULL, &store), WICK_OK);
    cr_assert_eq(wick_dir_temporary(&own, "wick", &left), WICK_OK);
    snprintf(path, sizeof path, "%s/unit0.c", left);
    cr_assert_eq(wick_file_write(&own, path, "x", 1), WICK_OK);
    wick_cache_sweep(&store);
    cr_assert(wick_file_exists(left), "a young one may be at work");
    cr_assert_eq(utimensat(AT_FDCWD, left, old, 0), 0);
    wick_cache_sweep(&store);
    cr_assert_not(wick_file_exists(left));
    wick_free(left);
    wick_cache_close(&store);
    wick_ctx_deinit(&own);
    wick_dir_remove(tmp);
}
