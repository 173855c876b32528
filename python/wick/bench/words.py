"""words -- numbers as people read them"""

from __future__ import annotations

_TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
_LARGE = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def digits(x: float) -> str:
    """Three of them: 0.123, 1.23, 12.3, 123."""
    return f"{x:.3g}" if 0 < abs(x) < 100 else f"{x:.0f}"


def seconds(s: float) -> str:
    """12.3 µs"""
    for size, unit in _TIMES:
        if s >= size or unit == "ns":
            return f"{digits(s / size)} {unit}"
    return ""


def amount(x: float, unit: str) -> str:
    """41.0 GB/s of (41e9, "B/s")"""
    for size, prefix in _LARGE:
        if x >= size:
            return f"{digits(x / size)} {prefix}{unit}"
    return f"{digits(x)} {unit}"


def binary(n: float) -> str:
    """16 KiB of 16384"""
    for size, prefix in ((1 << 30, "Gi"), (1 << 20, "Mi"), (1 << 10, "Ki")):
        if n >= size:
            return f"{digits(n / size)} {prefix}B"
    return f"{n:g} B"


def percent(x: float) -> str:
    return f"{100 * x:.0f} %" if x >= 0.1 or x == 0 else f"{100 * x:.1f} %"
