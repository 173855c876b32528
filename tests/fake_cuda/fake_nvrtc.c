/* fake_nvrtc.c -- a stand-in for NVRTC: see fake_nvrtc.h */
#include "fake_nvrtc.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define PROTOTYPE(name, parameters) EXPORT nvrtc_result name parameters;
NVRTC(PROTOTYPE)
EXPORT const char *nvrtcGetErrorString(nvrtc_result result);
EXPORT fake_nvrtc *fake_nvrtc_state(void);

enum { COMPILATION = 6, INVALID_OPTION = 5 };

struct _nvrtcProgram {
    char *text, *name;
    char log[512], code[1024];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static fake_nvrtc state = {.fail_function = -1};
static const int archs[] = {90, 75, 80, 100};

fake_nvrtc *fake_nvrtc_state(void) { return &state; }

/* The code with which this call fails, or 0. */
static int injected(int function)
{
    pthread_mutex_lock(&lock);
    bool fails = state.fail_function == function;
    if (fails) state.fail_function = -1;
    pthread_mutex_unlock(&lock);
    return fails ? state.fail_code : 0;
}

const char *nvrtcGetErrorString(nvrtc_result result)
{
    static const char *const words[] = {"NVRTC_SUCCESS",
                                        "NVRTC_ERROR_OUT_OF_MEMORY",
                                        "NVRTC_ERROR_PROGRAM_CREATION_FAILURE",
                                        "NVRTC_ERROR_INVALID_INPUT",
                                        "NVRTC_ERROR_INVALID_PROGRAM",
                                        "NVRTC_ERROR_INVALID_OPTION",
                                        "NVRTC_ERROR_COMPILATION"};
    return result >= 0 && result < WICK_COUNT(words) ? words[result] : "unknown";
}

nvrtc_result nvrtcVersion(int *major, int *minor)
{
    *major = 13;
    *minor = 0;
    return injected(FAKE_nvrtcVersion);
}

nvrtc_result nvrtcGetNumSupportedArchs(int *out)
{
    *out = WICK_COUNT(archs);
    return injected(FAKE_nvrtcGetNumSupportedArchs);
}

nvrtc_result nvrtcGetSupportedArchs(int *out)
{
    memcpy(out, archs, sizeof archs);
    return injected(FAKE_nvrtcGetSupportedArchs);
}

static char *copy(const char *s)
{
    char *c = malloc(strlen(s) + 1);
    if (!c) abort();
    return strcpy(c, s);
}

nvrtc_result nvrtcCreateProgram(nvrtc_program *out, const char *text, const char *name, int n,
                                const char *const *headers, const char *const *names)
{
    int code = injected(FAKE_nvrtcCreateProgram);
    (void)headers;
    if (code) return code;
    struct _nvrtcProgram *p = calloc(1, sizeof *p);
    if (!p) abort();
    p->text = copy(text);
    p->name = copy(name);
    pthread_mutex_lock(&lock);
    state.programs++;
    state.headers[0] = '\0';
    for (int i = 0; i < n; i++)
        strncat(state.headers, names[i], sizeof state.headers - strlen(state.headers) - 1);
    pthread_mutex_unlock(&lock);
    *out = p;
    return 0;
}

nvrtc_result nvrtcDestroyProgram(nvrtc_program *program)
{
    free((*program)->text);
    free((*program)->name);
    free(*program);
    *program = NULL;
    pthread_mutex_lock(&lock);
    state.programs--;
    pthread_mutex_unlock(&lock);
    return 0;
}

static void record_options(int n, const char *const *options)
{
    pthread_mutex_lock(&lock);
    state.options[0] = '\0';
    for (int i = 0; i < n; i++) {
        size_t used = strlen(state.options);
        snprintf(state.options + used, sizeof state.options - used, "%s%s", i ? " " : "",
                 options[i]);
    }
    pthread_mutex_unlock(&lock);
}

/* "cubin sm_90" or "ptx sm_90", then the kernels' names. */
static int emit(struct _nvrtcProgram *p, const char *option)
{
    static const char global[] = "__global__ void ";
    const char *value = strchr(option, '=');
    if (!value) return INVALID_OPTION;
    bool is_ptx = !strncmp(value + 1, "compute_", 8);
    size_t used = (size_t)snprintf(p->code, sizeof p->code, "%s sm_%s\n", is_ptx ? "ptx" : "cubin",
                                   strchr(value, '_') + 1);
    for (const char *at = strstr(p->text, global); at; at = strstr(at, global)) {
        at += strlen(global);
        used += (size_t)snprintf(p->code + used, sizeof p->code - used, "%.*s\n",
                                 (int)strcspn(at, "("), at);
    }
    return 0;
}

nvrtc_result nvrtcCompileProgram(nvrtc_program p, int n, const char *const *options)
{
    int code = injected(FAKE_nvrtcCompileProgram);
    record_options(n, options);
    const char *bad = strstr(p->text, "#error ");
    if (!code && bad) {
        snprintf(p->log, sizeof p->log,
                 "%s(1): warning #177-D: unused\n%s(2): error: #error %.*s\n\n1 error detected in "
                 "the compilation of \"%s\".\n",
                 p->name, p->name, (int)strcspn(bad + 7, "\n"), bad + 7, p->name);
        return COMPILATION;
    }
    return code ? code : emit(p, options[0]);
}

nvrtc_result nvrtcGetCUBINSize(nvrtc_program p, size_t *out)
{
    *out = strlen(p->code) + 1;
    return injected(FAKE_nvrtcGetCUBINSize);
}

nvrtc_result nvrtcGetCUBIN(nvrtc_program p, char *out)
{
    memcpy(out, p->code, strlen(p->code) + 1);
    return injected(FAKE_nvrtcGetCUBIN);
}

nvrtc_result nvrtcGetPTXSize(nvrtc_program p, size_t *out)
{
    *out = strlen(p->code) + 1;
    return injected(FAKE_nvrtcGetPTXSize);
}

nvrtc_result nvrtcGetPTX(nvrtc_program p, char *out)
{
    memcpy(out, p->code, strlen(p->code) + 1);
    return injected(FAKE_nvrtcGetPTX);
}

nvrtc_result nvrtcGetProgramLogSize(nvrtc_program p, size_t *out)
{
    *out = strlen(p->log) + 1;
    return injected(FAKE_nvrtcGetProgramLogSize);
}

nvrtc_result nvrtcGetProgramLog(nvrtc_program p, char *out)
{
    memcpy(out, p->log, strlen(p->log) + 1);
    return injected(FAKE_nvrtcGetProgramLog);
}
