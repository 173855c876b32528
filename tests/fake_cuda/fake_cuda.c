/* fake_cuda.c -- devices, contexts, launches and streams of the stand-in driver */
#include "fake_cuda.h"

#include <stdio.h>
#include <string.h>

FAKE_EXPORT fake_cuda *fake_cuda_state(void);

enum { MOST_DEPTH = 16 };
enum {
    INVALID_VALUE = 1,
    NOT_INITIALIZED = 3,
    INVALID_DEVICE = 101,
    INVALID_CONTEXT = 201,
    INVALID_HANDLE = 400,
    OUT_OF_RESOURCES = 701,
    CAPTURE_UNSUPPORTED = 900,
    CAPTURE_IMPLICIT = 906
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool initialised;
static struct CUctx_st primary[FAKE_MOST_DEVICES];
static struct CUctx_st foreign = {.device = 0};
static int pending; /* a fault that nobody has waited for yet */
static _Thread_local struct CUctx_st *stack[MOST_DEPTH];
static _Thread_local int depth;
static _Thread_local int capture_mode;

static int read_depth(void) { return depth; }
static int read_device(void) { return depth ? stack[depth - 1]->device : -1; }
static int read_mode(void) { return capture_mode; }
static void push_foreign(void) { stack[depth++] = &foreign; }

fake_cuda fake_state = {.n_devices = 2,
                        .version = 13000,
                        .arch = {90, 80, 75, 100},
                        .fail_function = -1,
                        .capture_holds = true,
                        .stack_depth = read_depth,
                        .current_device = read_device,
                        .capture_mode = read_mode,
                        .push_foreign = push_foreign};

fake_cuda *fake_cuda_state(void) { return &fake_state; }

/* For calls that undo something: they work after a fault too, and are not made to fail, since there
 * is no way on from there. */
static void enter_surely(int function)
{
    pthread_mutex_lock(&lock);
    fake_state.calls[function]++;
}

int fake_enter(int function)
{
    enter_surely(function);
    bool concerned = fake_state.fail_function < 0 || fake_state.fail_function == function;
    if (concerned && fake_state.fail_nth > 0 && --fake_state.fail_nth == 0)
        return fake_state.fail_code;
    bool early = function == FAKE_cuInit || function == FAKE_cuDriverGetVersion ||
                 function == FAKE_cuGetErrorName || function == FAKE_cuGetErrorString;
    if (early) return 0;
    return initialised ? fake_state.sticky : NOT_INITIALIZED;
}

cu_result fake_leave(int code)
{
    pthread_mutex_unlock(&lock);
    return code;
}

struct CUctx_st *fake_current(void) { return depth ? stack[depth - 1] : NULL; }

int fake_unsafe(void)
{
    if (!fake_state.capturing || capture_mode == CU_CAPTURE_MODE_RELAXED) return 0;
    fake_state.capture_holds = false;
    return CAPTURE_UNSUPPORTED;
}

/* ---- the driver ---- */

cu_result cuInit(unsigned flags)
{
    int code = fake_enter(FAKE_cuInit);
    if (!code) code = flags ? INVALID_VALUE : fake_state.init_result;
    if (!code) initialised = true;
    return fake_leave(code);
}

cu_result cuDriverGetVersion(int *out)
{
    int code = fake_enter(FAKE_cuDriverGetVersion);
    *out = fake_state.version;
    return fake_leave(code);
}

static const struct {
    int code;
    const char *name, *text;
} errors[] = {{1, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
              {2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
              {3, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
              {100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
              {200, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
              {201, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
              {209, "CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available"},
              {218, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"},
              {222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "the PTX is of a later toolchain"},
              {400, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
              {700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
              {701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "too many resources requested"},
              {719, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
              {900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "not permitted while capturing"}};

static const char *words_of(cu_result result, bool name)
{
    for (int i = 0; i < WICK_COUNT(errors); i++)
        if (errors[i].code == result) return name ? errors[i].name : errors[i].text;
    return NULL;
}

cu_result cuGetErrorName(cu_result result, const char **out)
{
    fake_enter(FAKE_cuGetErrorName);
    *out = words_of(result, true);
    return fake_leave(*out ? 0 : INVALID_VALUE);
}

cu_result cuGetErrorString(cu_result result, const char **out)
{
    fake_enter(FAKE_cuGetErrorString);
    *out = words_of(result, false);
    return fake_leave(*out ? 0 : INVALID_VALUE);
}

cu_result cuDeviceGetCount(int *out)
{
    int code = fake_enter(FAKE_cuDeviceGetCount);
    *out = fake_state.n_devices;
    return fake_leave(code);
}

cu_result cuDeviceGet(cu_device *out, int index)
{
    int code = fake_enter(FAKE_cuDeviceGet);
    if (!code && (index < 0 || index >= fake_state.n_devices)) code = INVALID_DEVICE;
    *out = index;
    return fake_leave(code);
}

cu_result cuDeviceGetName(char *out, int room, cu_device device)
{
    int code = fake_enter(FAKE_cuDeviceGetName);
    snprintf(out, (size_t)room, "Stand-in %d", device);
    return fake_leave(code);
}

cu_result cuDeviceGetAttribute(int *out, int attribute, cu_device device)
{
    static const int values[][2] = {{1, 1024},       {2, 1024},     {3, 1024},   {4, 64},
                                    {5, 0x7fffffff}, {6, 65535},    {7, 65535},  {8, 49152},
                                    {16, 132},       {38, 1 << 25}, {97, 232448}};
    int code = fake_enter(FAKE_cuDeviceGetAttribute);
    bool known = false;
    for (int i = 0; i < WICK_COUNT(values); i++) {
        if (values[i][0] != attribute) continue;
        *out = values[i][1];
        known = true;
    }
    if (attribute == 75 || attribute == 76) {
        *out = attribute == 75 ? fake_state.arch[device] / 10 : fake_state.arch[device] % 10;
        known = true;
    }
    return fake_leave(code ? code : known ? 0 : INVALID_VALUE);
}

cu_result cuDevicePrimaryCtxRetain(cu_context *out, cu_device device)
{
    int code = fake_enter(FAKE_cuDevicePrimaryCtxRetain);
    if (!code) {
        primary[device].device = device;
        primary[device].retained++;
        fake_state.contexts_retained++;
        *out = &primary[device];
    }
    return fake_leave(code);
}

cu_result cuCtxGetCurrent(cu_context *out)
{
    int code = fake_enter(FAKE_cuCtxGetCurrent);
    *out = fake_current();
    return fake_leave(code);
}

cu_result cuCtxPushCurrent_v2(cu_context context)
{
    int code = fake_enter(FAKE_cuCtxPushCurrent_v2);
    if (!code && (!context || depth == MOST_DEPTH)) code = INVALID_CONTEXT;
    if (!code) stack[depth++] = context;
    return fake_leave(code);
}

cu_result cuCtxPopCurrent_v2(cu_context *out)
{
    enter_surely(FAKE_cuCtxPopCurrent_v2);
    int code = depth ? 0 : INVALID_CONTEXT;
    if (!code) *out = stack[--depth];
    return fake_leave(code);
}

/* ---- streams and launches ---- */

/* What cuLaunchKernel refuses. */
static int check_launch(const struct CUfunc_st *f, const fake_launch *l)
{
    static const unsigned most_grid[] = {0x7fffffffu, 65535, 65535},
                          most_block[] = {1024, 1024, 64};
    const struct CUctx_st *current = fake_current();
    if (!current) return INVALID_CONTEXT;
    if (current == &foreign || current->device != f->module->device) return INVALID_HANDLE;
    for (int i = 0; i < 3; i++)
        if (l->grid[i] - 1 >= most_grid[i] || l->block[i] - 1 >= most_block[i])
            return INVALID_VALUE;
    unsigned threads = l->block[0] * l->block[1] * l->block[2];
    if (threads > 1024) return INVALID_VALUE;
    if (threads > (unsigned)f->threads) return OUT_OF_RESOURCES;
    return l->shared > (unsigned)f->dynamic ? INVALID_VALUE : 0;
}

cu_result cuLaunchKernel(cu_function f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                         unsigned by, unsigned bz, unsigned shared, cu_stream stream, void **args,
                         void **extra)
{
    fake_launch l = {.device = f->module->device,
                     .grid = {gx, gy, gz},
                     .block = {bx, by, bz},
                     .shared = shared,
                     .stream = stream,
                     .args = args};
    int code = fake_enter(FAKE_cuLaunchKernel);
    if (!code && extra) code = INVALID_VALUE;
    if (!code) code = check_launch(f, &l);
    if (!code) {
        snprintf(l.kernel, sizeof l.kernel, "%s", f->name);
        if (fake_state.n_launches < FAKE_MOST_LAUNCHES)
            fake_state.launches[fake_state.n_launches] = l;
        fake_state.n_launches++;
        if (!strncmp(l.kernel, "faulty", 6)) pending = 700;
    }
    return fake_leave(code);
}

cu_result cuStreamSynchronize(cu_stream stream)
{
    int code = fake_enter(FAKE_cuStreamSynchronize);
    if (!code && stream == fake_state.capturing && stream) code = CAPTURE_UNSUPPORTED;
    if (code == CAPTURE_UNSUPPORTED) fake_state.capture_holds = false;
    if (!code && pending) code = fake_state.sticky = pending;
    return fake_leave(code);
}

cu_result cuStreamIsCapturing(cu_stream stream, int *out)
{
    int code = fake_enter(FAKE_cuStreamIsCapturing);
    if (!code && !stream && fake_state.capturing) code = CAPTURE_IMPLICIT;
    *out = stream && stream == fake_state.capturing;
    return fake_leave(code);
}

#ifndef FAKE_NO_CAPTURE_MODE
cu_result cuThreadExchangeStreamCaptureMode(int *mode)
{
    int code = 0;
    if (*mode == CU_CAPTURE_MODE_RELAXED)
        code = fake_enter(FAKE_cuThreadExchangeStreamCaptureMode);
    else
        enter_surely(FAKE_cuThreadExchangeStreamCaptureMode);
    if (!code) {
        int old = capture_mode;
        capture_mode = *mode;
        *mode = old;
    }
    return fake_leave(code);
}
#endif
