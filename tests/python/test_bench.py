"""wick bench: what it measures, what it makes of it, and what it says. Never how fast anything is."""

from __future__ import annotations

import io
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

import wick
from wick import _wick, cli_bench
from wick.bench import (
    again,
    asked,
    compare,
    contenders,
    cuda,
    floor,
    inputs,
    plots,
    records,
    rows,
    shapes,
    table,
    target,
    timing,
    verdict,
    words,
    work,
)
from wick.bench.host import BY_LIBRARY, IN_A_LOOP, PAST_THE_CACHES, Host, Pins, cpus
from wick.bench.shapes import Case, Shapes, ShapesError

SOURCE = """/* slope -- y = x * by, and its gradient */
#include <wick/op.h>
WICK_OP(OP, "x: T[*N, C], by: float = 2.0, bias?: T[C] -> y: T[*N, C] where T: f32 f64");
WICK_IMPL wick_status OP_cpu(wick_ctx *ctx, const T *x, double by, const T *bias, T *y, int64_t N, int64_t C)
{
    (void)ctx;
    for (int64_t i = 0; i < N * C; i++) y[i] = (T)(x[i] * by + (bias ? bias[i % C] : 0));
    return WICK_OK;
}
WICK_OP(OP_backward, "dy: T[*N, C], by: float -> dx: T[*N, C]");
WICK_IMPL wick_status OP_backward_cpu(wick_ctx *ctx, const T *dy, double by, T *dx, int64_t N, int64_t C)
{
    (void)ctx;
    for (int64_t i = 0; i < N * C; i++) dx[i] = (T)(dy[i] * by);
    return WICK_OK;
}
"""
REFERENCE = """
import torch
def OP(x, by=2.0, bias=None):
    return x * by if bias is None else x * by + bias
def OP_baseline_twice(x, by, bias):
    return (x + x) * (by / 2) + bias
def OP_baseline_broken(x):
    raise ValueError("not today")
def helper(x):
    return x
"""
SIZES = """# sizes of OP
flops: 2*N*C
N=2x3 C=4      # small
N=5 C=7 T=f64 by=0.5 bias=none
[OP_backward]
N=3 C=3
flops: N*C
"""
_numbers = itertools.count()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An operator with all the files that may lie beside it; its name is that of the .c file."""
    name = f"slope_{next(_numbers)}"
    for ending, text in ((".c", SOURCE), (".py", REFERENCE), (".shapes.txt", SIZES)):
        (tmp_path / f"{name}{ending}").write_text(
            text.replace("OP", name).replace(f"WICK_{name}", "WICK_OP")
        )
    return tmp_path


def source_in(folder: Path) -> Path:
    return next(folder.glob("slope_*.c"))


def operator_in(folder: Path, which: int = 0) -> target.Operator:
    return target.find([str(source_in(folder))], None, None)[which]


def bench(*args: str | Path, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    script = Path(wick.__file__).parent / "cli_bench.py"
    return subprocess.run(
        [sys.executable, str(script), *map(str, args)],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, **environment},
    )


# ---- sizes ----


def test_sizes_from_a_file(folder: Path) -> None:
    operator = operator_in(folder)
    first, second = operator.cases(())
    assert first == Case({"N": (2, 3), "C": 4}, {"T": "f32"}, {}, ())
    assert second == Case({"N": (5,), "C": 7}, {"T": "f64"}, {"by": 0.5}, ("bias",))
    assert first.words() == "N=2x3 C=4" and second.words() == "N=5 C=7 by=0.5 bias=none"
    assert [operator.declared("flops", case) for case in (first, second)] == [48, 70]
    assert operator.declared("bytes", first) is None
    backward = operator_in(folder, 1)
    assert [case.words() for case in backward.cases(())] == [
        "N=2x3 C=4",
        "N=5 C=7 by=0.5",
        "N=3 C=3",
    ]
    assert backward.declared("flops", backward.cases(())[0]) == 24


def test_the_sizes_that_the_page_shows(make) -> None:
    page = (Path(__file__).resolve().parents[2] / "docs/bench.md").read_text()
    text = page.split("```text\n")[1].split("```")[0]
    made = make("""
WICK_OP(OP, "x: T[*N, C], bias?: T[C], scale: float = 1.0, mode: 'sum'|'mean' = 'sum' -> y: T[*N, C]"
            " where T: f32 bf16");
WICK_OP(OP_backward, "dy: T[*N, C] -> dx: T[*N, C]");
WICK_IMPL wick_status OP_cpu(wick_ctx *ctx, const T *x, const T *bias, double scale, int mode, T *y,
                             int64_t N, int64_t C)
{ (void)ctx, (void)x, (void)bias, (void)scale, (void)mode, (void)y, (void)N, (void)C; return WICK_OK; }
WICK_IMPL wick_status OP_backward_cpu(wick_ctx *ctx, const T *dy, T *dx, int64_t N, int64_t C)
{ (void)ctx, (void)dy, (void)dx, (void)N, (void)C; return WICK_OK; }
""")
    shapes = Shapes(text.replace("my_op", made.name), "page")
    names = (made.name, f"{made.name}_backward")
    both = {name: wick._wick.parameters("local", name) for name in names}
    shapes.check(both)
    first, second = shapes.cases(made.name, both[made.name])
    assert first == Case({"N": (8, 2048), "C": 4096})
    assert (second.types, second.absent) == ({"T": "bf16"}, ("bias",))
    assert second.scalars == {"scale": 0.5, "mode": "mean"}
    for mode in ("mode='sum'", 'mode="sum"'):
        quoted = Shapes(f"N=2 C=3 {mode}", "page").cases(made.name, both[made.name])
        assert quoted[0].scalars == {"mode": "sum"}
    with pytest.raises(ShapesError, match="mode='max: expected"):
        Shapes("N=2 C=3 mode='max", "page").cases(made.name, both[made.name])
    backward = shapes.cases(names[1], both[names[1]])[0]
    assert shapes.declared("flops", names[1], both[names[1]], backward) == 5 * 8 * 2048 * 4096


def test_types_that_are_asked_for_win(folder: Path) -> None:
    operator = operator_in(folder)
    assert [c.types["T"] for c in operator.cases(("f64",))] == ["f64", "f64"]
    assert [c.types["T"] for c in operator.cases(("all",))] == ["f32", "f32", "f64", "f64"]
    assert operator.cases(("i8",)) == []


def test_types_of_several_variables(make) -> None:
    made = make("""
WICK_OP(OP, "x: T[N], i: I[N] -> y: T[N] where T: f16 f32, I: i32 i64");
WICK_IMPL wick_status OP_cpu(wick_ctx *ctx, const T *x, const I *i, T *y, int64_t N)
{ (void)ctx, (void)x, (void)i, (void)y, (void)N; return WICK_OK; }
""")
    operator = target.Operator(made.direct, None, None, None)

    def chosen(*wanted: str) -> list[tuple[str, ...]]:
        return [tuple(types.values()) for types in operator.types(wanted)]

    assert chosen() == [("f32", "i32")]
    assert chosen("all") == [("f16", "i32"), ("f16", "i64"), ("f32", "i32"), ("f32", "i64")]
    assert chosen("f16") == [("f16", "i32")] and chosen("i64") == [("f32", "i64")]
    assert chosen("i8") == []


@pytest.mark.parametrize(
    "text, message",
    [
        ("N=2 C=3\nM=4", "sizes:2: M is no name of a signature: C, N, T, bias, by, dy, x"),
        ("N=2 C", "sizes:1: 'C' is not NAME=VALUE"),
        ("N=2 C=3 C=4", "sizes:1: C is given twice"),
        ("N=2x C=3", "sizes:1: N=2x is not a product of sizes such as 8x2048"),
        ("N=2 C=3x3", "sizes:1: C=3x3 is not a size"),
        ("N=2 C=-3", "sizes:1: C=-3 is not a size"),
        ("N=2 C=3 T=i8", "sizes:1: T=i8 is none of f32 f64"),
        ("N=2 C=3 by=much", "sizes:1: by=much: expected float"),
        ("N=2 C=3 x=none", "sizes:1: x=none: only an optional can be =none"),
        ("[nothing]\nN=2 C=3", "sizes:1: there is no operator nothing: "),
        ("[OP]\nN=2", "sizes:2: C has no size"),
    ],
)
def test_a_line_that_cannot_be_read_names_its_place(folder: Path, text: str, message: str) -> None:
    operator, backward = operator_in(folder), operator_in(folder, 1)
    known = {op.name: op.parameters for op in (operator, backward)}
    with pytest.raises(ShapesError) as error:
        read = Shapes(text.replace("OP", operator.name), "sizes")
        read.check(known)
        read.cases(operator.name, operator.parameters)
    assert str(error.value).startswith(message)


def test_a_formula_that_is_wrong_names_its_place(folder: Path) -> None:
    operator = operator_in(folder)
    case = Case({"N": (2,), "C": 3}, {"T": "f32"})
    own = Shapes(f"[{operator.name}]\nflops: N*K", "sizes")
    with pytest.raises(ShapesError, match="sizes:2: K is not a number, a name"):
        own.declared("flops", operator.name, operator.parameters, case)
    for_all = Shapes("flops: N*K", "sizes")
    assert for_all.declared("flops", operator.name, operator.parameters, case) is None
    known = {operator.name: operator.parameters}
    for text, message in (
        ("flops: N*K", "sizes:1: K is no dim and no number: C, N, by"),
        ("flops: N*", "sizes:1: 'N[*]' is not a formula"),
        (f"[{operator.name}]\nflops: 3*T", "sizes:2: T is no dim and no number"),
    ):
        with pytest.raises(ShapesError, match=message):
            Shapes(text, "sizes").check(known)
    Shapes("flops: by*N*C", "sizes").check(known)


@pytest.mark.parametrize(
    "formula, message",
    [
        ("9**9**9**9", "sizes:1: flops: 9[*][*]9[*][*]9[*][*]9 is too large a number"),
        ("N/0", "sizes:1: flops: N/0 divides by 0 at N=2 C=3"),
        ("N-C", "sizes:1: flops: N-C is -1 at N=2 C=3, expected 0 or more"),
        ("(N-C)**0.5", "sizes:1: -1 [*][*] 0.5 is not a number"),
        ("1e999", "sizes:1: flops: 1e999 is inf at N=2 C=3"),
        ("(" * 9999, "is not a formula"),
    ],
)
def test_a_formula_without_a_value_is_told(folder: Path, formula: str, message: str) -> None:
    operator = operator_in(folder)
    case = Case({"N": (2,), "C": 3}, {"T": "f32"})
    with pytest.raises((ShapesError, ValueError), match=message):
        Shapes(f"flops: {formula}", "sizes").declared(
            "flops", operator.name, operator.parameters, case
        )


def test_bytes_that_are_declared(folder: Path, host: Host) -> None:
    """In place of the signature's; a type is the bytes of its elements."""
    source = source_in(folder)
    sizes = source.with_name(f"{source.stem}.shapes.txt")
    sizes.write_text(f"N=2 C=3 T=f64\n[{source.stem}]\nbytes: 10*N*T\n")
    operator, backward = operator_in(folder), operator_in(folder, 1)
    (case,) = operator.cases(())
    assert operator.declared("bytes", case) == 160
    assert backward.declared("bytes", backward.cases(())[0]) is None
    roof = floor.Roof(host)
    roof.curves["warm"] = floor.Curve([1, 1000], [1e-9, 1e-6])
    effort = rows.Effort(rounds=1, sample_s=1e-6, least=1)
    (row,) = rows.measure(operator, case, host, roof, ("warm",), ("wick",), {}, effort, 0)
    assert (row.moved_bytes, row.declared_bytes, row.read_bytes) == (160, 160, 72)
    assert row.floor_s == pytest.approx(160e-9)
    assert rows.Row.from_record(json.loads(json.dumps(row.record()))).moved_bytes == 160
    operator.given = Shapes("bytes: 7", "--size")
    assert operator.declared("bytes", case) == 7


