"""wick doctor: can operators be built, loaded and called here, and if not, what mends it?

    wick doctor                    the findings, problems last
    wick doctor --json             the same for programs
    wick doctor cache compiler     only these checks

The exit code is 0, 1 (problems) or 2 (something could not be checked). It also runs by path,
`python .../wick/cli_doctor.py`, and imports neither torch nor the rest of wick, since it is wanted
when those do not import. Each check is a small function in wick/_doctor; one that raises becomes a
finding.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

if __package__:
    from . import _doctor
    from ._doctor.findings import LEVELS, OK, PROBLEM, UNKNOWN, Finding, unknown
    from ._doctor.machine import Machine
else:  # by path: this folder leads the search path, which is used once and then taken away
    import _doctor
    from _doctor.findings import LEVELS, OK, PROBLEM, UNKNOWN, Finding, unknown
    from _doctor.machine import Machine

    sys.path.remove(os.path.dirname(os.path.abspath(__file__)))

PAGE = "docs/troubleshooting.md"
HEADINGS = {
    "ok": ("In order", "green"),
    "warning": ("Warnings", "yellow"),
    "unknown": ("Could not be checked", "magenta"),
    "problem": ("Problems", "red"),
}
FOUND, UNCHECKED = 1, 2


def examine(machine: Machine, names: Sequence[str] = ()) -> list[tuple[str, Finding]]:
    """Runs the checks (all, or those named) and returns (check, finding) in their order."""
    found: list[tuple[str, Finding]] = []
    for name, check in _doctor.CHECKS.items():
        if names and name not in names:
            continue
        try:
            findings = check(machine)
        except Exception as error:
            said = f"{type(error).__name__}: {error}"
            findings = [unknown("not-checked", f"{name} could not be checked: {said}")]
        found += [(name, finding) for finding in findings]
    return found


def exit_code(findings: Sequence[Finding]) -> int:
    levels = {finding.level for finding in findings}
    return FOUND if PROBLEM in levels else UNCHECKED if UNKNOWN in levels else 0


# ---- output ----


def to_json(found: Sequence[tuple[str, Finding]]) -> str:
    findings = [finding for _, finding in found]
    counts = {level: sum(f.level == level for f in findings) for level in LEVELS}
    listed: list[dict[str, Any]] = [{"check": name, **asdict(f)} for name, f in found]
    return json.dumps({"exit": exit_code(findings), "counts": counts, "findings": listed}, indent=2)


def summary(findings: Sequence[Finding]) -> str:
    counts = {level: sum(f.level == level for f in findings) for level in LEVELS}
    if counts[PROBLEM]:
        n = counts[PROBLEM]
        return f"{n} problem{'s' * (n > 1)}; {PAGE} says more about each [name]."
    if counts[UNKNOWN]:
        return "No problem was found, but not everything could be checked."
    n = counts["warning"]
    return f"No problem. {n} warning{'s' * (n != 1)}." if n else "Everything is in order."


def lines_of(finding: Finding, verbose: bool) -> list[tuple[str, str]]:
    """(kind, text): the finding, the command that mends it, what else is known."""
    named = "" if finding.level == OK else f" [{finding.id}]"
    lines = [("text", finding.text + named)]
    if finding.remedy:
        lines.append(("remedy", finding.remedy))
    detail = finding.detail.strip()
    if detail and (verbose or finding.level in (PROBLEM, UNKNOWN)):
        shown = detail.splitlines() if verbose else detail.splitlines()[:4]
        lines += [("detail", line) for line in shown if line.strip() != finding.text]
    return lines


def print_rich(console: Any, findings: Sequence[Finding], verbose: bool) -> None:
    from rich.padding import Padding
    from rich.text import Text

    styles = {"text": "", "remedy": "bold cyan", "detail": "dim"}
    for level in LEVELS:
        of_level = [f for f in findings if f.level == level]
        heading, colour = HEADINGS[level]
        if of_level:
            console.print(Text(heading, style=f"bold {colour}"))
        for finding in of_level:
            for kind, text in lines_of(finding, verbose):
                shown = Text(text, style=styles[kind])
                if kind == "remedy":  # never wrapped: it is to be copied
                    console.print(Text("      $ "), shown, sep="", soft_wrap=True)
                else:
                    indent = 2 if kind == "text" else 6
                    console.print(Padding(shown, (0, 0, 0, indent)))
        if of_level:
            console.print()
    console.print(Text(summary(findings), style="bold"))


def print_plain(findings: Sequence[Finding], verbose: bool) -> None:
    for level in LEVELS:
        of_level = [f for f in findings if f.level == level]
        if of_level:
            print(HEADINGS[level][0])
        for finding in of_level:
            for kind, text in lines_of(finding, verbose):
                if kind == "remedy":  # never wrapped: it is to be copied
                    print(f"      $ {text}")
                    continue
                indent = "  " if kind == "text" else "      "
                wrapper = textwrap.TextWrapper(
                    100,
                    initial_indent=indent,
                    subsequent_indent=indent + "  ",
                    break_long_words=False,
                    break_on_hyphens=False,
                )
                print(wrapper.fill(text))
        if of_level:
            print()
    print(summary(findings))


def rich_console(**options: Any) -> Any:
    """rich on a terminal, or None: plain lines are what a file, a pipe and a log want."""
    try:
        from rich.console import Console

        console = Console(highlight=False, soft_wrap=False, **options)
        return console if console.is_terminal else None
    except Exception:  # a broken rich must not hide the findings
        return None


@contextlib.contextmanager
def waiting() -> Iterator[None]:
    console = rich_console(stderr=True)
    if console is None:
        yield
        return
    with console.status("looking at compiler, torch, driver and cache", spinner="line"):
        yield


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="wick doctor",
        description="Says whether operators can be built, loaded and called here, and if not, what "
        "to do.",
        epilog="Exit code: 0 no problem, 1 problems found, 2 something could not be checked\n\n"
        "Example:\n  wick doctor --json | python -m json.tool",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    names = ", ".join(_doctor.CHECKS)
    parser.add_argument("checks", nargs="*", metavar="CHECK", help=f"only these: {names}")
    parser.add_argument("--json", action="store_true", help="for programs")
    parser.add_argument("--verbose", action="store_true", help="paths and whole messages as well")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    parser = make_parser()
    arguments = parser.parse_args(argv)
    foreign = [name for name in arguments.checks if name not in _doctor.CHECKS]
    if foreign:
        parser.error(f"no check is called {foreign[0]}; there are {', '.join(_doctor.CHECKS)}")
    with contextlib.nullcontext() if arguments.json else waiting():
        found = examine(Machine(), arguments.checks)
    findings = [finding for _, finding in found]
    if arguments.json:
        print(to_json(found))
        return exit_code(findings)
    console = rich_console()
    if console:
        print_rich(console, findings, arguments.verbose)
    else:
        print_plain(findings, arguments.verbose)
    return exit_code(findings)


if __name__ == "__main__":
    sys.exit(main())
