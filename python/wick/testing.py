"""wick.testing: what `wick check` judges, in a test of your own.

    def test_my_op():
        wick.testing.check("my_op.c")                    # or an operator: wick.testing.check(op.my_op)

As a plugin of pytest it takes operators' sources for tests, one for each thing that is judged:

    $ pytest -p wick.testing my_op.c                     my_op.c::forward PASSED ...

The reference is my_op.py beside my_op.c; docs/check.md says what is judged and how to read a report.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import _wick
from ._load import Loaded
from .check.crew import Crew
from .check.records import JUDGES, TYPES, Fault, Options, Report, Target
from .check.report import fault_lines, lines
from .check.run import check as _run
from .cli_check import targets

if TYPE_CHECKING:
    import pytest

__all__ = ["NotChecked", "check"]

DEPTHS = ("quick", "default", "full")

_crew = Crew()  # processes that have imported torch, kept from one check to the next


class NotChecked(RuntimeError):
    """Something could not be judged: there is no reference, or the source does not build."""


def _operator(what: Any) -> tuple[str, str, str]:
    """Namespace, name and file of an operator, given as a function of Wick's or of torch.ops."""
    about = getattr(what, "__self__", None)
    if not hasattr(about, "signature"):
        name = getattr(what, "_qualified_op_name", "") or getattr(what, "_name", "")
        name = name.split(".")[0]
        function = _wick.find(*name.split("::")) if "::" in name else None
        if function is None:
            raise TypeError(f"{what!r} is neither a file nor an operator of Wick")
        about = function.__self__
    return about.namespace, about.name, about.file


def _targets(what: Any, flags: tuple[str, ...]) -> list[Target]:
    if isinstance(what, Loaded):
        what = what.origin
    if isinstance(what, (str, os.PathLike)):
        found = targets([os.fspath(what)], flags)
        if not found:
            raise NotChecked(f"{os.fspath(what)}: no operator file is in there")
        return found
    namespace, name, file = _operator(what)
    if namespace == "wick":
        return [Target(None, (name,), label=name)]
    if not os.path.exists(file):
        raise NotChecked(f"{name}: its source {file} is not there: give the file")
    return [Target(file, (name,), label=name, flags=flags)]


def check(
    what: Any,
    *,
    only: str | Iterable[str] = JUDGES,
    types: str | Iterable[str] = (),
    device: str = "all",
    reference: str | os.PathLike[str] | None = None,
    depth: str = "default",
    seed: int = 0,
    seconds: float = 0.0,
    limit: float | None = None,
    case: str | None = None,
    flags: str | Iterable[str] = (),
) -> Report:
    """Judges operators as `wick check` does; the options are those of the command, lists as text or not.

    what   a source, a module, a folder, an operator (of wick.ops, torch.ops or a load, or the name of one
           that comes with Wick), or what a load returned

    Raises AssertionError with the report if a fault is found, and NotChecked if something could not
    be judged. The operators run in processes of their own.
    """
    __tracebackhide__ = True  # for pytest: the report says it all
    options = Options(
        only=_known("only", _words(only), JUDGES),
        seed=seed,
        seconds=seconds,
        limit=limit,
        depth=_known("depth", [depth], DEPTHS)[0],
        types=_known("types", _words(types), TYPES),
        device=device,
        reference=None if reference is None else os.fspath(reference),
        case=case,
    )
    report = _run(_targets(what, tuple(_words(flags))), options, crew=_crew)
    words = "\n".join(line for line, _ in lines(report))
    if report.faults:
        raise AssertionError(words)
    if report.code:
        raise NotChecked(words)
    return report


def _words(given: str | Iterable[str]) -> list[str]:
    return given.replace(",", " ").split() if isinstance(given, str) else list(given)


def _known(what: str, given: Iterable[str], known: Iterable[str]) -> list[str]:
    words = list(given)
    for word in words:
        if word not in known:
            raise ValueError(f"{what}: {word!r} is none of {', '.join(known)}")
    return words


# ---- the plugin ----


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("wick", "operators of Wick")
    group.addoption("--wick-only", default="", help="judge only these: forward,memory")
    group.addoption(
        "--wick-depth", default="default", choices=DEPTHS, help="quick, default or full"
    )
    group.addoption("--wick-seed", type=int, default=0, help="of sizes and values")


def pytest_configure(config: pytest.Config) -> None:
    """What is misspelt is told once, before anything is collected."""
    import pytest

    try:
        _known("--wick-only", _words(config.getoption("--wick-only")), JUDGES)
    except ValueError as error:
        raise pytest.UsageError(str(error)) from None


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    if file_path.suffix not in (".c", ".cu"):
        return None
    text = file_path.read_text(encoding="utf-8", errors="replace")
    if not any(line.startswith("WICK_OP(") for line in text.splitlines()):
        return None
    return _collectors()[0].from_parent(parent, path=file_path)


@functools.cache
def _collectors() -> tuple[Any, Any]:
    """Classes of pytest's, which is imported only where it runs."""
    import pytest

    class Source(pytest.File):
        """An operator's source; it is checked once, for all its items."""

        report: Report | None = None

        def collect(self) -> Iterable[Any]:
            for judge in _words(self.config.getoption("--wick-only")) or JUDGES:
                yield Judged.from_parent(self, name=judge)

        def judged(self) -> Report:
            if self.report is None:
                names = [item.name for item in self.session.items if item.parent is self]
                self.report = _run(
                    [Target(str(self.path), label=self.path.name)],
                    Options(
                        only=names,
                        depth=self.config.getoption("--wick-depth"),
                        seed=self.config.getoption("--wick-seed"),
                    ),
                    crew=_crew,
                )
            return self.report

        def first(self) -> Any:
            """The item that answers for what is no item's, or every item's."""
            return next(each for each in self.session.items if each.parent is self)

        def faults_of(self, item: Any) -> list[Fault]:
            """By any judge: a crash is told under `memory`, which may be no item of its own."""
            items = [each for each in self.session.items if each.parent is self]
            others = {each.name for each in items} - {item.name}
            first = item is self.first()
            faults = self.judged().faults
            return [f for f in faults if f.judge == item.name or (first and f.judge not in others)]

    class Judged(pytest.Item):
        def runtest(self) -> None:
            report = self.parent.judged()
            first = self.parent.first()
            if report.errors and self is not first:  # it does not build, say: once is enough
                pytest.skip(f"{self.path.name} could not be checked: {first.name} says why")
            mine = self.parent.faults_of(self)
            unjudged = report.unjudged() if self.name in ("forward", "gradient") else []
            if report.errors or (unjudged and not report.faults):
                raise NotChecked("\n".join(report.unjudged()))
            if mine:
                raise AssertionError("\n".join(line for line, _ in fault_lines(report, mine)))
            if not any(s.tallies.get(self.name) for s in report.subjects):
                pytest.skip("there is nothing to judge")

        def repr_failure(self, excinfo: Any, style: Any = None) -> str:
            if isinstance(excinfo.value, (AssertionError, NotChecked)):
                return str(excinfo.value)
            return str(super().repr_failure(excinfo))

        def reportinfo(self) -> tuple[Path, int, str]:
            # Not `my_op.c::forward`: at the end of a line pytest takes dots for a class's.
            return self.path, 0, f"{self.path.name}: {self.name}"

    return Source, Judged