@pytest.mark.parametrize(
    "text, value",
    [("2*N*C", 24), ("N**2 - C", 6), ("(N+C)/2", 3.5), ("7//2", 3), ("-N", -3), ("by*N", 1.5)],
)
def test_formulas(text: str, value: float) -> None:
    assert (
        shapes.evaluate(text, {"N": 3, "C": 4 if "*C" in text or "+C" in text else 3, "by": 0.5})
        == value
    )


@pytest.mark.parametrize(
    "text", ["__import__('os')", "N.real", "[1]", "N if N else 1", "N*", "'a'"]
)
def test_formulas_are_arithmetic_and_nothing_else(text: str) -> None:
    with pytest.raises(ValueError):
        shapes.evaluate(text, {"N": 3})


def test_sizes_from_the_signature(folder: Path) -> None:
    next(folder.glob("*.shapes.txt")).unlink()
    operator = operator_in(folder)
    cases = operator.cases(())
    moved = [
        sum(_wick.plan(operator.namespace, operator.name, c.dims, c.types, ())[2:]) for c in cases
    ]
    assert len(cases) == len(shapes.SWEEP) and moved == sorted(moved)
    assert all(wanted / 4 < n <= wanted for n, wanted in zip(moved, shapes.SWEEP))
    assert all(abs(c.dims["N"][0] / c.dims["C"] - 1) <= 1 for c in cases)


def test_sizes_of_a_difference_and_of_nothing(make) -> None:
    made = make(
        """\
WICK_OP(OP, "x: f32[S], y: f32[S-3] -> z: f32[]");
WICK_IMPL wick_status OP_cpu(wick_ctx *ctx, const float *x, const float *y, float *z, int64_t S)
{ (void)ctx; (void)y; *z = S ? x[0] : 0; return WICK_OK; }
"""
    )
    parameters = _wick.parameters("local", made.name)
    assert shapes.dims_for("local", made.name, parameters, {}, 1000) == {"S": 64}
    none = make(
        """\
WICK_OP(OP, "x: f32[2, 2] -> y: f32[2]");
WICK_IMPL wick_status OP_cpu(wick_ctx *ctx, const float *x, float *y)
{ (void)ctx; y[0] = x[0]; y[1] = x[3]; return WICK_OK; }
"""
    )
    parameters = _wick.parameters("local", none.name)
    assert shapes.cases_from_signature("local", none.name, parameters, {}) == [Case({})]


# ---- what C says of a call ----


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


# ---- inputs ----


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


# ---- who takes part ----


@pytest.fixture(scope="module")
def host() -> Host:
    before = torch.get_num_threads()
    yield Host(1)
    torch.set_num_threads(before)


def test_the_field(folder: Path, host: Host) -> None:
    operator = operator_in(folder)
    case = Case({"N": (2,), "C": 3}, {"T": "f64"}, {"by": 0.5})
    call = inputs.make(operator.namespace, operator.name, operator.parameters, case, "cpu", 0)
    asked = ("eager", "dispatcher", "twice", "broken", "nobody")
    field = contenders.field(operator, case, call, host, asked, 0)
    results = {c.name: c.call() for c in field.contenders}
    assert list(results) == ["wick", "out=", "dispatcher", "eager", "twice"]
    for result in results.values():
        torch.testing.assert_close(result, results["eager"])
    assert field.missing == {
        "broken": "ValueError: not today",
        "nobody": f"no function {operator.name}_baseline_nobody in the reference's file",
    }


def test_a_result_that_is_not_wanted(host: Host) -> None:
    operator = target.find(["muladd_backward"], None, None)[0]
    sizes = Shapes("N=4 T=f32 db=none", "sizes")
    sizes.check({operator.name: operator.parameters})
    (case,) = sizes.cases(operator.name, operator.parameters)
    assert case.words() == "N=4 db=none"
    call = inputs.make("wick", operator.name, operator.parameters, case, "cpu", 0)
    assert (call.written, len(call.outputs), call.traffic.moved) == (16, 1, 64)
    field = contenders.field(operator, case, call, host, ("dispatcher",), 0)
    assert [c.name for c in field.contenders] == ["wick", "dispatcher"]
    for contender in field.contenders:
        da, db = contender.call()
        assert da.shape == (4,) and db is None


def test_a_gradient_is_measured_beside_torchs(folder: Path, host: Host) -> None:
    backward = operator_in(folder, 1)
    assert backward.forward().name == operator_in(folder).name
    case = Case({"N": (2,), "C": 3}, {"T": "f32"}, {"by": 0.5})
    call = inputs.make(backward.namespace, backward.name, backward.parameters, case, "cpu", 0)
    field = contenders.field(backward, case, call, host, ("eager",), 0)
    assert [c.name for c in field.contenders] == ["wick", "out=", "eager"] and not field.missing
    (gradient,) = field.contenders[2].call()
    assert gradient.shape == (2, 3) and torch.equal(gradient, field.contenders[2].call()[0])


def test_without_a_reference_it_says_where_it_looked(folder: Path, host: Host) -> None:
    next(folder.glob("slope_*.py")).unlink()
    operator = operator_in(folder)
    case = Case({"N": (2,), "C": 3}, {"T": "f32"})
    call = inputs.make(operator.namespace, operator.name, operator.parameters, case, "cpu", 0)
    field = contenders.field(operator, case, call, host, (), 0)
    assert [c.name for c in field.contenders] == ["wick", "out="]
    assert field.missing["eager"] == (
        f"no reference: a function {operator.name} in {operator.name}.py beside its source"
    )


def test_what_is_written_in_place_is_put_back(host: Host) -> None:
    operator = target.find(["add_out"], None, None)[0]
    case = Case({"N": (4,)}, {"T": "f32"})
    call = inputs.make("wick", "add_out", operator.parameters, case, "cpu", 0)
    before = call.arguments["out"].clone()
    field = contenders.field(operator, case, call, host, ("eager",), 0)
    assert not torch.equal(call.arguments["out"], before)
    field.reset()
    assert torch.equal(call.arguments["out"], before)
    assert "out=" not in [c.name for c in field.contenders]


ONE, NAN = torch.arange(6.0).reshape(2, 3), float("nan")


@pytest.mark.parametrize(
    "ours, theirs, said",
    [
        (ONE, ONE.clone(), ""),
        (ONE, [ONE], ""),
        (ONE, ONE.double(), ""),
        ((ONE, ONE), (ONE, None), ""),
        ((ONE, None), (ONE, ONE), ""),
        (ONE, None, "the result is None, the operator's [2, 3]"),
        (ONE, (ONE, ONE), "returns 2 results, the operator 1"),
        ((ONE, ONE), ONE, "returns 1 result, the operator 2"),
        (ONE, ONE[0], "the result is [3], the operator's [2, 3]"),
        ((ONE, ONE), (ONE, ONE.T), "result 2 is [3, 2], the operator's [2, 3]"),
        ((ONE, ONE), (ONE, ONE + 1), "result 2 differs by 26 %"),
        (ONE, ONE * NAN, "the result is NaN or infinite elsewhere than the operator's"),
        (ONE * NAN, ONE * NAN, ""),
        (ONE / 0, ONE / 0, ""),
        (ONE / 0, -ONE / 0, "the result is NaN or infinite elsewhere than the operator's"),
        (torch.tensor([NAN, 1.0]), torch.tensor([NAN, 2.0]), "the result differs by 50 %"),
    ],
)
def test_a_result_that_is_not_the_operators(ours, theirs, said: str) -> None:
    assert rows.difference(ours, theirs) == said


def test_baselines_that_return_something_else_are_named(folder: Path, host: Host) -> None:
    source = source_in(folder)
    reference = source.with_suffix(".py")
    more = "def OP_baseline_half(x, by): return x[..., :1]\ndef OP_baseline_none(x): pass\n"
    reference.write_text(reference.read_text() + more.replace("OP", source.stem))
    operator = operator_in(folder)
    case = Case({"N": (2,), "C": 3}, {"T": "f64"}, {"by": 0.5}, ("bias",))
    call = inputs.make(operator.namespace, operator.name, operator.parameters, case, "cpu", 0)
    field = contenders.field(operator, case, call, host, ("eager", "half", "none"), 0)
    found = rows._unlike(field)
    assert found == {
        "half": "the result is [2, 1], the operator's [2, 3]",
        "none": "the result is None, the operator's [2, 3]",
    }
    assert table.notes([a_row(unlike=found)])[0] == f"half: {found['half']}"


def test_a_baseline_that_changes_its_input_takes_no_part(folder: Path, host: Host) -> None:
    reference = source_in(folder).with_suffix(".py")
    more = "def OP_baseline_rude(x, by): return x.mul_(by)\n"
    reference.write_text(reference.read_text() + more.replace("OP", source_in(folder).stem))
    operator = operator_in(folder)
    case = operator.cases(("f32",))[0]
    call = rows.make_call(operator, case, host, 0)
    before = call.arguments["x"].clone()
    field = contenders.field(operator, case, call, host, ("rude", "eager"), 0)
    assert field.missing == {"rude": "changes x, which others get as well"}
    assert [c.name for c in field.contenders] == ["wick", "out=", "eager"]
    torch.testing.assert_close(call.arguments["x"], before, rtol=0, atol=0)


def test_a_result_in_place_is_not_compared_with_itself(host: Host) -> None:
    operator = target.find(["add_out"], None, None)[0]
    case = Case({"N": (4,)}, {"T": "f32"})
    call = inputs.make("wick", "add_out", operator.parameters, case, "cpu", 0)
    field = contenders.field(operator, case, call, host, ("eager",), 0)

    def other(out):
        return out.zero_()

    field.contenders.append(contenders._by_name("other", other, {"out": call.arguments["out"]}))
    field.comparable.add("other")
    assert "eager" in field.comparable and list(rows._unlike(field)) == ["other"]


def test_files_of_the_shipped_operators_are_found_and_fit() -> None:
    """An operator needs none; those that have them are measured with them."""
    found = [op for op in target.find([], None, None) if op.shapes_file and op.reference_file]
    assert len(found) > 10
    for operator in found:
        assert operator.cases(()), operator.name
        forward = operator.forward()
        assert operator.reference() or (forward and forward.reference()), operator.name
        for case in operator.cases(()):
            flops = operator.declared("flops", case)
            assert flops is None or flops >= 0


