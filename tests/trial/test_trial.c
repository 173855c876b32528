/* test_trial.c -- guarded calls: what they leave, repeat, lose and share */
#include "support.h"
#include "trial.h"

#include <fenv.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static wick_status twice(wick_ctx *ctx, const wick_slot *slot)
{
    const float *x = slot[0].p;
    float *y = slot[1].p;
    (void)ctx;
    for (int64_t i = 0; i < slot[2].i; i++)
        y[i] = 2 * x[i];
    return WICK_OK;
}

static const wick_trial_options plain = {.at_end = true, .fill = 0x7f, .threads = 1, .repeats = 1};

static wick_status begin(wick_trial *t, wick_op *op, const wick_value *args, int n,
                         const wick_trial_options *options)
{
    wick_trial_argument given[WICK_MAX_PARAMS] = {0};
    bool unwanted[WICK_MAX_PARAMS] = {false};
    for (int i = 0; i < n; i++)
        given[i].value = args[i];
    wick_ctx_clear(&test_ctx);
    return wick_trial_init(&test_ctx, t, op, given, unwanted, options);
}

/* The trial of an operator over x: f32[*N], run. */
static wick_trial *run_over(wick_op *op, float *x, int64_t n, wick_trial_options options)
{
    wick_trial *t = calloc(1, sizeof *t);
    const int64_t size[] = {n}, stride[] = {1};
    wick_value arg = with_stride(wick_tensor_of(x, WICK_F32, 1, size), stride);
    cr_assert_eq(begin(t, op, &arg, 1, &options), WICK_OK);
    cr_assert_eq(wick_trial_run(t), WICK_OK, "%s", wick_ctx_message(&t->ctx));
    wick_trial_inspect(t);
    return t;
}

static void end(wick_trial *t)
{
    wick_trial_free(t);
    free(t);
}

Test(trial, results_are_there_and_nothing_is_damaged)
{
    float x[3] = {1, 2, 3}, y[3];
    const void *data;
    size_t bytes;
    for (int at_end = 0; at_end < 2; at_end++) {
        wick_trial_options options = plain;
        options.at_end = at_end != 0;
        options.shift = 1;
        wick_trial *t =
            run_over(define_op("twice", "x: f32[*N] -> y: f32[*N]", twice), x, 3, options);
        wick_trial_result(t, 0, &data, &bytes);
        cr_assert_eq(bytes, sizeof y);
        memcpy(y, data, bytes);
        cr_assert(y[0] == 2 && y[2] == 6);
        cr_assert_str_eq(wick_text_str(&t->damage), "");
        cr_assert_eq(t->differs, -1);
        end(t);
    }
}

static wick_status write_nothing(wick_ctx *ctx, const wick_slot *slot)
{
    (void)ctx, (void)slot;
    return WICK_OK;
}

Test(trial, results_hold_the_fill_until_they_are_written)
{
    float x[2] = {0};
    const void *data;
    size_t bytes;
    wick_trial *t =
        run_over(define_op("lazy", "x: f32[*N] -> y: f32[*N]", write_nothing), x, 2, plain);
    wick_trial_result(t, 0, &data, &bytes);
    for (size_t i = 0; i < bytes; i++)
        cr_assert_eq(((const uint8_t *)data)[i], 0x7f);
    end(t);
}

static wick_status use_scratch(wick_ctx *ctx, const wick_slot *slot)
{
    float *w = slot[2].p;
    (void)ctx;
    cr_assert_eq((uintptr_t)w % 64, 0);
    cr_assert_eq(*(const uint8_t *)slot[2].p, 0xff);
    w[slot[3].i] = 0;
    memset(slot[1].p, 0, (size_t)slot[3].i * 4);
    return WICK_OK;
}

Test(trial, scratch_is_filled_aligned_and_watched)
{
    float x[3] = {0};
    wick_op *op = define_op("scratchy", "x: f32[*N] -> y: f32[*N] scratch w: f32[*N]", use_scratch);
    wick_trial *t = run_over(op, x, 3, plain);
    cr_assert_str_eq(wick_text_str(&t->damage), "it wrote right past the end of w\n");
    end(t);
}

