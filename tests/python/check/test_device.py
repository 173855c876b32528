"""The way of a GPU, tried on the CPU: room around tensors, fences, streams, devices that are lost."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
import torch
from parts import SCALE

from wick.check import device, draw, fences, guarded, loaded, worker
from wick.check.backward import Backward
from wick.check.case import Case
from wick.check.finding import Result
from wick.check.forward import Forward
from wick.check.guarded import Manner
from wick.check.judges import stream
from wick.check.judges.again import neighbours
from wick.check.judges.stream import _judge_together, _others
from wick.check.operator import Operator
from wick.check.plan import Planner


@pytest.mark.parametrize("name", ["scale_bias_relu", "add_out", "mul_backward", "reduce_sum"])
def test_the_way_of_devices_agrees_with_the_guarded_one(name: str) -> None:
    """On the CPU, which is a device as well."""
    operator = Operator("wick", name)
    case = next(Planner(operator, 0, ("f32",)).tiny(1))
    call = Forward(operator, None, lambda phase: None).prepare(case)
    here = device.run(
        operator, call.values, call.wanted, call.shapes, Manner(repeats=3), torch.device("cpu")
    )
    assert not here.refused and not here.damage and here.differs == -1
    assert guarded.same(here.results, call.run().results)


def test_what_a_device_does_not_support_is_no_refusal(make: Any) -> None:
    made = make(
        'WICK_OP(OP, "x: f32[N], how: int -> y: f32[N]");\n'
        "WICK_IMPL wick_status OP_cpu(wick_ctx *c, const float *x, int64_t how, float *y, int64_t N)\n"
        '{ (void)x, (void)y, (void)N; return wick_fail(c, (wick_status)how, "no"); }\n'
    )
    operator = Operator("local", made.name)
    subject = Forward(operator, None, lambda phase: None)
    for status in (1, 2, 4):
        call = subject.prepare(operator.read_case(f"{made.name} N=3 how={status}"))
        what = (operator, call.values, call.wanted, call.shapes, Manner())
        assert device.run(*what, torch.device("cpu")).status == call.run().status == status


def test_one_element_with_any_stride_is_compared_on_a_device() -> None:
    operator = Operator("wick", "relu")
    subject = Forward(operator, None, lambda phase: None)
    for layout in draw.LAYOUTS:
        call = subject.prepare(operator.read_case(f"relu T:f16 N=1 x~{layout}"))
        what = (operator, call.values, call.wanted, call.shapes, Manner())
        assert not device.run(*what, torch.device("cpu")).damage


def test_a_kernel_that_fails_at_once_is_left_to_the_first_case(monkeypatch: Any) -> None:
    class Lost:
        def __init__(self, *about: Any) -> None:
            pass

        def prepare(self, case: Case) -> Any:
            raise device.DeviceLost("CUDA error: an illegal memory access was encountered")

    monkeypatch.setattr(loaded, "Forward", Lost)
    there = loaded.Loaded.__new__(loaded.Loaded)
    there.device, there.phase = torch.device("cuda"), lambda phase: None
    assert there._runs_here(Operator("wick", "relu"))


@pytest.mark.parametrize(
    "words, ends",
    [
        ("CUDA error: an illegal access", True),
        ("dot: launch: CUDA_ERROR_ILLEGAL_ADDRESS (an illegal access)", True),
        ("CUDA error: out of memory", False),
    ],
)
def test_a_device_that_is_lost_ends_the_process_and_one_that_is_full_does_not(
    monkeypatch: Any, words: str, ends: bool
) -> None:
    def fails(request: Any) -> Any:
        raise RuntimeError(words)

    said: list[Any] = []
    child = worker.Child.__new__(worker.Child)
    child.loaded = type("Loaded", (), {"judge": staticmethod(fails)})
    monkeypatch.setattr(child, "say", said.append)
    monkeypatch.setattr(worker.os, "_exit", lambda code: said.append(code))
    answer = child.answer({"do": "judge"})
    assert said == ([{"crash": words}, 1] if ends else [])
    assert ends or answer == {"skipped": "out of memory"}


def lost(*_: Any) -> None:
    raise device.DeviceLost("CUDA error: an illegal memory access was encountered")


def test_what_fails_on_a_device_is_of_the_case_that_it_failed_in(monkeypatch: Any) -> None:
    """Also where a judge has taken it for a refusal."""
    there = loaded.Loaded.__new__(loaded.Loaded)
    there.device, there.subjects = torch.device("cuda"), {"relu": None}
    case = Operator("wick", "relu").read_case("relu T:f32 N=2")
    monkeypatch.setattr(there, "_judge", lambda *_: Result(refused="it says no"))
    monkeypatch.setattr(loaded, "synchronize", lost)
    with pytest.raises(device.DeviceLost):
        there.judge({"subject": "relu", "judge": "values", "case": case.pack(), "only": []})


def test_a_device_that_is_lost_is_no_mistake_of_the_reference() -> None:
    relu = Operator("wick", "relu")
    call = Forward(relu, None, lambda phase: None).prepare(relu.read_case("relu T:f32 N=2"))
    with pytest.raises(device.DeviceLost), call.asking():
        lost()


ADDED = """\
WICK_OP(OP, "x: f32[N], more?: f32[N] -> y: f32[N]");
WICK_IMPL wick_status OP_cpu(wick_ctx *c, const float *x, const float *more, float *y, int64_t N)
{
    (void)c;
    for (int64_t i = 0; i < N; i++) y[i] = x[i] + (more ? more[i] : 0);
    return WICK_OK;
}
WICK_OP(OP_backward, "dy: f32[N] -> dx: f32[N], dmore?: f32[N]");
WICK_IMPL wick_status OP_backward_cpu(wick_ctx *c, const float *dy, float *dx, float *dmore, int64_t N)
{
    (void)c;
    for (int64_t i = 0; i < N; i++) dx[i] = dy[i];
    for (int64_t i = 0; i < N && dmore; i++) dmore[i] = dy[i];
    return WICK_OK;
}
"""


def test_a_backward_is_captured_also_where_an_input_is_absent(make: Any, monkeypatch: Any) -> None:
    made = make(ADDED)
    operator = Operator("local", made.name)
    captured = []
    for name in ("_judge_side_stream", "_judge_together"):
        monkeypatch.setattr(stream, name, lambda *_: None)
    monkeypatch.setattr(stream, "_judge_graph", lambda call, *_: captured.append(call))
    case = operator.read_case(f"{made.name} N=3 more~absent")
    stream.judge_stream(Backward(Forward(operator, None, lambda phase: None)), case)
    assert captured and captured[0].values[0].shape == (3,)


def test_beside_a_call_on_another_stream_others_are_computed() -> None:
    subject = Forward(SCALE, None, lambda phase: None)
    case = SCALE.read_case("scale_bias_relu T:f32 N=2 C=3 scale=0.5")
    call = subject.prepare(case)
    same, unlike = _others(subject, case)
    place = [p.name for p in SCALE.inputs].index("scale")
    assert same.values[place] == 0.5 and unlike.values[place] != 0.5
    for other in (same, unlike):
        assert other.values[0].shape == call.values[0].shape
        assert not torch.equal(other.values[0], call.values[0])
    relu = Operator("wick", "relu")
    case = relu.read_case("relu T:f32 N=2")
    assert len(list(_others(Forward(relu, None, lambda phase: None), case))) == 1


class NoStream:
    """Of torch.cuda, as much as is needed to make calls one after another."""

    def __init__(self, *_: Any) -> None:
        pass

    def wait_event(self, _: Any) -> None:
        pass

    def record(self) -> None:
        pass


@pytest.mark.parametrize("who", ["none", "call", "other"])
def test_calls_at_once_are_both_judged(monkeypatch: pytest.MonkeyPatch, who: str) -> None:
    for name in ("Stream", "Event"):
        monkeypatch.setattr(torch.cuda, name, NoStream)
    monkeypatch.setattr(torch.cuda, "stream", lambda _: contextlib.nullcontext())
    monkeypatch.setattr(torch.cuda, "synchronize", lambda _: None)
    monkeypatch.setattr(torch.cuda, "_sleep", lambda _: None)
    operator = Operator("wick", "scale_bias_relu")
    subject = Forward(operator, None, lambda phase: None)
    case = operator.read_case("scale_bias_relu T:f32 N=2 C=3")
    call = subject.prepare(case)
    other = next(_others(subject, case))
    spoilt = {"none": None, "call": call, "other": other}[who]
    right = operator.function

    def function(*values: Any) -> Any:
        is_spoilt = spoilt is not None and torch.equal(values[0], spoilt.values[0])
        return right(*values) + is_spoilt

    operator.function = function
    result = Result()
    _judge_together(call, other, call.run().results, result)
    assert [f.kind for f in result.findings] == ([] if who == "none" else ["together"])


def test_sizes_that_could_be_taken_for_others() -> None:
    dims = {"N": (4, 2), "C": 6, "K": 8}
    found = list(neighbours(dims))
    assert {"N": (6,), "C": 8, "K": 8} in found, "as many elements, the other way round"
    assert {"N": (8,), "C": 8, "K": 6} not in found, "of N and C alone"
    assert {"N": (4, 2), "C": 8, "K": 6} in found
    for name, size in dims.items():
        alone = [d for d in found if all(d[n] == s for n, s in dims.items() if n != name)]
        assert len(alone) == 2 and all(d[name] != size for d in alone)
    assert list(neighbours({})) == []


def test_a_tensor_can_lie_at_either_end_of_a_fence(monkeypatch: pytest.MonkeyPatch) -> None:
    made = [torch.zeros(64, dtype=torch.uint8) for _ in range(4)]
    monkeypatch.setattr(fences, "fence", lambda index, slot: made[slot])
    operator = Operator("wick", "add_out")
    case = operator.read_case("add_out T:f32 N=7")
    call = Forward(operator, None, lambda phase: None).prepare(case)
    a, b, _ = call.values
    for at_end, where in ((True, slice(36, 64)), (False, slice(0, 28))):
        manner = Manner(fenced=True, at_end=at_end)
        what = (operator, call.values, call.wanted, call.shapes, manner)
        outcome = device.run(*what, torch.device("cpu"))
        assert not outcome.damage and torch.equal(outcome.results[0], a + b)
        assert torch.equal(made[0][where].view(torch.float32), a)
    case = operator.read_case("add_out T:f32 N=17")  # has no place there
    call = Forward(operator, None, lambda phase: None).prepare(case)
    what = (operator, call.values, call.wanted, call.shapes, manner)
    assert torch.equal(device.run(*what, torch.device("cpu")).results[0], sum(call.values[:2]))


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_fences_that_cannot_be_had_say_why() -> None:
    assert "CUDA driver" in fences.problem(0)


def test_two_arguments_may_be_one_tensor_on_a_device() -> None:
    operator = Operator("wick", "add_out")
    case = operator.read_case("add_out T:f32 N=7 out~is-a")
    call = Forward(operator, None, lambda phase: None).prepare(case)
    a, b, out = call.values
    assert out is a
    what = (operator, call.values, call.wanted, call.shapes, Manner())
    outcome = device.run(*what, torch.device("cpu"))
    assert not outcome.damage and torch.equal(outcome.results[0], a + b)


@pytest.mark.parametrize("fill", guarded.FILLS)
def test_room_around_tensors_on_a_device_is_watched(fill: int) -> None:
    x = torch.arange(6.0).view(2, 3).t()
    there = device.place("x", x, torch.device("cpu"), shift=1, fill=fill)
    assert torch.equal(there.tensor, x) and there.tensor.stride() == x.stride()
    assert there.damage() == []
    flat = there.tensor.as_strided((1,), (1,), there.tensor.storage_offset() + 6)
    flat.fill_(1)
    assert there.damage() == ["it wrote right past the end of x"]
