/* test_define.c -- the names that a table takes: a gradient's pair, and the second name of
 * foo_forward */
#include "support.h"

#include <string.h>

#define FORWARD "x: f32[N] -> y: f32[N]"
#define BACKWARD "dy: f32[N], x: f32[N] -> dx: f32[N]"

static const wick_variant code = {.cpu = record_slots};
static const wick_variant *const variants[] = {&code};

static wick_op_entry entry(const char *name, const char *signature, int line)
{
    wick_op_entry e = entry_of(name, signature, variants, "a.c");
    e.line = line;
    return e;
}

static wick_status define(const wick_op_entry *entries, int n)
{
    wick_module *module;
    return define_table("/a.c", entries, n, &module);
}

static wick_status define_elsewhere(const wick_op_entry *entry_there)
{
    wick_module *module;
    return define_table("/b.c", entry_there, 1, &module);
}

#define cr_assert_message(text) cr_assert_str_eq(wick_ctx_message(&test_ctx), text)

Test(define, a_forward_with_a_backward_has_two_names)
{
    wick_op_entry table[] = {entry("foo_forward", FORWARD, 1), entry("foo_backward", BACKWARD, 2)};
    float x[2] = {0};
    wick_module *module = NULL;
    cr_assert_eq(define_table("/a.c", table, 2, &module), WICK_OK, "%s",
                 wick_ctx_message(&test_ctx));
    cr_assert_eq(wick_module_count(module), 3);
    wick_op *foo = wick_op_find("local", "foo"), *first = wick_op_find("local", "foo_forward");
    cr_assert_not_null(foo);
    cr_assert_str_eq(wick_op_name(foo), "foo");
    cr_assert_str_eq(wick_op_current(foo)->sig->name, "foo");
    cr_assert_str_eq(wick_op_signature(foo), wick_op_signature(first));
    cr_assert_eq(wick_op_current(foo)->backward, wick_op_find("local", "foo_backward"));
    cr_assert_eq(wick_op_current(foo)->gradient, wick_op_current(first)->gradient);
    cr_assert_not_null(wick_op_current(foo)->gradient);

    wick_value args[] = {F32(x, 2)}, results[1] = {0};
    cr_assert_call(foo, args, results);
    cr_assert_eq(n_calls, 1);
    wick_value_free(&results[0]);
    wick_value wrong[] = {TENSOR(x, WICK_I32, 2)};
    cr_assert_refused(foo, wrong, results, WICK_EINVAL, "foo: x is i32, expected f32");
}

Test(define, a_table_without_operators_is_refused)
{
    cr_assert_eq(define(NULL, 0), WICK_EINVAL);
    cr_assert_message("/lib/ops.so: it holds no operator");
}

Test(define, a_module_that_has_gone_meanwhile_is_refused)
{
    wick_op_entry gone = entry_of("f", FORWARD, variants, "/nowhere/at/all.c");
    wick_module *module = NULL;
    cr_assert_eq(define_table(NULL, &gone, 1, &module), WICK_EIO);
    cr_assert_message("cannot find \"/lib/ops.so\": No such file or directory");
    cr_assert_null(wick_op_find("local", "f"));
}

Test(define, a_forward_alone_has_one_name)
{
    wick_op_entry alone[] = {entry("foo_forward", FORWARD, 1)};
    wick_op_entry other[] = {entry("bar_forward", FORWARD, 1), entry("foo_backward", BACKWARD, 2)};
    wick_op_entry short_name[] = {entry("_forward", FORWARD, 1), entry("_backward", BACKWARD, 2)};
    cr_assert_eq(define(alone, 1), WICK_OK);
    cr_assert_null(wick_op_find("local", "foo"));
    cr_assert_eq(define(other, 2), WICK_OK);
    cr_assert_null(wick_op_find("local", "foo"));
    cr_assert_null(wick_op_find("local", "bar"));
    cr_assert_eq(define(short_name, 2), WICK_OK);
    cr_assert_null(wick_op_find("local", ""));
}

Test(define, a_pair_lies_in_one_namespace)
{
    wick_op_entry table[] = {entry("foo_forward", FORWARD, 1), entry("foo_backward", BACKWARD, 2)};
    table[0].ns = "here";
    cr_assert_eq(define(table, 2), WICK_OK);
    cr_assert_null(wick_op_find("here", "foo"));
    cr_assert_null(wick_op_current(wick_op_find("here", "foo_forward"))->gradient);
    table[1].ns = "here";
    cr_assert_eq(define(table, 2), WICK_OK);
    cr_assert_not_null(wick_op_find("here", "foo"));
}

