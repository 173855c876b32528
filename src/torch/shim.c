/* shim.c -- looks up torch's C functions in the process */
#define _GNU_SOURCE /* RTLD_DEFAULT */
#include "shim.h"

#include <dlfcn.h>
#include <string.h>

_Alignas(64) torch_shim shim;

static const char *const sonames[] = {"libtorch_cpu.so", "libtorch_cuda.so", "libtorch_python.so",
                                      "libc10.so", "libstdc++.so.6"};
enum { N_LIBRARIES = sizeof sonames / sizeof sonames[0] };
static void *libraries[N_LIBRARIES];

void *torch_shim_symbol(const char *name)
{
    void *symbol = NULL;
    for (int i = 0; i < N_LIBRARIES && !symbol; i++)
        if (libraries[i]) symbol = dlsym(libraries[i], name);
    /* Static and stand-in torches: their symbols are in the program itself. */
    return symbol ? symbol : dlsym(RTLD_DEFAULT, name);
}

const char *torch_shim_load(void)
{
    const char *missing = NULL;
    for (int i = 0; i < N_LIBRARIES; i++)
        libraries[i] = dlopen(sonames[i], RTLD_NOLOAD | RTLD_LAZY);

#define RESOLVE_OPTIONAL(result, name, parameters)                                                 \
    {                                                                                              \
        void *symbol = torch_shim_symbol(#name);                                                   \
        memcpy(&shim.name, &symbol, sizeof symbol);                                                \
    }
#define RESOLVE(result, name, parameters)                                                          \
    RESOLVE_OPTIONAL(result, name, parameters)                                                     \
    if (!shim.name && !missing) missing = #name;
    TORCH_SHIM(RESOLVE, RESOLVE_OPTIONAL)
#undef RESOLVE
#undef RESOLVE_OPTIONAL
    if (missing && !libraries[0]) return "libtorch_cpu.so";
    return missing;
}
