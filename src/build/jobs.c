/* jobs.c -- several compilers at once
 *
 * Children are finished in the order in which they were started; one that ends early waits with its output in its pipe,
 * which costs nothing but a slot.
 */
#include "builder.h"

#include <unistd.h>

static int64_t slots(void)
{
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n < 1 ? 1 : n;
}

static wick_status finish(wick_ctx *ctx, wick_job *job)
{
    job->finished = true;
    return wick_process_finish(ctx, &job->child, &job->result);
}

static void report(const wick_build_options *options, int64_t done, int64_t n, const char *what)
{
    if (options && options->progress) options->progress(options->progress_arg, done, n, what);
}

wick_status wick_jobs_run(wick_ctx *ctx, wick_job *jobs, int64_t n, const wick_build_options *options,
                          int64_t *failed)
{
    int64_t limit = slots(), started = 0, done = 0;
    wick_status status = WICK_OK;
    *failed = -1;
    while (done < started || (started < n && !status && *failed < 0)) {
        wick_status ended;
        while (started < n && started - done < limit && !status && *failed < 0) {
            report(options, done, n, jobs[started].what);
            status = wick_process_start(ctx, jobs[started].argv.items, &jobs[started].child);
            if (status) break;
            jobs[started++].started = true;
        }
        if (done == started) break;
        ended = finish(ctx, &jobs[done]);
        if (!status) status = ended;
        if (!ended && *failed < 0 && jobs[done].result.exit_code != 0) *failed = done;
        done++;
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