static wick_status write_input(wick_ctx *ctx, const wick_slot *slot)
{
    (void)ctx;
    *(volatile float *)slot[0].p = 1;
    return WICK_OK;
}

Test(trial, an_input_cannot_be_written, .signal = SIGSEGV)
{
    float x[2] = {0};
    run_over(define_op("rude", "x: f32[*N] -> y: f32[*N]", write_input), x, 2, plain);
}

static wick_status read_behind(wick_ctx *ctx, const wick_slot *slot)
{
    const char *s = slot[0].s;
    (void)ctx;
    *(int64_t *)slot[1].p = ((const volatile char *)s)[strlen(s) + 1];
    return WICK_OK;
}

Test(trial, behind_a_string_is_nothing, .signal = SIGSEGV)
{
    wick_value arg = wick_str("a");
    wick_trial *t = calloc(1, sizeof *t);
    cr_assert_eq(begin(t, define_op("nosy", "s: str -> n: int", read_behind), &arg, 1, &plain),
                 WICK_OK);
    (void)wick_trial_run(t);
}

static wick_status count_calls(wick_ctx *ctx, const wick_slot *slot)
{
    (void)ctx;
    *(float *)slot[1].p = ++n_calls > 5 ? 1.0f : 0.0f;
    return WICK_OK;
}

Test(trial, a_repeat_that_differs_is_found)
{
    float x[1] = {0};
    wick_trial_options options = plain;
    options.repeats = 20;
    n_calls = 0;
    wick_trial *t =
        run_over(define_op("counting", "x: f32[*N] -> y: f32[*N]", count_calls), x, 1, options);
    cr_assert_eq(t->differs, 5);
    end(t);
}

