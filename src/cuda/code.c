/* code.c -- which of a module's cubins and PTX a device takes; loading it; kernels by name
 *
 *   wick_device.host ──▶ unit_record: a lock, and the code loaded on each device
 *   wick_kernel.host ──▶ wick_kernel_record: the function on each device, with its limits
 *
 * Both are made at a unit's first launch. Whoever prepares a kernel holds its unit's lock, so code
 * is made and loaded once and others wait for it; `resolve` runs under that lock. A failure is not
 * remembered. Nothing is ever unloaded: another thread may be launching it.
 */
#include "driver.h"

#include <string.h>

/* A unit on one device. */
typedef struct unit_code {
    wick_device_code made; /* by `resolve`, which lives for ever; data NULL: not yet */
    cu_module module;
} unit_code;

typedef struct unit_record {
    pthread_mutex_t lock;
    unit_code on[]; /* guarded by the lock */
} unit_record;

/* ---- choosing ---- */

/* A cubin runs on its own major version, from its minor version on; PTX from its version on. */
static bool runs_on(const wick_device_code *code, int32_t arch)
{
    return code->arch <= arch && (code->is_ptx || code->arch / 10 == arch / 10);
}

/* The newest of a kind, or NULL. */
static const wick_device_code *newest(const wick_device *device, int32_t arch, bool is_ptx)
{
    const wick_device_code *best = NULL;
    for (int64_t i = 0; i < device->n_code; i++) {
        const wick_device_code *c = &device->code[i];
        bool fits = (c->is_ptx != 0) == is_ptx && runs_on(c, arch);
        if (fits && (!best || c->arch > best->arch)) best = c;
    }
    return best;
}

/* "sm_80 and sm_90 code", "PTX of sm_90"; how many there are. */
static int list_kind(wick_text *out, const wick_device *device, bool is_ptx)
{
    int total = 0, n = 0;
    for (int64_t i = 0; i < device->n_code; i++)
        total += (device->code[i].is_ptx != 0) == is_ptx;
    if (is_ptx && total) wick_text_add(out, "PTX of ");
    for (int64_t i = 0; i < device->n_code; i++) {
        if ((device->code[i].is_ptx != 0) != is_ptx) continue;
        const char *between = n == 0 ? "" : n + 1 == total ? " and " : ", ";
        wick_text_printf(out, "%ssm_%d", between, (int)device->code[i].arch);
        n++;
    }
    if (!is_ptx && total) wick_text_add(out, " code");
    return total;
}

static wick_status refuse(wick_ctx *ctx, const wick_device *device, const wick_cuda_facts *facts)
{
    wick_text cubins = {0}, ptx = {0};
    int n_cubins = list_kind(&cubins, device, false), n_ptx = list_kind(&ptx, device, true);
    wick_status s = wick_fail(
        ctx, WICK_ENOTSUP,
        "the module holds %s%s%s%s, but the device is sm_%d (%s): build it with --arch sm_%d",
        n_cubins || n_ptx ? "" : "no device code", wick_text_str(&cubins),
        n_cubins && n_ptx ? " and " : "", wick_text_str(&ptx), (int)facts->arch, facts->name,
        (int)facts->arch);
    wick_text_free(&cubins);
    wick_text_free(&ptx);
    return s;
}

static wick_status choose(wick_ctx *ctx, wick_device *device, const wick_cuda_facts *facts,
                          wick_device_code *made, const wick_device_code **out)
{
    *out = newest(device, facts->arch, false);
    if (!*out) *out = newest(device, facts->arch, true);
    if (*out) return WICK_OK;
    if (!device->resolve) return refuse(ctx, device, facts);
    if (!made->data) WICK_TRY(device->resolve(ctx, device, facts->arch, made));
    *out = made;
    return WICK_OK;
}

/* ---- loading ---- */

