"""plots -- the roofline, and times over sizes: matplotlib, PNG and SVG

matplotlib is an optional requirement (torch-wick[bench]); `require` says so where it is missing.
"""

from __future__ import annotations

import io
import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any

from . import words
from .rows import Row, Times

WIDTH = 7.2  # inches: a page's width
_HEIGHT, _LINE = 4.2, 0.19  # of a roofline with a short legend, and of a line of it
_HANDLE, _LETTER = 0.55, 0.075  # of a legend: what stands before a name, and a letter of it
_DPI = 150
_GREY = "#777777"
_BAND = {"alpha": 0.18, "lw": 0}  # from the first quartile to the third
_STYLES = {  # by contender: colour, marker, line
    "wick": ("#c8102e", "o", "-"),
    "out=": ("#ef8354", "s", "-"),
    "dispatcher": ("#8c564b", "P", "-"),
    "eager": ("#1f77b4", "^", "-"),
    "compile": ("#2ca02c", "D", "-"),
}
_FURTHER = tuple(  # of baselines: none has the colour of another until there are nine
    zip(
        ("#9467bd", "#e377c2", "#17becf", "#bcbd22", "#006d77", "#1b7837", "#000000", "#5c6bc0"),
        "v<>Xphd*",
    )
)
_MARKERS = "os^Dv<>P"  # of operators in a roofline, once all colours were used
_ALIKE = 1.05  # factor between bytes, up to which they are as many to the eye
_SWEEP = 2  # factor between the least and the most bytes, from which on there is something to see


class PlotsError(Exception):
    """matplotlib is not there."""


def require() -> None:
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise PlotsError(
            "plots and the HTML report need matplotlib: pip install 'torch-wick[bench]' (or matplotlib)"
        ) from None


def _pyplot() -> Any:
    require()
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    plt.rcParams.update(
        {
            "font.size": 9,
            "axes.grid": True,
            "grid.color": "#dddddd",
            "grid.linewidth": 0.6,
            "axes.axisbelow": True,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "legend.frameon": False,
            "svg.fonttype": "none",
            "svg.hashsalt": "wick",  # the same rows give the same file
            "figure.max_open_warning": 0,  # there are as many as operators
        }
    )
    return plt


def _style(name: str, further: dict[str, tuple[str, str]]) -> tuple[str, str]:
    if name in _STYLES:
        return _STYLES[name][:2]
    return further.setdefault(name, _FURTHER[len(further) % len(_FURTHER)])


# ---- times over sizes ----


def _bytes_axis(axis: Any) -> None:
    axis.set_xscale("log", base=2)
    axis.xaxis.set_major_formatter(lambda x, _: words.binary(x))


def _marked(axis: Any, write: Callable[[float], str]) -> None:
    """A logarithmic axis with marks in words: at every decade, and within them where those are few."""
    from matplotlib.ticker import LogLocator

    low, high = axis.get_view_interval()
    decades = math.log10(high / low)
    within = (1.0,) if decades > 3 else (1.0, 2.0, 5.0) if decades > 1 else tuple(range(1, 10))
    axis.set_major_locator(LogLocator(subs=within, numticks=12))
    axis.set_major_formatter(lambda value, _: write(value))
    axis.set_tick_params(which="minor", length=0)


