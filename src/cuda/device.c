/* device.c -- facts of a device; the primary contexts
 *
 * Facts are asked without making a context. A primary context is retained once and kept: it is the
 * one that torch and the CUDA runtime use, so memory and streams of theirs are ours as well.
 */
#include "driver.h"

#include <stdatomic.h>
#include <stdlib.h>

typedef struct device_record {
    atomic_bool has_facts;
    wick_cuda_facts facts;
    _Atomic(cu_context) context;
} device_record;

static pthread_mutex_t devices_lock = PTHREAD_MUTEX_INITIALIZER;
/* One per device that the process sees, made when first asked for. n_devices is set before. */
static _Atomic(device_record *) devices;
static int32_t n_devices;

int32_t wick_device_count(void)
{
    return atomic_load_explicit(&devices, memory_order_acquire) ? n_devices : 0;
}

/* Under the lock. */
static wick_status make_devices(wick_ctx *ctx)
{
    int n = 0;
    if (atomic_load_explicit(&devices, memory_order_relaxed)) return WICK_OK;
    cu_result result = cuda.cuDeviceGetCount(&n);
    if (result) return wick_driver_fail(ctx, result, "the CUDA devices cannot be counted");
    if (n <= 0) return wick_fail(ctx, WICK_ECUDA, "this process sees no CUDA device");
    device_record *records = wick_calloc((size_t)n, sizeof *records);
    if (!records) return wick_fail(ctx, WICK_ENOMEM, "out of memory counting CUDA devices");
    n_devices = n;
    atomic_store_explicit(&devices, records, memory_order_release);
    return WICK_OK;
}

static wick_status find_device(wick_ctx *ctx, int32_t device, device_record **out)
{
    device_record *all = atomic_load_explicit(&devices, memory_order_acquire);
    if (!all) {
        WICK_TRY(wick_driver_open(ctx));
        pthread_mutex_lock(&devices_lock);
        wick_status s = make_devices(ctx);
        pthread_mutex_unlock(&devices_lock);
        if (s != WICK_OK) return s;
        all = atomic_load_explicit(&devices, memory_order_acquire);
    }
    if (device < 0)
        return wick_fail(ctx, WICK_EINVAL, "this call runs on the CPU, not on a CUDA device");
    if (device >= n_devices)
        return wick_fail(ctx, WICK_EINVAL, "there is no CUDA device %d: this process sees %d",
                         (int)device, (int)n_devices);
    *out = &all[device];
    return WICK_OK;
}

/* ---- facts ---- */

static wick_status ask_attribute(wick_ctx *ctx, cu_device id, int attribute, int64_t *out)
{
    int value = 0;
    cu_result result = cuda.cuDeviceGetAttribute(&value, attribute, id);
    if (result)
        return wick_driver_fail(ctx, result, "attribute %d of CUDA device %d", attribute, (int)id);
    *out = value;
    return WICK_OK;
}

static wick_status ask_facts(wick_ctx *ctx, int32_t device, wick_cuda_facts *f)
{
    int64_t threads = 0, processors = 0, major = 0, minor = 0;
    const struct {
        int attribute; /* numbered by the driver's interface */
        int64_t *to;
    } wanted[] = {{1, &threads},          {2, &f->max_block[0]},
                  {3, &f->max_block[1]},  {4, &f->max_block[2]},
                  {5, &f->max_grid[0]},   {6, &f->max_grid[1]},
                  {7, &f->max_grid[2]},   {8, &f->shared_per_block},
                  {16, &processors},      {38, &f->l2_bytes},
                  {75, &major},           {76, &minor},
                  {97, &f->shared_opt_in}};
    cu_device id = 0;
    cu_result result = cuda.cuDeviceGet(&id, device);
    if (!result) result = cuda.cuDeviceGetName(f->name, (int)sizeof f->name, id);
    if (result) return wick_driver_fail(ctx, result, "CUDA device %d", (int)device);
    for (int i = 0; i < WICK_COUNT(wanted); i++)
        WICK_TRY(ask_attribute(ctx, id, wanted[i].attribute, wanted[i].to));
    f->arch = (int32_t)(major * 10 + minor);
    f->max_threads = (int32_t)threads;
    f->multiprocessors = (int32_t)processors;
    return WICK_OK;
}

wick_status wick_cuda_device_facts(wick_ctx *ctx, int32_t device, const wick_cuda_facts **out)
{
    device_record *record = NULL;
    wick_status s = WICK_OK;
    WICK_TRY(find_device(ctx, device, &record));
    if (!atomic_load_explicit(&record->has_facts, memory_order_acquire)) {
        pthread_mutex_lock(&devices_lock);
        if (!atomic_load_explicit(&record->has_facts, memory_order_relaxed)) {
            s = ask_facts(ctx, device, &record->facts);
            atomic_store_explicit(&record->has_facts, s == WICK_OK, memory_order_release);
        }
        pthread_mutex_unlock(&devices_lock);
    }
    if (s == WICK_OK) *out = &record->facts;
    return s;
}

/* ---- contexts ---- */

static wick_status retain_context(wick_ctx *ctx, int32_t device, device_record *record)
{
    cu_device id = 0;
    cu_context context = NULL;
    cu_result result = cuda.cuDeviceGet(&id, device);
    if (!result) result = cuda.cuDevicePrimaryCtxRetain(&context, id);
    if (result)
        return wick_driver_fail(ctx, result, "CUDA device %d has no context for us", (int)device);
    atomic_store_explicit(&record->context, context, memory_order_release);
    return WICK_OK;
}

wick_status wick_device_context(wick_ctx *ctx, int32_t device, cu_context *out)
{
    device_record *record = NULL;
    wick_status s = WICK_OK;
    WICK_TRY(find_device(ctx, device, &record));
    if (!atomic_load_explicit(&record->context, memory_order_acquire)) {
        pthread_mutex_lock(&devices_lock);
        if (!atomic_load_explicit(&record->context, memory_order_relaxed))
            s = retain_context(ctx, device, record);
        pthread_mutex_unlock(&devices_lock);
    }
    if (s == WICK_OK) *out = atomic_load_explicit(&record->context, memory_order_acquire);
    return s;
}

wick_status wick_device_enter(wick_ctx *ctx, int32_t device, bool *pushed)
{
    cu_context wanted = NULL, current = NULL;
    *pushed = false;
    WICK_TRY(wick_device_context(ctx, device, &wanted));
    cu_result result = cuda.cuCtxGetCurrent(&current);
    if (!result && current == wanted) return WICK_OK;
    if (!result) result = cuda.cuCtxPushCurrent_v2(wanted);
    if (result)
        return wick_driver_fail(ctx, result, "the context of CUDA device %d cannot be made current",
                                (int)device);
    *pushed = true;
    return WICK_OK;
}

void wick_device_leave(bool pushed)
{
    cu_context context;
    if (pushed) cuda.cuCtxPopCurrent_v2(&context);
}
