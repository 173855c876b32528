/* test_registry.c -- who owns a name, what replacing means, and what a misspelt name may have meant
 */
#include "support.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

static wick_status code_one(wick_ctx *ctx, const wick_slot *slot)
{
    (void)ctx;
    return *(int64_t *)slot[0].p = 1, WICK_OK;
}

static wick_status code_two(wick_ctx *ctx, const wick_slot *slot)
{
    (void)ctx;
    return *(int64_t *)slot[0].p = 2, WICK_OK;
}

static const wick_variant one = {.cpu = code_one}, two = {.cpu = code_two};
static const wick_variant *const list_one[] = {&one}, *const list_two[] = {&two};

static wick_status define(const wick_op_entry *entries, int n, const char *origin)
{
    wick_module *module = NULL;
    wick_status s = define_table(origin, entries, n, &module);
    if (s != WICK_OK) return s;
    cr_assert_eq(wick_module_count(module), n);
    cr_assert_null(wick_module_op(module, -1));
    cr_assert_null(wick_module_op(module, n));
    return s;
}

static int64_t run(const char *name)
{
    wick_value results[1] = {0};
    wick_op *op = wick_op_find("local", name);
    cr_assert(op);
    cr_assert_eq(call(op, NULL, 0, results, 1), WICK_OK);
    return results[0].as.i;
}

Test(registry, the_same_origin_replaces)
{
    wick_op_entry first = entry_of("f", "-> y: int", list_one, "a.c");
    wick_op_entry second = entry_of("f", "-> y: int", list_two, "a.c");
    first.doc = "the first";
    cr_assert_eq(define(&first, 1, "/a.c"), WICK_OK, "%s", wick_ctx_message(&test_ctx));
    wick_op *op = wick_op_find("local", "f");
    cr_assert_eq(run("f"), 1);
    cr_assert_str_eq(wick_op_doc(op), "the first");
    cr_assert_str_eq(wick_op_file(op), "a.c");
    cr_assert_str_eq(wick_op_name(op), "f");
    cr_assert_str_eq(wick_op_namespace(op), "local");
    cr_assert_str_eq(wick_op_signature(op), "-> y: int");
    cr_assert_eq(define(&second, 1, "/a.c"), WICK_OK);
    cr_assert_eq(run("f"), 2);
    cr_assert_eq(wick_op_find("local", "f"), op, "whoever holds the operator has the new code");
}

Test(registry, another_origin_is_refused_and_both_are_named)
{
    wick_op_entry mine = entry_of("f", "-> y: int", list_one, "a.c");
    wick_op_entry theirs = entry_of("f", "-> y: int", list_two, "b.c");
    theirs.line = 12;
    cr_assert_eq(define(&mine, 1, "/a.c"), WICK_OK);
    cr_assert_eq(define(&theirs, 1, "/b.c"), WICK_EINVAL);
    cr_assert_str_eq(
        wick_ctx_message(&test_ctx),
        "/b.c:12: operator local::f is already defined by /a.c: rename one of them, or put "
        "WICK_NAMESPACE(...) into one of the files");
    cr_assert_eq(run("f"), 1);
    theirs.ns = "other";
    cr_assert_eq(define(&theirs, 1, "/b.c"), WICK_OK,
                 "in another namespace it is another operator");
    cr_assert_eq(run("f"), 1);
    cr_assert_not_null(wick_op_find("other", "f"));
}

Test(registry, a_conflict_changes_no_operator_of_the_table)
{
    wick_op_entry mine = entry_of("g", "-> y: int", list_one, "a.c");
    wick_op_entry table[] = {entry_of("f", "-> y: int", list_two, "b.c"),
                             entry_of("g", "-> y: int", list_two, "b.c"),
                             entry_of("h", "-> y: int", list_two, "b.c")};
    cr_assert_eq(define(&mine, 1, "/a.c"), WICK_OK);
    wick_ctx_clear(&test_ctx);
    cr_assert_eq(define(table, 3, "/b.c"), WICK_EINVAL);
    cr_assert_null(wick_op_find("local", "f"));
    cr_assert_null(wick_op_find("local", "h"));
    cr_assert_eq(run("g"), 1);
}

