"""Cases: how they are spelt and read, and how one of several is made small."""

from __future__ import annotations

from typing import Any

import pytest
from parts import CASE, SCALE

from wick.check.case import Case, CaseError
from wick.check.forward import Forward
from wick.check.operator import Operator


def test_a_case_is_read_as_it_is_printed() -> None:
    text = "scale_bias_relu T:f16 N=2x3 C=17 scale=0.5 x~transposed values=nan seed=7"
    assert CASE.text() == text
    assert SCALE.read_case(text) == CASE
    assert Case.unpack(CASE.pack()) == CASE
    none = CASE.with_dim("N", ())
    assert "N=() " in none.text() and SCALE.read_case(none.text()) == none


def test_an_argument_may_be_called_seed(make: Any) -> None:
    made = make(
        'WICK_OP(OP, "x: f32[N], seed: int = 3 -> y: f32[N]");\n'
        "WICK_IMPL wick_status OP_cpu(wick_ctx *c, const float *x, int64_t s, float *y, int64_t N)\n"
        "{ (void)c, (void)x, (void)s, (void)y, (void)N; return WICK_OK; }\n"
    )
    operator = Operator("local", made.name)
    for seed in (0, 7):
        for scalars in ({}, {"seed": 0}, {"seed": 5}):
            case = Case(made.name, {}, {"N": 2}, scalars, seed=seed)
            assert operator.read_case(case.text()) == case, case.text()


def test_a_scalar_may_be_left_out_and_words_may_have_blanks(make: Any) -> None:
    made = make(
        "WICK_OP(OP, \"x: f32[N], by: float, how: str = 'a b %' -> y: f32[N]\");\n"
        "WICK_IMPL wick_status OP_cpu(wick_ctx *c, const float *x, double by, const char *how, float *y,\n"
        "                             int64_t N)\n"
        "{ (void)c, (void)x, (void)by, (void)how, (void)y, (void)N; return WICK_OK; }\n"
    )
    operator = Operator("local", made.name)
    case = Case(made.name, {}, {"N": 2}, {"by": 0.5, "how": "a b %"})
    assert operator.read_case(case.text()) == case, case.text()
    call = Forward(operator, None, lambda phase: None).prepare(case.but(scalars={}))
    assert call.values[1:] == [1.0, "a b %"] and not call.run().refused


@pytest.mark.parametrize(
    "text, words",
    [
        ("scale_bias_relu T:f16 N=1", "the size of C is missing: C=1"),
        ("scale_bias_relu T:f16 N=1 C=two", "C=two: expected a size"),
        ("scale_bias_relu T:f16 N=1 C=2x3", "C=2x3: expected one size"),
        ("scale_bias_relu T:f16 N=1 C=1 scale=x", "scale=x: expected float"),
        ("scale_bias_relu T:f16 N=1 C=1 values=foo", "values=foo: expected normal, positive"),
        ("scale_bias_relu T:f16 N=1 C=1 x~foo", "x~foo: expected transposed, sliced"),
        ("scale_bias_relu T:f16 N=1 C=1 seed=x", "seed=x: expected int"),
        ("scale_bias_relu T:f16 N=1 C=1 K=2", "K=2 is no part of a case of scale_bias_relu"),
        ("scale_bias_relu T:i8 N=1 C=1", "T: is missing or none of f16, bf16, f32, f64"),
        ("scale_bias_relu N=1 C=1", "T: is missing or none of f16, bf16, f32, f64"),
    ],
)
def test_a_text_that_is_no_case_is_refused_in_words(text: str, words: str) -> None:
    with pytest.raises(CaseError) as caught:
        SCALE.read_case(text)
    assert str(caught.value).startswith(words)
