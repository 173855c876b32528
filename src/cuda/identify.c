/* identify.c -- which GPU this process would see, asked of NVML
 *
 * Asking CUDA itself would initialise it, after which the process can no longer fork: too much for
 * a question whose answer only saves time. NVML counts the GPUs by their place on the bus; CUDA
 * does so when CUDA_DEVICE_ORDER says it, and puts the fastest first otherwise, which is the same
 * where all are equal. $WICK_NVML names another file than libnvidia-ml.so.1.
 */
#include "cuda.h"

#include <ctype.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

typedef struct nvml {
    int (*init)(void);
    int (*shutdown)(void);
    int (*count)(unsigned *);
    int (*handle)(unsigned, void **);
    int (*capability)(void *, int *, int *);
} nvml;

static bool resolve(void *library, const char *name, void *out)
{
    void *symbol = dlsym(library, name);
    memcpy(out, &symbol, sizeof symbol);
    return symbol != NULL;
}

static bool resolve_all(void *library, nvml *out)
{
    return resolve(library, "nvmlInit_v2", &out->init) &&
           resolve(library, "nvmlShutdown", &out->shutdown) &&
           resolve(library, "nvmlDeviceGetCount_v2", &out->count) &&
           resolve(library, "nvmlDeviceGetHandleByIndex_v2", &out->handle) &&
           resolve(library, "nvmlDeviceGetCudaComputeCapability", &out->capability);
}

/* The first of CUDA_VISIBLE_DEVICES; -1: none, or it is not named by its number. */
static long first_visible(void)
{
    const char *list = getenv("CUDA_VISIBLE_DEVICES");
    char *end = NULL;
    if (!list) return 0;
    while (isspace((unsigned char)*list))
        list++;
    if (!isdigit((unsigned char)*list)) return -1;
    long first = strtol(list, &end, 10);
    while (isspace((unsigned char)*end))
        end++;
    return *end == '\0' || *end == ',' ? first : -1;
}

static int32_t ask(const nvml *n, long index)
{
    unsigned count = 0;
    void *device = NULL;
    int major = 0, minor = 0;
    if (n->count(&count) || index >= (long)count) return 0;
    if (n->handle((unsigned)index, &device) || n->capability(device, &major, &minor)) return 0;
    return major * 10 + minor;
}

int32_t wick_cuda_likely_arch(void)
{
    const char *given = getenv("WICK_NVML");
    long index = first_visible();
    int32_t arch = 0;
    nvml n;
    if (index < 0) return 0;
    void *library = dlopen(given && *given ? given : "libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) return 0;
    if (resolve_all(library, &n) && n.init() == 0) {
        arch = ask(&n, index);
        n.shutdown();
    }
    dlclose(library);
    return arch;
}