Test(registry, a_table_with_a_bad_signature_is_refused)
{
    wick_op_entry table[] = {entry_of("f", "-> y: int", list_one, "a.c"),
                             entry_of("g", "x: f32[", list_one, "a.c"),
                             entry_of("h", "x: T[N] -> y: T[N]", list_one, "a.c")};
    long live = wick_memory_live();
    cr_assert_eq(define(table, 2, "/a.c"), WICK_EINVAL);
    cr_assert_gt(strlen(wick_ctx_message(&test_ctx)), 0);
    cr_assert_null(wick_op_find("local", "f"));
    cr_assert_eq(define(&table[2], 1, "/a.c"), WICK_EINVAL);
    cr_assert_not_null(strstr(wick_ctx_message(&test_ctx), "T"), "%s", wick_ctx_message(&test_ctx));
    wick_ctx_clear(&test_ctx);
    cr_assert_eq(wick_memory_live(), live);
}

Test(registry, the_origin_is_the_source_if_it_is_there_and_else_the_module)
{
    wick_op_entry entry =
        entry_of("f", "-> y: int", list_one, WICK_TEST_ROOT "/tests/../tests/module/support.c");
    wick_op_entry gone = entry_of("g", "-> y: int", list_one, "/nowhere/at/all.c");
    wick_module_table table = {WICK_MODULE_MAGIC, WICK_ABI, "test", &entry, 1};
    wick_define what = {
        .table = &table, .path = WICK_TEST_ROOT "/tests/module/support.h", .default_ns = "local"};
    wick_module *module = NULL;
    cr_assert_eq(wick_module_define(&test_ctx, &what, &module), WICK_OK);
    cr_assert_str_eq(wick_op_current(wick_module_op(module, 0))->origin,
                     WICK_TEST_ROOT "/tests/module/support.c");
    table.ops = &gone;
    cr_assert_eq(wick_module_define(&test_ctx, &what, &module), WICK_OK);
    cr_assert_str_eq(wick_op_current(wick_module_op(module, 0))->origin,
                     WICK_TEST_ROOT "/tests/module/support.h");
}

Test(registry, a_misspelt_name_finds_what_was_meant)
{
    static const char *const names[] = {"relu",       "relu6",   "reduce_sum",
                                        "reduce_max", "softmax", "gelu"};
    static const struct {
        const char *asked, *answer;
    } cases[] = {{"rleu", "relu, relu6, gelu"},
                 {"reduce_sun", "reduce_sum, reduce_max"},
                 {"reduce", "reduce_sum, reduce_max, relu"},
                 {"rel", "relu, relu6, gelu"},
                 {"zzzzzzzzzzzzzz", ""},
                 {"", ""}};
    for (int i = 0; i < WICK_COUNT(names); i++) {
        wick_op_entry entry = entry_of(names[i], "-> y: int", list_one, "a.c");
        cr_assert_eq(define(&entry, 1, "/a.c"), WICK_OK);
    }
    for (int i = 0; i < WICK_COUNT(cases); i++) {
        wick_text text = {0};
        wick_registry_suggest(&text, "local", cases[i].asked);
        cr_assert_str_eq(wick_text_str(&text), cases[i].answer, "%s: %s", cases[i].asked,
                         wick_text_str(&text));
        wick_text_free(&text);
        wick_registry_suggest(&text, "elsewhere", cases[i].asked);
        cr_assert_str_eq(wick_text_str(&text), "");
        wick_text_free(&text);
    }
}

Test(registry, operators_keep_the_order_of_their_first_definition)
{
    wick_op_entry table[] = {entry_of("b", "-> y: int", list_one, "a.c"),
                             entry_of("a", "-> y: int", list_one, "a.c")};
    cr_assert_eq(define(table, 2, "/a.c"), WICK_OK);
    cr_assert_eq(define(&table[1], 1, "/a.c"), WICK_OK);
    cr_assert_str_eq(wick_registry_at(0)->name, "b");
    cr_assert_str_eq(wick_registry_at(1)->name, "a");
    cr_assert_null(wick_registry_at(2));
    cr_assert_null(wick_registry_at(-1));
}

