"""What whole numbers point into, asked of the reference."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from parts import SCALE, rows, subject_of

from wick.check.case import Case
from wick.check.forward import Forward
from wick.check.operator import Operator
from wick.check.pointers import find_pointers
from wick.check.reference import Reference

TABLE = """WICK_OP(OP, "table: T[V, D], at: i64[N] -> y: T[N, D] where T: f32 f64");
WICK_IMPL wick_status OP_cpu(wick_ctx *c, const T *table, const int64_t *at, T *y, int64_t V,
                             int64_t D, int64_t N)
{ (void)c, (void)table, (void)at, (void)y, (void)V, (void)D, (void)N; return WICK_OK; }
"""


def rows_by_mask(table: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    return (at[:, None] == torch.arange(len(table))).double() @ table


def cross_entropy(table: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    return table.log_softmax(0)[at]


def nothing(table: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    return at.double()[:, None] + torch.zeros(table.shape[1])


def scaled(table: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    """Hangs on V, and yet is no place there."""
    return (at.double()[:, None] + 1) * len(table) + torch.zeros(table.shape[1])


@pytest.mark.parametrize(
    "function, pointers",
    [
        (rows, {"at": "V"}),
        (rows_by_mask, {"at": "V"}),
        (cross_entropy, {"at": "V"}),
        (nothing, {}),
        (scaled, {}),
    ],
)
def test_what_an_index_is_for_is_asked_of_the_reference(
    function: Any, pointers: dict[str, str], make: Any
) -> None:
    operator = Operator("local", make(TABLE).name)
    forward = Forward(operator, Reference("here", function, None), lambda _: None)
    assert forward.pointers == pointers
    case = Case(operator.name, {"T": "f32"}, {"V": 70_000, "D": 2, "N": 500})
    (_, at) = forward.prepare(case).values
    assert (int(at.max()) > 60_000) == bool(pointers)


SECTIONS = """\
WICK_OP(OP, "x: f32[M, C], at: i64[S+1] -> y: f32[S, C]");
WICK_IMPL wick_status OP_cpu(wick_ctx *ctx, const float *x, const int64_t *at, float *y, int64_t M, int64_t C, int64_t S)
{
    (void)x, (void)at, (void)y, (void)M, (void)C, (void)S;
    return wick_fail(ctx, WICK_ENOTSUP, "never called");
}
"""


def sections(x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    if at[0] < 0 or at[-1] > len(x) or bool((at.diff() < 0).any()):
        raise ValueError("not in order, or outside")
    return torch.stack([x[a:b].sum(0) for a, b in zip(at.tolist(), at.tolist()[1:])])


def whole_sections(x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    if at[0] != 0 or at[-1] != len(x):
        raise ValueError("not all of x")
    return sections(x, at)


def any_sections(x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    return torch.stack([x[a:b].sum(0) for a, b in zip(at.tolist(), at.tolist()[1:])])


@pytest.mark.parametrize(
    "function, offsets",
    [(sections, {"at": "M"}), (whole_sections, {"at": "M"}), (any_sections, {})],
)
def test_where_sections_begin_is_asked_of_the_reference(
    function: Any, offsets: dict[str, str], make: Any
) -> None:
    operator = Operator("local", make(SECTIONS).name)
    forward = Forward(operator, Reference("here", function, None), lambda _: None)
    assert forward.offsets == offsets
    for seed, values in ((1, "normal"), (2, "ties"), (4, "late")):
        case = Case(operator.name, {}, {"M": 900, "C": 1, "S": 20}, values=values, seed=seed)
        call = forward.prepare(case)
        at = call.values[1]
        if offsets:
            assert at[0] == 0 and at[-1] == 900 and bool((at.diff() >= 0).all())
            call.expected()
        else:
            assert values == "late" or bool((at.diff() < 0).any())


BAGS = """\
WICK_OP(OP, "table: f32[V, D], which: i64[L], at: i64[B+1] -> y: f32[B, D]");
WICK_IMPL wick_status OP_cpu(wick_ctx *ctx, const float *table, const int64_t *which, const int64_t *at, float *y, int64_t V, int64_t D, int64_t L, int64_t B)
{
    (void)table, (void)which, (void)at, (void)y, (void)V, (void)D, (void)L, (void)B;
    return wick_fail(ctx, WICK_ENOTSUP, "never called");
}
"""


def test_an_index_beside_sections_is_found_too(make: Any) -> None:
    """It has an answer only where the sections fit."""

    def bags(table: torch.Tensor, which: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        return whole_sections(table[which], at)

    operator = Operator("local", make(BAGS).name)
    forward = Forward(operator, Reference("here", bags, None), lambda _: None)
    assert (forward.offsets, forward.pointers) == ({"at": "L"}, {"which": "V"})


def test_what_is_a_float_points_nowhere() -> None:
    operator = Operator("wick", "scale_bias_relu_learned")
    reference = Reference("here", lambda x, bias, scale: torch.relu(x * scale + bias), None)
    assert find_pointers(operator, reference, {}, {}) == {}


def roots(x: torch.Tensor, bias: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
    if bool((x < 0).any()):
        raise ValueError("x is negative")
    return torch.relu(x.sqrt() * scale + bias)


def test_what_may_not_be_negative_is_not() -> None:
    """Or most of what is drawn would have no answer. That it is refused is tried with negative numbers alone."""
    subject = subject_of(SCALE, roots)
    assert subject.natural == {"x"}
    case = Case(SCALE.name, {"T": "f32"}, {"N": (40,), "C": 50})
    for values in ("normal", "wide", "special"):
        x, bias = subject.prepare(case.but(values=values)).values[:2]
        assert not (x < 0).any() and (bias < 0).any()
    assert (subject.prepare(case.but(values="negative")).values[0] < 0).all()
