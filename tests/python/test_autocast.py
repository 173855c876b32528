"""Autocast does what the signature says: keep, f32 or follow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from support import Made

import wick

Maker = Callable[..., Made]

AXPY = """\
WICK_OP(OP, "x: T[*N], w: T[*N], i: U[*N], s: A[], f: f32[], k: float = 2.0 -> y: T[*N], m?: u8[*N]"
            " where T: TYPES, U: i32 i64 CLAUSE");
WICK_OP(OP_backward, "dy: T[*N], i: U[*N], s: A[], k: float -> dx: T[*N], dw: T[*N]");
WICK_IMPL wick_status OP_cpu(wick_ctx *ctx, const T *x, const T *w, const U *i, const A *s, const float *f, double k,
                             T *y, uint8_t *m, int64_t N)
{
    (void)ctx;
    for (int64_t n = 0; n < N; n++) {
        y[n] = wick_T((A)k * wick_A(x[n]) + wick_A(w[n]) + (A)i[n] + s[0] + (A)f[0]);
        if (m) m[n] = 1;
    }
    return WICK_OK;
}
WICK_IMPL wick_status OP_backward_cpu(wick_ctx *ctx, const T *dy, const U *i, const A *s, double k, T *dx, T *dw,
                                      int64_t N)
{
    (void)ctx, (void)i, (void)s;
    for (int64_t n = 0; n < N; n++) {
        dx[n] = wick_T((A)k * wick_A(dy[n]));
        dw[n] = dy[n];
    }
    return WICK_OK;
}
"""

ALL = "f16 bf16 f32 f64"
F16, BF16, F32, F64 = torch.float16, torch.bfloat16, torch.float32, torch.float64


@pytest.fixture(scope="module")
def axpy(make: Maker) -> Callable[[str, str], Made]:
    made: dict[tuple[str, str], Made] = {}

    def get(clause: str, types: str = ALL) -> Made:
        if (clause, types) not in made:
            text = AXPY.replace("TYPES", types).replace("CLAUSE", clause)
            made[clause, types] = make(text)
        return made[clause, types]

    return get


def arguments(x: torch.dtype, w: torch.dtype, s: torch.dtype = F32) -> tuple[Any, ...]:
    ones = torch.ones(3)
    return (
        ones.to(x).clone(),
        ones.to(w).clone(),
        ones.int(),
        torch.tensor(0.5, dtype=s),
        torch.tensor(0.25),
    )


@pytest.mark.parametrize("low", [BF16, F16])
@pytest.mark.parametrize(
    "clause, x, w, expected",
    [
        ("", F32, F32, "f32"),
        ("autocast keep", F32, F32, "f32"),
        ("autocast keep", BF16, BF16, "bf16"),
        ("autocast f32", BF16, BF16, "f32"),
        ("autocast f32", BF16, F32, "f32"),
        ("autocast f32", F32, F32, "f32"),
        ("autocast follow", F32, F32, "low"),
        ("autocast follow", BF16, F32, "low"),
        ("autocast follow", F16, BF16, "low"),
    ],
)
def test_the_rule(
    axpy: Any,
    door: str,
    low: torch.dtype,
    clause: str,
    x: torch.dtype,
    w: torch.dtype,
    expected: str,
) -> None:
    op = axpy(clause).by(door)
    with torch.autocast("cpu", dtype=low):
        y, m = op(*arguments(x, w))
        z, none = op(*arguments(x, w), 2.0, want_m=False)
    dtype = {"low": low, "f32": F32, "bf16": BF16}[expected]
    assert (y.dtype, z.dtype, m.dtype, none) == (dtype, dtype, torch.uint8, None)
    assert y.tolist() == z.tolist() == [4.75] * 3


def test_keep_refuses_a_mixture_as_it_does_without_autocast(axpy: Any, door: str) -> None:
    op = axpy("").by(door)
    for enabled in (True, False):
        with (
            torch.autocast("cpu", enabled=enabled),
            pytest.raises(RuntimeError, match="w is f32, but T is bf16"),
        ):
            op(*arguments(BF16, F32))


@pytest.mark.parametrize("clause", ["autocast f32", "autocast follow"])
def test_f64_is_never_cast(axpy: Any, door: str, clause: str) -> None:
    with torch.autocast("cpu"):
        assert axpy(clause).by(door)(*arguments(F64, F64, F64))[0].dtype == F64


@pytest.mark.parametrize(
    "clause, types, dtype",
    [("autocast follow", "f32 f64", F32), ("autocast f32", "bf16 f16", BF16)],
)
def test_a_type_that_is_not_listed_is_not_cast_to(
    axpy: Any, door: str, clause: str, types: str, dtype: torch.dtype
) -> None:
    with torch.autocast("cpu"):
        assert axpy(clause, types).by(door)(*arguments(dtype, dtype))[0].dtype == dtype


def test_outside_and_disabled_nothing_is_cast(axpy: Any, door: str) -> None:
    op = axpy("autocast follow").by(door)
    assert op(*arguments(F32, F32))[0].dtype == F32
    with torch.autocast("cpu"):
        with torch.autocast("cpu", enabled=False):
            assert op(*arguments(F32, F32))[0].dtype == F32
        assert op(*arguments(F32, F32))[0].dtype == BF16
    assert op(*arguments(F32, F32))[0].dtype == F32


def test_another_devices_autocast_is_none_of_ours(axpy: Any, door: str) -> None:
    op = axpy("autocast follow").by(door)
    was = torch.is_autocast_enabled("cuda")
    torch.set_autocast_enabled("cuda", True)
    try:
        assert op(*arguments(F32, F32))[0].dtype == F32
    finally:
        torch.set_autocast_enabled("cuda", was)


def test_gradients_arrive_in_the_arguments_type(axpy: Any, door: str) -> None:
    for clause in ("", "autocast f32", "autocast follow"):
        x, w, *rest = arguments(F32, F32)
        x.requires_grad_()
        with torch.autocast("cpu"):
            y, _ = axpy(clause).by(door)(x, w, *rest)
        y.sum().backward()
        assert x.grad.dtype == F32 and x.grad.tolist() == [2.0] * 3


@pytest.mark.filterwarnings("ignore")
def test_in_a_compiled_graph(axpy: Any, door: str) -> None:
    torch._dynamo.reset()
    op = axpy("autocast follow").by(door)
    compiled = torch.compile(lambda *a: op(*a)[0] * 2, backend="aot_eager", fullgraph=True)
    with torch.autocast("cpu"):
        assert compiled(*arguments(F32, F32)).dtype == BF16
    assert compiled(*arguments(F32, F32)).dtype == F32
    inside = torch.compile(lambda *a: within(op, *a), backend="aot_eager", fullgraph=True)
    assert inside(*arguments(F32, F32)).dtype == BF16


def within(op: Any, *args: Any) -> torch.Tensor:
    with torch.autocast("cpu"):
        return op(*args)[0]


def test_vmap_under_autocast(axpy: Any, door: str) -> None:
    x, w, i, s, f = arguments(F32, F32)
    with torch.autocast("cpu"):
        y = torch.func.vmap(lambda x: axpy("autocast follow").by(door)(x, w, i, s, f)[0])(
            x.expand(2, 3)
        )
    assert y.dtype == BF16 and y.shape == (2, 3)


def test_a_rule_that_is_loaded_again_is_the_one_that_holds(make: Maker, door: str) -> None:
    text = AXPY.replace("TYPES", ALL)
    made = make(text.replace("CLAUSE", "autocast follow"))
    source = made.path.read_text()
    for clause, expected in (("follow", BF16), ("keep", F32), ("f32", F32), ("follow", BF16)):
        made.path.write_text(source.replace("autocast follow", f"autocast {clause}"))
        wick.load(made.path)
        with torch.autocast("cpu"):
            assert made.by(door)(*arguments(F32, F32))[0].dtype == expected, clause


def test_only_a_rule_makes_a_call_pass_the_dispatcher(
    make: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    from wick import _calls

    if _calls.mode != "internals":
        pytest.skip("whether autocast is on is asked in Python in this mode")
    asked = []
    overload = _calls.overload
    monkeypatch.setattr(
        _calls, "overload", lambda ns, name: asked.append(name) or overload(ns, name)
    )
    keeps, follows = (
        make(AXPY.replace("TYPES", ALL).replace("CLAUSE", c)) for c in ("", "autocast follow")
    )
    with torch.autocast("cpu"):
        keeps.direct(*arguments(F32, F32))
        follows.direct(*arguments(F32, F32))
    assert asked == [follows.name]
