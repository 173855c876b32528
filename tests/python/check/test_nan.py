"""NaN and infinities that a formula makes and a loop does not."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from parts import CASE, SCALE

from wick.check.forward import Forward
from wick.check.operator import Operator
from wick.check.oracle import ByGradient, ByReference
from wick.check.reference import Reference


def test_gradients_behind_an_absent_input_keep_their_places() -> None:
    x, z, dy = torch.randn(3), torch.randn(3), torch.randn(3)
    reference = Reference("here", lambda x, b, z: x * 2 + (0 if b is None else b) + z * 3, None)
    inputs = {"x": x, "b": None, "z": z}
    oracle = ByGradient(SCALE, reference, inputs, [dy], ["x", "b", "z"], torch.float32)
    dx, db, dz = exact = oracle.exact()
    assert db is None and oracle.reached == {"x", "z"}
    torch.testing.assert_close([dx, dz], [2 * dy.double(), 3 * dy.double()])
    for sample in oracle.samples(exact):
        assert sample[1] is None
        torch.testing.assert_close(sample[2].double(), dz, rtol=1e-5, atol=1e-5)


def test_what_a_formula_divides_by_need_not_be_nan() -> None:
    """torch's gradient of cumprod divides by x, though that of an element does not hang on it."""
    x = torch.tensor([1.043, math.nan, -0.32], dtype=torch.float64)
    dy = torch.tensor([0.7, 0.0402, 1.4648], dtype=torch.float64)
    reference = Reference("here", lambda x: x.cumprod(-1), None)
    oracle = ByGradient(Operator("wick", "relu"), reference, {"x": x}, [dy], ["x"], torch.float64)
    exact = oracle.exact()
    (dx,) = exact
    assert dx.isnan().tolist() == [True, True, True]
    found = [s[0] for s in oracle.samples(exact)]
    right = 1.043 * (0.0402 - 0.32 * 1.4648)
    assert any(abs(f[1] - right) < 1e-12 and f[[0, 2]].isnan().all() for f in found)


def test_what_a_mask_leaves_out_need_not_be_nan() -> None:
    """Autograd multiplies it by 0. A gradient that NaN does matter to is NaN in every voice."""
    x = torch.tensor([math.nan, math.nan, 1.5, math.inf])
    mask, dy = torch.tensor([False, True, True, False]), torch.ones(4)

    def right(rows: slice) -> tuple[list[Any], list[list[Any]]]:
        inputs = {"x": x[rows], "scale": torch.tensor(2.0)}
        reference = Reference("here", lambda x, scale: masked_rows(x, scale, rows), None)
        oracle = ByGradient(SCALE, reference, inputs, [dy[rows]], list(inputs), torch.float32)
        exact = oracle.exact()
        return exact, oracle.samples(exact)

    def masked_rows(x: torch.Tensor, scale: torch.Tensor, rows: slice) -> torch.Tensor:
        return torch.where(mask[rows], (x * scale) ** 2, 0.0)

    (dx, dscale), samples = right(slice(0, 4))
    assert dx.isnan().tolist() == [True, True, False, True] and bool(dscale.isnan())
    assert any(s[0].isnan().tolist() == [False, True, False, False] for s in samples)
    assert all(bool(s[1].isnan()) for s in samples)
    (_, dscale), samples = right(slice(2, 4))  # its sum has nothing but what is left out
    assert bool(dscale.isnan()) and any(float(s[1]) == 2 * 2.0 * 1.5**2 for s in samples)


def test_what_vanishes_is_the_same_whatever_stands_in_the_place_of_nan() -> None:
    """As where what arrives is a denormal: 0 is as good as what is left of it."""
    x = torch.tensor([math.nan, math.nan], dtype=torch.float64)
    dy = torch.tensor([5e-309, 1e-300], dtype=torch.float64)
    reference = Reference("here", lambda x: x.sin(), None)
    oracle = ByGradient(Operator("wick", "relu"), reference, {"x": x}, [dy], ["x"], torch.float64)
    samples = [s[0].isnan().tolist() for s in oracle.samples(oracle.exact())]
    assert [False, True] in samples and [False, False] not in samples


def test_what_a_forward_leaves_out_need_not_be_nan() -> None:
    """0 times NaN is NaN for who multiplies. What NaN matters to, be it as the largest, is NaN."""
    mask = torch.tensor([0.0, 1.0, 0.0])
    x = torch.tensor([[math.nan, 2.0, 1.0], [math.inf, 2.0, 1.0], [1.0, math.nan, 1.0]])

    def regardless(f: Any) -> list[float]:
        oracle = ByReference(SCALE, Reference("here", f, None), {"x": x}, torch.float32)
        return [float(v) for v in oracle.regardless(oracle.exact())[0]]

    def same(found: list[float], wanted: list[float]) -> bool:
        return torch.allclose(torch.tensor(found), torch.tensor(wanted), equal_nan=True)

    assert same(regardless(lambda x: (x * mask).sum(-1)), [2.0, 2.0, math.nan])
    assert same(regardless(lambda x: x.amax(-1)), [math.nan, math.inf, math.nan])
    assert same(regardless(lambda x: x.relu().sum(-1)), [math.nan, math.inf, math.nan])
    assert same(regardless(lambda x: (1e4 * x).clamp(0, 1).sum(-1)), [math.nan, 3.0, math.nan])


def test_what_is_nan_because_of_infinities_may_be_infinite() -> None:
    """Another formula may not subtract them. What is NaN because of NaN may not."""
    x = torch.tensor([math.inf, math.inf, math.nan, 1.0])
    y = torch.tensor([math.inf, math.nan, math.inf, 1.0])
    reference = Reference("here", lambda x, y: x - y, None)
    oracle = ByReference(SCALE, reference, {"x": x, "y": y}, torch.float32)
    exact = oracle.exact()
    assert exact[0].isnan().tolist() == [True, True, True, False]
    endless = torch.full((4,), math.inf)
    assert oracle.may_be_infinite(0, endless).tolist() == [True, False, False, False]
    call = Forward(SCALE, None, lambda phase: None).prepare(CASE)
    call.oracle = oracle
    got = torch.tensor([math.inf, math.inf, 5.0, 1.0])
    found = call.instead_of_nan(exact, 0, got)
    assert found.isnan().tolist() == [False, True, True, False] and found[0] == math.inf


def test_what_is_left_out_beside_infinities_may_be_infinite() -> None:
    """0 times NaN, as at the border of a convolution, where a loop leaves it out."""
    w = torch.tensor([math.nan, 1.0, 2.0])
    x = torch.tensor([[-math.inf, 1.0], [2.0, 1.0], [-math.inf, math.nan]])
    reference = Reference("here", lambda x, w: F.pad(x, (1, 0)) @ w, None)
    oracle = ByReference(SCALE, reference, {"x": x, "w": w}, torch.float32)
    assert oracle.exact()[0].isnan().all()
    assert oracle.may_be_infinite(0, torch.full((3,), -math.inf)).tolist() == [True, False, False]
    assert not oracle.may_be_infinite(0, torch.full((3,), math.inf)).any()
