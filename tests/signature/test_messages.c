/* test_messages.c -- what a signature that is wrong is told: words, the line, and a caret under the
 * place */
#include "fixture.h"

typedef struct bad_signature {
    const char *text;
    const char *words;
    int column;
} bad_signature;

static const bad_signature bad_signatures[] = {
    {"x T[N] -> y: T[N]", "expected ':' and a type, found 'T'", 2},
    {"x: T[N, C -> y: T[N]", "expected ',' or ']', found '->'", 10},
    {"x: T[N], -> y: T[N]", "expected the name of an argument, found '->'", 9},
    {"x: T[N] y: T[N]", "expected ',' or '->', found 'y'", 8},
    {"x: T[N] ->", "expected the name of a result, found the end", 10},
    {"x: T[N] -> y: T[N] wher T: f32",
     "expected ',' or one of where, scratch, batch, autocast, found 'wher'", 19},
    {"x: T -> y: T[]", "expected '[' and sizes (a 0-d tensor is T[]), found '->'", 5},
    {"x: float32[N] -> y: f32[N]",
     "unknown type 'float32' (elements: f16 bf16 f32 f64 i8 i16 i32 i64 u8 bool, or a type "
     "variable such as T; scalars: int float bool str)",
     3},
    {"x: T[N], x: T[N] -> y: T[N]", "the name x is used twice", 9},
    {"x: T[N] -> x: T[N]", "the name x is used twice", 11},
    {"int: T[N] -> y: T[N]", "int is a word of C and cannot be a name", 0},
    {"wick_x: T[N] -> y: T[N]", "names beginning with wick_ are taken", 0},
    {"__x: T[N] -> y: T[N]", "names beginning with __ are taken", 0},
    {"lambda: float -> y: f32[3]", "lambda is a word of Python and cannot be a name", 0},
    {"ctx: T[N] -> y: T[N]", "ctx is the name of the context", 0},
    {"x: A[N] -> y: A[N]", "x has type A, the accumulation type of T, but nothing has type T", 0},
    {"x: T[N, T] -> y: T[N]", "T is both a dim and a type", 8},
    {"x: T[*N], y: T[N] -> z: T[N]",
     "N is a single dim here, but any number of leading dims (*N) elsewhere", 15},
    {"x: T[N] -> y: T[N, K]", "y needs K, but no input has it: add an argument K: int", 19},
    {"x: T[N], b?: T[C] -> y: T[C]",
     "y needs C, which is known only from b, and that may be absent", 26},
    {"x?: T[N] -> y: T[]", "T can be told only from x, which may be absent", 0},
    {"x: T[H*W] -> y: T[H]",
     "H cannot be told from H*W: let it stand alone in an input, or add an argument H: int", 5},
    {"s?: float -> y: f32[3]", "optional scalars are reserved for a later version", 4},
    {"k: int[] -> y: f32[3]", "lists (int[]) are reserved for a later version", 3},
    {"x: T[N][] -> y: f32[3]", "lists of tensors are reserved for a later version", 7},
    {"x: f8e4m3[N] -> y: f32[3]", "f8e4m3 is reserved for a later version", 3},
    {"x: c64[N] -> y: f32[3]", "c64 is reserved for a later version", 3},
    {"s: float = 1.0, x: T[N] -> y: T[N]", "x has no default, but follows s, which has one", 16},
    {"x: T[N] -> y!: T[N]", "y is a result: only an input is written in place", 12},
    {"x!?: T[N] -> ()", "x cannot have more than one of ? and !", 2},
    {"x: T[N] -> y: strided T[N]", "y is a result: only an input can be strided", 14},
    {"x: T[N] -> y: T[N] batch M", "M is not a dim of this signature", 25},
    {"x: T[N] -> y: T[N] where T: f32 f32", "f32 is listed twice", 32},
    {"x: T[N] -> y: T[N] where U: f32", "no argument has the type U", 25},
    {"x: T[N] -> y: T[N] where T: f32 where T: f64", "the types of T are listed twice", 38},
    {"x: T[N] -> y: T[N] where T: q7",
     "expected an element type (f16 bf16 f32 f64 i8 i16 i32 i64 u8 bool), found 'q7'", 28},
    {"x: T[N] -> y: T[N] autocast maybe", "expected keep, f32 or follow, found 'maybe'", 28},
    {"x: T[N] -> y: T[N] autocast keep autocast f32", "autocast is given twice", 42},
    {"x: T[N, *M] -> y: T[N]",
     "only the first place between the brackets can be any number of dims", 8},
    {"x: T[N/2] -> y: T[N]", "sizes are sums, differences and products of names and numbers", 6},
    {"x: T[4H] -> y: T[H]", "a letter follows a number (a product is written 4*H)", 6},
    {"x: T[2-3] -> y: f32[3]", "2-3 is -1, but a size cannot be negative", 5},
    {"x: T[-1] -> y: f32[3]",
     "expected a size (a name, a number, or a sum or product of them), found '-'", 5},
    {"x: T[(N)] -> y: f32[3]",
     "expected a size (a name, a number, or a sum or product of them), found '('", 5},
    {"x: T[99999999999999999999] -> y: f32[3]", "this number does not fit 64 bits", 5},
    {"x: T[N], mode: 'a b' -> y: T[N]",
     "a choice becomes a C constant, so it consists of letters, digits and _", 15},
    {"x: T[N], mode: 'a'|'a' -> y: T[N]", "'a' is listed twice", 19},
    {"x: T[N], mode: 'a'|'b' = 'c' -> y: T[N]", "'c' is not one of the choices", 25},
    {"x: T[N], k: int = 1.5 -> y: T[N]", "expected an integer such as 1 or -1, found '1.5'", 18},
    {"x: T[N], k: float = true -> y: T[N]", "expected a number such as 1.0 or 1e-5, found 'true'",
     20},
    {"x: T[N], k: bool = 1 -> y: T[N]", "expected true or false, found '1'", 19},
    {"x: T[N], k: float = 1e999 -> y: T[N]", "this number does not fit a double", 20},
    {"x: T[N] = 3 -> y: T[N]", "a tensor has no default: x?: makes it optional", 10},
    {"x: T[N], m: 'a -> y: T[N]", "this text has no closing quote", 12},
    {"x: T[N] -> y: str", "a result is a tensor, int, float or bool", 14},
    {"x: T[N], N: float -> y: T[N]", "N is also the name of a dim", 9},
    {"x: T[*N], N: int -> y: T[*N]", "*N is any number of dims, so an int cannot give it", 10},
    {"x: T[N] -> y: T[N] scratch w: int", "a scratch buffer is a tensor, as in f32[N]", 30},
    {"x: T[N] -> y: T[N] scratch w?: f32[N]", "a scratch buffer has neither ? nor !", 28},
    {"x: T[N], want_m: bool -> y: T[N], m?: u8[N]",
     "want_m is the keyword that asks for the optional result m", 9},
    {"-> y: T[3] where T: f32",
     "no input has type T, so a call cannot tell it: name the element type itself", 6},
    {"x: T[N] # y", "unexpected character '#'", 8},
    {"x: f32[A*B*C*D*E] -> ()", "at most 4 names can be multiplied", 15},
    {"x: T[N] -> ( y: T[N] )",
     "expected ')' (an operator without result is written -> ()), found 'y'", 13},
    {"", "expected arguments or '->', found the end", 0},
    {"relu: T[N], s: float = 1.0, b?: T[N], c: int -> y: T[N]",
     "c has no default, but follows s, which has one", 38},
    {"x: T[*M, *N] -> y: f32[]",
     "only the first place between the brackets can be any number of dims", 9},
    {"x: T[H*H] -> ()",
     "H cannot be told from H*H: let it stand alone in an input, or add an argument H: int", 5},
    {"x: T[N], b?: T[H*W] -> y: T[N]",
     "H cannot be told from H*W: let it stand alone in an input that is never absent, or add an "
     "argument H: int",
     15},
    {"a: U1[N], b: U2[N], c: U3[N], d: U4[N], e: U5[N] -> ()",
     "a signature has at most 4 type variables", 43},
    {"x: T[N], bool: int -> ()", "bool is a word of C and cannot be a name", 9},
    {"do: T[N], x: T[N] -> dx: T[N]",
     "do is a word of C and cannot be a name: what it is the gradient of needs another name than o",
     0},
    {"x: T[N], NoneType: int -> ()", "NoneType is a word of Python and cannot be a name", 9},
    {"x: f32[int64_t] -> ()", "int64_t is a word of C and cannot be a name", 7},
    {"x: T[N], T: int -> y: T[N]", "T is also the name of a type", 9},
    {"x: T[N], A: A[N] -> y: T[N]", "A is also the name of a type", 9},
    {"x: T[N], y: A[A] -> z: T[N]", "A is both a dim and a type", 14},
    {"x: T[N] -> N: int", "N is also the name of a dim", 11},
    {"x: T[N] -> y: T[N] scratch w: f32[K]",
     "w needs K, but no input has it: add an argument K: int", 34},
    {"x: T[N] -> y: T[*M]", "y needs *M, but no input has it", 11},
    {"x!: strided T[N] -> ()", "x is written in place and cannot be strided", 4},
    {"x?: shape[N] -> ()", "x is a shape, which cannot be optional", 4},
    {"s!: float -> ()", "only a tensor is written in place", 4},
    {"x: strided shape[N] -> ()",
     "unknown type 'shape' (elements: f16 bf16 f32 f64 i8 i16 i32 i64 u8 bool, or a type variable "
     "such as T; scalars: int float bool str)",
     11},
    {"x: T[9223372036854775807*2] -> ()", "this product does not fit 64 bits", 25},
    {"x: T[9223372036854775807+1] -> ()", "this sum does not fit 64 bits", 26},
    {"x: T[N], i: int = 9223372036854775808 -> ()", "this number does not fit 64 bits", 18},
    {"x: T[N], s: str = 'a\\b' -> ()",
     "a text consists of printable ASCII without double quote and backslash", 20},
    {"x: T[N] -> y: T[N] where A: f32", "A follows from T and has no list of its own", 25},
    {"x: T[N] -> y: T[N] where T: f32,", "expected a type variable, found the end", 32},
    {"x: T[N] -> y: T[N] where T:", "expected an element type, found the end", 27},
    {"x: T[N] -> y: T[N] where T: f8e4m3", "f8e4m3 is reserved for a later version", 28},
    {"x: T[N] -> y: T[N] batch N, N", "N is named twice", 28},
    {"x: T[N] -> y?: int", "optional scalars are reserved for a later version", 15},
    {"x: T[N] -> y: T[N] = 1", "only an input can have a default", 19},
    {"x: T[,] -> ()", "expected a size (a name, a number, or a sum or product of them), found ','",
     5},
    {"x: T[N,] -> ()", "expected a size (a name, a number, or a sum or product of them), found ']'",
     7},
    {"x: T[N+] -> ()", "expected a size (a name, a number, or a sum or product of them), found ']'",
     7},
    {"x: T[N N] -> ()", "expected ',' or ']', found 'N'", 7},
    {"x: double -> ()",
     "unknown type 'double' (elements: f16 bf16 f32 f64 i8 i16 i32 i64 u8 bool, or a type variable "
     "such as T; scalars: int float bool str)",
     3},
    {"x: -> ()",
     "expected a type such as T[N], f32[], int, float, bool, str or 'sum'|'mean', found '->'", 3},
    {"x?!: T[N] -> ()", "x cannot have more than one of ? and !", 2},
    {"x: T[N]) -> y: T[N]", "expected ',' or '->', found ')'", 7},
    {"x: T[a+b+c+d+e+f+g+h+i+j+k+l+m+n+o+p+q] -> ()", "a size has at most 16 terms", 38},
    {"@", "unexpected character '@'", 0},
};

