"""What an operator is given, and what it moves."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from measured import operator_in

from wick import _wick
from wick.bench import inputs
from wick.bench.host import BY_LIBRARY, IN_A_LOOP, PAST_THE_CACHES
from wick.bench.shapes import Case


def test_the_plan_counts_shapes_and_bytes() -> None:
    dims, types = {"N": (8, 4), "C": 3}, {"T": "f16"}
    plan = _wick.plan("wick", "scale_bias_relu", dims, types, ())
    assert plan == ([((8, 4, 3), "f16"), ((3,), "f16"), None], [((8, 4, 3), "f16")], 198, 192)
    empty = _wick.plan("wick", "scale_bias_relu", {"N": (), "C": 0}, types, ())
    assert empty == ([((0,), "f16"), ((0,), "f16"), None], [((0,), "f16")], 0, 0)


def test_the_plan_knows_optionals_shapes_and_in_place(folder: Path) -> None:
    operator = operator_in(folder)
    named = (operator.namespace, operator.name)
    dims, types = {"N": (2,), "C": 3}, {"T": "f64"}
    assert _wick.plan(*named, dims, types, ())[2:] == (72, 48)
    assert _wick.plan(*named, dims, types, ("bias",))[0][2] is None
    assert _wick.plan(*named, dims, types, ("bias",))[2:] == (48, 48)
    assert _wick.plan("wick", "reduce_sum_backward", {"N": (2, 3)}, {"T": "f32"}, ())[:3] == (
        [((), "f32"), ((2, 3), None)],
        [((2, 3), "f32")],
        4,
    )
    assert _wick.plan("wick", "add_out", {"N": (4,)}, {"T": "f32"}, ())[2:] == (48, 16)


@pytest.mark.parametrize(
    "dims, types, kind, message",
    [
        ({"N": (8,)}, {"T": "f16"}, KeyError, "the dim C has no size"),
        ({"N": 8, "C": 1}, {"T": "f16"}, TypeError, "takes a tuple"),
        ({"N": (8,), "C": -1}, {"T": "f16"}, ValueError, "the dim C is negative"),
        ({"N": (1 << 40, 1 << 40), "C": 1}, {"T": "f16"}, ValueError, "the dim N"),
        ({"N": (1 << 60,), "C": 8}, {"T": "f16"}, RuntimeError, "63 bits"),
        ({"N": (8,), "C": 1}, {"T": "i8"}, ValueError, "i8 is not a type of T"),
        ({"N": (8,), "C": 1}, {}, ValueError, "nothing is not a type of T"),
        ({"N": ("a",), "C": 1}, {"T": "f16"}, TypeError, "integer"),
    ],
)
def test_a_plan_that_does_not_fit(dims, types, kind, message) -> None:
    with pytest.raises(kind, match=message):
        _wick.plan("wick", "scale_bias_relu", dims, types, ())


def test_parameters() -> None:
    found = _wick.parameters("wick", "muladd_backward")
    assert found["dims"] == [("N", True)]
    assert found["variables"] == [("T", ["f16", "bf16", "f32", "f64"])]
    assert [p["name"] for p in found["inputs"]] == ["dy", "a", "b"]
    assert [(p["name"], p["optional"]) for p in found["outputs"]] == [("da", True), ("db", True)]
    scale = _wick.parameters("wick", "scale_bias_relu")["inputs"][2]
    assert (scale["kind"], scale["default"], scale["type"]) == ("float", 1.0, "float")
    with pytest.raises(RuntimeError, match="no operator nothing in namespace wick"):
        _wick.parameters("wick", "nothing")


@pytest.mark.parametrize("way", [BY_LIBRARY, IN_A_LOOP, PAST_THE_CACHES])
@pytest.mark.parametrize("n", [0, 64, 4096, 1 << 20])
def test_the_copy_copies(n: int, way: int) -> None:
    a = torch.randint(0, 256, (n + 128,), dtype=torch.uint8)
    b = torch.zeros_like(a)
    start = [-(-t.data_ptr() // 64) * 64 for t in (a, b)]
    _wick.copy(start[1], start[0], n, 256, way, 2)
    at = [s - t.data_ptr() for s, t in zip(start, (a, b))]
    assert torch.equal(b[at[1] : at[1] + n], a[at[0] : at[0] + n])
    assert b[: at[1]].sum() == 0 and b[at[1] + n :].sum() == 0


def test_the_copy_refuses_what_is_not_aligned() -> None:
    for bad in (
        (1, 64, 64, 64),
        (64, 1, 64, 64),
        (64, 64, 65, 64),
        (64, 64, 64, 1),
        (0, 64, 0, 64),
    ):
        with pytest.raises(ValueError, match="multiples of 64"):
            _wick.copy(*bad, BY_LIBRARY, 1)
    with pytest.raises(ValueError, match="way is 3, expected 0 to 2"):
        _wick.copy(64, 64, 64, 64, 3, 1)


def test_inputs_are_random_and_the_same_again() -> None:
    parameters = _wick.parameters("wick", "scale_bias_relu")
    case = Case({"N": (4,), "C": 8}, {"T": "bf16"}, {"scale": 3.0})
    one, other = (inputs.make("wick", "scale_bias_relu", parameters, case, "cpu", 5) for _ in "ab")
    assert one.arguments["x"].shape == (4, 8) and one.arguments["x"].dtype is torch.bfloat16
    assert one.arguments["scale"] == 3.0
    assert torch.equal(one.arguments["x"], other.arguments["x"])
    assert one.arguments["x"].unique().numel() > 8
    assert (one.read, one.written) == (80, 64)


def test_whole_numbers_may_be_indices(make) -> None:
    made = make(
        """\
WICK_OP(OP, "x: f32[N, C], i: i64[N], mode: 'a'|'b', k: int, on: bool -> y: f32[N]");
WICK_IMPL wick_status OP_cpu(wick_ctx *ctx, const float *x, const int64_t *i, int mode, int64_t k,
                             bool on, float *y, int64_t N, int64_t C)
{ (void)ctx; (void)mode; (void)k; (void)on; for (int64_t n = 0; n < N; n++) y[n] = x[n * C + i[n]]; return WICK_OK; }
"""
    )
    parameters = _wick.parameters("local", made.name)
    call = inputs.make("local", made.name, parameters, Case({"N": 50, "C": 3}), "cpu", 0)
    assert set(call.arguments["i"].tolist()) == {0, 1, 2}
    assert (call.arguments["mode"], call.arguments["k"], call.arguments["on"]) == ("a", 1, True)


def test_inputs_that_the_author_gives() -> None:
    parameters = _wick.parameters("wick", "scale_bias_relu")
    case = Case({"N": (4,), "C": 8}, {"T": "f64"})

    def given(N, T, device):
        return {"x": torch.full((*N, 8), 2, dtype=T, device=device)}

    call = inputs.make("wick", "scale_bias_relu", parameters, case, "cpu", 0, given)
    assert call.arguments["x"].dtype is torch.float64 and call.arguments["x"].sum() == 64
    with pytest.raises(RuntimeError, match="takes Q; there are N, C, device, T"):
        inputs.make("wick", "scale_bias_relu", parameters, case, "cpu", 0, lambda Q: {})
    with pytest.raises(RuntimeError, match="returned z, which is no argument"):
        inputs.make("wick", "scale_bias_relu", parameters, case, "cpu", 0, lambda: {"z": 1})
