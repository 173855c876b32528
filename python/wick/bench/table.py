"""table -- the rows in a terminal: with rich where it is installed, else the same cells as text"""

from __future__ import annotations

import re
import shutil
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, TextIO

from . import words
from .compare import DISTURBED, FASTER, SAME, SLOWER, Comparison
from .contenders import OURS
from .rows import Row

COLOURS = {
    "at the limit": "green",
    "near the limit": "green",
    "floor does not apply": "yellow",
    "launch-bound": "yellow",
    "disturbed": "yellow",
    "poor occupancy": "red",
    "poor access pattern": "red",
    "slower than torch": "red",
    "nothing to move": "",
}
_WIDTH = 10_000  # where there is no terminal: whoever reads it there breaks lines himself
_GAP, _LEAST_VERDICT = 3, 20
_NAMED = 6  # rows that are not compared
# While lines are broken: what stays together, a name and its figure. No blank, since rich breaks at those
# that are not to be broken as well.
_HARD = "\ue000"


def _time(row: Row, name: str) -> str:
    if name not in row.times:
        return "-"
    t = row.times[name]
    return f"{words.seconds(t.median_s)} ±{100 * t.spread:.0f} %"


def _ratio(row: Row, name: str) -> str:
    """Torch's time as a multiple of ours: above 1 we are faster."""
    if row.is_wild(name):
        return "?"
    return f"{words.digits(row.times[name].median_s / row.times['wick'].median_s)} x"


def _others(rows: Iterable[Row]) -> list[str]:
    """Names of the contenders besides the plain call, in the order of their first appearance."""
    found: dict[str, None] = {}
    for row in rows:
        for name in row.times:
            if name != "wick":
                found[name] = None
    return list(found)


def head(rows: Sequence[Row]) -> list[str]:
    others = [name if name in OURS else f"{name}/wick" for name in _others(rows)]
    return ["sizes", "cache", "wick", "floor", "share", *others, "verdict"]


def cells(row: Row, rows: Sequence[Row]) -> list[str]:
    """One row as text."""
    others = [
        (_time if name in OURS or name not in row.times else _ratio)(row, name)
        for name in _others(rows)
    ]
    share = "-" if row.share is None else words.percent(row.share)
    floor = words.seconds(row.floor_s) if row.floor_s else "-"
    fixed = [row.case.words(), row.cache, _time(row, "wick"), floor, share]
    return [*fixed, *others, said(row)]


def said(row: Row) -> str:
    """The verdict in one line."""
    return f"{row.verdict}: {row.why}" if row.why else row.verdict


def groups(rows: Iterable[Row]) -> list[list[Row]]:
    """Operator by operator, with one choice of element types, on one device."""
    return [list(g) for _, g in groupby(rows, key=lambda r: (r.operator, r.types, r.device))]


def title(rows: Sequence[Row]) -> str:
    """Of a group."""
    first, threads = rows[0], ""
    if first.device == "cpu":
        threads = f", {first.threads} thread{'s' * (first.threads != 1)}"
    return f"{first.operator}, {first.types}, {first.device}{threads}"


def notes(rows: Sequence[Row]) -> list[str]:
    """Why somebody did not take part, or what he returns instead, once each; in sizes and digits that
    change from row to row, the first of them."""
    found: dict[tuple[str, str], str] = {}
    for row in rows:
        for name, why in (*row.missing.items(), *row.unlike.items()):
            found.setdefault((name, re.sub(r"\d+", "#", why)), why)
    return [f"{name}: {why}" for (name, _), why in found.items()]


def about(facts: Mapping[str, Any]) -> list[str]:
    """The machine, in a line or two per device."""
    lines = [f"Wick {facts['wick']}, torch {facts['torch']}, {facts['date']}"]
    if facts["busy"]:
        lines.append(f"The machine was busy ({facts['busy']}): run it again when it is not.")
    for device in facts["devices"]:
        rates = [
            f"{name} {words.amount(rate, 'B/s')}"
            for name, rate in device["copy_bytes_per_s"].items()
        ]
        clocks = device.get("before", {})
        line = f"{device['device']}: {device['model']}; copy: {', '.join(rates)}"
        if "clocks_sm" in clocks:
            after = device.get("after", {}).get("clocks_sm", clocks["clocks_sm"])
            line += f"; SM clock {clocks['clocks_sm']:.0f} to {after:.0f} MHz"
        lines.append(line)
    return lines


# ---- printing ----


def _unbroken(verdict: str) -> str:
    """A number stays with its unit."""
    return re.sub(r"(?<=\d) (?=%)", _HARD, verdict)


