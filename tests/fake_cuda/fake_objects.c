/* fake_objects.c -- code, functions and memory of the stand-in driver */
#define _DEFAULT_SOURCE 1 /* MAP_ANONYMOUS */
#include "fake_cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    INVALID_IMAGE = 200,
    INVALID_CONTEXT = 201,
    NO_BINARY = 209,
    INVALID_PTX = 218,
    NOT_FOUND = 500,
    DYNAMIC_FIRST = 49152
};

/* All that were ever made: nothing unloads them. Guarded by the driver's lock. */
static struct CUmod_st *modules;
static struct CUfunc_st *functions;

/* ---- code ---- */

/* The JIT's log goes where the options say. */
static void write_log(unsigned n, const int *options, void **values, const char *words)
{
    char *to = NULL;
    size_t room = 0;
    for (unsigned i = 0; i < n; i++) {
        if (options[i] == CU_JIT_ERROR_LOG_BUFFER) to = values[i];
        if (options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES) room = (size_t)(uintptr_t)values[i];
    }
    if (to && room) snprintf(to, room, "%s", words);
}

static int check_image(const char *text, int device, bool *is_bad)
{
    char kind[8] = "";
    int arch = 0, at = fake_state.arch[device];
    if (sscanf(text, "%7s sm_%d", kind, &arch) != 2) return INVALID_IMAGE;
    bool is_ptx = !strcmp(kind, "ptx");
    if (!is_ptx && strcmp(kind, "cubin") != 0) return INVALID_IMAGE;
    if (arch > at || (!is_ptx && arch / 10 != at / 10)) return NO_BINARY;
    *is_bad = is_ptx && strstr(text, "\nbad\n");
    return *is_bad ? INVALID_PTX : 0;
}

cu_result cuModuleLoadDataEx(cu_module *out, const void *image, unsigned n, int *options,
                             void **values)
{
    int code = fake_enter(FAKE_cuModuleLoadDataEx);
    const struct CUctx_st *current = fake_current();
    bool is_bad = false;
    if (!code) code = fake_unsafe();
    if (!code && !current) code = INVALID_CONTEXT;
    if (!code) code = check_image(image, current->device, &is_bad);
    if (is_bad) write_log(n, options, values, "line 2: syntax error at 'bad'");
    if (!code) {
        struct CUmod_st *module = calloc(1, sizeof *module);
        size_t bytes = strlen(image) + 1;
        char *text = malloc(bytes);
        if (!module || !text) abort();
        memcpy(text, image, bytes);
        module->device = current->device;
        module->text = text;
        module->next = modules;
        modules = module;
        fake_state.modules++;
        *out = module;
    }
    return fake_leave(code);
}

static int property(const char *line, size_t n, const char *name, int otherwise)
{
    const char *found = strstr(line, name);
    return found && found < line + n ? atoi(found + strlen(name)) : otherwise;
}

/* The kernel's line of the code, or NULL; how long it is. */
static const char *find_line(const char *text, const char *name, size_t *length)
{
    size_t n = strlen(name);
    for (const char *line = text; *line; line += strspn(line, "\n")) {
        *length = strcspn(line, "\n");
        if (!strncmp(line, name, n) && (*length == n || line[n] == ' ')) return line;
        line += *length;
    }
    return NULL;
}

cu_result cuModuleGetFunction(cu_function *out, cu_module module, const char *name)
{
    int code = fake_enter(FAKE_cuModuleGetFunction);
    size_t n = 0;
    const char *line = code ? NULL : find_line(module->text, name, &n);
    if (!code && !line) code = NOT_FOUND;
    if (!code) {
        struct CUfunc_st *f = calloc(1, sizeof *f);
        if (!f) abort();
        f->module = module;
        snprintf(f->name, sizeof f->name, "%s", name);
        f->threads = property(line, n, "threads=", 1024);
        f->shared = property(line, n, "shared=", 0);
        f->dynamic = DYNAMIC_FIRST - f->shared;
        f->next = functions;
        functions = f;
        *out = f;
    }
    return fake_leave(code);
}

cu_result cuFuncGetAttribute(int *out, int attribute, cu_function f)
{
    int code = fake_enter(FAKE_cuFuncGetAttribute);
    switch (attribute) {
    case CU_FUNC_MAX_THREADS_PER_BLOCK: *out = f->threads; break;
    case CU_FUNC_SHARED_SIZE_BYTES: *out = f->shared; break;
    case CU_FUNC_NUM_REGS: *out = 65536 / f->threads; break;
    case CU_FUNC_MAX_DYNAMIC_SHARED_SIZE_BYTES: *out = f->dynamic; break;
    default: code = INVALID_VALUE;
    }
    return fake_leave(code);
}

cu_result cuFuncSetAttribute(cu_function f, int attribute, int value)
{
    enum { OPT_IN = 232448 };
    int code = fake_enter(FAKE_cuFuncSetAttribute);
    bool fits = value >= 0 && value + f->shared <= OPT_IN;
    if (!code && (attribute != CU_FUNC_MAX_DYNAMIC_SHARED_SIZE_BYTES || !fits))
        code = INVALID_VALUE;
    if (!code) f->dynamic = value;
    return fake_leave(code);
}

