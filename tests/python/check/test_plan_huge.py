"""Huge cases: which there are, and how long they take."""

from __future__ import annotations

import math
from typing import Any

import torch

from wick.check.case import Case
from wick.check.forward import Forward
from wick.check.judges import huge
from wick.check.operator import Operator
from wick.check.plan import Planner
from wick.check.plan_huge import BLOCK, plan_huge


def test_huge_cases_are_huge() -> None:
    for name in ("relu", "scale_bias_relu", "reduce_sum", "reduce_sum_dim", "mul_backward"):
        operator = Operator("wick", name)
        cases = plan_huge(operator)
        assert len(cases) == (
            2 if name == "reduce_sum_dim" else 1
        )  # what is summed up is long as well
        for case in cases:
            assert case.types == {"T": "f32"}
            assert 2**31 < _most_elements(operator, case) < 2**31 + 2**23, name
        first, *others = plan_huge(operator, unsigned=True)
        assert 2**32 < _most_elements(operator, first) < 2**32 + 2**23, name
        assert others == cases[1:]


def test_huge_cases_are_of_types_that_are_asked_for_and_quick_or_small() -> None:
    operator = Operator("wick", "scale_bias_relu")

    def types(**about: Any) -> set[str]:
        return {case.types["T"] for case in plan_huge(operator, **about)}

    assert types() == {"f32"}  # nothing is converted
    assert types(packs=True) == {"f16"}  # on a GPU, where memory is what it is
    assert types(asked=("f64", "bf16")) == {"f64"}
    assert types(asked=("bf16",)) == types(asked=("bf16",), packs=True) == {"bf16"}
    assert types(asked=("i8",)) == {"f32"}  # it has none of these


def test_on_a_gpu_rows_are_once_as_long_as_blocks() -> None:
    """A kernel for long rows is another one than that for short ones."""
    for name, dims in (("scale_bias_relu", "C"), ("reduce_sum_dim", "Q")):
        operator = Operator("wick", name)
        (case,) = [c for c in plan_huge(operator, packs=True) if c.dims[dims] == BLOCK]
        assert 2**31 < _most_elements(operator, case) < 2**31 + 2**23
        assert not [c for c in plan_huge(operator) if c.dims[dims] == BLOCK]
    assert len(plan_huge(Operator("wick", "relu"), packs=True)) == 1  # which has no rows


def _most_elements(operator: Operator, case: Case) -> int:
    inputs, outputs, _, _ = operator.plan(case)
    return max(math.prod(a[0]) for a in (*inputs, *outputs) if a)


def test_how_long_a_huge_call_takes_is_found_out_without_a_trace(make: Any) -> None:
    made = make(
        'WICK_OP(OP, "y!: f32[V], x: f32[N] -> ()");\n'
        "WICK_IMPL wick_status OP_cpu(wick_ctx *c, float *y, const float *x, int64_t V, int64_t N)\n"
        "{ (void)c; for (int64_t i = 0; i < N && V > 0; i++) y[0] += x[i]; return WICK_OK; }\n"
    )
    subject = Forward(Operator("local", made.name), None, lambda phase: None)
    case = Case(made.name, {}, {"V": 1, "N": 2**31})
    tail = [torch.tensor([0.5]), torch.ones(4099)]
    small = case.with_dim("N", 4099)
    assert 0 < huge._seconds_for(subject, case, small, "N", tail) < 1000
    assert tail[0].item() == 0.5


def test_of_what_grows_as_a_square_the_tail_is_less(make: Any) -> None:
    """Rows that are huge themselves cannot be called as if they were memory."""

    def rows(times: int) -> Any:
        made = make(
            f'WICK_OP(OP, "w: f32[{times}*K, K] -> y: f32[K]");\n'
            "WICK_IMPL wick_status OP_cpu(wick_ctx *c, const float *w, float *y, int64_t K)\n"
            "{ (void)c; for (int64_t k = 0; k < K; k++) y[k] = w[k * K + k]; return WICK_OK; }\n"
        )
        op = Operator("local", made.name)
        tail = huge._tail_of(op, Case(made.name, {}, {"K": 46_341}), "K")
        subject = Forward(op, None, lambda phase: None)
        if tail is not None:
            outcome = huge._call(subject, tail, huge._inputs(subject, tail))
            assert not outcome.refused
        return tail and tail.dims["K"]

    assert [rows(times) for times in (1, 27, 200, 9999)] == [4099, 1021, 251, None]


def test_a_place_for_every_element_is_beyond_what_a_float_counts_too(make: Any) -> None:
    made = make(
        'WICK_OP(OP, "x: f32[*N, L] -> at: i64[*N, L]");\n'
        "WICK_IMPL wick_status OP_cpu(wick_ctx *c, const float *x, int64_t *at, int64_t N, int64_t L)\n"
        "{ (void)c, (void)x, (void)at, (void)N, (void)L; return WICK_OK; }\n"
    )
    operator = Operator("local", made.name)
    assert operator.counted_dims == [] and operator.placed_dims == ["L"]
    assert {case.dims["L"] > 2**24 for case in Planner(operator, 0).counted()} == {True}


def test_places_in_what_is_huge_are_of_every_type_that_holds_them(make: Any) -> None:
    made = make(
        'WICK_OP(OP, "x: f32[N, C], at: U[N], S: int -> y: f32[S, C] where U: i32 i64");\n'
        "WICK_IMPL wick_status OP_cpu(wick_ctx *c, const float *x, const U *at, int64_t S, float *y,\n"
        "                             int64_t N, int64_t C)\n"
        "{ (void)c, (void)x, (void)at, (void)y, (void)N, (void)C, (void)S; return WICK_OK; }\n"
    )
    cases = plan_huge(Operator("local", made.name))
    assert {(c.types["U"], c.dims["S"] > 2**29) for c in cases} == {
        ("i64", True),
        ("i32", True),
        ("i64", False),
    }
    assert all(c.dims["S"] < 2**31 for c in cases)


def test_a_size_that_an_int_gives_is_its_default_in_huge_cases(make: Any) -> None:
    """Those of a row may have to be more than it."""
    made = make(
        'WICK_OP(OP, "x: f32[*N, L], q: int, p: int = 2 -> y: f32[*N, L+2*p+q]");\n'
        "WICK_IMPL wick_status OP_cpu(wick_ctx *c, const float *x, int64_t q, int64_t p, float *y,\n"
        "                             int64_t N, int64_t L)\n"
        "{ (void)c, (void)x, (void)q, (void)p, (void)y, (void)N, (void)L; return WICK_OK; }\n"
    )
    for case in plan_huge(Operator("local", made.name)):
        assert (case.dims["p"], case.dims["q"]) == (2, 1)