Test(registry, the_best_variant_that_this_cpu_can_run_is_chosen)
{
    wick_variant fast = {.isa = WICK_ISA_X86_64_V3, .cpu = code_two}, slow = {.cpu = code_one};
    const wick_variant *orders[2][2] = {{&fast, &slow}, {&slow, &fast}};
    bool v3 = false;
#if defined(__x86_64__)
    v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("bmi2");
#endif
    for (int i = 0; i < 2; i++) {
        wick_op_entry entry = entry_of("f", "-> y: int", orders[i], "a.c");
        entry.n_variants = 2;
        cr_assert_eq(define(&entry, 1, "/a.c"), WICK_OK);
        cr_assert_eq(run("f"), v3 ? 2 : 1);
    }
}

/* ---- code that is made at the first call ---- */

static wick_status make_code(wick_ctx *ctx, void *arg, wick_op_def *def, const wick_dtype *types)
{
    ++*(int *)arg;
    if (types[0] == WICK_F64) return wick_fail(ctx, WICK_ECOMPILE, "a.c:3: error: not for f64");
    if (types[0] == WICK_F16) return WICK_OK; /* promised and not kept */
    static const wick_variant made = {.types = {WICK_F32}, .cpu = record_slots};
    return wick_op_def_push(ctx, def, &made);
}

Test(registry, missing_code_is_asked_for_once)
{
    int asked = 0;
    float x[2] = {0};
    wick_op_entry entry = entry_of("lazy", "x: T[N] -> y: T[N] where T: f32 f64 f16", NULL, "a.c");
    wick_module_table table = {WICK_MODULE_MAGIC, WICK_ABI, "test", &entry, 1};
    wick_define what = {.table = &table,
                        .origin = "/a.c",
                        .default_ns = "local",
                        .resolve = make_code,
                        .resolve_arg = &asked};
    wick_module *module = NULL;
    cr_assert_eq(wick_module_define(&test_ctx, &what, &module), WICK_OK);
    wick_op *op = wick_module_op(module, 0);
    for (int i = 0; i < 3; i++) {
        wick_value args[] = {F32(x, 2)}, results[1] = {0};
        cr_assert_call(op, args, results);
        wick_value_free(&results[0]);
    }
    cr_assert_eq(asked, 1);
    wick_value f64[] = {TENSOR(x, WICK_F64, 1)}, f16[] = {TENSOR(x, WICK_F16, 1)}, results[1] = {0};
    cr_assert_refused(op, f64, results, WICK_ECOMPILE, "a.c:3: error: not for f64");
    cr_assert_refused(op, f16, results, WICK_ENOTSUP,
                      "lazy: the module holds no code for these types on this CPU");
}

/* ---- threads ---- */

static atomic_bool stop;

static void *keep_calling(void *arg)
{
    wick_op *op = arg;
    wick_ctx ctx;
    wick_ctx_init(&ctx, NULL);
    int64_t last = 0;
    while (!atomic_load(&stop)) {
        wick_value results[1] = {0};
        if (wick_op_call(&ctx, op, NULL, 0, results, 1) != WICK_OK) return &stop;
        last = results[0].as.i;
        if (last != 1 && last != 2) return &stop;
    }
    wick_ctx_deinit(&ctx);
    return NULL;
}

Test(registry, an_operator_is_replaced_while_others_call_it)
{
    wick_op_entry entries[] = {entry_of("f", "-> y: int", list_one, "a.c"),
                               entry_of("f", "-> y: int", list_two, "a.c")};
    pthread_t threads[3];
    cr_assert_eq(define(&entries[0], 1, "/a.c"), WICK_OK);
    for (int i = 0; i < 3; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, keep_calling, wick_op_find("local", "f")),
                     0);
    for (int i = 0; i < 300; i++)
        cr_assert_eq(define(&entries[i % 2], 1, "/a.c"), WICK_OK);
    atomic_store(&stop, true);
    for (int i = 0; i < 3; i++) {
        void *wrong = &stop;
        pthread_join(threads[i], &wrong);
        cr_assert_null(wrong);
    }
}
