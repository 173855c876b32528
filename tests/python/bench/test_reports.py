"""What is printed and drawn."""

from __future__ import annotations

import io
import itertools
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from measured import a_row, times

from wick.bench import plots, records, rows, table, verdict, words
from wick.bench.shapes import Case


def test_words() -> None:
    shown = [words.seconds(s) for s in (1.5, 0.0123, 4.56e-5, 7.891e-7, 1e-12)]
    assert shown == ["1.5 s", "12.3 ms", "45.6 µs", "789 ns", "0.001 ns"]
    assert words.amount(41.04e9, "B/s") == "41 GB/s" and words.amount(12, "B") == "12 B"
    assert words.binary(16384) == "16 KiB" and words.binary(12) == "12 B"
    assert [words.percent(x) for x in (0, 0.004, 0.5, 1.2)] == ["0 %", "0.4 %", "50 %", "120 %"]


def some_rows() -> tuple[dict, list[rows.Row]]:
    made = []
    for operator, n, cache in itertools.product(
        ("local.a", "local.b"), (10, 1000, 10**6), ("warm", "cold")
    ):
        t = n * 1e-9 + 1e-6
        made.append(
            a_row(
                operator=operator,
                cache=cache,
                case=Case({"N": n}, {"T": "f32"}),
                read_bytes=4 * n,
                written_bytes=4 * n,
                floor_s=t / 2,
                flops=2.0 * n if operator == "local.a" else None,
                times={
                    "wick": times(t),
                    "out=": times(0.9 * t),
                    "eager": times(2 * t),
                    "<other>": times(t),
                },
                missing={"compile": "no <compiler>"},
            )
        )
    verdict.judge(made)
    device = {
        "device": "cpu",
        "model": "A <CPU>",
        "copy_bytes_per_s": {"plain": 1e10, "streaming": 2e10},
        "flops_per_s": {"float32": 1e11, "int64": 0.0},
        "copy": {"warm": [[100, 10**7], [1e-8, 1e-3]], "cold": [[100, 10**7], [1e-7, 2e-3]]},
    }
    return records.machine([device], ["a"], "load 9 on 2 CPUs"), made


@pytest.mark.parametrize("rich", [True, False])
def test_the_table(capsys, monkeypatch, rich: bool) -> None:
    if not rich:
        monkeypatch.setitem(sys.modules, "rich", None)
    else:
        pytest.importorskip("rich")
    facts, made = some_rows()
    table.print_rows(facts, made)
    said = capsys.readouterr().out
    assert "The machine was busy" in said and "copy: plain 10 GB/s, streaming 20 GB/s" in said
    assert said.count("N=1000000") == 4 and said.count("eager/wick") == 2 and "2 x" in said
    assert said.count("compile: no <compiler>") == 2
    assert max(map(len, said.splitlines())) <= 160


def test_what_looks_like_markup_is_shown_as_it_is(capsys) -> None:
    row = a_row(case=Case({"N": 3}, {"T": "f32"}, {"p": "[/]", "q": "[red]"}))
    verdict.judge([row])
    table.print_rows(some_rows()[0], [row])
    assert "N=3 p=[/] q=[red]" in capsys.readouterr().out


def test_a_ratio_of_times_that_lie_far_apart_is_none() -> None:
    eager, wild = times(4e-3), times(40.0, 0.45)
    rows_ = [
        a_row(times={"wick": times(2e-3), "eager": eager, "compile": wild}),
        a_row(times={"wick": wild, "eager": eager, "compile": eager}),
    ]
    verdict.judge(rows_)
    assert [table.cells(row, rows_)[5:7] for row in rows_] == [["2 x", "?"], ["?", "?"]]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("rich", [True, False])
def test_lines_are_broken_for_a_terminal_alone(monkeypatch, rich: bool) -> None:
    if not rich:
        monkeypatch.setitem(sys.modules, "rich", None)
    else:
        pytest.importorskip("rich")
    facts, _ = some_rows()
    row = a_row(case=Case({"N": 8}, {"T": "f32"}, {"note": "x" * 200}))
    row.verdict, row.why = "launch-bound", "44 % is the call " * 9
    out = io.StringIO()
    table.print_rows(facts, [row], out)
    said = [line for line in out.getvalue().splitlines() if "44 %" in line]
    assert len(said) == 1 and said[0].count("44 %") == 9 and "x" * 200 in said[0]


