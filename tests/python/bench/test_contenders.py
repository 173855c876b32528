"""Who takes part: the operator, torch, baselines; and that they compute the same."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from measured import a_row, operator_in, source_in

from wick.bench import contenders, inputs, rows, table, target
from wick.bench.host import Host
from wick.bench.shapes import Case, Shapes


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
