/* bridge_support.h -- operators registered with the stand-in, and stacks to call them with */
#ifndef WICK_TESTS_BRIDGE_SUPPORT_H
#define WICK_TESTS_BRIDGE_SUPPORT_H

#include "bridge.h"
#include "fake_torch.h"
#include "support.h"

/* Finds the stand-in. */
void torch_begin(void);
/* The same, and the bridge learns where the stand-in keeps what. */
void torch_begin_with_internals(void);
/* What Python tells the bridge of a tensor; and a set of tensors from which everything can be
 * learnt, if nothing is hidden. */
wick_torch_example example_of(torch_handle handle, wick_torch_tensor_kind kind);
bool learn_all(void);

/* A torch before 2.13: boxes come from C++'s operator new. */
void use_old_boxes(void);

void register_op(wick_op *op);
/* define_op, or define_on, and register_op. */
wick_op *registered(const char *name, const char *signature, wick_entry cpu);
wick_op *registered_on(const char *name, const char *signature, wick_entry cpu, wick_entry cuda);

/* ---- stacks ---- */

torch_ivalue put_tensor(torch_handle handle);
torch_ivalue put_box(torch_ivalue value);
torch_ivalue put_float(double f);
torch_ivalue put_string(const char *text);
torch_ivalue put_sizes(int n, const int64_t *sizes);
torch_handle get_tensor(torch_ivalue value);
/* Takes a boxed result apart; the box is gone afterwards. */
torch_handle get_boxed(torch_ivalue value);
double get_float(torch_ivalue value);
/* A contiguous f32 tensor that counts up from 1. */
torch_handle counting(int dim, const int64_t *size);
#define COUNTING(...)                                                                              \
    counting((int)(sizeof SIZES(__VA_ARGS__) / sizeof(int64_t)), SIZES(__VA_ARGS__))
void drop(torch_handle handle);

/* Runs local::name's kernel; what it raised, or NULL. */
const char *run_backend(const char *name, torch_ivalue *stack);
const char *run_gate(const char *name, torch_ivalue *stack);
const char *run_batch(const char *name, torch_ivalue *stack);

/* No handle, storage, box, string or list is out. */
#define cr_assert_nothing_live()                                                                   \
    do {                                                                                           \
        fake_counts live_ = fake_live();                                                           \
        cr_assert_eq(live_.handles, 0, "%ld handles", live_.handles);                              \
        cr_assert_eq(live_.storages, 0, "%ld storages", live_.storages);                           \
        cr_assert_eq(live_.boxes, 0, "%ld boxes", live_.boxes);                                    \
        cr_assert_eq(live_.strings, 0, "%ld strings", live_.strings);                              \
        cr_assert_eq(live_.lists, 0, "%ld lists", live_.lists);                                    \
    } while (0)

#define cr_assert_ran(call)                                                                        \
    do {                                                                                           \
        const char *raised_ = call;                                                                \
        cr_assert_null(raised_, "%s", raised_ ? raised_ : "");                                     \
    } while (0)

#define cr_assert_raises(call, words)                                                              \
    do {                                                                                           \
        const char *raised_ = call;                                                                \
        cr_assert_not_null(raised_);                                                               \
        cr_assert_str_eq(raised_, words);                                                          \
    } while (0)

#endif /* WICK_TESTS_BRIDGE_SUPPORT_H */
