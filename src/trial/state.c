/* state.c -- how the process is set, which a call must leave as it was
 *
 * Rounding, what becomes of denormals, signals, the locale, the folder, the environment, limits,
 * CPUs, children: whoever changes one of these for an operator changes it for everybody who runs
 * afterwards. It is put back as far as that goes, so that the next call does not suffer from the
 * one before.
 */
#define _GNU_SOURCE 1 /* NSIG, syscall */
#include "trial.h"

#include <fenv.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

extern char **environ;

/* Control bits alone: what was computed sets the others. */
enum { DENORMALS = 0x8040, ROUNDING = 0x6000, EXCEPTIONS = 0x1f80 };

static uint32_t take_control(void)
{
#if defined(__x86_64__)
    return _mm_getcsr();
#else
    return 0;
#endif
}

static void put_control(uint32_t control)
{
#if defined(__x86_64__)
    _mm_setcsr(control);
#else
    (void)control;
#endif
}

static uint64_t take_environment(void)
{
    uint64_t hash = 1469598103934665603U;
    for (char **line = environ; line && *line; line++)
        for (const char *c = *line;; c++) {
            hash = (hash ^ (uint8_t)*c) * 1099511628211U;
            if (!*c) break;
        }
    return hash;
}

static unsigned take_umask(void)
{
    const mode_t mask = umask(022);
    umask(mask);
    return mask;
}

static int take_children(void)
{
    siginfo_t info = {0};
    if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0) return 0;
    return info.si_pid ? 2 : 1;
}

void wick_state_take(wick_state *out)
{
    const char *locale = setlocale(LC_ALL, NULL);
    memset(out, 0, sizeof *out);
    out->control = take_control();
    out->rounding = fegetround();
    snprintf(out->locale, sizeof out->locale, "%s", locale ? locale : "");
    if (!getcwd(out->folder, sizeof out->folder)) out->folder[0] = '\0';
    pthread_sigmask(SIG_SETMASK, NULL, &out->blocked);
    for (int s = 1; s < WICK_STATE_SIGNALS; s++)
        sigaction(s, NULL, &out->action[s]);
    out->environment = take_environment();
    out->umask = take_umask();
    syscall(SYS_sched_getaffinity, 0, sizeof out->cpus, out->cpus);
    for (unsigned r = 0; r < WICK_STATE_LIMITS; r++)
        (void)getrlimit(r, &out->limit[r]);
    out->children = take_children();
}

static void say(wick_text *out, const char *what) { wick_text_printf(out, "it leaves %s\n", what); }

/* The first signal whose action, or blocking, is another; 0 for none. */
static int changed_signal(const wick_state *a, const wick_state *b, bool blocking)
{
    for (int s = 1; s < WICK_STATE_SIGNALS; s++) {
        bool differs = blocking ? sigismember(&a->blocked, s) != sigismember(&b->blocked, s)
                                : a->action[s].sa_handler != b->action[s].sa_handler;
        if (differs) return s;
    }
    return 0;
}

static void compare_control(const wick_state *a, const wick_state *b, wick_text *out)
{
    uint32_t changed = a->control ^ b->control;
    if (changed & DENORMALS) say(out, "the CPU with other rules for denormals (FTZ, DAZ)");
    if (changed & ROUNDING || a->rounding != b->rounding) say(out, "another rounding mode");
    if (changed & EXCEPTIONS) say(out, "other floating-point exceptions enabled");
}

void wick_state_compare(const wick_state *before, wick_text *out)
{
    wick_state now;
    char word[64];
    int s;
    wick_state_take(&now);
    compare_control(before, &now, out);
    if (strcmp(before->locale, now.locale) != 0) say(out, "another locale");
    if (strcmp(before->folder, now.folder) != 0) say(out, "another current folder");
    if (before->environment != now.environment) say(out, "another environment");
    if (before->umask != now.umask) say(out, "another umask");
    if (memcmp(before->cpus, now.cpus, sizeof now.cpus) != 0) say(out, "its thread on other CPUs");
    if (memcmp(before->limit, now.limit, sizeof now.limit) != 0)
        say(out, "other limits (setrlimit)");
    if (now.children > before->children) say(out, "a child process behind");
    if ((s = changed_signal(before, &now, true))) {
        snprintf(word, sizeof word, "signal %d blocked, or not any more", s);
        say(out, word);
    }
    if ((s = changed_signal(before, &now, false))) {
        snprintf(word, sizeof word, "another action for signal %d", s);
        say(out, word);
    }
}

void wick_state_restore(const wick_state *to)
{
    fesetround(to->rounding);
    put_control(to->control);
    setlocale(LC_ALL, to->locale);
    if (to->folder[0]) (void)!chdir(to->folder);
    umask(to->umask);
    syscall(SYS_sched_setaffinity, 0, sizeof to->cpus, to->cpus);
    for (unsigned r = 0; r < WICK_STATE_LIMITS; r++)
        (void)setrlimit(r, &to->limit[r]);
    pthread_sigmask(SIG_SETMASK, &to->blocked, NULL);
    for (int s = 1; s < WICK_STATE_SIGNALS; s++)
        sigaction(s, &to->action[s], NULL);
}
