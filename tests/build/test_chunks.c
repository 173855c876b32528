/* test_chunks.c -- a text as pieces at the top level */
#include "split.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static wick_arena arena;
static wick_chunks chunks;

static void teardown(void)
{
    wick_arena_free(&arena);
    cr_expect_eq(wick_memory_live(), 0);
}

TestSuite(chunks, .fini = teardown);

static void read_pieces(const char *text)
{
    wick_arena_free(&arena);
    wick_chunks_read(&chunks, &arena, text, strlen(text));
    cr_assert(!chunks.failed);
}

/* The pieces as "kind name line", macros left out. */
static void expect(const char *text, const char *expected)
{
    static const char *const kinds[] = {"other",    "function", "prototype",
                                        "variable", "linkage",  "macro"};
    char said[2048] = "";
    read_pieces(text);
    for (int i = 0; i < chunks.n; i++) {
        const wick_chunk *c = &chunks.items[i];
        size_t n = strlen(said);
        if (c->kind == WICK_CHUNK_MACRO) continue;
        snprintf(said + n, sizeof said - n, "%s%s%s%.*s:%d%s%s%s%s", n ? ", " : "", kinds[c->kind],
                 c->name.start && c->kind != WICK_CHUNK_OTHER ? " " : "",
                 c->kind == WICK_CHUNK_OTHER ? 0 : (int)c->name.size,
                 c->name.start ? c->name.start : "", (int)c->line, c->kernel ? " kernel" : "",
                 c->device ? " device" : "", c->host ? " host" : "",
                 c->constant ? " constant" : "");
    }
    cr_expect_str_eq(said, expected, "%s\n  is    %s\n  wants %s", text, said, expected);
}

/* The first piece of that name. */
static const wick_chunk *find(const char *name)
{
    for (int i = 0; i < chunks.n; i++)
        if (wick_span_is(chunks.items[i].name, name)) return &chunks.items[i];
    cr_assert_fail("there is no %s", name);
    return NULL;
}

static void expect_text(wick_span span, const char *expected)
{
    cr_expect(wick_span_is(span, expected), "\"%.*s\", expected \"%s\"", (int)span.size,
              span.start ? span.start : "", expected);
}

Test(chunks, functions_prototypes_variables_and_the_rest)
{
    expect("int f(void) { return 1; }", "function f:1");
    expect("int f(void);", "prototype f:1");
    expect("static const float t[2] = {1, 2};", "variable t:1");
    expect("static float buffer[4];", "variable buffer:1");
    expect("static float buffer;", "variable buffer:1");
    expect("extern const int n;", "variable n:1");
    expect("enum { A = 1, B };", "other:1");
    expect("struct pair { float a, b; };", "other:1");
    expect("typedef struct pair { float a, b; } pair;", "other:1");
    expect("typedef float (*function)(float);", "other:1");
    expect("WICK_OP(f, \"x: T[N] -> y: T[N] where T: f32\");", "other:1");
    expect("WICK_FAST_MATH;\nWICK_TUNE(f, \"threads: 1\");", "other:1, other:2");
    expect("_Static_assert(sizeof(int) == 4, \"int\");", "other:1");
    expect("", "");
}

Test(chunks, one_after_the_other_with_their_lines)
{
    expect("/* { */\nint a(void) {\n  if (1) { }\n}\n\nint b(void) { }\nint c = 3; int d(int x);\n",
           "function a:2, function b:6, variable c:7, prototype d:7");
}

Test(chunks, marks)
{
    expect("static __global__ void k(int n) { }", "function k:1 kernel");
    expect("__global__ static void k(int n);", "prototype k:1 kernel");
    expect("static __device__ float f(float x) { return x; }", "function f:1 device");
    expect("__host__ __device__ float f(float x) { return x; }", "function f:1 device host");
    expect("__constant__ float c[4];", "variable c:1 constant");
    expect("static __device__ int counter;", "variable counter:1 device");
    expect("__managed__ int m = 3;", "variable m:1 constant");
}

