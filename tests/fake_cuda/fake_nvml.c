/* fake_nvml.c -- a stand-in for NVML: $FAKE_NVML lists the architectures of its GPUs ("90,80"),
 * and "broken" makes it fail to start
 *
 * A library that is used before it was started, or is left started, ends the process.
 */
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
EXPORT int nvmlInit_v2(void);
EXPORT int nvmlShutdown(void);
EXPORT int nvmlDeviceGetCount_v2(unsigned *out);
EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **out);
EXPORT int nvmlDeviceGetCudaComputeCapability(void *device, int *major, int *minor);

enum { MOST = 8, INVALID_ARGUMENT = 2, DRIVER_NOT_LOADED = 9 };

static int archs[MOST];
static unsigned n_archs;
static int started;

int nvmlInit_v2(void)
{
    const char *list = getenv("FAKE_NVML");
    if (!list || !strcmp(list, "broken")) return DRIVER_NOT_LOADED;
    if (started++) abort();
    for (n_archs = 0; *list && n_archs < MOST; list += strspn(list, ",")) {
        archs[n_archs++] = atoi(list);
        list += strcspn(list, ",");
    }
    return 0;
}

int nvmlShutdown(void)
{
    if (!started--) abort();
    return 0;
}

int nvmlDeviceGetCount_v2(unsigned *out)
{
    if (!started) abort();
    *out = n_archs;
    return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **out)
{
    if (!started || index >= n_archs) abort();
    *out = &archs[index];
    return archs[index] ? 0 : INVALID_ARGUMENT;
}

int nvmlDeviceGetCudaComputeCapability(void *device, int *major, int *minor)
{
    const int *arch = device;
    *major = *arch / 10;
    *minor = *arch % 10;
    return 0;
}