/* ---- memory ---- */

cu_result cuMemcpyAsync(cu_address to, cu_address from, size_t bytes, cu_stream stream)
{
    int code = fake_enter(FAKE_cuMemcpyAsync);
    (void)stream;
    if (!code && !fake_current()) code = INVALID_CONTEXT;
    if (!code) memcpy((void *)(uintptr_t)to, (const void *)(uintptr_t)from, bytes);
    return fake_leave(code);
}

#ifndef FAKE_NO_POOLS
cu_result cuMemAllocAsync(cu_address *out, size_t bytes, cu_stream stream)
{
    int code = fake_enter(FAKE_cuMemAllocAsync);
    (void)stream;
    if (!code && !fake_current()) code = INVALID_CONTEXT;
    if (!code && bytes == 0) code = INVALID_VALUE;
    if (!code && bytes > (size_t)1 << 40) code = OUT_OF_MEMORY;
    if (!code) {
        void *p = malloc(bytes);
        if (!p) abort();
        *out = (cu_address)(uintptr_t)p;
        fake_state.allocations++;
    }
    return fake_leave(code);
}

cu_result cuMemFreeAsync(cu_address address, cu_stream stream)
{
    int code = fake_enter(FAKE_cuMemFreeAsync);
    (void)stream;
    if (!code && !fake_current()) code = INVALID_CONTEXT;
    if (!code) {
        free((void *)(uintptr_t)address);
        fake_state.allocations--;
    }
    return fake_leave(code);
}

/* ---- memory apart from its addresses ---- */

enum { GRANULARITY = 1 << 16 };

static int fake_enter_current(int function)
{
    int code = fake_enter(function);
    return !code && !fake_current() ? INVALID_CONTEXT : code;
}

cu_result cuMemGetAllocationGranularity(size_t *out, const cu_memory_kind *kind, int option)
{
    int code = fake_enter_current(FAKE_cuMemGetAllocationGranularity);
    (void)option;
    if (!code && (kind->type != 1 || kind->where.type != 1)) code = INVALID_VALUE;
    if (!code) *out = GRANULARITY;
    return fake_leave(code);
}

cu_result cuMemAddressReserve(cu_address *out, size_t bytes, size_t alignment, cu_address at,
                              unsigned long long flags)
{
    int code = fake_enter_current(FAKE_cuMemAddressReserve);
    if (!code && (bytes % GRANULARITY || alignment || at || flags)) code = INVALID_VALUE;
    if (!code) {
        void *p = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (p == MAP_FAILED) abort();
        *out = (cu_address)(uintptr_t)p;
        fake_state.reservations++;
    }
    return fake_leave(code);
}

cu_result cuMemAddressFree(cu_address at, size_t bytes)
{
    int code = fake_enter_current(FAKE_cuMemAddressFree);
    if (!code && fake_state.mappings >= fake_state.reservations) code = INVALID_VALUE; /* in use */
    if (!code && munmap((void *)(uintptr_t)at, bytes)) code = INVALID_VALUE;
    if (!code) fake_state.reservations--;
    return fake_leave(code);
}

cu_result cuMemCreate(cu_memory *out, size_t bytes, const cu_memory_kind *kind,
                      unsigned long long flags)
{
    int code = fake_enter_current(FAKE_cuMemCreate);
    if (!code && (bytes % GRANULARITY || kind->where.type != 1 || flags)) code = INVALID_VALUE;
    if (!code && bytes > (size_t)1 << 40) code = OUT_OF_MEMORY;
    if (!code) {
        *out = bytes; /* all that there is to know of it */
        fake_state.allocations++;
    }
    return fake_leave(code);
}

cu_result cuMemRelease(cu_memory memory)
{
    int code = fake_enter_current(FAKE_cuMemRelease);
    if (!code && memory == 0) code = INVALID_VALUE;
    if (!code) fake_state.allocations--;
    return fake_leave(code);
}

cu_result cuMemMap(cu_address at, size_t bytes, size_t offset, cu_memory memory,
                   unsigned long long flags)
{
    int code = fake_enter_current(FAKE_cuMemMap);
    if (!code && (at % 4096 || offset || bytes != memory || flags)) code = INVALID_VALUE;
    if (!code) fake_state.mappings++;
    return fake_leave(code);
}

cu_result cuMemUnmap(cu_address at, size_t bytes)
{
    int code = fake_enter_current(FAKE_cuMemUnmap);
    if (!code && mprotect((void *)(uintptr_t)at, bytes, PROT_NONE)) code = INVALID_VALUE;
    if (!code) fake_state.mappings--;
    return fake_leave(code);
}

/* Nobody can use it before. */
cu_result cuMemSetAccess(cu_address at, size_t bytes, const cu_memory_access *access, size_t count)
{
    int code = fake_enter_current(FAKE_cuMemSetAccess);
    if (!code && (count != 1 || access->where.type != 1 || access->flags != 3))
        code = INVALID_VALUE;
    if (!code && mprotect((void *)(uintptr_t)at, bytes, PROT_READ | PROT_WRITE))
        code = INVALID_VALUE;
    return fake_leave(code);
}
#endif
