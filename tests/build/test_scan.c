/* test_scan.c -- what is read out of a source, and what is said about what cannot be */
#include "support.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static wick_ctx ctx;
static wick_scan scan;

static wick_status scan_text(const char *text)
{
    wick_source source = {"op.c", text};
    wick_ctx_init(&ctx, NULL);
    return wick_scan_source(&ctx, &source, &scan);
}

static void done(void)
{
    wick_scan_free(&scan);
    wick_ctx_deinit(&ctx);
    cr_assert_eq(wick_memory_live(), 0);
}

Test(scan, finds_operators_with_their_lines_types_and_document)
{
    cr_assert_eq(scan_text(all_kinds), WICK_OK, "%s", wick_ctx_message(&ctx));
    cr_expect_str_eq(scan.doc, "kinds -- one of each");
    cr_expect_str_eq(scan.ns, "acme");
    cr_assert_eq(scan.n_ops, 4);
    cr_expect_str_eq(scan.ops[0].name, "pool");
    cr_expect_eq(scan.ops[0].line, 4);
    cr_expect_str_eq(scan.ops[3].name, "count");
    cr_expect_eq(scan.ops[3].line, 8);
    cr_assert_eq(scan.n_variables, 2);
    cr_expect_str_eq(scan.variables[0].name, "T");
    cr_expect_str_eq(scan.variables[1].name, "U");
    cr_expect(scan.ops[0].has_cpu && !scan.ops[0].has_cuda);
    done();
}

Test(scan, an_operator_without_where_takes_the_files_types)
{
    cr_assert_eq(scan_text(all_kinds), WICK_OK);
    cr_expect_eq(scan.ops[1].signature->variables[0].n_types, 2);
    cr_expect_eq(scan.ops[1].signature->variables[0].types[1], WICK_F32);
    done();
}

Test(scan, combinations_count_like_digits_and_unused_variables_stay_at_their_first_type)
{
    wick_dtype types[WICK_MAX_VARIABLES];
    cr_assert_eq(scan_text(all_kinds), WICK_OK);
    cr_assert_eq(wick_scan_combinations(&scan), 4);
    wick_scan_combination(&scan, 1, types);
    cr_expect(types[0] == WICK_F16 && types[1] == WICK_I64 && types[2] == WICK_NONE);
    cr_expect(wick_scan_op_in(&scan, &scan.ops[0], types));
    cr_expect(!wick_scan_op_in(&scan, &scan.ops[1], types), "pick has no U");
    wick_scan_combination(&scan, 2, types);
    cr_expect(types[0] == WICK_F32 && types[1] == WICK_I32);
    cr_expect(wick_scan_op_in(&scan, &scan.ops[1], types));
    cr_expect(!wick_scan_op_in(&scan, &scan.ops[3], types), "count has no T");
    done();
}

Test(scan, ignores_comments_strings_and_directives)
{
    cr_assert_eq(scan_text("/* WICK_OP(a, \"nonsense\"); */\n"
                           "// WICK_OP(b, \"nonsense\"); \\\n WICK_OP(c, \"nonsense\");\n"
                           "#define MINE WICK_OP(d, \"nonsense\") \\\n  WICK_OP(e, \"nonsense\")\n"
                           "static const char *s = \"WICK_OP(g, \\\"nonsense\\\") /*\";\n"
                           "static char quote = '\"', other = '\\'';\n" HEAD BODY),
                 WICK_OK, "%s", wick_ctx_message(&ctx));
    cr_assert_eq(scan.n_ops, 1);
    cr_expect_eq(scan.ops[0].line, 9);
    done();
}

Test(scan, joins_literals_and_decodes_escapes)
{
    cr_assert_eq(
        scan_text("WICK_OP ( f ,\n  \"x: T[*N]\" /* in */\n  \"\\x20-> \\171: T[*N\\\n]\" // out\n"
                  "  \"\\twhere T: f32\" ) ;\n" BODY),
        WICK_OK, "%s", wick_ctx_message(&ctx));
    cr_assert_eq(scan.n_ops, 1);
    cr_expect_eq(scan.ops[0].line, 1);
    cr_expect_str_eq(scan.ops[0].signature->outputs[0].name, "y");
    done();
}

Test(scan, reads_implementations_inside_extern_c_and_conditionals)
{
    cr_assert_eq(
        scan_text(HEAD
                  "#ifdef __cplusplus\nextern \"C\" {\n#endif\n"
                  "#ifdef FAST\nstatic int g(void) {\n#else\nstatic int h(void) {\n#endif\n return "
                  "1; }\n" BODY
                  "#ifdef __CUDACC__\nWICK_IMPL wick_status f_cuda(wick_ctx *ctx) { }\n#endif\n"
                  "#ifdef __cplusplus\n}\n#endif\n"),
        WICK_OK, "%s", wick_ctx_message(&ctx));
    cr_expect(scan.ops[0].has_cpu && scan.ops[0].has_cuda);
    done();
}

