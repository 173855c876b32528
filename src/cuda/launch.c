/* launch.c -- limits checked, one cuLaunchKernel, errors in words
 *
 * Whatever a launch needs is in the kernel's record after the first one: a launch is a few
 * comparisons, cuCtxGetCurrent and cuLaunchKernel. All else is out of the way, in functions that
 * are called when something is unusual. WICK_DEBUG=sync waits for the stream before and after each
 * kernel, so that a fault is reported by the kernel that made it; not while a stream is captured,
 * when there is nothing to wait for.
 */
#include "driver.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

typedef struct launch {
    wick_kernel *kernel;
    wick_launchable *on;
    wick_dim3 grid, block;
    int64_t shared_bytes;
    void **args;
} launch;

/* ---- WICK_DEBUG ---- */

enum { DEBUG_UNKNOWN, DEBUG_OFF, DEBUG_SYNC };
static atomic_int launch_debug; /* read from the environment once */

static bool has_word(const char *list, const char *word)
{
    size_t n = strlen(word);
    while (*list) {
        size_t length = strcspn(list, ",");
        if (length == n && !strncmp(list, word, n)) return true;
        list += length + (list[length] == ',');
    }
    return false;
}

static int read_debug(void)
{
    const char *debug = getenv("WICK_DEBUG"), *blocking = getenv("CUDA_LAUNCH_BLOCKING");
    bool sync = (debug && has_word(debug, "sync")) || (blocking && !strcmp(blocking, "1"));
    int mode = sync ? DEBUG_SYNC : DEBUG_OFF;
    atomic_store_explicit(&launch_debug, mode, memory_order_relaxed);
    return mode;
}

static inline bool is_debugging(void)
{
    int mode = atomic_load_explicit(&launch_debug, memory_order_relaxed);
    return (mode == DEBUG_UNKNOWN ? read_debug() : mode) == DEBUG_SYNC;
}

/* ---- words ---- */

/* "kernel k, grid (1, 1, 1), block (256, 1, 1), 0 bytes of dynamic shared memory" */
#define LAUNCH_FORMAT                                                                              \
    "kernel %s, grid (%lld, %lld, %lld), block (%lld, %lld, %lld), %lld bytes of dynamic shared "  \
    "memory"
#define LAUNCH_ARGS(l)                                                                             \
    (l)->kernel->name, (long long)(l)->grid.x, (long long)(l)->grid.y, (long long)(l)->grid.z,     \
        (long long)(l)->block.x, (long long)(l)->block.y, (long long)(l)->block.z,                 \
        (long long)(l)->shared_bytes

/* `waited`: everything before this kernel is known to have ended well, so the fault is its own. */
static wick_status fail_launch(wick_ctx *ctx, const launch *l, cu_result result, bool waited)
{
    char room[CUDA_WORDS];
    if (!waited) return wick_driver_fail(ctx, result, LAUNCH_FORMAT, LAUNCH_ARGS(l));
    return wick_fail(ctx, WICK_ECUDA, LAUNCH_FORMAT " failed: %s", LAUNCH_ARGS(l),
                     wick_driver_words(result, room));
}

/* ---- limits ---- */

static inline bool is_within(int64_t n, int64_t most) { return (uint64_t)n - 1 < (uint64_t)most; }

static inline bool fits(const wick_launchable *k, const wick_dim3 *grid, const wick_dim3 *block,
                        int64_t shared_bytes)
{
    const wick_cuda_facts *f = k->facts;
    return is_within(grid->x, f->max_grid[0]) && is_within(grid->y, f->max_grid[1]) &&
           is_within(grid->z, f->max_grid[2]) && is_within(block->x, f->max_block[0]) &&
           is_within(block->y, f->max_block[1]) && is_within(block->z, f->max_block[2]) &&
           block->x * block->y * block->z <= k->max_threads &&
           (uint64_t)shared_bytes <= (uint64_t)__atomic_load_n(&k->dynamic_bytes, __ATOMIC_ACQUIRE);
}

WICK_PRINTF(3, 4)
static wick_status refuse(wick_ctx *ctx, const launch *l, const char *format, ...)
{
    wick_text why = {0};
    va_list args;
    va_start(args, format);
    wick_text_vprintf(&why, format, args);
    va_end(args);
    wick_status s = wick_fail(ctx, WICK_EINVAL, LAUNCH_FORMAT ": %s on sm_%d (%s)", LAUNCH_ARGS(l),
                              wick_text_str(&why), (int)l->on->facts->arch, l->on->facts->name);
    wick_text_free(&why);
    return s;
}

