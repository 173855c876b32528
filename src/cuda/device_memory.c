/* device_memory.c -- device memory on a stream, for programs without torch
 *
 * Stream-ordered: a block may be used by what the stream does after its allocation, and is given
 * back when the stream has come to its release. Nothing waits.
 */
#include "driver.h"

static wick_status fail_missing(wick_ctx *ctx, const char *function)
{
    return wick_fail(ctx, WICK_ECUDA,
                     "the CUDA driver (%s) is too old: it has no %s; one of CUDA 11.2 or later is "
                     "needed",
                     wick_driver_file(), function);
}

wick_status wick_cuda_alloc(wick_ctx *ctx, int32_t device, void *stream, uint64_t bytes, void **out)
{
    const wick_cuda_facts *facts = NULL;
    cu_address address = 0;
    bool pushed = false;
    if (bytes == 0) {
        *out = NULL;
        return WICK_OK;
    }
    WICK_TRY(wick_cuda_device_facts(ctx, device, &facts));
    if (!cuda.cuMemAllocAsync || !cuda.cuMemFreeAsync) return fail_missing(ctx, "cuMemAllocAsync");
    WICK_TRY(wick_device_enter(ctx, device, &pushed));
    cu_result result = cuda.cuMemAllocAsync(&address, bytes, stream);
    wick_device_leave(pushed);
    if (result)
        return wick_driver_fail(ctx, result, "%llu bytes on CUDA device %d (%s)",
                                (unsigned long long)bytes, (int)device, facts->name);
    *out = (void *)(uintptr_t)address;
    return WICK_OK;
}

void wick_cuda_free(int32_t device, void *stream, void *p)
{
    wick_ctx ctx; /* nobody can be told */
    bool pushed = false;
    if (!p) return;
    wick_ctx_init(&ctx, NULL);
    if (wick_device_enter(&ctx, device, &pushed) == WICK_OK) {
        cuda.cuMemFreeAsync((cu_address)(uintptr_t)p, stream);
        wick_device_leave(pushed);
    }
    wick_ctx_deinit(&ctx);
}

wick_status wick_cuda_copy(wick_ctx *ctx, int32_t device, void *stream, void *to, const void *from,
                           uint64_t bytes)
{
    bool pushed = false;
    if (bytes == 0) return WICK_OK;
    WICK_TRY(wick_device_enter(ctx, device, &pushed));
    cu_result result =
        cuda.cuMemcpyAsync((cu_address)(uintptr_t)to, (cu_address)(uintptr_t)from, bytes, stream);
    wick_device_leave(pushed);
    if (result)
        return wick_driver_fail(ctx, result, "a copy of %llu bytes on CUDA device %d",
                                (unsigned long long)bytes, (int)device);
    return WICK_OK;
}
