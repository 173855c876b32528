"""References, and what an operator and its backward are fed."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from parts import reference, subject_of

from wick.check.backward import Backward
from wick.check.call import Unfit
from wick.check.case import Case
from wick.check.forward import Forward
from wick.check.noise import Noise
from wick.check.operator import Operator
from wick.check.oracle import Unanswered
from wick.check.reference import ReferenceError


def test_in_place_the_reference_writes_or_returns() -> None:
    operator = Operator("wick", "add_out")
    a, b = torch.ones(2), torch.full((2,), 2.0)

    def writes(a: Any, b: Any, out: Any) -> None:
        out.copy_(a + b)

    for function in (writes, lambda a, b, out: a + b):
        (result,) = reference(function)(operator, {"a": a, "b": b, "out": torch.zeros(2)})
        assert result.tolist() == [3, 3]


def test_a_reference_that_does_not_fit_is_told() -> None:
    operator = Operator("wick", "mul")
    with pytest.raises(ReferenceError, match=r"ref.py: mul takes no argument b"):
        reference(lambda a: a).check(operator)
    reference(lambda **inputs: 0).check(operator)
    with pytest.raises(ReferenceError, match=r"ref.py: mul returns 2 values, expected 1"):
        reference(lambda a, b: (a, b))(operator, {"a": 1, "b": 2})


def test_sizes_that_do_not_fit_are_no_case(make: Any) -> None:
    made = make(
        'WICK_OP(OP, "x: f32[S-3] -> y: f32[S]");\n'
        "WICK_IMPL wick_status OP_cpu(wick_ctx *c, const float *x, float *y, int64_t S)\n"
        "{ (void)c, (void)x, (void)y, (void)S; return WICK_OK; }\n"
    )
    subject = Forward(Operator("local", made.name), None, lambda phase: None)
    with pytest.raises(Unfit):
        subject.prepare(Case(made.name, dims={"S": 1}))


def test_what_the_reference_refuses_is_outside() -> None:
    def refuses(x: Any) -> Any:
        raise IndexError("out of range")

    call = subject_of(Operator("wick", "relu"), refuses).prepare(
        Case("relu", {"T": "f32"}, {"N": (3,)})
    )
    with pytest.raises(Unanswered, match="out of range"):
        call.expected()


def test_the_backward_is_fed_as_autograd_feeds_it() -> None:
    operator = Operator("wick", "scale_bias_relu")
    forward = subject_of(operator, lambda x, bias, scale: torch.relu(x * scale + bias))
    case = Case("scale_bias_relu", {"T": "f32"}, {"N": (4,), "C": 5}, {"scale": 2.0})
    call = Backward(forward).prepare(case)
    assert [p.name for p in call.operator.inputs] == ["dy", "x", "bias", "scale"]
    assert call.values[3] == 2.0 and call.values[0].shape == (4, 5)
    got, expected = call.run().results, call.expected()
    for g, e in zip(got, expected):
        torch.testing.assert_close(g.double(), e)


def test_what_is_added_up_at_an_index_is_a_long_sum() -> None:
    x = torch.ones(2, 3, dtype=torch.float64, requires_grad=True)
    at = torch.zeros(1000, dtype=torch.int64)
    with Noise(1e-7, 0):
        (dx,) = torch.autograd.grad(x[:, at].sum(), x)
    assert 1e-4 < (dx[0, 0] - 1000).abs() < 0.2 and dx[0, 1] == 0


def test_the_largest_is_one_of_them() -> None:
    x = torch.randn(50, dtype=torch.float64)
    with Noise(1e-7, 0):
        assert (x == x.amax()).sum() == 1 and (x * 1 != x).any()
