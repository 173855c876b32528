"""threads, once more: nothing that one piece of a loop, or one caller, writes is another's as well.

The operator is built so that each of its reads and writes is seen (src/trial/watch.c), which finds a
race also where no two threads ever meet, and says in which lines. Kernels are built so that the warps
of a block leave each barrier at different times: where one is missing, the result changes.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from typing import Any

from ... import _wick
from .. import guarded
from ..call import Unfit, answered
from ..case import Case
from ..finding import Result, skip
from ..guarded import WATCHED, Manner
from ..oracle import Unanswered
from .threads import long_enough
from .values import Subject

PIECES = 16  # the most: who has room for eight shows
CALLERS = 2
SKEWED = 16  # calls
UNIT = re.compile(r"unit\d+\.c")  # what the builder calls a part of the file; lines are the file's
READERS = (("addr2line", "-e"), ("llvm-symbolizer", "--output-style=GNU", "-e"))


def judge_shared(subject: Subject, case: Case) -> Result:
    return (
        _judge_watched(subject, case)
        if subject.device.type == "cpu"
        else _judge_skewed(subject, case)
    )


def _judge_skewed(subject: Subject, case: Case) -> Result:
    result = Result()
    try:
        call = answered(subject, case)
        outcome = call.run(Manner(repeats=SKEWED))
    except (Unfit, Unanswered) as why:
        return skip(why)
    if outcome.refused:
        return Result(refused=outcome.message)
    result.judged.append("threads")
    if outcome.differs >= 0:
        result.add(
            "threads",
            "barrier",
            "the result changes with the order in which a block's warps run",
            "is there a __syncthreads() between each write to shared memory and whoever else uses it?",
        )
    return result


def _judge_watched(subject: Subject, case: Case) -> Result:
    result = Result()
    try:
        call = answered(subject, case)
        other = answered(subject, case.but(seed=case.seed + 1000))
    except (Unfit, Unanswered) as why:
        return skip(why)
    _wick.conflicts()
    calls = [call.values, other.values]
    call.phase("operator")
    try:
        guarded.together(call.operator, calls, call.wanted, Manner(order=WATCHED), 1)
    except RuntimeError as error:
        return Result(refused=str(error))
    finally:
        call.phase("judge")
    result.judged.append("threads")
    file = call.operator.file
    _report(result, "static", "two calls at the same time share memory", file)
    cut = call.run(Manner(threads=PIECES, order=WATCHED))
    _report(result, "race", "pieces of a parallel loop share memory", file)
    longer = None if result.findings else long_enough(subject, case, cut.loops)
    return _judge_watched(subject, longer) if longer else result


def _report(result: Result, kind: str, title: str, file: str) -> None:
    words = [_words(conflict, file) for conflict in _wick.conflicts()]
    if words:
        result.add("threads", f"shared {kind}", title, *dict.fromkeys(words))


def _words(conflict: tuple[Any, Any, str], file: str) -> str:
    """`dot.c:57 writes what dot.c:57 has written`."""
    later, earlier, where = conflict
    verb = "writes" if later[0] else "reads"
    past = "has written" if earlier[0] else "has read"
    named = f" ({where})" if where else ""
    return f"{_place(later, file)} {verb} what {_place(earlier, file)} {past}{named}"


def _place(toucher: tuple[bool, str, int], source: str) -> str:
    """A line of the source, where somebody can tell."""
    _, module, offset = toucher
    for program, *flags in READERS:
        path = shutil.which(program)
        if path is None:
            continue
        told = subprocess.run(
            [path, *flags, module, hex(offset)], capture_output=True, text=True, check=False
        )
        place = told.stdout.split("\n")[0].split(" (")[0]
        file, _, line = place.rpartition(":")
        if line.isdigit() and line != "0":
            file = source if UNIT.fullmatch(os.path.basename(file)) else file
            return f"{os.path.basename(file)}:{line}"
    return f"{os.path.basename(module)}+{offset:#x}"
