"""How long cases of an operator take: larger ones than those that took too long are left out, and a call
that is slow is told from one that hangs."""

from __future__ import annotations

import statistics
import threading
from collections.abc import Callable

from .case import Case

SLOW = 10.0  # seconds of a case after which larger ones of its kind are left out
LONG, ENOUGH = 1.0, 40.0  # or after so many of cases that take this long
SHORT_DIM = 64  # which says nothing about larger ones
NEAR = 8  # and neither does one that is so many times as short
TOOK_LONG = "took too long"
SHORT_CALL = 1e-3  # seconds: what is not on its way to seconds
MOST_HALVINGS = 4  # of the sizes of a call that may hang
MOST_GROWTH = 16.0  # times as long, where all sizes are twice as large
ANY = ""  # judge: whichever asks the reference
# Calls that a judge makes of a case, at least; `shared` makes one that takes many times as long.
MANY = {"shared": 20, "threads": 20, "leaks": 20, "again": 20, "neighbours": 20, "values": 4}
TOO_MANY = 100.0  # seconds for these
# The time of a call grows with that power of the size, or more, where it is far more than in proportion: of
# sizes that are so many times as large, if the lesser call takes so many seconds.
GROWS, LARGER, MEASURABLE = 1.6, 4, 2e-3


class Pace:
    """Of one operator, by judge and by the dim that is largest in a case."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._slow: dict[tuple[str, str], tuple[int, str]] = {}  # from which size on, and why
        self._slow_ints: set[str] = set()  # judges that large ints take too long for
        self._spent: dict[tuple[str, str], float] = {}  # seconds of long cases
        # Of each, how long it is, how large, and how many seconds it took.
        self._known: dict[tuple[str, str], list[tuple[int, int, float]]] = {}
        # By dim and size, the longest call in seconds.
        self._calls: dict[str, dict[int, float]] = {}
        # By dim, how long it is and how large the case, the shortest of the longest calls.
        self._sized: dict[str, dict[tuple[int, int], float]] = {}

    def why_not(self, judge: str, case: Case) -> str:
        """Why a case is left out; "" for one that is not."""
        if has_large_int(case) and judge in self._slow_ints:
            return "an int as large as one that took too long"
        for name, length in _lengths(case).items():
            for asks in (judge, *((ANY,) if judge != "huge" else ())):
                limit, why = self._slow.get((asks, name), (None, ""))
                if limit is not None and length >= limit:
                    return f"larger than a case that {why}"
        call = self._call_of(case) if judge in MANY else 0.0
        if call * MANY.get(judge, 0) > TOO_MANY:
            return "calls grow with the square of the size, and many would take minutes"
        if self._would_take(judge, case) > SLOW:
            return f"larger than a case that {TOOK_LONG}"
        return ""

    def _would_take(self, judge: str, case: Case) -> float:
        """Seconds, by what smaller ones took: most often as many times as many as it is longer, or larger
        if that is less."""
        if not case.dims or judge == "huge":
            return 0.0
        name, length = longest(case)
        with self._lock:
            shorter = [
                took * min(length / n, case.numel / numel)
                for n, numel, took in self._known.get((judge, name), ())
                if max(SHORT_DIM, length / NEAR) < n < length
            ]
        return statistics.median(shorter) if shorter else 0.0

    def _call_of(self, case: Case) -> float:
        """Seconds that a call will take, by how shorter ones have grown; 0 where that is in proportion."""
        if not case.dims:
            return 0.0
        name, length = longest(case)
        with self._lock:
            known = [(n, of, took) for (n, of), took in self._sized.get(name, {}).items()]
        slow = [about for about in known if about[0] < length and about[2] > MEASURABLE * LARGER]
        if not any(_grows(a, b) for a in known for b in slow):
            return 0.0
        return min(took * min(length / n, case.numel / of) ** 2 for n, of, took in slow)

    def took(self, judge: str, case: Case, seconds: float, call: float) -> None:
        """A case, and the longest call of the operator in it."""
        if not case.dims:
            return
        name, length = longest(case)
        with self._lock:
            known = self._calls.setdefault(name, {})
            known[length] = max(known.get(length, 0.0), call)
            sized, about = self._sized.setdefault(name, {}), (length, case.numel)
            sized[about] = min(sized.get(about, call), call)
            self._known.setdefault((judge, name), []).append((length, case.numel, seconds))
            if seconds > LONG:
                self._spent[judge, name] = self._spent.get((judge, name), 0.0) + seconds
            spent = self._spent.get((judge, name), 0.0)
        if seconds > SLOW or (seconds > LONG and spent > ENOUGH):
            self.too_large(judge, case)

    def too_large(self, judge: str, case: Case, why: str = TOOK_LONG) -> None:
        """Cases as large in the dim that is largest here would do the same."""
        if not case.dims or judge == "huge":
            return
        name, length = longest(case)
        with self._lock:
            known = self._slow.get((judge, name), (length, why))
            if length > SHORT_DIM:
                self._slow[judge, name] = min(known, (length, why))

    def too_large_an_int(self, judge: str) -> None:
        self._slow_ints.add(judge)

    def may_take(self, case: Case, seconds: float) -> bool:
        """Whether the operator, with the square of the size, is on its way to take so long: it is slow then,
        and does not hang."""
        if not case.dims:
            return False
        name, length = longest(case)
        with self._lock:
            shorter = [
                took * (length / n) ** 2
                for n, took in self._calls.get(name, {}).items()
                if length / 4 <= n < length
            ]
        return max(shorter, default=0.0) > seconds / 4


def _grows(a: tuple[int, int, float], b: tuple[int, int, float]) -> bool:
    """By far more than in proportion from the first to the second."""
    times = b[1] / max(1, a[1])
    return times >= LARGER and a[2] > MEASURABLE and b[2] > a[2] * times**GROWS


def is_slow(case: Case, seconds: float, call_of: Callable[[Case], float | None]) -> bool:
    """Whether a call that has not ended in so long is slow, and does not hang: by how calls grow up to half of
    all its sizes, or less, it would take about as long. call_of: seconds of a call; None of one that hangs,
    or cannot be made."""
    times: list[tuple[int, float]] = []  # by how often the sizes were halved
    for halvings in range(1, MOST_HALVINGS + 1):
        smaller = _halved(case, halvings)
        took = None if smaller == case else call_of(smaller)
        if took is not None:
            times.append((halvings, took))
        elif times or halvings == 2:
            return False
        if len(times) == 2:
            break
    if len(times) < 2 or times[0][1] < SHORT_CALL:
        return False
    (halvings, took), (_, before) = times
    growth = min(MOST_GROWTH, took / max(before, 1e-9))
    return took * growth**halvings > seconds / 4


def _halved(case: Case, times: int) -> Case:
    dims = {
        n: max(min(s, 2), s >> times)
        if isinstance(s, int)
        else tuple(max(min(k, 2), k >> times) for k in s)
        for n, s in case.dims.items()
    }
    return case.but(dims=dims)


def has_large_int(case: Case) -> bool:
    """It may be counted up to."""
    return any(isinstance(v, int) and abs(v) >= 2**31 for v in case.scalars.values())


def _lengths(case: Case) -> dict[str, int]:
    return {n: s if isinstance(s, int) else max(s, default=1) for n, s in case.dims.items()}


def longest(case: Case) -> tuple[str, int]:
    """A case has a dim, and how long it is."""
    lengths = _lengths(case)
    name = max(lengths, key=lambda n: lengths[n])
    return name, lengths[name]