static wick_status fail_load(wick_ctx *ctx, cu_result result, const wick_device_code *code,
                             const wick_cuda_facts *facts, const char *log)
{
    wick_status s = wick_driver_fail(ctx, result, "the %s of sm_%d does not load on sm_%d (%s)",
                                     code->is_ptx ? "PTX" : "code", (int)code->arch,
                                     (int)facts->arch, facts->name);
    if (result == CU_UNSUPPORTED_PTX_VERSION || result == CU_NO_BINARY_FOR_GPU)
        wick_ctx_suffix(ctx, "; the driver speaks CUDA %d.%d, and what made this may be newer",
                        wick_driver_version() / 1000, wick_driver_version() % 1000 / 10);
    if (*log) wick_ctx_suffix(ctx, "; CUDA's log: %s", log);
    return s;
}

static wick_status load_code(wick_ctx *ctx, const wick_device_code *code,
                             const wick_cuda_facts *facts, cu_module *out)
{
    char log[4096] = "", *copy = NULL;
    int options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *values[] = {log, (void *)(uintptr_t)(sizeof log - 1)};
    const void *data = code->data;
    const char *bytes = code->data;

    /* PTX is text to the driver, which looks for its end. */
    if (code->is_ptx && (code->size == 0 || bytes[code->size - 1])) {
        copy = wick_malloc(code->size + 1);
        if (!copy) return wick_fail(ctx, WICK_ENOMEM, "out of memory loading PTX");
        if (code->size) memcpy(copy, bytes, code->size);
        copy[code->size] = '\0';
        data = copy;
    }
    cu_result result = cuda.cuModuleLoadDataEx(out, data, WICK_COUNT(options), options, values);
    wick_free(copy);
    return result ? fail_load(ctx, result, code, facts, log) : WICK_OK;
}

static wick_status load_unit(wick_ctx *ctx, wick_device *device, unit_code *unit,
                             const wick_cuda_facts *facts)
{
    const wick_device_code *code = NULL;
    if (unit->module) return WICK_OK;
    WICK_TRY(choose(ctx, device, facts, &unit->made, &code));
    return load_code(ctx, code, facts, &unit->module);
}

/* ---- records ---- */

static wick_status unit_of(wick_ctx *ctx, wick_device *device, unit_record **out)
{
    unit_record *unit = __atomic_load_n(&device->host, __ATOMIC_ACQUIRE);
    if (!unit) {
        size_t n = (size_t)wick_device_count();
        unit_record *made = wick_calloc(1, sizeof *made + n * sizeof made->on[0]);
        if (!made) return wick_fail(ctx, WICK_ENOMEM, "out of memory");
        pthread_mutex_init(&made->lock, NULL);
        void *found = NULL;
        if (__atomic_compare_exchange_n(&device->host, &found, made, false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_ACQUIRE)) {
            unit = made;
        } else {
            unit = found;
            pthread_mutex_destroy(&made->lock);
            wick_free(made);
        }
    }
    *out = unit;
    return WICK_OK;
}

/* Under the unit's lock. */
static wick_status record_of(wick_ctx *ctx, wick_kernel *kernel, wick_kernel_record **out)
{
    *out = kernel->host;
    if (*out) return WICK_OK;
    size_t n = (size_t)wick_device_count();
    wick_kernel_record *record = wick_calloc(1, sizeof *record + n * sizeof record->on[0]);
    if (!record) return wick_fail(ctx, WICK_ENOMEM, "out of memory");
    record->n_devices = (int32_t)n;
    __atomic_store_n(&kernel->host, record, __ATOMIC_RELEASE);
    *out = record;
    return WICK_OK;
}

static wick_status find_function(wick_ctx *ctx, const wick_kernel *kernel, cu_module module,
                                 const wick_cuda_facts *facts, wick_launchable *k)
{
    cu_function function = NULL;
    int threads = 0, shared = 0, registers = 0, dynamic = 0;
    cu_result result = cuda.cuModuleGetFunction(&function, module, kernel->name);
    if (result == CU_NOT_FOUND)
        return wick_fail(ctx, WICK_ENOTSUP,
                         "the device code loaded for sm_%d (%s) has no kernel of that name",
                         (int)facts->arch, facts->name);
    if (!result)
        result = cuda.cuFuncGetAttribute(&threads, CU_FUNC_MAX_THREADS_PER_BLOCK, function);
    if (!result) result = cuda.cuFuncGetAttribute(&shared, CU_FUNC_SHARED_SIZE_BYTES, function);
    if (!result) result = cuda.cuFuncGetAttribute(&registers, CU_FUNC_NUM_REGS, function);
    if (!result)
        result = cuda.cuFuncGetAttribute(&dynamic, CU_FUNC_MAX_DYNAMIC_SHARED_SIZE_BYTES, function);
    if (result) return wick_driver_fail(ctx, result, "its attributes cannot be read");
    k->facts = facts;
    k->max_threads = threads;
    k->registers = registers;
    k->static_bytes = shared;
    /* Beyond what every device has, a launch must be allowed to ask. */
    int64_t unasked = facts->shared_per_block - shared;
    if (unasked > dynamic) unasked = dynamic;
    __atomic_store_n(&k->dynamic_bytes, unasked > 0 ? unasked : 0, __ATOMIC_RELAXED);
    __atomic_store_n(&k->function, function, __ATOMIC_RELEASE);
    return WICK_OK;
}

