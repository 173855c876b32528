/* fenced.c -- device memory with nothing before and behind it
 *
 * Addresses are reserved for a part in front, the memory and a part behind, and only the middle one
 * is mapped: the device itself stops a kernel that reads or writes beyond, to the byte. For trials;
 * never given back.
 */
#include "driver.h"

enum { PINNED = 1, ON_DEVICE = 1, READ_AND_WRITE = 3 }; /* of CUmemAllocationType and others */

static bool is_missing(void)
{
    return !cuda.cuMemGetAllocationGranularity || !cuda.cuMemAddressReserve || !cuda.cuMemCreate ||
           !cuda.cuMemMap || !cuda.cuMemUnmap || !cuda.cuMemSetAccess || !cuda.cuMemRelease ||
           !cuda.cuMemAddressFree;
}

/* Memory of that many bytes, a multiple of the granularity, at that address. Mapped, it stays
 * although its handle is given back. */
static cu_result map_memory(cu_address at, size_t bytes, const cu_memory_kind *kind)
{
    const cu_memory_access access = {kind->where, READ_AND_WRITE};
    cu_memory memory = 0;
    cu_result result = cuda.cuMemCreate(&memory, bytes, kind, 0);
    if (result) return result;
    result = cuda.cuMemMap(at, bytes, 0, memory, 0);
    cuda.cuMemRelease(memory);
    if (result) return result;
    result = cuda.cuMemSetAccess(at, bytes, &access, 1);
    if (result) cuda.cuMemUnmap(at, bytes);
    return result;
}

static cu_result make_fenced(int32_t device, uint64_t *bytes, cu_address *out)
{
    const cu_memory_kind kind = {.type = PINNED, .where = {ON_DEVICE, device}};
    cu_address room = 0;
    size_t part = 0;
    cu_result result = cuda.cuMemGetAllocationGranularity(&part, &kind, 0);
    if (result) return result;
    *bytes = (*bytes + part - 1) / part * part;
    result = cuda.cuMemAddressReserve(&room, *bytes + 2 * part, 0, 0, 0);
    if (result) return result;
    result = map_memory(room + part, *bytes, &kind);
    if (result) cuda.cuMemAddressFree(room, *bytes + 2 * part);
    *out = room + part;
    return result;
}

wick_status wick_cuda_fenced(wick_ctx *ctx, int32_t device, uint64_t *bytes, void **out)
{
    const wick_cuda_facts *facts = NULL;
    cu_address address = 0;
    bool pushed = false;
    WICK_TRY(wick_cuda_device_facts(ctx, device, &facts));
    if (is_missing())
        return wick_fail(ctx, WICK_ECUDA,
                         "the CUDA driver (%s) is too old: it cannot map memory at an address",
                         wick_driver_file());
    WICK_TRY(wick_device_enter(ctx, device, &pushed));
    cu_result result = make_fenced(device, bytes, &address);
    wick_device_leave(pushed);
    if (result)
        return wick_driver_fail(ctx, result, "%llu fenced bytes on CUDA device %d (%s)",
                                (unsigned long long)*bytes, (int)device, facts->name);
    *out = (void *)(uintptr_t)address;
    return WICK_OK;
}
