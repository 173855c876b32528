"""The child's side of the work: the target loaded, cases planned and judged."""

from __future__ import annotations

import functools
import itertools
import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch

import wick

from .. import _wick
from .._sources import sources_in
from ..bench.target import SOURCES
from . import guarded
from . import reference as references
from .backward import Backward
from .case import Case, CaseError
from .device import DeviceLost, synchronize
from .finding import Result
from .forward import Forward
from .judges import (
    again,
    autograd,
    batch,
    bounds,
    doors,
    doubt,
    huge,
    leaks,
    second,
    shared,
    stream,
    threads,
    values,
)
from .operator import Operator
from .plan import Planner
from .plan_huge import plan_huge

Phase = Callable[[str], None]
MACROS = ("-D", "-U", "-I")  # flags that kernels are compiled with as well


class NotLoaded(Exception):
    """The target cannot be checked, and why."""


class Loaded:
    """target: {"path", "names", "reference", "device", "watched"}; path None: the operators that come
    with Wick."""

    def __init__(self, target: dict[str, Any], phase: Phase) -> None:
        self.target, self.phase = target, phase
        self.device = torch.device(target["device"])
        if self.device.type != "cpu" and not torch.cuda.is_available():
            raise NotLoaded("torch sees no GPU (torch.cuda.is_available())")
        torch.set_num_threads(1)  # most cases are small, and the other CPUs have work as well
        self.operators = {op.name: op for op in self._load()}
        self.subjects: dict[str, Forward | Backward] = {}
        self.problems: dict[str, str] = {}
        for name in [n for n in self.operators if f"{n}_forward" in self.operators]:
            del self.operators[name]  # a second name of the same operator
        backwards = {op.gradient.backward for op in self.operators.values() if op.gradient}
        for op in self.operators.values():
            if op.name not in backwards and self._runs_here(op):
                self._add(op)

    def _load(self) -> list[Operator]:
        path, watched = self.target["path"], self.target.get("watched")
        if path is None and not watched:
            rows = [(ns, name) for ns, name, _ in _wick.operators() if ns == "wick"]
            return [Operator(ns, name) for ns, name in rows]
        try:
            found = [self._load_file(p) for p in (shipped_sources() if path is None else [path])]
        except (wick.BuildError, RuntimeError, OSError) as error:
            raise NotLoaded(str(error)) from error
        return [
            Operator(getattr(loaded, name).__self__.namespace, name)
            for loaded in found
            for name in loaded.names
        ]

    def _load_file(self, path: str) -> wick.Loaded:
        flags = self.target.get("flags", ())
        both = [f for f in flags if f.startswith(MACROS)]
        if self.target.get("watched") and self.device.type == "cpu":
            return wick.load(path, flags=[*flags, *_wick.watch()], with_cuda=False)
        if self.target.get("watched"):  # kernels whose warps are out of step (<wick/device.h>)
            return wick.load(path, flags=flags, extra_cuda_cflags=[*both, "-DWICK_SKEW"])
        some = path.endswith(".so") or self.target.get("types")  # the others when called
        return wick.load(
            path, flags=flags, extra_cuda_cflags=both, **({} if some else {"types": "all"})
        )

    def _runs_here(self, op: Operator) -> bool:
        """Whether it has a version for the device: one that has none says so when it is called."""
        if self.device.type == "cpu":
            return True
        case = next(Planner(op, 0).tiny(1))
        try:
            outcome = Forward(op, None, self.phase, self.device).prepare(case).run()
        except DeviceLost:
            return True  # it ran, and so badly that the first case will tell
        return "has only a CPU version" not in outcome.message

    def _add(self, op: Operator) -> None:
        reference = None
        path = self.target["path"]
        try:
            reference = references.find(op, path, self.target.get("reference"))
            if reference is not None:
                reference.check(op)
                op.learn_words(reference.words)
        except references.ReferenceError as error:
            reference = None
            self.problems[op.name] = str(error)
        forward = Forward(op, reference, self.phase, self.device)
        self.subjects[op.name] = forward
        if op.gradient is not None:
            backward = Backward(forward)
            self.subjects[backward.name] = backward

    # ---- describing ----

    def describe(self, request: dict[str, Any]) -> dict[str, Any]:
        """What there is to judge: for each operator, (judge, subject, cases)."""
        found = []
        for name, subject in self.subjects.items():
            forward = subject.forward
            if request["names"] and not {name, forward.name} & set(request["names"]):
                continue
            kinds = set(itertools.chain(*forward.operator.variables.values()))
            if kinds and request["types"] and not kinds & set(request["types"]):
                continue
            reference = forward.reference
            found.append(
                {
                    "name": name,
                    "forward": forward.name,
                    "signature": subject.operator.signature,
                    "file": forward.operator.file,
                    "reference": None if reference is None else reference.path,
                    "problem": self.problems.get(forward.name, ""),
                    "types": subject.operator.variables,
                    "tasks": [
                        {"judge": judge, "cases": [c.pack() for c in cases]}
                        for judge, cases in self._tasks(subject, request)
                    ],
                }
            )
        cuda = self.device.type == "cpu" and torch.cuda.is_available()
        return {"operators": found, "names": list(self.subjects), "cuda": cuda}

    def _tasks(
        self, subject: Forward | Backward, request: dict[str, Any]
    ) -> Iterator[tuple[str, list[Case]]]:
        if request.get("case"):
            yield from self._given(subject, request)
            return
        only = set(request["only"])
        tasks = self._all_tasks(subject, request["seed"], tuple(request["types"]), request["depth"])
        for judge, needs, cases in tasks:
            if only & needs:
                yield judge, list(cases)

    def _given(
        self, subject: Forward | Backward, request: dict[str, Any]
    ) -> Iterator[tuple[str, list[Case]]]:
        """The one case of --case."""
        head = request["case"].split()[0]
        forward = subject.forward
        if head not in (forward.name, subject.name):
            return
        tasks = [(judge, needs) for judge, needs, _ in self._all_tasks(subject, 0, (), "default")]
        asked = {judge: 0 for judge, needs in tasks if set(request["only"]) & needs}
        for judge in asked:
            if head == subject.name or judge not in ("values", "huge"):
                operator = subject.operator if judge == "huge" else forward.operator
                try:
                    case = operator.read_case(request["case"])
                except CaseError as error:
                    raise NotLoaded(f"--case: {error}") from error
                yield judge, [case.but(op=operator.name)]

    def _all_tasks(
        self, subject: Forward | Backward, seed: int, types: tuple[str, ...], depth: str
    ) -> Iterator[tuple[str, set[str], Iterator[Case]]]:
        """(judge, the names by which it is asked for, cases)."""
        backward = isinstance(subject, Backward)
        forward = subject.forward
        known = (forward.taken, forward.bounded)
        plan = Planner(forward.operator, seed, types, *known, own=subject.operator)
        thin = {"quick": 6, "full": 1}.get(depth, 3 if backward else 1)
        tag = "gradient" if backward else "forward"
        needs = {tag, "memory"}
        own = subject.operator
        yield "values", needs, plan.values()
        yield "values", needs, plan.layouts(own)
        if not backward:
            yield "values", needs, plan.aliases()
        yield "values", needs, plan.choices(forward.large_ints)
        yield "values", needs, plan.absences(own)
        yield "values", needs, plan.together(depth != "quick")
        yield "values", needs, plan.sizes(thin, depth != "quick")
        yield "values", needs, plan.drawn(4 if backward else 8, own)
        if depth != "quick":
            yield "values", needs, plan.large()
            if not backward or depth == "full":
                yield "values", {tag}, plan.streaming()
                yield "values", {tag}, plan.counted()
        if not backward and forward.operator.gradient is not None:
            yield "autograd", {"gradient"}, plan.tiny(4, "f64")
            yield "autograd", {"gradient"}, plan.tiny(2)
            if forward.reference is None:  # nobody else has anything to say of the gradient
                yield "autograd", {"gradient"}, plan.little("f64")
            if autograd.has_second_gradient(forward.operator):
                yield "second", {"gradient"}, plan.few((7, 130, 1030), plain=True)
        here = self.device.type == "cpu"
        few = functools.partial(plan.few, plain=not here)
        yield "again", {"repeat"}, few((3, 257, 5000))
        yield "neighbours", {"repeat"}, few((257,), types=1)
        yield "fresh", {"repeat"}, plan.pairs()
        quick = depth == "quick"
        large = 9001 if quick else 70_001
        if here:
            if self._can_be_watched:
                yield "shared", {"threads"}, few((2000,), types=1 if quick else None)
                yield "shared", {"threads"}, few((large, large // 2 + 9, 33), types=1)
                if not quick:  # some loops are cut for so many alone
                    yield "shared", {"threads"}, itertools.islice(few((400_009,), types=1), 1)
            yield "threads", {"threads"}, few((33, 2000, large))
            if not quick:
                yield "threads", {"threads"}, few((170_003,), types=1)
            yield "leaks", {"leak"}, few((0, 7, 700) if quick else (0, 7, 700, 70_000))
            yield "refused", {"leak"}, few((1, 5, 700))
        else:
            if self._can_be_watched:
                yield "shared", {"threads"}, few((257, 3000), types=1)
                yield "shared", {"threads"}, plan.looping()
            yield "threads", {"threads"}, few((257,), types=1)
            yield "leaks", {"leak"}, few((0, 7, 700))
            yield "stream", {"stream"}, few((33, 70_001))
        yield "leaks", {"leak"}, plan.ones()
        if not backward:
            yield "refuse", {"refuse"}, plan.tiny(1)
            if here and (forward.pointers or forward.offsets or forward.lengths):
                yield "bounds", {"refuse"}, plan.tiny(3)
            yield "opcheck", {"opcheck"}, plan.tiny(1, usual=True)
            if here and own.batch_dims:
                yield "batch", {"opcheck"}, itertools.islice(plan.tiny(1, usual=True), 2)
        if depth != "quick":
            cases = plan_huge(own, not here, unsigned=here and not backward, asked=types)
            yield "huge", {"huge"}, iter(cases)

    @functools.cached_property
    def _can_be_watched(self) -> bool:
        """There is a source that can be built once more."""
        path = self.target["path"]
        return bool(shipped_sources()) if path is None else not path.endswith(".so")

    # ---- judging ----

    def judge(self, request: dict[str, Any]) -> dict[str, Any]:
        subject = self.subjects[request["subject"]]
        case = Case.unpack(request["case"])
        start = time.process_time()
        guarded.left.clear()
        guarded.seconds.clear()
        try:
            result = self._judge(request["judge"], subject, case, set(request["only"]))
            synchronize(
                self.device
            )  # what failed there is this case's, whoever took it for a refusal
            doubt.leave_doubtful(subject.forward, case, result)
        except guarded.TooSlow as why:
            result = Result(skipped=str(why))
        for line in dict.fromkeys(guarded.left):  # told at once: the next call finds it so
            result.add("leak", f"state-{line}", line, "put back what it was before the call ends")
        took = {"seconds": time.process_time() - start, "call": max(guarded.seconds, default=0.0)}
        return {**result.pack(), **took}

    def _judge(self, judge: str, subject: Forward | Backward, case: Case, only: set[str]) -> Result:
        if judge == "values":
            return values.judge_values(subject, case, only)
        if judge == "again":
            return again.judge_again(subject, case, self._others(subject, case))
        if judge == "neighbours":
            return again.judge_neighbours(subject, case)
        if judge == "fresh":
            return again.judge_digest(subject, case)
        if judge == "threads":
            return threads.judge_threads(subject, case, self._can_be_watched)
        if judge == "shared":
            return shared.judge_shared(subject, case)
        if judge == "leaks":
            return leaks.judge_leaks(subject, case)
        if judge == "refused":
            return leaks.judge_refused_leaks(subject, case)
        if judge == "huge":
            return huge.judge_huge(subject, case)
        if judge == "stream":
            return stream.judge_stream(subject, case)
        assert isinstance(subject, Forward)
        if judge == "autograd":
            return autograd.judge_autograd(subject, case)
        if judge == "refuse":
            return doors.judge_refusals(subject, case)
        if judge == "bounds":
            return bounds.judge_bounds(subject, case)
        if judge == "batch":
            return batch.judge_batch(subject, case)
        if judge == "second":
            return second.judge_second(subject, case)
        assert judge == "opcheck", judge
        return doors.judge_opcheck(subject, case)

    def _others(self, subject: Forward | Backward, case: Case) -> list[tuple[Any, Case]]:
        """Other calls: other values and sizes, other types, the other operators of the file."""
        plan = Planner(self.operators[case.op], case.seed + 1)
        cases = [case.but(seed=case.seed + 1), *plan.tiny(1), *plan.few((40, 3000))]
        return [(s, c) for s in self._family(subject) for c in cases]

    def _family(self, subject: Forward | Backward) -> list[Forward | Backward]:
        forward = subject.forward
        kin = [
            s for s in self.subjects.values() if isinstance(s, Backward) and s.forward is forward
        ]
        return [forward, *kin]


def shipped_sources() -> list[str]:
    """Of the operators that come with Wick; [] where it was not installed as a whole."""
    return sources_in(SOURCES) if os.path.isdir(SOURCES) else []
