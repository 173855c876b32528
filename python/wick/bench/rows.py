"""rows -- one row: one operator, one call, one state of the caches, and everybody's times"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import torch

from .._signature import DTYPES
from . import contenders, inputs, timing, words
from .contenders import Contender, Field
from .floor import Roof
from .inputs import Call
from .shapes import FORMULAS, Case, dims_for
from .target import Operator

IN_PLACE_RUNS = 50  # in one sample, before the inputs are put back
WILD = 2.0  # how far apart the quartiles are, from which on a median says nothing
ITSELF = ("wick", "out=")  # the operator, called directly
# Of the smallest call, by device: who is there at once. A kernel of torch's that does not take such
# sizes would take the GPU along.
COMPANY = {"cpu": ("wick", "eager", "dispatcher"), "cuda": ("wick",)}
CORES_S = 0.03  # in which cores are counted: the system counts other threads' time by ticks of 4 ms
SETTLE_S, SETTLE_TRIES = 5e-3, 40
RAN = 0.95  # CPU time over time, below which something else ran instead
_AT_A_TIME = 1 << 22  # elements that are compared, since each costs three doubles


@dataclass
class Times:
    """Seconds of one contender: the samples and their quartiles."""

    median_s: float
    first_s: float
    third_s: float
    samples_s: list[float]

    @classmethod
    def of(cls, samples: list[float]) -> Times:
        first, median, third = timing.quartiles(samples)
        return cls(median, first, third, samples)

    @property
    def spread(self) -> float:
        """Half of the middle half's width, as a share of the median."""
        return (self.third_s - self.first_s) / 2 / self.median_s if self.median_s else 0.0

    @property
    def scatter(self) -> float:
        """How many times the lower quartile the upper one is."""
        return self.third_s / self.first_s if self.first_s else 1.0

    @property
    def is_wild(self) -> bool:
        return self.scatter > WILD


