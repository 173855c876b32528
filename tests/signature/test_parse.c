/* test_parse.c -- what the tree holds after parsing, and that printing and parsing agree */
#include "fixture.h"

#include "../core/walk.h"

Test(parse, inputs_outputs_and_dims)
{
    fixture f =
        fixture_of("x: T[*N, C], bias: T[C], scale: float = 1.5 -> y: T[*N, C] where T: f16 f32");
    const wick_signature *s = f.sig;
    cr_assert_eq(s->n_inputs, 3);
    cr_assert_eq(s->n_outputs, 1);
    cr_assert_eq(s->n_scratch, 0);
    cr_assert_eq(s->n_dims, 2);
    cr_assert_str_eq(s->dims[0].name, "N");
    cr_assert(s->dims[0].leading && !s->dims[1].leading);
    cr_assert_eq(s->inputs[0].leading, 0);
    cr_assert_eq(s->inputs[0].n_sizes, 1);
    cr_assert(s->inputs[0].sizes[0].alone);
    cr_assert_eq(s->inputs[1].leading, -1);
    cr_assert_eq(s->inputs[2].kind, WICK_KIND_FLOAT);
    cr_assert(s->inputs[2].has_default && s->inputs[2].default_float == 1.5);
    cr_assert_eq(s->n_variables, 1);
    cr_assert_eq(s->variables[0].n_types, 2);
    cr_assert_eq(s->variables[0].types[0], WICK_F16);
    cr_assert_eq(s->autocast, WICK_AUTOCAST_KEEP);
    cr_assert_not(s->autocast_given);
    fixture_free(&f);
}

Test(parse, the_name_may_stand_in_front)
{
    fixture f;
    cr_assert_eq(fixture_parse(&f, NULL, "relu(x: T[*N]) -> y: T[*N]"), WICK_OK);
    cr_assert_str_eq(f.sig->name, "relu");
    fixture_free(&f);
    cr_assert_eq(fixture_parse(&f, NULL, "three() -> y: f32[3]"), WICK_OK);
    cr_assert_eq(f.sig->n_inputs, 0);
    fixture_free(&f);
}

Test(parse, white_space_is_free)
{
    fixture f = fixture_of("\tx :\nT [ * N , 2 * H + 1 ] ,h:T[H]\r\n->y : T[*N]where T:f32");
    cr_assert_str_eq(f.sig->inputs[0].sizes[0].text, "2*H+1");
    fixture_free(&f);
}

Test(parse, like_terms_are_joined)
{
    fixture f = fixture_of(
        "h: T[H], w: T[W], a: T[H*4], b: T[4*H], c: T[W*H+3-1+H*W], d: T[H-H], e: T[H+H-H] -> ()");
    const wick_param *in = f.sig->inputs;
    cr_assert_eq(in[2].sizes[0].terms[0].coefficient, in[3].sizes[0].terms[0].coefficient);
    cr_assert_eq(in[2].sizes[0].terms[0].names[0], in[3].sizes[0].terms[0].names[0]);
    cr_assert_not(in[2].sizes[0].alone);
    cr_assert_eq(in[4].sizes[0].n_terms, 2);
    cr_assert_eq(in[4].sizes[0].terms[0].coefficient, 2);
    cr_assert_eq(in[4].sizes[0].terms[0].n_names, 2);
    cr_assert_eq(in[4].sizes[0].terms[1].coefficient, 2);
    cr_assert_eq(in[5].sizes[0].n_terms, 0);
    cr_assert(in[6].sizes[0].alone, "H+H-H is H");
    fixture_free(&f);
}

Test(parse, an_int_named_like_a_dim_gives_it)
{
    fixture f = fixture_of("k: int, n: int -> y: f32[k, 2*k]");
    cr_assert_eq(f.sig->inputs[0].gives_dim, 0);
    cr_assert_eq(f.sig->inputs[1].gives_dim, -1);
    cr_assert_eq(f.sig->dims[0].from_int, 0);
    fixture_free(&f);
}

Test(parse, T_is_the_first_variable_where_A_appears)
{
    fixture f = fixture_of("i: U[N], a: A[N], x: T[N] -> y: U[N] where U: i32 i64, T: f16 f64");
    cr_assert_str_eq(f.sig->variables[0].name, "T");
    cr_assert_str_eq(f.sig->variables[1].name, "U");
    cr_assert_eq(f.sig->inputs[0].elem.variable, 1);
    cr_assert_eq(f.sig->inputs[1].elem.kind, WICK_ELEM_ACCUMULATE);
    cr_assert_eq(f.sig->inputs[1].elem.variable, 0);
    cr_assert_eq(f.sig->inputs[2].elem.variable, 0);
    cr_assert_eq(f.sig->outputs[0].elem.variable, 1);
    cr_assert_eq(f.sig->variables[1].types[1], WICK_I64);
    fixture_free(&f);
}