@pytest.mark.parametrize("width", range(60, 180, 3))
def test_a_number_and_its_unit_stay_on_one_line(monkeypatch, width: int) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERM", "dumb")
    facts, _ = some_rows()
    row = a_row()
    row.verdict, row.why = "launch-bound", "47 % is the call, 44 % the floor"
    out = Terminal()
    table.print_rows(facts, [row], out)
    said = out.getvalue()
    assert said.count("47 %") == said.count("44 %") == 1
    assert all(line.isprintable() for line in said.splitlines())


@pytest.mark.parametrize("width", [60, 80, 110, 200])
def test_every_figure_is_told_in_a_narrow_terminal(monkeypatch, width: int) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERM", "dumb")
    facts, made = some_rows()
    out = Terminal()
    table.print_rows(facts, made[:1], out)
    said = out.getvalue().split(made[0].signature)[1]
    assert max(map(len, said.splitlines())) <= width
    words_ = " ".join(said.split())
    for name, cell in zip(table.head(made[:1])[:-1], table.cells(made[0], made[:1])[:-1]):
        assert cell in words_ and (name in words_ or name in ("sizes", "cache"))
    assert all(word in words_ for word in table.said(made[0]).split())
    assert "…" not in said


def test_plots_are_written(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    facts, made = some_rows()
    paths = plots.write(str(tmp_path), facts, made)
    rooflines = ["roofline-flops-cpu", "roofline-bytes-cpu"]  # of local.a and of local.b
    names = [*rooflines, "sweep-local.a-f32-cpu", "sweep-local.b-f32-cpu"]
    assert sorted(os.listdir(tmp_path)) == sorted(f"{n}.{e}" for n in names for e in ("png", "svg"))
    for path in map(Path, paths):
        start = path.read_bytes()[:300]
        assert (
            start.startswith(b"\x89PNG") if path.suffix == ".png" else b"<svg" in path.read_bytes()
        )
    drawn = (tmp_path / "sweep-local.a-f32-cpu.svg").read_text()
    for text in (
        "bytes read and written",
        "time of a call",
        "floor",
        "wick",
        "eager",
        "&lt;other&gt;",
    ):
        assert text in drawn


def test_marks_of_an_axis_are_several_and_legends_have_only_what_is_there() -> None:
    pytest.importorskip("matplotlib")
    facts, made = some_rows()
    warm = [r for r in made if r.cache == "warm" and r.operator == "local.b"]
    figure = plots.figures(facts, [r for r in warm if r.moved_bytes > 1000])["roofline-cpu"]
    figure.canvas.draw()
    low, high = figure.axes[0].get_ylim()
    assert sum(low <= y <= high for y in figure.axes[0].get_yticks()) > 2
    assert [t.get_text() for t in figure.legends[0].get_texts()][-1] == "local.b"
    many = [a_row(operator=f"local.op{i}", flops=1e3 * (i + 1)) for i in range(25)]
    figure = plots.roofline(facts, many)
    looks = {(line.get_color(), line.get_marker()) for line in figure.axes[0].get_lines()[2:]}
    assert len(looks) == 25
    assert figure.axes[0].get_xlim()[0] < 1e11 / 2e10  # some of the slope can be seen


def test_the_copy_is_drawn_where_there_is_one_size() -> None:
    pytest.importorskip("matplotlib")
    facts, made = some_rows()
    facts["devices"][0]["copy"] = {"warm": [[8000], [1e-6]]}
    figure = plots.roofline(facts, [r for r in made if r.operator == "local.b"][2:3])
    copy = next(a for a in figure.axes[0].get_lines() if a.get_label() == "copy, warm")
    assert list(copy.get_xdata()) == [4000, 16000] and list(copy.get_ydata()) == [8e9, 8e9]


def test_a_sweep_needs_a_range() -> None:
    pytest.importorskip("matplotlib")
    facts, _ = some_rows()
    close = [a_row(read_bytes=n, written_bytes=n) for n in (4000, 4100)]
    assert list(plots.figures(facts, close)) == ["roofline-cpu"]


def test_shapes_of_as_many_bytes_are_not_joined() -> None:
    pytest.importorskip("matplotlib")
    made = [
        a_row(read_bytes=n, written_bytes=0, floor_s=t / 2, times={"wick": times(t)})
        for n, t in ((1000, 1e-6), (2000, 5e-6), (2000, 2e-6), (2000, 3e-6), (4000, 4e-6))
    ]
    figure = plots.sweep(made)
    drawn = figure.axes[0].get_lines()
    joined = [line for line in drawn if line.get_linestyle() != "None"]
    assert [list(line.get_xdata()) for line in joined] == 2 * [[1000, 2000, 4000]]
    assert list(joined[1].get_ydata()) == [1e-6, 2e-6, 4e-6]
    (alone,) = [line for line in drawn if line.get_linestyle() == "None"]
    assert sorted(alone.get_ydata()) == [3e-6, 5e-6] and set(alone.get_xdata()) == {2000}
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == ["floor", "wick", "middle half of the samples"]


def test_shapes_of_nearly_as_many_bytes_are_not_joined() -> None:
    pytest.importorskip("matplotlib")
    made = [
        a_row(read_bytes=n, written_bytes=0, floor_s=t / 2, times={"wick": times(t)})
        for n, t in ((1000, 1e-6), (2000, 5e-6), (2050, 2e-6), (2090, 3e-6), (2150, 4e-6))
    ]
    drawn = plots.sweep(made).axes[0].get_lines()
    joined = [line for line in drawn if line.get_linestyle() != "None"]
    assert [list(line.get_xdata()) for line in joined] == 2 * [[1000, 2050, 2150]]
    (alone,) = [line for line in drawn if line.get_linestyle() == "None"]
    assert list(alone.get_xdata()) == [2000, 2090]


def test_each_of_many_baselines_has_a_look_of_its_own() -> None:
    pytest.importorskip("matplotlib")
    names = ["wick", "out=", "dispatcher", "eager", "compile", *(f"other{i}" for i in range(8))]
    each = {name: times(1e-6 * (i + 1)) for i, name in enumerate(names)}
    made = [a_row(read_bytes=n, times=each) for n in (1000, 10**6)]
    drawn = [line for line in plots.sweep(made).axes[0].get_lines() if line.get_label() in each]
    assert len(drawn) == len(names)
    assert len({line.get_color() for line in drawn}) == len(names)
    assert len({(line.get_color(), line.get_marker()) for line in drawn}) == len(names)


def test_calls_that_move_nothing_are_not_drawn() -> None:
    pytest.importorskip("matplotlib")
    facts, _ = some_rows()
    assert plots.figures(facts, [a_row(read_bytes=0, written_bytes=0, floor_s=0.0)]) == {}


def test_nothing_on_a_plot_overlaps() -> None:
    """Marks of an axis, titles and the legend each have their own place."""
    pytest.importorskip("matplotlib")
    facts, made = some_rows()
    figures = plots.figures(facts, made)
    undeclared = [r for r in made if r.operator == "local.b"]
    figures["bytes"] = plots.roofline(facts, undeclared)
    for letters in (30, 50):  # and there are many of them
        named = [replace(made[0], operator=f"local.{str(i) * letters}") for i in range(8)]
        figures[f"names of {letters}"] = plots.roofline(facts, named)
    figures["a baseline's"] = plots.sweep(
        [replace(r, times={**r.times, "b" * 60: r.times["wick"]}) for r in made[:2]]
    )
    for name, figure in figures.items():
        figure.canvas.draw()
        inside = figure.bbox
        for axes in figure.axes:
            for labels in (axes.get_xticklabels(), axes.get_yticklabels()):
                boxes = [t.get_window_extent() for t in labels if t.get_visible() and t.get_text()]
                for a, b in itertools.pairwise(boxes):
                    assert not a.overlaps(b), name
            assert axes.get_xlabel(), name
            drawn = axes.get_tightbbox()
            legend = figure.legends[0].get_window_extent()
            assert not drawn.overlaps(legend), name
            assert inside.x0 <= legend.x0 and legend.x1 <= inside.x1 and legend.y0 >= 0, name
            assert inside.x0 <= drawn.x0 and drawn.x1 <= inside.x1 and drawn.y1 <= inside.y1, name


def test_the_report_is_one_file(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from wick.bench import page

    facts, made = some_rows()
    page.write(str(tmp_path / "report.html"), facts, made)
    text = (tmp_path / "report.html").read_text()
    assert (
        text.count("<svg") == 4
        and text.count("<table") == 2
        and text.count("<tr>") == 2 + 2 * len(made)
    )
    assert '<p class="warning">The machine was busy (load 9 on 2 CPUs): believe no time' in text
    assert text.count("The machine was busy") == 1
    assert "The machine was busy" not in page.render({**facts, "busy": ""}, made)
    assert "A &lt;CPU&gt;" in text and "no &lt;compiler&gt;" in text and "<other>" not in text
    for row in made:  # a bar is no warning where there is nothing to be warned of
        colour = table.COLOURS[row.verdict]
        alike = sum(table.COLOURS[r.verdict] == colour for r in made)
        assert text.count(f'<td class="{colour}"><span class="bar">') == alike
    assert "figure { margin: 1rem 0; overflow-x: auto; } svg { min-width: " in text
    for outside in ("<script", "<link", "<img", 'src="http', "url(http", "@import"):
        assert outside not in text
