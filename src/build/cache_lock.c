/* cache_lock.c -- one builder per entry
 *
 * The lock is flock's: the kernel drops it when its owner ends, however it ends, so a killed
 * builder blocks nobody. The file may be deleted while locked (a cleared cache), so a lock counts
 * only if the file at its path is still the one that was locked.
 */
#define _DEFAULT_SOURCE /* flock */
#include "cache.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static void pause_ms(long ms)
{
    struct timespec t = {.tv_sec = 0, .tv_nsec = ms * 1000000};
    nanosleep(&t, NULL);
}

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static long holder(int fd)
{
    char text[32] = {0};
    return pread(fd, text, sizeof text - 1, 0) > 0 ? strtol(text, NULL, 10) : 0;
}

static void sign(int fd)
{
    char text[32];
    int n = snprintf(text, sizeof text, "%ld\n", (long)getpid());
    /* Only for the message of those who wait: if it cannot be written, they are told less. */
    if (ftruncate(fd, 0) != 0 || pwrite(fd, text, (size_t)n, 0) != n) return;
}

static bool is_at(int fd, const char *path)
{
    struct stat mine, there;
    return fstat(fd, &mine) == 0 && stat(path, &there) == 0 && mine.st_ino == there.st_ino &&
           mine.st_dev == there.st_dev;
}

typedef struct patience {
    int64_t start, next;
    void (*waiting)(void *arg, long pid);
    void *arg;
} patience;

static void wait_a_little(patience *p, int fd)
{
    int64_t waited = now_ms() - p->start;
    if (waited >= p->next && p->waiting) {
        p->waiting(p->arg, holder(fd));
        p->next = waited + 10000;
    }
    pause_ms(waited < 200 ? 2 : 20);
}

/* One attempt at the file that is now at the path: 1 locked, 0 try again, -1 no locks here. */
static int attempt(const char *path, patience *p, int *fd)
{
    *fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (*fd < 0) return errno == ENOENT ? 0 : -1;
    while (flock(*fd, LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK && errno != EINTR) break;
        wait_a_little(p, *fd);
        if (is_at(*fd, path)) continue;
        close(*fd);
        return 0;
    }
    if (is_at(*fd, path)) return 1;
    bool gone = errno != ENOLCK;
    close(*fd);
    return gone ? 0 : -1;
}

void wick_cache_lock_take(const wick_cache *cache, const char *key,
                          void (*waiting)(void *arg, long pid), void *arg, wick_cache_lock *out)
{
    enum { ATTEMPTS = 100 };
    patience p = {.start = now_ms(), .next = 1000, .waiting = waiting, .arg = arg};
    char *path = wick_cache_path(cache, key, ".lock");
    int got = 0;

    out->fd = -1;
    for (int i = 0; path && got == 0 && i < ATTEMPTS; i++)
        got = attempt(path, &p, &out->fd);
    if (got == 1)
        sign(out->fd);
    else
        out->fd = -1;
    wick_free(path);
}

void wick_cache_lock_release(wick_cache_lock *lock)
{
    if (lock->fd >= 0) {
        flock(lock->fd,
              LOCK_UN); /* a child forked meanwhile has the descriptor too, and keeps it */
        close(lock->fd);
    }
    lock->fd = -1;
}