def _spaced(axis: Any, values: Sequence[float]) -> None:
    """A few marks on an axis of bytes, at powers of two."""
    low, high = math.floor(math.log2(min(values))), math.ceil(math.log2(max(values)))
    step = max(1, -(-(high - low) // 4))
    axis.set_xticks([2.0**k for k in range(low, high + 1, step)])
    axis.minorticks_off()


def _lowest(
    points: Sequence[tuple[int, Any]], height: Callable[[Any], float]
) -> tuple[list[tuple[int, Any]], list[tuple[int, Any]]]:
    """Of points (bytes, what), by bytes, the lowest at each number of bytes, and the others. Several shapes
    may have as many bytes, or nearly, and a line through all of them would go straight up and down."""
    best: list[tuple[int, Any]] = []
    others = []
    first = 0.0  # of those that are alike
    for point in points:
        if best and point[0] <= _ALIKE * first:
            best[-1], other = sorted((best[-1], point), key=lambda p: height(p[1]))
            others.append(other)
        else:
            first = point[0]
            best.append(point)
    return best, others


def _curve(
    panel: Any, points: Sequence[tuple[int, Times]], name: str, colour: str, marker: str
) -> None:
    """Of one contender: a line through the best of each number of bytes, the others beside it."""
    best, others = _lowest(points, lambda t: t.median_s)
    look = {"color": colour, "marker": marker, "ms": 4}
    x, times = zip(*best)
    panel.plot(x, [t.median_s for t in times], **look, lw=1.3, label=name)
    panel.plot([x for x, _ in others], [t.median_s for _, t in others], **look, ls="none")
    panel.fill_between(
        x, [t.first_s for t in times], [t.third_s for t in times], color=colour, **_BAND
    )


def sweep(rows: Sequence[Row]) -> Any:
    """Of one operator, one choice of types and one device: a panel per state of the caches."""
    plt = _pyplot()
    caches = [cache for cache in ("warm", "cold") if any(r.cache == cache for r in rows)]
    figure, panels = plt.subplots(
        1, len(caches), figsize=(WIDTH, 3.2), sharey=True, squeeze=False, layout="constrained"
    )
    figure.get_layout_engine().set(w_pad=0.12)
    further: dict[str, tuple[str, str]] = {}
    for panel, cache in zip(panels[0], caches):
        shown = sorted((r for r in rows if r.cache == cache), key=lambda r: r.moved_bytes)
        _bytes_axis(panel)
        panel.set_yscale("log")
        floors, _ = _lowest([(r.moved_bytes, r.floor_s) for r in shown], lambda floor: floor)
        panel.plot(*zip(*floors), color=_GREY, linestyle="--", label="floor")
        for name in dict.fromkeys(n for r in shown for n in r.times):
            points = [(r.moved_bytes, r.times[name]) for r in shown if name in r.times]
            _curve(panel, points, name, *_style(name, further))
        panel.fill_between([], [], [], color=_GREY, **_BAND, label="middle half of the samples")
        _spaced(panel, [r.moved_bytes for r in shown])
        panel.set_title(f"{cache} caches", fontsize=9)
        panel.set_xlabel("bytes read and written")
    panels[0][0].set_ylabel("time of a call")
    _marked(panels[0][0].yaxis, words.seconds)
    _legend(figure, panels[0][0], 6)
    first = rows[0]
    figure.suptitle(f"{first.operator}, {first.types}, {first.device}", fontsize=10)
    return figure


# ---- the roofline ----


def roofline(facts: Mapping[str, Any], rows: Sequence[Row]) -> Any:
    """Of one device. Operators that declare flops: rate over intensity, under the copy's slope and the
    matrix product's ceiling. Others: bandwidth over bytes, under the copy's."""
    device = next(d for d in facts["devices"] if d["device"] == rows[0].device)
    return _by_flops(device, rows) if all(r.flops for r in rows) else _by_bytes(device, rows)


def _scatter(panel: Any, rows: Sequence[Row], point: Any) -> None:
    plt = _pyplot()
    cycle = plt.rcParams["axes.prop_cycle"].by_key()["color"]
    styles: dict[str, dict[str, Any]] = {}
    for row in rows:
        n = len(styles)
        marker = _MARKERS[n // len(cycle) % len(_MARKERS)]
        own = {"color": cycle[n % len(cycle)], "marker": marker, "ms": 5, "mew": 1.2, "ls": "none"}
        style = styles.setdefault(row.operator, own)
        x, y = point(row)
        panel.plot(x, y, **style, mfc=style["color"] if row.cache == "warm" else "white")
    for name, style in styles.items():
        panel.plot([], [], **style, label=name)
    if any(row.cache == "cold" for row in rows):
        panel.plot([], [], "o", color=_GREY, label="warm", ms=5)
        panel.plot([], [], "o", color=_GREY, mfc="white", label="cold", ms=5)


def _by_flops(device: Mapping[str, Any], rows: Sequence[Row]) -> Any:
    plt = _pyplot()
    figure, panel = plt.subplots(figsize=(WIDTH, _HEIGHT), layout="constrained")
    intensity = [(r.flops or 0.0) / r.moved_bytes for r in rows]
    slope = max(device["copy_bytes_per_s"].values())
    ceilings = {name: rate for name, rate in device["flops_per_s"].items() if rate}
    top = max(ceilings.values(), default=max(intensity) * slope)
    knee = top / slope  # always in sight, with some of the slope before it
    low, high = min(*intensity, knee) / 4, max(*intensity, knee) * 4
    panel.plot(
        [low, knee],
        [low * slope, top],
        color=_GREY,
        lw=1.5,
        label=f"copy, {words.amount(slope, 'B/s')}",
    )
    for (name, rate), line in zip(ceilings.items(), ("-.", ":", "--", (0, (6, 2)))):
        said = f"matrix product {name}, {words.amount(rate, 'flop/s')}"
        panel.plot([rate / slope, high], [rate, rate], color=_GREY, lw=1.5, ls=line, label=said)
    _scatter(panel, rows, lambda r: (r.flops / r.moved_bytes, r.flops / r.best_s))
    panel.set_xscale("log")
    panel.set_yscale("log")
    panel.set_xlim(low, high)
    _marked(panel.yaxis, lambda y: words.amount(y, "flop/s"))
    _marked(panel.xaxis, lambda x: f"{x:g}")
    panel.set_xlabel("declared flops per byte of the signature (flop/B)")
    panel.set_ylabel("rate of the operator")
    return _finish(figure, panel, device, "above the slope: the data came from a cache")


def _by_bytes(device: Mapping[str, Any], rows: Sequence[Row]) -> Any:
    plt = _pyplot()
    figure, panel = plt.subplots(figsize=(WIDTH, _HEIGHT), layout="constrained")
    for what, name, lines in (("copy", "copy", ("-", "--")), ("update", "in place", (":", "-."))):
        for cache, (moved, seconds) in device.get(what, {}).items():
            rates = [n / s for n, s in zip(moved, seconds)]
            if len(moved) == 1:  # a point is no line
                moved, rates = [moved[0] / _SWEEP, moved[0] * _SWEEP], 2 * rates
            line = lines[cache != "warm"]
            panel.plot(moved, rates, color=_GREY, linestyle=line, label=f"{name}, {cache}")
    _bytes_axis(panel)
    _scatter(panel, rows, lambda r: (r.moved_bytes, r.moved_bytes / r.best_s))
    panel.set_yscale("log")
    _spaced(panel, [r.moved_bytes for r in rows])
    _marked(panel.yaxis, lambda y: words.amount(y, "B/s"))
    panel.set_xlabel("bytes read and written")
    panel.set_ylabel("bytes per second")
    return _finish(figure, panel, device, "under the copy: no flops are declared")


def _finish(figure: Any, panel: Any, device: Mapping[str, Any], remark: str) -> Any:
    panel.set_title(f"{device['device']}: {device['model']} ({remark})", fontsize=9)
    _legend(figure, panel, 3)
    return figure


def _legend(figure: Any, panel: Any, most: int) -> None:
    """Below, in as many columns as there is room for; the figure grows by what it needs beyond a line."""
    handles, labels = panel.get_legend_handles_labels()
    room = int(WIDTH / (_HANDLE + _LETTER * max(map(len, labels))))
    columns = max(1, min(most, len(labels), room))
    figure.legend(handles, labels, loc="outside lower center", ncols=columns)
    lines = -(-len(labels) // columns)
    figure.set_figheight(figure.get_figheight() + _LINE * (lines - 1))


# ---- files ----


def figures(facts: Mapping[str, Any], rows: Sequence[Row]) -> dict[str, Any]:
    """Every plot of a run by its file's name, without ending."""
    found: dict[str, Any] = {}
    rows = [r for r in rows if r.moved_bytes > 0]  # the axes are logarithms
    for device in sorted({r.device for r in rows}):
        own = [r for r in rows if r.device == device]
        for by, declared in (("flops", True), ("bytes", False)):
            shown = [r for r in own if bool(r.flops) == declared]
            if shown:
                which = [by] * (len(shown) < len(own))  # only where there are both
                found[_file_name("roofline", *which, device)] = roofline(facts, shown)
    by = lambda r: (r.operator, r.types, r.device)  # noqa: E731
    for (operator, types, device), group in groupby(sorted(rows, key=by), key=by):
        shown = list(group)
        moved = [r.moved_bytes for r in shown]
        if max(moved) >= _SWEEP * min(moved):
            found[_file_name("sweep", operator, types, device)] = sweep(shown)
    return found


def sweeps_of(rows: Sequence[Row]) -> list[str]:
    """Names of the plots of these rows' sweeps."""
    return list(dict.fromkeys(_file_name("sweep", r.operator, r.types, r.device) for r in rows))


def _file_name(*parts: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.]+", "-", "-".join(parts)).strip("-")


def svg(figure: Any) -> str:
    """The figure as an <svg> element, for a page; it is closed."""
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None})
    _pyplot().close(figure)
    return text.getvalue()[text.getvalue().index("<svg") :]


def write(folder: str, facts: Mapping[str, Any], rows: Sequence[Row]) -> list[str]:
    """NAME.png and NAME.svg of every plot; their paths."""
    plt = _pyplot()
    paths = []
    for name, figure in figures(facts, rows).items():
        for ending in ("png", "svg"):
            paths.append(os.path.join(folder, f"{name}.{ending}"))
            metadata = {"Date": None} if ending == "svg" else None
            figure.savefig(paths[-1], dpi=_DPI, metadata=metadata)
        plt.close(figure)
    return paths