Test(scan, line_comments_are_a_document_too)
{
    cr_assert_eq(scan_text("\n// f -- one\n//\n//   two\n" HEAD BODY), WICK_OK);
    cr_expect_str_eq(scan.doc, "f -- one\n\n  two");
    done();
}

Test(scan, a_star_bordered_comment_is_cleaned)
{
    cr_assert_eq(scan_text("/**\r\n * f -- one\r\n *\r\n * two\r\n **/\r\n" HEAD BODY), WICK_OK);
    cr_expect_str_eq(scan.doc, "f -- one\n\ntwo", "got <%s>", scan.doc);
    done();
}

struct bad {
    char text[700];
    char first[240]; /* the message's first line */
};

ParameterizedTestParameters(scan, what_is_wrong_is_said_with_file_and_line)
{
#define LATER                                                                                      \
    "\nWICK_IMPL wick_status g_cpu(wick_ctx *ctx, const T *x, T *y, int64_t N) { return WICK_OK; " \
    "}\n"
    static struct bad cases[] = {
        {"int x;\n", "op.c:1: no operator here: write WICK_OP(name, \"x: T[*N] -> y: T[*N] where "
                     "T: f32\"); and a "
                     "function name_cpu"},
        {"", "op.c:1: no operator here: write WICK_OP(name, \"x: T[*N] -> y: T[*N] where T: "
             "f32\"); and a "
             "function name_cpu"},
        {"\nWICK_OP(f, SIGNATURE);\n",
         "op.c:2: WICK_OP(f): the signature must be a string literal: it is read from "
         "the text, before macros are expanded"},
        {"WICK_OP(f);\n", "op.c:1: WICK_OP(f): a comma and the signature are missing"},
        {"WICK_OP(\"f\", \"x\");\n",
         "op.c:1: WICK_OP(): expected the operator's name, a C identifier"},
        {"WICK_OP(f, \"x: T[*N]\" MORE);\n",
         "op.c:1: WICK_OP(f): expected a string literal or ) after the signature"},
        {"WICK_OP(f, \"x: \\q\");\n",
         "op.c:1: WICK_OP(f): the signature's string literal is malformed"},
        {"WICK_OP(f, \"x: \\0\");\n",
         "op.c:1: WICK_OP(f): the signature's string literal is malformed"},
        {"WICK_OP(f, \"x: T\n", "op.c:1: WICK_OP(f): the signature's string literal is malformed"},
        {"void g(void)\n{\n    WICK_OP(f, \"x: T[*N] -> ()\");\n}\n",
         "op.c:3: WICK_OP(f): stands inside braces; write it at the top level"},
        {HEAD, "op.c:2: operator f has no implementation: define f_cpu (or f_cuda)"},
        {HEAD "wick_status f_cpu(wick_ctx *ctx, const T *x, T *y, int64_t N);\n",
         "op.c:2: operator f has no implementation: define f_cpu (or f_cuda)"},
        {HEAD BODY "\n\nWICK_OP(f, \"x: T[N] -> ()\");\n",
         "op.c:11: operator f is defined twice: here and on line 2 "
         "(#if and #else are not looked at)"},
        {HEAD BODY "WICK_OP(g, \"x: T[*N] -> y: T[*N] where T: f32\");" LATER,
         "op.c:9: operator g says where T: f32, but this file has T: f32 f64: a file has one list "
         "of types; put "
         "operators over different types in different files"},
        {"WICK_NAMESPACE(a b);\n",
         "op.c:1: WICK_NAMESPACE takes a C identifier, as in WICK_NAMESPACE(acme);"},
        {"WICK_NAMESPACE(a);\nWICK_NAMESPACE(b);\n",
         "op.c:2: WICK_NAMESPACE(b), but line 1 says a: a file has one namespace"},
    };
    return cr_make_param_array(struct bad, cases, sizeof cases / sizeof cases[0]);
}

ParameterizedTest(struct bad *bad, scan, what_is_wrong_is_said_with_file_and_line)
{
    char *message = scan_message(bad->text);
    message[strcspn(message, "\n")] = '\0';
    cr_expect_str_eq(message, bad->first);
    free(message);
    cr_assert_eq(wick_memory_live(), 0);
}

Test(scan, a_signature_that_does_not_parse_shows_its_caret_under_file_and_line)
{
    char *message = scan_message("\n\nWICK_OP(f, \"x: Q[ -> y\");\n");
    cr_expect_eq(strncmp(message, "op.c:3: ", 8), 0, "%s", message);
    cr_expect_not_null(strchr(message, '^'), "%s", message);
    free(message);
}

