"""rows -- one row: one operator, one call, one state of the caches, and everybody's times"""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import torch

from .._signature import DTYPES
from . import contenders, inputs, timing
from .contenders import Field
from .floor import Roof
from .inputs import Call
from .shapes import Case, dims_for
from .target import Operator

IN_PLACE_RUNS = 50  # in one sample, before the inputs are put back


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
    differs: float | None = None  # relative to the reference, where that is much
    verdict: str = ""
    why: str = ""

    @property
    def moved_bytes(self) -> int:
        return self.read_bytes + self.written_bytes

    @property
    def best_s(self) -> float:
        """The operator itself: into given memory where that is faster."""
        return min(self.times[name].median_s for name in ("wick", "out=") if name in self.times)

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
        values = {name: record[name] for name in cls.__dataclass_fields__}
        case = record["case"]
        dims = {n: tuple(v) if isinstance(v, list) else v for n, v in case["dims"].items()}
        values["case"] = Case(dims, case["types"], case["scalars"], tuple(case["absent"]))
        values["times"] = {name: Times(**t) for name, t in record["times"].items()}
        return cls(**values)

    def key(self) -> tuple[Any, ...]:
        """What makes rows of two runs the same."""
        types = tuple(sorted(self.case.types.items()))
        return (self.operator, self.device, self.threads, types, self.case.words(), self.cache)


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


def _difference(field_: Field, ours: Any) -> float | None:
    """How far our first result is from the reference's, if that is more than types explain."""
    if field_.reference is None:
        return None
    first = [r[0] if isinstance(r, (tuple, list)) and r else r for r in (ours, field_.reference())]
    if not all(isinstance(r, torch.Tensor) for r in first) or first[0].shape != first[1].shape:
        return None
    got, wanted = (r.detach().double() for r in first)
    scale = wanted.norm().item()
    error = (got - wanted).norm().item() / scale if scale > 0 else (got - wanted).norm().item()
    allowed = 0.05 if first[0].element_size() < 4 else 1e-3
    return error if not error <= allowed else None  # a NaN differs


def _most_runs(field_: Field) -> int:
    """In one sample."""
    return IN_PLACE_RUNS if field_.reset else timing.ENOUGH_RUNS


def _cores(field_: Field, device: Any, sample_s: float) -> float:
    """CPU time over time: how many cores a call of ours keeps busy."""
    ours = field_.contenders[0]
    run = device.warm(ours.stmt, ours.names, field_.reset)
    with device.quiet():
        n = timing.runs_for(run, 4 * sample_s, _most_runs(field_))
        time.sleep(0.005)  # threads of the call before may still be waiting for work, busily
        cpu, began = time.process_time(), time.perf_counter()
        run(n)
        return (time.process_time() - cpu) / (time.perf_counter() - began)


def _sample(
    field_: Field, device: Any, cache: str, effort: Effort
) -> tuple[dict[str, Times], timing.Run]:
    make = device.warm if cache == "warm" else device.cold
    runs = {c.name: make(c.stmt, c.names, field_.reset) for c in field_.contenders}
    most = 1 if cache == "cold" else _most_runs(field_)
    took = sum(max(run(1), effort.sample_s) for run in runs.values())
    n = max(effort.least, min(effort.rounds, int(effort.row_s / took)))
    samples = timing.rounds(runs, n_rounds=n, sample_s=effort.sample_s, most=most)
    return {name: Times.of(s) for name, s in samples.items()}, runs["wick"]


def smallest_call(operator: Operator, case: Case, device: Any, seed: int) -> dict[str, float]:
    """Seconds of a call with next to nothing in it, by the state of the caches; {} where the operator
    does not take such a call."""
    dims = dims_for(operator.namespace, operator.name, operator.parameters, case.types, 1)
    if dims is None:
        return {}
    tiny = Case(dims, case.types, case.scalars, case.absent)
    found = {}
    try:
        call = make_call(operator, tiny, device, seed)
        only = contenders.field(operator, tiny, call, device, ("wick",), seed)
        with device.quiet():
            for cache in ("warm", "cold"):
                make = device.warm if cache == "warm" else device.cold
                runs = {c.name: make(c.stmt, c.names, only.reset) for c in only.contenders}
                most = 1 if cache == "cold" else _most_runs(only)
                samples = timing.rounds(runs, n_rounds=9, sample_s=5e-4, most=most)
                found[cache] = min(statistics.median(s) for s in samples.values())
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
    if field_.reset:
        field_.reset()
    differs = _difference(field_, field_.contenders[0].call())
    flops = operator.flops(case)
    found = []
    cores = _cores(field_, device, effort.sample_s) if device.type == "cpu" else None
    for cache in caches:
        floor, limit = roof.floor(
            call.read + call.written, call.touched, cache, flops, _flop_type(case)
        )
        with device.quiet():
            times, run = _sample(field_, device, cache, effort)
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
                differs=differs,
            )
        )
    return found