static WICK_UNUSED wick_status lose_memory(wick_ctx *ctx, const wick_slot *slot)
{
    static void *volatile lost; /* volatile: or nothing is taken */
    lost = malloc(100);
    return lost ? twice(ctx, slot) : WICK_ENOMEM;
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
Test(trial, what_repeats_lose_is_counted)
{
    float x[1] = {0};
    wick_trial_options options = plain;
    options.repeats = 40;
    wick_op *sound = define_op("sound", "x: f32[*N] -> y: f32[*N]", twice),
            *leaky = define_op("leaky", "x: f32[*N] -> y: f32[*N]", lose_memory);
    wick_trial *t = run_over(sound, x, 1, options);
    cr_assert_eq(t->leaked.heap_bytes, 0);
    cr_assert(t->leaked.files == 0 && t->leaked.threads == 0 && t->leaked.mapped_bytes == 0);
    end(t);
    t = run_over(leaky, x, 1, options);
    cr_assert_geq(t->leaked.heap_bytes, 20 * 100);
    end(t);
}
#endif

static wick_status add_to(wick_ctx *ctx, const wick_slot *slot)
{
    const float *x = slot[0].p;
    float *y = slot[1].p;
    (void)ctx;
    for (int64_t i = 0; i < slot[2].i; i++)
        y[i] += x[i];
    return WICK_OK;
}

Test(trial, what_is_written_in_place_starts_anew_each_time)
{
    float x[2] = {1, 2}, y[2] = {10, 20};
    const int64_t size[] = {2}, stride[] = {1};
    wick_op *op = define_op("add_to", "x: f32[*N], y!: f32[*N] -> ()", add_to);
    wick_trial *t = calloc(1, sizeof *t);
    wick_trial_options options = plain;
    options.repeats = 10;
    wick_value args[] = {with_stride(wick_tensor_of(x, WICK_F32, 1, size), stride),
                         with_stride(wick_tensor_of(y, WICK_F32, 1, size), stride)};
    cr_assert_eq(begin(t, op, args, 2, &options), WICK_OK);
    cr_assert_eq(wick_trial_run(t), WICK_OK);
    cr_assert_eq(t->differs, -1);
    cr_assert_null(wick_trial_written(t, 0));
    cr_assert_eq(((const float *)(const void *)wick_trial_written(t, 1)->data)[1], 22);
    cr_assert_eq(y[1], 20, "the caller's own memory is left alone");
    end(t);
}

Test(trial, arguments_that_share_memory_share_a_zone)
{
    float x[2] = {1, 2};
    const int64_t size[] = {2}, stride[] = {1};
    wick_op *op = define_op("add_to", "x: f32[*N], y!: f32[*N] -> ()", add_to);
    wick_trial *t = calloc(1, sizeof *t);
    wick_value arg = with_stride(wick_tensor_of(x, WICK_F32, 1, size), stride), args[] = {arg, arg};
    cr_assert_eq(begin(t, op, args, 2, &plain), WICK_OK);
    cr_assert_eq(t->args[0].as.tensor.data, t->args[1].as.tensor.data);
    cr_assert_eq(wick_trial_run(t), WICK_OK, "%s", wick_ctx_message(&t->ctx));
    cr_assert_eq(((const float *)(const void *)wick_trial_written(t, 1)->data)[1], 4);
    end(t);
}

Test(trial, gaps_of_a_strided_input_come_along)
{
    float x[6] = {1, 99, 2, 99, 3, 99}, y[3];
    const int64_t size[] = {3}, stride[] = {2};
    const void *data;
    size_t bytes;
    wick_op *op = define_op("twice", "x: f32[*N] -> y: f32[*N]", twice);
    wick_trial *t = calloc(1, sizeof *t);
    wick_value arg = with_stride(wick_tensor_of(x, WICK_F32, 1, size), stride);
    cr_assert_eq(begin(t, op, &arg, 1, &plain), WICK_OK);
    cr_assert_eq(t->input[0].bytes, 5 * sizeof(float));
    cr_assert_eq(wick_trial_run(t), WICK_OK, "%s", wick_ctx_message(&t->ctx));
    wick_trial_result(t, 0, &data, &bytes);
    memcpy(y, data, bytes);
    cr_assert(y[0] == 2 && y[1] == 4 && y[2] == 6);
    end(t);
}

static wick_status refuse(wick_ctx *ctx, const wick_slot *slot)
{
    (void)slot;
    return wick_fail(ctx, WICK_EINVAL, "not today");
}

Test(trial, a_refusal_is_the_operators_own)
{
    float x[2] = {0};
    const int64_t size[] = {2}, stride[] = {1};
    long live = wick_memory_live();
    wick_op *op = define_op("choosy", "x: f32[*N] -> y: f32[*N]", refuse);
    live = wick_memory_live();
    wick_trial *t = calloc(1, sizeof *t);
    wick_trial_options options = plain;
    options.repeats = 4;
    wick_value arg = with_stride(wick_tensor_of(x, WICK_F32, 1, size), stride);
    cr_assert_eq(begin(t, op, &arg, 1, &options), WICK_OK);
    cr_assert_eq(wick_trial_run(t), WICK_EINVAL);
    cr_assert_str_eq(wick_ctx_message(&t->ctx), "choosy: not today");
    end(t);
    cr_assert_eq(wick_memory_live(), live);
}

/* ---- several callers ---- */

static wick_status through_static(wick_ctx *ctx, const wick_slot *slot)
{
    static volatile float shared[256];
    const float *x = slot[0].p;
    float *y = slot[1].p;
    (void)ctx;
    for (int64_t i = 0; i < slot[2].i; i++)
        shared[i] = x[i];
    for (int64_t i = 0; i < slot[2].i; i++)
        y[i] = shared[i];
    return WICK_OK;
}

static int differs_of(wick_entry entry)
{
    enum { CALLERS = 4, N = 256 };
    static float x[CALLERS][N];
    const int64_t size[] = {N}, stride[] = {1};
    wick_op *op = define_op("shared", "x: f32[*N] -> y: f32[*N]", entry);
    wick_trial *trials = calloc(CALLERS, sizeof *trials);
    int differs = -2;
    for (int c = 0; c < CALLERS; c++) {
        for (int i = 0; i < N; i++)
            x[c][i] = (float)(c * N + i);
        wick_value arg = with_stride(wick_tensor_of(x[c], WICK_F32, 1, size), stride);
        cr_assert_eq(begin(&trials[c], op, &arg, 1, &plain), WICK_OK);
    }
    cr_assert_eq(wick_trial_together(&test_ctx, trials, CALLERS, 20000, &differs), WICK_OK);
    for (int c = 0; c < CALLERS; c++)
        wick_trial_free(&trials[c]);
    free(trials);
    return differs;
}

#if !defined(__SANITIZE_THREAD__)
Test(together, what_is_static_is_found) { cr_assert_geq(differs_of(through_static), 0); }
#endif

Test(together, what_is_not_is_left_in_peace) { cr_assert_eq(differs_of(twice), -1); }

/* ---- settings ---- */

static wick_status rounds_upwards(wick_ctx *ctx, const wick_slot *slot)
{
    fesetround(FE_UPWARD);
    return twice(ctx, slot);
}

static wick_status blocks_a_signal(wick_ctx *ctx, const wick_slot *slot)
{
    sigset_t some;
    sigemptyset(&some);
    sigaddset(&some, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &some, NULL);
    signal(SIGUSR2, SIG_IGN);
    return twice(ctx, slot);
}

static wick_status leaves_much(wick_ctx *ctx, const wick_slot *slot)
{
    struct rlimit few;
    getrlimit(RLIMIT_NOFILE, &few);
    few.rlim_cur = 300;
    umask(0);
    setrlimit(RLIMIT_NOFILE, &few);
    if (fork() == 0) _exit(0);
    siginfo_t info;
    waitid(P_ALL, 0, &info, WEXITED | WNOWAIT); /* it has ended, and still stands there */
    return twice(ctx, slot);
}

Test(trial, settings_that_are_left_changed_are_told_and_put_back)
{
    float x[3] = {1, 2, 3};
    const char *signature = "x: f32[*N] -> y: f32[*N]";
    wick_trial *t = run_over(define_op("twice", signature, twice), x, 3, plain);
    cr_assert_str_eq(wick_text_str(&t->left), "");
    end(t);
    for (int round = 0; round < 2; round++) {
        t = run_over(define_op("upwards", signature, rounds_upwards), x, 3, plain);
        cr_assert_str_eq(wick_text_str(&t->left), "it leaves another rounding mode\n");
        cr_assert_eq(fegetround(), FE_TONEAREST);
        end(t);
        t = run_over(define_op("blocks", signature, blocks_a_signal), x, 3, plain);
        cr_assert(strstr(wick_text_str(&t->left), "it leaves signal 10 blocked"));
        cr_assert(strstr(wick_text_str(&t->left), "it leaves another action for signal 12"));
        end(t);
    }
    t = run_over(define_op("much", signature, leaves_much), x, 3, plain);
    cr_assert_str_eq(wick_text_str(&t->left), "it leaves another umask\n"
                                              "it leaves other limits (setrlimit)\n"
                                              "it leaves a child process behind\n");
    end(t);
}

static wick_status tells_alignment(wick_ctx *ctx, const wick_slot *slot)
{
    float *y = slot[1].p;
    (void)ctx;
    if (slot[2].i > 1) {
        y[0] = (float)((uintptr_t)slot[0].p % 16 / sizeof *y);
        y[1] = (float)((uintptr_t)slot[1].p % 16 / sizeof *y);
    }
    return WICK_OK;
}

Test(trial, tensors_are_shifted_one_by_one)
{
    float x[2] = {1, 2}, y[2];
    for (unsigned shift = 0; shift < 4; shift++) {
        const void *data;
        size_t bytes;
        wick_trial_options options = plain;
        options.at_end = false;
        options.shift = shift;
        wick_trial *t = run_over(
            define_op("alignment", "x: f32[*N] -> y: f32[*N]", tells_alignment), x, 2, options);
        wick_trial_result(t, 0, &data, &bytes);
        memcpy(y, data, sizeof y);
        cr_assert_eq((int)y[0], (int)(shift & 1));
        cr_assert_eq((int)y[1], (int)(shift >> 1));
        end(t);
    }
}
