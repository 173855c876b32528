/* progress.c -- how far a build is, once it takes longer than a second
 *
 * A thread of its own looks at the clock, because the build says something only when a compiler
 * starts: one that works for ten seconds would leave the person in front of a still screen.
 */
#include "cli.h"

#include <pthread.h>
#include <time.h>
#include <unistd.h>

enum { QUIET_MS = 1000, REDRAW_MS = 100, PLAIN_MS = 1000 };

struct cli_progress {
    const char *called;
    bool every_step, terminal;
    pthread_t thread;
    pthread_mutex_t lock; /* guards everything below */
    pthread_cond_t ended;
    bool end;
    bool drawn; /* the terminal's line is not empty */
    int64_t done, total, largest;
    int64_t told; /* `done` of the last plain line */
    char what[256];
    struct timespec start;
};

static struct timespec after(struct timespec t, long ms)
{
    t.tv_sec += ms / 1000;
    t.tv_nsec += ms % 1000 * 1000000;
    if (t.tv_nsec >= 1000000000) {
        t.tv_sec++;
        t.tv_nsec -= 1000000000;
    }
    return t;
}

static double seconds_since(struct timespec start)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - start.tv_sec) + (double)(now.tv_nsec - start.tv_nsec) / 1e9;
}

/* The lock is held. */
static void draw(cli_progress *p)
{
    if (p->terminal) {
        fprintf(stderr, "\r\033[K%s: [%lld/%lld] %.0f s ", p->called, (long long)p->done,
                (long long)p->total, seconds_since(p->start));
        cli_put_name(stderr, p->what);
        fflush(stderr);
        p->drawn = true;
    } else if (p->done != p->told) {
        fprintf(stderr, "%s: [%lld/%lld] ", p->called, (long long)p->done, (long long)p->total);
        cli_put_name(stderr, p->what);
        fputs("\n", stderr);
        p->told = p->done;
    }
}

static void *watch(void *arg)
{
    cli_progress *p = arg;
    struct timespec next = after(p->start, QUIET_MS);
    pthread_mutex_lock(&p->lock);
    while (!p->end) {
        if (pthread_cond_timedwait(&p->ended, &p->lock, &next) == 0) continue;
        draw(p);
        next = after(next, p->terminal ? REDRAW_MS : PLAIN_MS);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

cli_progress *cli_progress_start(const char *called, bool every_step)
{
    cli_progress *p = wick_calloc(1, sizeof *p);
    pthread_condattr_t monotonic;
    if (!p) return NULL;
    p->called = called;
    p->every_step = every_step;
    p->terminal = isatty(STDERR_FILENO) == 1;
    p->told = -1;
    clock_gettime(CLOCK_MONOTONIC, &p->start);
    pthread_mutex_init(&p->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&p->ended, &monotonic);
    pthread_condattr_destroy(&monotonic);
    if (pthread_create(&p->thread, NULL, watch, p) == 0) return p;
    pthread_cond_destroy(&p->ended);
    pthread_mutex_destroy(&p->lock);
    wick_free(p);
    return NULL;
}

void cli_progress_step(void *progress, int64_t done, int64_t total, const char *what)
{
    cli_progress *p = progress;
    if (!p) return;
    pthread_mutex_lock(&p->lock);
    p->done = done;
    p->total = total;
    if (total > p->largest) p->largest = total;
    snprintf(p->what, sizeof p->what, "%s", what);
    if (p->every_step) {
        fprintf(stderr, "%s: [%lld/%lld] ", p->called, (long long)done, (long long)total);
        cli_put_name(stderr, what);
        fputs("\n", stderr);
        p->told = done;
    }
    pthread_mutex_unlock(&p->lock);
}

int64_t cli_progress_stop(cli_progress *p)
{
    int64_t largest;
    if (!p) return 0;
    pthread_mutex_lock(&p->lock);
    p->end = true;
    pthread_cond_signal(&p->ended);
    pthread_mutex_unlock(&p->lock);
    pthread_join(p->thread, NULL);
    if (p->drawn) fputs("\r\033[K", stderr);
    largest = p->largest;
    pthread_cond_destroy(&p->ended);
    pthread_mutex_destroy(&p->lock);
    wick_free(p);
    return largest;
}