Test(define, a_second_name_that_the_file_defines_itself_is_refused)
{
    wick_op_entry table[] = {entry("foo", FORWARD, 5), entry("foo_forward", FORWARD, 3),
                             entry("foo_backward", BACKWARD, 4)};
    long live = wick_memory_live();
    cr_assert_eq(define(table, 3), WICK_EINVAL);
    cr_assert_message("a.c:3: foo_forward is also foo, since its gradient is foo_backward; but "
                      "a.c:5 defines foo itself: rename one of them");
    cr_assert_null(wick_op_find("local", "foo"));
    cr_assert_null(wick_op_find("local", "foo_forward"));
    wick_ctx_clear(&test_ctx);
    cr_assert_eq(wick_memory_live(), live);
}

Test(define, a_second_name_that_another_file_owns_is_refused)
{
    wick_op_entry theirs = entry("foo", FORWARD, 1);
    wick_op_entry table[] = {entry("foo_forward", FORWARD, 3), entry("foo_backward", BACKWARD, 4)};
    cr_assert_eq(define_elsewhere(&theirs), WICK_OK);
    cr_assert_eq(define(table, 2), WICK_EINVAL);
    cr_assert_message("/a.c:3: foo_forward is also foo, since its gradient is foo_backward; "
                      "operator local::foo is already defined by /b.c: rename one of them, or put "
                      "WICK_NAMESPACE(...) into one of the files");
    cr_assert_null(wick_op_find("local", "foo_forward"));
}

Test(define, a_second_name_is_an_owned_name)
{
    wick_op_entry theirs = entry("foo", FORWARD, 1);
    wick_op_entry table[] = {entry("foo_forward", FORWARD, 3), entry("foo_backward", BACKWARD, 4)};
    cr_assert_eq(define(table, 2), WICK_OK);
    cr_assert_eq(define_elsewhere(&theirs), WICK_EINVAL);
    cr_assert_message("/b.c:1: operator local::foo is already defined by /a.c: rename one of them, "
                      "or put WICK_NAMESPACE(...) into one of the files");
}

Test(define, a_second_name_is_a_word_that_python_takes)
{
    wick_op_entry table[] = {entry("lambda_forward", FORWARD, 3),
                             entry("lambda_backward", BACKWARD, 4)};
    cr_assert_eq(define(table, 2), WICK_EINVAL);
    const char *words = "a.c:3: lambda_forward is also lambda, since its gradient is "
                        "lambda_backward; lambda is a word of Python and cannot name an operator";
    cr_assert_eq(strncmp(wick_ctx_message(&test_ctx), words, strlen(words)), 0, "%s",
                 wick_ctx_message(&test_ctx));
    cr_assert_null(wick_op_find("local", "lambda_forward"));
}

Test(define, a_second_name_that_lost_its_backward_is_refused_when_called)
{
    wick_op_entry table[] = {entry("foo_forward", FORWARD, 1), entry("foo_backward", BACKWARD, 2)};
    float x[2] = {0};
    wick_value args[] = {F32(x, 2)}, results[1] = {0};
    cr_assert_eq(define(table, 2), WICK_OK);
    wick_op *foo = wick_op_find("local", "foo");
    cr_assert_eq(define(table, 1), WICK_OK);
    cr_assert_neq(call(foo, args, 1, results, 1), WICK_OK);
    cr_assert_message("a.c:1: the file no longer defines operator foo");
    cr_assert_eq(define(table, 2), WICK_OK);
    cr_assert_call(foo, args, results);
    wick_value_free(&results[0]);
}

/* ---- code that is made at the first call ---- */

static wick_status make_code(wick_ctx *ctx, void *arg, wick_op_def *def, const wick_dtype *types)
{
    static const wick_variant made = {.types = {WICK_F32}, .cpu = record_slots};
    (void)types;
    ++*(int *)arg;
    return wick_op_def_push(ctx, def, &made);
}

Test(define, both_names_share_their_code)
{
    int asked = 0;
    float x[2] = {0};
    wick_op_entry table_ops[] = {
        entry_of("foo_forward", "x: T[N] -> y: T[N] where T: f32 f64", NULL, "a.c"),
        entry_of("foo_backward", "dy: T[N] -> dx: T[N] where T: f32 f64", NULL, "a.c")};
    wick_module_table table = {WICK_MODULE_MAGIC, WICK_ABI, "test", table_ops, 2};
    wick_define what = {.table = &table,
                        .origin = "/a.c",
                        .default_ns = "local",
                        .resolve = make_code,
                        .resolve_arg = &asked};
    wick_module *module = NULL;
    cr_assert_eq(wick_module_define(&test_ctx, &what, &module), WICK_OK);
    static const char *const names[] = {"foo", "foo_forward", "foo"};
    for (int i = 0; i < WICK_COUNT(names); i++) {
        wick_value args[] = {F32(x, 2)}, results[1] = {0};
        cr_assert_call(wick_op_find("local", names[i]), args, results);
        wick_value_free(&results[0]);
    }
    cr_assert_eq(asked, 1);
}