Test(messages, words_line_and_caret)
{
    for (int i = 0; i < WICK_COUNT(bad_signatures); i++) {
        const bad_signature *bad = &bad_signatures[i];
        fixture f;
        wick_text expected = {0};
        wick_text_printf(&expected, "%s\n    %s\n    %*s^", bad->words, bad->text, bad->column, "");
        cr_assert_eq(fixture_parse(&f, "f", bad->text), WICK_EINVAL, "%s", bad->text);
        cr_assert_str_eq(wick_ctx_message(&f.ctx), wick_text_str(&expected));
        cr_assert_null(f.sig);
        wick_text_free(&expected);
        fixture_free(&f);
    }
}

static void check_message(const char *name, const char *text, const char *expected)
{
    fixture f;
    cr_assert_eq(fixture_parse(&f, name, text), WICK_EINVAL);
    cr_assert_str_eq(wick_ctx_message(&f.ctx), expected);
    fixture_free(&f);
}

Test(messages, the_name_in_front)
{
    check_message(NULL, "x: T[N] -> y: T[N]",
                  "expected '(' and the arguments, found ':'\n    x: T[N] -> y: T[N]\n     ^");
    check_message(NULL, "f(x: T[N] -> y: T[N]",
                  "expected ',' or ')', found '->'\n    f(x: T[N] -> y: T[N]\n              ^");
    check_message(NULL, "", "expected the operator's name, found the end\n    \n    ^");
    check_message("lambda", "-> y: int",
                  "lambda is a word of Python and cannot name an operator\n    -> y: int\n    ^");
}