def test_shipped_references_agree(host: Host) -> None:
    """A smoke test; wick check is thorough."""
    for operator in target.find([], None, None):
        if not (operator.shapes_file and operator.reference_file):
            continue
        case = operator.cases(("f64",))[-1]
        small = {d: (3,) if isinstance(n, tuple) else 4 for d, n in case.dims.items()}
        case = Case(small, case.types, case.scalars)
        named = (operator.namespace, operator.name, operator.parameters)
        call = inputs.make(*named, case, "cpu", 0)
        field = contenders.field(operator, case, call, host, ("eager",), 0)
        assert "eager" in [c.name for c in field.contenders], (operator.name, field.missing)
        assert rows._unlike(field) == {}, operator.name


# ---- timing ----


def test_rounds_take_turns() -> None:
    order: list[str] = []

    def runner(name: str):
        return lambda n: order.append(name) or 1e-3

    samples = timing.rounds({"a": runner("a"), "b": runner("b")}, n_rounds=40, sample_s=1e-4)
    assert {name: len(s) for name, s in samples.items()} == {"a": 40, "b": 40}
    turns = [tuple(order[i : i + 2]) for i in range(4, len(order), 2)]  # after two tries each
    assert set(turns) == {("a", "b"), ("b", "a")}


def test_a_long_call_is_not_made_more_often_than_it_counts() -> None:
    made = {"long": 0, "short": 0}

    def runner(name: str, seconds: float):
        def run(n: int) -> float:
            made[name] += n
            return seconds

        return run

    runs = {"long": runner("long", 0.5), "short": runner("short", 1e-3)}
    tried = {name: run(1) for name, run in runs.items()}
    samples = timing.rounds(runs, n_rounds=3, sample_s=1e-3, tried=tried)
    assert {name: len(s) for name, s in samples.items()} == {"long": 3, "short": 3}
    assert made == {"long": 3, "short": 5}  # one more try, since the first may have been disturbed


@pytest.mark.parametrize("cache", ["warm", "cold"])
@pytest.mark.parametrize("seconds, calls", [(0.21, 3), (5.0, 3)])
def test_a_quick_run_makes_three_long_calls(cache: str, seconds: float, calls: int) -> None:
    made: list[int] = []

    class Slow:
        def warm(self, stmt, names, reset):
            return lambda n: made.append(n) or seconds

        cold = warm

    field = contenders.Field([contenders.Contender("wick", "", {})], {}, None, set(), 1, [])
    found, _ = rows._sample(field, Slow(), cache, work.QUICK)
    assert made == [1] * calls and found["wick"].samples_s == [seconds] * calls


def test_garbage_is_collected_once_for_a_call(folder: Path, host: Host, monkeypatch) -> None:
    collected: list[int] = []
    monkeypatch.setattr(timing.gc, "collect", lambda: collected.append(1))
    next(folder.glob("*.shapes.txt")).unlink()  # with flops there is a matrix product as well
    operator, case = operator_in(folder), Case({"N": (2,), "C": 3}, {"T": "f32"})
    effort = rows.Effort(rounds=1, sample_s=1e-6, least=1)
    caches, roof = ("warm", "cold"), floor.Roof(host)
    found = rows.measure(operator, case, host, roof, caches, ("eager",), {}, effort, 0)
    assert [row.cache for row in found] == ["warm", "cold"] and len(collected) == 1
    assert all(row.cores is not None and not row.unlike for row in found)


def test_a_sample_is_long_enough() -> None:
    assert timing.runs_for(lambda n: 1e-6, 2e-3) == 2000
    assert timing.runs_for(lambda n: 1.0, 2e-3) == 1
    tries = iter([0.5])  # the first call compiles something
    assert timing.runs_for(lambda n: next(tries, 1e-6), 2e-3) == 2000
    assert timing.runs_for(lambda n: 1e-6, 2e-3, most=50) == 50
    assert timing.runs_for(lambda n: 1e-6, 2e-3, tried=0.1) == 2000
    for known in ({"tried": 0.5}, {"most": 1}):
        assert timing.runs_for(lambda n: pytest.fail("it is known"), 2e-3, **known) == 1


def test_a_warm_sample_begins_with_calls_that_do_not_count(host: Host) -> None:
    calls: list[int] = []
    run = host.warm("f()", {"f": lambda: calls.append(1)})
    for n, made in ((1, 1), (1, 3), (4, 6), (100, 125)):  # the very first may last for minutes
        calls.clear()
        run(n)
        assert len(calls) == made
    assert timing.uncounted(1, 0.3) == 0


def test_names_of_a_statement_may_be_anything() -> None:
    run = timing.call_seconds("f(i, t)", {"f": max, "i": 1, "t": 2})
    assert run(3) > 0


def test_quartiles() -> None:
    assert timing.quartiles([1, 2, 3, 4, 5]) == (2, 3, 4)
    assert timing.quartiles([7]) == (7, 7, 7)


def test_threads_are_held_and_let_go() -> None:
    before = os.sched_getaffinity(0)
    pins = Pins(1)
    with pins.hold():
        assert os.sched_getaffinity(0) == {cpus()[0]} == set(pins.cpus)
    assert os.sched_getaffinity(0) == before


def test_a_pool_is_spread() -> None:
    import threading

    stop = threading.Event()
    pins = Pins(len(cpus()))
    with pins.learn():
        started = [threading.Thread(target=stop.wait) for _ in range(3)]
        for thread in started:
            thread.start()
    placed = [pins.places()[thread.native_id] for thread in started]
    stop.set()
    assert placed == [pins.cpus[i % len(pins.cpus)] for i in (1, 2, 3)]


def test_the_cache_is_emptied_before_each_cold_call(host: Host, monkeypatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(host, "flush", lambda: said.append("flush"))
    run = host.cold("f()", {"f": lambda: said.append("call")}, lambda: said.append("reset"))
    run(2)
    assert said == ["reset", "flush", "call"] * 2


def test_clocks_of_a_gpu_are_read(tmp_path: Path, monkeypatch) -> None:
    tool = tmp_path / "nvidia-smi"
    tool.write_text('#!/bin/sh\necho "1980, 3201, [N/A], 41"\n')
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: object())
    found = cuda._ask_nvidia_smi(torch.device("cuda:0"))
    assert found == {"clocks_sm": 1980.0, "clocks_mem": 3201.0, "temperature_gpu": 41.0}
    tool.write_text("#!/bin/sh\nexit 9\n")
    assert cuda._ask_nvidia_smi(torch.device("cuda:0")) == {}


def test_the_cpus_near_a_gpu(monkeypatch) -> None:
    place = SimpleNamespace(pci_domain_id=0, pci_bus_id=0x19, pci_device_id=0)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: place)
    monkeypatch.setattr("wick.bench.host.read", lambda path: path)
    found = cuda._cpus_near(torch.device("cuda:0"))
    assert found == "/sys/bus/pci/devices/0000:19:00.0/local_cpulist"
    del place.pci_bus_id  # a torch that does not tell
    assert cuda._cpus_near(torch.device("cuda:0")) == ""


def test_a_thread_is_held_near_where_that_is_allowed() -> None:
    allowed = sorted(os.sched_getaffinity(0))
    assert Pins(1, str(allowed[0])).cpus == [allowed[0]]
    assert Pins(1, "100000").cpus == Pins(1).cpus


# ---- the floor ----


def test_the_curve_between_and_outside() -> None:
    curve = floor.Curve([100, 10000], [1e-6, 1e-4])
    assert curve.at(1000) == pytest.approx(1e-5)
    assert curve.at(10) == pytest.approx(1e-7)
    assert curve.at(10**6) == pytest.approx(1e-2)
    assert curve.at(0) == 0.0 == floor.Curve().at(5)


def test_the_curve_covers_the_calls() -> None:
    sizes = floor.sizes_between(100_000, 5_000_000)
    assert sizes[0] <= 100_000 and 5_000_000 <= sizes[-1] < 5_000_000 + floor._GRAIN
    assert all(a < b <= 4 * a for a, b in itertools.pairwise(sizes))
    assert floor.sizes_between(1, 1) == [floor._SMALLEST]


class FakeDevice:
    """Copies at 1 GB/s, multiplies at 1 Tflop/s, and takes 10 us to be called."""

    name = type = "cpu"
    threads = 2
    quiet = Host.quiet
    learn = staticmethod(lambda call: call())
    _pins = Pins(1)

    def facts(self):
        return {"device": "cpu", "last_cache_bytes": 1 << 20}

    def free_bytes(self):
        return 1 << 40

    def copies(self, n):
        return {
            "plain, one": ("n", {"n": 2 * n / 1e9 + 1e-5}),
            "streaming, all": ("n", {"n": 4 * n / 1e9 + 1e-5}),
        }

    def empty_copy(self):
        return {"nothing": ("n", {"n": 1e-5})}

    arithmetic = staticmethod(lambda dtype: dtype)

    def updates(self, n):
        return {"in place": ("n", {"n": 2 * n / 4e9 + 1e-5})}

    empty_update = empty_copy

    def product(self, dtype):
        if dtype is torch.int64:
            raise RuntimeError("not implemented")
        return 10**9, "pass", {"n": 1e-3}

    def warm(self, stmt, names, reset=None):
        return lambda n: names["n"]

    cold = warm


def moving(n_bytes: int) -> inputs.Traffic:
    return inputs.Traffic(n_bytes, n_bytes, False)


class Silent:
    def step(self, *args): ...


def test_the_floor_is_the_copys_time_or_the_products() -> None:
    roof = floor.Roof(FakeDevice())
    roof.measure([moving(4096), moving(1 << 20)], ("warm", "cold"), Silent())
    assert roof.rates["plain"] == pytest.approx(1e9) and roof.rates["streaming"] == pytest.approx(
        5e8
    )
    for cache in ("warm", "cold"):
        found = roof.floor(moving(10_000), cache, None, torch.float32)
        assert found == (pytest.approx(1e-5), "bytes")
    some = moving(10_000)
    assert roof.floor(some, "warm", 1e9, torch.float32) == (pytest.approx(1e-3), "flops")
    assert roof.floor(some, "warm", 1e9, torch.int64) == (pytest.approx(1e-5), "bytes")


@pytest.mark.parametrize("stored", [torch.float16, torch.bfloat16])
def test_halves_are_computed_in_f32_on_the_cpu(host: Host, stored: torch.dtype) -> None:
    """Torch's own product of halves is many times slower there, and no limit."""
    made: list[torch.dtype] = []

    class Cpu(FakeDevice):
        arithmetic = host.arithmetic

        def product(self, dtype):
            made.append(dtype)
            return super().product(dtype)

    roof = floor.Roof(Cpu())
    assert roof.floor(moving(0), "warm", 1e9, stored) == (pytest.approx(1e-3), "flops")
    assert roof.flop_rate(torch.int32) is None
    assert made == [torch.float32] and list(roof.facts()["flops_per_s"]) == ["float32"]
    assert cuda.Cuda.arithmetic(None, stored) is stored