Test(parse, an_optional_has_a_default_where_nothing_required_follows)
{
    fixture f = fixture_of("a?: T[N], x: T[N], b?: T[N], s: float = 2, c?: T[N] -> y?: T[N]");
    cr_assert_not(f.sig->inputs[0].has_default);
    cr_assert_not(f.sig->inputs[1].has_default);
    cr_assert(f.sig->inputs[2].has_default && f.sig->inputs[3].has_default &&
              f.sig->inputs[4].has_default);
    cr_assert(f.sig->outputs[0].optional);
    fixture_free(&f);
}

Test(parse, clauses_come_in_any_order_and_repeat)
{
    fixture f = fixture_of(
        "x: T[N, M], i: U[M] -> y: T[N] autocast f32 scratch v: A[N], w: i32[2*M] batch N M"
        " where U: i32 scratch u: bool[] where T: f32");
    cr_assert_eq(f.sig->n_scratch, 3);
    cr_assert_str_eq(f.sig->scratch[2].name, "u");
    cr_assert_eq(f.sig->scratch[2].elem.dtype, WICK_BOOL);
    cr_assert(f.sig->dims[0].batch && f.sig->dims[1].batch);
    cr_assert_eq(f.sig->autocast, WICK_AUTOCAST_F32);
    cr_assert(f.sig->autocast_given);
    cr_assert_eq(wick_signature_require_types(&f.ctx, f.sig), WICK_OK);
    fixture_free(&f);
}

Test(parse, words_of_clauses_are_free_as_argument_names)
{
    fixture f = fixture_of(
        "where: T[N], scratch: T[N], batch: int, strided: float -> shape: T[N], autocast: T[N]");
    cr_assert_eq(f.sig->n_inputs, 4);
    cr_assert_eq(f.sig->n_outputs, 2);
    fixture_free(&f);
}

Test(parse, defaults)
{
    fixture f =
        fixture_of("a: int = -7, b: float = 1e-5, c: float = -2, d: bool = true, e: 'p'|'q' = 'q',"
                   " g: str = 'a (b), c', h: float = .5, i: int = 9223372036854775807 -> y: int");
    const wick_param *in = f.sig->inputs;
    cr_assert_eq(in[0].default_int, -7);
    cr_assert(in[1].default_float == 1e-5 && in[2].default_float == -2.0);
    cr_assert_eq(in[3].default_int, 1);
    cr_assert_eq(in[4].n_choices, 2);
    cr_assert_eq(in[4].default_int, 1);
    cr_assert_str_eq(in[5].default_str, "a (b), c");
    cr_assert(in[6].default_float == 0.5);
    cr_assert_eq(in[7].default_int, INT64_MAX);
    fixture_free(&f);
}

/* ---- printing and parsing agree ---- */

static void check_round_trip(fixture *f)
{
    fixture again;
    wick_text first = {0}, second = {0};
    wick_signature_print(&first, f->sig);
    cr_assert_eq(fixture_parse(&again, f->sig->name, wick_text_str(&first)), WICK_OK, "%s",
                 wick_ctx_message(&again.ctx));
    wick_signature_print(&second, again.sig);
    cr_assert_str_eq(wick_text_str(&first), wick_text_str(&second));
    cr_assert_eq(f->sig->n_dims, again.sig->n_dims);
    for (int i = 0; i < f->sig->n_dims; i++)
        cr_assert_str_eq(f->sig->dims[i].name, again.sig->dims[i].name);
    fixture_free(&again);
    wick_text_free(&first);
    wick_text_free(&second);
}

Test(parse, every_kernel_prints_as_text_that_parses_alike) { for_each_kernel(check_round_trip); }

/* ---- limits ---- */

/* text = first, then `n` times middle with its number, then last */
static wick_status parse_repeated(const char *first, const char *middle, int n, const char *last,
                                  fixture *f)
{
    wick_text text = {0};
    wick_text_add(&text, first);
    for (int i = 0; i < n; i++) {
        wick_text_printf(&text, "%s%s%d", i ? "," : "", middle, i);
        wick_text_add(&text, last);
    }
    wick_text_add(&text, first[0] ? "] -> ()" : "-> ()");
    wick_status status = fixture_parse(f, "f", wick_text_str(&text));
    wick_text_free(&text);
    return status;
}

