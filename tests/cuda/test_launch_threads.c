/* test_launch_threads.c -- several threads launch at once, the first time and later */
#include "cuda_support.h"

#include <pthread.h>

enum { THREADS = 8, ROUNDS = 50 };

static fake_cuda *fake;
static pthread_barrier_t gate;
static int n_resolved; /* guarded by the unit's lock */

static wick_status resolve(wick_ctx *ctx, wick_device *device, int32_t arch, wick_device_code *out)
{
    static const wick_device_code made[] = {CUBIN(90, "k\nother\n"), CUBIN(80, "k\nother\n")};
    (void)ctx, (void)device;
    n_resolved++;
    *out = made[arch == 90 ? 0 : 1];
    return WICK_OK;
}

static wick_device unit = {.resolve = resolve};
static wick_kernel kernels[] = {{.name = "k", .device = &unit}, {.name = "other", .device = &unit}};

typedef struct job {
    pthread_t thread;
    int number;
    wick_status status;
} job;

static void *launch_from_a_thread(void *arg)
{
    job *j = arg;
    wick_ctx ctx;
    int64_t value = j->number;
    void *args[] = {&value};
    wick_ctx_init(&ctx, NULL);
    ctx.device = j->number % 2;
    pthread_barrier_wait(&gate);
    for (int i = 0; i < ROUNDS && j->status == WICK_OK; i++)
        j->status = wick_cuda_launch(&ctx, &kernels[j->number / 2 % 2], DIM(1, 1, 1), DIM(1, 1, 1),
                                     (int64_t)1024 * i, args);
    if (fake->stack_depth() || fake->capture_mode()) j->status = WICK_EINVAL;
    wick_ctx_deinit(&ctx);
    return NULL;
}

Test(threads, prepare_once_and_launch_all)
{
    job jobs[THREADS] = {0};
    fake = use_driver();
    pthread_barrier_init(&gate, NULL, THREADS);
    for (int i = 0; i < THREADS; i++) {
        jobs[i].number = i;
        cr_assert_eq(pthread_create(&jobs[i].thread, NULL, launch_from_a_thread, &jobs[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(jobs[i].thread, NULL);
        cr_assert_eq(jobs[i].status, WICK_OK, "thread %d: %d", i, jobs[i].status);
    }
    pthread_barrier_destroy(&gate);
    cr_assert_eq(fake->n_launches, THREADS * ROUNDS);
    cr_assert_eq(n_resolved, 2, "once per device, but %d times", n_resolved);
    cr_assert_eq(fake->modules, 2);
    cr_assert_eq(fake->contexts_retained, 2);
    forget_kernel(&kernels[0]);
    forget_kernel(&kernels[1]);
    forget_unit(&unit);
}
