/* trampolines.c -- the pool of kernels, 2048 for each of the three places an operator has in
 * torch's dispatcher
 *
 * The slot's number goes last, so that each function is two instructions: load it, jump.
 * The digits of a slot's number are part of its function's name: backend_b00000000011 serves
 * slot 3.
 */
#include "trampolines.h"

/* The slot's number, from the order of definition: the enumerators count up as the list is written.
 */
#define NUMBER(n) SLOT_##n,
enum { TIMES_2048(NUMBER) N_SLOTS };
#undef NUMBER

_Static_assert((int)N_SLOTS == (int)WICK_MAX_REGISTRATIONS, "the pool and its limit must agree");

#define DEFINE(n)                                                                                  \
    static void backend_##n(torch_ivalue *stack, uint64_t n_args, uint64_t n_results)              \
    {                                                                                              \
        wick_boxed_backend(stack, n_args, n_results, SLOT_##n);                                    \
    }                                                                                              \
    static void gate_##n(torch_ivalue *stack, uint64_t n_args, uint64_t n_results)                 \
    {                                                                                              \
        wick_boxed_gate(stack, n_args, n_results, SLOT_##n);                                       \
    }                                                                                              \
    static void batch_##n(torch_ivalue *stack, uint64_t n_args, uint64_t n_results)                \
    {                                                                                              \
        wick_boxed_batch(stack, n_args, n_results, SLOT_##n);                                      \
    }
TIMES_2048(DEFINE)
#undef DEFINE

#define BACKEND(n) backend_##n,
#define GATE(n) gate_##n,
#define BATCH(n) batch_##n,
static const torch_kernel backends[] = {TIMES_2048(BACKEND)};
static const torch_kernel gates[] = {TIMES_2048(GATE)};
static const torch_kernel batches[] = {TIMES_2048(BATCH)};

torch_kernel wick_trampoline_backend(int i) { return backends[i]; }
torch_kernel wick_trampoline_gate(int i) { return gates[i]; }
torch_kernel wick_trampoline_batch(int i) { return batches[i]; }
