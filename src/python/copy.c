/* copy.c -- a plain copy over torch's threads: what a benchmark measures a machine's bandwidth with
 *
 * Out of memory, the same loop as STREAM's copy: the C library's own is slower there on some
 * machines, and much faster inside the caches. Beside them a copy whose stores pass the caches by,
 * which need not read what they overwrite: the largest rate is what an operator can hope for.
 */
#include "extension.h"

#include <string.h>

typedef enum copy_way { COPY_LIBRARY, COPY_LOOP, COPY_STREAMING, COPY_WAYS } copy_way;

typedef struct copy_job {
    char *to;
    const char *from;
    copy_way way;
} copy_job;

enum { LINE = 64 };

#if defined(__SSE2__)
#include <emmintrin.h>

#define COPY_LINES(store)                                                                          \
    for (int64_t i = 0; i < bytes; i += LINE) {                                                    \
        for (int k = 0; k < LINE; k += (int)sizeof(__m128i)) {                                     \
            const __m128i *v = (const __m128i *)(const void *)(from + i + k);                      \
            store((__m128i *)(void *)(to + i + k), _mm_load_si128(v));                             \
        }                                                                                          \
        __asm__ volatile("" ::: "memory"); /* stays a loop: no call of memcpy */                   \
    }

static void copy_in_a_loop(char *to, const char *from, int64_t bytes)
{
    COPY_LINES(_mm_store_si128)
}

static void copy_past_the_caches(char *to, const char *from, int64_t bytes)
{
    COPY_LINES(_mm_stream_si128)
    _mm_sfence();
}
#else
static void copy_in_a_loop(char *to, const char *from, int64_t bytes)
{
    for (int64_t i = 0; i < bytes; i += (int64_t)sizeof(uint64_t)) {
        *(uint64_t *)(void *)(to + i) = *(const uint64_t *)(const void *)(from + i);
        if (i % LINE == 0) __asm__ volatile("" ::: "memory"); /* stays a loop: no call of memcpy */
    }
}

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
    const int64_t bytes = (end - begin) * LINE;
    if (job->way == COPY_STREAMING)
        copy_past_the_caches(to, from, bytes);
    else if (job->way == COPY_LOOP)
        copy_in_a_loop(to, from, bytes);
    else
        memcpy(to, from, (size_t)bytes);
    return WICK_OK;
}

PyObject *copy_bytes(PyObject *module, PyObject *args)
{
    unsigned long long to, from;
    long long bytes, grain, repeats;
    int way;
    wick_status status = WICK_OK;
    wick_ctx ctx;
    (void)module;
    if (!PyArg_ParseTuple(args, "KKLLiL", &to, &from, &bytes, &grain, &way, &repeats)) return NULL;
    if (!to || !from || bytes < 0 || bytes % LINE || to % LINE || from % LINE || grain < LINE) {
        PyErr_SetString(PyExc_ValueError, "copy: addresses, sizes and grain are multiples of 64");
        return NULL;
    }
    if (way < 0 || way >= COPY_WAYS) {
        PyErr_Format(PyExc_ValueError, "copy: way is %d, expected 0 to %d", way, COPY_WAYS - 1);
        return NULL;
    }
    copy_job job = {(char *)(uintptr_t)to, (const char *)(uintptr_t)from, (copy_way)way};
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