def test_the_copy_takes_no_more_memory_than_there_is() -> None:
    asked: list[int] = []

    class Small(FakeDevice):
        def free_bytes(self):
            return 1 << 20

        def copies(self, n):
            asked.append(2 * n)
            if 2 * n > 300_000:
                raise RuntimeError("can't allocate memory")
            return super().copies(n)

        def facts(self):
            return {"device": "cpu", "last_cache_bytes": 1 << 10}

    roof = floor.Roof(Small())
    roof.measure([moving(4096), moving(10**12)], ("warm", "cold"), Silent())
    assert max(asked) <= 1 << 19
    assert roof.curves["warm"].moved[-1] <= 300_000
    found = roof.floor(moving(10**12), "cold", None, torch.float32)
    assert found == (pytest.approx(1000.0), "bytes")  # at the rate of the largest


def test_an_empty_cache_is_never_better_than_a_full_one() -> None:
    seconds = {"warm": 2.0, "cold": 1.0}
    roof, both = floor.Roof(FakeDevice()), ["warm", "cold"]

    def ways(n: int, cache: str) -> dict[str, float]:
        return {"copy": seconds[cache]}

    assert roof._at(4096, both, ways) == {"warm": 2.0, "cold": 2.0}
    seconds["cold"] = 3.0
    assert roof._at(4096, both, ways) == {"warm": 2.0, "cold": 3.0}
    assert roof._at(1 << 30, both, ways) == {"warm": 2.0, "cold": 2.0}
    assert roof._at(4096, ["cold"], ways) == {"cold": 3.0}


def test_the_rate_is_that_of_the_memory_worked_on() -> None:
    """An operator in place moves as much as a copy, over half the memory."""
    roof = floor.Roof(FakeDevice())
    roof.curves["warm"] = floor.Curve([1000, 2000], [1e-6, 4e-6])

    def seconds(*moves) -> float:
        return roof.floor(inputs.Traffic(*moves), "warm", None, torch.float32)[0]

    assert seconds(2000, 2000, False) == pytest.approx(4e-6)
    assert seconds(2000, 1000, True) == pytest.approx(2e-6)
    assert seconds(0, 0, False) == 0.0
    roof.updates["warm"] = floor.Curve([1000, 2000], [1e-7, 5e-7])
    assert seconds(2000, 1000, True) == pytest.approx(5e-7)
    assert seconds(3000, 1000, True) == pytest.approx(7.5e-7)  # and something else is read
    assert seconds(2000, 1000, False) == pytest.approx(2e-6)  # and something new is written
    roof.updates["warm"] = floor.Curve([1000, 2000], [1e-5, 5e-5])
    assert seconds(2000, 1000, True) == pytest.approx(2e-6)  # never above the copy


def test_an_update_is_measured_where_something_is_in_place() -> None:
    roof = floor.Roof(FakeDevice())
    roof.measure([moving(8192)], ("warm",), Silent())
    assert roof.facts()["update"] == {}
    roof = floor.Roof(FakeDevice())
    roof.measure([moving(8192), inputs.Traffic(8192, 4096, True)], ("warm",), Silent())
    assert roof.facts()["update"]["warm"][0] == [4096, 8192]
    found = roof.floor(inputs.Traffic(8192, 4096, True), "warm", None, torch.float32)
    assert found[0] == pytest.approx(8192 / 4e9)


def test_what_is_in_place() -> None:
    parameters = _wick.parameters("wick", "add_out")
    call = inputs.make("wick", "add_out", parameters, Case({"N": (4,)}, {"T": "f32"}), "cpu", 0)
    assert call.traffic == inputs.Traffic(64, 48, True)
    assert call.traffic.declared(16) == inputs.Traffic(16, 12, True)
    assert call.traffic.declared(None) == call.traffic
    places = [((4,), "f32")] * 3
    assert not inputs.traffic_of(parameters, places, 48, 32).in_place


def test_an_update_updates(host: Host) -> None:
    ((stmt, names),) = host.updates(1 << 12).values()
    timing.timer(stmt, names).timeit(3)
    assert names["a"].sum() == -1024


def test_a_gpus_small_copies_do_not_count_as_slow() -> None:
    device = FakeDevice()
    device.type = "cuda"
    roof = floor.Roof(device)
    roof.curves["warm"] = floor.Curve([10, 100, 1000], [5.0, 5.0, 10.0])
    roof._straighten()
    assert roof.curves["warm"].seconds == [0.1, 1.0, 10.0]
    roof.rates["plain"] = 200.0  # of a copy that is larger still
    roof._straighten()
    assert roof.curves["warm"].seconds == [0.05, 0.5, 5.0]


@pytest.mark.parametrize("in_place", [False, True])
def test_a_gpus_single_small_call_is_not_measured_by_a_launch(in_place: bool) -> None:
    device = FakeDevice()  # whose calls take 10 us: 1 KiB at 1 GB/s takes 1
    device.type = "cuda"
    device.empty_copy = device.empty_update = dict
    roof = floor.Roof(device)
    call = inputs.Traffic(1024, 1024, in_place)
    roof.measure([call], ["warm"], Silent())
    seconds, _ = roof.floor(call, "warm", None, torch.float32)
    assert seconds < 2e-6


# ---- verdicts and comparisons ----


def times(median: float, spread: float = 0.01) -> rows.Times:
    return rows.Times.of([median * (1 + spread * k) for k in (-2, -1, 0, 1, 2)])


def a_row(**changes: object) -> rows.Row:
    values: dict[str, object] = {
        "operator": "local.it",
        "signature": "x: f32[N] -> y: f32[N]",
        "device": "cpu",
        "threads": 2,
        "case": Case({"N": 1000}, {"T": "f32"}),
        "cache": "warm",
        "read_bytes": 4000,
        "written_bytes": 4000,
        "flops": None,
        "floor_s": 1e-3,
        "limit": "bytes",
        "call_s": 1e-6,
        "times": {"wick": times(1.05e-3)},
        "cores": 2.0,
    }
    return rows.Row(**{**values, **changes})


@pytest.mark.parametrize(
    "changes, said",
    [
        ({}, "at the limit"),
        ({"floor_s": 1.3e-3}, "at the limit"),
        ({"floor_s": 8.6e-3}, "floor does not apply: not every byte is touched"),
        ({"floor_s": 8.6e-3, "limit": "flops"}, "floor does not apply: less is computed"),
        ({"floor_s": 8.6e-3, "call_s": 0.6e-3}, "launch-bound: 57 % is the call"),
        ({"floor_s": 0.7e-3}, "near the limit"),
        ({"call_s": 0.6e-3, "floor_s": 1e-5}, "launch-bound: 57 % is the call"),
        ({"host_s": 1e-3, "floor_s": 1e-5}, "launch-bound: 95 % is the call"),
        ({"floor_s": 1e-4, "cores": 1.0}, "poor occupancy: 1.0 of 2 threads busy"),
        ({"floor_s": 1e-4, "cores": 0.7}, "disturbed: it ran for 70 % of the time"),
        ({"floor_s": 1e-4, "cores": 0.7, "threads": 1}, "disturbed: it ran for 70 % of the time"),
        ({"cores": 0.7}, "at the limit"),
        (
            {"floor_s": 245e-9, "call_s": 260e-9, "times": {"wick": times(553e-9)}},
            "launch-bound: 47 % is the call, 44 % the floor",
        ),
        (
            {"floor_s": 245e-9, "call_s": 100e-9, "times": {"wick": times(553e-9)}},
            "poor access pattern: more bytes than counted, or arithmetic",
        ),
        ({"floor_s": 1e-4}, "poor access pattern: more bytes than counted, or arithmetic"),
        ({"floor_s": 1e-4, "limit": "flops"}, "poor occupancy: of the arithmetic units"),
        (
            {"times": {"wick": times(2e-3), "eager": times(1e-3), "compile": times(1.5e-3)}},
            "slower than torch: eager takes 50 %: use torch",
        ),
        ({"times": {"wick": times(1.05e-3), "eager": times(1.02e-3)}}, "at the limit"),
        (  # so far apart that they are slower, and too wild for a figure
            {"times": {"wick": times(50e-3, 0.7), "eager": times(1e-3)}},
            "slower than torch: eager takes less: use torch",
        ),
        (  # faster at something else
            {
                "times": {"wick": times(1.05e-3), "eager": times(1e-4)},
                "unlike": {"eager": "the result is None, the operator's [2]"},
            },
            "at the limit: differs from the reference: see wick check",
        ),
        (
            {"times": {"wick": times(1.6e-3, 0.5), "eager": times(1.4e-3, 0.5)}},
            "near the limit",
        ),
        (
            {"times": {"wick": times(9e-3), "out=": times(1e-3)}},
            "at the limit: pass out=: new memory costs 89 %",
        ),
        (
            {"unlike": {"eager": "the result differs by 50 %"}},
            "at the limit: differs from the reference: see wick check",
        ),
        ({"unlike": {"apex": "the result is None, the operator's [2]"}}, "at the limit"),
        ({"floor_s": 0.0, "call_s": 0.0}, "nothing to move"),
        ({"floor_s": 0.0, "call_s": 1e-3}, "launch-bound: 95 % is the call"),
    ],
)
def test_verdicts(changes: dict[str, object], said: str) -> None:
    row = a_row(**changes)
    verdict.judge([row])
    assert table.said(row) == said
    assert row.verdict in verdict.MEANINGS and row.verdict in table.COLOURS


def test_a_gpu_that_has_too_little_to_do() -> None:
    small = a_row(device="cuda:0", cores=None, floor_s=1e-4)
    large = a_row(device="cuda:0", cores=None, read_bytes=10**6, floor_s=0.9e-3)
    verdict.judge([small, large])
    assert table.said(small) == "poor occupancy: too little work at this size"
    assert large.verdict == "at the limit"


def test_a_floor_that_does_not_apply_says_nothing_of_other_sizes() -> None:
    small = a_row(device="cuda:0", cores=None, floor_s=0.5e-3)
    large = a_row(device="cuda:0", cores=None, read_bytes=10**6, floor_s=9e-3)
    verdict.judge([small, large])
    assert [row.verdict for row in (small, large)] == [
        "poor access pattern",
        "floor does not apply",
    ]


def test_records_come_back(tmp_path: Path) -> None:
    path = str(tmp_path / "rows.json")
    row = a_row(case=Case({"N": (2, 3), "C": 4}, {"T": "f32"}, {"by": 0.5}, ("bias",)))
    about = records.machine([], ["relu"], "")
    records.write(path, about, [row])
    assert records.read(path) == (about, [row])
    lines = [json.loads(line) for line in Path(path).read_text().splitlines()]
    assert [line["record"] for line in lines] == ["machine", "row"]
    assert lines[1]["share"] == pytest.approx(1 / 1.05)