Test(messages, several_lines_are_shown_as_one)
{
    check_message(
        "f", "x: T[N],\n\ty T[N] -> ()",
        "expected ':' and a type, found 'T'\n    x: T[N],  y T[N] -> ()\n                ^");
}

Test(messages, bytes_outside_ascii_keep_the_caret_in_place)
{
    check_message("f", "x: T[N], \xc3\xa9: int -> ()",
                  "unexpected byte 0xc3\n    x: T[N], ??: int -> ()\n             ^");
}

Test(messages, of_a_long_signature_the_place_is_shown)
{
    check_message("f",
                  "dy: T[S, B, H], x: T[S, B, I], w_ih: T[H*4, I], w_hh: T[H*4, H], gates: T[S, B, "
                  "H*4], hard: bol ->"
                  " dx: T[S, B, I], dw_ih: T[H*4, I], dw_hh: T[H*4, H]",
                  "unknown type 'bol' (elements: f16 bf16 f32 f64 i8 i16 i32 i64 u8 bool, or a "
                  "type variable such as"
                  " T; scalars: int float bool str)\n"
                  "    ..._ih: T[H*4, I], w_hh: T[H*4, H], gates: T[S, B, H*4], hard: bol -> dx: "
                  "T[S, B, I], dw_ih:"
                  " T[H*4, I],...\n"
                  "                                                                   ^");
}