Test(scan, types_that_nobody_lists_are_an_error_at_their_operator)
{
    char *message = scan_message("\nWICK_OP(f, \"x: T[*N] -> y: T[*N]\");\n" BODY);
    cr_expect_eq(strncmp(message, "op.c:2: ", 8), 0, "%s", message);
    cr_expect_not_null(strchr(message, 'T'));
    free(message);
}

Test(scan, the_missing_function_is_shown_as_it_has_to_be_written)
{
    char *message = scan_message(HEAD);
    cr_expect_not_null(
        strstr(message,
               "\n    WICK_IMPL wick_status f_cpu(wick_ctx *ctx, const T *x, T *y, int64_t N)"),
        "%s", message);
    free(message);
}

static void expect_name(const char *path, const char *first)
{
    wick_source source = {path, HEAD BODY};
    wick_ctx_init(&ctx, NULL);
    cr_expect_neq(wick_scan_source(&ctx, &source, &scan), WICK_OK);
    cr_expect_eq(strncmp(wick_ctx_message(&ctx), first, strlen(first)), 0, "%s",
                 wick_ctx_message(&ctx));
    done();
}

Test(scan, refuses_names_it_cannot_work_with)
{
    expect_name("op.cpp", "op.cpp:1: this is a C++ source");
    expect_name("a/b.cc", "a/b.cc:1: this is a C++ source");
    expect_name("a\nb.c", "source:1: a file whose name has a line break");
    expect_name("", "source:1: the source has no name");
}

Test(scan, a_file_that_is_not_there_or_not_text_is_named)
{
    char *folder = enter_folder();
    wick_source missing = {"gone.c", NULL}, binary = {"binary.c", NULL};
    wick_ctx_init(&ctx, NULL);
    cr_expect_eq(wick_scan_source(&ctx, &missing, &scan), WICK_EIO);
    cr_expect_eq(strncmp(wick_ctx_message(&ctx), "gone.c:1: ", 10), 0);
    wick_scan_free(&scan);
    wick_ctx_clear(&ctx);
    cr_assert_eq(wick_file_write(&ctx, "binary.c", "a\0b", 3), WICK_OK);
    cr_expect_eq(wick_scan_source(&ctx, &binary, &scan), WICK_EINVAL);
    cr_expect_str_eq(wick_ctx_message(&ctx),
                     "binary.c:1: this is not text: there is a NUL byte in it");
    wick_scan_free(&scan);
    leave_folder(folder);
    done();
}

Test(scan, namespaces_of_torch_and_wick_are_refused_unless_asked_for)
{
    static const char *const taken[] = {"aten", "prim", "wick_raw", "wick"};
    wick_build_options options = {.ns = "wick"};
    const char *ns;
    for (int i = 0; i < 4; i++) {
        char text[600];
        snprintf(text, sizeof text, "WICK_NAMESPACE(%s);\n%s", taken[i], HEAD BODY);
        cr_assert_eq(scan_text(text), WICK_OK);
        cr_expect_eq(wick_scan_namespace(&ctx, &scan, NULL, &ns), WICK_EINVAL);
        cr_expect_eq(strncmp(wick_ctx_message(&ctx), "op.c:1: the namespace ", 22), 0);
        wick_ctx_clear(&ctx);
        cr_expect_eq(wick_scan_namespace(&ctx, &scan, &options, &ns) == WICK_OK, i == 3);
        done();
    }
}

Test(scan, the_options_namespace_serves_files_without_one)
{
    wick_build_options options = {.ns = "acme"};
    const char *ns;
    cr_assert_eq(scan_text(HEAD BODY), WICK_OK);
    cr_expect_eq(wick_scan_namespace(&ctx, &scan, NULL, &ns), WICK_OK);
    cr_expect_null(ns);
    cr_expect_eq(wick_scan_namespace(&ctx, &scan, &options, &ns), WICK_OK);
    cr_expect_str_eq(ns, "acme");
    options.ns = "no-name";
    cr_expect_eq(wick_scan_namespace(&ctx, &scan, &options, &ns), WICK_EINVAL);
    done();
}

Test(scan, survives_the_failure_of_each_allocation)
{
    wick_status status = WICK_ENOMEM;
    for (long n = 1; status != WICK_OK; n++) {
        wick_source source = {"op.c", all_kinds};
        cr_assert_lt(n, 10000);
        wick_ctx_init(&ctx, NULL);
        wick_memory_fail_after(n);
        status = wick_scan_source(&ctx, &source, &scan);
        wick_memory_fail_after(0);
        cr_expect(status == WICK_OK || status == WICK_ENOMEM, "allocation %ld: %d", n, (int)status);
        done();
    }
}
