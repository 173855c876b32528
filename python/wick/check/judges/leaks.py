"""leak: a call leaves nothing behind, also one that is refused."""

from __future__ import annotations

import ctypes
import gc
import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from .. import guarded, turns
from ..call import Call, Unfit, answered
from ..case import Case
from ..device import synchronize
from ..finding import UNANSWERED, Result, skip
from ..guarded import Manner
from ..oracle import Unanswered
from .values import Subject, judge_changes

REPEATS, FEWEST = 40, 4
PIECES = 3  # of a parallel loop: each may lose something
# What one call may lose on average before it counts: none of it is one allocation, file or thread.
LOSSES = (
    ("heap", 8, "bytes of memory"),
    ("mapping", 4096, "bytes of mapped memory"),
    ("file", 1, "open file(s)"),
    ("thread", 1, "running thread(s)"),
)


def judge_leaks(subject: Subject, case: Case) -> Result:
    result = Result()
    try:
        call = answered(subject, case)
    except (Unfit, Unanswered) as why:
        return skip(why)
    if case.is_empty and call.oracle is None:
        return Result(skipped=f"{UNANSWERED}unknown whether it takes empty inputs (no reference)")
    if call.device.type != "cpu":
        return _judge_device_leaks(call)
    call.run(Manner(threads=PIECES))
    repeats = guarded.affordable(REPEATS, FEWEST)
    outcome = call.run(Manner(repeats=repeats, threads=PIECES))
    if outcome.refused:
        result.refused = outcome.message
    result.judged.append("leak")
    _report(outcome.leaked, repeats, "a call", result)
    return result


# ---- on a device ----

WARM = 100  # calls before: a kernel's first launch takes memory that stays
# Calls: few when each loses much, many so that 512 bytes, the least, are two megabytes, which the driver
# takes at once.
ROUNDS = (100, 4200)
LONG = 2.0  # seconds of calls, about
LEAST = 256  # bytes of the device per call
ENOUGH = 8 << 20  # bytes to lose where a loss is looked at again
MOST = 6400  # calls in which to lose them
ROOM = 16  # bytes of the heap per call
NOISE = 16384  # bytes of it that Python itself may take in between
# Free memory is the whole device's, and processes that we know nothing of come and go: a loss is believed
# when much of it is seen again after each of these pauses, in seconds.
PAUSES = (0.02, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6)


@dataclass
class Lost:
    """By one call, in bytes and seconds."""

    seconds: float
    allocated: float  # by torch
    driver: float  # of the device, not by torch
    heap: float


def _judge_device_leaks(call: Call) -> Result:
    """Memory of torch's allocator, of the device outside of it, and of the host."""
    result = Result(judged=["leak"])
    values = call.on_device()

    def calls(n: int) -> Lost:
        before = (time.monotonic(), *_device_holdings(call.device))
        call.phase("operator")
        try:
            for _ in range(n):
                call.by_door(values)
            synchronize(call.device)
        finally:
            call.phase("judge")
        after = (time.monotonic(), *_device_holdings(call.device))
        return Lost(*((b - a) / n for a, b in zip(before, after)))

    try:
        most = int(LONG / calls(WARM).seconds)
    except RuntimeError as error:
        return Result(refused=str(error))
    for wanted in ROUNDS:
        n = min(wanted, max(WARM, most))
        lost = calls(n)
        if lost.allocated > 0:
            result.add(
                "leak", "device", f"a call keeps {lost.allocated:.0f} bytes of torch's memory"
            )
            return result
        if lost.driver >= LEAST and _is_lost_again(lost.driver, calls):
            result.add(
                "leak", "driver", f"a call loses {lost.driver:.0f} bytes of the device's memory"
            )
            return result
    if lost.heap >= max(ROOM, NOISE / n):
        result.add("leak", "heap", f"a call loses {lost.heap:.0f} bytes of the host's memory")
    return result


def _is_lost_again(driver: float, calls: Callable[[int], Lost]) -> bool:
    n = max(1, min(MOST, int(ENOUGH / driver)))
    with turns.mine().alone():
        for pause in PAUSES:
            time.sleep(pause)
            if calls(n).driver < driver / 4:
                return False
    return True


def _device_holdings(device: torch.device) -> tuple[int, int, int]:
    gc.collect()
    if device.type != "cuda":
        return 0, 0, _heap_bytes()
    free, total = torch.cuda.mem_get_info(device)
    reserved = torch.cuda.memory_reserved(device)
    return torch.cuda.memory_allocated(device), total - free - reserved, _heap_bytes()


def _heap_bytes() -> int:
    """In use, as the C library counts."""

    class Info(ctypes.Structure):
        _fields_ = [(f"n{k}", ctypes.c_size_t) for k in range(10)]

    ask = ctypes.CDLL(None).mallinfo2
    ask.restype = Info
    info = ask()
    return info.n4 + info.n7  # hblkhd, uordblks


def _report(leaked: tuple[int, ...], repeats: int, who: str, result: Result) -> bool:
    """leaked: by the later half of so many calls."""
    half = repeats - repeats // 2
    last_first = reversed(list(zip(LOSSES, leaked)))  # a thread has memory too
    for (kind, least, words), lost in last_first:
        if lost >= least * half:
            each = lost / half
            result.add("leak", kind, f"{who} loses {each:.0f} {words}", f"{lost} in {half} calls")
            return True
    return False


def judge_refused_leaks(subject: Subject, case: Case) -> Result:
    """Calls that the operator itself refuses: it must let go of what it holds by then, and have written
    to nothing. Numbers out of all bounds are tried until it refuses some."""
    result = Result()
    try:
        call = subject.prepare(case)
    except (Unfit, Unanswered) as why:
        return skip(why)
    for values in [call.values, *_strange(call)]:
        other = call.but(values)
        if not other.run().refused:
            continue  # and may take its time
        outcome = other.run(Manner(repeats=REPEATS))
        if outcome.refused:
            result.judged.append("leak")
            if outcome.message.endswith("no message"):
                result.notes.append("it refuses a call without a message: wick_fail gives it one")
            judge_changes(other, outcome, result)
            if result.findings or _report(
                outcome.leaked, REPEATS, f"a refused call ({outcome.message})", result
            ):
                break
    return result


def _strange(call: Call) -> Iterator[list[Any]]:
    odd = {
        "int": (0, -1, -(2**40), 2**40),
        "float": (0.0, -1.0, float("nan"), float("inf"), 1e300),
    }
    for k, p in enumerate(call.operator.inputs):
        if p.dim is None:
            for value in odd.get(p.kind, ()):
                yield [*call.values[:k], value, *call.values[k + 1 :]]
        value = call.values[k]
        if isinstance(value, torch.Tensor) and not value.is_floating_point():
            for extreme in itertools.islice(_extremes(value), 2):
                yield [*call.values[:k], extreme, *call.values[k + 1 :]]


def _extremes(value: torch.Tensor) -> Iterator[torch.Tensor]:
    if value.dtype != torch.bool and value.numel():
        info = torch.iinfo(value.dtype)
        yield torch.full_like(value, info.max)
        yield torch.full_like(value, max(info.min, -1))
