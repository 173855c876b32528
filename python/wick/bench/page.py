"""page -- the report: one HTML file with the tables, the plots and what they mean; nothing is fetched"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from . import plots, table, verdict, words
from .records import write_text
from .rows import Row

_CSS = """
:root { --grey: #666; --line: #ddd; }
body { font: 15px/1.5 system-ui, sans-serif; color: #1a1a1a; max-width: 74rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; margin-bottom: .2rem; } h2 { font-size: 1.2rem; margin-top: 2.2rem; }
code, td, .signature { font-family: ui-monospace, "DejaVu Sans Mono", monospace; font-size: .82rem; }
.signature, .about { color: var(--grey); overflow-wrap: anywhere; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; margin: .6rem 0 1rem; min-width: 100%; }
th { text-align: right; font-weight: 600; font-size: .8rem; border-bottom: 2px solid var(--line); padding: .25rem .45rem; }
td { text-align: right; padding: .25rem .45rem 0; white-space: nowrap; }
th:first-child, td:first-child, th:nth-child(2), td:nth-child(2) { text-align: left; }
td.said { text-align: left; white-space: normal; border-bottom: 1px solid var(--line); padding: 0 0 .3rem; }
/* As wide as the window, and in it wherever the table is scrolled to. */
.said span { display: inline-block; position: sticky; left: 0; box-sizing: border-box;
  max-width: min(72rem, calc(100vw - 3rem)); padding: 0 .45rem 0 1.4rem; }
.green { --said: #17692f; } .yellow { --said: #8a5a00; } .red { --said: #a3121f; }
dt, .said { color: var(--said, inherit); }
.bar { display: inline-block; width: 2.6rem; height: .55rem; background: #eee; margin-right: .4rem; }
.bar i { display: block; height: 100%; background: var(--said, var(--grey)); }
.share { display: inline-block; min-width: 7ch; }
figure { margin: 1rem 0; overflow-x: auto; } svg { min-width: 34rem; max-width: 100%; height: auto; }
.warning { border: 1px solid #d9a400; border-left-width: .4rem; background: #fff6d6; padding: .6rem .9rem; font-weight: 600; }
dt { font-weight: 600; } dd { margin: 0 0 .5rem 1rem; }
"""


def _cells(cells: Sequence[str], tag: str) -> str:
    return "".join(f"<{tag}>{escape(c)}</{tag}>" for c in cells)


def _row(row: Row, rows: Sequence[Row]) -> str:
    *plain, said = table.cells(row, rows)
    share = table.head(rows).index("share")
    cells = [f"<td>{escape(c)}</td>" for c in plain]
    colour = table.COLOURS[row.verdict]
    if row.share is not None:
        width = min(100, round(100 * row.share))
        bar = f'<span class="bar"><i style="width: {width}%"></i></span>'
        cells[share] = (
            f'<td class="{colour}">{bar}<span class="share">{escape(plain[share])}</span></td>'
        )
    return (
        f"<tr>{''.join(cells)}</tr>"
        f'<tr><td class="said {colour}" colspan="{len(cells)}">'
        f"<span>{escape(said)}</span></td></tr>"
    )


def _section(rows: Sequence[Row], figures: Mapping[str, str]) -> str:
    first = rows[0]
    notes = "".join(f"<p>{escape(note)}</p>" for note in table.notes(rows))
    drawn = "".join(f"<figure>{svg}</figure>" for svg in figures.values())
    return (
        f"<h2>{escape(table.title(rows))}</h2>"
        f'<p class="signature">{escape(first.signature)}</p>'
        f'<div class="wide"><table><tr>{_cells(table.head(rows)[:-1], "th")}</tr>'
        f"{''.join(_row(row, rows) for row in rows)}</table></div>{notes}{drawn}"
    )


def _warning(facts: Mapping[str, Any]) -> str:
    if not facts["busy"]:
        return ""
    words_ = f"The machine was busy ({facts['busy']}): believe no time, share, ratio or verdict below. Run it again when it is not."
    return f'<p class="warning">{escape(words_)}</p>'


def _summary(rows: Sequence[Row]) -> str:
    counted: dict[str, int] = {}
    for row in rows:
        counted[row.verdict] = counted.get(row.verdict, 0) + 1
    lines = [
        f'<dt class="{table.COLOURS[v]}">{escape(v)}: {n} of {len(rows)} rows</dt>'
        f"<dd>{escape(verdict.MEANINGS[v])}</dd>"
        for v, n in sorted(counted.items(), key=lambda item: -item[1])
    ]
    return f"<dl>{''.join(lines)}</dl>"


def _method(facts: Mapping[str, Any]) -> str:
    copies = "".join(
        f"<li>{escape(d['device'])}: "
        + ", ".join(
            f"{escape(name)} copy {words.amount(rate, 'B/s')}"
            for name, rate in d["copy_bytes_per_s"].items()
        )
        + "".join(
            f"; matrix product {escape(name)} {words.amount(rate, 'flop/s')}"
            for name, rate in d["flops_per_s"].items()
            if rate
        )
        + "</li>"
        for d in facts["devices"]
    )
    return (
        "<h2>How it was measured</h2><ul>"
        "<li>A time is a median; ± is half of the middle half of the samples. In every round each "
        "contender is timed once, in an order that changes.</li>"
        "<li>The floor is what a copy that moves the signature's bytes takes on this machine, with the "
        "caches in the same state (or an update of one buffer, for what is written in place); declared flops count at a matrix product's rate. The share is floor / "
        "time, of the faster of <code>wick</code> and <code>out=</code>.</li>"
        "<li>Columns such as <code>eager/wick</code> are their time over ours: above 1, Wick is faster.</li>"
        "<li>Warm: call after call on the same tensors. Cold: caches are emptied before each call.</li>"
        f"{copies}</ul><p class=about>{escape(facts['command'])}</p>"
    )


def render(facts: Mapping[str, Any], rows: Sequence[Row]) -> str:
    drawn = {name: plots.svg(figure) for name, figure in plots.figures(facts, rows).items()}
    roofs = {name: svg for name, svg in drawn.items() if name.startswith("roofline")}
    sections = []
    for group in table.groups(rows):
        own = plots.sweeps_of(group)
        sections.append(_section(group, {name: drawn[name] for name in own if name in drawn}))
    lines = (*table.about({**facts, "busy": ""}), *facts.get("notes", ()))
    about = "<br>".join(map(escape, lines))
    operators = ", ".join(dict.fromkeys(row.operator for row in rows))
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>wick bench: {escape(operators)}</title><style>{_CSS}</style></head><body>"
        f'<h1>wick bench</h1><p class="about">{about}</p>{_warning(facts)}{_summary(rows)}'
        f"{''.join(f'<figure>{svg}</figure>' for svg in roofs.values())}"
        f"{''.join(sections)}{_method(facts)}</body></html>\n"
    )


def write(path: str, facts: Mapping[str, Any], rows: Sequence[Row]) -> None:
    write_text(path, render(facts, rows))
