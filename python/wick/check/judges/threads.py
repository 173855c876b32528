"""threads: the same result however loops are cut, in whatever order their pieces run, and whoever
else calls the operator meanwhile."""

from __future__ import annotations

import contextlib
import threading
from typing import Any

import torch

from .. import guarded
from ..call import Call, Unfit, answered
from ..case import Case
from ..device import synchronize
from ..finding import Result, skip
from ..guarded import AT_ONCE, BACKWARDS, FORWARDS, SHUFFLED, Manner
from ..job import CUT, LONGER
from ..oracle import Unanswered
from .again import neighbours
from .values import Subject, number, place, results_of

COUNTS = (2, 3, 5, 16)
AT_ONCE_COUNTS = (2, 3)  # about as many as there are CPUs: more would wait, not meet
ROUNDS, FEWEST = 300, 4  # of callers at once
# Calls with pieces at once, the most, and how often they are to meet on two CPUs: what goes wrong
# seldom needs many. Few where the same operator is watched as well (shared.py).
ALONE, BESIDES = (20_000, 40), (200, 8)
CALLERS = 4
MOST_CUT = 5_000_000  # elements of a case that was made longer
SHORT_S = 0.5  # seconds of a call that may be made twice as long, which some feel eightfold
ROUNDS_OF_KERNELS = 200
SHARED = "something static, or global, is written"


def judge_threads(subject: Subject, case: Case, watched: bool) -> Result:
    result = Result()
    try:
        call = answered(subject, case)
        alone = call.run()
    except (Unfit, Unanswered) as why:
        return skip(why)
    if alone.refused:
        return Result(refused=alone.message)
    result.judged.append("threads")
    if call.device.type == "cuda":
        _judge_callers_of_kernels(_callers(subject, case, call, alone), result)
        return result
    rounds = _rounds(call)
    if longer := long_enough(subject, case, alone.loops):
        return judge_threads(subject, longer, watched)
    if alone.loops[1] > 1:
        _judge_cuts(call, alone, result, *(BESIDES if watched else ALONE))
    if not result.findings:
        _judge_callers(subject, case, call, rounds, result)
    return result


def long_enough(subject: Subject, case: Case, loops: tuple[int, int]) -> Case | None:
    """A large case as many times as long as it has to be for its loop to be cut; None where it is cut
    already, or whatever its length: a grain may be larger than all that is tried elsewhere."""
    if loops[1] > 1 or case.numel < CUT:
        return None
    name = max(case.dims, key=case.length)
    if name not in subject.times_for_cuts:
        subject.times_for_cuts[name] = _times_for_a_cut(subject, case, name)
    longer = _times(case, name, subject.times_for_cuts[name])
    return longer if case.numel < longer.numel <= MOST_CUT else None


def _times_for_a_cut(subject: Subject, case: Case, name: str) -> int:
    """0 where none does, or where calls take so long that the next one may take for ever."""
    for times in LONGER:
        if guarded.seconds[-1] > SHORT_S:
            return 0
        if _is_cut(subject, _times(case, name, times)):
            return times
    return 0


def _times(case: Case, name: str, times: int) -> Case:
    size = case.length(name) * times
    return case.with_dim(name, size if isinstance(case.dims[name], int) else (size,))


def _is_cut(subject: Subject, case: Case) -> bool:
    try:
        return case.numel <= MOST_CUT and subject.prepare(case).run().loops[1] > 1
    except (Unfit, Unanswered):
        return False


def _judge_cuts(
    call: Call, alone: guarded.Outcome, result: Result, repeats: int, meetings: int
) -> None:
    for threads in COUNTS:
        for order in (FORWARDS, BACKWARDS, SHUFFLED):
            cut = call.run(Manner(threads=threads, order=order, seed=threads))
            if cut.refused or not guarded.alike(alone.results, cut.results):
                _report(result, threads, order, _difference(call, alone, cut))
                return
    for threads in AT_ONCE_COUNTS:
        times = guarded.affordable(repeats)
        manner = Manner(threads=threads, order=AT_ONCE, repeats=times, meetings=meetings)
        at_once = call.run(manner)
        if at_once.differs >= 0 or not guarded.alike(alone.results, at_once.results):
            _report(result, threads, AT_ONCE, _difference(call, alone, at_once))
            return


