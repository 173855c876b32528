/* copy.c -- a plain copy over torch's threads: what a benchmark measures a machine's bandwidth with
 *
 * The same loop as STREAM's copy. Beside it a copy whose stores pass the caches by, which need not
 * read what they overwrite: the larger of the two rates is what an operator can hope for.
 */
#include "extension.h"

#include <string.h>

typedef struct copy_job {
    char *to;
    const char *from;
    bool streaming;
} copy_job;

enum { LINE = 64 };

#if defined(__SSE2__)
#include <emmintrin.h>

static void copy_past_the_caches(char *to, const char *from, int64_t bytes)
{
    for (int64_t i = 0; i < bytes; i += LINE) {
        for (int k = 0; k < LINE; k += (int)sizeof(__m128i)) {
            const __m128i *v = (const __m128i *)(const void *)(from + i + k);
            _mm_stream_si128((__m128i *)(void *)(to + i + k), _mm_load_si128(v));
        }
    }
    _mm_sfence();
}
#else
static void copy_past_the_caches(char *to, const char *from, int64_t bytes)
{
    memcpy(to, from, (size_t)bytes);
}
#endif

/* In cache lines, so that no two threads write to one. */
static wick_status copy_lines(void *arg, int64_t begin, int64_t end)
{
    const copy_job *job = arg;
    char *to = job->to + begin * LINE;
    const char *from = job->from + begin * LINE;
    if (job->streaming) {
        copy_past_the_caches(to, from, (end - begin) * LINE);
    } else {
        memcpy(to, from, (size_t)((end - begin) * LINE));
    }
    return WICK_OK;
}

PyObject *copy_bytes(PyObject *module, PyObject *args)
{
    unsigned long long to, from;
    long long bytes, grain, repeats;
    int streaming;
    wick_status status = WICK_OK;
    wick_ctx ctx;
    (void)module;
    if (!PyArg_ParseTuple(args, "KKLLpL", &to, &from, &bytes, &grain, &streaming, &repeats))
        return NULL;
    if (!to || !from || bytes < 0 || bytes % LINE || to % LINE || from % LINE || grain < LINE) {
        PyErr_SetString(PyExc_ValueError, "copy: addresses, sizes and grain are multiples of 64");
        return NULL;
    }
    copy_job job = {(char *)(uintptr_t)to, (const char *)(uintptr_t)from, streaming != 0};
    wick_ctx_init(&ctx, &wick_torch_services);
    PyThreadState *thread = PyEval_SaveThread();
    for (long long i = 0; status == WICK_OK && i < repeats; i++) {
        status = ctx.services->parallel(&ctx, bytes / LINE, grain / LINE, copy_lines, &job);
    }
    PyEval_RestoreThread(thread);
    PyObject *result = status == WICK_OK ? Py_BuildValue("") : raise_status(&ctx, status);
    wick_ctx_deinit(&ctx);
    return result;
}
