/* fake_nvrtc.h -- a stand-in for NVRTC, in a shared object of its own
 *
 * It "compiles" a text into what the stand-in driver loads: a line per `__global__ void NAME(`. A
 * text with a line `#error WORDS` does not compile. Tests reach the state by fake_nvrtc_state
 * (dlsym).
 */
#ifndef WICK_FAKE_NVRTC_H
#define WICK_FAKE_NVRTC_H

#include "nvrtc.h"

enum {
#define FAKE_NUMBER(name, parameters) FAKE_##name,
    NVRTC(FAKE_NUMBER)
#undef FAKE_NUMBER
        FAKE_NVRTC_FUNCTIONS
};

typedef struct fake_nvrtc {
    /* the next call of this function fails with this code; -1: none */
    int fail_function, fail_code;
    int programs; /* created and not destroyed */
    /* of the last compilation: its options joined by spaces, the names of its headers */
    char options[512], headers[256];
} fake_nvrtc;

#define FAKE_NVRTC_STATE "fake_nvrtc_state"

#endif /* WICK_FAKE_NVRTC_H */