def test_who_else_used_the_machine(monkeypatch) -> None:
    now = {"theirs": 100.0, "ours": 5.0, "load": ""}
    monkeypatch.setattr(records, "_cpu_seconds", lambda: now["theirs"] + now["ours"])
    monkeypatch.setattr(records, "_own_cpu_seconds", lambda: now["ours"])
    monkeypatch.setattr(records, "busy", lambda: now["load"])
    monkeypatch.setattr(records.os, "cpu_count", lambda: 4)
    others = records.Others()
    others._began -= 10
    now["ours"] += 40
    assert others.words() == ""  # what we use ourselves does not count
    now["theirs"] += 20
    assert others.words() == "others used 2.0 of 4 CPUs meanwhile"
    now["load"] = "load 3.0 on 4 CPUs"
    assert records.Others().words() == "load 3.0 on 4 CPUs when this began"


def test_our_own_seconds_are_those_of_our_children_as_well() -> None:
    before, all_before = records._own_cpu_seconds(), records._cpu_seconds()
    code = "import time\nwhile time.process_time() < 0.4: pass"
    with subprocess.Popen([sys.executable, "-c", code]) as running:
        while running.poll() is None and records._own_cpu_seconds() < before + 0.2:
            time.sleep(0.02)
        alive = records._own_cpu_seconds()
    assert alive >= before + 0.2 and records._own_cpu_seconds() >= before + 0.35
    assert records._cpu_seconds() >= all_before + 0.3


@pytest.mark.parametrize(
    "text", ["", "{}", "not json", '{"record": "row"}', '{"record": "machine"}']
)
def test_a_file_that_holds_no_records(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(records.RecordsError, match="not a file of wick bench --json"):
        records.read(str(tmp_path / "x.json"))
    with pytest.raises(records.RecordsError, match="No such file"):
        records.read(str(tmp_path / "gone.json"))


@pytest.mark.parametrize("broken", [0, "1 ms", None, -1.0, float("nan"), True])
def test_a_file_whose_times_are_none(tmp_path: Path, broken: object) -> None:
    path = tmp_path / "x.json"
    row = a_row()
    row.times["wick"].median_s = broken
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rows.Row, "share", None)
        records.write(str(path), records.machine([], [], ""), [row])
    with pytest.raises(records.RecordsError, match="not a file of wick bench --json"):
        records.read(str(path))


def test_another_machine_is_named(capsys) -> None:
    before, after = run_of(1.0), run_of(1.0)
    for about, model in ((before[0], "An old CPU"), (after[0], "A new CPU")):
        about["devices"][0]["model"] = model
    found = compare.compare(before, after)
    assert found.elsewhere == "it was measured on another machine: An old CPU, now A new CPU"
    table.print_comparison(found, "old.json")
    assert found.elsewhere in capsys.readouterr().out
    assert compare.compare(before, before).elsewhere == ""


def test_a_comparison_of_busy_runs_says_so(capsys) -> None:
    before, after = run_of(1.0), run_of(1.0)
    before[0]["busy"] = "load 9 on 2 CPUs"
    table.print_comparison(compare.compare(before, after), "old.json")
    assert "the machine was busy then: this may be its doing" in capsys.readouterr().out
    assert compare.compare(after, after).busy == ""


def run_of(*medians: float, eager: float | None = None, spread: float = 0.01) -> tuple[dict, list]:
    made = []
    for i, median in enumerate(medians):
        each = {"wick": times(median, spread)}
        if eager is not None:
            each["eager"] = times(eager)
        made.append(a_row(case=Case({"N": i}, {"T": "f32"}), times=each))
    return {"torch": "2", "devices": [{"device": "cpu", "copy_bytes_per_s": {"plain": 1e9}}]}, made


@pytest.mark.parametrize(
    "before, after, slower, faster",
    [
        (run_of(1.0, 1.0, 1.0), run_of(1.0, 1.2, 0.8), [1], [2]),
        (run_of(1.0), run_of(1.04), [], []),  # within the margin
        (run_of(1.0, spread=0.3), run_of(1.2, spread=0.3), [], []),  # within the noise
        (run_of(1.0, 1.0, eager=1.0), run_of(1.3, 2.0, eager=1.3), [1], []),  # a slower machine
        (run_of(1.0, 1.0, eager=1.3), run_of(0.8, 0.5, eager=1.0), [], [1]),  # a faster one
        (run_of(1.0, eager=1.0), run_of(1.1, eager=1.3), [], []),  # measured slower: not faster
        (run_of(1.0, eager=1.3), run_of(0.9, eager=1.0), [], []),  # measured faster: not slower
    ],
)
def test_what_became_slower(before, after, slower, faster) -> None:
    found = compare.compare(before, after)
    assert [c.row.case.dims["N"] for c in found.of(compare.SLOWER)] == slower
    assert [c.row.case.dims["N"] for c in found.of(compare.FASTER)] == faster


def test_what_was_disturbed_is_not_called_the_same(capsys) -> None:
    before, after = run_of(1.0, 1.0), run_of(10.0, 1.0)
    after[1][0].verdict = "disturbed"
    found = compare.compare(before, after)
    assert [c.row.case.dims["N"] for c in found.of(compare.DISTURBED)] == [0]
    assert [c.row.case.dims["N"] for c in found.of(compare.SAME)] == [1]
    table.print_comparison(found, "old.json")
    assert "1 the same within the noise, 1 not compared, since" in capsys.readouterr().out


@pytest.mark.parametrize("slower, other", [("wick", "out="), ("out=", "wick")])
def test_the_plain_call_and_out_are_compared_each(slower: str, other: str, capsys) -> None:
    before, after = run_of(1e-3), run_of(1e-3)
    before[1][0].times = {"wick": times(1e-3), "out=": times(1e-3)}
    after[1][0].times = {slower: times(2e-3), other: times(1e-3)}
    found = compare.compare(before, after)
    assert [c.name for c in found.of(compare.SLOWER)] == [slower]
    assert [c.name for c in found.of(compare.SAME)] == [other]
    table.print_comparison(found, "old.json")
    said = capsys.readouterr().out
    assert "1 slower, 0 faster, 1 the same" in said and f"cpu: {slower} 1 ms -> 2 ms" in said
    del after[1][0].times["out="]
    assert [c.name for c in compare.compare(before, after).changes] == ["wick"]


def test_only_steady_times_speak_for_the_machine() -> None:
    before, after = run_of(1.0, 1.0, 1.0, eager=1.0), run_of(4.0, 1.0, 1.0, eager=1.0)
    for row in after[1][:2]:
        row.times["eager"] = times(23.65, 0.5)
    found = compare.compare(before, after)
    assert (found.drift, found.drift_by) == (1.0, "torch's times")
    assert [c.kind for c in found.changes] == [compare.SLOWER, compare.SAME, compare.SAME]
    after[1][2].times["eager"] = times(23.65, 0.5)
    assert compare.compare(before, after).drift_by == "the copy"


def test_a_machine_that_was_slow_during_one_row() -> None:
    before, after = run_of(1.0, 1.0, 1.0, eager=1.4), run_of(1.5, 1.0, 1.5, eager=1.4)
    after[1][0].times["eager"] = times(2.1)  # torch took as much longer for this call
    found = compare.compare(before, after)
    assert found.drift == 1.0
    assert [c.kind for c in found.changes] == [compare.SAME, compare.SAME, compare.SLOWER]
    for name, fast in (("wick", 1.0), ("eager", 1.4)):  # or was slow in two rounds of three
        samples = [fast, fast * 1.5, fast * 1.52] * 3
        after[1][0].times[name] = rows.Times.of(samples)
    found = compare.compare(before, after)
    assert [c.kind for c in found.changes] == [compare.SAME, compare.SAME, compare.SLOWER]


def test_what_is_measured_again_stays_together() -> None:
    row = a_row(times={"wick": times(2.0), "eager": times(3.0)})
    worse = a_row(times={"wick": times(2.1), "eager": times(1.0)})
    row.take_better(worse)
    assert [t.median_s for t in row.times.values()] == [2.0, 3.0]
    row.take_better(a_row(times={"wick": times(1.0), "eager": times(4.0)}))
    assert [t.median_s for t in row.times.values()] == [1.0, 4.0]


@pytest.mark.parametrize("eager, possible", [(23.65, False), (0.5, False), (1.3, True)])
def test_another_machine_is_not_calculated_away(eager: float, possible: bool) -> None:
    found = compare.compare(run_of(1.0, eager=1.0), run_of(1.0, eager=eager))
    assert found.is_possible is possible


def test_a_comparison_by_the_copy_and_rows_of_one_side() -> None:
    before, after = run_of(1.0, 1.0), run_of(1.0)
    before[0]["devices"][0]["copy_bytes_per_s"]["plain"] = 1.25e9
    found = compare.compare(before, after)
    assert (found.drift, found.drift_by) == (1.25, "the copy")
    assert (found.only_before, found.only_after) == (1, 0)
    assert len(found.of(compare.SAME)) == 1  # as it was measured, it is not faster


def test_without_torchs_times_a_row_is_slower_both_ways() -> None:
    before, after = run_of(1.0, 1.0, 1.0), run_of(1.0, 2.5, 0.9)
    before[0]["devices"][0]["copy_bytes_per_s"]["plain"] = 0.8e9
    found = compare.compare(before, after)
    assert found.drift == 0.8
    assert [c.kind for c in found.changes] == [compare.SAME, compare.SLOWER, compare.SAME]


# ---- what is shown ----


def test_words() -> None:
    shown = [words.seconds(s) for s in (1.5, 0.0123, 4.56e-5, 7.891e-7, 1e-12)]
    assert shown == ["1.5 s", "12.3 ms", "45.6 µs", "789 ns", "0.001 ns"]
    assert words.amount(41.04e9, "B/s") == "41 GB/s" and words.amount(12, "B") == "12 B"
    assert words.binary(16384) == "16 KiB" and words.binary(12) == "12 B"
    assert [words.percent(x) for x in (0, 0.004, 0.5, 1.2)] == ["0 %", "0.4 %", "50 %", "120 %"]


def some_rows() -> tuple[dict, list[rows.Row]]:
    made = []
    for operator, n, cache in itertools.product(
        ("local.a", "local.b"), (10, 1000, 10**6), ("warm", "cold")
    ):
        t = n * 1e-9 + 1e-6
        made.append(
            a_row(
                operator=operator,
                cache=cache,
                case=Case({"N": n}, {"T": "f32"}),
                read_bytes=4 * n,
                written_bytes=4 * n,
                floor_s=t / 2,
                flops=2.0 * n if operator == "local.a" else None,
                times={
                    "wick": times(t),
                    "out=": times(0.9 * t),
                    "eager": times(2 * t),
                    "<other>": times(t),
                },
                missing={"compile": "no <compiler>"},
            )
        )
    verdict.judge(made)
    device = {
        "device": "cpu",
        "model": "A <CPU>",
        "copy_bytes_per_s": {"plain": 1e10, "streaming": 2e10},
        "flops_per_s": {"float32": 1e11, "int64": 0.0},
        "copy": {"warm": [[100, 10**7], [1e-8, 1e-3]], "cold": [[100, 10**7], [1e-7, 2e-3]]},
    }
    return records.machine([device], ["a"], "load 9 on 2 CPUs"), made


