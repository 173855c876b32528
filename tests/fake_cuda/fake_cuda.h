/* fake_cuda.h -- a stand-in for the CUDA driver, in a shared object of its own
 *
 *   fake_cuda.c     devices, contexts, launches, streams; what is recorded and what is made to fail
 *   fake_objects.c  code, functions and memory; everything that is out is counted
 *
 * It refuses what the driver refuses: calls before cuInit, a launch without a context or with a
 * function of another one, too large a grid, memory beyond what was opted in, loading while a
 * capture forbids it. Device code is text: "cubin sm_90" or "ptx sm_90", then one line per kernel,
 * its name with, if wanted, threads=256 shared=1024; PTX with a line "bad" does not compile. A
 * kernel named faulty* fails when its stream is next waited for.
 *
 * Tests reach the state by fake_cuda_state (dlsym). Functions take its lock; tests look when
 * nothing runs.
 */
#ifndef WICK_FAKE_CUDA_H
#define WICK_FAKE_CUDA_H

#include "driver.h"

enum { FAKE_MOST_DEVICES = 4, FAKE_MOST_LAUNCHES = 64 };

/* Every function of the driver, by number. */
enum {
#define FAKE_NUMBER(name, parameters) FAKE_##name,
    CUDA_DRIVER(FAKE_NUMBER, FAKE_NUMBER)
#undef FAKE_NUMBER
        FAKE_FUNCTIONS
};

typedef struct fake_launch {
    char kernel[64];
    int device;
    unsigned grid[3], block[3], shared;
    cu_stream stream;
    void **args;
} fake_launch;

typedef struct fake_cuda {
    /* what there is; may be changed before cuInit */
    int n_devices, version, init_result;
    int arch[FAKE_MOST_DEVICES];
    /* the n-th call from now on of a function (-1: of any) fails with this code; 0 stops */
    int fail_function, fail_nth, fail_code;
    /* a capture is under way on this stream; NULL: none. What breaks it clears `capture_holds`. */
    cu_stream capturing;
    bool capture_holds;
    /* all calls fail with it, as after a kernel's fault; 0: none */
    int sticky;
    /* what happened */
    int calls[FAKE_FUNCTIONS];
    int n_launches;
    fake_launch launches[FAKE_MOST_LAUNCHES];
    int contexts_retained, modules, allocations, reservations, mappings;
    /* of the calling thread: depth of its context stack, the device on top or -1, capture mode */
    int (*stack_depth)(void);
    int (*current_device)(void);
    int (*capture_mode)(void);
    /* makes a context current that is not a primary one */
    void (*push_foreign)(void);
} fake_cuda;

/* The one symbol that tests look up: a fake_cuda *(*)(void). */
#define FAKE_CUDA_STATE "fake_cuda_state"

/* ---- shared by the two files ---- */

struct CUctx_st {
    int device, retained;
};
struct CUmod_st {
    int device;
    char *text; /* NUL-terminated */
    struct CUmod_st *next;
};
struct CUfunc_st {
    struct CUmod_st *module;
    char name[64];
    int threads, shared, dynamic;
    struct CUfunc_st *next;
};

extern fake_cuda fake_state;
/* Takes the lock, counts the call and says whether it is made to fail: with a code that is not 0,
 * the call returns fake_leave(code). */
int fake_enter(int function);
cu_result fake_leave(int code);
struct CUctx_st *fake_current(void);
/* A call that a capture forbids in the thread's mode: a code, or 0. */
int fake_unsafe(void);

#define FAKE_EXPORT __attribute__((visibility("default")))
#define FAKE_PROTOTYPE(name, parameters) FAKE_EXPORT cu_result name parameters;
CUDA_DRIVER(FAKE_PROTOTYPE, FAKE_PROTOTYPE)
#undef FAKE_PROTOTYPE

#endif /* WICK_FAKE_CUDA_H */
