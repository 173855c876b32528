"""verdict -- a row in one line: what holds the operator back, or that nothing does

    disturbed             something else ran meanwhile: the times are not the operator's
    at the limit          as fast as a copy of its bytes (or its flops) can be here
    near the limit        most of the way
    launch-bound          the call itself is most of the time: call less often, with more
    floor does not apply  far below it: not every byte of the signature is touched
    poor occupancy        not all of the machine is at work
    poor access pattern   all of it is, or would not do: bytes that were not counted, or arithmetic
    slower than torch     use torch

The first of `_RULES` that speaks has the word. Times that scatter prove nothing, so they come first. Who
ran on a share of the CPU took too long, if anything: what praises him holds, and what blames him does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from .rows import ITSELF, Row, Times
from .words import digits, percent

AT_LIMIT, NEAR_LIMIT = 0.85, 0.6
BEYOND_LIMIT = 1.3  # of the floor, from which on it does not describe the operator
LAUNCH_SHARE = 0.5  # of the time, from which on the call itself is the matter
EXPLAINED = 0.75  # of the time, from which on the call and the floor are all there is to it
BUSY = 0.75  # of the threads
FAR = 0.1  # of the floor, below which it is slow however many threads there are
WORTH_THREADS_S = 5e-6  # a call shorter than this is over before others have begun
MARGIN = 0.05  # below which two medians are not different, however small the spread
ALLOCATION = 1.5  # how much slower a fresh result is, before it is worth a remark
TORCH = ("eager", "compile")

MEANINGS = {
    "at the limit": "as fast as a copy of the same bytes, or a matrix product of the same flops, is on "
    "this machine",
    "near the limit": "more than 60 % of the floor: what is left is hard to get",
    "floor does not apply": "faster than a copy of the same bytes, or a matrix product of the same flops: "
    "it does not touch every byte of its tensors, or computes less than is declared; a line bytes: or flops: in "
    "its file of sizes says what it does",
    "launch-bound": "the call itself is half of the time or more, or nearly all of what is beyond the floor: call "
    "less often, with more in it",
    "disturbed": "something else ran meanwhile, and the time is not the operator's: it ran on a share of the "
    "CPU, or its times scatter by more than a factor of two; measure again when the machine is idle",
    "poor occupancy": "not all of the machine is at work: spread the loop with wick_parallel, or give the "
    "GPU more blocks",
    "poor access pattern": "far from the floor, however much of the machine is busy: it moves bytes that the "
    "signature does not count (rereads, strides), or computes more than memory needs",
    "slower than torch": "torch does the same in less time: use torch",
    "nothing to move": "no bytes and no flops to measure by",
}

Said = tuple[str, str]  # the verdict, and why


def faster(a: Times, b: Times) -> bool:
    """a is faster than b beyond the noise: their middle halves do not touch, their medians differ."""
    return a.third_s < b.first_s and a.median_s < b.median_s * (1 - MARGIN)


def _scattered(row: Row, _: list[Row]) -> Said | None:
    """Of the time that the row is judged by; where a baseline's scatter, the row is judged without it."""
    if not row.best.is_wild:
        return None
    return "disturbed", f"its times scatter by a factor of {digits(row.best.scatter)}"


def _slower_than_torch(row: Row, _: list[Row]) -> Said | None:
    """Who computes something else is not faster at it."""
    if row.waited > 1:
        return None
    ours = row.times["wick"]
    named = [
        (t.median_s, name)
        for name, t in row.times.items()
        if name in TORCH and name not in row.unlike and not row.is_wild(name) and faster(t, ours)
    ]
    if not named:
        return None
    median, name = min(named)
    return "slower than torch", f"{name} takes {percent(median / ours.median_s)}: use torch"


def _at_limit(row: Row, _: list[Row]) -> Said | None:
    if row.share is None or not AT_LIMIT <= row.share <= BEYOND_LIMIT:
        return None
    return "at the limit", ""