static wick_status check_dims(wick_ctx *ctx, const launch *l)
{
    const wick_cuda_facts *f = l->on->facts;
    const int64_t grid[] = {l->grid.x, l->grid.y, l->grid.z};
    const int64_t block[] = {l->block.x, l->block.y, l->block.z};
    for (int i = 0; i < 3; i++)
        if (!is_within(grid[i], f->max_grid[i]))
            return refuse(ctx, l, "grid.%c is %lld, but must be 1 to %lld", "xyz"[i],
                          (long long)grid[i], (long long)f -> max_grid[i]);
    for (int i = 0; i < 3; i++)
        if (!is_within(block[i], f->max_block[i]))
            return refuse(ctx, l, "block.%c is %lld, but must be 1 to %lld", "xyz"[i],
                          (long long)block[i], (long long)f -> max_block[i]);
    return WICK_OK;
}

/* Says which limit is broken, or makes room for the shared memory that is asked for. */
static wick_status check_limits(wick_ctx *ctx, const launch *l)
{
    const wick_launchable *k = l->on;
    const wick_cuda_facts *f = k->facts;
    WICK_TRY(check_dims(ctx, l));
    int64_t threads = l->block.x * l->block.y * l->block.z;
    if (threads > f->max_threads)
        return refuse(ctx, l, "a block has %lld threads, but at most %d are possible",
                      (long long)threads, (int)f->max_threads);
    if (threads > k->max_threads)
        return refuse(ctx, l,
                      "a block has %lld threads, but its launch bounds and its %d registers per "
                      "thread allow %d",
                      (long long)threads, (int)k->registers, (int)k->max_threads);
    if (l->shared_bytes < 0) return refuse(ctx, l, "shared memory cannot be negative");
    if (l->shared_bytes > f->shared_opt_in - k->static_bytes)
        return refuse(ctx, l,
                      "it declares %lld bytes of shared memory and asks for %lld more, but a block "
                      "has at most %lld",
                      (long long)k->static_bytes, (long long)l->shared_bytes,
                      (long long)f->shared_opt_in);
    return wick_code_allow_shared(ctx, l->kernel, l->on, l->shared_bytes);
}

/* ---- launching ---- */

static inline cu_result start(const launch *l, cu_stream stream)
{
    return cuda.cuLaunchKernel(l->on->function, (unsigned)l->grid.x, (unsigned)l->grid.y,
                               (unsigned)l->grid.z, (unsigned)l->block.x, (unsigned)l->block.y,
                               (unsigned)l->block.z, (unsigned)l->shared_bytes, stream, l->args,
                               NULL);
}

static wick_status start_and_wait(wick_ctx *ctx, const launch *l)
{
    int capturing = 0;
    cu_result result = cuda.cuStreamIsCapturing(ctx->stream, &capturing);
    /* The default stream answers with an error while another one is captured. */
    bool waits = !result && !capturing;
    result = waits ? cuda.cuStreamSynchronize(ctx->stream) : 0;
    if (result) return fail_launch(ctx, l, result, false);
    result = start(l, ctx->stream);
    if (!result && waits) result = cuda.cuStreamSynchronize(ctx->stream);
    return result ? fail_launch(ctx, l, result, waits) : WICK_OK;
}

/* Another context is current, or none; or WICK_DEBUG=sync. */
static wick_status start_carefully(wick_ctx *ctx, const launch *l)
{
    bool pushed = false;
    wick_status s = wick_device_enter(ctx, ctx->device, &pushed);
    if (s != WICK_OK) {
        wick_ctx_prefix(ctx, "kernel %s: ", l->kernel->name);
        return s;
    }
    if (is_debugging()) {
        s = start_and_wait(ctx, l);
    } else {
        cu_result result = start(l, ctx->stream);
        if (result) s = fail_launch(ctx, l, result, false);
    }
    wick_device_leave(pushed);
    return s;
}

wick_status wick_cuda_launch(wick_ctx *ctx, wick_kernel *kernel, wick_dim3 grid, wick_dim3 block,
                             int64_t shared_bytes, void **args)
{
    if (grid.x == 0 || grid.y == 0 || grid.z == 0) return WICK_OK; /* an empty tensor */
    launch l = {kernel, wick_code_ready(kernel, ctx->device), grid, block, shared_bytes, args};
    if (!l.on) WICK_TRY(wick_code_prepare(ctx, kernel, ctx->device, &l.on));
    if (!fits(l.on, &grid, &block, shared_bytes)) WICK_TRY(check_limits(ctx, &l));
    cu_context current = NULL;
    if (cuda.cuCtxGetCurrent(&current) || current != l.on->context || is_debugging())
        return start_carefully(ctx, &l);
    cu_result result = start(&l, ctx->stream);
    return result ? fail_launch(ctx, &l, result, false) : WICK_OK;
}

wick_status wick_cuda_prepare(wick_ctx *ctx, wick_kernel *kernel)
{
    wick_launchable *on = NULL;
    if (wick_code_ready(kernel, ctx->device)) return WICK_OK;
    return wick_code_prepare(ctx, kernel, ctx->device, &on);
}
