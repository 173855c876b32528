/* test_call_memory.c -- whichever allocation fails, a call and a definition say so and leave
 * nothing */
#include "support.h"

#include "../core/walk.h"

#include <string.h>

static wick_op *op;
static float x[6], y[6], w[3];

static bool scenario_of(const wick_value *args, int n_args, wick_value *results, int n_results)
{
    wick_status s = call(op, args, n_args, results, n_results);
    cr_assert(s == WICK_OK || s == WICK_ENOMEM, "status %d: %s", (int)s,
              wick_ctx_message(&test_ctx));
    if (s != WICK_OK) cr_assert(strstr(wick_ctx_message(&test_ctx), "out of memory"));
    for (int i = 0; i < n_results; i++)
        wick_value_free(&results[i]);
    wick_ctx_clear(&test_ctx);
    return s == WICK_OK;
}

static bool call_with_everything(void)
{
    wick_value args[] = {with_stride(F32(x, 3, 2), SIZES(1, 3)), F32(w, 3),
                         with_stride(F32(y, 3, 2), SIZES(1, 3)), NO_VALUE};
    wick_value results[3] = {0};
    return scenario_of(args, 4, results, 3);
}

Test(call_memory, every_allocation_of_a_call_may_fail)
{
    op = define_op("all",
                   "x: T[N, C], w: f32[N], y!: T[N, C], z?: T[N] -> a: T[N], b?: A[C], n: int "
                   "scratch s: f32[N], t: T[C]"
                   " where T: f32 f64",
                   record_slots);
    /* strides, two stand-ins, two results, two scratch buffers */
    cr_assert_geq(walk_allocation_failures(call_with_everything), 7);
}

static bool call_onto_its_input(void)
{
    wick_value args[] = {F32(x, 6)}, results[] = {F32(x, 6)};
    return scenario_of(args, 1, results, 1);
}

Test(call_memory, every_allocation_of_a_result_that_is_copied_may_fail)
{
    op = define_op("over", "x: f32[N] -> y: f32[N]", record_slots);
    cr_assert_geq(walk_allocation_failures(call_onto_its_input), 2);
}

/* ---- messages ---- */

static wick_value refused_args[2];
static int n_refused;

/* Which allocation fails decides only how much is said. */
static bool refused_call(void)
{
    wick_value results[1] = {0};
    wick_status s = call(op, refused_args, n_refused, results, 1);
    const char *message = wick_ctx_message(&test_ctx);
    cr_assert_neq(s, WICK_OK);
    cr_assert_gt(strlen(message), 0);
    bool complete = s == WICK_EINVAL && strncmp(message, "odd: ", 5) == 0 &&
                    !strstr(message, "out of memory") && message[strlen(message) - 1] != ' ' &&
                    strcmp(message, "odd: x is i8, expected ") != 0;
    wick_ctx_clear(&test_ctx);
    return complete;
}

Test(call_memory, every_allocation_of_a_message_may_fail)
{
    op = define_op("odd", "x: T[N], m: 'sum'|'mean' -> y: T[N] where T: f32 f64", record_slots);
    n_refused = 2;
    refused_args[0] = TENSOR(x, WICK_I8, 3);
    refused_args[1] = wick_str("sum");
    walk_allocation_failures(refused_call);
    refused_args[0] = F32(x, 3);
    refused_args[1] = wick_str("max");
    walk_allocation_failures(refused_call);
}

/* ---- definitions ---- */

static const wick_variant *variant_list[1];

static bool define_some(void)
{
    wick_op_entry entries[] = {
        entry_of("first", "x: T[*N, C], m: 'a'|'b' = 'a' -> y: T[*N, C] where T: f32", variant_list,
                 "op.c"),
        entry_of("second", "x: T[*N] -> y: T[*N] where T: f32", variant_list, "op.c"),
        entry_of("third_forward", "x: T[*N] -> y: T[*N] where T: f32", variant_list, "op.c"),
        entry_of("third_backward", "dy: T[*N] -> dx: T[*N] where T: f32", variant_list, "op.c")};
    wick_module_table table = {WICK_MODULE_MAGIC, WICK_ABI, "test", entries, 4};
    wick_define what = {.table = &table, .path = "op.so", .origin = "/op.c", .default_ns = "local"};
    wick_module *module = NULL;
    long live = wick_memory_live();
    wick_status s = wick_module_define(&test_ctx, &what, &module);
    cr_assert(s == WICK_OK || s == WICK_ENOMEM);
    wick_ctx_clear(&test_ctx);
    if (s == WICK_OK) return true;
    cr_assert_null(wick_op_find("local", "first"));
    cr_assert_null(wick_op_find("local", "second"), "all or nothing");
    cr_assert_null(wick_op_find("local", "third"), "all or nothing");
    cr_assert_leq(wick_memory_live() - live, 16, "names of the registry stay, nothing else");
    return false;
}

Test(call_memory, every_allocation_of_a_definition_may_fail)
{
    static const wick_variant variant = {.types = {WICK_F32}, .cpu = record_slots};
    long n = 0;
    variant_list[0] = &variant;
    for (bool done = false; !done;) {
        cr_assert_lt(++n, 200);
        wick_memory_fail_after(n);
        done = define_some();
        wick_memory_fail_after(0);
    }
    cr_assert_gt(n, 8);
    wick_value args[] = {F32(x, 3)}, results[1] = {0};
    cr_assert_call(wick_op_find("local", "second"), args, results);
    wick_value_free(&results[0]);
}