/* ---- what docs/signature.md shows ---- */

/* The text between the fence line at `at` and the closing one, which is cut off. */
static char *cut_block(char *at, char **next)
{
    char *begin = strchr(at, '\n') + 1, *end = strstr(begin, "\n```");
    cr_assert_not_null(end);
    *end = '\0';
    *next = end + 4;
    return begin;
}

static void check_examples(char *block)
{
    for (char *line = strtok(block, "\n"); line; line = strtok(NULL, "\n")) {
        fixture f = fixture_of(line);
        cr_assert_eq(wick_signature_require_types(&f.ctx, f.sig), WICK_OK);
        fixture_free(&f);
    }
}

static void check_error(const char *block)
{
    char text[200];
    const char *line = strstr(block, "\n    ") + 5;
    int length = (int)strcspn(line, "\n");
    cr_assert_lt(length, (int)sizeof text);
    memcpy(text, line, (size_t)length);
    text[length] = '\0';
    check_message("f", text, block);
}

Test(messages, the_manual_tells_the_truth)
{
    char *manual = NULL, *next;
    size_t bytes;
    int n_examples = 0, n_errors = 0;
    wick_ctx ctx;
    wick_ctx_init(&ctx, NULL);
    cr_assert_eq(wick_file_read(&ctx, WICK_TEST_ROOT "/docs/signature.md", &manual, &bytes),
                 WICK_OK);
    for (char *at = strstr(manual, "```wick"); at; at = strstr(next, "```wick")) {
        bool error = strncmp(at, "```wick-error", 13) == 0;
        char *block = cut_block(at, &next);
        if (error)
            check_error(block);
        else
            check_examples(block);
        *(error ? &n_errors : &n_examples) += 1;
    }
    cr_assert(n_examples >= 10 && n_errors >= 5);
    wick_free(manual);
    wick_ctx_deinit(&ctx);
}
