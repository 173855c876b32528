/* test_print.c -- the texts that follow from a signature: schema, prototype, stub, text signature
 */
#include "fixture.h"

#include <locale.h>

typedef struct golden {
    const char *text;
    const char *canonical;
    const char *schema;
    const char *prototype;
    const char *python;
    const char *stub;
} golden;

static const golden goldens[] = {
#include "golden_print.inc"
};

typedef void printer(wick_text *out, const wick_signature *sig);

static void print_prototype(wick_text *out, const wick_signature *sig)
{
    wick_signature_print_prototype(out, sig, "cpu", true);
}

static void check_text(const wick_signature *sig, printer *print, const char *expected)
{
    wick_text out = {0};
    print(&out, sig);
    cr_assert_not(out.failed);
    cr_assert_str_eq(wick_text_str(&out), expected);
    wick_text_free(&out);
}

Test(print, golden_texts)
{
    cr_assert_geq(WICK_COUNT(goldens), 12);
    for (int i = 0; i < WICK_COUNT(goldens); i++) {
        fixture f;
        cr_assert_eq(fixture_parse(&f, NULL, goldens[i].text), WICK_OK, "%s",
                     wick_ctx_message(&f.ctx));
        check_text(f.sig, wick_signature_print, goldens[i].canonical);
        check_text(f.sig, wick_signature_print_schema, goldens[i].schema);
        check_text(f.sig, print_prototype, goldens[i].prototype);
        check_text(f.sig, wick_signature_print_python, goldens[i].python);
        check_text(f.sig, wick_signature_print_stub, goldens[i].stub);
        fixture_free(&f);
    }
}

Test(print, a_prototype_without_names)
{
    fixture f = fixture_of(
        "x: strided T[*N, C], i!: i32[C], b: bool, m: 'a'|'b', s: str, k: int, r: float -> y: A[k],"
        " n: int scratch w: bf16[C]");
    wick_text out = {0};
    wick_signature_print_prototype(&out, f.sig, "cuda", false);
    cr_assert_str_eq(wick_text_str(&out),
                     "wick_status f_cuda(wick_ctx *, const wick_view *, int32_t *, bool, int, "
                     "const char *, int64_t,"
                     " double, A *, int64_t *, wick_bf16 *, int64_t, int64_t)");
    wick_text_free(&out);
    fixture_free(&f);
}

static void check_doc(const char *text, wick_doc about, const char *expected)
{
    fixture f = fixture_of(text);
    wick_text out = {0};
    wick_signature_print_doc(&out, f.sig, &about);
    cr_assert_str_eq(wick_text_str(&out), expected);
    wick_text_free(&out);
    fixture_free(&f);
}

Test(print, the_documentation)
{
    fixture one = fixture_of("dy: T[N], x: T[N] -> dx: T[N]");
    fixture three = fixture_of("dy: T[N] -> da: T[N], db?: T[N], dc: T[N]");
    check_doc("x: T[N], i: U[N] -> y: T[N] where T: f16 f32, U: i32",
              (wick_doc){.head = "f -- y = x[i]", .backward = one.sig},
              "f(x: T[N], i: U[N]) -> y: T[N]\n\nf -- y = x[i]\n\n"
              "T is f16 or f32.\nU is i32.\nThe gradient of x is f.");
    check_doc("a: f32[N], b: f32[N], c: f32[N] -> y: f32[N]",
              (wick_doc){.head = "", .first = "f_forward", .backward = three.sig},
              "f(a: f32[N], b: f32[N], c: f32[N]) -> y: f32[N]\n\n"
              "The same operator as f_forward.\nThe gradient of a, b and c is f.");
    check_doc("x!: f32[N] -> ()", (wick_doc){.head = ""},
              "f(x!: f32[N]) -> ()\n\nx is written in place.\nIts file defines no gradient.");
    fixture_free(&one);
    fixture_free(&three);
}

Test(print, the_line_for_documents)
{
    fixture f = fixture_of("x:T[*N,C],b?:T[C],m:'a'|'b'='b'->y:T[*N,C] where T:f32 batch N");
    check_text(f.sig, wick_signature_print_call,
               "f(x: T[*N, C], b?: T[C], m: 'a'|'b' = 'b') -> y: T[*N, C]");
    fixture_free(&f);
    f = fixture_of("x!: T[] -> ()");
    check_text(f.sig, wick_signature_print_call, "f(x!: T[]) -> ()");
    fixture_free(&f);
}

static void check_types(const char *text, int input, const char *expected)
{
    fixture f = fixture_of(text);
    wick_text out = {0};
    wick_elem_print_types(&out, f.sig, &f.sig->inputs[input].elem);
    cr_assert_str_eq(wick_text_str(&out), expected);
    wick_text_free(&out);
    fixture_free(&f);
}

Test(print, types_in_words)
{
    check_types("x: T[N] -> () where T: f16 bf16 f32", 0, "f16, bf16 or f32");
    check_types("x: T[N] -> () where T: f16 f64", 0, "f16 or f64");
    check_types("x: T[N], a: A[N] -> () where T: f16 f32 f64 i8 bool", 1, "f32, f64 or i64");
    check_types("x: u8[N] -> ()", 0, "u8");
    check_types("i: U[N], x: T[N], a: A[N] -> () where T: bf16, U: i32 i64", 2, "f32");
}

Test(print, floats_read_back_as_they_were)
{
    static const struct {
        const char *literal, *printed;
    } cases[] = {
        {"1", "1.0"},
        {"-1", "-1.0"},
        {"0.1", "0.1"},
        {"1e-5", "1e-05"},
        {"1e300", "1e+300"},
        {"2.5", "2.5"},
        {"3.141592653589793", "3.141592653589793"},
        {"0.30000000000000004", "0.30000000000000004"},
        {"123456789", "123456789.0"},
        {"1e22", "1e+22"},
        {"5e-324", "4.94065645841247e-324"},
    };
    for (int i = 0; i < WICK_COUNT(cases); i++) {
        wick_text text = {0}, expected = {0};
        wick_text_printf(&text, "s: float = %s -> y: f32[3]", cases[i].literal);
        wick_text_printf(&expected, "f(float s=%s) -> Tensor", cases[i].printed);
        fixture f = fixture_of(wick_text_str(&text));
        check_text(f.sig, wick_signature_print_schema, wick_text_str(&expected));
        fixture_free(&f);
        wick_text_free(&text);
        wick_text_free(&expected);
    }
}

/* Needs a locale that writes 1,5; where none is installed the C locale is used and the test still
 * has to hold. */
Test(print, the_host_s_locale_does_not_matter)
{
    static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "C"};
    for (int i = 0; i < WICK_COUNT(names); i++)
        if (setlocale(LC_ALL, names[i])) break;
    fixture f = fixture_of("s: float = 1.5 -> y: f32[3]");
    cr_assert(f.sig->inputs[0].default_float == 1.5);
    check_text(f.sig, wick_signature_print_schema, "f(float s=1.5) -> Tensor");
    fixture_free(&f);
}

Test(print, more_than_26_arguments_in_place)
{
    wick_text text = {0}, schema = {0};
    for (int i = 0; i < 28; i++)
        wick_text_printf(&text, "%sx%d!: f32[N]", i ? ", " : "", i);
    wick_text_add(&text, " -> ()");
    fixture f = fixture_of(wick_text_str(&text));
    wick_signature_print_schema(&schema, f.sig);
    cr_assert(strstr(wick_text_str(&schema), "Tensor(z!) x25, Tensor(ba!) x26, Tensor(bb!) x27"));
    wick_text_free(&text);
    wick_text_free(&schema);
    fixture_free(&f);
}