@pytest.mark.parametrize("rich", [True, False])
def test_the_table(capsys, monkeypatch, rich: bool) -> None:
    if not rich:
        monkeypatch.setitem(sys.modules, "rich", None)
    else:
        pytest.importorskip("rich")
    facts, made = some_rows()
    table.print_rows(facts, made)
    said = capsys.readouterr().out
    assert "The machine was busy" in said and "copy: plain 10 GB/s, streaming 20 GB/s" in said
    assert said.count("N=1000000") == 4 and said.count("eager/wick") == 2 and "2 x" in said
    assert said.count("compile: no <compiler>") == 2
    assert max(map(len, said.splitlines())) <= 160


def test_what_looks_like_markup_is_shown_as_it_is(capsys) -> None:
    row = a_row(case=Case({"N": 3}, {"T": "f32"}, {"p": "[/]", "q": "[red]"}))
    verdict.judge([row])
    table.print_rows(some_rows()[0], [row])
    assert "N=3 p=[/] q=[red]" in capsys.readouterr().out


def test_a_ratio_of_times_that_lie_far_apart_is_none() -> None:
    eager, wild = times(4e-3), times(40.0, 0.45)
    rows_ = [
        a_row(times={"wick": times(2e-3), "eager": eager, "compile": wild}),
        a_row(times={"wick": wild, "eager": eager, "compile": eager}),
    ]
    verdict.judge(rows_)
    assert [table.cells(row, rows_)[5:7] for row in rows_] == [["2 x", "?"], ["?", "?"]]


@pytest.mark.parametrize("width", [60, 80, 110, 200])
def test_every_figure_is_told_in_a_narrow_terminal(monkeypatch, width: int) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERM", "dumb")
    facts, made = some_rows()
    out = Terminal()
    table.print_rows(facts, made[:1], out)
    said = out.getvalue().split(made[0].signature)[1]
    assert max(map(len, said.splitlines())) <= width
    words_ = " ".join(said.split())
    for name, cell in zip(table.head(made[:1])[:-1], table.cells(made[0], made[:1])[:-1]):
        assert cell in words_ and (name in words_ or name in ("sizes", "cache"))
    assert all(word in words_ for word in table.said(made[0]).split())
    assert "…" not in said


