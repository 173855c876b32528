/* driver.c -- libcuda.so.1 by dlopen: its functions, its words for errors
 *
 * Opened at the first use and never closed. What fails is tried again by the next call: a driver
 * that could not be initialised for want of a device file may be there later. $WICK_CUDA_DRIVER
 * names another file, such as the stand-in of the tests.
 */
#include "driver.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

cuda_driver cuda;

static pthread_mutex_t driver_lock = PTHREAD_MUTEX_INITIALIZER;
static void *driver_library;       /* guarded by the lock */
static atomic_bool driver_is_open; /* initialised as well */

const char *wick_driver_file(void)
{
    const char *given = getenv("WICK_CUDA_DRIVER");
    return given && *given ? given : "libcuda.so.1";
}

/* Looks every function up; returns the first required one that is missing, or NULL. */
static const char *resolve_functions(void *library)
{
    const char *missing = NULL;
#define RESOLVE_OPTIONAL(name, parameters)                                                         \
    {                                                                                              \
        void *symbol = dlsym(library, #name);                                                      \
        memcpy(&cuda.name, &symbol, sizeof symbol);                                                \
    }
#define RESOLVE(name, parameters)                                                                  \
    RESOLVE_OPTIONAL(name, parameters)                                                             \
    if (!cuda.name && !missing) missing = #name;
    CUDA_DRIVER(RESOLVE, RESOLVE_OPTIONAL)
#undef RESOLVE
#undef RESOLVE_OPTIONAL
    return missing;
}

/* Under the lock. */
static wick_status load_library(wick_ctx *ctx)
{
    if (driver_library) return WICK_OK;
    void *library = dlopen(wick_driver_file(), RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return wick_fail(ctx, WICK_ECUDA, "there is no CUDA driver (%s) here: %s",
                         wick_driver_file(), dlerror());
    const char *missing = resolve_functions(library);
    if (missing) {
        dlclose(library);
        return wick_fail(ctx, WICK_ECUDA,
                         "the CUDA driver (%s) is too old: it has no %s; one of CUDA 11.2 or later "
                         "is needed",
                         wick_driver_file(), missing);
    }
    driver_library = library;
    return WICK_OK;
}

static wick_status initialise(wick_ctx *ctx)
{
    WICK_TRY(load_library(ctx));
    cu_result result = cuda.cuInit(0);
    if (result) return wick_driver_fail(ctx, result, "the CUDA driver does not start");
    return WICK_OK;
}

wick_status wick_driver_open(wick_ctx *ctx)
{
    if (atomic_load_explicit(&driver_is_open, memory_order_acquire)) return WICK_OK;
    pthread_mutex_lock(&driver_lock);
    wick_status s = initialise(ctx);
    if (s == WICK_OK) atomic_store_explicit(&driver_is_open, true, memory_order_release);
    pthread_mutex_unlock(&driver_lock);
    return s;
}

int wick_driver_version(void)
{
    int version = 0;
    wick_ctx ctx;
    wick_ctx_init(&ctx, NULL);
    pthread_mutex_lock(&driver_lock);
    if (load_library(&ctx) == WICK_OK && cuda.cuDriverGetVersion(&version)) version = 0;
    pthread_mutex_unlock(&driver_lock);
    wick_ctx_deinit(&ctx);
    return version;
}

const char *wick_driver_words(cu_result result, char room[CUDA_WORDS])
{
    const char *name = NULL, *text = NULL;
    if (cuda.cuGetErrorName(result, &name) || !name) name = NULL;
    if (cuda.cuGetErrorString(result, &text) || !text) text = "no further words";
    if (name)
        snprintf(room, CUDA_WORDS, "%s (%s)", name, text);
    else
        snprintf(room, CUDA_WORDS, "CUDA error %d (%s)", (int)result, text);
    return room;
}

/* A kernel's fault: nothing works in this context any more. */
static bool is_sticky(cu_result result)
{
    static const int sticky[] = {214 /* ECC */,
                                 220 /* NVLink */,
                                 700 /* illegal address */,
                                 702 /* timeout */,
                                 710 /* assert */,
                                 714 /* stack */,
                                 715 /* illegal instruction */,
                                 716 /* misaligned address */,
                                 717 /* address space */,
                                 718 /* program counter */,
                                 719 /* launch failed */,
                                 721 /* tensor memory */};
    for (int i = 0; i < WICK_COUNT(sticky); i++)
        if (result == sticky[i]) return true;
    return false;
}

static const char *hint_for(cu_result result)
{
    if (result == CU_NOT_INITIALIZED)
        return ": CUDA does not survive a fork; start such a process by spawning it";
    if (is_sticky(result))
        return ": a kernel that was started earlier has failed, and CUDA does nothing more in this "
               "process; run it again with WICK_DEBUG=sync to learn which";
    return "";
}

wick_status wick_driver_fail(wick_ctx *ctx, cu_result result, const char *format, ...)
{
    char room[CUDA_WORDS], what[1024];
    va_list args;
    va_start(args, format);
    /* It has just been started. NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized) */
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    return wick_fail(ctx, result == CU_OUT_OF_MEMORY ? WICK_ENOMEM : WICK_ECUDA, "%s: %s%s", what,
                     wick_driver_words(result, room), hint_for(result));
}