Test(chunks, marks_that_come_out_of_macros)
{
    expect("#define KERNEL static __global__ __launch_bounds__(256)\nKERNEL void k(int n) { }",
           "function k:2 kernel");
    expect("#define HD __host__ __device__\n#define FN static HD\nFN float f(float x) { }",
           "function f:3 device host");
    expect("#define LOOP LOOP\nLOOP int f(void) { }", "function f:2");
    /* Before it is defined, a name is only a name. */
    expect("KERNEL int f(void) { }\n#define KERNEL __global__\n", "function f:1");
}

Test(chunks, macros_that_have_a_body_end_without_a_semicolon)
{
    const char *text = "#define UNARY(name, e) \\\n    static __device__ float name(float x) { "
                       "return e; }\nUNARY(twice, 2 * x)\nUNARY(half, x / 2)\n"
                       "int f(void) { }";
    expect(text, "other:3 device, other:4 device, function f:5");
    expect("#define KERNEL(name) __global__ void name(int n) { }\nKERNEL(k)\nint f(void) { }",
           "other:2 kernel, function f:3");
    cr_expect(find("KERNEL")->kind == WICK_CHUNK_MACRO);
    expect("#define BOUNDS(n) __launch_bounds__(n)\n__global__ void BOUNDS(256) k(int n) { }",
           "function k:2 kernel");
    expect("#define REGISTER(x) enum { x##_id = 1 }\nREGISTER(a);\nint f(void) { }",
           "other:2, other:2, function f:3");
}

Test(chunks, parameters_are_those_of_the_name)
{
    read_pieces("static __global__ void __launch_bounds__(256, 2) k(const T *__restrict__ x, int "
                "(*f)(int))\n{ call(1); }");
    expect_text(find("k")->params, "const T *__restrict__ x, int (*f)(int)");
    read_pieces("__attribute__((noinline)) float f(float a[2]) __attribute__((pure));");
    expect_text(find("f")->params, "float a[2]");
    read_pieces("static float f(float x) PURE\n{ return x; }");
    expect_text(find("f")->params, "float x");
    cr_expect_eq(find("f")->kind, WICK_CHUNK_FUNCTION);
    read_pieces("__global__ void k() __launch_bounds__(64) { }");
    expect_text(find("k")->params, "");
    cr_expect(find("k")->params.start != NULL);
}

Test(chunks, a_struct_with_parentheses_is_no_function)
{
    expect("struct ALIGN(16) pair { float a, b; };\nint f(void) { }", "other:1, function f:2");
    expect("struct __attribute__((packed)) pair { float a; };\nint f(void) { }",
           "other:1, function f:2");
    expect("struct pair make(float a) { }\nint f(void) { }", "function make:1, function f:2");
}

Test(chunks, a_declaration_may_declare_several)
{
    read_pieces("static const float alpha = 1.67f, scale = alpha, table[2] = {1, 2}, last;");
    const wick_chunk *c = find("alpha");
    cr_assert_eq(c->n_names, 4);
    expect_text(c->names[1], "scale");
    expect_text(c->names[2], "table");
    expect_text(c->names[3], "last");
    read_pieces("int a0 = 0, a1 = 1, a2 = 2, a3 = 3, a4 = 4, a5 = 5, a6 = 6, a7 = 7, a8 = 8, a9 = "
                "9, b0 = 0, b1 = 1, b2 = 2, b3 = 3, b4 = 4, b5 = 5, b6 = 6, b7 = 7;");
    cr_expect_eq(find("a0")->n_names, 18);
}

Test(chunks, comments_and_strings_hold_no_code)
{
    expect("/* int no(void) { */ int f(void)\n{\n  // }\n  const char *s = \"}{\"; char c = '}';\n"
           "  return 0; /* } */\n}\nint g;",
           "function f:1, variable g:7");
}

Test(chunks, each_branch_of_an_if_begins_at_its_depth)
{
    expect("int f(int n)\n{\n#if A\n  if (n) {\n#else\n  if (n > 2) {\n#endif\n  }\n}\nint g(void) "
           "{ }",
           "function f:1, function g:10");
    expect("#if A\nint f(int n)\n#else\nint f(long n)\n#endif\n{ }\nint g(void) { }",
           "function f:2, function g:7");
}