@dataclass
class Row:
    operator: str  # with its namespace: wick.relu
    signature: str
    device: str
    threads: int
    case: Case
    cache: str  # warm, cold
    read_bytes: int
    written_bytes: int
    flops: float | None
    floor_s: float
    limit: str  # what the floor is made of: bytes, flops
    call_s: float  # of the smallest call: what calling costs by itself
    times: dict[str, Times]
    missing: dict[str, str] = field(default_factory=dict)
    cores: float | None = None  # how many were busy, on the CPU
    host_s: float | None = None  # how long a call keeps this thread, on a GPU
    unlike: dict[str, str] = field(default_factory=dict)  # whose result is not ours, and how
    verdict: str = ""
    why: str = ""
    declared_bytes: float | None = None  # what its author says that it moves
    # By whom, where several processes have measured it: the medians of each.
    medians: dict[str, list[float]] = field(default_factory=dict)

    @property
    def moved_bytes(self) -> int:
        """What the floor is made of."""
        if self.declared_bytes is not None:
            return round(self.declared_bytes)
        return self.read_bytes + self.written_bytes

    @property
    def best(self) -> Times:
        """Of the operator itself: into given memory where that is faster."""
        own = [self.times[name] for name in ITSELF if name in self.times]
        return min(own, key=lambda t: t.median_s)

    @property
    def best_s(self) -> float:
        return self.best.median_s

    @property
    def waited(self) -> float:
        """How many times as long as by itself a call may have taken, since it ran on a share of the CPU: 1
        where it had one. A call keeps one thread busy at least, unless it is not let."""
        if self.cores is None or self.cores >= RAN:
            return 1.0
        return self.threads / self.cores if self.cores else math.inf

    def take_better(self, other: Row) -> None:
        """Of the same call, measured by another process: all of the times in which ours are the lesser,
        since they belong to the same rounds."""
        for name in self.times.keys() & other.times.keys():
            known = self.medians.setdefault(name, [self.times[name].median_s])
            known.append(other.times[name].median_s)
        mine, theirs = (
            sum(row.times[name].median_s for name in contenders.OURS if name in row.times)
            for row in (self, other)
        )
        if theirs < mine:
            self.times, self.host_s, self.cores = other.times, other.host_s, other.cores

    def apart(self, name: str) -> float:
        """How many times as long as in one process it took in another, as far as several were asked."""
        known = self.medians.get(name, [1.0])
        return max(known) / min(known)

    def is_wild(self, name: str) -> bool:
        """Whether a ratio to its time would say nothing."""
        return self.times["wick"].is_wild or self.times[name].is_wild

    @property
    def share(self) -> float | None:
        """Of the floor: 1 is the limit."""
        return self.floor_s / self.best_s if self.floor_s > 0 else None

    @property
    def types(self) -> str:
        return " ".join(self.case.types.values()) or "-"

    def record(self) -> dict[str, Any]:
        """For JSON; from_record reads it."""
        return {
            **asdict(self),
            "times": {name: asdict(t) for name, t in self.times.items()},
            "share": self.share,
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Row:
        values = {name: record[name] for name in cls.__dataclass_fields__ if name in record}
        case = record["case"]
        dims = {n: tuple(v) if isinstance(v, list) else v for n, v in case["dims"].items()}
        values["case"] = Case(dims, case["types"], case["scalars"], tuple(case["absent"]))
        values["times"] = {name: Times(**t) for name, t in record["times"].items()}
        return cls(**values)

    def key(self) -> tuple[Any, ...]:
        """What makes rows of two runs the same."""
        types = tuple(sorted(self.case.types.items()))
        threads = self.threads if self.device == "cpu" else 0  # of a GPU's they say nothing
        return (self.operator, self.device, threads, types, self.case.words(), self.cache)


@dataclass(frozen=True)
class Effort:
    """How much is spent on a row."""

    rounds: int = 21
    sample_s: float = 2e-3
    row_s: float = 4.0  # of a row's timing, before rounds are left out
    least: int = 5


# ---- one case ----


def _flop_type(case: Case) -> torch.dtype:
    words = list(case.types.values())
    return DTYPES[words[0]] if words else torch.float32


def _results(returned: Any) -> list[Any]:
    return list(returned) if isinstance(returned, (tuple, list)) else [returned]


def _shape(result: Any) -> str:
    return str(list(result.shape)) if isinstance(result, torch.Tensor) else str(result)[:20]


def _error(got: torch.Tensor, wanted: torch.Tensor) -> float:
    """The norm of the difference, relative to what is wanted; infinite where one is NaN or infinite and
    the other is not the same."""
    squares = [0.0, 0.0]
    parts = (t.detach().reshape(-1).split(_AT_A_TIME) for t in (got, wanted))
    for a, b in zip(*parts):
        a, b = a.double(), b.double()
        same = (a == b) | (a.isnan() & b.isnan())
        off = torch.where(same, 0.0, a - b)
        if not off.isfinite().all():
            return math.inf
        squares[0] += off.square().sum().item()
        squares[1] += torch.where(b.isfinite(), b, 0.0).square().sum().item()
    return (squares[0] / (squares[1] or 1.0)) ** 0.5


def difference(ours: Any, theirs: Any) -> str:
    """In words, where a contender does not return what the operator does: as many results, of the same
    shapes, with values as near as the types explain. One of several that is None is not judged."""
    got, wanted = _results(ours), _results(theirs)
    if len(got) != len(wanted):
        return f"returns {len(wanted)} result{'s' * (len(wanted) != 1)}, the operator {len(got)}"
    for i, (a, b) in enumerate(zip(got, wanted), 1):
        if (a is None or b is None) and len(wanted) > 1:
            continue
        what = f"result {i}" if len(got) > 1 else "the result"
        if _shape(a) != _shape(b):
            return f"{what} is {_shape(b)}, the operator's {_shape(a)}"
        if not isinstance(a, torch.Tensor):
            continue
        error = _error(a, b)
        if error == math.inf:
            return f"{what} is NaN or infinite elsewhere than the operator's"
        if error > (0.05 if a.element_size() < 4 else 1e-3):
            return f"{what} differs by {words.percent(error)}"
    return ""


def _outcome(field_: Field, contender: Contender) -> list[Any]:
    """Results of a call, and then what it writes in place; a reference may return that in front
    instead."""
    if field_.reset:
        field_.reset()
    returned = contender.call()
    if not field_.written:
        return _results(returned)
    results = [] if returned is None else _results(returned)
    n = len(field_.written)
    if len(results) == field_.n_outputs + n:
        return results[n:] + results[:n]
    return (results if field_.n_outputs else []) + field_.written


def _unlike(field_: Field) -> dict[str, str]:
    """Whose results are not ours, and how."""
    others = [c for c in field_.contenders if c.name in field_.comparable]
    if not others:
        return {}
    ours = _outcome(field_, field_.contenders[0])
    if field_.written:  # theirs may be written to the same place
        ours = [r.clone() if isinstance(r, torch.Tensor) else r for r in ours]
    found = {c.name: difference(ours, _outcome(field_, c)) for c in others}
    return {name: how for name, how in found.items() if how}


def _most_runs(field_: Field) -> int:
    """In one sample."""
    return IN_PLACE_RUNS if field_.reset else timing.ENOUGH_RUNS


def _settle() -> None:
    """Threads of calls before wait for work busily for a while, and their time would be counted."""
    for _ in range(SETTLE_TRIES):
        cpu = time.process_time()
        time.sleep(SETTLE_S)
        if time.process_time() - cpu < 0.1 * SETTLE_S:
            return


def _cores(field_: Field, sample_s: float, times: Mapping[str, Times]) -> float:
    """CPU time over time: how many cores the faster of our calls keeps busy, since that is the one that
    is judged. Tried again where something else ran meanwhile."""
    ours = [c for c in field_.contenders if c.name in ITSELF]
    best = min(ours, key=lambda c: times[c.name].median_s)
    timer = timing.timer(best.stmt, best.names)
    wanted = max(4 * sample_s, CORES_S)
    n = max(1, min(_most_runs(field_), round(wanted / times[best.name].median_s)))
    busy = 0.0
    for _ in range(3):
        if field_.reset:
            field_.reset()
        _settle()
        cpu, began = time.process_time(), time.perf_counter()
        timer.timeit(n)
        busy = max(busy, (time.process_time() - cpu) / (time.perf_counter() - began))
        if busy >= RAN:
            break
    return busy


def _sample(
    field_: Field, device: Any, cache: str, effort: Effort
) -> tuple[dict[str, Times], timing.Run]:
    make = device.warm if cache == "warm" else device.cold
    runs = {c.name: make(c.stmt, c.names, field_.reset) for c in field_.contenders}
    most = 1 if cache == "cold" else _most_runs(field_)
    tried = {name: run(1) for name, run in runs.items()}
    took = sum(
        max(seconds * (1 + timing.uncounted(1, seconds)), effort.sample_s)
        for seconds in tried.values()
    )
    n = max(effort.least, min(effort.rounds, int(effort.row_s / took)))
    samples = timing.rounds(runs, n_rounds=n, sample_s=effort.sample_s, most=most, tried=tried)
    return {name: Times.of(s) for name, s in samples.items()}, runs["wick"]


def smallest_call(operator: Operator, case: Case, device: Any, seed: int) -> dict[str, float]:
    """Seconds of a call with next to nothing in it, by the state of the caches; {} where the operator
    does not take such a call. Others are called in between, as in a row: what is cold is code as well."""
    dims = dims_for(operator.namespace, operator.name, operator.parameters, case.types, 1)
    if dims is None:
        return {}
    tiny = Case(dims, case.types, case.scalars, case.absent)
    found = {}
    try:
        call = make_call(operator, tiny, device, seed)
        field_ = contenders.field(operator, tiny, call, device, COMPANY[device.type], seed)
        with device.quiet():
            for cache in ("warm", "cold"):
                make = device.warm if cache == "warm" else device.cold
                runs = {c.name: make(c.stmt, c.names, field_.reset) for c in field_.contenders}
                most = 1 if cache == "cold" else _most_runs(field_)
                samples = timing.rounds(runs, n_rounds=9, sample_s=5e-4, most=most)
                found[cache] = min(
                    statistics.median(samples[name]) for name in ITSELF if name in samples
                )
    except RuntimeError:
        return {}  # such a call is refused: sizes this small are nothing that it computes
    return found


def make_call(operator: Operator, case: Case, device: Any, seed: int) -> Call:
    """The arguments of a case."""
    return inputs.make(
        operator.namespace,
        operator.name,
        operator.parameters,
        case,
        device.name,
        seed,
        operator.inputs(),
    )


def measure(
    operator: Operator,
    case: Case,
    device: Any,
    roof: Roof,
    caches: tuple[str, ...],
    asked: tuple[str, ...],
    tiny: Mapping[str, float],
    effort: Effort,
    seed: int,
) -> list[Row]:
    """The rows of one call, one per state of the caches. Raises what the operator raises."""
    call = make_call(operator, case, device, seed)
    field_ = contenders.field(operator, case, call, device, asked, seed)
    unlike = _unlike(field_)
    flops, declared = (operator.declared(what, case) for what in FORMULAS)
    moves = call.traffic.declared(declared)
    floors = {cache: roof.floor(moves, cache, flops, _flop_type(case)) for cache in caches}
    cores = None
    with device.quiet():  # once, since to collect garbage takes as long as many a row
        timed = {cache: _sample(field_, device, cache, effort) for cache in caches}
        if device.type == "cpu":
            cores = _cores(field_, effort.sample_s, timed[caches[0]][0])
    found = []
    for cache, (times, run) in timed.items():
        floor, limit = floors[cache]
        found.append(
            Row(
                operator=f"{operator.namespace}.{operator.name}",
                signature=operator.function.__self__.signature,
                device=device.name,
                threads=device.threads,
                case=case,
                cache=cache,
                read_bytes=call.read,
                written_bytes=call.written,
                flops=flops,
                floor_s=floor,
                limit=limit,
                call_s=tiny.get(cache, 0.0),
                times=times,
                missing=field_.missing,
                cores=cores,
                host_s=getattr(run, "host_s", None),
                unlike=unlike,
                declared_bytes=declared,
            )
        )
    return found