def _launch_bound(row: Row, _: list[Row]) -> Said | None:
    by_itself = max(row.call_s, row.host_s or 0.0)
    if by_itself < LAUNCH_SHARE * row.best_s:
        return None
    return "launch-bound", f"{percent(min(1.0, by_itself / row.best_s))} is the call"


def _near_limit(row: Row, _: list[Row]) -> Said | None:
    if row.share is None or not NEAR_LIMIT <= row.share <= BEYOND_LIMIT:
        return None
    return "near the limit", ""


def _kept_waiting(row: Row, _: list[Row]) -> Said | None:
    if row.waited == 1:
        return None
    return "disturbed", f"it ran for {percent(row.cores or 0.0)} of the time"


def _beyond_limit(row: Row, _: list[Row]) -> Said | None:
    if row.share is None or row.share <= BEYOND_LIMIT:
        return None
    less = "less is computed" if row.limit == "flops" else "not every byte is touched"
    return "floor does not apply", less


def _call_and_floor(row: Row, _: list[Row]) -> Said | None:
    """On a GPU the one runs while the other does, and they do not add up."""
    if row.device != "cpu" or row.call_s + row.floor_s < EXPLAINED * row.best_s:
        return None
    parts = [percent(part / row.best_s) for part in (row.call_s, row.floor_s)]
    return "launch-bound", f"{parts[0]} is the call, {parts[1]} the floor"


def _idle_threads(row: Row) -> str:
    """How many are busy, in words; "" where all are, or where others could not take part."""
    if row.cores is None or row.threads == 1 or row.best_s <= WORTH_THREADS_S:
        return ""
    if row.cores >= BUSY * row.threads:
        return ""
    return f"{row.cores:.1f} of {row.threads} threads busy"


def _far_when_all_are_busy(row: Row) -> bool:
    """Threads that have nothing to do explain no more than their share of the time."""
    if row.share is None or row.limit == "flops" or not row.cores:
        return False
    return row.share * row.threads / row.cores < FAR


def _poor_occupancy(row: Row, rows: list[Row]) -> Said | None:
    if (idle := _idle_threads(row)) and not _far_when_all_are_busy(row):
        return "poor occupancy", idle
    larger = [
        r.share
        for r in rows
        if r.moved_bytes > 4 * row.moved_bytes and r.share and r.share <= BEYOND_LIMIT
    ]
    if row.device != "cpu" and row.share is not None and max(larger, default=0.0) > 2 * row.share:
        return "poor occupancy", "too little work at this size"
    return None


def _poor_access(row: Row, _: list[Row]) -> Said | None:
    if row.share is None:
        return None
    if row.limit == "flops":
        return "poor occupancy", "of the arithmetic units"
    why = ("more bytes than counted, or arithmetic", _idle_threads(row))
    return "poor access pattern", "; ".join(filter(None, why))


_RULES: tuple[Callable[[Row, list[Row]], Said | None], ...] = (
    _scattered,
    _slower_than_torch,
    _at_limit,
    _launch_bound,
    _near_limit,
    _kept_waiting,
    _beyond_limit,
    _call_and_floor,
    _poor_occupancy,
    _poor_access,
)


def _remark(row: Row) -> str:
    if "eager" in row.unlike:
        return "differs from the reference: see wick check"
    fresh, given = (
        row.times[name].median_s if name in row.times and not row.is_wild(name) else 0.0
        for name in ITSELF
    )
    if given and row.verdict not in ("launch-bound", "disturbed") and fresh > ALLOCATION * given:
        return f"pass out=: new memory costs {percent(1 - given / fresh)}"
    return ""


def judge(rows: Iterable[Row]) -> None:
    """Fills in verdict and reason."""
    rows = list(rows)
    for row in rows:
        alike = [
            r
            for r in rows
            if (r.operator, r.device, r.cache, r.types)
            == (row.operator, row.device, row.cache, row.types)
        ]
        said = next((s for rule in _RULES if (s := rule(row, alike))), None)
        row.verdict, why = said or ("nothing to move", "")
        row.why = "; ".join(filter(None, (why, _remark(row))))
