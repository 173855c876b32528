/* crash.c -- the last words of a process that an operator brings down
 *
 * The handler runs on a stack of its own, so that it can speak of an exhausted one, calls nothing
 * but write(2), and then lets the signal do what it would have done.
 */
#define _GNU_SOURCE 1 /* registers in ucontext_t */
#include "trial.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <ucontext.h>
#include <unistd.h>

enum { STACK_BYTES = 64 << 10 };

static int report_fd = -1;
static char *stack_high, *stack_low; /* where the thread's stack is, and may grow to */
static _Alignas(16) char handler_stack[STACK_BYTES];

static void say(const char *s)
{
    size_t n = strlen(s);
    ssize_t written = write(report_fd, s, n);
    (void)written; /* nobody is left to be told */
}

static const char *word_of(int signal)
{
    switch (signal) {
    case SIGSEGV: return "segmentation fault";
    case SIGBUS: return "bus error";
    case SIGFPE: return "integer division by zero, or overflow in one";
    case SIGILL: return "illegal instruction";
    case SIGABRT: return "the operator aborted";
    default: return "signal";
    }
}

static const char *access_of(const ucontext_t *context)
{
#if defined(__x86_64__)
    enum { WRITE_BIT = 2 };
    return context->uc_mcontext.gregs[REG_ERR] & WRITE_BIT ? "wrote" : "read";
#else
    (void)context;
    return "touched";
#endif
}

/* Between where the stack began and as far as it may grow, nothing else lies; and memory of a stack
 * that may still grow does not fault. */
static bool is_stack(const void *address, const ucontext_t *context)
{
    enum { NEAR = 1 << 20 };
    const char *at = address;
    if (!stack_low || at >= stack_high) return false;
#if defined(__x86_64__)
    const char *top = (const char *)context->uc_mcontext.gregs[REG_RSP];
    if (top < stack_low && at >= top - NEAR) return true; /* a large step at once */
#else
    (void)context;
#endif
    return at >= stack_low - NEAR;
}

static void handle(int signal, siginfo_t *info, void *context)
{
    char room[160];
    say("{\"crash\": \"");
    say(word_of(signal));
    if (signal == SIGSEGV || signal == SIGBUS) {
        const char *where = wick_zone_describe(info->si_addr, room, sizeof room);
        if (where) {
            say(": it ");
            say(access_of(context));
            say(" ");
            say(where);
        } else if (is_stack(info->si_addr, context)) {
            say(": the stack is exhausted");
        } else if (info->si_code == SI_KERNEL) { /* which does not say what it was, either */
            say(": it used a wild address, as junk makes one");
        } else if ((uintptr_t)info->si_addr < 4096) {
            say(": it ");
            say(access_of(context));
            say(" through a NULL pointer");
        }
    }
    say("\"}\n");
    /* SA_RESETHAND has put the default back: returning repeats the fault, raising repeats an abort.
     */
    if (signal == SIGABRT) raise(signal);
}

wick_status wick_crash_report(wick_ctx *ctx, int fd)
{
    static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    stack_t stack = {.ss_sp = handler_stack, .ss_size = sizeof handler_stack};
    struct sigaction action = {.sa_sigaction = handle,
                               .sa_flags = SA_SIGINFO | SA_ONSTACK | (int)SA_RESETHAND};
    struct rlimit limit;
    char here;

    report_fd = fd;
    stack_high = &here;
    stack_low = NULL;
    if (getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        stack_low = &here - limit.rlim_cur;
    sigemptyset(&action.sa_mask);
    if (sigaltstack(&stack, NULL) != 0)
        return wick_fail(ctx, WICK_EIO, "sigaltstack: %s", strerror(errno));
    for (int i = 0; i < WICK_COUNT(signals); i++)
        if (sigaction(signals[i], &action, NULL) != 0)
            return wick_fail(ctx, WICK_EIO, "sigaction: %s", strerror(errno));
    return WICK_OK;
}
