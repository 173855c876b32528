/* test_module_file.c -- modules as files: a good one, and everything that is not one
 *
 * The modules are made by the C compiler from a table written by hand, as the build would write it.
 */
#include "support.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static char *folder;

static void enter(void)
{
    cr_assert_eq(wick_dir_temporary(&test_ctx, "wick-test", &folder), WICK_OK);
    cr_assert_eq(chdir(folder), 0);
}

static void leave(void)
{
    cr_assert_eq(chdir("/"), 0);
    wick_dir_remove(folder);
    wick_free(folder);
    wick_ctx_clear(&test_ctx);
}

TestSuite(module_file, .init = enter, .fini = leave);

static void write_bytes(const char *path, const void *bytes, size_t n)
{
    cr_assert_eq(wick_file_write(&test_ctx, path, bytes, n), WICK_OK, "%s",
                 wick_ctx_message(&test_ctx));
}

static void compile(const char *text, const char *output)
{
    const char *argv[] = {"cc", "-shared", "-fPIC",  "-I" WICK_TEST_ROOT "/include",
                          "-o", output,    "made.c", NULL};
    wick_process process = {0};
    write_bytes("made.c", text, strlen(text));
    cr_assert_eq(wick_process_run(&test_ctx, argv, &process), WICK_OK);
    cr_assert_eq(process.exit_code, 0, "%s", wick_text_str(&process.output));
    wick_process_free(&process);
}

/* One operator, local::answer, which returns `answer`. */
static void compile_module(const char *output, int answer, const char *magic, const char *abi)
{
    wick_text text = {0};
    wick_text_printf(
        &text,
        "#include <wick/glue.h>\n"
        "static wick_status run(wick_ctx *ctx, const wick_slot *slot)\n"
        "{\n    (void)ctx;\n    *(int64_t *)slot[0].p = %d;\n    return WICK_OK;\n}\n"
        "static const wick_variant variant = {{0}, 0, run, 0, 0};\n"
        "static const wick_variant *const variants[] = {&variant};\n"
        "static const wick_op_entry ops[] = {{0, \"answer\", \"-> y: int\", \"the doc\",\n"
        "    \"/nowhere/answer.c\", 3, variants, 1}};\n"
        "WICK_API const wick_module_table wick_module;\n"
        "const wick_module_table wick_module = {%s, %s, \"test\", ops, 1};\n",
        answer, magic, abi);
    cr_assert(!text.failed);
    compile(text.data, output);
    wick_text_free(&text);
}

static int64_t answer(void)
{
    wick_value results[1] = {0};
    wick_op *op = wick_op_find("local", "answer");
    cr_assert(op);
    cr_assert_eq(call(op, NULL, 0, results, 1), WICK_OK);
    return results[0].as.i;
}

/* The message with the folder's name taken out. */
static void expect_refused(const char *path, const char *message)
{
    wick_module *module = NULL;
    cr_assert_eq(wick_module_load(&test_ctx, path, &module), WICK_EIO);
    cr_assert_str_eq(wick_ctx_message(&test_ctx), message);
    cr_assert_null(module);
}

Test(module_file, a_module_is_loaded_by_its_bare_name)
{
    wick_module *module = NULL;
    compile_module("answer.so", 42, "WICK_MODULE_MAGIC", "WICK_ABI");
    cr_assert_eq(wick_module_load(&test_ctx, "answer.so", &module), WICK_OK, "%s",
                 wick_ctx_message(&test_ctx));
    cr_assert_eq(wick_module_count(module), 1);
    cr_assert_str_eq(wick_op_name(wick_module_op(module, 0)), "answer");
    cr_assert_str_eq(wick_op_doc(wick_module_op(module, 0)), "the doc");
    cr_assert_eq(answer(), 42);
}

Test(module_file, a_module_that_was_built_again_replaces_its_operators)
{
    wick_module *module = NULL;
    for (int i = 1; i <= 3; i++) {
        compile_module("fresh.so", i, "WICK_MODULE_MAGIC", "WICK_ABI");
        cr_assert_eq(rename("fresh.so", "answer.so"), 0); /* as the build publishes */
        cr_assert_eq(wick_module_load(&test_ctx, "./answer.so", &module), WICK_OK, "%s",
                     wick_ctx_message(&test_ctx));
        cr_assert_eq(answer(), i);
        cr_assert_eq(wick_module_load(&test_ctx, "./answer.so", &module), WICK_OK,
                     "and once more, unchanged");
        cr_assert_eq(answer(), i);
    }
}

Test(module_file, a_module_of_another_abi_is_refused)
{
    compile_module("answer.so", 42, "WICK_MODULE_MAGIC", "WICK_ABI + 6");
    expect_refused("./answer.so", "./answer.so: built for Wick's ABI 8, this is ABI 2: rebuild it "
                                  "with this version (wick build)");
    cr_assert_null(wick_op_find("local", "answer"));
}