/* ---- preparing ---- */

/* The unit's lock is held and the device's context current. */
static wick_status prepare_locked(wick_ctx *ctx, wick_kernel *kernel, unit_record *unit,
                                  int32_t device, wick_launchable **out)
{
    wick_kernel_record *record = NULL;
    const wick_cuda_facts *facts = NULL;
    WICK_TRY(record_of(ctx, kernel, &record));
    wick_launchable *k = &record->on[device];
    if (!k->function) {
        WICK_TRY(wick_cuda_device_facts(ctx, device, &facts));
        WICK_TRY(wick_device_context(ctx, device, &k->context));
        WICK_TRY(load_unit(ctx, kernel->device, &unit->on[device], facts));
        WICK_TRY(find_function(ctx, kernel, unit->on[device].module, facts, k));
    }
    *out = k;
    return WICK_OK;
}

/* Loading allocates and may wait, which a capture in this or another thread forbids unless this
 * thread says that it knows. */
static wick_status prepare_relaxed(wick_ctx *ctx, wick_kernel *kernel, int32_t device,
                                   wick_launchable **out)
{
    unit_record *unit = NULL;
    bool pushed = false;
    WICK_TRY(unit_of(ctx, kernel->device, &unit));
    WICK_TRY(wick_device_enter(ctx, device, &pushed));
    pthread_mutex_lock(&unit->lock);
    wick_status s = prepare_locked(ctx, kernel, unit, device, out);
    pthread_mutex_unlock(&unit->lock);
    wick_device_leave(pushed);
    return s;
}

wick_status wick_code_prepare(wick_ctx *ctx, wick_kernel *kernel, int32_t device,
                              wick_launchable **out)
{
    const wick_cuda_facts *facts = NULL;
    int mode = CU_CAPTURE_MODE_RELAXED;
    wick_status s = wick_cuda_device_facts(ctx, device, &facts); /* there is such a device */
    if (s == WICK_OK) {
        cu_result result = cuda.cuThreadExchangeStreamCaptureMode(&mode);
        if (result) s = wick_driver_fail(ctx, result, "the stream's capture mode cannot be set");
    }
    if (s == WICK_OK) {
        s = prepare_relaxed(ctx, kernel, device, out);
        cuda.cuThreadExchangeStreamCaptureMode(&mode);
    }
    /* What does not compile begins with FILE:LINE. */
    if (s != WICK_OK && s != WICK_ECOMPILE) wick_ctx_prefix(ctx, "kernel %s: ", kernel->name);
    return s;
}

wick_status wick_code_allow_shared(wick_ctx *ctx, wick_kernel *kernel, wick_launchable *k,
                                   int64_t bytes)
{
    unit_record *unit = __atomic_load_n(&kernel->device->host, __ATOMIC_ACQUIRE);
    cu_result result = 0;
    pthread_mutex_lock(&unit->lock);
    if (bytes > __atomic_load_n(&k->dynamic_bytes, __ATOMIC_RELAXED)) {
        result =
            cuda.cuFuncSetAttribute(k->function, CU_FUNC_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)bytes);
        if (!result) __atomic_store_n(&k->dynamic_bytes, bytes, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&unit->lock);
    if (result)
        return wick_driver_fail(ctx, result,
                                "kernel %s: %lld bytes of dynamic shared memory are not granted",
                                kernel->name, (long long)bytes);
    return WICK_OK;
}