def _lines_of(rows: Sequence[Row]) -> list[list[str]]:
    return [head(rows), *(cells(row, rows) for row in rows)]


def _width(out: TextIO) -> int:
    return shutil.get_terminal_size().columns if out.isatty() else _WIDTH


def _fits(rows: Sequence[Row], width: int) -> bool:
    """Whether a table leaves its last column, which may be broken into lines, enough room."""
    *columns, _ = zip(*_lines_of(rows))
    return sum(max(map(len, c)) + _GAP for c in columns) + _LEAST_VERDICT <= width


def _print_blocks(rows: Sequence[Row], out: TextIO) -> None:
    """For a narrow terminal: two or three lines per row."""
    names = head(rows)[2:-1]
    for row in rows:
        sizes, cache, *figures, verdict = cells(row, rows)
        pairs = [f"{name} {figure}".replace(" ", _HARD) for name, figure in zip(names, figures)]
        for text in (f" {sizes}, {cache}: {_unbroken(verdict)}", "   " + ", ".join(pairs)):
            lines = textwrap.fill(text, _width(out), subsequent_indent="   ")
            out.write(lines.replace(_HARD, " ") + "\n")


def _print_plain(rows: Sequence[Row], out: TextIO) -> None:
    lines = _lines_of(rows)
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    for line in lines:
        text = [
            cell.ljust(w) if i in (0, 1, len(line) - 1) else cell.rjust(w)
            for i, (cell, w) in enumerate(zip(line, widths))
        ]
        out.write("  ".join(text).rstrip() + "\n")


def _print_rich(rows: Sequence[Row], out: TextIO) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    # With both, since a width alone does not count where TERM is dumb.
    console = Console(file=out, width=_width(out), height=25, highlight=False)
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    names = head(rows)
    for i, name in enumerate(names):
        left = i in (0, 1, len(names) - 1)
        table.add_column(name, justify="left" if left else "right", no_wrap=i != len(names) - 1)
    for row in rows:
        *plain, words_ = cells(row, rows)
        # As Text, since in a str rich takes [...] for markup.
        table.add_row(*map(Text, plain), Text(_unbroken(words_), style=COLOURS[row.verdict]))
    with console.capture() as drawn:
        console.print(table)
    lines = [line.replace(_HARD, " ").rstrip() for line in drawn.get().splitlines()]
    out.write("\n".join(line for line in lines if line) + "\n")


def print_rows(facts: Mapping[str, Any], rows: Sequence[Row], out: TextIO | None = None) -> None:
    out = out or sys.stdout
    try:
        import rich  # noqa: F401

        draw = _print_rich
    except ImportError:
        draw = _print_plain
    out.write("\n".join(about(facts)) + "\n")
    for group in groups(rows):
        out.write(f"\n{title(group)}\n{group[0].signature}\n")
        (draw if _fits(group, _width(out)) else _print_blocks)(group, out)
        for note in notes(group):
            out.write(f"  {note}\n")


def _named(row: Row) -> str:
    return f"{row.operator} {row.types} {row.case.words()} {row.cache}, {row.device}"


def _print_disturbed(found: Comparison, out: TextIO) -> None:
    """Each row once, but a few lines at most."""
    names = list(dict.fromkeys(_named(change.row) for change in found.of(DISTURBED)))
    for name in names[:_NAMED]:
        out.write(f"  not compared  {name}\n")
    if len(names) > _NAMED:
        out.write(f"  not compared  {len(names) - _NAMED} more rows\n")


def print_comparison(found: Comparison, before: str, out: TextIO | None = None) -> None:
    out = out or sys.stdout
    out.write(
        f"\nAgainst {before}: {len(found.of(SLOWER))} slower, {len(found.of(FASTER))} faster, "
        f"{len(found.of(SAME))} the same within the noise"
    )
    if disturbed := len(found.of(DISTURBED)):
        out.write(f", {disturbed} not compared, since something else ran then or now")
    out.write(f"; the machine takes {found.drift:.2f} x as long (by {found.drift_by})\n")
    for note in filter(None, (found.elsewhere, found.busy)):
        out.write(f"  {note}\n")
    for kind in (SLOWER, FASTER):
        for change in sorted(found.of(kind), key=lambda c: -abs(c.ratio - 1)):
            out.write(
                f"  {kind}  {change.ratio:.2f} x  {_named(change.row)}: {change.name} "
                f"{words.seconds(change.before.median_s)} -> {words.seconds(change.after.median_s)}\n"
            )
    _print_disturbed(found, out)
    for n, which in ((found.only_before, before), (found.only_after, "this run")):
        if n:
            out.write(f"  {n} row{'s' * (n != 1)} only in {which}\n")