def _rounds(call: Call) -> int:
    """Of callers at once, after a call alone: as many as take about as long, whatever the size."""
    elements = sum(v.numel() for v in call.values if isinstance(v, torch.Tensor))
    in_time = guarded.affordable(ROUNDS * CALLERS) // CALLERS
    return max(FEWEST, min(ROUNDS, 10_000_000 // max(1, elements), in_time))


def _difference(call: Call, alone: guarded.Outcome, cut: guarded.Outcome) -> list[str]:
    """The first element that is another one."""
    if cut.refused:
        return [f"it is refused: {cut.message}"]
    for name, a, b in zip(call.outcome_names, alone.results, cut.results):
        if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
            apart = ((a != b) & ~(a.isnan() & b.isnan())).nonzero()
            if len(apart):
                index = tuple(int(i) for i in apart[0])
                there, here = b[index].item(), a[index].item()
                words = f"{place(name, index)} is {number(there)}, else {number(here)}"
                by = f" (off by {abs(there - here):.2g})" if a.is_floating_point() else ""
                return [f"{words}{by}; {len(apart)} of {a.numel()} elements differ"]
    return []


def _report(result: Result, threads: int, order: int, difference: list[str]) -> None:
    if order == FORWARDS:
        kind, title = "count", f"with {threads} threads the result is another than with one"
    elif order == AT_ONCE:
        kind, title = "race", f"the result changes when {threads} threads run at once"
    else:
        kind = "order"
        title = f"the result depends on which of {threads} pieces of a parallel loop runs first"
    hint = "pieces of wick_parallel must not share what they write, nor round by where they are cut"
    result.add("threads", kind, title, *difference, hint)


def _judge_callers(subject: Subject, case: Case, call: Call, rounds: int, result: Result) -> None:
    """Several threads call it, each with other values, if it takes them."""
    calls = [call.values]
    for k in range(1, CALLERS):
        with contextlib.suppress(Unanswered):
            other = answered(subject, case.but(seed=case.seed + 1000 * k))
            if not other.run().refused:
                calls.append(other.values)
    if len(calls) == 1:
        calls.append(call.values)
    call.phase("operator")
    differs = guarded.together(call.operator, calls, call.wanted, Manner(), rounds)
    call.phase("judge")
    if differs >= 0:
        _report_callers(result, len(calls), SHARED)


def _report_callers(result: Result, callers: int, *details: str) -> None:
    title = f"the result changes when {callers} threads call the operator at once"
    result.add("threads", "callers", title, *details)


# ---- on a GPU ----

Caller = tuple[Call, list[Any]]  # and its results when nobody else calls


def _callers(subject: Subject, case: Case, call: Call, alone: guarded.Outcome) -> list[Caller]:
    """Calls with other values, and other sizes."""
    found = [(call, alone.results)]
    for dims in (case.dims, *neighbours(case.dims)):
        with contextlib.suppress(Unfit, Unanswered):
            other = answered(subject, case.but(dims=dims, seed=case.seed + 1000 * len(found)))
            outcome = other.run()
            found += [] if outcome.refused else [(other, outcome.results)]
        if len(found) == CALLERS:
            break
    return found


def _judge_callers_of_kernels(callers: list[Caller], result: Result) -> None:
    """A thread each, on a stream of its own."""
    call = callers[0][0]
    start = threading.Barrier(len(callers))
    given: list[list[Any]] = [[] for _ in callers]  # values and what they became, or an error

    def work(k: int, values: list[list[Any]]) -> None:
        with torch.cuda.stream(torch.cuda.Stream(call.device)):
            start.wait()
            for each in values:
                try:
                    given[k].append((each, callers[k][0].by_door(each)))
                except RuntimeError as error:
                    given[k].append((each, error))

    threads = [
        threading.Thread(target=work, args=(k, _for_each_round(each)))
        for k, (each, _) in enumerate(callers)
    ]
    synchronize(call.device)
    call.phase("operator")
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    synchronize(call.device)
    call.phase("judge")
    for (_, wanted), rounds in zip(callers, given):
        for values, got in rounds:
            if isinstance(got, RuntimeError):
                _report_callers(result, len(callers), f"it is refused: {got}", SHARED)
                return
            if not guarded.alike(results_of(call.operator, got, values), wanted):
                elsewhere = "or work goes to another stream than the current one"
                _report_callers(result, len(callers), f"{SHARED}, {elsewhere}")
                return


def _for_each_round(call: Call) -> list[list[Any]]:
    """The values where the kernels are, and what is written in place once for every round."""
    there = call.on_device()
    written = [p.in_place for p in call.operator.inputs]
    return [
        [v.clone() if w else v for v, w in zip(there, written)] for _ in range(ROUNDS_OF_KERNELS)
    ]