Test(chunks, linkage_and_namespaces_are_no_depth)
{
    expect("extern \"C\" {\nint f(void) { }\n}\nint g(void) { }",
           "linkage:1, function f:2, linkage:3, function g:4");
    expect("namespace {\n__global__ void k() { }\n}  // namespace\nnamespace a::b { int g; }",
           "linkage:1, function k:2 kernel, linkage:3, linkage:4, variable g:4, linkage:4");
    expect("using namespace std;\nint f(void) { }", "other:1, function f:2");
    expect("extern \"C\" int f(void) { return 1; }", "function f:1");
    /* A brace too many is not one of those. */
    expect("}\nint f(void) { }", "other:1, function f:2");
}

Test(chunks, templates)
{
    expect("template <typename U, int N = 4>\n__global__ void k(const U *x) { }\nint g;",
           "function k:1 kernel, variable g:3");
    expect("template <typename U> struct S { U v; };\nint g;", "other:1, variable g:2");
    cr_expect(wick_span_is(chunks.items[0].first, "template"));
}

Test(chunks, launches)
{
    read_pieces("void f(void) { k<<<1, 2>>>(x); }");
    cr_expect(chunks.launches);
    read_pieces("#define GO(k) k<<<1, 2>>>\nvoid f(void) { GO(k)(x); }");
    cr_expect(chunks.launches);
    read_pieces(
        "/* k<<<1, 2>>>() */\nconst char *s = \"<<<\"; int f(int a) { return a << 2 < 3; }");
    cr_expect(!chunks.launches);
}

Test(chunks, directives)
{
    read_pieces(
        "#  include <a.h>\n#ifdef A /* b\n */\n#elif B\n#else\n#endif\n#define X(a) \\\n  a\n"
        "#undef X\n#pragma once\n#error no\n");
    static const wick_directive_kind kinds[] = {
        WICK_DIRECTIVE_INCLUDE, WICK_DIRECTIVE_IF,    WICK_DIRECTIVE_ELSE,
        WICK_DIRECTIVE_ELSE,    WICK_DIRECTIVE_ENDIF, WICK_DIRECTIVE_DEFINE,
        WICK_DIRECTIVE_DEFINE,  WICK_DIRECTIVE_OTHER, WICK_DIRECTIVE_OTHER};
    cr_assert_eq(chunks.n_directives, (int)WICK_COUNT(kinds));
    for (int i = 0; i < WICK_COUNT(kinds); i++)
        cr_expect_eq(chunks.directives[i].kind, kinds[i], "number %d", i);
    expect_text(chunks.directives[5].text, "#define X(a) \\\n  a");
    expect_text(find("X")->text, "X(a) \\\n  a");
}

/* Whatever the text is, there is an answer; what is not whole is no piece. */
Test(chunks, text_that_is_no_c)
{
    static const char *const texts[] = {"int f(void) { ",
                                        "int f(void",
                                        "{{{{",
                                        "}}}}",
                                        "((((",
                                        "))))",
                                        "#define",
                                        "#define\n",
                                        "#",
                                        "# \\\n",
                                        "\"",
                                        "'",
                                        "/*",
                                        "extern \"C\"",
                                        "namespace",
                                        "namespace {{",
                                        "template",
                                        "template <<<",
                                        "__global__",
                                        "= = =",
                                        ";;;",
                                        "a[",
                                        "f(;)",
                                        "#if\n#else\n#endif",
                                        "#endif\n#else\n",
                                        "int f() {}}",
                                        "\\",
                                        "__global__ void",
                                        "((a)(b))",
                                        "x = {1, {2}};"};
    for (int i = 0; i < WICK_COUNT(texts); i++) {
        read_pieces(texts[i]);
        for (int k = 0; k < chunks.n; k++) {
            const wick_chunk *c = &chunks.items[k];
            cr_expect(c->text.start >= texts[i] &&
                          c->text.start + c->text.size <= texts[i] + strlen(texts[i]),
                      "%s", texts[i]);
        }
    }
}

Test(chunks, memory_that_runs_out_is_remembered)
{
    const char *text = "#define A 1\nint a, b;\nint f(void) { }\n#ifdef A\n#endif\n";
    for (long n = 1;; n++) {
        wick_memory_fail_after(n);
        wick_chunks_read(&chunks, &arena, text, strlen(text));
        wick_memory_fail_after(0);
        wick_arena_free(&arena);
        cr_expect_eq(wick_memory_live(), 0);
        if (!chunks.failed) break;
        cr_assert_lt(n, 100);
    }
}