Test(parse, limits_are_told_in_words)
{
    static const struct {
        const char *first, *middle, *last;
        int most;
        const char *words;
    } cases[] = {
        {"", "x", ":f32[]", 64,
         "an operator has at most 64 arguments, results and scratch buffers"},
        {"x: f32[", "N", "", 32, "a signature has at most 32 named dims"},
        {"x: f32[", "", "", 64, "a tensor has at most 64 dims"},
        {"", "x: f32[], t", ": int", 1, NULL},
    };
    for (int i = 0; i < WICK_COUNT(cases); i++) {
        fixture f;
        cr_assert_eq(
            parse_repeated(cases[i].first, cases[i].middle, cases[i].most, cases[i].last, &f),
            WICK_OK, "%s", wick_ctx_message(&f.ctx));
        fixture_free(&f);
        if (!cases[i].words) continue;
        cr_assert_eq(
            parse_repeated(cases[i].first, cases[i].middle, cases[i].most + 1, cases[i].last, &f),
            WICK_EINVAL);
        cr_assert_eq(strncmp(wick_ctx_message(&f.ctx), cases[i].words, strlen(cases[i].words)), 0,
                     "%s", wick_ctx_message(&f.ctx));
        fixture_free(&f);
    }
}

Test(parse, huge_text_is_refused)
{
    fixture f;
    size_t n = 100000;
    char *text = wick_malloc(n + 1);
    memset(text, ' ', n);
    text[n] = '\0';
    cr_assert_eq(fixture_parse(&f, "f", text), WICK_EINVAL);
    cr_assert_str_eq(wick_ctx_message(&f.ctx),
                     "a signature has at most 65536 characters, this one has 100000");
    fixture_free(&f);
    memset(text, '[', 60000);
    text[60000] = '\0';
    cr_assert_eq(fixture_parse(&f, "f", text), WICK_EINVAL);
    cr_assert_lt(strlen(wick_ctx_message(&f.ctx)), 400, "the message shows a part of a long text");
    fixture_free(&f);
    wick_free(text);
}

/* ---- types of a file ---- */

Test(parse, variables_without_list_adopt_the_one_of_the_file)
{
    fixture a = fixture_of("x: T[N] -> y: T[N] where T: f16 f32"),
            b = fixture_of("dy: T[N], i: U[N] -> dx: T[N]"),
            c = fixture_of("x: T[N] -> y: T[N] where T: f32 f16"),
            d = fixture_of("x: T[N] -> y: T[N] where T: f32");
    cr_assert_eq(wick_signature_adopt_types(&b.ctx, b.sig, a.sig), WICK_OK);
    cr_assert_eq(b.sig->variables[0].n_types, 2);
    cr_assert_eq(b.sig->variables[0].types[1], WICK_F32);
    cr_assert_eq(wick_signature_require_types(&b.ctx, b.sig), WICK_EINVAL);
    cr_assert_str_eq(wick_ctx_message(&b.ctx),
                     "the types of U are not listed: add `where U: f32 f64` or the like");
    cr_assert_eq(wick_signature_adopt_types(&c.ctx, c.sig, a.sig), WICK_OK,
                 "the order does not matter");
    cr_assert_eq(wick_signature_adopt_types(&d.ctx, d.sig, a.sig), WICK_EINVAL);
    cr_assert(strstr(wick_ctx_message(&d.ctx), "the types of T differ"));
    fixture_free(&a);
    fixture_free(&b);
    fixture_free(&c);
    fixture_free(&d);
}

/* ---- out of memory ---- */

static bool parse_once(void)
{
    fixture f;
    wick_status status =
        fixture_parse(&f, NULL,
                      "f(x: strided T[*N, C], i: U[2*H+1, C], w?: i8[C], m: 'a'|'b' = 'a',"
                      " s: str = 't') -> y: A[*N] where T: f32, U: i8 scratch v: f32[C] batch N");
    cr_assert(status == WICK_OK || status == WICK_ENOMEM, "status %d", (int)status);
    cr_assert(status == WICK_OK || !f.sig, "written only on success");
    fixture_free(&f);
    return status == WICK_OK;
}

static bool refuse_once(void)
{
    fixture f;
    wick_status status = fixture_parse(&f, "f", "x: T[N, -> y: T[N]");
    bool complete = status == WICK_EINVAL && strchr(wick_ctx_message(&f.ctx), '^');
    cr_assert_neq(status, WICK_OK);
    fixture_free(&f);
    return complete;
}

Test(parse, any_allocation_may_fail)
{
    walk_allocation_failures(parse_once);
    walk_allocation_failures(refuse_once);
}
