"""compare -- this run against an earlier one: what is slower beyond the noise

The plain call and `out=` are compared each by itself: a slower allocation is a slower plain call.
A time is slower when the middle halves of the two sets of samples do not touch and the medians differ
by more than a few percent, and that in each of three ways: as it was measured; with the earlier times
brought to the speed of today's machine; and beside torch, round by round, which a machine does not
change that is slow for a while. What torch takes for the same calls in both runs has nothing to do
with our code, so the median of its changes is the machine's, of those whose samples lie together in
both runs; without any there is only the copy. A machine that is not the same any more cannot be
calculated away: then only what is slower each way is told.

A row that was disturbed, then or now, is not compared, unless it is far slower than that explains.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .contenders import OURS
from .rows import RAN, Row, Times
from .verdict import faster

COMPARED = ("wick", "out=")
SLOWER, FASTER, SAME, DISTURBED = "slower", "faster", "same", "disturbed"
LEAST_DRIFT, MOST_DRIFT = 0.7, 1.4  # of a machine that is still the same
STEADY = 0.1  # spread, up to which a time may speak for the machine
FAR = 2.0  # how many times as long as a disturbance explains, from which on it is not its doing
TURN_S = 0.05  # that a call may wait for a thread whose core others have; 0.03 were seen


@dataclass
class Change:
    """One time of a row in both runs; `before` is at today's speed."""

    row: Row
    name: str  # whose: wick, out=
    before: Times
    after: Times
    kind: str

    @property
    def ratio(self) -> float:
        return self.after.median_s / self.before.median_s


@dataclass
class Comparison:
    changes: list[Change]
    drift: float  # how much longer the machine takes today
    drift_by: str
    only_before: int
    only_after: int
    elsewhere: str = ""  # words, where the earlier run was on another CPU or GPU
    busy: str = ""  # words, where something else ran in one of the two

    @property
    def is_possible(self) -> bool:
        return LEAST_DRIFT <= self.drift <= MOST_DRIFT

    def of(self, kind: str) -> list[Change]:
        return [c for c in self.changes if c.kind == kind]


def _scaled(t: Times, by: float) -> Times:
    return Times(t.median_s * by, t.first_s * by, t.third_s * by, [s * by for s in t.samples_s])


def _others(before: Row, after: Row) -> list[str]:
    """Who was measured beside our calls both times."""
    return [name for name in after.times if name not in OURS and name in before.times]


def _drift(
    pairs: Sequence[tuple[Row, Row]], before: Mapping[str, Any], after: Mapping[str, Any]
) -> tuple[float, str]:
    times = [(old.times[name], new.times[name]) for old, new in pairs for name in _others(old, new)]
    ratios = [b.median_s / a.median_s for a, b in times if max(a.spread, b.spread) <= STEADY]
    if ratios and before.get("torch") == after.get("torch"):
        return statistics.median(ratios), "torch's times"
    rates = [
        {d["device"]: max(d["copy_bytes_per_s"].values()) for d in about.get("devices", ())}
        for about in (before, after)
    ]
    ratios = [rates[0][d] / rates[1][d] for d in rates[0] if d in rates[1]]
    return (statistics.median(ratios), "the copy") if ratios else (1.0, "nothing")


def _elsewhere(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    models = [
        {d["device"]: str(d.get("model", "")) for d in about.get("devices", ())}
        for about in (before, after)
    ]
    other = [(models[0][d], models[1][d]) for d in models[1] if d in models[0]]
    return next(
        (f"it was measured on another machine: {a}, now {b}" for a, b in other if a != b), ""
    )


def _busy(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    runs = [name for name, about in (("then", before), ("now", after)) if about.get("busy")]
    return f"the machine was busy {' and '.join(runs)}: this may be its doing" if runs else ""


def _kind(before: Times, after: Times) -> str:
    return SLOWER if faster(before, after) else FASTER if faster(after, before) else SAME


def _beside(row: Row, name: str, other: str) -> Times | None:
    """One's time in units of the other's, which was measured in the same rounds."""
    rounds = zip(row.times[name].samples_s, row.times[other].samples_s)
    ratios = [a / b for a, b in rounds if b > 0]
    return Times.of(ratios) if ratios else None


def _on_one_thread(row: Row) -> bool:
    return row.threads == 1 or (row.cores is not None and RAN <= row.cores <= 1 / RAN)


def _is_far(was: Row, row: Row, before: Times, after: Times) -> bool:
    """Whether even the fastest sample took longer than all that disturbs the row now explains. What
    disturbed it then made it slower: that hides a difference and makes none. One thread has a share of
    a core; several also wait for each other, once a call, however short it is by itself."""
    scatters = after.scatter if after.is_wild else 1.0
    waits = row.verdict == DISTURBED and not _on_one_thread(was)
    explained = before.third_s * row.waited * scatters + waits * TURN_S
    return min(after.samples_s) > FAR * explained


def _kind_beside(was: Row, row: Row, name: str) -> str | None:
    """By the one that our call keeps the steadiest distance from; None where there is none."""
    found = ((_beside(was, name, other), _beside(row, name, other)) for other in _others(was, row))
    both = [(max(a.spread, b.spread), _kind(a, b)) for a, b in found if a and b]
    spread, kind = min(both, default=(1.0, None))
    return kind if spread <= STEADY else None


def compare(
    before: tuple[Mapping[str, Any], Sequence[Row]], after: tuple[Mapping[str, Any], Sequence[Row]]
) -> Comparison:
    old = {row.key(): row for row in before[1]}
    new = {row.key(): row for row in after[1]}
    pairs = [(old[key], new[key]) for key in new if key in old]
    drift, drift_by = _drift(pairs, before[0], after[0])
    same_torch = before[0].get("torch") == after[0].get("torch")
    changes = []
    for was, row in pairs:
        for name in COMPARED:
            if name not in was.times or name not in row.times:
                continue
            t0, t1 = _scaled(was.times[name], drift), row.times[name]
            kinds = {_kind(t0, t1), _kind(was.times[name], t1)}
            if same_torch and (beside := _kind_beside(was, row, name)):
                kinds.add(beside)
            if t1.median_s < row.apart(name) * t0.median_s and SLOWER in kinds:
                kinds = {SAME}
            kind = kinds.pop() if len(kinds) == 1 else SAME
            if DISTURBED in (was.verdict, row.verdict):  # that time is not the operator's
                far = kind == SLOWER and all(
                    _is_far(was, row, t, t1) for t in (t0, was.times[name])
                )
                kind = SLOWER if far else DISTURBED
            changes.append(Change(row, name, t0, t1, kind))
    only = (len(old) - len(pairs), len(new) - len(pairs))
    words = [about(before[0], after[0]) for about in (_elsewhere, _busy)]
    return Comparison(changes, drift, drift_by, *only, *words)
