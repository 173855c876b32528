/* process.c -- runs compilers: argv in, exit code and words out, never a shell
 *
 * posix_spawn reports a program that does not exist to the caller, and does not copy the page
 * tables of a host that holds gigabytes of tensors. The child gets the C locale, as its messages
 * are parsed; the rest of the environment is the caller's.
 */
#define _GNU_SOURCE 1 /* pipe2, environ */
#include "core.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* The caller's environment in the C locale. The strings are borrowed, the array is owned; NULL when
 * out of memory. */
static char **make_environment(void)
{
    static char c_locale[] = "LC_ALL=C";
    size_t n = 0, kept = 0;
    while (environ && environ[n]) {
        n++;
    }
    char **environment = wick_malloc((n + 2) * sizeof *environment);
    if (!environment) return NULL;
    for (size_t i = 0; i < n; i++) {
        bool dropped =
            strncmp(environ[i], "LC_ALL=", 7) == 0 || strncmp(environ[i], "LANGUAGE=", 9) == 0;
        if (!dropped) environment[kept++] = environ[i];
    }
    environment[kept++] = c_locale;
    environment[kept] = NULL;
    return environment;
}

/* Python ignores SIGPIPE and hosts may block signals; a compiler expects neither. */
static int set_signals(posix_spawnattr_t *attributes)
{
    sigset_t set;
    sigemptyset(&set);
    int error = posix_spawnattr_setsigmask(attributes, &set);
    sigaddset(&set, SIGPIPE);
    if (!error) error = posix_spawnattr_setsigdefault(attributes, &set);
    if (!error) {
        error =
            posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    }
    return error;
}

/* Output first, input last: in a host that closed its stdin the pipe itself may be descriptor 0. */
static int set_files(posix_spawn_file_actions_t *actions, int output)
{
    int error = posix_spawn_file_actions_adddup2(actions, output, STDOUT_FILENO);
    if (!error) error = posix_spawn_file_actions_adddup2(actions, output, STDERR_FILENO);
    if (!error) {
        error = posix_spawn_file_actions_addopen(actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    }
    return error;
}

/* An errno, or 0. */
static int spawn(const char *const *argv, char *const *environment, int output, pid_t *out)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    int error = posix_spawn_file_actions_init(&actions);
    if (error) return error;
    error = posix_spawnattr_init(&attributes);
    if (error) goto free_actions;
    error = set_files(&actions, output);
    if (!error) error = set_signals(&attributes);
    /* posix_spawn promises not to write through argv; its type is older than const. */
    if (!error) {
        error = posix_spawnp(out, argv[0], &actions, &attributes, (char *const *)argv, environment);
    }
    posix_spawnattr_destroy(&attributes);
free_actions:
    posix_spawn_file_actions_destroy(&actions);
    return error;
}

wick_status wick_process_start(wick_ctx *ctx, const char *const *argv, wick_child *out)
{
    assert(argv && argv[0]);
    int ends[2];
    pid_t pid = -1;
    char **environment = make_environment();
    if (!environment) {
        return wick_fail(ctx, WICK_ENOMEM, "out of memory starting \"%s\"", argv[0]);
    }
    /* Close-on-exec from the start: children of other threads must not keep our pipe open. */
    int error = pipe2(ends, O_CLOEXEC) ? errno : 0;
    if (!error) {
        error = spawn(argv, environment, ends[1], &pid);
        close(ends[1]);
        if (error) close(ends[0]);
    }
    wick_free(environment);
    if (error) {
        return wick_fail(ctx, error == ENOMEM ? WICK_ENOMEM : WICK_EIO, "cannot start \"%s\": %s",
                         argv[0], strerror(error));
    }
    *out = (wick_child){.pid = (int)pid, .output_fd = ends[0]};
    return WICK_OK;
}

/* An errno, or 0. A text that failed to grow is still read to its end: a child must not die of our
 * lack of memory. */
static int read_output(int fd, wick_text *out)
{
    char chunk[16384];
    for (;;) {
        ssize_t n = read(fd, chunk, sizeof chunk);
        if (n == 0) return 0;
        if (n > 0) wick_text_addn(out, chunk, (size_t)n);
        if (n < 0 && errno != EINTR) return errno;
    }
}

wick_status wick_process_finish(wick_ctx *ctx, wick_child *child, wick_process *out)
{
    wick_text output = {0};
    int state = 0;
    pid_t waited;
    int error = read_output(child->output_fd, &output);
    close(child->output_fd);
    do {
        waited = waitpid(child->pid, &state, 0);
    } while (waited < 0 && errno == EINTR);
    if (!error && waited < 0) error = errno;
    *child = (wick_child){.pid = -1, .output_fd = -1};

    wick_status status = WICK_OK;
    if (error) {
        status = wick_fail(ctx, WICK_EIO, "cannot wait for a process: %s", strerror(error));
    } else if (output.failed) {
        status = wick_fail(ctx, WICK_ENOMEM, "out of memory reading a process's output");
    }
    if (status) {
        wick_text_free(&output);
        return status;
    }
    out->exit_code = WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
    out->output = output;
    return WICK_OK;
}

wick_status wick_process_run(wick_ctx *ctx, const char *const *argv, wick_process *out)
{
    wick_child child = {.pid = -1, .output_fd = -1};
    WICK_TRY(wick_process_start(ctx, argv, &child));
    return wick_process_finish(ctx, &child, out);
}

void wick_process_free(wick_process *p)
{
    wick_text_free(&p->output);
    p->exit_code = 0;
}
