/* jobs.c -- several compilers at once
 *
 * A child whose pipe has something to read, or has been closed, is finished next: one that compiles
 * for long does not keep the others' slots from being filled again.
 */
#include "builder.h"

#include <poll.h>
#include <unistd.h>

enum { MAX_SLOTS = 256 };

static int64_t slots(void)
{
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n < 1 ? 1 : n > MAX_SLOTS ? MAX_SLOTS : n;
}

static bool is_running(const wick_job *job) { return job->started && !job->finished; }

/* The first running job that has ended or has something to say; one of `n` is running. */
static int64_t wait_for_any(const wick_job *jobs, int64_t n)
{
    struct pollfd waiting[MAX_SLOTS];
    int64_t index[MAX_SLOTS] = {0};
    nfds_t count = 0;
    for (int64_t i = 0; i < n; i++) {
        if (!is_running(&jobs[i])) continue;
        waiting[count] = (struct pollfd){jobs[i].child.output_fd, POLLIN, 0};
        index[count++] = i;
    }
    /* Interrupted: the first one is as good as any. */
    if (poll(waiting, count, -1) <= 0) return index[0];
    for (nfds_t i = 0; i < count; i++) {
        if (waiting[i].revents) return index[i];
    }
    return index[0];
}

static void report(const wick_build_options *options, int64_t done, int64_t n, const char *what)
{
    if (options && options->progress) options->progress(options->progress_arg, done, n, what);
}

wick_status wick_jobs_run(wick_ctx *ctx, wick_job *jobs, int64_t n,
                          const wick_build_options *options, int64_t *failed)
{
    int64_t limit = slots(), started = 0, done = 0;
    wick_status status = WICK_OK;
    *failed = -1;
    while (done < started || (started < n && !status && *failed < 0)) {
        while (started < n && started - done < limit && !status && *failed < 0) {
            report(options, done, n, jobs[started].what);
            status = wick_process_start(ctx, jobs[started].argv.items, &jobs[started].child);
            if (status) break;
            jobs[started++].started = true;
        }
        if (done == started) break;
        int64_t next = wait_for_any(jobs, started);
        wick_status ended = wick_process_finish(ctx, &jobs[next].child, &jobs[next].result);
        jobs[next].finished = true;
        done++;
        if (!status) status = ended;
        if (!ended && jobs[next].result.exit_code != 0 && (*failed < 0 || next < *failed)) {
            *failed = next;
        }
    }
    if (!status && *failed < 0) report(options, n, n, "done");
    return status;
}

void wick_jobs_free(wick_job *jobs, int64_t n)
{
    for (int64_t i = 0; jobs && i < n; i++) {
        if (jobs[i].finished) wick_process_free(&jobs[i].result);
    }
}