Test(module_file, what_only_looks_like_a_module_is_refused)
{
    compile_module("magic.so", 42, "0x4b434956u", "WICK_ABI");
    expect_refused(
        "./magic.so",
        "./magic.so: a shared object, but not a Wick module (it exports no wick_module)");
    compile("int foreign(void);\nint foreign(void) { return 1; }\n", "foreign.so");
    expect_refused(
        "./foreign.so",
        "./foreign.so: a shared object, but not a Wick module (it exports no wick_module)");
}

Test(module_file, files_that_are_no_shared_objects_are_refused)
{
    static const char text[] = "#include <wick/op.h>\nthis is the source, not the module\n";
    write_bytes("text.so", text, sizeof text);
    write_bytes("empty.so", "", 0);
    expect_refused("text.so", "text.so: not a Wick module (not a shared object)");
    expect_refused("empty.so", "empty.so: not a Wick module (not a shared object)");
    expect_refused("missing.so", "missing.so: No such file or directory");
    wick_module *module = NULL;
    cr_assert_eq(wick_module_load(&test_ctx, folder, &module), WICK_EIO, "a folder");
}

Test(module_file, a_shared_object_of_another_machine_is_refused)
{
    char *bytes = NULL;
    size_t n = 0;
    compile_module("answer.so", 42, "WICK_MODULE_MAGIC", "WICK_ABI");
    cr_assert_eq(wick_file_read(&test_ctx, "answer.so", &bytes, &n), WICK_OK);
    bytes[18] = 8; /* e_machine: MIPS */
    bytes[19] = 0;
    write_bytes("answer.so", bytes, n);
    wick_free(bytes);
    expect_refused("./answer.so", "./answer.so: a shared object for another kind of machine");
}

Test(module_file, a_module_that_needs_what_is_not_there_is_refused)
{
    wick_module *module = NULL;
    compile(
        "void nowhere_to_be_found(void);\nvoid f(void);\nvoid f(void) { nowhere_to_be_found(); }\n",
        "needy.so");
    cr_assert_eq(wick_module_load(&test_ctx, "./needy.so", &module), WICK_EIO);
    cr_assert_eq(strncmp(wick_ctx_message(&test_ctx), "./needy.so: cannot be loaded: ", 30), 0);
    cr_assert_not_null(strstr(wick_ctx_message(&test_ctx), "nowhere_to_be_found"));
}

Test(module_file, a_truncated_module_is_refused_at_every_length)
{
    char *bytes = NULL;
    size_t n = 0;
    char path[32];
    compile_module("answer.so", 42, "WICK_MODULE_MAGIC", "WICK_ABI");
    cr_assert_eq(wick_file_read(&test_ctx, "answer.so", &bytes, &n), WICK_OK);
    for (size_t length = 0; length < n; length += 64) {
        wick_module *module = NULL;
        snprintf(path, sizeof path, "./cut%zu.so", length);
        write_bytes(path, bytes, length);
        cr_assert_eq(wick_module_load(&test_ctx, path, &module), WICK_EIO,
                     "cut to %zu of %zu bytes", length, n);
        cr_assert_eq(strncmp(wick_ctx_message(&test_ctx), path, strlen(path)), 0);
        cr_assert_eq(unlink(path), 0);
    }
    wick_free(bytes);
}

Test(module_file, headers_full_of_nonsense_are_refused)
{
    char *bytes = NULL;
    size_t n = 0;
    static const int fields[] = {
        32, 40, 54, 56, 58, 60}; /* e_phoff, e_shoff, e_phentsize, e_phnum, e_shentsize, e_shnum */
    compile_module("answer.so", 42, "WICK_MODULE_MAGIC", "WICK_ABI");
    cr_assert_eq(wick_file_read(&test_ctx, "answer.so", &bytes, &n), WICK_OK);
    for (int i = 0; i < WICK_COUNT(fields); i++) {
        wick_module *module = NULL;
        char saved[2] = {bytes[fields[i]], bytes[fields[i] + 1]};
        bytes[fields[i]] = bytes[fields[i] + 1] = (char)0xff;
        write_bytes("bad.so", bytes, n);
        cr_assert_eq(wick_module_load(&test_ctx, "./bad.so", &module), WICK_EIO, "field at %d",
                     fields[i]);
        memcpy(bytes + fields[i], saved, 2);
        cr_assert_eq(unlink("bad.so"), 0);
    }
    wick_free(bytes);
}

static bool open_once(void)
{
    const wick_module_table *table = NULL;
    wick_status s = wick_module_open(&test_ctx, "./answer.so", &table);
    wick_ctx_clear(&test_ctx);
    cr_assert(s == WICK_OK || s == WICK_ENOMEM);
    return s == WICK_OK;
}

Test(module_file, opening_survives_lack_of_memory)
{
    compile_module("answer.so", 42, "WICK_MODULE_MAGIC", "WICK_ABI");
    long live = wick_memory_live(), n = 0;
    for (bool done = false; !done;) {
        cr_assert_lt(++n, 20);
        wick_memory_fail_after(n);
        done = open_once();
        wick_memory_fail_after(0);
        cr_assert_leq(wick_memory_live(), live + 1, "a note of the file stays, nothing else");
    }
    cr_assert_gt(n, 2);
}
