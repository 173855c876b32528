/* world.h -- a host whose tensors are on any device that is asked for, and which counts */
#ifndef WICK_TESTS_WORLD_H
#define WICK_TESTS_WORLD_H

#include "support.h"

typedef struct test_world {
    int live, n_empty, n_copied, n_written, n_streams;
    int fail_at; /* the n-th empty, copy, written or stream fails; 0: none */
    wick_tensor written_tensor, last_empty;
} test_world;

extern test_world world;
extern const wick_host world_host;

/* The stream that the host names for a device. */
void *stream_of(int device_index);

wick_status invoke_in(const wick_host *host, wick_op *op, const wick_value *args,
                      wick_value *results);
wick_status invoke(wick_op *op, const wick_value *args, wick_value *results);
/* The same tensor on a device, with strides. */
wick_value on(wick_value tensor, int device_type, int device_index);

#define cr_assert_invoke_refused(op, args, results, status, message)                               \
    do {                                                                                           \
        cr_assert_eq(invoke(op, args, results), status);                                           \
        cr_assert_str_eq(wick_ctx_message(&test_ctx), message);                                    \
        cr_assert_eq(world.live, 0);                                                               \
    } while (0)

#endif /* WICK_TESTS_WORLD_H */