def test_plots_are_written(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    facts, made = some_rows()
    paths = plots.write(str(tmp_path), facts, made)
    rooflines = ["roofline-flops-cpu", "roofline-bytes-cpu"]  # of local.a and of local.b
    names = [*rooflines, "sweep-local.a-f32-cpu", "sweep-local.b-f32-cpu"]
    assert sorted(os.listdir(tmp_path)) == sorted(f"{n}.{e}" for n in names for e in ("png", "svg"))
    for path in map(Path, paths):
        start = path.read_bytes()[:300]
        assert (
            start.startswith(b"\x89PNG") if path.suffix == ".png" else b"<svg" in path.read_bytes()
        )
    drawn = (tmp_path / "sweep-local.a-f32-cpu.svg").read_text()
    for text in (
        "bytes read and written",
        "time of a call",
        "floor",
        "wick",
        "eager",
        "&lt;other&gt;",
    ):
        assert text in drawn


def test_marks_of_an_axis_are_several_and_legends_have_only_what_is_there() -> None:
    pytest.importorskip("matplotlib")
    facts, made = some_rows()
    warm = [r for r in made if r.cache == "warm" and r.operator == "local.b"]
    figure = plots.figures(facts, [r for r in warm if r.moved_bytes > 1000])["roofline-cpu"]
    figure.canvas.draw()
    low, high = figure.axes[0].get_ylim()
    assert sum(low <= y <= high for y in figure.axes[0].get_yticks()) > 2
    assert [t.get_text() for t in figure.legends[0].get_texts()][-1] == "local.b"
    many = [a_row(operator=f"local.op{i}", flops=1e3 * (i + 1)) for i in range(25)]
    figure = plots.roofline(facts, many)
    looks = {(line.get_color(), line.get_marker()) for line in figure.axes[0].get_lines()[2:]}
    assert len(looks) == 25
    assert figure.axes[0].get_xlim()[0] < 1e11 / 2e10  # some of the slope can be seen


def test_the_copy_is_drawn_where_there_is_one_size() -> None:
    pytest.importorskip("matplotlib")
    facts, made = some_rows()
    facts["devices"][0]["copy"] = {"warm": [[8000], [1e-6]]}
    figure = plots.roofline(facts, [r for r in made if r.operator == "local.b"][2:3])
    copy = next(a for a in figure.axes[0].get_lines() if a.get_label() == "copy, warm")
    assert list(copy.get_xdata()) == [4000, 16000] and list(copy.get_ydata()) == [8e9, 8e9]


def test_a_sweep_needs_a_range() -> None:
    pytest.importorskip("matplotlib")
    facts, _ = some_rows()
    close = [a_row(read_bytes=n, written_bytes=n) for n in (4000, 4100)]
    assert list(plots.figures(facts, close)) == ["roofline-cpu"]


def test_calls_that_move_nothing_are_not_drawn() -> None:
    pytest.importorskip("matplotlib")
    facts, _ = some_rows()
    assert plots.figures(facts, [a_row(read_bytes=0, written_bytes=0, floor_s=0.0)]) == {}


def test_nothing_on_a_plot_overlaps() -> None:
    """Marks of an axis, titles and the legend each have their own place."""
    pytest.importorskip("matplotlib")
    facts, made = some_rows()
    figures = plots.figures(facts, made)
    undeclared = [r for r in made if r.operator == "local.b"]
    figures["bytes"] = plots.roofline(facts, undeclared)
    for letters in (30, 50):  # and there are many of them
        named = [replace(made[0], operator=f"local.{str(i) * letters}") for i in range(8)]
        figures[f"names of {letters}"] = plots.roofline(facts, named)
    figures["a baseline's"] = plots.sweep(
        [replace(r, times={**r.times, "b" * 60: r.times["wick"]}) for r in made[:2]]
    )
    for name, figure in figures.items():
        figure.canvas.draw()
        inside = figure.bbox
        for axes in figure.axes:
            for labels in (axes.get_xticklabels(), axes.get_yticklabels()):
                boxes = [t.get_window_extent() for t in labels if t.get_visible() and t.get_text()]
                for a, b in itertools.pairwise(boxes):
                    assert not a.overlaps(b), name
            assert axes.get_xlabel(), name
            drawn = axes.get_tightbbox()
            legend = figure.legends[0].get_window_extent()
            assert not drawn.overlaps(legend), name
            assert inside.x0 <= legend.x0 and legend.x1 <= inside.x1 and legend.y0 >= 0, name
            assert inside.x0 <= drawn.x0 and drawn.x1 <= inside.x1 and drawn.y1 <= inside.y1, name


def test_the_report_is_one_file(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from wick.bench import page

    facts, made = some_rows()
    page.write(str(tmp_path / "report.html"), facts, made)
    text = (tmp_path / "report.html").read_text()
    assert (
        text.count("<svg") == 4
        and text.count("<table") == 2
        and text.count("<tr>") == 2 + 2 * len(made)
    )
    assert "A &lt;CPU&gt;" in text and "no &lt;compiler&gt;" in text and "<other>" not in text
    for outside in ("<script", "<link", "<img", 'src="http', "url(http", "@import"):
        assert outside not in text


# ---- the command ----

QUICK = ("--quick", "--rounds", "3", "--threads", "1", "--cache", "warm")


def test_the_command_measures_a_file(folder: Path) -> None:
    name = source_in(folder).stem
    done = bench(f"{name}.c", *QUICK, "--against", "eager,twice", "--json", "rows.json", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert f"local.{name}, f32, cpu, 1 thread" in done.stdout
    about, found = records.read(str(folder / "rows.json"))
    assert about["command"].startswith("wick bench slope_")
    assert [row.case.words() for row in found][:2] == ["N=2x3 C=4", "N=5 C=7 by=0.5 bias=none"]
    assert all(set(row.times) >= {"wick", "out=", "eager"} and row.verdict for row in found)
    assert "twice" in found[0].times and "twice" in found[1].missing  # it wants a bias
    for row in found:
        assert all(len(t.samples_s) == 3 and t.median_s > 0 for t in row.times.values())


@pytest.mark.parametrize(
    "ours, eager, code, said",
    [
        (1.0, 1.0, 0, "Against old.json: 0 slower, 0 faster, 1 the same within the noise"),
        (4.0, 1.0, 1, "Against old.json: 1 slower"),
        (92.0, 23.65, 1, "slower"),  # by more than the machine
        (4.0, 23.65, 2, "cannot compare: the machine takes 23.65 x as long as then, by torch's"),
        (1.0, 0.5, 2, "cannot compare: the machine takes 0.50 x as long as then, by torch's times"),
    ],
)
def test_the_command_compares(
    tmp_path: Path, monkeypatch, capsys, ours: float, eager: float, code: int, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(records, "facts", lambda: {"torch": "2", "date": "today"})
    records.write("old.json", records.machine([], [], ""), run_of(1.0, eager=1.0)[1])
    monkeypatch.setattr(rows, "measure", lambda *rest: run_of(ours, eager=eager)[1])
    monkeypatch.setattr(again, "measure", lambda *rest: [])  # it did not come to its end
    monkeypatch.setattr(rows, "smallest_call", lambda *rest: {})
    arguments = ["relu", "--size", "N=8", *QUICK, "--compare", "old.json"]
    assert cli_bench.main(arguments) == code
    shown = capsys.readouterr()
    assert said in shown.out + shown.err
    assert code < 2 or "faster" not in shown.out


@pytest.mark.parametrize(
    "each, code, asked",
    [
        ([1.0, 9.0], 0, 1),
        ([2.0, 1.0, 9.0], 0, 2),  # it was disturbed
        ([2.0, 2.1, 1.0, 9.0], 0, 3),
        ([2.0, 2.1, 2.2, 9.0], 1, 3),
        ([1.2, 1.5, 9.0], 0, 2),  # processes are further apart than it is from then
    ],
)
def test_what_seems_slower_is_measured_again(
    tmp_path: Path, monkeypatch, each: list[float], code: int, asked: int
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(records, "facts", lambda: {"torch": "2", "date": "today"})
    records.write("old.json", records.machine([], [], ""), run_of(1.0, eager=1.0)[1])
    left = list(each)

    def measure(*rest: object) -> list[rows.Row]:
        return run_of(left.pop(0), eager=1.0)[1]

    monkeypatch.setattr(rows, "measure", measure)
    monkeypatch.setattr(again, "measure", measure)
    monkeypatch.setattr(rows, "smallest_call", lambda *rest: {})
    files = ("--compare", "old.json", "--json", "new.json")
    assert cli_bench.main(["relu", "--size", "N=8", *QUICK, *files]) == code
    assert len(each) - len(left) == asked
    (row,) = records.read("new.json")[1]
    assert row.times["wick"].median_s == min(each[:asked])


def test_another_process_measures_the_same_call(folder: Path) -> None:
    name = source_in(folder).stem
    words_ = [str(folder / f"{name}.c"), *QUICK, "--size", "N=2x3 C=4", "--size", "N=8 C=64"]
    found = again.measure([*words_, "--types", "f32"], [f"{name} N=8 C=64 f32"], "cpu")
    assert [(row.operator, row.cache) for row in found] == [(f"local.{name}", "warm")]
    assert all(row.case.dims == {"N": (8,), "C": 64} for row in found)
    assert again.measure(["gone.c"], ["gone"], "cpu") == []


def test_the_command_compiles_draws_and_traces(folder: Path) -> None:
    pytest.importorskip("matplotlib")
    name = source_in(folder).stem
    size = ("--size", "N=2x3 C=4", "--size", "N=8 C=64")
    files = ("--html", "r.html", "--plots", "drawn", "--profile", "trace.json", "--json", "-")
    done = bench(f"{name}.c", *QUICK, *size, "--against", "eager compile", *files, cwd=folder)
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    compiled = [r for r in found if r["record"] == "row" and "compile" in r["times"]]
    reasons = [r["missing"] for r in found if r["record"] == "row"]
    assert len(compiled) == 4, reasons  # both operators at both sizes
    assert len(list((folder / "drawn").iterdir())) == 6
    assert (folder / "r.html").read_text().startswith("<!doctype html>")
    trace = json.loads((folder / "trace.json").read_text())
    labels = {event.get("name") for event in trace["traceEvents"]}
    assert (
        f"wick: {name} N=8 C=64 f32 cpu" in labels and f"eager: {name} N=8 C=64 f32 cpu" in labels
    )


def test_a_trace_has_the_calls_that_were_measured(folder: Path, host: Host, tmp_path: Path) -> None:
    from wick.bench import profiling

    operator = operator_in(folder)
    compiled: list[str] = []

    def backend(module, example):
        compiled.append("once")
        return module.forward

    calls = [(operator, Case({"N": (n,), "C": 3}, {"T": "f32"}), host) for n in range(2, 12)]
    with pytest.MonkeyPatch.context() as patch:
        made = torch.compile
        patch.setattr(torch, "compile", lambda f, **rest: made(f, backend=backend, **rest))
        before: list[int] = []

        class Watched(profiling.profile):
            def __enter__(self):
                before.append(len(compiled))
                return super().__enter__()

        patch.setattr(profiling, "profile", Watched)
        profiling.trace(str(tmp_path / "trace.json"), calls, ("eager", "compile"), 0)
    assert before == [len(compiled)] == [2 * len(calls) - 1]  # the last was still there
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    spans = [e for e in events if e.get("ph") == "X"]
    given = [e for e in spans if e["name"].startswith("out=: ")]
    assert len(given) == len(calls)
    for span in given:
        begin, end = span["ts"], span["ts"] + span["dur"]
        assert not [e["name"] for e in spans if begin < e["ts"] < end]


@pytest.mark.parametrize(
    "args, code, message",
    [
        (["nothing"], 2, "no operator nothing in namespace wick"),
        (["gone.c"], 2, "gone.c: there is no such file"),
        (["relu", "--shapes", "gone.txt"], 2, "gone.txt: there is no such file"),
        (["relu", "--seed", "9" * 23], 2, "expected a number of 64 bits"),
        (["relu", "--json", ""], 2, "--json: expected a name"),
        (["relu", "--html", ""], 2, "--html: expected a name"),
        (["relu", "--html", "-"], 2, "--html -: expected the name of a file"),
        (["relu", "--json", "r", "--html", "./r"], 2, "--html ./r: --json is written there"),
        (["muladd_backward", "--size", "N=2 da=0"], 2, "da=0: only an optional can be =none"),
        (["relu", "--size", "N=2 y=none"], 2, "y is no name of a signature: N, T, x"),
        (["relu", "--reference", "gone.py"], 2, "gone.py: there is no such file"),
        (["relu", "--device", "tpu"], 2, "expected cpu, cuda or cuda:N"),
        (["relu", "--types", "i8"], 2, "--types i8: relu's T is f16 bf16 f32 f64"),
        (["relu", "--size", "M=3"], 2, "M is no name of a signature: N, T, x"),
        (["relu", "--size", "T=f32"], 2, "--size: relu needs N"),
        (["relu", "--compare", "gone.json"], 2, "gone.json: No such file"),
        (["relu", "--json", "no/where.json"], 2, "cannot be written: No such file or directory"),
        (["relu", "--json", "."], 2, ".: cannot be written: Is a directory"),
        (["relu", "--profile", "."], 2, "--profile .: torch writes a trace to plain files alone"),
        (["relu", "--json", "/proc/x.json"], 2, "/proc/x.json: cannot be written: "),
        (["relu", "--shapes", "."], 2, ".: Is a directory"),
        (["relu", "--size", "N=8", "--size", "flops: 3*Q"], 2, "--size:2: Q is no dim"),
        (["relu", "--threads", "0"], 2, "--threads is 0, expected 1 or more"),
        (["relu", "--cache", "hot"], 2, "invalid choice: 'hot'"),
        (["relu", "--nonsense"], 2, "unrecognized arguments: --nonsense"),
    ],
)
def test_the_command_refuses(
    tmp_path: Path, monkeypatch, capsys, args: list[str], code: int, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    try:
        returned = cli_bench.main(args)
    except SystemExit as end:  # argparse's own
        returned = end.code
    said = capsys.readouterr()
    assert (returned, said.out) == (code, "")
    assert "wick bench: " in said.err and message in said.err


@pytest.mark.parametrize(
    "body, message",
    [
        ("return 3", " returned 3, expected a dict"),
        ("raise KeyError('k')", ": KeyError: 'k'"),
        ("import sys; sys.exit(3)", ": SystemExit: 3"),
    ],
)
def test_inputs_that_are_none_are_told_before_anything_runs(
    folder: Path, monkeypatch, capsys, body: str, message: str
) -> None:
    source = source_in(folder)
    source.with_suffix(".py").write_text(f"def {source.stem}_inputs(N): {body}\n")
    monkeypatch.setattr(floor.Roof, "measure", lambda *rest: pytest.fail("it measures"))
    assert cli_bench.main([str(source), *QUICK]) == 2
    said = capsys.readouterr().err
    assert len(said.splitlines()) == 1
    assert f"{source.stem}.py: {source.stem}_inputs{message}" in said


def test_a_reference_that_exits(folder: Path, host: Host) -> None:
    source = source_in(folder)
    source.with_suffix(".py").write_text(f"def {source.stem}(x): raise SystemExit(3)\n")
    operator, case = operator_in(folder), Case({"N": (2,), "C": 3}, {"T": "f32"})
    call = inputs.make(operator.namespace, operator.name, operator.parameters, case, "cpu", 0)
    field = contenders.field(operator, case, call, host, ("eager",), 0)
    assert field.missing == {"eager": "SystemExit: 3"}


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
def test_a_full_disk_names_the_file(monkeypatch, capsys) -> None:
    monkeypatch.setattr(rows, "measure", lambda *rest: [a_row()])
    assert cli_bench.main(["relu", *QUICK, "--size", "N=8", "--json", "/dev/full"]) == 2
    assert "wick bench: /dev/full: No space left" in capsys.readouterr().err


def test_output_is_tried_without_a_trace(tmp_path: Path) -> None:
    (tmp_path / "old.json").write_text("kept")
    os.mkfifo(tmp_path / "pipe")
    for name in ("new.json", "old.json", "pipe"):
        asked.try_to_write(str(tmp_path / name))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["old.json", "pipe"]
    assert (tmp_path / "old.json").read_text() == "kept"


def test_sizes_that_are_no_text(folder: Path, capsys) -> None:
    source = source_in(folder)
    source.with_name(f"{source.stem}.shapes.txt").write_bytes(b"N=2 C=3\n# \xff\n")
    assert cli_bench.main([str(source)]) == 2
    assert f"{source.stem}.shapes.txt: not UTF-8: byte 10 is 0xff" in capsys.readouterr().err


def test_plots_without_matplotlib_are_refused_at_once(monkeypatch, capsys) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert cli_bench.main(["relu", "--html", "r.html"]) == 2
    assert "pip install 'torch-wick[bench]'" in capsys.readouterr().err


def test_an_operator_that_refuses_is_skipped_with_its_words(tmp_path: Path) -> None:
    name = f"picky_{next(_numbers)}"
    (tmp_path / f"{name}.c").write_text(
        f"""#include <wick/op.h>
WICK_OP({name}, "x: f32[N] -> y: f32[N]");
WICK_IMPL wick_status {name}_cpu(wick_ctx *ctx, const float *x, float *y, int64_t N)
{{
    if (N % 2) return wick_fail(ctx, WICK_EINVAL, "N is %lld, expected an even number", (long long)N);
    for (int64_t i = 0; i < N; i++) y[i] = x[i];
    return WICK_OK;
}}
"""
    )
    sizes = ("--size", "N=7", "--size", "N=8")
    done = bench(f"{name}.c", *QUICK, *sizes, cwd=tmp_path)
    assert done.returncode == 0
    assert f"skipped {name} N=7 on cpu: {name}: N is 7, expected an even number" in done.stderr
    assert "N=8" in done.stdout and "N=7" not in done.stdout
    done = bench(f"{name}.c", *QUICK, "--size", "N=7", "--size", "N=9", cwd=tmp_path)
    assert done.returncode == 2 and "nothing was measured" in done.stderr


@pytest.mark.parametrize(
    "size, why",
    [
        ("N=900000000000", "it takes 13411 GiB of memory, and "),
        (f"N={1 << 61}", "63 bits"),
        (f"N={1 << 40}x{1 << 40}", "the dim N"),
        (f"N={1 << 80}", "a size does not fit into 63 bits"),
    ],
)
def test_a_size_that_is_too_large_is_left_out(monkeypatch, capsys, size: str, why: str) -> None:
    measured: list[str] = []
    monkeypatch.setattr(
        rows, "measure", lambda op, case, *rest: measured.append(case.words()) or [a_row()]
    )
    assert cli_bench.main(["relu", *QUICK, "--size", size, "--size", "N=8"]) == 0
    said = [line for line in capsys.readouterr().err.splitlines() if "skipped" in line]
    assert measured == ["N=8"] and len(said) == 1
    assert f"skipped relu {size} f32 on cpu: " in said[0] and why in said[0]
    assert cli_bench.main(["relu", *QUICK, "--size", size]) == 2
    assert "nothing was measured" in capsys.readouterr().err


def test_a_file_given_twice_is_measured_once(folder: Path) -> None:
    name = source_in(folder).stem
    done = bench(f"{name}.c", f"{name}.c", *QUICK, "--size", "N=2 C=3", cwd=folder)
    assert (done.returncode, done.stdout.count("N=2 C=3")) == (0, 2), (
        done.stderr
    )  # and its backward


def test_one_that_was_asked_for_and_cannot_be_measured_is_told_by_the_exit_code(
    folder: Path,
) -> None:
    name = source_in(folder).stem
    asked = (f"{name}.c", *QUICK, "--size", "N=2 C=3", "--against")
    done = bench(*asked, "eager,broken", cwd=folder)
    assert done.returncode == 2 and "ValueError: not today" in done.stdout
    assert bench(*asked, "eager", cwd=folder).returncode == 0


def test_cores_of_a_call_are_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads of another call that still wait for work, busily, are let come to rest first."""
    clock = {"wall": 0.0, "cpu": 0.0, "spinning": 0.012}

    def go_on(seconds: float, busy: float) -> None:
        spun = min(seconds, clock["spinning"])
        clock["wall"] += seconds
        clock["cpu"] += busy * seconds + spun
        clock["spinning"] -= spun

    class Timer:
        def timeit(self, n: int) -> None:
            go_on(n * 1e-3, 1.0)

    monkeypatch.setattr(rows.time, "sleep", lambda seconds: go_on(seconds, 0.0))
    monkeypatch.setattr(rows.time, "process_time", lambda: clock["cpu"])
    monkeypatch.setattr(rows.time, "perf_counter", lambda: clock["wall"])
    monkeypatch.setattr(rows.timing, "timer", lambda stmt, names: Timer())
    alone = contenders.Contender("wick", "", {})
    field = contenders.Field([alone], {}, None, set(), 1, [])
    times = {"wick": rows.Times.of([1e-3] * 3)}
    assert rows._cores(field, 2e-3, times) == pytest.approx(1.0)


def test_a_folder_one_file_of_which_does_not_build(folder: Path) -> None:
    (folder / "broken.c").write_text('#include <wick/op.h>\nWICK_OP(broken, "x: f32[N] -> ");\n')
    (folder / "helper.c").write_text("int helper;\n")
    done = bench(".", *QUICK, "--size", "N=2 C=3", "--against", "twice", cwd=folder)
    assert done.returncode == 2
    assert "broken.c:2:" in done.stderr and "helper" not in done.stderr
    assert done.stdout.count("N=2 C=3") == 2


def test_a_reference_that_does_not_load_names_its_line(folder: Path, capsys) -> None:
    source = source_in(folder)
    source.with_suffix(".py").write_text("import torch\n\nnothing_of_this_name\n")
    assert cli_bench.main([str(source)]) == 2
    assert f"{source.stem}.py:3: NameError: " in capsys.readouterr().err
    target.load_reference.cache_clear()
    source.with_suffix(".py").write_text("import sys\nsys.exit(3)\n")
    assert cli_bench.main([str(source)]) == 2
    assert f"{source.stem}.py:2: SystemExit: 3" in capsys.readouterr().err
    empty = folder / "empty"
    empty.mkdir()
    assert cli_bench.main([str(empty)]) == 2
    assert "no operator file is in there" in capsys.readouterr().err


def test_a_baseline_that_nobody_has_is_refused_at_once(folder: Path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(rows, "measure", lambda *rest: pytest.fail("nothing is to be measured"))
    source = source_in(folder)
    assert cli_bench.main([str(source), "--against", "eager,apex"]) == 2
    said = capsys.readouterr().err
    assert "--against apex: there are eager, compile, dispatcher, twice, broken; " in said
    assert f"{source.stem}_baseline_apex" in said


def test_a_file_of_sizes_serves_all_that_are_measured_with_it(
    folder: Path, monkeypatch, capsys
) -> None:
    seen: list[str] = []
    monkeypatch.setattr(
        rows, "measure", lambda op, case, *rest: seen.append(f"{op.name} {case.words()}") or []
    )
    sizes = folder / "sizes.txt"
    sizes.write_text("P=2 N=3 Q=4\n[relu]\nN=8\n[reduce_sum_dim]\nP=5 N=6 Q=7\n")
    assert cli_bench.main(["relu", "reduce_sum_dim", *QUICK, "--shapes", str(sizes)]) == 2
    assert seen == [
        *("relu N=3", "relu N=8"),
        *("reduce_sum_dim P=2 N=3 Q=4", "reduce_sum_dim P=5 N=6 Q=7"),
    ]
    sizes = folder / "others.txt"
    sizes.write_text("[nobody]\nN=8\n")
    assert cli_bench.main(["relu", "mul", *QUICK, "--shapes", str(sizes)]) == 2
    assert "there is no operator nobody: " in capsys.readouterr().err


def test_a_call_is_measured_once(monkeypatch) -> None:
    seen: list[str] = []
    monkeypatch.setattr(
        rows, "measure", lambda op, case, *rest: seen.append(" ".join(case.types.values())) or []
    )
    cli_bench.main(["relu", *QUICK, "--size", "N=8 T=f64", "--types", "f32 f64"])
    assert seen == ["f64"]


def test_operators_without_a_size_are_named(folder: Path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(rows, "measure", lambda op, case, *rest: [])
    source = source_in(folder)
    source.with_name(f"{source.stem}.shapes.txt").write_text(f"[{source.stem}]\nN=2 C=3\n")
    assert cli_bench.main([str(source), *QUICK]) == 2
    assert (
        f"not measured: {source.stem}.shapes.txt: {source.stem}_backward needs N, C"
        in capsys.readouterr().err.replace(f"{os.path.relpath(folder)}/", "")
    )


def test_names_as_reports_print_them() -> None:
    assert [op.name for op in target.find(["wick.relu", "wick::mul"], None, None)] == [
        "relu",
        "mul",
    ]


def test_what_was_measured_before_ctrl_c_is_reported(monkeypatch, capsys, tmp_path: Path) -> None:
    real, calls = rows.measure, []

    def measure(*args):
        calls.append(args)
        if len(calls) > 1:
            raise KeyboardInterrupt
        return real(*args)

    monkeypatch.setattr(rows, "measure", measure)
    sizes = ("--size", "N=8", "--size", "N=16")
    found = str(tmp_path / "rows.json")
    code = cli_bench.main(["relu", *QUICK, *sizes, "--against", "eager", "--json", found])
    said = capsys.readouterr()
    assert code == 130 and "stopped before the end" in said.err
    assert "N=8" in said.out and "N=16" not in said.out
    assert len(records.read(found)[1]) == 1


def test_ctrl_c_while_the_copy_is_measured(monkeypatch, capsys) -> None:
    def stop(*rest):
        raise KeyboardInterrupt

    monkeypatch.setattr(floor.Roof, "measure", stop)
    assert cli_bench.main(["relu", *QUICK, "--size", "N=8"]) == 130
    assert "stopped before anything was measured" in capsys.readouterr().err
    monkeypatch.setattr(target, "find", stop)
    assert cli_bench.main(["relu"]) == 130
    assert capsys.readouterr().err == "wick bench: stopped\n"


def test_nobody_reads(folder: Path) -> None:
    script = Path(wick.__file__).parent / "cli_bench.py"
    read, write = os.pipe()
    os.close(read)
    size = ("--size", "N=2 C=3", "--against", "wick", "--json", "rows.json")
    done = subprocess.run(
        [sys.executable, str(script), source_in(folder).name, *QUICK, *size],
        cwd=folder,
        stdout=write,
        stderr=subprocess.PIPE,
        text=True,
        timeout=300,
    )
    os.close(write)
    assert done.returncode == 141 and "Traceback" not in done.stderr
    assert len(records.read(str(folder / "rows.json"))[1]) == 2


def test_sizes_go_to_the_operators_that_have_them(monkeypatch, capsys) -> None:
    seen: list[str] = []
    monkeypatch.setattr(
        rows, "measure", lambda op, case, *rest: seen.append(f"{op.name} {case.words()}") or []
    )
    sizes = ("--size", "N=8", "--size", "P=2 N=3 Q=4")
    assert cli_bench.main(["relu", "reduce_sum_dim", *QUICK, *sizes]) == 2
    assert seen == ["relu N=8", "relu N=3", "reduce_sum_dim P=2 N=3 Q=4"]


KILLER = """#include <wick/op.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>
WICK_OP(killer, "x: f32[N] -> y: f32[N]");
WICK_IMPL wick_status killer_cpu(wick_ctx *ctx, const float *x, float *y, int64_t N)
{
    (void)ctx;
    if (N == 7) return wick_fail(ctx, WICK_EINVAL, "7 is not taken");
    if (N == 9) HOW;
    for (int64_t i = 0; i < N; i++) y[i] = x[i];
    return WICK_OK;
}
"""


@pytest.mark.parametrize(
    "how, said",
    [("abort()", "SIGABRT"), ("raise(SIGSEGV)", "SIGSEGV"), ("_exit(0)", "exit code 0")],
)
def test_a_call_that_ends_the_process_is_named(tmp_path: Path, how: str, said: str) -> None:
    (tmp_path / "killer.c").write_text(KILLER.replace("HOW", how))
    sizes = ("--size", "N=7", "--size", "N=8", "--size", "N=9", "--size", "N=10")
    done = bench("killer.c", *QUICK, *sizes, "--json", "rows.json", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == (
        f"wick bench: killer N=9 on cpu ended the process ({said})"
    )
    assert "N=8" in done.stdout and "launch-bound" in done.stdout and "N=9" not in done.stdout
    about, found = records.read(str(tmp_path / "rows.json"))
    assert [row.case.words() for row in found] == ["N=8"] and about["devices"][0]["copy"]
    refused = "skipped killer N=7 on cpu: killer: 7 is not taken"
    assert f"wick bench: {refused}" in done.stderr.splitlines()
    assert about["notes"] == [refused, f"killer N=9 on cpu ended the process ({said})"]
    assert page_says(about, found, about["notes"])


def page_says(facts: dict, found: list[rows.Row], wanted: list[str]) -> bool:
    from wick.bench import page

    try:
        return all(note in page.render(facts, found) for note in wanted)
    except plots.PlotsError:
        return True


@pytest.mark.parametrize("number, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_both_processes(tmp_path: Path, number: int, code: int) -> None:
    script = Path(wick.__file__).parent / "cli_bench.py"
    (tmp_path / "slow.c").write_text(KILLER.replace("killer", "slow").replace("HOW", "sleep(60)"))
    command = [sys.executable, str(script), "slow.c", *QUICK, "--size", "N=9"]
    # A shell starts what runs in the background with Ctrl-C ignored, and that is handed on.
    as_usual = partial(signal.signal, number, signal.SIG_DFL)
    with subprocess.Popen(
        command, cwd=tmp_path, stderr=subprocess.PIPE, text=True, preexec_fn=as_usual
    ) as running:
        children = Path(f"/proc/{running.pid}/task/{running.pid}/children")
        deadline = time.monotonic() + 60
        while not children.read_text() and time.monotonic() < deadline:
            time.sleep(0.01)
        child = int(children.read_text())
        time.sleep(0.3)
        running.send_signal(number)
        try:
            _, said = running.communicate(timeout=100)
        finally:
            running.kill()  # else its end is waited for
    assert running.returncode == code and "Traceback" not in said
    assert not Path(f"/proc/{child}").exists()


def test_importing_wick_imports_nothing_of_it() -> None:
    code = "import sys, wick; print([m for m in sys.modules if m.startswith('wick.bench')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
