"""Sizes: from a file, the command line and the signature."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from measured import operator_in, source_in

import wick
from wick import _wick
from wick.bench import floor, rows, shapes, target
from wick.bench.host import Host
from wick.bench.shapes import Case, Shapes, ShapesError


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
    page = (Path(__file__).resolve().parents[3] / "docs/bench.md").read_text()
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
